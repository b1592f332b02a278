"""Scores of a batch of groups → one reward for each rollout."""
