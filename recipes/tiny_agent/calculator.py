"""The tool of the tiny agent."""

from __future__ import annotations


def add(a: int, b: int) -> str:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return str(int(a) + int(b))
