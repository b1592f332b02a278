"""The rules that compile prompts, one module per subject.

A rule of an English prompt is a function that yields the constraints of one sentence; it also sees all sentences of the
prompt. The examples in its docstring are tests (`tests/drafting/test_rules.py`): a prompt, and below it everything that
the rule compiles from it.
"""
