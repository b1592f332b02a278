"""Shapes (b) and (c) of a trainer's calls: rollouts that do not come as whole groups.

flat_batch.py    (b) a flat batch, in one process or split over many
barrier.py       (c) one sample at a time: a group waits until it is complete
arrivals.py      grading of a group whose rollouts arrive one by one, for (c)
"""
