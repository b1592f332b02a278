"""What our own verifiers claim about a response: the table behind `rubrank.rubrics.contradiction`.

One line a verifier. Quantities that are counted differently have different names ("paragraphs" between blank lines,
"parts between ***"), so that only what is truly the same is compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from rubrank.rubrics.contradiction import Choice, Claim, Contains, Interval, Lacks, all_params, claims, claims_of

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


def _one(what: str, *values: str) -> Choice:
    return Choice(what, frozenset(values))


# --------------------------------------------------------------------------------------------------------------- length


@claims("length_constraints:number_words")
def _(p: Params) -> Iterator[Claim]:
    return bounds("words", p["relation"], p["num_words"])


@claims("WordCount")
def _(p: Params) -> Iterator[Claim]:
    return counted(str(p.get("unit", "words")), p)


@claims("count:word_count_range")
def _(p: Params) -> Iterator[Claim]:
    yield Interval("words", p["min_words"], p["max_words"])


@claims("count:unique_word_count")
def _(p: Params) -> Iterator[Claim]:
    yield Interval("words", p["N"])


@claims("length_constraints:number_sentences")
def _(p: Params) -> Iterator[Claim]:
    return bounds("sentences", p["relation"], p["num_sentences"])


@claims("SentenceCount")
def _(p: Params) -> Iterator[Claim]:
    return counted("sentences", p)


@claims("length_constraints:number_paragraphs")
def _(p: Params) -> Iterator[Claim]:
    return bounds("parts between ***", "exactly", p["num_paragraphs"])


@claims("length_constraints:nth_paragraph_first_word")
def _(p: Params) -> Iterator[Claim]:
    yield Interval("paragraphs", p["num_paragraphs"], p["num_paragraphs"])
    yield Interval(f"paragraphs (the {p['nth_paragraph']}. is asked for)", p["nth_paragraph"], p["num_paragraphs"])
    yield _one(f"first word of paragraph {p['nth_paragraph']}", p["first_word"].casefold())
    yield Contains(p["first_word"])


@claims("ParagraphCount")
def _(p: Params) -> Iterator[Claim]:
    separator = p.get("separator")
    return counted("paragraphs" if separator is None else f"parts between {separator}", p)


@claims("EntryCount")
def _(p: Params) -> Iterator[Claim]:
    # Which entries are counted depends on the parameters, so only equal ones are compared.
    return counted(f"entries ({p.get('entries')}, {p.get('separator')}, {p.get('nested')})", p)


# --------------------------------------------------------------------------------------------------------------- format


@claims("detectable_format:number_bullet_lists")
def _(p: Params) -> Iterator[Claim]:
    return bounds("bullets", "exactly", p["num_bullets"])


@claims("BulletCount")
def _(p: Params) -> Iterator[Claim]:
    return counted("bullets" if p.get("kind") == "bullet" and p.get("nested") else f"bullets ({p})", p)


@claims("detectable_format:number_highlighted_sections")
def _(p: Params) -> Iterator[Claim]:
    return bounds("highlights", "at least", p["num_highlights"])


@claims("HighlightCount")
def _(p: Params) -> Iterator[Claim]:
    return counted("highlights" if p.get("kind") == "any" else f"highlights ({p.get('kind')})", p)


@claims("detectable_content:number_placeholders")
def _(p: Params) -> Iterator[Claim]:
    return bounds("placeholders", "at least", p["num_placeholders"])


@claims("detectable_format:multiple_sections")
def _(p: Params) -> Iterator[Claim]:
    yield from bounds(f"sections “{p['section_spliter']}”", "at least", p["num_sections"])
    yield Contains(p["section_spliter"])


@claims("detectable_content:postscript")
def _(p: Params) -> Iterator[Claim]:
    yield Contains(p["postscript_marker"])


@claims("detectable_format:title")
def _(p: Params) -> Iterator[Claim]:
    if p.get("lang") == "en":
        yield Contains("<<")


@claims("combination:repeat_prompt", "copy:copy", "copy:copying_simple", "copy:copying_multiple")
def _(p: Params) -> Iterator[Claim]:
    yield Contains(p["prompt_to_repeat"])


@claims("PromptRepeat")
def _(p: Params) -> Iterator[Claim]:
    if p.get("prompt"):
        yield Contains(p["prompt"])


@claims("TitleFormat")
def _(p: Params) -> Iterator[Claim]:
    if p.get("title"):
        yield Contains(p["title"])


@claims("Postscript")
def _(p: Params) -> Iterator[Claim]:
    if p.get("marker"):
        yield Contains(p["marker"])


@claims("FormatRequirement")
def _(p: Params) -> Iterator[Claim]:
    if p.get("format") and p.get("only"):
        yield _one("format of the whole answer", str(p["format"]))


@claims("detectable_format:json_format")
def _(p: Params) -> Iterator[Claim]:
    yield _one("format of the whole answer", "json")


@claims("startend:end_checker")
def _(p: Params) -> Iterator[Claim]:
    yield Contains(p["end_phrase"])


@claims("first_word:first_word_answer")
def _(p: Params) -> Iterator[Claim]:
    yield _one("first word", p["first_word"].strip().casefold())
    yield Contains(p["first_word"])


@claims("last_word:last_word_answer")
def _(p: Params) -> Iterator[Claim]:
    yield _one("last word", p["last_word"].strip().casefold())
    yield Contains(p["last_word"])


# ---------------------------------------------------------------------------------------- words, letters and characters


@claims("keywords:existence")
def _(p: Params) -> Iterator[Claim]:
    for keyword in p["keywords"]:
        yield from word(keyword, low=1)


@claims("keywords:forbidden_words")
def _(p: Params) -> Iterator[Claim]:
    for keyword in p["forbidden_words"]:
        yield from word(keyword, high=0)


@claims("keywords:exclude_word_harder")
def _(p: Params) -> Iterator[Claim]:
    return word(p["keyword"], high=0)


@claims("keywords:word_once")
def _(p: Params) -> Iterator[Claim]:
    return word(p["keyword"], low=1, high=1)


@claims("keywords:keyword_specific_position", "words:keywords_specific_position")
def _(p: Params) -> Iterator[Claim]:
    return word(p["keyword"], low=1)


@claims("keywords:frequency", "keywords:word_count_different_numbers")
def _(p: Params) -> Iterator[Claim]:
    for interval in bounds("", p["relation"] or "exactly", p["frequency"]):
        yield from word(p["keyword"], interval.low, interval.high)


@claims("sentence:keyword")
def _(p: Params) -> Iterator[Claim]:
    yield from word(p["word"], low=1)
    yield Interval("sentences", p["N"])


@claims("count:keywords_multiple")
def _(p: Params) -> Iterator[Claim]:
    for number, times in enumerate((1, 2, 3, 5, 7), start=1):
        yield from word(p[f"keyword{number}"], times, times)


@claims("Keyword")
def _(p: Params) -> Iterator[Claim]:
    if p.get("need", "all") == "all" or len(p["keywords"]) == 1:
        for keyword in p["keywords"]:
            for interval in bounds("", p.get("relation", "at least"), p.get("count", 1)):
                yield from word(keyword, interval.low, interval.high)


@claims("ForbiddenContent")
def _(p: Params) -> Iterator[Claim]:
    for forbidden in p.get("words", ()):
        yield from word(forbidden, high=0) if p.get("whole_words", True) else [Lacks(forbidden)]
    for character in p.get("characters", ""):
        yield Lacks(character)


@claims("DictionRequirement")
def _(p: Params) -> Iterator[Claim]:
    for wanted in p.get("use", ()):
        yield from word(wanted, low=1)
    for forbidden in p.get("avoid", ()):
        yield from word(forbidden, high=0)


@claims("keywords:letter_frequency", "letters:letter_counting2")
def _(p: Params) -> Iterator[Claim]:
    return bounds(f"letters “{p['letter'].casefold()}”", p["let_relation"], p["let_frequency"])


@claims("LetterFrequency")
def _(p: Params) -> Iterator[Claim]:
    exact = bool(p.get("case_sensitive"))
    letter = p["letter"] if exact else p["letter"].casefold()
    return counted(f"letters “{letter}”" + (" in this case" if exact else ""), p)


@claims("letters:letter_counting")
def _(p: Params) -> Iterator[Claim]:
    return bounds("letters", p["relation"], p["N"])


@claims("punctuation:no_comma")
def _(p: Params) -> Iterator[Claim]:
    yield Lacks(",")


@claims("punctuation:punctuation_dot")
def _(p: Params) -> Iterator[Claim]:
    yield Lacks(".")


@claims("punctuation:punctuation_exclamation")
def _(p: Params) -> Iterator[Claim]:
    yield Lacks("!")


@claims("format:no_whitespace")
def _(p: Params) -> Iterator[Claim]:
    yield Lacks(" ")
    yield Interval("paragraphs", 0, 1)


# --------------------------------------------------------------------------------------------------- case and language


@claims("change_case:english_capital")
def _(p: Params) -> Iterator[Claim]:
    yield _one("case", "capitals")
    yield _one("language", p.get("lang", "en"))


@claims("change_case:english_lowercase")
def _(p: Params) -> Iterator[Claim]:
    yield _one("case", "small letters")
    yield _one("language", p.get("lang", "en"))
    yield Interval("words in capitals", 0, 0)


@claims("change_case:capital_word_frequency")
def _(p: Params) -> Iterator[Claim]:
    return bounds("words in capitals", p["capital_relation"], p["capital_frequency"])


@claims("CaseFormat")
def _(p: Params) -> Iterator[Claim]:
    if p.get("scope", "text") == "text":
        names = {"upper": "capitals", "lower": "small letters"}
        yield _one("case", names.get(p["case"], f"{p['case']} case"))
        if p["case"] == "lower":
            yield Interval("words in capitals", 0, 0)


@claims("format:title_case")
def _(p: Params) -> Iterator[Claim]:
    yield _one("case", "title case")


@claims("language:response_language", "LanguageRequirement")
def _(p: Params) -> Iterator[Claim]:
    given = p["language"]
    if p.get("share", 1.0) > 0.5:  # below that, two languages can have their part
        yield Choice("language", frozenset(map(_language_code, [given] if isinstance(given, str) else given)))


def _language_code(language: str) -> str:
    """The two letters of a code or a name: "zh-CN", "English", "法语"."""
    from rubrank.verifiers.paper.language import language_code

    return language_code(language).partition("-")[0]


# -------------------------------------------------------------------------------------------------------- whole items


@claims("IFBench")
def _(p: Params) -> Iterator[Claim]:
    from rubrank.rubrics.public import ifeval_criteria

    for criterion in ifeval_criteria(p["instruction_id_list"], p.get("kwargs")):
        yield from claims_of(criterion.decided_by.name, all_params(criterion))
