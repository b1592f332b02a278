"""Comparing a count with what was asked: "at least 3", "less than 50", "between 2 and 4"."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from rubrank.verifiers.verifier import Verdict, missing

MOST = 10_000_000
"""More words, lines or letters than a response can have: such a number is a slip."""
Count: TypeAlias = Annotated[int, Field(ge=0, le=MOST)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]

Relation: TypeAlias = Literal["at least", "at most", "exactly", "more than", "less than", "around"]


_TESTS: dict[Relation, Callable[[float, float], bool]] = {
    "at least": operator.ge,
    "at most": operator.le,
    "exactly": operator.eq,
    "more than": operator.gt,
    "less than": operator.lt,
    # "around 100": 90 to 110
    "around": lambda count, asked: abs(count - asked) <= max(1.0, round(0.1 * asked)),
}


def holds(count: float, relation: Relation, asked: float) -> bool:
    """Does the count satisfy the relation?"""
    return _TESTS[relation](count, asked)


_TRANSLATIONS: dict[str, Relation] = {
    **dict.fromkeys(("au moins", "al menos", "como mínimo", "以上", "至少", "不少于"), "at least"),
    **dict.fromkeys(("moins de", "menos de", "未満", "少于"), "less than"),
    **dict.fromkeys(
        ("au plus", "como máximo", "以下", "以内", "至多", "最多", "不超过"), "at most"
    ),
    **dict.fromkeys(("plus de", "más de", "多于", "超过"), "more than"),
    **dict.fromkeys(("exactement", "exactamente", "ちょうど", "恰好", "正好"), "exactly"),
    **dict.fromkeys(("environ", "alrededor de", "約", "大约", "左右"), "around"),
}


def translate_relation(word: object) -> object:
    """The relation in English: "au moins" and "以上" become "at least"; other values are returned unchanged."""
    if not isinstance(word, str):
        return word
    return _TRANSLATIONS.get(word.strip().lower(), word)


AnyRelation: TypeAlias = Annotated[Relation, BeforeValidator(translate_relation)]
"""A relation in any of the languages of the public data."""


def compare_count(count: int, unit: str, relation: Relation, asked: float) -> tuple[bool, str]:
    """The verdict with its reason: `3 bullets found, at least 4 required`."""
    plural = unit if count == 1 else f"{unit}s"
    return holds(count, relation, asked), f"{count} {plural} found, {relation} {asked:g} required"


def check_count_parameters(params: Any) -> str | None:
    """What is wrong with `relation` and `count`, or `low` and `high`; None if a response can satisfy them."""
    count = params.count
    low = params.low
    high = params.high
    if count is None and low is None and high is None:
        return "given: `count`, or `low` and `high`"
    if count is not None and (low is not None or high is not None):
        return "`count`, or `low` and `high`: not both"
    if low is not None and high is not None and low > high:
        return "with `low` not above `high`"
    if count == 0 and params.relation == "less than":
        return "possible: nothing is less than 0"
    return None


def compare_range(
    n: int, unit: str, relation: Relation, count: int | None, low: int | None, high: int | None
) -> Verdict | tuple[bool, str]:
    """The verdict on a count: against `relation count`, or between `low` and `high` (either may be open)."""
    plural = unit
    if n != 1:
        plural = f"{unit[:-1]}ies" if unit.endswith("y") else f"{unit}s"
    if count is not None:
        return holds(n, relation, count), f"{n} {plural} found, {relation} {count} required"
    if low is None and high is None:
        return missing("no number is asked for: give `count`, or `low` and `high`")
    if low is None:
        expected = f"at most {high}"
    elif high is None:
        expected = f"at least {low}"
    else:
        expected = f"{low} to {high}"
    in_range = (low or 0) <= n and (high is None or n <= high)
    return in_range, f"{n} {plural} found, {expected} required"
