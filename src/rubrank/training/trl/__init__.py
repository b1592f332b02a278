"""TRL: a reward function that sees whole groups."""
