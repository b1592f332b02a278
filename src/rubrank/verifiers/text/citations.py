"""Citations: do the quotations, the references such as [1], and the numbers of an answer come from its material?"""

from __future__ import annotations

import re
import unicodedata
from typing import Any, Literal

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.verifier import UNIT, Answer, missing, verifier

Check = Literal["quotes", "numbers", "references"]
# A quotation within one line, in the marks of many languages. The one group that matches is the text.
_QUOTATION = re.compile(
    r"""“([^“”\n]{1,500})”
    | "([^"\n]{1,500})"
    | 「([^「」\n]{1,500})」
    | «([^«»\n]{1,500})»
    | „([^„“”\n]{1,500})[“”]
    | »([^«»\n]{1,500})«
    | 『([^『』\n]{1,500})』
    | ‹([^‹›\n]{1,500})›
    | ‚([^‚‘’\n]{1,500})[‘’](?!\w)
    | ‘([^‘’\n]{1,500})’(?!\w)
    | (?<![\w'])'(?![ ])((?:[^'\n]|(?<=\w)'(?=\w)){1,500})'(?!\w)  # an apostrophe inside a word is no mark
    """,
    re.VERBOSE,
)
# The source of the quotation before it: ". [3]".
_REFERENCE_AFTER = re.compile(r"[.,;:]?\s{0,3}\[(\d{1,3})\]")
# "[1]", "[2, 5]", "[3-6]"; not the link "[1](…)", nor the index of "x[1]".
_REFERENCE = re.compile(r"(?<![\w\]])\[(\d{1,3}(?:\s*[,;–-]\s*\d{1,3})*)\](?!\()")
_NUMBER = re.compile(r"(?<![\w.,])\d+(?:[.,]\d+)*(?![\w])")
# Characters: shorter quotations are words that are mentioned, not passages.
_SHORTEST_QUOTATION = 12
_SHORTEST_WIDE_QUOTATION = 5  # in Chinese, Japanese, Korean and Thai
_WIDE = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


@verifier("Citations", family="faithfulness", domain=UNIT, version=5)
def check_citations(
    rollout: Rollout,
    *,
    material: str | tuple[str, ...] | None = None,
    check: tuple[Check, ...] = ("quotes", "references"),
    at_least: int = 0,
) -> Answer:
    """The share of quotations, [n] and numbers of the answer that are supported by the material.

    The material is `material` or metadata["material"/"context"/"documents"/"sources"]: a text, or a list whose entries
    are [1], [2] … Quotations of a few words and more, in double or single marks or as a block (`> …`), must occur in
    it, spaces, case and quotation marks aside, and in source n if [n] follows; [n] must be an entry; numbers (if asked
    for) must occur.
    Passes (1): "“the moon pulls the sea” [1]" where source 1 says so.
    Part: one of two numbers.
    Fails (0): a made-up quotation, whatever stands beside it; [7] of three sources; fewer citations than `at_least`.
    Missing: no material.
    Not covered: whether the cited source supports the sentence (ask a judge).
    """
    sources = _find_sources(material, rollout)
    if not sources:
        return missing(
            "no material: give `material`, or metadata['material'], 'context', 'documents' or 'sources'"
        )
    folded_sources = [_fold(source) for source in sources]
    answer = rollout.text.shown.raw
    citations: list[tuple[str, bool]] = []  # what is cited, and whether the material supports it
    if "quotes" in check:
        for quotation, number in _find_quotations(answer):
            places = folded_sources
            if number is not None and 1 <= number <= len(sources):
                places = [folded_sources[number - 1]]
            if not any(_fold(quotation) in place for place in places):
                return 0.0, f"not in the material: {quotation[:80]!r}"
            citations.append((quotation, True))
    if "references" in check:
        for number in _find_references(answer):
            citations.append((f"[{number}]", 1 <= number <= len(sources)))
    if "numbers" in check:
        numbers = {_normalise_number(number) for number in _NUMBER.findall(" ".join(sources))}
        for number in _NUMBER.findall(_REFERENCE.sub(" ", answer)):
            citations.append((number, _normalise_number(number) in numbers))
    if at_least and not any(map(str.isalpha, _REFERENCE.sub(" ", answer))):
        return 0.0, "references without a text"
    if len(citations) < at_least:
        return 0.0, f"{len(citations)} citation(s), at least {at_least} required"
    if not citations:
        return 1.0, "nothing is cited"
    unsupported = [citation for citation, is_supported in citations if not is_supported]
    supported = len(citations) - len(unsupported)
    reason = f"{supported} of {len(citations)} citations are supported by the material"
    if unsupported:
        reason += f", not {unsupported[0][:80]!r}"
    return 1.0 - len(unsupported) / len(citations), reason


def _find_quotations(answer: str) -> list[tuple[str, int | None]]:
    """Return the quotations of a few words and more, each with the number of the source that follows it, if any."""
    quotations: list[tuple[str, int | None]] = []
    for match in _QUOTATION.finditer(answer):
        quotation = next(filter(None, match.groups())).strip()
        reference = _REFERENCE_AFTER.match(answer, match.end())
        quotations.append((quotation, int(reference[1]) if reference else None))
    # Quotations as a block: "> the moon pulls the sea".
    for line in answer.splitlines():
        if not line.startswith(">"):
            continue
        line = line.lstrip("> \t").strip()
        names_speaker = line.startswith(("—", "–", "-"))
        if not names_speaker and not _QUOTATION.search(line):
            text = _REFERENCE.sub("", line).strip(" \"“”'‘’*_—–-")
            quotations.append((text, None))
    long_enough = []
    for quotation, number in quotations:
        shortest = _SHORTEST_WIDE_QUOTATION if _WIDE.search(quotation) else _SHORTEST_QUOTATION
        if len(quotation) >= shortest:
            long_enough.append((quotation, number))
    return long_enough


def _find_sources(material: str | tuple[str, ...] | None, rollout: Rollout) -> list[str]:
    """Return the texts of the material, from the parameter or the metadata; a single text is one source."""
    sources: Any = material
    for name in ("material", "context", "documents", "sources"):
        if sources is None and rollout.metadata.get(name):
            sources = rollout.metadata[name]
    if sources is None:
        return []
    if isinstance(sources, str):
        return [sources]
    return [
        str(source.get("text", source)) if isinstance(source, dict) else str(source)
        for source in sources
    ]


def _fold(text: str) -> str:
    """Return the letters, digits and apostrophes: spaces, case and other punctuation make no difference."""
    text = unicodedata.normalize("NFKC", text).casefold().replace("’", "'").replace("‘", "'")
    return "".join(char for char in text if char.isalnum() or char == "'")


def _find_references(answer: str) -> list[int]:
    """Return the numbers in "[1]", "[2, 5]" and "[3-6]", in order."""
    numbers: list[int] = []
    for inside in _REFERENCE.findall(answer):
        for part in re.split(r"\s*[,;]\s*", inside):
            ends = [int(number) for number in re.split(r"\s*[–-]\s*", part)]
            if len(ends) == 2:
                first, last = ends
                numbers += range(first, min(last, first + 50) + 1)
            else:
                numbers += ends
    return numbers


def _normalise_number(text: str) -> str:
    """Return one spelling for equal numbers: 1,200 and 1200 are the same; 3.50 and 3.5 too."""
    whole = text
    decimals = ""
    if "." in text:
        whole, _, decimals = text.rpartition(".")
    whole = whole.replace(",", "").lstrip("0") or "0"
    decimals = decimals.rstrip("0")
    return f"{whole}.{decimals}" if decimals else whole
