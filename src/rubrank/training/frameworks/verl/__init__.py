"""verl: reward managers that grade rollouts while others are generated, and trainer modes that fuse; docs/verl.md.

There are two ways to get rewards. verl's reward workers call a manager with one rollout at a time:

    RubricScores     grades the rollout ──► scores as text, in verl's queue ──► a trainer mode `rubrank_…` fuses a batch
    RubricBarrier    sends the rollout to one actor, which waits for its group ──► fused rewards, for any trainer

    plugin.py        loaded by verl in every process; registers our trainer modes when verl's trainer is imported
    trainer.py       the trainer modes `rubrank_…`: fuse the scores of a whole batch
    checkpoint.py    save the last complete step before a run ends because its judges failed
    reward_loop.py   the reward managers `RubricScores` and `RubricBarrier`
    scores.py        score single rollouts; write their scores as text and read them back
    settings.py      verl's configuration and rows, read for rubrank

`rubrank.training.verl` has what verl's configurations and launch scripts name: the reward managers, and verl's main
with a clear message if the judges fail (`python -m rubrank.training.verl`).
"""
