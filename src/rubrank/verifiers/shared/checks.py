"""Checks on a text, built from measures and tests, and their combinations; see `rubrank.verifiers.shared.primitives`.

>>> from rubrank.verifiers.shared.primitives import count, number
>>> short = every("sentence", holds(count("word"), number("at most", 4)))
>>> short(Text("This is short. This one is rather longer."))
Holds(ok=False, reason='sentence 2: 5 words, at most 4 asked')
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias

from rubrank.texts.text import Text
from rubrank.verifiers.shared.primitives import Level, Test, TextMeasure, Value, fold, parts, plural
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
        return Holds(test(value), _said(measure, value) + f", {test.name} asked")

    return check


def _said(measure: TextMeasure, value: Value) -> str:
    if value is None:
        return f"no {measure.name}"
    if isinstance(value, str):
        return f"{measure.name} is {value[:60]!r}" + (" …" if len(value) > 60 else "")
    return f"{value:g} {measure.name}"


def every(level: Level, check: Check, *, vacuous: bool = False) -> Check:
    """Every unit passes, and there is one; `vacuous`: none at all is fine too."""

    def over(text: Text) -> Holds:
        i = 0
        for i, part in enumerate(parts(text, level), 1):
            found = check(part)
            if not found.ok:
                return Holds(False, f"{level} {i}: {found.reason}")
        return Holds(vacuous or i > 0, f"all {i} {plural(level)} pass" if i else f"no {plural(level)}")

    return over


def some(level: Level, check: Check) -> Check:
    """At least one unit passes."""
    return _passing(level, check, "at least", 1)


def none(level: Level, check: Check) -> Check:
    """No unit passes."""
    return _passing(level, check, "exactly", 0)


def at_least(level: Level, check: Check, n: int) -> Check:
    """At least n units pass."""
    return _passing(level, check, "at least", n)


def at_most(level: Level, check: Check, n: int) -> Check:
    """At most n units pass."""
    return _passing(level, check, "at most", n)


def exactly(level: Level, check: Check, n: int) -> Check:
    """Exactly n units pass."""
    return _passing(level, check, "exactly", n)


def _passing(level: Level, check: Check, relation: Relation, n: int) -> Check:
    def over(text: Text) -> Holds:
        results = [check(part).ok for part in parts(text, level)]
        passing = sum(results)
        said = f"{passing} of {len(results)} {plural(level)} pass, {relation} {n} asked"
        return Holds(compares(passing, relation, n), said)

    return over


_STEP: dict[str, Callable[[Any, Any], bool]] = {
    "increasing": operator.lt,
    "decreasing": operator.gt,
    "same": operator.eq,
}


def in_turn(level: Level, checks: Sequence[Check], relation: Relation, n: int) -> Check:
    """As many units as checks, each held against its own; so many of them pass."""

    def over(text: Text) -> Holds:
        found = list(parts(text, level))
        if len(found) != len(checks):
            return Holds(False, f"{len(found)} {plural(level)}, {len(checks)} asked")
        results = [check(part) for check, part in zip(checks, found, strict=True)]
        passing = sum(result.ok for result in results)
        if compares(passing, relation, n):
            return Holds(True, f"{passing} of {len(results)} {plural(level)} as asked")
        first = next((i for i, result in enumerate(results, 1) if not result.ok), 0)
        reason = f"{level} {first}: {results[first - 1].reason}" if first else f"{passing} pass"
        return Holds(False, reason)

    return over


def in_order(level: Level, inner: TextMeasure, order: Order) -> Check:
    """The measures of the units, in reading order, increase, decrease, are the same or all different."""

    def check(text: Text) -> Holds:
        values = [fold(v) if isinstance(v, str) else v for v in map(inner, parts(text, level))]
        if None in values:
            return Holds(False, f"no {inner.name} in {level} {values.index(None) + 1}")
        ok = len(set(values)) == len(values) if order == "different" else all(map(_STEP[order], values, values[1:]))
        bad = next(
            (i for i, (a, b) in enumerate(pairwise(values), 2) if order in _STEP and not _STEP[order](a, b)), None
        )
        return Holds(ok, f"{inner.name} of the {plural(level)} {order}" + (f": not at {level} {bad}" if bad else ""))

    return check


# ---- logic ----------------------------------------------------------------------------------------------------------


def both(*checks: Check) -> Check:
    """Every check holds; the reason is that of the first that does not."""

    def check(text: Text) -> Holds:
        results = [one(text) for one in checks]
        return next((r for r in results if not r.ok), Holds(True, "; ".join(r.reason for r in results)))

    return check


def either(*checks: Check) -> Check:
    """One check holds at least."""

    def check(text: Text) -> Holds:
        results = [one(text) for one in checks]
        passing = next((r for r in results if r.ok), None)
        return passing or Holds(False, "none of: " + "; ".join(r.reason for r in results))

    return check


def negated(check: Check) -> Check:
    """The check does not hold."""

    def opposite(text: Text) -> Holds:
        found = check(text)
        return Holds(not found.ok, f"not: {found.reason}")

    return opposite
