"""How hard a text is to read, and how much it repeats its own words."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field

from rubrank.texts.text import Text
from rubrank.verifiers.text.similarity import tokenize
from rubrank.verifiers.verifier import BINARY, UNIT, Answer, missing, verifier

_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_FEWEST = 15


def measure_grade(text: Text) -> float | None:
    """Flesch–Kincaid grade; for Chinese and Japanese a grade from the length of sentences. None: too short."""
    sentences = max(1, len(text.sentences))
    characters = len(_CJK.findall(text.raw))
    if characters > len(text.raw) / 4:
        return None if characters < _FEWEST else 0.35 * characters / sentences
    words = sum(re.search("[A-Za-z]", word) is not None for word in text.words)
    if words < _FEWEST:
        return None
    return 0.39 * words / sentences + 11.8 * sum(text.syllables) / words - 15.59


@verifier("Readability", family="style", domain=BINARY, version=1)
def readability(text: Text, *, low: float | None = None, high: float | None = None) -> Answer:
    """The text's school grade (Flesch–Kincaid) is from `low` to `high`.

    Passes: short sentences of short words for high=6.
    Fails: long ones. Chinese and Japanese: a third of the characters of a sentence, so that 20 characters are about
        grade 7.
    Missing: no limit, or fewer than 15 words.
    Not covered: other languages are measured with the English formula, which is only a rough guide there.
    """
    if low is None and high is None:
        return missing("no limit is asked for: give `low` or `high`")
    grade = measure_grade(text)
    if grade is None:
        return missing(f"fewer than {_FEWEST} words to measure")
    in_range = (low is None or grade >= low) and (high is None or grade <= high)
    return in_range, f"grade {grade:.1f}"


@verifier("DistinctN", family="style", domain=UNIT, version=2)
def distinct_n(
    text: Text, *, n: Annotated[int, Field(ge=1, le=8)] = 2, fewest: Annotated[int, Field(ge=1)] = 4
) -> Answer:
    """The share of different n-grams among all n-grams of the answer: 1 = nothing is said twice.

    Passes (1): "one two three four".
    Part: "one two one two" has two of three bigrams.
    Fails (0): an empty answer, or fewer than `fewest` tokens, which show no variety. Only what a reader sees counts.
    Not covered: saying the same in other words.
    """
    tokens = tokenize(text.shown.raw)
    if len(tokens) < max(fewest, n):
        return 0.0, f"{len(tokens)} tokens show no variety: at least {max(fewest, n)} are needed"
    grams = [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]
    distinct = len(set(grams))
    share = distinct / len(grams)
    return share, f"{distinct} of {len(grams)} {n}-grams are different"
