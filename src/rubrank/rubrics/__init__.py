"""Rubric files, and what can be wrong with a rubric."""
