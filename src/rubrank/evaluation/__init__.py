"""The sixteen benchmarks of the paper, scored on plain files or run through Inspect, and the capability table."""
