"""The inner half of the sandbox. Uses the standard library only, because it runs without importing rubrank.

launcher.py    builds the walls with kernel.py and filters.py, then runs the command
children.py    what our own programs inside the sandbox share
attacks.py     the attacks with which `sandbox_check` tests the walls
"""
