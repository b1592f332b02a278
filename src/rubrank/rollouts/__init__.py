"""Files and rows of public shapes → groups of rollouts."""
