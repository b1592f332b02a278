"""Count and split the words of a text, in any script, in linear time.

    >>> split_words("Don't stop — 3.14 is “π”, 中文.")
    ["Don't", 'stop', '3.14', 'is', 'π', '中', '文']
    >>> count_words("Don't stop — 3.14 is “π”, 中文.")
    7

A run of letters and digits is one word, also with apostrophes, hyphens, full stops, commas or underscores between
them. In scripts written without spaces every letter is a word, together with its marks.

`count_segmented_words` differs for Japanese and Thai: it cuts them into words with BudouX, a small model. It then
counts the particles and polite endings after a Japanese word as words: 私は学生です has 4 words, 読んでいます has 2
(読んでい and ます). Other endings stay with their verb. Chinese, Lao, Khmer and Burmese are counted by
characters in both functions.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

# What a character does to words. The numbers are single bytes in the patterns below; 0 means "not classified yet".
_APART = 1  # separates words, such as a space
_ALONE = 2  # a word of its own, such as a Chinese character
_IN_WORD = 3
_MARK = 4  # an accent or vowel sign: belongs to the character before it
_JOINER = 5  # joins two parts of a word, such as an apostrophe
_NEVER_START = bytes((_MARK, _JOINER))  # no word begins with a character of these classes

_UNSPACED_NAMES = re.compile(
    "CJK |IDEOGRAPHIC |HIRAGANA |(HALFWIDTH )?KATAKANA|BOPOMOFO |THAI |LAO |KHMER |MYANMAR "
)
_ASCII_WORD = re.compile(r"[A-Za-z0-9]+(?:['\-.,_]++[A-Za-z0-9]+)*+")
# A word in a text whose characters are replaced by their classes, such as 3 3 5 3 for "it's".
_WORD_IN_CLASSES = re.compile(rb"\x02\x04*+|\x03[\x03\x04]*+(?:\x05[\x04\x05]*+\x03[\x03\x04]*+)*+")


def split_words(text: str) -> list[str]:
    """Return the words in order, without the punctuation around them."""
    if text.isascii():
        return _ASCII_WORD.findall(text)
    words = _WORD_IN_CLASSES.finditer(_CLASSES.classify(text))
    return [text[match.start() : match.end()] for match in words]


def count_words(text: str) -> int:
    """Count the words that `split_words` returns, without building them."""
    classes = _CLASSES.classify(text).translate(None, delete=_NEVER_START)
    characters = np.frombuffer(classes, dtype=np.uint8)
    if not characters.size:
        return 0
    in_word = characters == _IN_WORD
    word_starts = np.count_nonzero(in_word[1:] & ~in_word[:-1]) + int(in_word[0])
    return int(word_starts + np.count_nonzero(characters == _ALONE))


class CharacterClasses:
    """Classify every character of a text at the speed of a table look-up.

    `class_of` maps one character to a number from 1 to 255. It is called once per distinct character.
    """

    def __init__(self, class_of: Callable[[str], int]) -> None:
        self._class_of = class_of

    def classify(self, text: str) -> bytes:
        """Return one byte per character: its class."""
        if text.isascii():
            return text.encode().translate(self._ascii_table)
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        classes = self._table.take(codes)
        if not classes.all():
            for code in np.unique(codes[classes == 0]).tolist():
                self._table[code] = self._class_of(chr(code))
            classes = self._table.take(codes)
        return classes.tobytes()

    @cached_property
    def _ascii_table(self) -> bytes:
        return bytes(self._class_of(chr(code)) for code in range(128)) + bytes(128)

    @cached_property
    def _table(self) -> NDArray[np.uint8]:
        # One entry per Unicode code point. The system only hands out the memory pages that are touched.
        return np.zeros(0x110000, dtype=np.uint8)


def _classify_character(char: str) -> int:
    """Return the class of a character: one of the numbers at the top, such as _IN_WORD."""
    category = unicodedata.category(char)
    # Format characters (joiners of letters, direction marks) do not split the word that they stand in. The zero-width
    # space has their category too, but separates words.
    is_format = category == "Cf" and char != "\u200b"
    if char in "'’-‐‑.,_" or is_format:
        return _JOINER
    if category.startswith("M"):
        return _MARK
    if category[0] not in "LN":
        return _APART
    may_stand_alone = category.startswith("L") or char == "〇"
    if may_stand_alone and _UNSPACED_NAMES.match(unicodedata.name(char, "")):
        return _ALONE
    return _IN_WORD


_CLASSES = CharacterClasses(_classify_character)


# ---- Japanese and Thai ----------------------------------------------------------------------------------------------

_KANA = re.compile("[\u3041-\u3096\u30a1-\u30fa]")
_HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff々]")
# With more Chinese characters per kana, a text is Chinese that quotes Japanese.
_MOST_HAN_PER_KANA = 20
_JAPANESE_RUN = re.compile(
    "[\u3041-\u3096\u30a1-\u30fe\uff66-\uff9f\u3400-\u9fff\uf900-\ufaff々〆]+"
)
_THAI_RUN = re.compile("[\u0e01-\u0e3a\u0e40-\u0e4e]+")
_LONGEST_RUN = 300  # the model gets at most this many characters at once; longer runs are not prose
_JAPANESE_PIECE = re.compile(
    "[\u3041-\u3096]+|[\u30a1-\u30fe\uff66-\uff9f]+|[\u3400-\u9fff\uf900-\ufaff々〆]+[\u3041-\u3096]*"
)
# Particles and endings that are words of their own after another word.
_PARTICLE_AT_END = re.compile(
    "(?<=.)(?:について|によって|ている|ています|でした|ました|ません|である|だった|です|ます|から|まで|より|など|だけ|しか|ので|のに|ても|では|には|とは"
    "|へは|にも|でも|する|した|して|[はがをにでとものへやかねよだ])$"
)


def count_segmented_words(text: str) -> int:
    """Count the words of the text; Japanese and Thai are cut into words, not into characters."""
    if text.isascii():
        return count_words(text)
    count = 0
    if _THAI_RUN.search(text):
        for run in _THAI_RUN.findall(text):
            count += _count_in_run(run, "thai")
        text = _THAI_RUN.sub(" ", text)
    if _is_japanese(text):
        for run in _JAPANESE_RUN.findall(text):
            count += _count_in_run(run, "japanese")
        text = _JAPANESE_RUN.sub(" ", text)
    return count + count_words(text)


def _is_japanese(text: str) -> bool:
    """Return whether there is enough kana for the Chinese characters beside it to be Japanese."""
    if not _KANA.search(text):
        return False
    return _MOST_HAN_PER_KANA * len(_KANA.findall(text)) > len(_HAN.findall(text))


@lru_cache(maxsize=4096)
def _count_in_run(run: str, language: str) -> int:
    """Count the words of a run of Thai or Japanese characters."""
    count = 0
    for start in range(0, len(run), _LONGEST_RUN):
        phrases = _load_segmenter(language).parse(run[start : start + _LONGEST_RUN])
        if language == "thai":
            count += len(phrases)
        else:
            count += sum(_count_in_japanese_phrase(phrase) for phrase in phrases)
    return count


def _count_in_japanese_phrase(phrase: str) -> int:
    """Count a word and the particles after it: 数えるのは is 数える, の and は."""
    count = 0
    for piece in _JAPANESE_PIECE.findall(phrase):
        while particle := _PARTICLE_AT_END.search(piece):
            count += 1
            piece = piece[: particle.start()]
        count += 1
    return count


@lru_cache(maxsize=2)
def _load_segmenter(language: str) -> Any:
    """Return the model that cuts a text of this language into phrases."""
    import budoux  # loads its models, so only when a text needs them

    if language == "thai":
        return budoux.load_default_thai_parser()
    return budoux.load_default_japanese_parser()
