"""Rubric × rollouts → score table."""
