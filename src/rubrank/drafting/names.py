"""Say a criterion in a few words: "at least 300 words", "no commas"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rubrank.verifiers.verifier import find_verifier

_PHRASES = {
    "length_constraints:number_words": "{relation} {num_words} words",
    "length_constraints:number_sentences": "{relation} {num_sentences} sentences",
    "length_constraints:number_paragraphs": "{num_paragraphs} paragraphs divided by ***",
    "length_constraints:nth_paragraph_first_word": "paragraph {nth_paragraph}/{num_paragraphs} opens with {first_word}",
    "keywords:frequency": "{relation} {frequency} times {keyword}",
    "keywords:letter_frequency": "letter {letter} {let_relation} {let_frequency} times",
    "change_case:capital_word_frequency": "{capital_relation} {capital_frequency} words in capitals",
    "change_case:english_capital": "all in capitals",
    "change_case:english_lowercase": "all in lower case",
    "combination:repeat_prompt": "the request is repeated first",
    "combination:two_responses": "two responses divided by ******",
    "detectable_content:number_placeholders": "{num_placeholders} placeholders in brackets",
    "detectable_content:postscript": "a postscript {postscript_marker}",
    "detectable_format:constrained_response": "one of the fixed answers",
    "detectable_format:json_format": "only JSON",
    "detectable_format:multiple_sections": "{num_sections} sections marked {section_spliter}",
    "detectable_format:number_bullet_lists": "{num_bullets} bullet points",
    "detectable_format:number_highlighted_sections": "{num_highlights} highlighted parts",
    "detectable_format:title": "a title in <<brackets>>",
    "language:response_language": "in the language {language}",
    "punctuation:no_comma": "no commas",
    "startend:end_checker": "ends with a phrase",
    "startend:quotation": "in quotation marks",
}
_UNITS = {
    "WordCount": "words",
    "SentenceCount": "sentences",
    "ParagraphCount": "paragraphs",
    "BulletCount": "bullet points",
    "EntryCount": "points",
}
_LONGEST = 60
_CASES = {
    "upper": "all in capitals",
    "lower": "all in lower case",
    "title": "every word capitalised",
}


def name_criterion(verifier: str, params: Mapping[str, Any]) -> str:
    """A name that a reader understands without the parameters."""
    if verifier in _PHRASES:
        return _PHRASES[verifier].format(**params)[:_LONGEST]
    if verifier in _UNITS:
        unit = params.get("unit", _UNITS[verifier])
        if "low" in params:
            return f"{params['low']} to {params['high']} {unit}"
        return f"{params['relation']} {params['count']} {unit}"
    for key, phrase in (("keywords", "mentions"), ("forbidden_words", "does not mention")):
        if key in params:
            return f"{phrase} {', '.join(params[key])}"[:_LONGEST]
    if verifier == "FormatRequirement" and "format" in params:
        return f"in the format {params['format']}"
    if verifier == "CaseFormat":
        return _CASES.get(params["case"], f"{params['case']} case")
    if verifier == "LanguageRequirement":
        return f"in the language {params['language']}"
    if verifier == "ConstrainedResponse" and "options" in params:
        return f"one of: {', '.join(params['options'])}"[:_LONGEST]
    if verifier.startswith(("first_word:", "last_word:")):
        place = "begins" if verifier.startswith("first") else "ends"
        return f"{place} with {next(iter(params.values()))}"[:_LONGEST]
    return verifier


def name_question(question: str) -> str:
    """The first words of a question, as the name of a judged criterion."""
    words = question.rstrip("?？ ").split()
    return " ".join(words[:8])[:_LONGEST] or question[:_LONGEST]


def describe_criterion(verifier: str, params: Mapping[str, Any]) -> str:
    """The criterion in words that can be compared with a prompt: its name, what it checks, all parameters.

    >>> describe_criterion("WordCount", {"relation": "at most", "count": 30})
    'at most 30 words (the number of words that a reader sees; relation: at most, count: 30)'
    """
    doc = find_verifier(verifier).doc.splitlines()[0].split("; ")[0].rstrip(".")
    settings = ", ".join(f"{name}: {value}" for name, value in params.items())
    details = f"{doc[:1].lower()}{doc[1:]}" + (f"; {settings}" if settings else "")
    name = name_criterion(verifier, params)
    return details if name == verifier else f"{name} ({details})"
