"""The criteria that the paper names."""
