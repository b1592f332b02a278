"""Comparing a count with what was asked: "at least 3", "less than 50", "between 2 and 4"."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from rubrank.verifiers.shared.word_tables import read_table
from rubrank.verifiers.verifier import Verdict, missing

# More words, lines or letters than a response can have: such a number is a slip
_MOST_COUNT = 10_000_000
Count: TypeAlias = Annotated[int, Field(ge=0, le=_MOST_COUNT)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Relation: TypeAlias = Literal["at least", "at most", "exactly", "more than", "less than", "around"]
_TESTS: dict[Relation, Callable[[float, float], bool]] = {
    "at least": operator.ge,
    "at most": operator.le,
    "exactly": operator.eq,
    "more than": operator.gt,
    "less than": operator.lt,
    # "around 100" is 90 to 110; "around 3" is 2 to 4
    "around": lambda count, required: abs(count - required) <= max(1.0, round(0.1 * required)),
}


def holds(count: float, relation: Relation, required: float) -> bool:
    """Does the count satisfy the relation?"""
    return _TESTS[relation](count, required)


def translate_relation(word: object) -> object:
    """Return the relation in English: "au moins" and "以上" become "at least"; other values are returned unchanged."""
    for relation, translations in read_table("relations"):
        if isinstance(word, str) and word.strip().lower() in translations.split(", "):
            return relation
    return word


AnyRelation: TypeAlias = Annotated[Relation, BeforeValidator(translate_relation)]
"""A relation in any of the languages of the public data."""


def compare_count(count: int, unit: str, relation: Relation, required: float) -> tuple[bool, str]:
    """Return whether the count satisfies the relation, and the reason: `3 bullets found, at least 4 required`."""
    units = _pluralise(unit, count)
    reason = f"{count} {units} found, {relation} {required:g} required"
    return holds(count, relation, required), reason


def _pluralise(unit: str, count: int) -> str:
    """Write the unit as it stands after the count: 1 entry, 2 entries, 2 times 'river', 2 “a”."""
    is_only_quoted = unit[0] in "“'\""
    if count == 1 or is_only_quoted:
        return unit
    noun, quote, quoted = unit.partition(" '")
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return plural + quote + quoted


def check_count_parameters(params: Any) -> str | None:
    """Check the parameters of a verifier that counts; `params` has `relation`, `count`, `low` and `high`.

    Returns None if a response can satisfy them, else what they must be. The error says "params must be …", so that the
    text continues that sentence.
    """
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
    count: int,
    unit: str,
    relation: Relation,
    required: int | None,
    low: int | None,
    high: int | None,
) -> Verdict | tuple[bool, str]:
    """Return the verdict on a count, with its reason.

    The count is compared with `required`, which is the verifier's parameter `count`; if that is None, with `low` and
    `high`, of which one may be None. Without any of the three the verdict is missing.
    """
    units = _pluralise(unit, count)
    if required is not None:
        reason = f"{count} {units} found, {relation} {required} required"
        return holds(count, relation, required), reason
    if low is None and high is None:
        return missing("no number is asked for: give `count`, or `low` and `high`")
    if low is None:
        allowed = f"at most {high}"
    elif high is None:
        allowed = f"at least {low}"
    else:
        allowed = f"{low} to {high}"
    in_range = (low or 0) <= count and (high is None or count <= high)
    return in_range, f"{count} {units} found, {allowed} required"
