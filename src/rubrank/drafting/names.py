"""Name a criterion in a few words: "at least 300 words", "no commas".

    >>> name_criterion("WordCount", {"relation": "at most", "count": 30})
    'at most 30 words'

The phrases are in data/names.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from rubrank.errors import RubrankError
from rubrank.verifiers.verifier import find_verifier

_LONGEST_NAME = 60  # characters


@cache
def _read_names() -> dict[str, list[str]]:
    text = (files("rubrank") / "drafting" / "data" / "names.yaml").read_text(encoding="utf-8")
    names: dict[str, list[str]] = yaml.safe_load(text)
    return names


def name_criterion(verifier: str, params: Mapping[str, Any]) -> str:
    """Return a name that a reader understands without the parameters.

    It is the verifier's own name if there is no phrase for it, or if the parameters do not fit: a model may name any
    verifier with any parameters.
    """
    try:
        checked = find_verifier(verifier).check_parameters(dict(params))
    except RubrankError:
        return verifier
    # A parameter that was left out has its default.
    values: dict[str, Any] = {**checked.model_dump(exclude_none=True), **params}
    for name, value in values.items():
        if isinstance(value, list | tuple):
            values[name] = ", ".join(map(str, value))
    # The first phrase whose parameters are all set.
    for phrase in _read_names().get(verifier, ()):
        if all(values.get(field) not in (None, "") for field in re.findall(r"\{(\w+)\}", phrase)):
            return phrase.format(**values)[:_LONGEST_NAME]
    return verifier


def name_question(question: str) -> str:
    """Return the first words of a question, as the name of a judged criterion."""
    words = question.rstrip("?？ ").split()
    return " ".join(words[:8])[:_LONGEST_NAME] or question[:_LONGEST_NAME]


def describe_criterion(verifier: str, params: Mapping[str, Any]) -> str:
    """Return the criterion in words that can be compared with a prompt: its name, what it checks, all parameters.

    >>> describe_criterion("WordCount", {"relation": "at most", "count": 30})
    'at most 30 words (the number of words that a reader sees; relation: at most, count: 30)'
    """
    doc = find_verifier(verifier).doc.splitlines()[0].split("; ")[0].rstrip(".")
    settings = ", ".join(f"{name}: {value}" for name, value in params.items())
    details = f"{doc[:1].lower()}{doc[1:]}" + (f"; {settings}" if settings else "")
    name = name_criterion(verifier, params)
    return details if name == verifier else f"{name} ({details})"
