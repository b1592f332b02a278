"""The inner half of the sandbox: programs of the standard library alone, started by `start.py` without rubrank."""
