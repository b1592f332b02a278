"""Find criteria that no response can meet together: at most 50 words and at least 100, all capitals and no capitals.

A verifier makes claims about the responses that satisfy it: a number lies in an interval, a property has a value, a
text occurs or not. Claims about the same thing are compared:

    >>> claims_of_criteria = [("short", Interval("words", high=50)), ("long", Interval("words", low=100))]
    >>> compare_claims(claims_of_criteria)[0].message
    'words: “short” asks for at most 50, “long” for at least 100'

Most claims of the library's verifiers are lines of claims.tsv. A verifier of your own adds its claims with

    @claims("MyWordLimit")
    def claim_words(params):
        yield Interval("words", high=params["most"])

where `params` holds all parameters, including defaults. Claim only what is certain: a doubt is not a contradiction.
Quantities that are counted differently need different names ("paragraphs" between blank lines, "parts between ***").
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import combinations, product
from typing import TYPE_CHECKING, Any, TypeAlias

from rubrank._plain import shorten

if TYPE_CHECKING:
    from rubrank.rubrics.rubric import Criterion

_LONGEST_QUOTE = 60  # characters of a text that a message quotes
# Share of a count by which "around" may differ, as in `rubrank.verifiers.shared.instruction`.
_AROUND = 0.1


@dataclass(frozen=True)
class Interval:
    """The number of `subject`, such as words, lies between low and high, both included."""

    subject: str
    low: float = 0.0
    high: float = math.inf

    def __str__(self) -> str:
        if self.low == self.high:
            return f"exactly {self.low:g}"
        parts = []
        if self.low > 0 or self.high == math.inf:
            parts.append(f"at least {self.low:g}")
        if self.high < math.inf:
            parts.append(f"at most {self.high:g}")
        return " and ".join(parts)

    def is_impossible(self) -> bool:
        """Is there no number between low and high?"""
        return self.low > self.high

    def excludes(self, other: Interval) -> bool:
        """Is there no number in both intervals?"""
        return self.high < other.low or other.high < self.low


@dataclass(frozen=True)
class OneOf:
    """`subject`, such as the language, has exactly one value, and it is one of these."""

    subject: str
    values: frozenset[str]

    def __str__(self) -> str:
        return " or ".join(sorted(self.values)) or "none"

    def is_impossible(self) -> bool:
        """Is there no value to choose from?"""
        return not self.values

    def excludes(self, other: OneOf) -> bool:
        """Do the two have no value in common?"""
        return not self.values & other.values


@dataclass(frozen=True)
class Contains:
    """This text occurs, in upper or lower case."""

    text: str


@dataclass(frozen=True)
class Lacks:
    """This text does not occur, in upper or lower case."""

    text: str
    is_word: bool = False
    """Only the whole word is forbidden: “art” may still occur in “party”."""

    def forbids(self, text: str) -> bool:
        """Does a text contain what must not occur?"""
        text = text.casefold()
        forbidden = self.text.casefold()
        if not self.is_word:
            return forbidden in text
        return bool(forbidden) and bool(re.search(rf"(?<!\w){re.escape(forbidden)}(?!\w)", text))


Params: TypeAlias = Mapping[str, Any]
Claim: TypeAlias = Interval | OneOf | Contains | Lacks
NamedClaim: TypeAlias = tuple[str, Claim]
"""The name of a criterion, and one of its claims."""
ClaimFunction: TypeAlias = Callable[[Params], Iterable[Claim]]

CLAIMS: dict[str, ClaimFunction] = {}
"""Name of a verifier → the function that lists its claims, given its parameters."""


def claims(*verifiers: str) -> Callable[[ClaimFunction], ClaimFunction]:
    """Decorator: register a function from parameters to claims for verifiers of these names."""

    def register(function: ClaimFunction) -> ClaimFunction:
        CLAIMS.update(dict.fromkeys(verifiers, function))
        return function

    return register


def list_claims(criterion: Criterion) -> list[Claim]:
    """Return the claims of a criterion's verifier; none if neither a function nor claims.tsv makes some."""
    verifier = criterion.decided_by
    if verifier.name not in CLAIMS and verifier.name not in _TABLE:
        return []
    checked = verifier.check_parameters(dict(criterion.params))
    # Not dict(checked): a parameter may be called "keys".
    params = {name: getattr(checked, name) for name in type(checked).model_fields}
    if verifier.name in CLAIMS:
        return list(CLAIMS[verifier.name](params))
    return [claim for row in _TABLE[verifier.name] for claim in _list_row_claims(row, params)]


# -------------------------------------------------------------------------------------------------- contradictions


@dataclass(frozen=True)
class Contradiction:
    """Criteria that exclude each other (one, if it contradicts itself), and why."""

    criteria: tuple[str, ...]
    message: str


def find_contradictions(criteria: Iterable[Criterion]) -> tuple[Contradiction, ...]:
    """Return all contradictions among criteria that verifiers decide and for which a higher score is better."""
    named_claims: list[NamedClaim] = []
    for criterion in criteria:
        if not criterion.judged and criterion.direction == "higher":
            named_claims += [(criterion.name, claim) for claim in list_claims(criterion)]
    return compare_claims(named_claims)


def compare_claims(named_claims: Sequence[NamedClaim]) -> tuple[Contradiction, ...]:
    """Return the contradictions among claims: for each pair of criteria only the first that is found."""
    contradictions: list[Contradiction] = []
    # Only claims of one type about the same subject can exclude each other.
    claims_of_subject: dict[tuple[type, str], list[tuple[str, Any]]] = {}
    required: list[tuple[str, Contains]] = []
    forbidden: list[tuple[str, Lacks]] = []
    for name, claim in named_claims:
        if isinstance(claim, Contains):
            required.append((name, claim))
        elif isinstance(claim, Lacks):
            forbidden.append((name, claim))
        elif claim.is_impossible():
            message = f"{claim.subject}: “{name}” asks for {claim}, which is impossible"
            contradictions.append(Contradiction((name,), message))
        else:
            claims_of_subject.setdefault((type(claim), claim.subject), []).append((name, claim))
    messages: list[
        tuple[str, str, str]
    ] = []  # the names of two criteria, and why they exclude each other
    for (_, subject), members in claims_of_subject.items():
        for (first, first_claim), (second, second_claim) in combinations(members, 2):
            if first_claim.excludes(second_claim):
                message = (
                    f"{subject}: “{first}” asks for {first_claim}, “{second}” for {second_claim}"
                )
                messages.append((first, second, message))
    for (first, contains), (second, lacks) in product(required, forbidden):
        if lacks.forbids(contains.text):
            quote = shorten(contains.text, _LONGEST_QUOTE)
            message = f"“{first}” asks for “{quote}”, “{second}” forbids “{lacks.text}”"
            messages.append((first, second, message))
    for first, second, message in messages:
        # Both claims may belong to one criterion, which is named once.
        contradictions.append(Contradiction(tuple(dict.fromkeys((first, second))), message))
    # Two criteria often contradict each other twice, as an interval ("exactly 0 times") and as a text ("forbids"), and
    # the second contradiction may name them in the other order.
    first_of_criteria: dict[frozenset[str], Contradiction] = {}
    for contradiction in contradictions:
        first_of_criteria.setdefault(frozenset(contradiction.criteria), contradiction)
    return tuple(first_of_criteria.values())


# -------------------------------------------------------------------------------------- functions that make claims


def make_interval(subject: str, relation: str, count: float) -> Interval:
    """Return the whole numbers that a relation allows, such as "at least" 3; all for an unknown relation."""
    slack = max(1.0, round(_AROUND * count))
    bounds = {
        "at least": (count, math.inf),
        "more than": (math.floor(count) + 1, math.inf),
        "at most": (0, count),
        "less than": (0, math.ceil(count) - 1),
        "exactly": (count, count),
        "around": (count - slack, count + slack),
    }
    low, high = bounds.get(relation, (0, math.inf))
    return Interval(subject, low, high)


def claim_count(subject: str, params: Params) -> list[Claim]:
    """Return the interval that the parameters of a counting verifier give: relation and count, or low and high."""
    if params.get("low") is not None or params.get("high") is not None:
        low = 0 if params.get("low") is None else params["low"]
        high = math.inf if params.get("high") is None else params["high"]
        return [Interval(subject, low, high)]
    if params.get("relation") is None or params.get("count") is None:
        return []
    return [make_interval(subject, params["relation"], params["count"])]


def claim_words(
    words: str | Iterable[str], low: float = 0, high: float = math.inf
) -> Iterator[Claim]:
    """Claim that each of the words occurs `low` to `high` times.

    The interval is compared with other counts of the same word. The text is compared with other texts: a phrase that
    must occur may contain a word that must not.
    """
    for text in [words] if isinstance(words, str) else words:
        text = text.strip()
        yield Interval(f"occurrences of “{text.casefold()}”", low, high)
        if low > 0:
            yield Contains(text)
        elif high == 0:
            yield Lacks(text, is_word=True)


# ------------------------------------------------------------------------------ verifiers whose claims are in a table
#
# Verifiers with a colon in their names are those of public benchmarks (IFEval, IFBench, IF-RLVR), with the parameters
# that these have. The others are the library's own.


def _read_table() -> dict[str, list[list[str]]]:
    """Read claims.tsv: name of a verifier → its lines, each a kind and the columns of that kind."""
    rows_of_verifier: dict[str, list[list[str]]] = {}
    text = (files("rubrank.rubrics") / "claims.tsv").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            verifier, *row = line.split("\t")
            rows_of_verifier.setdefault(verifier, []).append(row)
    return rows_of_verifier


_TABLE = _read_table()


def _list_row_claims(row: Sequence[str], params: Params) -> Iterator[Claim]:
    """Yield the claims of a line of claims.tsv, which describes the kinds and their columns."""
    kind, first_column, *columns = row
    values: list[Any] = []
    for column in columns:
        if column.isdigit():
            values.append(int(column))
        else:
            values.append(column[1:] if column.startswith("=") else params[column])
    # Letters and words are compared in lower case.
    folded = {
        name: value.casefold() if isinstance(value, str) else value
        for name, value in params.items()
    }
    subject = first_column.format(**folded)
    if kind == "count":
        yield from claim_count(subject, params)
    elif kind == "relation":
        if None not in values:
            yield make_interval(subject, *values)
    elif kind == "range":
        yield Interval(subject, *values)
    elif kind == "words":
        yield from claim_words(params[first_column], *values)
    elif kind == "frequency":
        interval = make_interval("occurrences", values[0] or "exactly", values[1])
        yield from claim_words(params[first_column], interval.low, interval.high)
    elif kind == "text":
        if params[first_column]:
            yield Contains(params[first_column])
    elif kind == "at":
        yield OneOf(subject, frozenset([values[0].strip().casefold()]))
        yield Contains(values[0])
    elif kind == "value":
        yield OneOf(subject, frozenset(values))
    elif kind == "lacks":
        yield Lacks(first_column)
    else:
        raise ValueError(f"claims.tsv has no kind {kind!r}")


# ------------------------------------------------------------------------------- verifiers whose claims have conditions


@claims("ParagraphCount")
def _claim_paragraph_count(params: Params) -> list[Claim]:
    separator = params["separator"]
    return claim_count(f"parts between {separator}" if separator else "paragraphs", params)


@claims("BulletCount")
def _claim_bullet_count(params: Params) -> list[Claim]:
    # `kind` and `nested` decide which items are counted. Counts of different items are not compared.
    names = {"bullet": "bullets", "numbered": "numbered items", "any": "list items"}
    quantity = names[params["kind"]]
    return claim_count(quantity if params["nested"] else f"{quantity} that are not nested", params)


@claims("HighlightCount")
def _claim_highlight_count(params: Params) -> list[Claim]:
    kind = params["kind"]
    return claim_count("highlights" if kind == "any" else f"highlights ({kind})", params)


@claims("detectable_format:title")
def _claim_title(params: Params) -> Iterator[Claim]:
    if params["lang"] == "en":
        yield Contains("<<")


@claims("FormatRequirement")
def _claim_format(params: Params) -> Iterator[Claim]:
    if params["format"] and params["only"]:
        yield OneOf("format of the whole answer", frozenset([str(params["format"])]))


@claims("Keyword")
def _claim_keyword(params: Params) -> Iterator[Claim]:
    if params["need"] == "all" or len(params["keywords"]) == 1:
        interval = make_interval("occurrences", params["relation"], params["count"])
        yield from claim_words(params["keywords"], interval.low, interval.high)


@claims("ForbiddenContent")
def _claim_forbidden_content(params: Params) -> Iterator[Claim]:
    if params["whole_words"]:
        yield from claim_words(params["words"], high=0)
    else:
        yield from map(Lacks, params["words"])
    yield from map(Lacks, params["characters"])


@claims("LetterFrequency")
def _claim_letter_frequency(params: Params) -> list[Claim]:
    if params["case_sensitive"]:
        return claim_count(f"letters “{params['letter']}” in this case", params)
    return claim_count(f"letters “{params['letter'].casefold()}”", params)


@claims("CaseFormat")
def _claim_case(params: Params) -> Iterator[Claim]:
    if params["scope"] == "text":
        names = {"upper": "capitals", "lower": "small letters"}
        case = names.get(params["case"], f"{params['case']} case")
        yield OneOf("case", frozenset([case]))
        if params["case"] == "lower":
            yield Interval("words in capitals", 0, 0)


@claims("language:response_language", "LanguageRequirement")
def _claim_language(params: Params) -> Iterator[Claim]:
    from rubrank.verifiers.paper.length import find_language_code

    if params.get("share", 1.0) <= 0.5:
        return  # two languages can both have that share
    languages = [params["language"]] if isinstance(params["language"], str) else params["language"]
    # "zh-CN", "English", "法语": only the two letters of the language are compared.
    codes = [find_language_code(language).partition("-")[0] for language in languages]
    yield OneOf("language", frozenset(codes))


@claims("IFBench")
def _claim_ifbench_item(params: Params) -> Iterator[Claim]:
    from rubrank.rubrics.public import convert_ifeval
    from rubrank.rubrics.rubric import Criterion

    for data in convert_ifeval(params["instruction_id_list"], params["kwargs"]):
        yield from list_claims(Criterion(**data))
