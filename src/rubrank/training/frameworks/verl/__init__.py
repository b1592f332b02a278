"""verl: a trainer mixin that fuses, and two reward managers for its reward loop; docs/verl.md.

__main__.py      `python -m verl.trainer.main_ppo` with a checkpoint and a clear message if the judges fail
plugin.py        loaded by verl in every process; registers our trainer modes when verl's trainer is imported
trainer.py       the trainer modes `rubrank_…`: fuse the scores of a whole batch
ray_trainer.py   verl's older trainer
checkpoint.py    save the last whole step before a run ends because of its judges
reward_loop.py   the reward managers `RubricScores` and `RubricBarrier`
scores.py        grading single rollouts, and their scores as text and back
settings.py      verl's configuration and rows, read for rubrank
"""
