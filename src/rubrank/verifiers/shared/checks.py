"""Checks on a text, built from measures and tests, and their combinations; see `rubrank.verifiers.shared.primitives`.

>>> from rubrank.verifiers.shared.primitives import count, number
>>> short = every("sentence", holds(count("word"), number("at most", 4)))
>>> short(Text("This is short. This one is rather longer."))
Holds(ok=False, reason='sentence 2: 5 words, at most 4 required')
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias

from rubrank.texts.text import Text
from rubrank.verifiers.shared.primitives import Level, Test, TextMeasure, fold, parts, plural
from rubrank.verifiers.shared.relation import Relation
from rubrank.verifiers.shared.relation import holds as compares

Order: TypeAlias = Literal["increasing", "decreasing", "same", "different"]


class Holds(NamedTuple):
    """Whether a check holds, and why."""

    ok: bool
    reason: str


Check: TypeAlias = Callable[[Text], Holds]


# ---- checks ---------------------------------------------------------------------------------------------------------


def holds(measure: TextMeasure, test: Test) -> Check:
    """The measure of the text passes the test."""

    def check(text: Text) -> Holds:
        value = measure(text)
        if value is None:
            measured = f"no {measure.name}"
        elif isinstance(value, str):
            measured = f"{measure.name} is {value[:60]!r}" + (" …" if len(value) > 60 else "")
        else:
            measured = f"{value:g} {measure.name}"
        return Holds(test(value), f"{measured}, {test.name} required")

    return check


def every(level: Level, check: Check, *, vacuous: bool = False) -> Check:
    """Every unit passes, and there is one; `vacuous`: none at all is fine too."""

    def over(text: Text) -> Holds:
        count = 0
        for part in parts(text, level):
            count += 1
            result = check(part)
            if not result.ok:
                return Holds(False, f"{level} {count}: {result.reason}")
        if not count:
            return Holds(vacuous, f"no {plural(level)}")
        return Holds(True, f"all {count} {plural(level)} pass")

    return over


def some(level: Level, check: Check) -> Check:
    """At least one unit passes."""
    return _count_passing(level, check, "at least", 1)


def none(level: Level, check: Check) -> Check:
    """No unit passes."""
    return _count_passing(level, check, "exactly", 0)


def at_least(level: Level, check: Check, n: int) -> Check:
    """At least n units pass."""
    return _count_passing(level, check, "at least", n)


def at_most(level: Level, check: Check, n: int) -> Check:
    """At most n units pass."""
    return _count_passing(level, check, "at most", n)


def exactly(level: Level, check: Check, n: int) -> Check:
    """Exactly n units pass."""
    return _count_passing(level, check, "exactly", n)


def _count_passing(level: Level, check: Check, relation: Relation, n: int) -> Check:
    def over(text: Text) -> Holds:
        results = [check(part).ok for part in parts(text, level)]
        passing = sum(results)
        reason = f"{passing} of {len(results)} {plural(level)} pass, {relation} {n} required"
        return Holds(compares(passing, relation, n), reason)

    return over


_STEP: dict[str, Callable[[Any, Any], bool]] = {
    "increasing": operator.lt,
    "decreasing": operator.gt,
    "same": operator.eq,
}


def in_turn(level: Level, checks: Sequence[Check], relation: Relation, n: int) -> Check:
    """As many units as checks, each held against its own; so many of them pass."""

    def over(text: Text) -> Holds:
        units = list(parts(text, level))
        if len(units) != len(checks):
            return Holds(False, f"{len(units)} {plural(level)}, {len(checks)} required")
        results = [check(unit) for check, unit in zip(checks, units, strict=True)]
        passing = sum(result.ok for result in results)
        if compares(passing, relation, n):
            return Holds(True, f"{passing} of {len(results)} {plural(level)} as required")
        for number, result in enumerate(results, 1):
            if not result.ok:
                return Holds(False, f"{level} {number}: {result.reason}")
        return Holds(False, f"{passing} pass")

    return over


def in_order(level: Level, inner: TextMeasure, order: Order) -> Check:
    """The measures of the units, in reading order, increase, decrease, are the same or all different."""

    def check(text: Text) -> Holds:
        values = [fold(v) if isinstance(v, str) else v for v in map(inner, parts(text, level))]
        if None in values:
            return Holds(False, f"no {inner.name} in {level} {values.index(None) + 1}")
        reason = f"{inner.name} of the {plural(level)} {order}"
        if order == "different":
            return Holds(len(set(values)) == len(values), reason)
        for number, (previous, value) in enumerate(pairwise(values), 2):
            if not _STEP[order](previous, value):
                return Holds(False, f"{reason}: not at {level} {number}")
        return Holds(True, reason)

    return check


# ---- logic ----------------------------------------------------------------------------------------------------------


def both(*checks: Check) -> Check:
    """Every check holds; the reason is that of the first that does not."""

    def check_all(text: Text) -> Holds:
        results = [check(text) for check in checks]
        for result in results:
            if not result.ok:
                return result
        return Holds(True, "; ".join(result.reason for result in results))

    return check_all


def either(*checks: Check) -> Check:
    """One check holds at least."""

    def check_any(text: Text) -> Holds:
        results = [check(text) for check in checks]
        for result in results:
            if result.ok:
                return result
        return Holds(False, "none of: " + "; ".join(result.reason for result in results))

    return check_any


def negated(check: Check) -> Check:
    """The check does not hold."""

    def opposite(text: Text) -> Holds:
        result = check(text)
        return Holds(not result.ok, f"not: {result.reason}")

    return opposite
