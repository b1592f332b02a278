"""Instructions of IFEval."""
