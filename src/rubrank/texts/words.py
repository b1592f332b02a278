"""The words of a text, by the rule of `rubrank.attributes.length.count_words`: as many, and what they are.

    >>> split_words("Don't stop — 3.14 is “π”, 中文.")
    ["Don't", 'stop', '3.14', 'is', 'π', '中', '文']

Letters and digits with apostrophes, hyphens, full stops, commas and underscores between them are one word; in scripts
written without spaces every letter is one, with the signs that stand on it. Any text takes linear time.
"""

from __future__ import annotations

import re
import unicodedata

from rubrank.attributes.length import _UNSPACED

_ASCII_WORD = re.compile(r"[A-Za-z0-9]+(?:['\-.,_]++[A-Za-z0-9]+)*+")

# Latin text with typographic punctuation, symbols and emoji: nothing in it belongs to the letter before, so words can
# be found directly, four times as fast. No letter or number is among the symbols of these ranges.
_LATIN = "0-9A-Za-zªµº²³¹¼-¾À-ÖØ-öø-ɏ"
_PLAIN = re.compile(
    "[\x00-\xac\xae-\u024f\u2010-\u2027\u2030-\u205e\u20a0-\u20c0\u2190-\u245f\u2500-\u2775\U0001f300-\U0001faff]*+"
)
_LATIN_WORD = re.compile(rf"[{_LATIN}]+(?:['’\-‐‑.,_]++[{_LATIN}]+)*+")


class _Shape(dict[int, str]):
    """A translation that keeps the length: `x` in a word, `c` a word alone, `m` a mark, `-` a joiner, else a space."""

    def __missing__(self, code: int) -> str:
        self[code] = _shape(chr(code))
        return self[code]


def _shape(char: str) -> str:
    category = unicodedata.category(char)
    if char in "'’-‐‑.,_" or (category == "Cf" and char != "\u200b"):
        return "-"
    if category[0] == "M":
        return "m"
    if category[0] not in "LN":
        return " "
    alone = category[0] == "L" or char == "〇"
    return "c" if alone and _UNSPACED.match(unicodedata.name(char, "")) else "x"


_SHAPE = _Shape()
_SHAPED_WORD = re.compile("cm*+|x[xm]*+(?:-[-m]*+x[xm]*+)*+")


def split_words(text: str) -> list[str]:
    """The words in order, without the punctuation around them."""
    if text.isascii():
        return _ASCII_WORD.findall(text)
    if _PLAIN.fullmatch(text):
        return _LATIN_WORD.findall(text)
    return [text[m.start() : m.end()] for m in _SHAPED_WORD.finditer(text.translate(_SHAPE))]
