"""Claims of verifiers about a response: a number lies in an interval, a property has a value, a text occurs or not.

`rubrank.rubrics.contradiction` compares claims about the same thing. A verifier of your own adds its claims with

    @claims("MyWordLimit")
    def claim_words(params):
        yield Interval("words", high=params["most"])

where `params` holds all parameters, including defaults. Claim only what is certain: a doubt is not a contradiction.
Quantities that are counted differently need different names ("paragraphs" between blank lines, "parts between ***").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from rubrank.rubrics.rubric import Criterion


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
    """This text does not occur, in upper or lower case; as a word: it does not stand alone."""

    text: str
    is_word: bool = False


Params: TypeAlias = Mapping[str, Any]
Claim: TypeAlias = Interval | OneOf | Contains | Lacks
ClaimFunction: TypeAlias = Callable[[Params], Iterable[Claim]]

CLAIMS: dict[str, ClaimFunction] = {}
"""Verifier → its claims, given its parameters."""


def claims(*verifiers: str) -> Callable[[ClaimFunction], ClaimFunction]:
    """Decorator: register a function from parameters to claims for verifiers of these names."""

    def register(function: ClaimFunction) -> ClaimFunction:
        CLAIMS.update(dict.fromkeys(verifiers, function))
        return function

    return register


def list_claims(verifier: str, params: Params) -> list[Claim]:
    """The claims of a verifier with these parameters; none if it is not in the table."""
    if verifier not in CLAIMS:
        return []
    return list(CLAIMS[verifier](params))


def all_params(criterion: Criterion) -> dict[str, Any]:
    """The criterion's parameters as its verifier gets them, including defaults."""
    params = criterion.decided_by.check_parameters(dict(criterion.params))
    return {name: getattr(params, name) for name in type(params).model_fields}


# ---------------------------------------------------------------------------------------------- our own verifiers

_AROUND = 0.1  # as `rubrank.verifiers.shared.relation` reads "around"


def make_interval(quantity: str, relation: str | None, count: float | None) -> Interval | None:
    """The interval of whole numbers that "at least 3" allows; None without a relation or a count."""
    if relation is None or count is None:
        return None
    slack = max(1.0, round(_AROUND * count))
    low, high = {
        "at least": (count, math.inf),
        "more than": (math.floor(count) + 1, math.inf),
        "at most": (0, count),
        "less than": (0, math.ceil(count) - 1),
        "exactly": (count, count),
        "around": (count - slack, count + slack),
    }.get(relation, (0, math.inf))
    return Interval(quantity, low, high)


def claim_relation(quantity: str, relation: str | None, count: float | None) -> list[Claim]:
    """The interval of `make_interval` as a list of claims; empty without a relation or a count."""
    interval = make_interval(quantity, relation, count)
    return [] if interval is None else [interval]


def count_claims(quantity: str, params: Params) -> list[Claim]:
    """The interval of a counting verifier's parameters: relation and count, or low and high."""
    if params.get("low") is not None or params.get("high") is not None:
        low = 0 if params.get("low") is None else params["low"]
        high = math.inf if params.get("high") is None else params["high"]
        return [Interval(quantity, low, high)]
    return claim_relation(quantity, params.get("relation"), params.get("count"))


def word_claims(text: str, low: float = 0, high: float = math.inf) -> Iterator[Claim]:
    """A word that occurs `low` to `high` times."""
    text = text.strip()
    yield Interval(f"occurrences of “{text.casefold()}”", low, high)
    if low > 0:
        yield Contains(text)
    elif high == 0:
        yield Lacks(text, is_word=True)


def claim_single_value(what: str, value: str) -> list[Claim]:
    """`what` has this value and no other."""
    return [OneOf(what, frozenset([value]))]


def _contains_text(text: str | None) -> list[Claim]:
    return [Contains(text)] if text else []


def claim_text_at(what: str, text: str) -> list[Claim]:
    """The text stands at one place, such as the first word, and so it occurs."""
    return [*claim_single_value(what, text.strip().casefold()), Contains(text)]


def _each_word(words: Iterable[str], low: float = 0, high: float = math.inf) -> Iterator[Claim]:
    for text in words:
        yield from word_claims(text, low, high)


def _occurrences(
    words: Iterable[str], relation: str | None, count: float | None
) -> Iterator[Claim]:
    interval = make_interval("occurrences", relation, count)
    if interval is not None:
        yield from _each_word(words, interval.low, interval.high)


# --------------------------------------------------------------------------------- claims of single verifiers


def _nth_paragraph(params: Params) -> Iterator[Claim]:
    yield Interval("paragraphs", params["num_paragraphs"], params["num_paragraphs"])
    # Paragraph 3 of 2 is an empty interval, which `contradiction` reports as impossible.
    yield Interval(
        f"paragraphs (number {params['nth_paragraph']} is required)",
        params["nth_paragraph"],
        params["num_paragraphs"],
    )
    yield from claim_text_at(
        f"first word of paragraph {params['nth_paragraph']}", params["first_word"]
    )


def _bullet_count(params: Params) -> list[Claim]:
    # `kind` and `nested` decide which items are counted. Counts of different items are not compared.
    names = {"bullet": "bullets", "numbered": "numbered items", "any": "list items"}
    quantity = names[params.get("kind", "bullet")]
    if not params.get("nested", True):
        quantity += " that are not nested"
    return count_claims(quantity, params)


def _highlight_count(params: Params) -> list[Claim]:
    kind = params.get("kind")
    return count_claims("highlights" if kind == "any" else f"highlights ({kind})", params)


def _keywords_multiple(params: Params) -> Iterator[Claim]:
    for number, times in enumerate((1, 2, 3, 5, 7), start=1):
        yield from word_claims(params[f"keyword{number}"], times, times)


def _forbidden_content(params: Params) -> Iterator[Claim]:
    for forbidden in params.get("words", ()):
        if params.get("whole_words", True):
            yield from word_claims(forbidden, high=0)
        else:
            yield Lacks(forbidden)
    yield from map(Lacks, params.get("characters", ""))


def _letter_frequency(params: Params) -> list[Claim]:
    if params.get("case_sensitive"):
        return count_claims(f"letters “{params['letter']}” in this case", params)
    return count_claims(f"letters “{params['letter'].casefold()}”", params)


def _case(params: Params) -> Iterator[Claim]:
    if params.get("scope", "text") == "text":
        names = {"upper": "capitals", "lower": "small letters"}
        yield from claim_single_value("case", names.get(params["case"], f"{params['case']} case"))
        if params["case"] == "lower":
            yield Interval("words in capitals", 0, 0)


def _language(params: Params) -> Iterator[Claim]:
    if params.get("share", 1.0) <= 0.5:
        return  # two languages can both have that share
    languages = [params["language"]] if isinstance(params["language"], str) else params["language"]
    yield OneOf("language", frozenset(map(_language_code, languages)))


def _language_code(language: str) -> str:
    """The two letters of a code or a name: "zh-CN", "English", "法语"."""
    from rubrank.verifiers.paper.language import language_code

    return language_code(language).partition("-")[0]


def _whole_item(params: Params) -> Iterator[Claim]:
    from rubrank.rubrics.public import ifeval_criteria

    for criterion in ifeval_criteria(params["instruction_id_list"], params.get("kwargs")):
        yield from list_claims(criterion.decided_by.name, all_params(criterion))


# ------------------------------------------------------------------------------------------------------- the table

_LENGTH: dict[str, ClaimFunction] = {
    "length_constraints:number_words": lambda params: claim_relation(
        "words", params["relation"], params["num_words"]
    ),
    "WordCount": lambda params: count_claims(str(params.get("unit", "words")), params),
    "count:word_count_range": lambda params: [
        Interval("words", params["min_words"], params["max_words"])
    ],
    "count:unique_word_count": lambda params: [Interval("words", params["N"])],
    "length_constraints:number_sentences": lambda params: claim_relation(
        "sentences", params["relation"], params["num_sentences"]
    ),
    "SentenceCount": lambda params: count_claims("sentences", params),
    "length_constraints:number_paragraphs": lambda params: claim_relation(
        "parts between ***", "exactly", params["num_paragraphs"]
    ),
    "length_constraints:nth_paragraph_first_word": _nth_paragraph,
    "ParagraphCount": lambda params: count_claims(
        f"parts between {params['separator']}" if params.get("separator") else "paragraphs", params
    ),
    # Which entries are counted depends on the parameters, so only equal ones are compared.
    "EntryCount": lambda params: count_claims(
        f"entries ({params.get('entries')}, {params.get('separator')}, {params.get('nested')})",
        params,
    ),
}
_FORMAT: dict[str, ClaimFunction] = {
    "detectable_format:number_bullet_lists": lambda params: claim_relation(
        "bullets", "exactly", params["num_bullets"]
    ),
    "BulletCount": _bullet_count,
    "detectable_format:number_highlighted_sections": lambda params: claim_relation(
        "highlights", "at least", params["num_highlights"]
    ),
    "HighlightCount": _highlight_count,
    "detectable_content:number_placeholders": lambda params: claim_relation(
        "placeholders", "at least", params["num_placeholders"]
    ),
    "detectable_format:multiple_sections": lambda params: [
        *claim_relation(
            f"sections “{params['section_spliter']}”", "at least", params["num_sections"]
        ),
        Contains(params["section_spliter"]),
    ],
    "detectable_content:postscript": lambda params: _contains_text(params["postscript_marker"]),
    "detectable_format:title": lambda params: _contains_text(
        "<<" if params.get("lang") == "en" else None
    ),
    "combination:repeat_prompt": lambda params: _contains_text(params["prompt_to_repeat"]),
    "copy:copy": lambda params: _contains_text(params["prompt_to_repeat"]),
    "copy:copying_simple": lambda params: _contains_text(params["prompt_to_repeat"]),
    "copy:copying_multiple": lambda params: _contains_text(params["prompt_to_repeat"]),
    "PromptRepeat": lambda params: _contains_text(params.get("prompt")),
    "TitleFormat": lambda params: _contains_text(params.get("title")),
    "Postscript": lambda params: _contains_text(params.get("marker")),
    "FormatRequirement": lambda params: (
        claim_single_value("format of the whole answer", str(params["format"]))
        if params.get("format") and params.get("only")
        else []
    ),
    "detectable_format:json_format": lambda params: claim_single_value(
        "format of the whole answer", "json"
    ),
    "startend:end_checker": lambda params: _contains_text(params["end_phrase"]),
    "first_word:first_word_answer": lambda params: claim_text_at(
        "first word", params["first_word"]
    ),
    "last_word:last_word_answer": lambda params: claim_text_at("last word", params["last_word"]),
}
_WORDS: dict[str, ClaimFunction] = {
    "keywords:existence": lambda params: _each_word(params["keywords"], low=1),
    "keywords:forbidden_words": lambda params: _each_word(params["forbidden_words"], high=0),
    "keywords:exclude_word_harder": lambda params: word_claims(params["keyword"], high=0),
    "keywords:word_once": lambda params: word_claims(params["keyword"], low=1, high=1),
    "keywords:keyword_specific_position": lambda params: word_claims(params["keyword"], low=1),
    "words:keywords_specific_position": lambda params: word_claims(params["keyword"], low=1),
    "keywords:frequency": lambda params: _occurrences(
        [params["keyword"]], params["relation"] or "exactly", params["frequency"]
    ),
    "keywords:word_count_different_numbers": lambda params: _occurrences(
        [params["keyword"]], params["relation"] or "exactly", params["frequency"]
    ),
    "sentence:keyword": lambda params: [
        *word_claims(params["word"], low=1),
        Interval("sentences", params["N"]),
    ],
    "count:keywords_multiple": _keywords_multiple,
    "Keyword": lambda params: (
        _occurrences(params["keywords"], params.get("relation", "at least"), params.get("count", 1))
        if params.get("need", "all") == "all" or len(params["keywords"]) == 1
        else []
    ),
    "ForbiddenContent": _forbidden_content,
    "DictionRequirement": lambda params: [
        *_each_word(params.get("use", ()), low=1),
        *_each_word(params.get("avoid", ()), high=0),
    ],
    **dict.fromkeys(
        ("keywords:letter_frequency", "letters:letter_counting2"),
        lambda params: claim_relation(
            f"letters “{params['letter'].casefold()}”",
            params["let_relation"],
            params["let_frequency"],
        ),
    ),
    "LetterFrequency": _letter_frequency,
    "letters:letter_counting": lambda params: claim_relation(
        "letters", params["relation"], params["N"]
    ),
    "punctuation:no_comma": lambda params: [Lacks(",")],
    "punctuation:punctuation_dot": lambda params: [Lacks(".")],
    "punctuation:punctuation_exclamation": lambda params: [Lacks("!")],
    "format:no_whitespace": lambda params: [Lacks(" "), Interval("paragraphs", 0, 1)],
}
_CASE_AND_LANGUAGE: dict[str, ClaimFunction] = {
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
    "CaseFormat": _case,
    "format:title_case": lambda params: claim_single_value("case", "title case"),
    "language:response_language": _language,
    "LanguageRequirement": _language,
}
CLAIMS.update(_LENGTH | _FORMAT | _WORDS | _CASE_AND_LANGUAGE | {"IFBench": _whole_item})
