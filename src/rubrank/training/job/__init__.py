"""From a config (`job.config`) to a run of TRL's GRPOTrainer: `run(make_plan(load_job("config.yaml")))`.

sources.py      rows of files and hub datasets → prompts with rubrics
mixing.py       in which order a run takes the prompts: proportions, stages, one seed
batching.py     how a batch is cut over devices
policy.py       is the model there, and is everything installed
named.py        modules, tools, environments and rollout functions by their dotted paths
values.py       is a value one that TRL or PEFT can use
adapters.py     model.lora as PEFT's LoraConfig
arguments.py    a plan as TRL's GRPOConfig
folder.py       the folder of a run: what it holds, and whether a run may go on from there
plan.py         all of it checked and put together, before a model is loaded
describing.py   a plan in words
running.py      the trainer, and its run
"""
