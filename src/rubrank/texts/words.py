"""Words: count and split them in any script, in linear time; English word lists, verb forms and syllables.

    >>> split_words("Don't stop — 3.14 is “π”, 中文.")
    ["Don't", 'stop', '3.14', 'is', 'π', '中', '文']
    >>> count_words("Don't stop — 3.14 is “π”, 中文.")
    7
    >>> [count_syllables(word) for word in ("cat", "table", "created", "idea")]
    [1, 2, 3, 3]
    >>> could_be_verb("Explain"), could_be_verb("However")
    (True, False)

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
from collections import defaultdict
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

# What a character does to words. The numbers are single bytes in the patterns below; 0 means "not classified yet".
_APART = 1  # separates words, such as a space
_ALONE = 2  # a word by itself, such as a Chinese character
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
    words = _WORD_IN_CLASSES.finditer(_classify(text))
    return [text[match.start() : match.end()] for match in words]


def count_words(text: str) -> int:
    """Count the words that `split_words` returns, without building them."""
    classes = _classify(text).translate(None, delete=_NEVER_START)
    characters = np.frombuffer(classes, dtype=np.uint8)
    if not characters.size:
        return 0
    in_word = characters == _IN_WORD
    word_starts = np.count_nonzero(in_word[1:] & ~in_word[:-1]) + int(in_word[0])
    return int(word_starts + np.count_nonzero(characters == _ALONE))


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


_CLASS_OF_ASCII = bytes(_classify_character(chr(code)) for code in range(128)) + bytes(128)
# One entry per Unicode code point, 0 until the character first occurs. The system only hands out the memory pages that
# are touched.
_CLASS_OF_CODE = np.zeros(0x110000, dtype=np.uint8)


def _classify(text: str) -> bytes:
    """Return one byte per character, its class, at the speed of a table look-up."""
    if text.isascii():
        return text.encode().translate(_CLASS_OF_ASCII)
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    classes = _CLASS_OF_CODE.take(codes)
    if not classes.all():
        for code in np.unique(codes[classes == 0]).tolist():
            _CLASS_OF_CODE[code] = _classify_character(chr(code))
        classes = _CLASS_OF_CODE.take(codes)
    return classes.tobytes()


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
# Particles and endings that count as words after another word.
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
    kana = len(_KANA.findall(text))
    if kana and len(_HAN.findall(text)) < _MOST_HAN_PER_KANA * kana:
        for run in _JAPANESE_RUN.findall(text):
            count += _count_in_run(run, "japanese")
        text = _JAPANESE_RUN.sub(" ", text)
    return count + count_words(text)


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


# ---- word lists ------------------------------------------------------------------------------------------------------

# The lists are TSV files beside this module. Verbs and syllables cannot be listed completely: rules with exceptions
# decide them, and are sometimes wrong.

_FOLDER = Path(__file__).parent


@cache
def read_word_lists(file: str | Path) -> dict[str, frozenset[str]]:
    """Read a TSV file of word lists: each line is a list name, a tab, and words. Lines with # are comments.

    A file name without a folder is one beside this module.
    """
    lists: dict[str, set[str]] = defaultdict(set)
    for name, words in _read_rows(_FOLDER / file):
        lists[name].update(words.split())
    return {name: frozenset(words) for name, words in lists.items()}


def word_list(name: str) -> frozenset[str]:
    """Return one list of `lexicon.tsv`, such as "stop_words"."""
    return read_word_lists("lexicon.tsv")[name]


@cache
def read_names(file: str) -> tuple[tuple[str, ...], ...]:
    """Read a TSV file beside this module; each line is one thing: its name, and other names for it after tabs."""
    return tuple(tuple(row) for row in _read_rows(_FOLDER / file))


def _read_rows(path: Path) -> list[list[str]]:
    """Read a TSV file as lists of cells, without blank lines and comments."""
    lines = path.read_text("utf-8").splitlines()
    return [line.split("\t") for line in lines if line and not line.startswith("#")]


# ---- emoji ----------------------------------------------------------------------------------------------------------

_EMOJI = re.compile(
    "[©®‼⁉™ℹ↔-↙↩↪⌚⌛⌨⏏⏩-⏳⏸-⏺Ⓜ▪▫▶◀◻-◾☀-☄☎☑☔☕☘☝☠☢☣☦☪☮☯☸-☺♀♂♈-♓♟♠♣♥♦♨♻♾♿⚒-⚗⚙⚛⚜⚠⚡⚧⚪⚫⚰⚱⚽⚾⛄⛅⛈⛎⛏⛑⛓⛔⛩⛪"
    "⛰-⛵⛷-⛺⛽✂✅✈-✍✏✒✔✖✝✡✨✳✴❄❇❌❎❓-❕❗❣❤➕-➗➡➰➿⤴⤵⬅-⬇⬛⬜⭐⭕〰〽㊗㊙"
    "🀄🃏🅰🅱🅾🅿🆎🆑-🆚🈁🈂🈚🈯🈲-🈺🉐🉑\U0001f300-\U0001f321\U0001f324-\U0001f53d\U0001f549-\U0001f567\U0001f56f-\U0001f5ff"
    "\U0001f600-\U0001f64f\U0001f680-\U0001f6ff\U0001f7e0-\U0001f7f0\U0001f90c-\U0001f9ff\U0001fa70-\U0001faff]"
)


def is_emoji(char: str) -> bool:
    """Tell whether this one character is an emoji. Parts of longer emoji, such as skin tones, are; joiners are not."""
    return _EMOJI.match(char) is not None


# ---- verbs ----------------------------------------------------------------------------------------------------------

_VERB_ENDING = re.compile(r"[a-z]{2,}(?:ing|ed|ify|ize|ise)\Z")


def could_be_verb(word: str) -> bool:
    """Tell whether a sentence could begin with this word as a verb: a base form, an auxiliary, a form in -ing or -ed.

    Lists and endings decide. Rare base forms ("abet") are missed; a noun that is also a verb ("Design is …") passes.
    """
    word = word.lower().replace("’", "'")
    if word in word_list("auxiliaries") or word in word_list("common_verbs"):
        return True
    if word in word_list("not_verbs"):
        return False
    return _VERB_ENDING.match(word) is not None


# ---- syllables ------------------------------------------------------------------------------------------------------

# A run of vowels is one syllable, with two corrections: a silent e is none, and some neighbouring vowels are two.
_VOWELS = re.compile("[aeiouy]+")
# Endings with a silent e ("make", "makes", "lived", "lovely"). Not silent: "table", "boxes", "ended".
_SILENT_E = (
    re.compile(r"(?:[^aeiouyl]|[aeiouy]l|[rl]l|[gq]u|[aeo][iu])e\Z"),
    re.compile(r"(?:[^aeiouyszxclgh]|[aeiouy]l|[pt]h)es\Z"),
    re.compile(r"[^aeiouytd]ed\Z"),
    re.compile(r"[^aeiouyl]e(?:ly|ty|less|ments?|ful|fully|ness|some|lessly|work)\Z"),
)
# Neighbouring vowels that are spoken as two syllables: "dial", "museum", "actual", "create", "being", "rhythm". A
# lookbehind excludes those that are one syllable after some letters: "special", "equal".
_SPLIT_VOWELS = re.compile(
    "(?<![cstgxln])i[ao]|[ln]i(?:a|ou)|(?<![cstgxq])iu|(?<![qg])ua[lt]|(?<!q)u[oi]us|eo(?!u|ple|n)|reat(?:e|i)|"
    r"(?<!q)uity|[aeoy]y[aei]|yi|ie(?:ty|r\Z|rs\Z|st\Z)|(?<!q)uel|(?<!g)ei(?:ng|ty)|dea\Z|deal|oe[tm]|aic|[ou]ing\Z|"
    r"isms?\Z|thms?\Z|eali[tsz]"
)


@lru_cache(maxsize=8192)
def count_syllables(word: str) -> int:
    """Count the syllables of an English word by its spelling; 0 if it holds a digit or no letter.

    Right for about nine common words in ten. Errors are mostly of one syllable, where vowels meet ("naive") or an e is
    silent inside the word.
    """
    word = word.lower().strip("'’\"-")
    if not word or any(char.isdigit() for char in word):
        return 0
    for syllables, exceptions in read_word_lists("syllables.tsv").items():
        if word in exceptions:
            return int(syllables)
    if "-" in word:
        return sum(count_syllables(part) for part in word.split("-"))
    count = len(_VOWELS.findall(word)) + len(_SPLIT_VOWELS.findall(word))
    if any(pattern.search(word) for pattern in _SILENT_E):
        count -= 1
    return max(1, count)
