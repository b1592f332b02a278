"""Reading what judges say, and the templates they are asked with.

    >>> json_object('{"reasoning": "…", "verdict": "YES"}')
    {'reasoning': '…', 'verdict': 'YES'}
    >>> json_object("I think {this} is fine") is None
    True
    >>> last_word("Explanation: …\\nDecision: TRUE", ("TRUE", "FALSE"))
    'TRUE'

A reply that cannot be read is missing, never a verdict.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from importlib.resources import files
from string import Template
from typing import Any

_FENCE = re.compile(r"\A\s*```(?:json)?[ \t]*\n(.*?)\n?```\s*\Z", re.DOTALL)


def json_object(text: str | None) -> dict[str, Any] | None:
    """The object that a reply consists of, in a code fence or bare; None where the reply is anything else."""
    if text is None:
        return None
    fenced = _FENCE.match(text)
    try:
        found = json.loads(fenced[1] if fenced else text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def last_word(text: str, words: Sequence[str]) -> str | None:
    """The last of these words that a reply holds, as a whole word and in capitals; None without any."""
    found = re.findall(rf"(?<![A-Za-z])(?:{'|'.join(map(re.escape, words))})(?![A-Za-z])", text)
    return found[-1] if found else None


def only_word(text: str, words: Sequence[str]) -> str | None:
    """The one of these words that a reply holds; None where it holds none, or several different ones."""
    found = set(re.findall(rf"(?<![A-Za-z])(?:{'|'.join(map(re.escape, words))})(?![A-Za-z])", text))
    return found.pop() if len(found) == 1 else None


def prompt_of(name: str, **slots: Any) -> list[dict[str, str]]:
    """A template of `prompts/` with its slots filled, as one message."""
    text = (files("rubrank.evaluation") / "prompts" / f"{name}.txt").read_text(encoding="utf-8")
    return [{"role": "user", "content": Template(text).substitute({k: str(v) for k, v in slots.items()})}]
