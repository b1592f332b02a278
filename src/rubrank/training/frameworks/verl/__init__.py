"""verl: a trainer mixin that fuses, and two reward managers for its reward loop; docs/verl.md.

__main__.py      `python -m verl.trainer.main_ppo` with a checkpoint and a clear message if the judges fail
plugin.py        loaded by verl in every process; registers our trainer modes when verl's trainer is imported
trainer.py       the trainer modes `rubrank_…`: fuse the scores of a whole batch
ray_trainer.py   verl's older trainer
checkpoint.py    save the last complete step before a run ends because its judges failed
reward_loop.py   the reward managers `RubricScores` and `RubricBarrier`
scores.py        grade single rollouts; write their scores as text and read them back
settings.py      verl's configuration and rows, read for rubrank
"""
