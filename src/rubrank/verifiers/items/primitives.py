"""Building blocks of constraints on a text: levels, measures, tests, checks, and their combinations.

    >>> short = every("sentence", holds(count("word"), number("at most", 4)))
    >>> short(Text("This is short. This one is rather longer."))
    Holds(ok=False, reason='sentence 2: 5 words, at most 4 required')

Four kinds of function, each made by calling one of the names here with its parameters:

    measure   text → number or piece    count, count_of, count_like, distinct, at, whole, index_of, and over the units
                                        of a level: aggregate
    test      number or piece → bool    number, between, equals, differs, contains, lacks, starts, ends, matches,
                                        one_of, upper, lower, capitalised
    check     text → Holds              holds(measure, test); over units: every, count_passing, in_turn; over the
                                        measures of units: in_order
    logic     checks → check            both, either, negated

The grammar is that of COLLIE (Yao et al., 2023); `collie.py` builds such functions from data. Words and pieces are
compared without regard to case and to punctuation around them. Patterns run under RE2.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias

import re2

from rubrank._plain import clean
from rubrank.texts.text import Text
from rubrank.verifiers.shared.instruction import count_word
from rubrank.verifiers.shared.patterns import compile_re2
from rubrank.verifiers.shared.relation import Relation
from rubrank.verifiers.shared.relation import holds as compares

Level: TypeAlias = Literal[
    "character",
    "letter",
    "word",
    "sentence",
    "paragraph",
    "line",
    "heading",
    "bullet",
    "numbered",
    "item",
    "code_block",
    "highlight",
    "passage",
]


Value: TypeAlias = float | str | None
Order: TypeAlias = Literal["increasing", "decreasing", "same", "different"]


class Holds(NamedTuple):
    """Whether a check holds, and why."""

    ok: bool
    reason: str


Check: TypeAlias = Callable[[Text], Holds]


@dataclass(frozen=True)
class TextMeasure:
    """A function from a text to a number or a piece of it."""

    name: str
    """What it measures, for reasons: "words", "sentence 2"."""
    of: Callable[[Text], Value]
    counts: bool = False
    """Whether the value is a number of what `name` names: the reason says "3 words" then, else "place: 3"."""

    def __call__(self, text: Text) -> Value:
        """The value for this text."""
        return self.of(text)


@dataclass(frozen=True)
class Test:
    """A function from a value to yes or no."""

    name: str
    """What it requires, for reasons: "at most 4"."""
    of: Callable[[Any], bool]

    def __call__(self, value: Value) -> bool:
        """The answer for this value; a value that is not there never passes."""
        return value is not None and self.of(value)


# ---- levels ---------------------------------------------------------------------------------------------------------

_UNITS: dict[str, Callable[[Text], Sequence[str]]] = {
    "character": lambda text: text.characters,
    "letter": lambda text: text.letters,
    "word": lambda text: text.words,
    "sentence": lambda text: text.sentences,
    "paragraph": lambda text: text.paragraphs,
    "line": lambda text: [line for line in text.lines if line.strip()],
    "heading": lambda text: [heading.text for heading in text.markdown.headings],
    "bullet": lambda text: [item.text for item in text.markdown.bullets],
    "numbered": lambda text: [item.text for item in text.markdown.numbered],
    "item": lambda text: [item.text for item in text.markdown.bullets + text.markdown.numbered],
    "code_block": lambda text: [block.code for block in text.markdown.code_blocks],
    "highlight": lambda text: text.markdown.emphasised,
    "passage": lambda text: (text.raw,),
}
_PLURAL = {"numbered": "numbered items", "code_block": "code blocks"}


class TooMuchWork(ArithmeticError):  # noqa: N818 - says what is wrong
    """A constraint that would look at more units than the budget allows."""


_budget: ContextVar[list[int] | None] = ContextVar("budget", default=None)


@contextmanager
def budget(units: int) -> Iterator[None]:
    """Limit how many units may be looked at within this block; beyond that, `TooMuchWork` is raised."""
    token = _budget.set([units])
    try:
        yield
    finally:
        _budget.reset(token)


def units(text: Text, level: Level) -> Sequence[str]:
    """Return the units of a level, in order, and charge them to the budget; blank lines are left out."""
    units_of_text = _UNITS[level](text)
    left = _budget.get()
    if left is not None:
        left[0] -= len(units_of_text)
        if left[0] < 0:
            raise TooMuchWork("the constraint looks at more parts of the text than is allowed")
    return units_of_text


def plural(level: str) -> str:
    """The name of many units."""
    return _PLURAL.get(level, f"{level}s")


def parts(text: Text, level: Level) -> Iterator[Text]:
    """The units as texts of their own."""
    return map(type(text), units(text, level))


# ---- comparing ------------------------------------------------------------------------------------------------------

_AROUND = " \t\r\n.,;:!?\"'`*_()[]{}<>“”‘’«»„、，。！？；：…（）「」『』《》【】-–—"


def fold(piece: str) -> str:
    """The piece as it is compared: without case, without punctuation around it unless it is nothing else."""
    return (piece.strip(_AROUND) or piece.strip()).casefold()


def pattern(source: str) -> Any:
    """The pattern, compiled by RE2; ValueError if it is none."""
    try:
        return compile_re2(source)
    except re2.error as error:
        raise ValueError(f"{source!r} is not an RE2 pattern: {error}") from None


# ---- measures -------------------------------------------------------------------------------------------------------


def count(level: Level) -> TextMeasure:
    """How many units there are."""
    # Only the number of units is read, not each of them, so nothing is charged to the budget.
    return TextMeasure(plural(level), lambda text: len(_UNITS[level](text)), counts=True)


def count_of(level: Level, target: str) -> TextMeasure:
    """How many units are the target."""
    folded = fold(target)
    name = f"{plural(level)} that are {target!r}"

    def count_equal(text: Text) -> Value:
        return sum(fold(unit) == folded for unit in units(text, level))

    return TextMeasure(name, count_equal, counts=True)


def count_like(level: Level, source: str) -> TextMeasure:
    """How many units hold a match of the pattern."""
    compiled = pattern(source)

    def count_matching(text: Text) -> Value:
        return sum(compiled.search(clean(unit)) is not None for unit in units(text, level))

    return TextMeasure(f"{plural(level)} like /{source}/", count_matching, counts=True)


def distinct(level: Level) -> TextMeasure:
    """How many different units there are."""

    def count_different(text: Text) -> Value:
        return len(set(map(fold, units(text, level))))

    return TextMeasure(f"different {plural(level)}", count_different, counts=True)


def at(level: Level, place: int) -> TextMeasure:
    """The unit at a place: 1 is the first, -1 the last; none if there are not so many."""
    index = place - 1 if place > 0 else place

    def pick(text: Text) -> Value:
        pieces = _UNITS[level](text)
        return pieces[index] if -len(pieces) <= index < len(pieces) else None

    return TextMeasure(f"{level} {place}", pick)


def whole() -> TextMeasure:
    """The text itself."""
    return TextMeasure("text", lambda text: text.raw)


def index_of(level: Level, target: str) -> TextMeasure:
    """The place, from 1, of the first unit that is the target; none if there is none."""
    folded = fold(target)

    def find_place(text: Text) -> Value:
        for place, unit in enumerate(units(text, level), 1):
            if fold(unit) == folded:
                return place
        return None

    return TextMeasure(f"place of {target!r} among the {plural(level)}", find_place)


_AGGREGATES: dict[str, tuple[str, Callable[[list[float]], float]]] = {
    "max": ("most", max),
    "min": ("fewest", min),
    "sum": ("total", sum),
    "mean": ("average", lambda numbers: sum(numbers) / len(numbers)),
}


def aggregate(
    kind: Literal["max", "min", "sum", "mean"], level: Level, inner: TextMeasure
) -> TextMeasure:
    """The largest, smallest, summed or mean measure of the units; none if there is no unit with a number."""
    name, reduce = _AGGREGATES[kind]

    def reduce_units(text: Text) -> Value:
        values = map(inner, parts(text, level))
        numbers = [value for value in values if isinstance(value, int | float)]
        return reduce(numbers) if numbers else None

    return TextMeasure(f"{name} {inner.name} of the {plural(level)}", reduce_units)


# ---- tests ----------------------------------------------------------------------------------------------------------


def number(relation: Relation, asked: float) -> Test:
    """A number in a relation to the one asked for."""
    return Test(
        f"{relation} {asked:g}",
        lambda value: not isinstance(value, str) and compares(value, relation, asked),
    )


def between(low: float, high: float) -> Test:
    """A number from low to high, both included."""
    return Test(
        f"{low:g} to {high:g}", lambda value: not isinstance(value, str) and low <= value <= high
    )


def equals(target: str) -> Test:
    """The same piece."""
    return Test(f"equal to {target!r}", lambda value: fold(str(value)) == fold(target))


def differs(target: str) -> Test:
    """Another piece."""
    return Test(f"other than {target!r}", lambda value: fold(str(value)) != fold(target))


def one_of(targets: Sequence[str]) -> Test:
    """One of several pieces."""
    folded = frozenset(map(fold, targets))
    return Test(f"one of {list(targets)}", lambda value: fold(str(value)) in folded)


def contains(targets: Sequence[str]) -> Test:
    """Every target stands in the piece as a word or phrase."""
    return Test(
        f"with {list(targets)}", lambda value: all(count_word(str(value), word) for word in targets)
    )


def lacks(targets: Sequence[str]) -> Test:
    """No target stands in the piece as a word or phrase."""
    return Test(
        f"without {list(targets)}",
        lambda value: not any(count_word(str(value), word) for word in targets),
    )


def starts(targets: Sequence[str]) -> Test:
    """The piece begins with one of the targets."""
    folded = tuple(map(fold, targets))
    name = f"beginning with {list(targets)}"
    return Test(name, lambda value: str(value).lstrip(_AROUND).casefold().startswith(folded))


def ends(targets: Sequence[str]) -> Test:
    """The piece ends with one of the targets."""
    folded = tuple(map(fold, targets))
    return Test(f"ending with {list(targets)}", lambda value: fold(str(value)).endswith(folded))


def matches(source: str) -> Test:
    """The pattern is found in the piece."""
    compiled = pattern(source)
    return Test(f"like /{source}/", lambda value: compiled.search(clean(str(value))) is not None)


def upper() -> Test:
    """All letters are capitals, and there are some."""
    return Test("in capitals", lambda value: str(value).isupper())


def lower() -> Test:
    """No letter is a capital, and there are some with case."""
    return Test("in small letters", lambda value: str(value).islower())


def capitalised() -> Test:
    """The first letter is a capital."""
    return Test("with a capital first", lambda value: str(value).lstrip(_AROUND)[:1].isupper())


# ---- checks ---------------------------------------------------------------------------------------------------------


def holds(measure: TextMeasure, test: Test) -> Check:
    """The measure of the text passes the test."""

    def check(text: Text) -> Holds:
        value = measure(text)
        if value is None:
            measured = f"no {measure.name}"
        elif isinstance(value, str):
            measured = f"{measure.name} is {value[:60]!r}" + (" …" if len(value) > 60 else "")
        elif measure.counts:
            measured = f"{value:g} {measure.name}"
        else:
            measured = f"{measure.name}: {value:g}"
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


def count_passing(level: Level, check: Check, relation: Relation, n: int) -> Check:
    """At least, at most, exactly … n units pass."""

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
    """There are as many units as checks, and at least, at most, exactly … n units pass the check in their place."""

    def over(text: Text) -> Holds:
        unit_texts = list(parts(text, level))
        if len(unit_texts) != len(checks):
            return Holds(False, f"{len(unit_texts)} {plural(level)}, {len(checks)} required")
        results = [check(unit) for check, unit in zip(checks, unit_texts, strict=True)]
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
        values: list[Value] = []
        for part in parts(text, level):
            value = inner(part)
            values.append(fold(value) if isinstance(value, str) else value)
        if None in values:
            return Holds(False, f"no {inner.name} in {level} {values.index(None) + 1}")
        reason = f"{inner.name} of the {plural(level)}: {order} required"
        if order == "different":
            return Holds(len(set(values)) == len(values), reason)
        for number, (previous, value) in enumerate(pairwise(values), 2):
            if not _STEP[order](previous, value):
                return Holds(False, f"{reason}, but not so at {level} {number}")
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
