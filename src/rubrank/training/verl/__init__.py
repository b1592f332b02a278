"""The paths that verl configurations and launch scripts name; the code is in `rubrank.training.frameworks.verl`."""
