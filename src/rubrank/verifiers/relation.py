"""Comparing a count with what was asked: "at least 3", "less than 50", "between 2 and 4"."""

from __future__ import annotations

from typing import Literal, TypeAlias

Relation: TypeAlias = Literal["at least", "at most", "exactly", "more than", "less than", "around"]

_WITHIN = 0.1  # "around 100" accepts 90 to 110


def holds(count: float, relation: Relation, asked: float) -> bool:
    """Does the count satisfy the relation?"""
    return {
        "at least": count >= asked,
        "at most": count <= asked,
        "exactly": count == asked,
        "more than": count > asked,
        "less than": count < asked,
        "around": abs(count - asked) <= max(1.0, round(_WITHIN * asked)),
    }[relation]


def counted(count: int, unit: str, relation: Relation, asked: float) -> tuple[bool, str]:
    """The verdict with its reason: `3 bullets found, at least 4 asked`."""
    plural = unit if count == 1 else f"{unit}s"
    return holds(count, relation, asked), f"{count} {plural} found, {relation} {asked:g} asked"
