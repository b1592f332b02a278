"""`rubrank train`: from a config file to a run of TRL's GRPOTrainer, `run(make_plan(load_job("config.yaml")))`.

config.py          the config file: every key and its default
plan.py            checks everything before a model is loaded, and describes the run
run.py             makes the trainer and runs it
benchmarks.py      benchmarks during the run

data.py            rows of files and hub datasets → prompts with rubrics; their order in the stages of the run; batches
policy.py          checks the model before it is loaded: its files, prompts, options, adapters and precision
trl_config.py      makes TRL's GRPOConfig of a plan, and tries it before the model is loaded
checks.py          checks installed packages, names, values for TRL and PEFT, and what is imported by its path
folder.py          the folder of a run; checks whether a run may start or continue there
"""
