"""Rewards for trainers. `rubrank.training.engine` has the core; here it meets the ways in which trainers ask.

    one_group.py     (a) the trainer hands over one group, and takes a list of rewards
    flat_batch.py    (b) a flat batch, grouped by keys or by position, on one process or cut over many
    barrier.py       (c) one sample at a time; a group waits until it is complete

    controls.py      attributes that are controlled from a step on
    metrics.py       what is logged about a step
    making.py        prompts and completions → rollouts
    rewinding.py     records of a run that is resumed

    configured.py    an engine from a file of settings, for trainers that only take the path of a function
    queries.py       labels and rows → prompts with their rubrics

    trl/, verl/      TRL's GRPOTrainer and verl, shapes (b) and (c)
    openrlhf.py, slime.py, tinker.py, verifiers.py, prime_rl.py, art.py, atropos.py, areal.py, open_instruct.py, roll.py
                     shape (a); episodes.py  what verifiers 0.4 and prime-rl share
    swift.py, skyrl.py, nemo_rl.py, easyr1.py, rllm.py: shape (b); nemo_gym.py: shape (c); docs/frameworks.md
    responses.py     requests of NeMo Gym, in OpenAI's Responses API, for its adapter and for the service
    turns.py         tokens and masks of agents → messages; progress.py  how good the policy is

An adapter for another trainer is a few dozen lines over one of the three: docs/trainers.md. Nothing here imports torch;
what a trainer needs of its own is imported when it is used.
"""
