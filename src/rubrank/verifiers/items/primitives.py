"""Building blocks of constraints on a text, such as "every sentence has at most 4 words".

    >>> short = check_every("sentence", check_measure(measure_count("word"), require_number("at most", 4)))
    >>> short(Text("This is short. This one is rather longer."))
    Holds(ok=False, reason='sentence 2: 5 words, at most 4 required')

A text is divided into units of a level: words, sentences, lines, list items … (`Level`). Constraints are composed of
four kinds of function. Each public function below takes parameters and returns a function of one kind:

    measure   text → number or piece    measure_count, measure_text, …; over the units of a level: measure_aggregate
    test      number or piece → bool    require_number, require_equal, require_start, …  (a piece is a string)
    check     text → Holds              check_measure(measure, test); over units: check_every, check_count_passing,
                                        check_in_turn; over the measures of units: check_order
    logic     checks → check            check_all, check_any, check_not

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

from rubrank._plain import replace_surrogates
from rubrank.texts.text import Text
from rubrank.verifiers.shared.instruction import count_word
from rubrank.verifiers.shared.patterns import compile_re2
from rubrank.verifiers.shared.relation import Relation
from rubrank.verifiers.shared.relation import holds as relation_holds

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

# What a measure returns: a number, a piece of the text, or None if the text has no such thing.
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


# How many units may still be looked at. The number is in a list, so that `list_units` can lower it in place; None
# outside of `limit_units`: no limit. Nested constraints (every word of every sentence …) can become very expensive.
_budget: ContextVar[list[int] | None] = ContextVar("budget", default=None)


@contextmanager
def limit_units(units: int) -> Iterator[None]:
    """Limit how many units may be looked at within this `with` block; beyond that, `TooMuchWork` is raised."""
    token = _budget.set([units])
    try:
        yield
    finally:
        _budget.reset(token)


def list_units(text: Text, level: Level) -> Sequence[str]:
    """Return the units of a level, in order, and charge them to the budget; blank lines are left out.

    Raises TooMuchWork if the budget is used up.
    """
    units = _UNITS[level](text)
    budget = _budget.get()
    if budget is not None:
        budget[0] -= len(units)
        if budget[0] < 0:
            raise TooMuchWork("the constraint looks at more parts of the text than is allowed")
    return units


def write_plural(level: str) -> str:
    """Return the name of many units: "words", "code blocks"."""
    return _PLURAL.get(level, f"{level}s")


def split_text(text: Text, level: Level) -> Iterator[Text]:
    """Return the units as texts of their own."""
    return map(type(text), list_units(text, level))


# ---- comparing ------------------------------------------------------------------------------------------------------

# Characters around a piece that make no difference when it is compared.
_AROUND = " \t\r\n.,;:!?\"'`*_()[]{}<>“”‘’«»„、，。！？；：…（）「」『』《》【】-–—"


def fold(piece: str) -> str:
    """Return the piece as it is compared: without case, without punctuation around it unless it is nothing else."""
    return (piece.strip(_AROUND) or piece.strip()).casefold()


def compile_pattern(source: str) -> Any:
    """Return the pattern, compiled by RE2. Raises ValueError if it is none."""
    try:
        return compile_re2(source)
    except re2.error as error:
        raise ValueError(f"{source!r} is not an RE2 pattern: {error}") from None


# ---- measures -------------------------------------------------------------------------------------------------------


def measure_count(level: Level) -> TextMeasure:
    """Measure how many units there are."""
    # Only the number of units is read, not each of them, so nothing is charged to the budget.
    return TextMeasure(write_plural(level), lambda text: len(_UNITS[level](text)), counts=True)


def measure_count_of(level: Level, target: str) -> TextMeasure:
    """Measure how many units equal the target."""
    folded = fold(target)
    name = f"{write_plural(level)} that are {target!r}"

    def count_equal(text: Text) -> Value:
        return sum(fold(unit) == folded for unit in list_units(text, level))

    return TextMeasure(name, count_equal, counts=True)


def measure_count_like(level: Level, source: str) -> TextMeasure:
    """Measure how many units hold a match of the pattern."""
    compiled = compile_pattern(source)

    def count_matching(text: Text) -> Value:
        return sum(
            compiled.search(replace_surrogates(unit)) is not None
            for unit in list_units(text, level)
        )

    return TextMeasure(f"{write_plural(level)} like /{source}/", count_matching, counts=True)


def measure_distinct(level: Level) -> TextMeasure:
    """Measure how many different units there are."""

    def count_different(text: Text) -> Value:
        return len(set(map(fold, list_units(text, level))))

    return TextMeasure(f"different {write_plural(level)}", count_different, counts=True)


def measure_unit_at(level: Level, place: int) -> TextMeasure:
    """Measure the unit at a place: 1 is the first, -1 the last; None if there are not so many."""
    index = place - 1 if place > 0 else place

    def pick(text: Text) -> Value:
        pieces = _UNITS[level](text)
        return pieces[index] if -len(pieces) <= index < len(pieces) else None

    return TextMeasure(f"{level} {place}", pick)


def measure_text() -> TextMeasure:
    """Measure the text itself."""
    return TextMeasure("text", lambda text: text.raw)


def measure_index_of(level: Level, target: str) -> TextMeasure:
    """Measure the place, from 1, of the first unit that is the target; None if there is none."""
    folded = fold(target)

    def find_place(text: Text) -> Value:
        for place, unit in enumerate(list_units(text, level), 1):
            if fold(unit) == folded:
                return place
        return None

    return TextMeasure(f"place of {target!r} among the {write_plural(level)}", find_place)


_AGGREGATES: dict[str, tuple[str, Callable[[list[float]], float]]] = {
    "max": ("most", max),
    "min": ("fewest", min),
    "sum": ("total", sum),
    "mean": ("average", lambda numbers: sum(numbers) / len(numbers)),
}


def measure_aggregate(
    kind: Literal["max", "min", "sum", "mean"], level: Level, inner: TextMeasure
) -> TextMeasure:
    """Measure the largest, smallest, summed or mean `inner` of the units; None if there is no unit with a number."""
    name, reduce = _AGGREGATES[kind]

    def reduce_units(text: Text) -> Value:
        values = map(inner, split_text(text, level))
        numbers = [value for value in values if isinstance(value, int | float)]
        return reduce(numbers) if numbers else None

    return TextMeasure(f"{name} {inner.name} of the {write_plural(level)}", reduce_units)


# ---- tests ----------------------------------------------------------------------------------------------------------


def require_number(relation: Relation, asked: float) -> Test:
    """Require a number in a relation to the one asked for."""
    return Test(
        f"{relation} {asked:g}",
        lambda value: not isinstance(value, str) and relation_holds(value, relation, asked),
    )


def require_between(low: float, high: float) -> Test:
    """Require a number from low to high, both included."""
    return Test(
        f"{low:g} to {high:g}", lambda value: not isinstance(value, str) and low <= value <= high
    )


def require_equal(target: str) -> Test:
    """Require a piece that equals the target."""
    return Test(f"equal to {target!r}", lambda value: fold(str(value)) == fold(target))


def require_other(target: str) -> Test:
    """Require a piece other than the target."""
    return Test(f"other than {target!r}", lambda value: fold(str(value)) != fold(target))


def require_one_of(targets: Sequence[str]) -> Test:
    """Require one of several pieces."""
    folded = frozenset(map(fold, targets))
    return Test(f"one of {list(targets)}", lambda value: fold(str(value)) in folded)


def require_words(targets: Sequence[str]) -> Test:
    """Require that every target stands in the piece as a word or phrase."""
    return Test(
        f"with {list(targets)}", lambda value: all(count_word(str(value), word) for word in targets)
    )


def require_no_words(targets: Sequence[str]) -> Test:
    """Require that no target stands in the piece as a word or phrase."""
    return Test(
        f"without {list(targets)}",
        lambda value: not any(count_word(str(value), word) for word in targets),
    )


def require_start(targets: Sequence[str]) -> Test:
    """Require that the piece begins with one of the targets."""
    folded = tuple(map(fold, targets))
    name = f"beginning with {list(targets)}"
    return Test(name, lambda value: str(value).lstrip(_AROUND).casefold().startswith(folded))


def require_end(targets: Sequence[str]) -> Test:
    """Require that the piece ends with one of the targets."""
    folded = tuple(map(fold, targets))
    return Test(f"ending with {list(targets)}", lambda value: fold(str(value)).endswith(folded))


def require_match(source: str) -> Test:
    """Require that the pattern is found in the piece."""
    compiled = compile_pattern(source)
    return Test(
        f"like /{source}/",
        lambda value: compiled.search(replace_surrogates(str(value))) is not None,
    )


def require_upper() -> Test:
    """Require that no letter is a small one, and that there is at least one capital."""
    return Test("in capitals", lambda value: str(value).isupper())


def require_lower() -> Test:
    """Require that no letter is a capital, and that there is at least one small letter."""
    return Test("in small letters", lambda value: str(value).islower())


def require_capital() -> Test:
    """Require that the first letter is a capital."""
    return Test("with a capital first", lambda value: str(value).lstrip(_AROUND)[:1].isupper())


# ---- checks ---------------------------------------------------------------------------------------------------------


def check_measure(measure: TextMeasure, test: Test) -> Check:
    """Check that the measure of the text passes the test."""

    def check_text(text: Text) -> Holds:
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

    return check_text


def check_every(level: Level, check: Check, *, vacuous: bool = False) -> Check:
    """Check that every unit passes, and that there is one; `vacuous`: none at all is fine too."""

    def check_text(text: Text) -> Holds:
        count = 0
        for part in split_text(text, level):
            count += 1
            result = check(part)
            if not result.ok:
                return Holds(False, f"{level} {count}: {result.reason}")
        if not count:
            return Holds(vacuous, f"no {write_plural(level)}")
        return Holds(True, f"all {count} {write_plural(level)} pass")

    return check_text


def check_count_passing(level: Level, check: Check, relation: Relation, n: int) -> Check:
    """Check that at least, at most, exactly … n units pass."""

    def check_text(text: Text) -> Holds:
        results = [check(part).ok for part in split_text(text, level)]
        passing = sum(results)
        reason = f"{passing} of {len(results)} {write_plural(level)} pass, {relation} {n} required"
        return Holds(relation_holds(passing, relation, n), reason)

    return check_text


def check_in_turn(level: Level, checks: Sequence[Check], relation: Relation, n: int) -> Check:
    """Check each unit by the check in its place.

    There must be as many units as checks, and at least, at most, exactly … n of them must pass.
    """

    def check_text(text: Text) -> Holds:
        unit_texts = list(split_text(text, level))
        if len(unit_texts) != len(checks):
            return Holds(False, f"{len(unit_texts)} {write_plural(level)}, {len(checks)} required")
        results = [check(unit) for check, unit in zip(checks, unit_texts, strict=True)]
        passing = sum(result.ok for result in results)
        if relation_holds(passing, relation, n):
            return Holds(True, f"{passing} of {len(results)} {write_plural(level)} as required")
        for number, result in enumerate(results, 1):
            if not result.ok:
                return Holds(False, f"{level} {number}: {result.reason}")
        return Holds(False, f"{passing} pass")

    return check_text


# The relation between a value and the next one.
_ORDERED: dict[str, Callable[[Any, Any], bool]] = {
    "increasing": operator.lt,
    "decreasing": operator.gt,
    "same": operator.eq,
}


def check_order(level: Level, inner: TextMeasure, order: Order) -> Check:
    """Check that the measures of the units, in reading order, increase, decrease, are the same or all different."""

    def check_text(text: Text) -> Holds:
        values: list[Value] = []
        for part in split_text(text, level):
            value = inner(part)
            values.append(fold(value) if isinstance(value, str) else value)
        if None in values:
            return Holds(False, f"no {inner.name} in {level} {values.index(None) + 1}")
        reason = f"{inner.name} of the {write_plural(level)}: {order} required"
        if order == "different":
            return Holds(len(set(values)) == len(values), reason)
        for number, (previous, value) in enumerate(pairwise(values), 2):
            if not _ORDERED[order](previous, value):
                return Holds(False, f"{reason}, but not so at {level} {number}")
        return Holds(True, reason)

    return check_text


# ---- logic ----------------------------------------------------------------------------------------------------------


def check_all(*checks: Check) -> Check:
    """Check that every check holds; the reason is that of the first that does not."""

    def check_text(text: Text) -> Holds:
        results = [check(text) for check in checks]
        for result in results:
            if not result.ok:
                return result
        return Holds(True, "; ".join(result.reason for result in results))

    return check_text


def check_any(*checks: Check) -> Check:
    """Check that at least one check holds."""

    def check_text(text: Text) -> Holds:
        results = [check(text) for check in checks]
        for result in results:
            if result.ok:
                return result
        return Holds(False, "none of: " + "; ".join(result.reason for result in results))

    return check_text


def check_not(check: Check) -> Check:
    """Check that the check does not hold."""

    def check_text(text: Text) -> Holds:
        result = check(text)
        return Holds(not result.ok, f"not: {result.reason}")

    return check_text
