"""The inner half of the sandbox. Uses the standard library only: `start.py` runs it without importing rubrank."""
