"""COLLIE: constraints written as data; `primitives.py` defines what they mean.

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

`values` in the place of `value` gives each unit of a for_each its own, in turn: as many units as values are asked.

`relation` with `value`: at least, at most, exactly, more than, less than, around, between ([low, high]) for numbers
(also >=, <=, ==, >, <); equals, differs, contains, lacks, starts with, ends with, one of, matches (a pattern) for
pieces; uppercase, lowercase, capitalised need no value; increasing, decreasing, same, different compare the values of
a for_each with one another.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    StringConstraints,
    model_validator,
)

from rubrank._plain import Strict
from rubrank.texts.text import Text
from rubrank.verifiers.items import primitives as p
from rubrank.verifiers.items.primitives import Check, Level, Order, TextMeasure
from rubrank.verifiers.shared.public_tools import split_public_sentences, split_public_tokens
from rubrank.verifiers.shared.relation import Relation, translate_relation
from rubrank.verifiers.verifier import UNIT, Answer, Compat, missing, verifier

_DEEPEST = 8  # levels of nested constraints
_MOST_NODES = 200  # constraints and measures in one criterion
_MOST_UNITS = 2_000_000  # units of text that one check may look at

Piece: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Number: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
Transform: TypeAlias = Literal[
    "count", "distinct", "position", "index_of", "text", "max", "min", "sum", "mean"
]
PieceRelation: TypeAlias = Literal[
    "equals", "differs", "contains", "lacks", "starts with", "ends with", "one of"
]
CaseRelation: TypeAlias = Literal["uppercase", "lowercase", "capitalised"]
Reduction: TypeAlias = Literal["all", "any", "none", "at least", "at most", "exactly"]
_RELATIONS_BY_SYMBOL = {
    ">=": "at least",
    "<=": "at most",
    "==": "exactly",
    "=": "exactly",
    ">": "more than",
    "<": "less than",
}
_CASES: dict[str, Callable[[], p.Test]] = {
    "uppercase": p.require_upper,
    "lowercase": p.require_lower,
    "capitalised": p.require_capital,
}
_TESTS_OF_ONE = {"equals": p.require_equal, "differs": p.require_other, "matches": p.require_match}
_TESTS_OF_SEVERAL: dict[str, Callable[[Sequence[str]], p.Test]] = {
    "contains": p.require_words,
    "lacks": p.require_no_words,
    "starts with": p.require_start,
    "ends with": p.require_end,
    "one of": p.require_one_of,
}


def _translate_symbol(word: object) -> object:
    """Return the relation in English words: ">=" and "au moins" become "at least"."""
    if isinstance(word, str) and word.strip() in _RELATIONS_BY_SYMBOL:
        return _RELATIONS_BY_SYMBOL[word.strip()]
    return translate_relation(word)


AnyRelation: TypeAlias = Annotated[
    Relation | Literal["between", "matches"] | PieceRelation | CaseRelation | Order,
    BeforeValidator(_translate_symbol),
]


class _Part(Strict):
    """A part of the data; its fields may be given by name or alias ("and" for `all_of`)."""

    model_config = ConfigDict(populate_by_name=True)


class CollieMeasure(_Part):
    """A number or a piece of the text; see the top of this file."""

    level: Level = "passage"
    transform: Transform = "text"
    of: Piece | None = None
    pattern: Piece | None = None
    at: int | None = None
    inner: CollieMeasure | None = None

    @model_validator(mode="after")
    def _check_complete(self) -> CollieMeasure:
        build_measure(self)  # raises an error that says what is missing
        return self


def build_measure(spec: CollieMeasure | Constraint) -> TextMeasure:
    """Return the function that the data describes; ValueError if it describes none."""
    level = spec.level
    transform: Any = spec.transform
    if transform == "text":
        return p.measure_text()
    if transform == "distinct":
        return p.measure_distinct(level)
    if transform == "position":
        if not spec.at:
            raise ValueError("transform position needs `at`: 1 is the first, -1 the last")
        return p.measure_unit_at(level, spec.at)
    if transform in ("max", "min", "sum", "mean"):
        if spec.inner is None:
            raise ValueError(
                f"transform {transform} needs `inner`: what is measured in each {level}"
            )
        return p.measure_aggregate(transform, level, build_measure(spec.inner))
    if transform == "index_of":
        if spec.of is None:
            raise ValueError("transform index_of needs `of`: the piece that is looked for")
        return p.measure_index_of(level, spec.of)
    # The transform is count.
    if spec.of is not None:
        return p.measure_count_of(level, spec.of)
    if spec.pattern is not None:
        return p.measure_count_like(level, spec.pattern)
    return p.measure_count(level)


class Constraint(_Part):
    """One constraint, or a combination of constraints; see the top of this file."""

    name: str = ""
    all_of: list[Constraint] | None = Field(default=None, alias="and", min_length=1)
    any_of: list[Constraint] | None = Field(default=None, alias="or", min_length=1)
    negated: Constraint | None = Field(default=None, alias="not")
    level: Level = "passage"
    transform: Transform | Literal["for_each"] | None = None
    of: Piece | None = None
    pattern: Piece | None = None
    at: int | None = None
    inner: CollieMeasure | None = None
    check: Constraint | None = None
    relation: AnyRelation | None = None
    value: Number | Piece | list[Number] | list[Piece] | None = None
    values: list[Number] | list[Piece] | None = Field(default=None, min_length=1)
    reduction: Reduction = "all"
    n: int | None = Field(default=None, ge=0)
    _checks: dict[bool, Check] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _check_complete(self) -> Constraint:
        forms = [self.all_of, self.any_of, self.negated, self.transform]
        if sum(form is not None for form in forms) != 1:
            raise ValueError(
                "a constraint is exactly one of: and, or, not, or a `transform` with its relation"
            )
        self.compile(vacuous=False)  # raises an error that says what is missing
        return self

    def __getstate__(self) -> dict[Any, Any]:
        # Compiled checks cannot be pickled for worker processes; they are built again there.
        return {**super().__getstate__(), "__pydantic_private__": {"_checks": {}}}

    def compile(self, *, vacuous: bool) -> Check:
        """Return the check that the data describes; it is built once.

        With `vacuous`, "every sentence …" holds for a text without sentences.
        """
        if vacuous not in self._checks:
            self._checks[vacuous] = build_check(self, vacuous)
        return self._checks[vacuous]


def build_check(spec: Constraint, vacuous: bool) -> Check:
    """Return the function that the data describes; ValueError if it describes none."""
    if spec.all_of is not None:
        return p.check_all(*(part.compile(vacuous=vacuous) for part in spec.all_of))
    if spec.any_of is not None:
        return p.check_any(*(part.compile(vacuous=vacuous) for part in spec.any_of))
    if spec.negated is not None:
        return p.check_not(spec.negated.compile(vacuous=vacuous))
    if spec.transform == "for_each":
        return _build_for_each(spec, vacuous)
    if spec.values is not None:
        raise ValueError("`values` needs transform for_each: one value for each unit")
    return p.check_measure(build_measure(spec), build_test(spec.relation, spec.value))


def _build_for_each(spec: Constraint, vacuous: bool) -> Check:
    """Return the check of a for_each: of the order of its units, or of each unit. Raises ValueError if it has none."""
    inner = p.measure_text() if spec.inner is None else build_measure(spec.inner)
    if spec.relation in get_args(Order):
        return p.check_order(spec.level, inner, spec.relation)  # type: ignore[arg-type]
    if spec.values is not None:
        if spec.value is not None or spec.check is not None:
            raise ValueError("`values` stands in the place of `value` and `check`")
        checks = [p.check_measure(inner, build_test(spec.relation, value)) for value in spec.values]
        if spec.reduction == "all":
            return p.check_in_turn(spec.level, checks, "exactly", len(checks))
        return p.check_in_turn(spec.level, checks, *_read_reduction(spec))
    if spec.check is not None:
        check = spec.check.compile(vacuous=vacuous)
    else:
        check = p.check_measure(inner, build_test(spec.relation, spec.value))
    if spec.reduction == "all":
        return p.check_every(spec.level, check, vacuous=vacuous)
    return p.check_count_passing(spec.level, check, *_read_reduction(spec))


def _read_reduction(spec: Constraint) -> tuple[Relation, int]:
    """Return how many units must pass, as a relation and a number, for every reduction but "all"."""
    if spec.reduction == "any":
        return "at least", 1
    if spec.reduction == "none":
        return "exactly", 0
    if spec.n is None:
        raise ValueError(f"reduction {spec.reduction!r} needs `n`")
    return spec.reduction, spec.n  # type: ignore[return-value]


def build_test(relation: Any, value: Any) -> p.Test:
    """Return the test that relation and value describe; ValueError if they describe none."""
    if relation in _CASES:
        return _CASES[relation]()
    if relation is None or value is None or relation in get_args(Order):
        raise ValueError(
            f"relation {relation!r} with value {value!r} cannot be checked here; see the docs of Collie"
        )
    if relation == "between":
        match value:
            case [int() | float() as low, int() | float() as high]:
                return p.require_between(low, high)
        raise ValueError(f"relation between needs value [low, high]; got {value!r}")
    if relation in get_args(Relation) and not isinstance(value, str | list):
        return p.require_number(relation, value)

    pieces = value if isinstance(value, list) else [value]
    if relation == "exactly":
        relation = "equals"
    if not all(isinstance(piece, str) for piece in pieces):
        raise ValueError(
            f"relation {relation!r} needs a text, or a list of texts, as value; got {value!r}"
        )
    if relation in _TESTS_OF_SEVERAL:
        return _TESTS_OF_SEVERAL[relation](pieces)
    if relation not in _TESTS_OF_ONE or len(pieces) != 1:
        raise ValueError(f"relation {relation!r} cannot compare with {value!r}")
    return _TESTS_OF_ONE[relation](pieces[0])


def check_size(data: Any) -> Any:
    """Return the data unchanged; ValueError if it is nested too deeply or holds too many parts."""
    nodes = 0
    open_parts = [(data, 0)]
    while open_parts:
        part, depth = open_parts.pop()
        children: list[Any] = []
        if isinstance(part, dict):
            nodes += 1
            children = list(part.values())
        elif isinstance(part, list):
            children = part
        if depth > 2 * _DEEPEST or nodes > _MOST_NODES or len(children) > 10 * _MOST_NODES:
            raise ValueError(
                f"a constraint may be {_DEEPEST} deep and have {_MOST_NODES} parts at most"
            )
        open_parts.extend((child, depth + 1) for child in children)
    return data


Constraints: TypeAlias = Annotated[
    list[Constraint], BeforeValidator(check_size), Field(min_length=1)
]


@verifier("Collie", family="benchmark", domain=UNIT, version=3)
def collie(
    text: Text,
    *,
    constraints: Constraints,
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
    try:
        with p.limit_units(_MOST_UNITS):
            results = [part.compile(vacuous=compat == "upstream")(subject) for part in parts]
    except p.TooMuchWork as error:
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
