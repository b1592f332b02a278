"""What an answer claims to take from its material: quotations, [n], numbers."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Literal

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.verifier import UNIT, Answer, missing, verifier

Check = Literal["quotes", "numbers", "references"]
_QUOTES = re.compile(r"“([^“”\n]{1,500})”|\"([^\"\n]{1,500})\"|「([^「」\n]{1,500})」|«([^«»\n]{1,500})»")
_REFERENCE = re.compile(r"(?<![\w\]])\[(\d{1,3}(?:\s*[,;–-]\s*\d{1,3})*)\](?!\()")
_NUMBER = re.compile(r"(?<![\w.,])\d+(?:[.,]\d+)*(?![\w])")
_SHORTEST = 12  # characters: shorter quotations are words that are mentioned, not passages
_SHORTEST_WIDE = 5  # in Chinese and Japanese


@verifier("Citations", family="faithfulness", domain=UNIT, version=1)
def citations(
    rollout: Rollout,
    *,
    material: str | tuple[str, ...] | None = None,
    check: tuple[Check, ...] = ("quotes", "references"),
    at_least: int = 0,
) -> Answer:
    """The share of quotations, [n] and numbers of the answer that are borne out by the material.

    The material is `material` or metadata["material"/"context"/"documents"/"sources"]: a text, or a list whose entries
    are [1], [2] … Quotations of a few words and more must occur in it, spaces, case and quotation marks aside; [n] must
    be an entry; numbers (if asked for) must occur. Passes (1): "“the moon pulls the sea” [1]" where source 1 says so.
    Part: one of two quotations. Fails (0): a made-up quotation; [7] of three sources; fewer citations than
    `at_least`. Missing: no material. Not covered: whether the cited source supports the sentence (ask a judge).
    """
    sources = _sources(material, rollout)
    if not sources:
        return missing("no material: give `material`, or metadata['material'], 'context', 'documents' or 'sources'")
    text, answer = _folded(" ".join(sources)), rollout.answer
    found: list[tuple[str, bool]] = []
    if "quotes" in check:
        found += [(quote, _folded(quote) in text) for quote in _quotations(answer)]
    if "references" in check:
        found += [(f"[{n}]", 1 <= n <= len(sources)) for n in _references(answer)]
    if "numbers" in check:
        known = {_plain_number(n) for n in _NUMBER.findall(" ".join(sources))}
        bare = _REFERENCE.sub(" ", answer)
        found += [(n, _plain_number(n) in known) for n in _NUMBER.findall(bare)]
    if len(found) < at_least:
        return 0.0, f"{len(found)} citation(s), at least {at_least} asked"
    if not found:
        return 1.0, "nothing is cited"
    wrong = [what for what, right in found if not right]
    share = 1.0 - len(wrong) / len(found)
    return share, f"{len(found) - len(wrong)} of {len(found)} borne out" + (
        f"; not: {wrong[0][:80]!r}" if wrong else ""
    )


def _sources(given: str | tuple[str, ...] | None, rollout: Rollout) -> list[str]:
    if given is None:
        names = ("material", "context", "documents", "sources")
        given = next((rollout.metadata[name] for name in names if rollout.metadata.get(name)), None)
    if given is None:
        return []
    listed: Iterable[object] = [given] if isinstance(given, str) else given
    return [str(one.get("text", one)) if isinstance(one, dict) else str(one) for one in listed]


def _folded(text: str) -> str:
    text = unicodedata.normalize("NFKC", text).casefold().replace("’", "'").replace("‘", "'")
    return "".join(c for c in text if c.isalnum() or c == "'")


def _quotations(answer: str) -> list[str]:
    found = ["".join(groups).strip() for groups in _QUOTES.findall(answer)]
    return [q for q in found if len(q) >= (_SHORTEST if q.isascii() else _SHORTEST_WIDE)]


def _references(answer: str) -> list[int]:
    numbers = []
    for inner in _REFERENCE.findall(answer):
        for part in re.split(r"\s*[,;]\s*", inner):
            ends = [int(n) for n in re.split(r"\s*[–-]\s*", part)]
            numbers += list(range(ends[0], min(ends[-1], ends[0] + 50) + 1)) if len(ends) == 2 else ends
    return numbers


def _plain_number(text: str) -> str:
    """1,200 and 1200 are the same number; 3.50 and 3.5 too."""
    head, _, tail = text.rpartition(".") if "." in text else (text, "", "")
    whole = (head or text).replace(",", "")
    return f"{whole.lstrip('0') or '0'}.{tail.rstrip('0')}".rstrip(".") if tail else whole.lstrip("0") or "0"
