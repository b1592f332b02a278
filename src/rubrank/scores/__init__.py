"""Scores of rollouts on criteria; missing with a reason."""
