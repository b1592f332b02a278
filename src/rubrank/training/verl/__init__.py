"""What verl's configurations and launch scripts name; the adapter itself is `rubrank.training.frameworks.verl`."""
