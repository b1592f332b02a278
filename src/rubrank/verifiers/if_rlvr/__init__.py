"""Constraints of IF-RLVR."""
