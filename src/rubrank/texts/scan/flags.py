"""What the compiled scan must know of characters and words, taken from the definitions that it follows.

    flags_of("?") & STOP, flags_of("é") & LOWER

A text becomes one byte for every character: ASCII stays, and all other characters that have the same flags share a
byte. So the scan reads bytes whatever the script, and finds the flags of each in a table of 256.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from rubrank.texts import prose
from rubrank.texts import sentences as cutting
from rubrank.texts.classes import ClassTable
from rubrank.texts.words import _ALONE, _APART, _IN_WORD, _JOINER, _MARK, _shape

(
    IN_WORD,
    JOINS,
    ALONE,  # what the character does to words
    WORDY,
    ALPHA,
    DECIMAL,
    DIGIT,
    SPACE,
    UPPER,
    LOWER,
    STOP,
    WIDE,
    CLOSER,
    QUOTE,
    OPENER,
    DELIMITER,
    UNSPACED,
    GOES_ON,
    DASH,
    LIST_SIGN,
    DOT,
    NUMERAL,
    CIRCLED,
    NUMBER_END,
    IDEOGRAPHIC_COMMA,
    PAREN_OPEN,
    PAREN_CLOSE,
    ODD,
    EDGE,
    COMMA,
    BREAK,
    SPECIAL,
    TALKER,
    UNKNOWN,
    SPACED,
    SELECTOR,
    KEYCAP,
    TEN,
) = (1 << bit for bit in range(38))
ASCII_WORD = -(1 << 63)  # the sign: a shift makes a mask of it

_IS = {
    DECIMAL: r"\d",
    CLOSER: f"[{cutting._CLOSERS}]",
    DELIMITER: cutting._LAST_WORD.pattern.removesuffix(r"{1,20}\Z").replace("[^", "[", 1),
    UNSPACED: cutting._UNSPACED_CHAR.pattern,
    NUMERAL: f"[{prose._NUMERAL}]",
    CIRCLED: "[①-⑳]",
}
_IN = {
    STOP: cutting._STOPS,
    WIDE: "".join(cutting._WIDE),
    QUOTE: "".join(cutting._QUOTES),
    OPENER: cutting._OPENERS,
    GOES_ON: "，、,；;)）",
    DASH: "-–—([¿¡",
    LIST_SIGN: "-*+•·●○◦▪■‣⁃–—",
    DOT: prose._DOTS,
    SPACED: prose._SPACED,
    SELECTOR: "\ufe0f",
    KEYCAP: "\u20e3",
    TEN: "\U0001f51f",
    NUMBER_END: "、．",
    IDEOGRAPHIC_COMMA: "、",
    PAREN_OPEN: "(（",
    PAREN_CLOSE: ")）",
    EDGE: ",.;:!?\"'”’)",
    COMMA: prose.COMMAS,
    BREAK: "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029",
    TALKER: "WHOANBwhoanb等不嗯",
    SPECIAL: "`~/<[◁\n",  # the scan looks closer at these
}
_IN_WORDS = {_APART: 0, _ALONE: ALONE, _IN_WORD: IN_WORD, _MARK: JOINS, _JOINER: JOINS}
_PATTERNS = {bit: re.compile(pattern) for bit, pattern in _IS.items()}
_FOREIGN = frozenset(c for word in cutting._SHORTENED for c in word if not c.isascii())


def flags_of(char: str) -> int:
    """All flags of a character."""
    found = _IN_WORDS[_shape(char)]
    for bit, chars in _IN.items():
        found |= bit * (char in chars)
    for bit, pattern in _PATTERNS.items():
        found |= bit * bool(pattern.match(char))
    for bit, method in (
        (WORDY, str.isalnum),
        (ALPHA, str.isalpha),
        (DIGIT, str.isdigit),
        (SPACE, str.isspace),
        (UPPER, str.istitle),
        (LOWER, str.islower),
    ):
        found |= bit * method(char)
    found |= ASCII_WORD * (char.isascii() and char.isalnum())
    return found | ODD * _is_odd(char)


def _is_odd(char: str) -> bool:
    """Could it make a word of the lists of abbreviations, or a number, of what is not plain ASCII?"""
    small = char.lower()
    return not char.isascii() and (len(small) != 1 or small.isascii() or small in _FOREIGN or char.isdigit())


# ---------------------------------------------------------------------------------------------------------------- words

TITLE, EITHER, NUMBERED, STARTER, MONTH = 1, 2, 4, 8, 16
_LISTS = {
    TITLE: cutting._TITLES,
    EITHER: cutting._EITHER,
    NUMBERED: cutting._NUMBERED,
    STARTER: cutting._STARTERS,
    MONTH: cutting._MONTHS,
}
LONGEST = 12
"""Letters of a word that fit into a key, five bits each."""
LETTER: NDArray[np.int64] = np.zeros(256, dtype=np.int64)
"""1 to 28 for the characters that the lists hold, capitals as small letters; 0 for others."""
for _place, _char in enumerate("abcdefghijklmnopqrstuvwxyz.-", start=1):
    LETTER[ord(_char)] = LETTER[ord(_char.upper())] = _place


def _table() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All keys, each at its remainder, in a table so large that no two meet; and the lists that hold them."""
    kinds: dict[int, int] = {}
    for kind, words in _LISTS.items():
        for word in filter(str.isascii, words):
            codes = [int(LETTER[ord(char)]) for char in word]
            assert 0 not in codes, word
            assert len(codes) <= LONGEST, word
            key = sum(code << (5 * at) for at, code in enumerate(codes))
            kinds[key] = kinds.get(key, 0) | kind
    size = next(n for n in range(4 * len(kinds), 1 << 20) if len({key % n for key in kinds}) == len(kinds))
    keys, lists = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    for key, kind in kinds.items():
        keys[key % size], lists[key % size] = key, kind
    return keys, lists


# ---------------------------------------------------------------------------------------------------------------- bytes

TABLE: NDArray[np.int64] = np.concatenate([np.zeros(256, dtype=np.int64), LETTER, *_table()])
"""All that the scan looks up: the flags of every byte, its place in a key, the keys of words, the lists of each."""
FLAGS = TABLE[:256]  # those from 128 on are given out as characters are met
_BYTES: dict[int, int] = {}
_FULL = 255


def _byte(char: str) -> int:
    if "\0" < char < "\x80":
        return ord(char)
    flags = flags_of(char)
    if flags not in _BYTES:
        at = 128 + len(_BYTES)
        if at >= _FULL:
            return _FULL
        FLAGS[at], _BYTES[flags] = flags, at
    return _BYTES[flags]


def _fill() -> None:
    for code in range(128):
        FLAGS[code] = flags_of(chr(code))
    FLAGS[_FULL] = UNKNOWN


_fill()
SHAPES = ClassTable(_byte)
"""A byte for every character that is not ASCII."""
