"""What a compiled scan of many texts found in one of them: `Text.scan`, if there was one.

    Scan(words=5, sentences=2, paragraphs=1, bullets=0, commas=1, signs=0, held=b"…")

Each count is the one that the definition in Python gives (`verifiers/scan.py`); -1 where only Python can tell.
"""

from __future__ import annotations

from typing import NamedTuple

# Bits of `signs`: what the text may hold. Where a bit is not set, it certainly does not.
FENCE, TICK, ADDRESS, BRACKETS, TALK = 1, 2, 4, 8, 16
SLOTS = 2048
"""Length of `held`: some words share a slot."""


class Scan(NamedTuple):
    """The counts of one text."""

    words: int
    sentences: int
    paragraphs: int
    bullets: int
    commas: int
    signs: int
    held: bytes
    """0 at the `slot` of a word: it certainly does not occur."""


def slot(word: str) -> int:
    """Where in `held` it says if a word may occur, in any case, with no letter or digit of ASCII beside it.

    The word is of small letters and digits of ASCII.
    """
    key = 0
    for code in word.encode():
        key = 9 * key + (code | 32)
    return key % SLOTS
