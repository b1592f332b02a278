"""Tells whether a sentence without a full stop was cut: "… where it goes through the" and "… and we went home".

A linear model adds up weights of what stands at the end (the last words, the last letters) and of the sentence's shape
(its length, the length of its last clause, its first word). The weights are in data/sentence_ends.tsv;
benchmarks/sentence_ends.py learns them from sentences that end, and from the same sentences cut somewhere. Languages
without weights are left to data/open_words.tsv.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from rubrank.verifiers.shared.word_tables import read_table

THRESHOLD = "threshold"
"""The row of the table that holds the sum from which on a sentence counts as cut."""


def list_features(sentence: str, language: str) -> Iterator[str]:
    """What the model looks at: "-ing" is an ending, "of_the" the last words, "#words4" a property of the sentence."""
    text = "_".join(sentence.lower().split())[-1000:]
    if language == "zh":
        yield f"#characters{min(len(text) // 8, 8)}"
        yield f"#clause{min(len(re.split('[，、,]', text)[-1]), 12)}"
        for size in (1, 2, 3, 4):
            yield "-" + text[-size:]
        return
    words = text.split("_")
    yield f"#words{min(len(words) // 3, 10)}"
    yield f"#clause{min(len(re.split('[,—–]_?', text)[-1].split('_')), 8)}"
    yield f"#letters{min(len(words[-1]), 10)}"
    yield f"#first_{words[0]}{',' if ',' in text else ''}"
    for size in range(1, 8):
        yield "-" + text[-size:]
    for size in (1, 2, 3):
        yield "_".join(words[-size:])
    if len(words) > 1:
        yield f"{words[-2]}_*"
        yield f"-{words[-2][-3:]}_-{words[-1][-3:]}"
    if len(words) > 2:
        yield f"{words[-3]}_*_*"


@cache
def _read_weights(language: str) -> dict[str, float]:
    return {
        feature: float(weight)
        for code, feature, weight in read_table("sentence_ends")
        if code == language
    }


def is_cut(sentence: str, language: str) -> bool | None:
    """Does no sentence end like this? None if the language has no weights."""
    weights = _read_weights(language)
    if not weights:
        return None
    return (
        sum(weights.get(feature, 0.0) for feature in list_features(sentence, language))
        > weights[THRESHOLD]
    )
