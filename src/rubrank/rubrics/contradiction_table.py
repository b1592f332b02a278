"""What our own verifiers claim about a response: the table behind `rubrank.rubrics.contradiction`.

One line per verifier, and functions for those that need more. Quantities that are counted differently have different
names ("paragraphs" between blank lines, "parts between ***"), so that only what is truly the same is compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rubrank.rubrics.claims import (
    CLAIMS,
    Claim,
    Claims,
    Contains,
    Interval,
    Lacks,
    OneOf,
    all_params,
    claims_of,
)

Params = Mapping[str, Any]

_AROUND = 0.1  # as `rubrank.verifiers.shared.relation` reads "around"


def bounds(quantity: str, relation: str | None, count: float | None) -> Iterator[Interval]:
    """ "at least 3" as an interval of whole numbers; nothing if it is not known."""
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


def counted(quantity: str, p: Params) -> Iterator[Interval]:
    """The usual parameters of a count: relation and count, or low and high."""
    if p.get("low") is not None or p.get("high") is not None:
        low, high = p.get("low"), p.get("high")
        yield Interval(quantity, 0 if low is None else low, math.inf if high is None else high)
    else:
        yield from bounds(quantity, p.get("relation"), p.get("count"))


def word(text: str, low: float = 0, high: float = math.inf) -> Iterator[Claim]:
    """A word that occurs so often; one that must not occur must not stand in another that must."""
    text = text.strip()
    yield Interval(f"occurrences of “{text.casefold()}”", low, high)
    if low > 0:
        yield Contains(text)
    elif high == 0:
        yield Lacks(text, is_word=True)


def _one(what: str, value: str) -> list[Claim]:
    return [OneOf(what, frozenset([value]))]


def _contains(text: str | None) -> list[Claim]:
    return [Contains(text)] if text else []


def _at_edge(what: str, text: str) -> list[Claim]:
    return [*_one(what, text.strip().casefold()), Contains(text)]


def _each(words: Iterable[str], low: float = 0, high: float = math.inf) -> Iterator[Claim]:
    for text in words:
        yield from word(text, low, high)


def _so_often(words: Iterable[str], relation: str | None, count: float | None) -> Iterator[Claim]:
    for interval in bounds("", relation, count):
        yield from _each(words, interval.low, interval.high)


# ------------------------------------------------------------------------------------------- those that need more


def _nth_paragraph(p: Params) -> Iterator[Claim]:
    yield Interval("paragraphs", p["num_paragraphs"], p["num_paragraphs"])
    yield Interval(f"paragraphs (the {p['nth_paragraph']}. is asked for)", p["nth_paragraph"], p["num_paragraphs"])
    yield from _at_edge(f"first word of paragraph {p['nth_paragraph']}", p["first_word"])


def _bullet_count(p: Params) -> Iterator[Claim]:
    return counted("bullets" if p.get("kind") == "bullet" and p.get("nested") else f"bullets ({p})", p)


def _keywords_multiple(p: Params) -> Iterator[Claim]:
    for number, times in enumerate((1, 2, 3, 5, 7), start=1):
        yield from word(p[f"keyword{number}"], times, times)


def _forbidden_content(p: Params) -> Iterator[Claim]:
    for forbidden in p.get("words", ()):
        yield from word(forbidden, high=0) if p.get("whole_words", True) else [Lacks(forbidden)]
    yield from map(Lacks, p.get("characters", ""))


def _letter_frequency(p: Params) -> Iterator[Claim]:
    exact = bool(p.get("case_sensitive"))
    letter = p["letter"] if exact else p["letter"].casefold()
    return counted(f"letters “{letter}”" + (" in this case" if exact else ""), p)


def _case(p: Params) -> Iterator[Claim]:
    if p.get("scope", "text") == "text":
        names = {"upper": "capitals", "lower": "small letters"}
        yield from _one("case", names.get(p["case"], f"{p['case']} case"))
        if p["case"] == "lower":
            yield Interval("words in capitals", 0, 0)


def _language(p: Params) -> Iterator[Claim]:
    given = p["language"]
    if p.get("share", 1.0) > 0.5:  # below that, two languages can have their part
        yield OneOf("language", frozenset(map(_language_code, [given] if isinstance(given, str) else given)))


def _language_code(language: str) -> str:
    """The two letters of a code or a name: "zh-CN", "English", "法语"."""
    from rubrank.verifiers.paper.language import language_code

    return language_code(language).partition("-")[0]


def _whole_item(p: Params) -> Iterator[Claim]:
    from rubrank.rubrics.public import ifeval_criteria

    for criterion in ifeval_criteria(p["instruction_id_list"], p.get("kwargs")):
        yield from claims_of(criterion.decided_by.name, all_params(criterion))


# ------------------------------------------------------------------------------------------------------- the table

_LENGTH: dict[str, Claims] = {
    "length_constraints:number_words": lambda p: bounds("words", p["relation"], p["num_words"]),
    "WordCount": lambda p: counted(str(p.get("unit", "words")), p),
    "count:word_count_range": lambda p: [Interval("words", p["min_words"], p["max_words"])],
    "count:unique_word_count": lambda p: [Interval("words", p["N"])],
    "length_constraints:number_sentences": lambda p: bounds("sentences", p["relation"], p["num_sentences"]),
    "SentenceCount": lambda p: counted("sentences", p),
    "length_constraints:number_paragraphs": lambda p: bounds("parts between ***", "exactly", p["num_paragraphs"]),
    "length_constraints:nth_paragraph_first_word": _nth_paragraph,
    "ParagraphCount": lambda p: counted(f"parts between {p['separator']}" if p.get("separator") else "paragraphs", p),
    # Which entries are counted depends on the parameters, so only equal ones are compared.
    "EntryCount": lambda p: counted(f"entries ({p.get('entries')}, {p.get('separator')}, {p.get('nested')})", p),
}
_FORMAT: dict[str, Claims] = {
    "detectable_format:number_bullet_lists": lambda p: bounds("bullets", "exactly", p["num_bullets"]),
    "BulletCount": _bullet_count,
    "detectable_format:number_highlighted_sections": lambda p: bounds("highlights", "at least", p["num_highlights"]),
    "HighlightCount": lambda p: counted("highlights" + (f" ({k})" if (k := p.get("kind")) != "any" else ""), p),
    "detectable_content:number_placeholders": lambda p: bounds("placeholders", "at least", p["num_placeholders"]),
    "detectable_format:multiple_sections": lambda p: [
        *bounds(f"sections “{p['section_spliter']}”", "at least", p["num_sections"]),
        Contains(p["section_spliter"]),
    ],
    "detectable_content:postscript": lambda p: _contains(p["postscript_marker"]),
    "detectable_format:title": lambda p: _contains("<<" if p.get("lang") == "en" else None),
    "combination:repeat_prompt": lambda p: _contains(p["prompt_to_repeat"]),
    "copy:copy": lambda p: _contains(p["prompt_to_repeat"]),
    "copy:copying_simple": lambda p: _contains(p["prompt_to_repeat"]),
    "copy:copying_multiple": lambda p: _contains(p["prompt_to_repeat"]),
    "PromptRepeat": lambda p: _contains(p.get("prompt")),
    "TitleFormat": lambda p: _contains(p.get("title")),
    "Postscript": lambda p: _contains(p.get("marker")),
    "FormatRequirement": lambda p: (
        _one("format of the whole answer", str(p["format"])) if p.get("format") and p.get("only") else []
    ),
    "detectable_format:json_format": lambda p: _one("format of the whole answer", "json"),
    "startend:end_checker": lambda p: _contains(p["end_phrase"]),
    "first_word:first_word_answer": lambda p: _at_edge("first word", p["first_word"]),
    "last_word:last_word_answer": lambda p: _at_edge("last word", p["last_word"]),
}
_WORDS: dict[str, Claims] = {
    "keywords:existence": lambda p: _each(p["keywords"], low=1),
    "keywords:forbidden_words": lambda p: _each(p["forbidden_words"], high=0),
    "keywords:exclude_word_harder": lambda p: word(p["keyword"], high=0),
    "keywords:word_once": lambda p: word(p["keyword"], low=1, high=1),
    "keywords:keyword_specific_position": lambda p: word(p["keyword"], low=1),
    "words:keywords_specific_position": lambda p: word(p["keyword"], low=1),
    "keywords:frequency": lambda p: _so_often([p["keyword"]], p["relation"] or "exactly", p["frequency"]),
    "keywords:word_count_different_numbers": lambda p: _so_often(
        [p["keyword"]], p["relation"] or "exactly", p["frequency"]
    ),
    "sentence:keyword": lambda p: [*word(p["word"], low=1), Interval("sentences", p["N"])],
    "count:keywords_multiple": _keywords_multiple,
    "Keyword": lambda p: (
        _so_often(p["keywords"], p.get("relation", "at least"), p.get("count", 1))
        if p.get("need", "all") == "all" or len(p["keywords"]) == 1
        else []
    ),
    "ForbiddenContent": _forbidden_content,
    "DictionRequirement": lambda p: [*_each(p.get("use", ()), low=1), *_each(p.get("avoid", ()), high=0)],
    **dict.fromkeys(
        ("keywords:letter_frequency", "letters:letter_counting2"),
        lambda p: bounds(f"letters “{p['letter'].casefold()}”", p["let_relation"], p["let_frequency"]),
    ),
    "LetterFrequency": _letter_frequency,
    "letters:letter_counting": lambda p: bounds("letters", p["relation"], p["N"]),
    "punctuation:no_comma": lambda p: [Lacks(",")],
    "punctuation:punctuation_dot": lambda p: [Lacks(".")],
    "punctuation:punctuation_exclamation": lambda p: [Lacks("!")],
    "format:no_whitespace": lambda p: [Lacks(" "), Interval("paragraphs", 0, 1)],
}
_CASE_AND_LANGUAGE: dict[str, Claims] = {
    "change_case:english_capital": lambda p: [*_one("case", "capitals"), *_one("language", p.get("lang", "en"))],
    "change_case:english_lowercase": lambda p: [
        *_one("case", "small letters"),
        *_one("language", p.get("lang", "en")),
        Interval("words in capitals", 0, 0),
    ],
    "change_case:capital_word_frequency": lambda p: bounds(
        "words in capitals", p["capital_relation"], p["capital_frequency"]
    ),
    "CaseFormat": _case,
    "format:title_case": lambda p: _one("case", "title case"),
    "language:response_language": _language,
    "LanguageRequirement": _language,
}
CLAIMS.update(_LENGTH | _FORMAT | _WORDS | _CASE_AND_LANGUAGE | {"IFBench": _whole_item})
