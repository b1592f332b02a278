"""The laboratory: a task family in which everything is known, and the experiments on it. See ../README.md."""
