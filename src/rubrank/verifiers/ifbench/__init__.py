"""Instructions of IFBench."""
