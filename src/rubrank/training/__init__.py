"""Rewards for trainers. An adapter for a new trainer is a few dozen lines over one of three shapes: docs/trainers.md.

    engine.py        the core: the groups of a step → rewards
    step_parts.py    fuses a step in parts if every query brings its own criteria
    controls.py      attributes whose influence on the reward is removed, and measurements of texts
    metrics.py       the numbers that are logged about a step
    alarm.py         signs of reward hacking
    rewind.py        removes records that a resumed run will write again
    evolution.py     rubrics that get new items during a run with TRL
    config.py        an engine from a settings file, for trainers that only take the path of a function

    rollouts.py      prompts and completions → rollouts
    queries.py       one group → a list of rewards
    flat_batch.py    a flat batch, in one process or split over many
    barrier.py       one sample at a time; each is graded when it arrives, and fused when its group is complete

    frameworks/      the adapters; docs/frameworks.md
    trl.py, verl/    the import paths that documents and configurations name; the code is in frameworks/
    job/             `rubrank train`: a whole run of TRL's GRPOTrainer from one file

Nothing here imports torch or a trainer before it is used.
"""
