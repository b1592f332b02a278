"""Tells whether a text without a full stop was cut off.

"… where it goes through the" was cut; "… and we went home" only lacks its full stop.

A linear model adds up weights of what stands at the end (the last words, the last letters, whether the last word is
half a word) and of the shape of the passage (its length, the length of its last clause, its first word). Two kinds of
passages have thresholds of their own: sentences of a paragraph, and lines that have no full stops anyway, such as
entries of a list and verses.

The weights are in data/sentence_ends.tsv, the vocabulary in data/known_words.tsv. benchmarks/sentence_ends.py learns
both from passages that end, and from the same passages cut somewhere. Languages without weights are left to
data/open_words.tsv.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import cache
from typing import Literal

from rubrank.verifiers.shared.word_tables import read_table, read_words

Kind = Literal["sentence", "line"]

# What ends a clause. Spaces have become "_" before it is used.
_CLAUSE_END = re.compile("[,;—–，、；:：]_?")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
ENTRY_MARK = re.compile(r"\A\s*(?:[-*+•]|\d{1,3}[.)、]|[(（]\d{1,3}[)）])\s*")
"""The sign or number before an entry of a list."""
_MOST_CHARACTERS = 1000  # looked at, at the end of a passage


def is_cut(passage: str, language: str, kind: Kind, margin: float = 0.0) -> bool | None:
    """Was the passage cut off at its end? None if the language has no weights.

    margin: how far the sum of the weights must be above the threshold; more than 0 for fewer false alarms.
    """
    weights = _read_weights(language)
    if not weights:
        return None
    total = sum(weights.get(feature, 0.0) for feature in list_features(passage, language, kind))
    return total > weights[f"threshold_{kind}"] + margin


def is_half_word(word: str, language: str) -> bool:
    """Is it no word of the vocabulary, but the beginning of one?"""
    if word[0].isupper():
        # It may be a name: it must be long, and a good deal shorter than the word that begins with it.
        if len(word) < 6:
            return False
        longer = _find_longer_word(word.lower(), language)
        return word.lower() not in read_vocabulary(language)[0] and len(longer) > len(word) + 1
    return _classify_word(word, language) == "half"


def list_features(passage: str, language: str, kind: Kind) -> Iterator[str]:
    """Yield the features of a passage, which are the keys of the weights.

    "-ing"         its last letters; "_" stands for a space
    "of_the"       its last words; "of_*" and "out_*_*": a word before the last one or two
    "#clause4"     a property: here, four words since the last comma. Lengths are capped, and long ones put in classes
                   of two or more, so that there are few features to learn.
    """
    text = "_".join(passage.lower().split())[-_MOST_CHARACTERS:]
    clause = _CLAUSE_END.split(text)[-1]
    yield f"#{kind}"
    if language == "zh":  # no spaces: characters are counted instead of words
        yield f"#{kind}_characters{min(len(text) // 4, 12)}"
        yield f"#clause{min(len(clause), 14)}"
        yield f"#from_{clause[:1]}{min(len(clause) // 3, 3)}"
        yield f"#from_{clause[:2]}{min(len(clause) // 3, 3)}"
        for size in (1, 2, 3, 4):
            yield "-" + text[-size:]
        return
    words = text.split("_")
    clause_words = clause.split("_")
    yield f"#{kind}_words{min(len(words) // 2, 12)}"
    yield f"#clause{min(len(clause_words), 8)}"
    yield f"#letters{min(len(words[-1]), 10)}"
    yield f"#first_{words[0]}{',' if ',' in text else ''}"
    yield f"#from_{clause_words[0]}{min(len(clause_words), 4)}"
    last_word = _WORD.findall(passage)[-1:]
    if last_word:
        yield f"#{_classify_word(last_word[0], language)}"
    for size in range(1, 8):
        yield "-" + text[-size:]
    for size in (1, 2, 3):
        yield "_".join(words[-size:])
    if len(words) > 1:
        yield f"{words[-2]}_*"
        yield f"-{words[-2][-3:]}_-{words[-1][-3:]}"
    if len(words) > 2:
        yield f"{words[-3]}_*_*"


def _classify_word(word: str, language: str) -> str:
    """Return "capital", "known", "half" or "unknown". "Half": words of the vocabulary begin with it, like "althou"."""
    if word[0].isupper():
        return "capital"
    if word in read_vocabulary(language)[0]:
        return "known"
    return "half" if _find_longer_word(word, language) else "unknown"


def _find_longer_word(beginning: str, language: str) -> str:
    """Return the first word of the vocabulary that begins like this; "" if there is none."""
    ordered = read_vocabulary(language)[1]
    place = bisect_left(ordered, beginning)
    if place < len(ordered) and ordered[place].startswith(beginning):
        return ordered[place]
    return ""


@cache
def read_vocabulary(language: str) -> tuple[frozenset[str], list[str]]:
    """Return the known words of a language, as a set and in alphabetical order."""
    words = read_words("known_words").get(language, ())
    return frozenset(words), sorted(words)


@cache
def _read_weights(language: str) -> dict[str, float]:
    """Return the weight of each feature, and the thresholds under "threshold_sentence" and "threshold_line"."""
    return {
        feature: float(weight)
        for code, feature, weight in read_table("sentence_ends")
        if code == language
    }
