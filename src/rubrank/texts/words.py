"""The words of a text: which they are, and how many.

    >>> split_words("Don't stop — 3.14 is “π”, 中文.")
    ["Don't", 'stop', '3.14', 'is', 'π', '中', '文']
    >>> count_words("Don't stop — 3.14 is “π”, 中文.")
    7

Letters and digits with apostrophes, hyphens, full stops, commas and underscores between them are one word; in scripts
written without spaces every letter is one, with the signs that stand on it. Any text takes linear time.

Counting makes no words: what joins is dropped, and a word begins wherever the class of the characters rises.
"""

from __future__ import annotations

import re
import unicodedata

import numpy as np
from numpy.typing import NDArray

from rubrank.texts.classes import ClassTable

# What a character does to words; ascending, so that a word begins wherever the class rises.
_APART, _ALONE, _IN_WORD, _MARK, _JOINER = 1, 2, 3, 4, 5
_UNSPACED = re.compile("CJK |IDEOGRAPHIC |HIRAGANA |(HALFWIDTH )?KATAKANA|BOPOMOFO |THAI |LAO |KHMER |MYANMAR ")

_ASCII_WORD = re.compile(r"[A-Za-z0-9]+(?:['\-.,_]++[A-Za-z0-9]+)*+")
_WORD = re.compile(rb"\x02\x04*+|\x03[\x03\x04]*+(?:\x05[\x04\x05]*+\x03[\x03\x04]*+)*+")


def split_words(text: str) -> list[str]:
    """The words in order, without the punctuation around them."""
    if text.isascii():
        return _ASCII_WORD.findall(text)
    return [text[m.start() : m.end()] for m in _WORD.finditer(_SHAPES.classes(text))]


def count_words(text: str) -> int:
    """As many as `split_words` finds."""
    shapes = np.frombuffer(_DIVIDING.classes(text), dtype=np.uint8)
    return _rises(shapes) if text.isascii() else _rises(shapes) + _more_alone(shapes)


def count_runs(text: str) -> int:
    """Runs of letters, digits and underscores, as the pattern `\\w+` finds them."""
    return _rises(np.frombuffer(_RUNS.classes(text), dtype=np.uint8))


def _rises(shapes: NDArray[np.uint8]) -> int:
    inside = int(np.count_nonzero(shapes[1:] > shapes[:-1]))
    return inside + int(shapes[0] > _APART) if shapes.size else 0


def _more_alone(shapes: NDArray[np.uint8]) -> int:
    """Letters that are words by themselves, after another such letter or a word: the class does not rise there."""
    alone = shapes == _ALONE
    return int(np.count_nonzero(alone[1:] & (shapes[:-1] >= _ALONE)))


def _shape(char: str) -> int:
    category = unicodedata.category(char)
    # Joiners of letters and direction marks belong to the letter they follow; a space of no width divides.
    if char in "'’-‐‑.,_" or (category == "Cf" and char != "\u200b"):
        return _JOINER
    if category[0] == "M":
        return _MARK
    if category[0] not in "LN":
        return _APART
    alone = category[0] == "L" or char == "〇"
    return _ALONE if alone and _UNSPACED.match(unicodedata.name(char, "")) else _IN_WORD


_SHAPES = ClassTable(_shape)
_RUNS = ClassTable(lambda char: _IN_WORD if char.isalnum() or char == "_" else _APART)
_DIVIDING = ClassTable(_shape, without=bytes((_MARK, _JOINER)))
