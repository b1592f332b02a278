"""`rubrank train`: from a config file to a run of TRL's GRPOTrainer, `run(make_plan(load_job("config.yaml")))`.

config.py          the config file: every key and its default
plan.py            everything checked and put together before a model is loaded
description.py     a plan in words
run.py             the trainer, and its run
benchmarks.py      benchmarks during the run

data.py            rows of files and hub datasets → prompts with rubrics, and their order in the run
batches.py         how a batch is split over devices
policy.py          is the model there, and is everything installed
precision.py       float32 on a CPU
components.py      modules, tools, environments and rollout functions by their dotted paths
lora.py            model.lora as PEFT's LoraConfig
trl_arguments.py   a plan as TRL's GRPOConfig
trl_values.py      is a value one that TRL or PEFT can use
rehearsal.py       what the trainer would only notice after the model was loaded
folder.py          the folder of a run: what it holds, and whether a run may continue there
"""
