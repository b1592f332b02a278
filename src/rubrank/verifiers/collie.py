"""COLLIE (Yao et al., 2023): constraints on a text, written as data.

    constraints:
      - {level: sentence, transform: count, relation: exactly, value: 3}
      - {level: word, transform: position, at: -1, relation: equals, value: home}
      - {level: sentence, transform: for_each, inner: {level: word, transform: count}, relation: at most, value: 20}
      - {level: sentence, transform: max, inner: {level: word, transform: count}, relation: less than, value: 15}
      - {level: word, transform: for_each, relation: starts with, value: s, reduction: at least, n: 3}
      - {level: sentence, transform: for_each, inner: {level: word, transform: position, at: -1}, relation: equals,
         values: [lake, moon, home]}
      - {level: paragraph, transform: for_each, check: {level: sentence, transform: count, relation: exactly, value: 2}}
      - or: [{level: word, transform: count, of: cat, relation: at least, value: 2}, {not: {…}}]

`level` says what is looked at; `transform` what is done with it:

    count      how many there are; `of`: that are this piece; `pattern`: that match
    distinct   how many different ones
    position   the one at `at` (1 first, -1 last)
    index_of   the place of the first that is `of`
    text       the text itself (level passage)
    max, min, sum, mean   of what `inner` measures in each
    for_each   what `inner` measures in each (without `inner`: the unit itself), or whether `check` holds in each;
               `reduction` then says for how many: all (default), any, none, at least / at most / exactly `n`

`values` instead of `value` gives one value for each unit of a for_each, in order: as many units as values are required.

`relation` with `value`: at least, at most, exactly, more than, less than, around, between ([low, high]) for numbers
(also >=, <=, ==, >, <); equals, differs, contains, lacks, starts with, ends with, one of, matches (a pattern) for
pieces; uppercase, lowercase, capitalised need no value; increasing, decreasing, same, different compare the values of
a for_each with one another.

Words and pieces are compared without regard to case and to punctuation around them. Patterns run under RE2. Three
functions read the data; incomplete data raises ValueError when it is validated:

    read_value      level, transform …     →  a number or a piece (a string) of a text, None if there is none
    build_test      relation and value     →  Test: number or piece → bool
    build_check     a whole constraint     →  Check: text → (does it hold?, why)
"""

from __future__ import annotations

import math
import operator
import string
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import cached_property
from itertools import pairwise, repeat
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, get_args

import re2
from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from rubrank._plain import Strict, replace_surrogates
from rubrank.texts.text import Text
from rubrank.verifiers.shared.instruction import Relation, count_word, holds, translate_relation
from rubrank.verifiers.shared.public_tools import split_public_sentences, split_public_tokens
from rubrank.verifiers.shared.word_tables import compile_re2
from rubrank.verifiers.verifier import UNIT, Answer, Compat, missing, verifier

_MOST_UNITS = 2_000_000  # units of text that one check may look at

Piece: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Number: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
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
Transform: TypeAlias = Literal[
    "count", "distinct", "position", "index_of", "text", "max", "min", "sum", "mean"
]
PieceRelation: TypeAlias = Literal[
    "equals",
    "differs",
    "matches",
    "contains",
    "lacks",
    "starts with",
    "ends with",
    "one of",
    "uppercase",
    "lowercase",
    "capitalised",
]
Order: TypeAlias = Literal["increasing", "decreasing", "same", "different"]
Reduction: TypeAlias = Literal["all", "any", "none", "at least", "at most", "exactly"]
_RELATIONS_BY_SYMBOL = {
    ">=": "at least",
    "<=": "at most",
    "==": "exactly",
    "=": "exactly",
    ">": "more than",
    "<": "less than",
}


def _translate_symbol(word: object) -> object:
    """Return the relation in English words: ">=" and "au moins" become "at least"."""
    if isinstance(word, str) and word.strip() in _RELATIONS_BY_SYMBOL:
        return _RELATIONS_BY_SYMBOL[word.strip()]
    return translate_relation(word)


AnyRelation: TypeAlias = Annotated[
    Relation | Literal["between"] | PieceRelation | Order, BeforeValidator(_translate_symbol)
]


# ---- units of a text -------------------------------------------------------------------------------------------------

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
# Characters around a piece that are ignored when it is compared.
_AROUND = " \t\r\n.,;:!?\"'`*_()[]{}<>“”‘’«»„、，。！？；：…（）「」『』《》【】-–—"
# How many units may still be looked at. Nested constraints (every word of every sentence …) can become very expensive.
_units_left: ContextVar[list[float]] = ContextVar("units_left", default=[math.inf])  # noqa: B039


def name_units(level: str) -> str:
    """Return the name of many units: "words", "code blocks"."""
    return _PLURAL.get(level, f"{level}s")


class TooMuchWork(ArithmeticError):  # noqa: N818 - says what is wrong
    """A constraint that would look at more units than the budget allows."""


def list_units(text: Text, level: str) -> Sequence[str]:
    """Return the units of a level, in order, and charge them to the budget. Raises TooMuchWork if it is used up."""
    units = _UNITS[level](text)
    budget = _units_left.get()
    budget[0] -= len(units)
    if budget[0] < 0:
        raise TooMuchWork("the constraint looks at more parts of the text than is allowed")
    return units


def split_text(text: Text, level: str) -> list[Text]:
    """Return each unit as a text."""
    return list(map(type(text), list_units(text, level)))


def fold(piece: str) -> str:
    """Return the piece without case and without punctuation around it; a piece of punctuation only keeps it."""
    return (piece.strip(_AROUND) or piece.strip()).casefold()


def search_pattern(source: str, piece: str) -> bool:
    """Is the pattern found in the piece?"""
    return compile_re2(source).search(replace_surrogates(piece)) is not None


def check_pattern(source: str) -> None:
    """Raise ValueError if RE2 cannot read the pattern."""
    try:
        compile_re2(source)
    except re2.error as error:
        raise ValueError(f"{source!r} is not an RE2 pattern: {error}") from None


# ---- measures --------------------------------------------------------------------------------------------------------

Value: TypeAlias = float | str | None


_AGGREGATES: dict[str, tuple[str, Callable[[list[float]], float]]] = {
    "max": ("most", max),
    "min": ("fewest", min),
    "sum": ("total", sum),
    "mean": ("average", lambda numbers: sum(numbers) / len(numbers)),
}
_NEEDED_FIELDS = {"position": "at", "index_of": "of", **dict.fromkeys(_AGGREGATES, "inner")}


class _Part(Strict):
    """A part of the data; its fields may be given by name or alias ("and" for `all_of`)."""

    model_config = ConfigDict(populate_by_name=True)

    level: Level = "passage"
    of: Piece | None = None
    pattern: Piece | None = None
    at: int | None = None
    inner: CollieMeasure | None = None


class CollieMeasure(_Part):
    """A number or a piece of the text; see the top of this file."""

    transform: Transform = "text"

    @model_validator(mode="after")
    def _check_complete(self) -> CollieMeasure:
        check_measure(self)
        return self


def check_measure(spec: CollieMeasure | Constraint) -> None:
    """Raise ValueError if the data does not say what to measure."""
    needed = _NEEDED_FIELDS.get(str(spec.transform))
    if needed and not getattr(spec, needed):
        raise ValueError(f"transform {spec.transform} needs `{needed}`; see the docs of Collie")
    if spec.pattern is not None:
        check_pattern(spec.pattern)


def read_value(spec: CollieMeasure | Constraint, text: Text) -> Value:
    """Return what the data asks for: a number or a piece of the text; None if the text has no such thing."""
    level = spec.level
    transform = str(spec.transform)
    if transform == "text":
        return text.raw
    if transform == "position":
        pieces = _UNITS[level](text)
        place = spec.at or 0
        index = place - 1 if place > 0 else place
        return pieces[index] if -len(pieces) <= index < len(pieces) else None
    if transform == "count" and spec.of is None and spec.pattern is None:
        # Only the number of units is read, not each of them, so nothing is charged to the budget.
        return len(_UNITS[level](text))
    if transform in _AGGREGATES:
        inner = spec.inner or CollieMeasure()
        values = [read_value(inner, part) for part in split_text(text, level)]
        numbers = [value for value in values if isinstance(value, int | float)]
        return _AGGREGATES[transform][1](numbers) if numbers else None
    units = list_units(text, level)
    if transform == "distinct":
        return len(set(map(fold, units)))
    if spec.of is None:
        return sum(search_pattern(spec.pattern or "", unit) for unit in units)
    target = fold(spec.of)
    matches = [fold(unit) == target for unit in units]
    if transform == "count":
        return sum(matches)
    return matches.index(True) + 1 if True in matches else None


def name_measure(spec: CollieMeasure | Constraint) -> str:
    """Say what is measured, for reasons: "words", "sentence 2"."""
    units = name_units(spec.level)
    if spec.transform == "text":
        return "text"
    if spec.transform == "position":
        return f"{spec.level} {spec.at}"
    if spec.transform == "index_of":
        return f"place of {spec.of!r} among the {units}"
    if spec.inner is not None and spec.transform in _AGGREGATES:
        return f"{_AGGREGATES[spec.transform][0]} {name_measure(spec.inner)} of the {units}"
    if spec.transform == "distinct":
        return f"different {units}"
    if spec.of is not None:
        return f"{units} that are {spec.of!r}"
    return units if spec.pattern is None else f"{units} like /{spec.pattern}/"


# ---- tests -----------------------------------------------------------------------------------------------------------


class Test(NamedTuple):
    """A function from a number or piece to yes or no."""

    name: str
    """What it requires, for reasons: "at most 4"."""
    of: Callable[[Any], bool]


# For each relation: its words in reasons, and a function of the piece and the texts in `value`.
_PIECE_TESTS: dict[str, tuple[str, Callable[[str, Sequence[str]], bool]]] = {
    "equals": ("equal to", lambda piece, targets: fold(piece) == fold(targets[0])),
    "differs": ("other than", lambda piece, targets: fold(piece) != fold(targets[0])),
    "matches": ("like", lambda piece, targets: search_pattern(targets[0], piece)),
    "one of": ("one of", lambda piece, targets: fold(piece) in map(fold, targets)),
    "contains": ("with", lambda piece, targets: all(count_word(piece, word) for word in targets)),
    "lacks": (
        "without",
        lambda piece, targets: not any(count_word(piece, word) for word in targets),
    ),
    "starts with": (
        "beginning with",
        lambda piece, targets: (
            piece.lstrip(_AROUND).casefold().startswith(tuple(map(fold, targets)))
        ),
    ),
    "ends with": (
        "ending with",
        lambda piece, targets: fold(piece).endswith(tuple(map(fold, targets))),
    ),
    "uppercase": ("in capitals", lambda piece, _: piece.isupper()),
    "lowercase": ("in small letters", lambda piece, _: piece.islower()),
    "capitalised": ("with a capital first", lambda piece, _: piece.lstrip(_AROUND)[:1].isupper()),
}
_WITHOUT_VALUE = ("uppercase", "lowercase", "capitalised")
_WITH_ONE_VALUE = ("equals", "differs", "matches")


def build_test(relation: Any, value: Any) -> Test:
    """Return the test that relation and value describe; ValueError if they describe none."""
    if relation == "between":
        match value:
            case [int() | float() as low, int() | float() as high]:
                return Test(
                    f"{low:g} to {high:g}",
                    lambda number: not isinstance(number, str) and low <= number <= high,
                )
    if relation in get_args(Relation) and isinstance(value, int | float):
        return Test(
            f"{relation} {value:g}",
            lambda number: not isinstance(number, str) and holds(number, relation, value),
        )
    if relation == "exactly":
        relation = "equals"
    targets = value if isinstance(value, list) else [value]
    has_texts = all(isinstance(target, str) for target in targets)
    if relation in _WITH_ONE_VALUE:
        has_texts = has_texts and len(targets) == 1
    if relation not in _PIECE_TESTS or not (has_texts or relation in _WITHOUT_VALUE):
        raise ValueError(
            f"relation {relation!r} with value {value!r} cannot be checked here; see the docs of Collie"
        )
    if relation == "matches":
        check_pattern(targets[0])
    name, test = _PIECE_TESTS[relation]
    if relation not in _WITHOUT_VALUE:
        name += f" {value!r}"
    return Test(name, lambda piece: test(str(piece), targets))


# ---- checks ----------------------------------------------------------------------------------------------------------


class Holds(NamedTuple):
    """Whether a check holds, and why."""

    ok: bool
    reason: str


Check: TypeAlias = Callable[[Text], Holds]


class Constraint(_Part):
    """One constraint, or a combination of constraints; see the top of this file."""

    name: str = ""
    all_of: list[Constraint] | None = Field(default=None, alias="and", min_length=1)
    any_of: list[Constraint] | None = Field(default=None, alias="or", min_length=1)
    negated: Constraint | None = Field(default=None, alias="not")
    transform: Transform | Literal["for_each"] | None = None
    check: Constraint | None = None
    relation: AnyRelation | None = None
    value: Number | Piece | list[Number] | list[Piece] | None = None
    values: list[Number] | list[Piece] | None = Field(default=None, min_length=1)
    reduction: Reduction = "all"
    n: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _check_complete(self) -> Constraint:
        forms = [self.all_of, self.any_of, self.negated, self.transform]
        if sum(form is not None for form in forms) != 1:
            raise ValueError(
                "a constraint is exactly one of: and, or, not, or a `transform` with its relation"
            )
        build_check(self, vacuous=False)  # raises an error that says what is missing
        return self


def build_check(spec: Constraint, vacuous: bool) -> Check:
    """Return the check that the data describes; ValueError if it describes none.

    With `vacuous`, "every sentence …" holds for a text without sentences.
    """
    if spec.negated is not None:
        negated = build_check(spec.negated, vacuous)

        def check_not(text: Text) -> Holds:
            result = negated(text)
            return Holds(not result.ok, f"not: {result.reason}")

        return check_not
    parts = spec.all_of or spec.any_of
    if parts is not None:
        every = spec.all_of is not None
        checks = [build_check(part, vacuous) for part in parts]

        def check_parts(text: Text) -> Holds:
            # The reason is that of the first part that decides.
            results = [check(text) for check in checks]
            for result in results:
                if result.ok != every:
                    return result
            reasons = "; ".join(result.reason for result in results)
            return Holds(every, reasons if every else f"none of: {reasons}")

        return check_parts
    if spec.transform == "for_each":
        return _build_for_each(spec, vacuous)
    if spec.values is not None:
        raise ValueError("`values` needs transform for_each: one value for each unit")
    check_measure(spec)
    return _check_value(spec, build_test(spec.relation, spec.value))


def _check_value(spec: CollieMeasure | Constraint, test: Test) -> Check:
    """Return the check that a value of the text passes the test; it fails if the text has no such value."""
    name = name_measure(spec)

    def check_text(text: Text) -> Holds:
        value = read_value(spec, text)
        if value is None:
            return Holds(False, f"no {name}, {test.name} required")
        if isinstance(value, str):
            measured = f"{name} is {value[:60]!r}" + (" …" if len(value) > 60 else "")
        elif spec.transform in ("count", "distinct"):
            measured = f"{value:g} {name}"
        else:
            measured = f"{name}: {value:g}"
        return Holds(test.of(value), f"{measured}, {test.name} required")

    return check_text


def _build_for_each(spec: Constraint, vacuous: bool) -> Check:
    """Return the check of a for_each: about the order of its units, or about each unit. Raises ValueError."""
    inner = spec.inner or CollieMeasure()
    if spec.relation in get_args(Order):
        return _check_order(spec.level, inner, str(spec.relation))
    if spec.values is not None and (spec.value is not None or spec.check is not None):
        raise ValueError("`values` replaces `value` and `check`: give one of them")
    if spec.check is not None:
        checks = [build_check(spec.check, vacuous)]
    else:
        values = [spec.value] if spec.values is None else spec.values
        checks = [_check_value(inner, build_test(spec.relation, value)) for value in values]
    required: dict[str, tuple[Any, int | None]] = {"any": ("at least", 1), "none": ("exactly", 0)}
    relation, n = required.get(spec.reduction, (spec.reduction, spec.n))
    if n is None and spec.reduction != "all":
        raise ValueError(f"reduction {spec.reduction!r} needs `n`")
    units = name_units(spec.level)

    def check_text(text: Text) -> Holds:
        parts = split_text(text, spec.level)
        if spec.values is not None and len(parts) != len(checks):
            return Holds(False, f"{len(parts)} {units}, {len(checks)} required")
        check_of_each = repeat(checks[0]) if spec.values is None else checks
        results = [check(part) for check, part in zip(check_of_each, parts, strict=False)]
        passing = sum(result.ok for result in results)
        if n is not None:
            reason = f"{passing} of {len(results)} {units} pass, {relation} {n} required"
            return Holds(holds(passing, relation, n), reason)
        if not results:
            return Holds(vacuous, f"no {units}")
        for number, result in enumerate(results, 1):
            if not result.ok:
                return Holds(False, f"{spec.level} {number}: {result.reason}")
        return Holds(True, f"all {passing} {units} pass")

    return check_text


# The relation between a value and the next one.
_ORDERED: dict[str, Callable[[Any, Any], bool]] = {
    "increasing": operator.lt,
    "decreasing": operator.gt,
    "same": operator.eq,
}


def _check_order(level: Level, inner: CollieMeasure, order: str) -> Check:
    """Return the check that what `inner` measures in the units increases, decreases, is the same or always differs."""

    def check_text(text: Text) -> Holds:
        values: list[Value] = []
        for part in split_text(text, level):
            value = read_value(inner, part)
            values.append(fold(value) if isinstance(value, str) else value)
        if None in values:
            return Holds(False, f"no {name_measure(inner)} in {level} {values.index(None) + 1}")
        reason = f"{name_measure(inner)} of the {name_units(level)}: {order} required"
        if order == "different":
            return Holds(len(set(values)) == len(values), reason)
        for number, (previous, value) in enumerate(pairwise(values), 2):
            if not _ORDERED[order](previous, value):
                return Holds(False, f"{reason}, but not so at {level} {number}")
        return Holds(True, reason)

    return check_text


# ---- the verifier ----------------------------------------------------------------------------------------------------


@verifier("Collie", family="benchmark", domain=UNIT, version=3)
def collie(
    text: Text,
    *,
    constraints: Annotated[list[Constraint], Field(min_length=1)],
    score: Literal["share", "all"] = "share",
    compat: Compat = "fixed",
) -> Answer:
    """The share of the constraints that the answer satisfies; with `score="all"` 1 if it satisfies all, else 0.

    A constraint is data: level, transform, relation, value, reduction, and / or / not; the top of this module explains
    each. An `and` that stands alone counts as its parts.
    Passes (1): "One. Two." for {level: sentence, transform: count, relation: exactly, value: 2}.
    Fails (0): "One." for the same. The reason names the first constraint that fails.
    Missing: constraints that would look at more than 2,000,000 parts.
    Not covered: constraints whose target is another text, or the meaning of words.
    upstream: words and sentences as the public checker cuts them, paragraphs only between two line breaks, and "every
        sentence …" holds when there is none.
    """
    parts = constraints
    if len(constraints) == 1 and constraints[0].all_of:
        parts = constraints[0].all_of
    subject = text if compat == "fixed" else PublicText(text.raw)
    _units_left.set([_MOST_UNITS])
    try:
        results = [build_check(part, vacuous=compat == "upstream")(subject) for part in parts]
    except TooMuchWork as error:
        return missing(str(error))
    holding = sum(result.ok for result in results)
    reason = f"{holding} of {len(results)} constraints hold"
    for number, (part, result) in enumerate(zip(parts, results, strict=True), start=1):
        if not result.ok:
            name = part.name or f"number {number}"
            reason += f"; the first that does not is {name}: {result.reason[:300]}"
            break
    if score == "all":
        return float(holding == len(results)), reason
    return holding / len(results), reason


class PublicText(Text):
    """A text cut as the public checker cuts it."""

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Treebank tokens that are no punctuation."""
        return tuple(
            token.strip().strip(".")
            for token in split_public_tokens(self.raw)
            if token not in string.punctuation
        )

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        """Sentences without the full stop at their end."""
        return tuple(sentence.strip().strip(".") for sentence in split_public_sentences(self.raw))

    @cached_property
    def paragraphs(self) -> tuple[str, ...]:
        """The parts between two line breaks in a row."""
        return tuple(paragraph.strip().strip(".") for paragraph in self.raw.split("\n\n"))

    @cached_property
    def characters(self) -> str:
        """Every character, white space too."""
        return self.raw
