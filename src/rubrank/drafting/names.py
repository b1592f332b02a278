"""Say a criterion in a few words: "at least 300 words", "no commas".

The phrases stand in data/names.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from rubrank.verifiers.verifier import find_verifier

_LONGEST = 60


@cache
def _read_names() -> dict[str, dict[str, str]]:
    text = (files("rubrank") / "drafting" / "data" / "names.yaml").read_text(encoding="utf-8")
    names: dict[str, dict[str, str]] = yaml.safe_load(text)
    return names


def name_criterion(verifier: str, params: Mapping[str, Any]) -> str:
    """A name that a reader understands without the parameters."""
    phrases = _read_names()["phrases"]
    units = _read_names()["units"]
    if verifier in phrases:
        return phrases[verifier].format(**params)[:_LONGEST]
    if verifier in units:
        unit = params.get("unit", units[verifier])
        if "low" in params:
            return f"{params['low']} to {params['high']} {unit}"
        return f"{params['relation']} {params['count']} {unit}"
    for key, phrase in (("keywords", "mentions"), ("forbidden_words", "does not mention")):
        if key in params:
            return f"{phrase} {', '.join(params[key])}"[:_LONGEST]
    if verifier == "FormatRequirement" and "format" in params:
        return f"in the format {params['format']}"
    if verifier == "CaseFormat":
        return _read_names()["cases"].get(params["case"], f"{params['case']} case")
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
