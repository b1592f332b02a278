"""Gates: criteria that stop the reward of a broken answer.

Their limits were adjusted while reading good answers and one half of the broken answers of
`benchmarks/broken_answers.py`; docs/gates.md has the shares of false alarms, and of catches in the other half.
"""
