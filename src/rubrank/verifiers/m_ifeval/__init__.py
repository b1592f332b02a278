"""Instructions of M-IFEval, one file a language."""
