"""English word lists, and rules for single English words: syllables, verb forms, emoji.

    >>> [count_syllables(word) for word in ("cat", "table", "created", "idea")]
    [1, 2, 3, 3]
    >>> could_be_verb("Explain"), could_be_verb("However")
    (True, False)

The lists are TSV files beside this module. Verbs and syllables cannot be listed completely: rules with exceptions
decide them, and are sometimes wrong.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache, lru_cache
from pathlib import Path

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


@cache
def _read_syllable_exceptions() -> dict[str, int]:
    """Return the number of syllables of words that the rules get wrong."""
    lists = read_word_lists("syllables.tsv")
    return {word: int(count) for count, words in lists.items() for word in words}


@lru_cache(maxsize=8192)
def count_syllables(word: str) -> int:
    """Count the syllables of an English word by its spelling; 0 if it holds a digit or no letter.

    Right for about nine common words in ten. Errors are mostly of one syllable, where vowels meet ("naive") or an e is
    silent inside the word.
    """
    word = word.lower().strip("'’\"-")
    if not word or any(char.isdigit() for char in word):
        return 0
    exceptions = _read_syllable_exceptions()
    if word in exceptions:
        return exceptions[word]
    if "-" in word:
        return sum(count_syllables(part) for part in word.split("-"))
    count = len(_VOWELS.findall(word)) + len(_SPLIT_VOWELS.findall(word))
    if any(pattern.search(word) for pattern in _SILENT_E):
        count -= 1
    return max(1, count)
