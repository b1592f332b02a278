"""Count sentences and words as the public IFEval checkers do, without NLTK's trained data.

The checkers of IFEval split sentences with an unsupervised model (Kiss and Strunk, 2006) and words with the
conventions of the Penn Treebank. Their behaviour can be rebuilt without their data: a full stop, question mark or
exclamation mark ends a sentence at the end of a word, unless the word is an abbreviation, an initial before a name, an
ellipsis, or a number before a small letter. Line breaks end nothing, and a curly quote after the full stop hides it.

    >>> count_sentences("Dr. No? Yes! It cost 3.50. **Done.**")
    5

The result is five because `**` after the last full stop counts as a sentence: a quirk worth keeping when verdicts are
compared. Not covered: the model's statistics of which words begin sentences; a list of common ones replaces them
(`nltk_like.tsv`).
"""

from __future__ import annotations

import re
from pathlib import Path

from rubrank.texts.lexicon import read_word_lists

_AFTER = frozenset("?!)\";}]*:@'({[")  # what may follow the end of a sentence without a space
_CLOSING = frozenset("\"')]}")  # what then still belongs to the sentence
_NOT_IN_WORD = re.compile(r"[?!)\";}\]*:@'({\[]|--")
_NUMBER = re.compile(r"-?[.,]?\d[\d,.\-]*")
_WORD = re.compile(r"[^\W\d_]+")

_WORD_LISTS = Path(__file__).with_name("nltk_like.tsv")


def count_sentences(text: str, language: str = "en") -> int:
    """Count sentences as the public checkers do."""
    tokens = text.split()
    last = len(tokens) - 1
    count = 0
    has_open_sentence = bool(tokens)
    for i, token in enumerate(tokens):
        has_open_sentence = True
        if "." not in token and "?" not in token and "!" not in token:
            continue
        end = _possible_end(token, i == last)
        following = tokens[i + 1] if i < last else ""
        if end >= 0 and _is_break(token[:end], token[end:], following, language):
            count += 1
            has_open_sentence = not _CLOSING.issuperset(token[end:])
    return count + has_open_sentence


def _possible_end(token: str, is_last: bool) -> int:
    """Return where a sentence could end in the token: after its last end mark that something may follow; or -1."""
    for at in range(len(token) - 1, -1, -1):
        if token[at] not in ".?!":
            continue
        is_token_end = at + 1 == len(token)
        can_end = not is_last if is_token_end else token[at + 1] in _AFTER
        if can_end:
            return at + 1
    return -1


def _is_break(before: str, after: str, following: str, language: str) -> bool:
    if "?" in before or "!" in before:
        return True
    word = _NOT_IN_WORD.split(before)[-1].lstrip("-#&,;`")
    next_word = "" if after else following
    if word.endswith(".."):
        return _starts_sentence(next_word, language)
    stem = word[:-1].lower()
    if _NUMBER.fullmatch(stem):
        return not next_word[:1].islower()
    abbreviations = _word_list("abbreviations", language)
    is_abbreviation = stem in abbreviations
    if len(stem) == 1 and stem.isalpha():
        # After an initial, a small letter or a name continues the sentence.
        is_name = next_word[:1].isupper() and not _starts_sentence(next_word, language)
        return not is_abbreviation and not next_word[:1].islower() and not is_name
    if is_abbreviation or stem.rpartition("-")[2] in abbreviations:
        return _starts_sentence(next_word, language)
    return True


def _starts_sentence(word: str, language: str) -> bool:
    """Tell whether it is a capitalised word that often opens a sentence."""
    if not word[:1].isupper():
        return False
    letters = _WORD.match(word)
    return letters is not None and letters[0].lower() in _word_list("starters", language)


def _word_list(name: str, language: str) -> frozenset[str]:
    lists = read_word_lists(_WORD_LISTS)
    return lists.get(f"{name}_{language}", lists[f"{name}_en"])


# What separates words whatever stands beside it; a comma or colon before a digit does not ("1,000", "9:30").
_APART = re.compile(r"[\s\"«»“”„‘’`;@#$%&?!\[\](){}<>]+|\.\.\.|--|''|[:,](?!\d)")
_TAIL = re.compile(r"(?s:.)('[sSmMdD]|'ll|'LL|'re|'RE|'ve|'VE|n't|N'T)")
_TWO_WORDS = frozenset(("CANNOT", "GIMME", "GONNA", "GOTTA", "LEMME", "WANNA"))


def count_capital_words(text: str) -> int:
    """Count Treebank words in capitals: `DON'T` and `CANNOT` are two each, `I` is one, `**NOTE:**` is one."""
    return sum(map(_count_capitals, _APART.split(text)))


def _count_capitals(piece: str) -> int:
    if not piece or piece.islower():
        return 0
    if "'" in piece:
        piece = piece.strip("'")
        for size in (2, 3):
            if _TAIL.fullmatch(piece[-size - 1 :]):
                return int(piece[:-size].isupper()) + int(piece[-size:].isupper())
    if not piece.isupper():
        return 0
    return 2 if piece.strip("*_.-,") in _TWO_WORDS else 1
