"""What verifiers claim about a response, as data: a number within an interval, one value of a choice, a text in it.

`rubrank.rubrics.contradiction` compares claims about the same thing. A verifier of your own adds its claims with

    @claims("MyWordLimit")
    def _(p):
        yield Interval("words", high=p["most"])

where `p` holds all parameters, including defaults. Claim only what is certain: a doubt is not a contradiction.
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
Claims: TypeAlias = Callable[[Params], Iterable[Claim]]

CLAIMS: dict[str, Claims] = {}
"""Verifier → its claims, given its parameters."""


def claims(*verifiers: str) -> Callable[[Claims], Claims]:
    """Decorator: register a function from parameters to claims for verifiers of these names."""

    def register(function: Claims) -> Claims:
        CLAIMS.update(dict.fromkeys(verifiers, function))
        return function

    return register


def list_claims(verifier: str, params: Mapping[str, Any]) -> list[Claim]:
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


def bounds(quantity: str, relation: str | None, count: float | None) -> Iterator[Interval]:
    """ "at least 3" as an interval of whole numbers; nothing without a relation or a count."""
    if relation is None or count is None:
        return
    slack = max(1.0, round(_AROUND * count))
    low, high = {
        "at least": (count, math.inf),
        "more than": (math.floor(count) + 1, math.inf),
        "at most": (0, count),
        "less than": (0, math.ceil(count) - 1),
        "exactly": (count, count),
        "around": (count - slack, count + slack),
    }.get(relation, (0, math.inf))
    yield Interval(quantity, low, high)


def count_claims(quantity: str, p: Params) -> Iterator[Interval]:
    """The interval of a counting verifier's parameters: relation and count, or low and high."""
    if p.get("low") is not None or p.get("high") is not None:
        low = 0 if p.get("low") is None else p["low"]
        high = math.inf if p.get("high") is None else p["high"]
        yield Interval(quantity, low, high)
    else:
        yield from bounds(quantity, p.get("relation"), p.get("count"))


def word_claims(text: str, low: float = 0, high: float = math.inf) -> Iterator[Claim]:
    """A word that occurs `low` to `high` times."""
    text = text.strip()
    yield Interval(f"occurrences of “{text.casefold()}”", low, high)
    if low > 0:
        yield Contains(text)
    elif high == 0:
        yield Lacks(text, is_word=True)


def _only_value(what: str, value: str) -> list[Claim]:
    return [OneOf(what, frozenset([value]))]


def _contains_text(text: str | None) -> list[Claim]:
    return [Contains(text)] if text else []


def _text_at(what: str, text: str) -> list[Claim]:
    return [*_only_value(what, text.strip().casefold()), Contains(text)]


def _each_word(words: Iterable[str], low: float = 0, high: float = math.inf) -> Iterator[Claim]:
    for text in words:
        yield from word_claims(text, low, high)


def _occurrences(
    words: Iterable[str], relation: str | None, count: float | None
) -> Iterator[Claim]:
    for interval in bounds("", relation, count):
        yield from _each_word(words, interval.low, interval.high)


# --------------------------------------------------------------------------------- claims of single verifiers


def _nth_paragraph(p: Params) -> Iterator[Claim]:
    yield Interval("paragraphs", p["num_paragraphs"], p["num_paragraphs"])
    yield Interval(
        f"paragraphs (number {p['nth_paragraph']} is required)",
        p["nth_paragraph"],
        p["num_paragraphs"],
    )
    yield from _text_at(f"first word of paragraph {p['nth_paragraph']}", p["first_word"])


def _bullet_count(p: Params) -> Iterator[Claim]:
    # Other bullets are counted if the parameters differ, so only equal ones are compared.
    counts_all_bullets = p.get("kind") == "bullet" and p.get("nested")
    return count_claims("bullets" if counts_all_bullets else f"bullets ({p})", p)


def _highlight_count(p: Params) -> Iterator[Claim]:
    kind = p.get("kind")
    return count_claims("highlights" if kind == "any" else f"highlights ({kind})", p)


def _keywords_multiple(p: Params) -> Iterator[Claim]:
    for number, times in enumerate((1, 2, 3, 5, 7), start=1):
        yield from word_claims(p[f"keyword{number}"], times, times)


def _forbidden_content(p: Params) -> Iterator[Claim]:
    for forbidden in p.get("words", ()):
        if p.get("whole_words", True):
            yield from word_claims(forbidden, high=0)
        else:
            yield Lacks(forbidden)
    yield from map(Lacks, p.get("characters", ""))


def _letter_frequency(p: Params) -> Iterator[Claim]:
    if p.get("case_sensitive"):
        return count_claims(f"letters “{p['letter']}” in this case", p)
    return count_claims(f"letters “{p['letter'].casefold()}”", p)


def _case(p: Params) -> Iterator[Claim]:
    if p.get("scope", "text") == "text":
        names = {"upper": "capitals", "lower": "small letters"}
        yield from _only_value("case", names.get(p["case"], f"{p['case']} case"))
        if p["case"] == "lower":
            yield Interval("words in capitals", 0, 0)


def _language(p: Params) -> Iterator[Claim]:
    if p.get("share", 1.0) <= 0.5:
        return  # two languages can both have that share
    languages = [p["language"]] if isinstance(p["language"], str) else p["language"]
    yield OneOf("language", frozenset(map(_language_code, languages)))


def _language_code(language: str) -> str:
    """The two letters of a code or a name: "zh-CN", "English", "法语"."""
    from rubrank.verifiers.paper.language import language_code

    return language_code(language).partition("-")[0]


def _whole_item(p: Params) -> Iterator[Claim]:
    from rubrank.rubrics.public import ifeval_criteria

    for criterion in ifeval_criteria(p["instruction_id_list"], p.get("kwargs")):
        yield from list_claims(criterion.decided_by.name, all_params(criterion))


# ------------------------------------------------------------------------------------------------------- the table

_LENGTH: dict[str, Claims] = {
    "length_constraints:number_words": lambda p: bounds("words", p["relation"], p["num_words"]),
    "WordCount": lambda p: count_claims(str(p.get("unit", "words")), p),
    "count:word_count_range": lambda p: [Interval("words", p["min_words"], p["max_words"])],
    "count:unique_word_count": lambda p: [Interval("words", p["N"])],
    "length_constraints:number_sentences": lambda p: bounds(
        "sentences", p["relation"], p["num_sentences"]
    ),
    "SentenceCount": lambda p: count_claims("sentences", p),
    "length_constraints:number_paragraphs": lambda p: bounds(
        "parts between ***", "exactly", p["num_paragraphs"]
    ),
    "length_constraints:nth_paragraph_first_word": _nth_paragraph,
    "ParagraphCount": lambda p: count_claims(
        f"parts between {p['separator']}" if p.get("separator") else "paragraphs", p
    ),
    # Which entries are counted depends on the parameters, so only equal ones are compared.
    "EntryCount": lambda p: count_claims(
        f"entries ({p.get('entries')}, {p.get('separator')}, {p.get('nested')})", p
    ),
}
_FORMAT: dict[str, Claims] = {
    "detectable_format:number_bullet_lists": lambda p: bounds(
        "bullets", "exactly", p["num_bullets"]
    ),
    "BulletCount": _bullet_count,
    "detectable_format:number_highlighted_sections": lambda p: bounds(
        "highlights", "at least", p["num_highlights"]
    ),
    "HighlightCount": _highlight_count,
    "detectable_content:number_placeholders": lambda p: bounds(
        "placeholders", "at least", p["num_placeholders"]
    ),
    "detectable_format:multiple_sections": lambda p: [
        *bounds(f"sections “{p['section_spliter']}”", "at least", p["num_sections"]),
        Contains(p["section_spliter"]),
    ],
    "detectable_content:postscript": lambda p: _contains_text(p["postscript_marker"]),
    "detectable_format:title": lambda p: _contains_text("<<" if p.get("lang") == "en" else None),
    "combination:repeat_prompt": lambda p: _contains_text(p["prompt_to_repeat"]),
    "copy:copy": lambda p: _contains_text(p["prompt_to_repeat"]),
    "copy:copying_simple": lambda p: _contains_text(p["prompt_to_repeat"]),
    "copy:copying_multiple": lambda p: _contains_text(p["prompt_to_repeat"]),
    "PromptRepeat": lambda p: _contains_text(p.get("prompt")),
    "TitleFormat": lambda p: _contains_text(p.get("title")),
    "Postscript": lambda p: _contains_text(p.get("marker")),
    "FormatRequirement": lambda p: (
        _only_value("format of the whole answer", str(p["format"]))
        if p.get("format") and p.get("only")
        else []
    ),
    "detectable_format:json_format": lambda p: _only_value("format of the whole answer", "json"),
    "startend:end_checker": lambda p: _contains_text(p["end_phrase"]),
    "first_word:first_word_answer": lambda p: _text_at("first word", p["first_word"]),
    "last_word:last_word_answer": lambda p: _text_at("last word", p["last_word"]),
}
_WORDS: dict[str, Claims] = {
    "keywords:existence": lambda p: _each_word(p["keywords"], low=1),
    "keywords:forbidden_words": lambda p: _each_word(p["forbidden_words"], high=0),
    "keywords:exclude_word_harder": lambda p: word_claims(p["keyword"], high=0),
    "keywords:word_once": lambda p: word_claims(p["keyword"], low=1, high=1),
    "keywords:keyword_specific_position": lambda p: word_claims(p["keyword"], low=1),
    "words:keywords_specific_position": lambda p: word_claims(p["keyword"], low=1),
    "keywords:frequency": lambda p: _occurrences(
        [p["keyword"]], p["relation"] or "exactly", p["frequency"]
    ),
    "keywords:word_count_different_numbers": lambda p: _occurrences(
        [p["keyword"]], p["relation"] or "exactly", p["frequency"]
    ),
    "sentence:keyword": lambda p: [*word_claims(p["word"], low=1), Interval("sentences", p["N"])],
    "count:keywords_multiple": _keywords_multiple,
    "Keyword": lambda p: (
        _occurrences(p["keywords"], p.get("relation", "at least"), p.get("count", 1))
        if p.get("need", "all") == "all" or len(p["keywords"]) == 1
        else []
    ),
    "ForbiddenContent": _forbidden_content,
    "DictionRequirement": lambda p: [
        *_each_word(p.get("use", ()), low=1),
        *_each_word(p.get("avoid", ()), high=0),
    ],
    **dict.fromkeys(
        ("keywords:letter_frequency", "letters:letter_counting2"),
        lambda p: bounds(
            f"letters “{p['letter'].casefold()}”", p["let_relation"], p["let_frequency"]
        ),
    ),
    "LetterFrequency": _letter_frequency,
    "letters:letter_counting": lambda p: bounds("letters", p["relation"], p["N"]),
    "punctuation:no_comma": lambda p: [Lacks(",")],
    "punctuation:punctuation_dot": lambda p: [Lacks(".")],
    "punctuation:punctuation_exclamation": lambda p: [Lacks("!")],
    "format:no_whitespace": lambda p: [Lacks(" "), Interval("paragraphs", 0, 1)],
}
_CASE_AND_LANGUAGE: dict[str, Claims] = {
    "change_case:english_capital": lambda p: [
        *_only_value("case", "capitals"),
        *_only_value("language", p.get("lang", "en")),
    ],
    "change_case:english_lowercase": lambda p: [
        *_only_value("case", "small letters"),
        *_only_value("language", p.get("lang", "en")),
        Interval("words in capitals", 0, 0),
    ],
    "change_case:capital_word_frequency": lambda p: bounds(
        "words in capitals", p["capital_relation"], p["capital_frequency"]
    ),
    "CaseFormat": _case,
    "format:title_case": lambda p: _only_value("case", "title case"),
    "language:response_language": _language,
    "LanguageRequirement": _language,
}
CLAIMS.update(_LENGTH | _FORMAT | _WORDS | _CASE_AND_LANGUAGE | {"IFBench": _whole_item})
