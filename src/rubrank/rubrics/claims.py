"""Find criteria that no response can meet together: at most 50 words and at least 100, all capitals and no capitals.

A verifier makes claims about the responses that satisfy it: a number lies in an interval, a property has a value, a
text occurs or not. Claims about the same thing are compared:

    >>> claims_of_criteria = [("short", Interval("words", high=50)), ("long", Interval("words", low=100))]
    >>> compare_claims(claims_of_criteria)[0].message
    'words: “short” asks for at most 50, “long” for at least 100'

The tables at the end hold the claims of the library's verifiers. A verifier of your own adds its claims with

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
from itertools import combinations, product
from typing import TYPE_CHECKING, Any, TypeAlias

from rubrank._plain import shorten

if TYPE_CHECKING:
    from rubrank.rubrics.rubric import Criterion

_LONGEST_QUOTE = 60  # characters of a text that a message quotes
# Share of a count by which "around" may differ, as in `rubrank.verifiers.shared.relation`.
_AROUND = 0.1


@dataclass(frozen=True)
class Interval:
    """The number of `quantity` lies between low and high, both included."""

    quantity: str
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


@dataclass(frozen=True)
class OneOf:
    """`what` has exactly one value, and it is one of these."""

    what: str
    values: frozenset[str]

    def __str__(self) -> str:
        return " or ".join(sorted(self.values)) or "none"


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


def list_claims(verifier: str, params: Params) -> list[Claim]:
    """Return the claims of a verifier with these parameters; none if nothing is registered for it."""
    if verifier not in CLAIMS:
        return []
    return list(CLAIMS[verifier](params))


def resolve_params(criterion: Criterion) -> dict[str, Any]:
    """Return the criterion's parameters as its verifier gets them, including defaults."""
    params = criterion.decided_by.check_parameters(dict(criterion.params))
    return {name: getattr(params, name) for name in type(params).model_fields}


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
            verifier = criterion.decided_by.name
            for claim in list_claims(verifier, resolve_params(criterion)):
                named_claims.append((criterion.name, claim))
    return compare_claims(named_claims)


def compare_claims(named_claims: Sequence[NamedClaim]) -> tuple[Contradiction, ...]:
    """Return the contradictions among claims: for each pair of criteria only the first that is found."""
    contradictions: list[Contradiction] = []
    # Only claims about the same subject can contradict each other.
    claims_of_subject: dict[tuple[type, str], list[tuple[str, Interval | OneOf]]] = {}
    required: list[tuple[str, Contains]] = []
    forbidden: list[tuple[str, Lacks]] = []
    for name, claim in named_claims:
        if isinstance(claim, Contains):
            required.append((name, claim))
        elif isinstance(claim, Lacks):
            forbidden.append((name, claim))
        elif _is_impossible(claim):
            message = f"{_get_subject(claim)}: “{name}” asks for {claim}, which is impossible"
            contradictions.append(Contradiction((name,), message))
        else:
            key = (type(claim), _get_subject(claim))
            claims_of_subject.setdefault(key, []).append((name, claim))
    for (_, subject), members in claims_of_subject.items():
        for (name_a, claim_a), (name_b, claim_b) in combinations(members, 2):
            if _exclude_each_other(claim_a, claim_b):
                message = f"{subject}: “{name_a}” asks for {claim_a}, “{name_b}” for {claim_b}"
                contradictions.append(_contradict(name_a, name_b, message))
    for (name_a, contains), (name_b, lacks) in product(required, forbidden):
        if _is_forbidden(contains.text, lacks):
            quote = shorten(contains.text, _LONGEST_QUOTE)
            message = f"“{name_a}” asks for “{quote}”, “{name_b}” forbids “{lacks.text}”"
            contradictions.append(_contradict(name_a, name_b, message))
    # A pair of criteria often contradicts itself twice, as an interval ("exactly 0 times") and as a text ("forbids"),
    # and the second may name the criteria in the other order.
    first_of_criteria: dict[frozenset[str], Contradiction] = {}
    for contradiction in contradictions:
        first_of_criteria.setdefault(frozenset(contradiction.criteria), contradiction)
    return tuple(first_of_criteria.values())


def _contradict(name_a: str, name_b: str, message: str) -> Contradiction:
    """Return the contradiction of two claims, which may belong to the same criterion."""
    criteria = (name_a,) if name_a == name_b else (name_a, name_b)
    return Contradiction(criteria, message)


def _is_impossible(claim: Interval | OneOf) -> bool:
    """Does the claim contradict itself: an interval without numbers, or no value to choose from?"""
    if isinstance(claim, Interval):
        return claim.low > claim.high
    return not claim.values


def _get_subject(claim: Interval | OneOf) -> str:
    return claim.quantity if isinstance(claim, Interval) else claim.what


def _exclude_each_other(first: Interval | OneOf, second: Interval | OneOf) -> bool:
    """Do two claims about the same subject exclude each other? Claims of different kinds never do."""
    if isinstance(first, Interval) and isinstance(second, Interval):
        return first.high < second.low or second.high < first.low
    if isinstance(first, OneOf) and isinstance(second, OneOf):
        return not first.values & second.values
    return False


def _is_forbidden(text: str, lacks: Lacks) -> bool:
    """Does the text contain what must not occur?"""
    text = text.casefold()
    forbidden = lacks.text.casefold()
    if not lacks.is_word:
        return forbidden in text
    return bool(forbidden) and re.search(rf"(?<!\w){re.escape(forbidden)}(?!\w)", text) is not None


# -------------------------------------------------------------------------------------- functions that make claims


def make_interval(quantity: str, relation: str | None, count: float | None) -> Interval | None:
    """Return the whole numbers that a relation allows, such as "at least" 3; None without a relation or a count.

    An unknown relation allows every number.
    """
    if relation is None or count is None:
        return None
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
    return Interval(quantity, low, high)


def claim_relation(quantity: str, relation: str | None, count: float | None) -> list[Claim]:
    """Return the interval of `make_interval` as a list of claims; empty without a relation or a count."""
    interval = make_interval(quantity, relation, count)
    return [] if interval is None else [interval]


def claim_count(quantity: str, params: Params) -> list[Claim]:
    """Return the interval that the parameters of a counting verifier give: relation and count, or low and high."""
    if params.get("low") is not None or params.get("high") is not None:
        low = 0 if params.get("low") is None else params["low"]
        high = math.inf if params.get("high") is None else params["high"]
        return [Interval(quantity, low, high)]
    return claim_relation(quantity, params.get("relation"), params.get("count"))


def claim_word(text: str, low: float = 0, high: float = math.inf) -> Iterator[Claim]:
    """Claim that a word occurs `low` to `high` times.

    The interval is compared with other counts of the same word. The text is compared with other texts: a phrase that
    must occur may contain a word that must not.
    """
    text = text.strip()
    yield Interval(f"occurrences of “{text.casefold()}”", low, high)
    if low > 0:
        yield Contains(text)
    elif high == 0:
        yield Lacks(text, is_word=True)


def claim_single_value(what: str, value: str) -> list[Claim]:
    """Claim that `what` has this value and no other."""
    return [OneOf(what, frozenset([value]))]


def _claim_text(text: str | None) -> list[Claim]:
    """Claim that a text occurs; nothing without a text."""
    return [Contains(text)] if text else []


def claim_text_at(what: str, text: str) -> list[Claim]:
    """Claim that a text stands at one place, such as the first word, and so that it occurs."""
    return [*claim_single_value(what, text.strip().casefold()), Contains(text)]


def _claim_each_word(
    words: Iterable[str], low: float = 0, high: float = math.inf
) -> Iterator[Claim]:
    """Claim that each of the words occurs `low` to `high` times."""
    for text in words:
        yield from claim_word(text, low, high)


def _claim_occurrences(
    words: Iterable[str], relation: str | None, count: float | None
) -> Iterator[Claim]:
    """Claim that each word occurs so often, such as "at least" 2 times."""
    interval = make_interval("occurrences", relation, count)
    if interval is not None:
        yield from _claim_each_word(words, interval.low, interval.high)


# ------------------------------------------------------------------ verifiers whose claims take more than one line
#
# Verifiers with a colon in their names are those of public benchmarks (IFEval, IFBench, IF-RLVR), with the parameters
# that these have. The others are the library's own.


@claims("length_constraints:nth_paragraph_first_word")
def _claim_nth_paragraph(params: Params) -> Iterator[Claim]:
    total = params["num_paragraphs"]
    number = params["nth_paragraph"]
    yield Interval("paragraphs", total, total)
    # Paragraph 3 of 2 is an empty interval, which `compare_claims` reports as impossible.
    yield Interval(f"paragraphs (number {number} is required)", number, total)
    yield from claim_text_at(f"first word of paragraph {number}", params["first_word"])


@claims("BulletCount")
def _claim_bullet_count(params: Params) -> list[Claim]:
    # `kind` and `nested` decide which items are counted. Counts of different items are not compared.
    names = {"bullet": "bullets", "numbered": "numbered items", "any": "list items"}
    quantity = names[params.get("kind", "bullet")]
    if not params.get("nested", True):
        quantity += " that are not nested"
    return claim_count(quantity, params)


@claims("HighlightCount")
def _claim_highlight_count(params: Params) -> list[Claim]:
    kind = params.get("kind")
    return claim_count("highlights" if kind == "any" else f"highlights ({kind})", params)


@claims("count:keywords_multiple")
def _claim_keywords_multiple(params: Params) -> Iterator[Claim]:
    # The instruction of IFBench: keyword1 once, keyword2 twice, keyword3 three times, keyword4 five, keyword5 seven.
    for number, times in enumerate((1, 2, 3, 5, 7), start=1):
        yield from claim_word(params[f"keyword{number}"], times, times)


@claims("ForbiddenContent")
def _claim_forbidden_content(params: Params) -> Iterator[Claim]:
    for forbidden in params.get("words", ()):
        if params.get("whole_words", True):
            yield from claim_word(forbidden, high=0)
        else:
            yield Lacks(forbidden)
    yield from map(Lacks, params.get("characters", ""))


@claims("keywords:letter_frequency", "letters:letter_counting2")
def _claim_letter_relation(params: Params) -> list[Claim]:
    quantity = f"letters “{params['letter'].casefold()}”"
    return claim_relation(quantity, params["let_relation"], params["let_frequency"])


@claims("LetterFrequency")
def _claim_letter_frequency(params: Params) -> list[Claim]:
    if params.get("case_sensitive"):
        return claim_count(f"letters “{params['letter']}” in this case", params)
    return claim_count(f"letters “{params['letter'].casefold()}”", params)


@claims("CaseFormat")
def _claim_case(params: Params) -> Iterator[Claim]:
    if params.get("scope", "text") == "text":
        names = {"upper": "capitals", "lower": "small letters"}
        yield from claim_single_value("case", names.get(params["case"], f"{params['case']} case"))
        if params["case"] == "lower":
            yield Interval("words in capitals", 0, 0)


@claims("language:response_language", "LanguageRequirement")
def _claim_language(params: Params) -> Iterator[Claim]:
    from rubrank.verifiers.paper.language import find_language_code

    if params.get("share", 1.0) <= 0.5:
        return  # two languages can both have that share
    languages = [params["language"]] if isinstance(params["language"], str) else params["language"]
    # "zh-CN", "English", "法语": only the two letters of the language are compared.
    codes = [find_language_code(language).partition("-")[0] for language in languages]
    yield OneOf("language", frozenset(codes))


@claims("IFBench")
def _claim_ifbench_item(params: Params) -> Iterator[Claim]:
    from rubrank.rubrics.public import make_ifeval_criteria

    for criterion in make_ifeval_criteria(params["instruction_id_list"], params.get("kwargs")):
        yield from list_claims(criterion.decided_by.name, resolve_params(criterion))


# ------------------------------------------------------------------------- verifiers whose claims fit on one line

_LENGTH_CLAIMS: dict[str, ClaimFunction] = {
    "length_constraints:number_words": lambda params: claim_relation(
        "words", params["relation"], params["num_words"]
    ),
    "WordCount": lambda params: claim_count(str(params.get("unit", "words")), params),
    "count:word_count_range": lambda params: [
        Interval("words", params["min_words"], params["max_words"])
    ],
    # N different words are at least N words.
    "count:unique_word_count": lambda params: [Interval("words", params["N"])],
    "length_constraints:number_sentences": lambda params: claim_relation(
        "sentences", params["relation"], params["num_sentences"]
    ),
    "SentenceCount": lambda params: claim_count("sentences", params),
    "length_constraints:number_paragraphs": lambda params: claim_relation(
        "parts between ***", "exactly", params["num_paragraphs"]
    ),
    "ParagraphCount": lambda params: claim_count(
        f"parts between {params['separator']}" if params.get("separator") else "paragraphs", params
    ),
    # Which entries are counted depends on the parameters, so only equal ones are compared.
    "EntryCount": lambda params: claim_count(
        f"entries ({params.get('entries')}, {params.get('separator')}, {params.get('nested')})",
        params,
    ),
}
_FORMAT_CLAIMS: dict[str, ClaimFunction] = {
    "detectable_format:number_bullet_lists": lambda params: claim_relation(
        "bullets", "exactly", params["num_bullets"]
    ),
    "detectable_format:number_highlighted_sections": lambda params: claim_relation(
        "highlights", "at least", params["num_highlights"]
    ),
    "detectable_content:number_placeholders": lambda params: claim_relation(
        "placeholders", "at least", params["num_placeholders"]
    ),
    "detectable_format:multiple_sections": lambda params: [
        *claim_relation(
            f"sections “{params['section_spliter']}”", "at least", params["num_sections"]
        ),
        Contains(params["section_spliter"]),
    ],
    "detectable_content:postscript": lambda params: _claim_text(params["postscript_marker"]),
    "detectable_format:title": lambda params: _claim_text(
        "<<" if params.get("lang") == "en" else None
    ),
    "combination:repeat_prompt": lambda params: _claim_text(params["prompt_to_repeat"]),
    "copy:copy": lambda params: _claim_text(params["prompt_to_repeat"]),
    "copy:copying_simple": lambda params: _claim_text(params["prompt_to_repeat"]),
    "copy:copying_multiple": lambda params: _claim_text(params["prompt_to_repeat"]),
    "PromptRepeat": lambda params: _claim_text(params.get("prompt")),
    "TitleFormat": lambda params: _claim_text(params.get("title")),
    "Postscript": lambda params: _claim_text(params.get("marker")),
    "FormatRequirement": lambda params: (
        claim_single_value("format of the whole answer", str(params["format"]))
        if params.get("format") and params.get("only")
        else []
    ),
    "detectable_format:json_format": lambda params: claim_single_value(
        "format of the whole answer", "json"
    ),
    "startend:end_checker": lambda params: _claim_text(params["end_phrase"]),
    "first_word:first_word_answer": lambda params: claim_text_at(
        "first word", params["first_word"]
    ),
    "last_word:last_word_answer": lambda params: claim_text_at("last word", params["last_word"]),
}
_WORD_CLAIMS: dict[str, ClaimFunction] = {
    "keywords:existence": lambda params: _claim_each_word(params["keywords"], low=1),
    "keywords:forbidden_words": lambda params: _claim_each_word(params["forbidden_words"], high=0),
    "keywords:exclude_word_harder": lambda params: claim_word(params["keyword"], high=0),
    "keywords:word_once": lambda params: claim_word(params["keyword"], low=1, high=1),
    "keywords:keyword_specific_position": lambda params: claim_word(params["keyword"], low=1),
    "words:keywords_specific_position": lambda params: claim_word(params["keyword"], low=1),
    "keywords:frequency": lambda params: _claim_occurrences(
        [params["keyword"]], params["relation"] or "exactly", params["frequency"]
    ),
    "keywords:word_count_different_numbers": lambda params: _claim_occurrences(
        [params["keyword"]], params["relation"] or "exactly", params["frequency"]
    ),
    "sentence:keyword": lambda params: [
        *claim_word(params["word"], low=1),
        Interval("sentences", params["N"]),
    ],
    "Keyword": lambda params: (
        _claim_occurrences(
            params["keywords"], params.get("relation", "at least"), params.get("count", 1)
        )
        if params.get("need", "all") == "all" or len(params["keywords"]) == 1
        else []
    ),
    "DictionRequirement": lambda params: [
        *_claim_each_word(params.get("use", ()), low=1),
        *_claim_each_word(params.get("avoid", ()), high=0),
    ],
    "letters:letter_counting": lambda params: claim_relation(
        "letters", params["relation"], params["N"]
    ),
    "punctuation:no_comma": lambda params: [Lacks(",")],
    "punctuation:punctuation_dot": lambda params: [Lacks(".")],
    "punctuation:punctuation_exclamation": lambda params: [Lacks("!")],
    "format:no_whitespace": lambda params: [Lacks(" "), Interval("paragraphs", 0, 1)],
}
_CASE_AND_LANGUAGE_CLAIMS: dict[str, ClaimFunction] = {
    "change_case:english_capital": lambda params: [
        *claim_single_value("case", "capitals"),
        *claim_single_value("language", params.get("lang", "en")),
    ],
    "change_case:english_lowercase": lambda params: [
        *claim_single_value("case", "small letters"),
        *claim_single_value("language", params.get("lang", "en")),
        Interval("words in capitals", 0, 0),
    ],
    "change_case:capital_word_frequency": lambda params: claim_relation(
        "words in capitals", params["capital_relation"], params["capital_frequency"]
    ),
    "format:title_case": lambda params: claim_single_value("case", "title case"),
}
CLAIMS.update(_LENGTH_CLAIMS | _FORMAT_CLAIMS | _WORD_CLAIMS | _CASE_AND_LANGUAGE_CLAIMS)
