"""The aggregation rules: score table → one number for each rollout. One file a rule."""
