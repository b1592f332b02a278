"""Readability, and repetition within an answer, between the rollouts of a group, and of earlier turns.

    GroupDiversity of ["one two three", "one two three", "four five six"]      0.5, 0.5, 1

Repetition is measured by n-grams of the tokens of `similarity`: words without case and punctuation, single characters
of Chinese, Japanese and Thai.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from rubrank.rollouts.rollout import Group, Rollout
from rubrank.texts.text import Text
from rubrank.verifiers.text.similarity import list_grams, tokenize
from rubrank.verifiers.verifier import UNIT, Answer, missing, verifier

_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_FEWEST_WORDS = 15  # that show how hard a text is
_LONGEST = 20_000  # tokens of an answer that are compared with other texts


@verifier("Readability", family="style")
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
    sentences = max(1, len(text.sentences))
    characters = len(_CJK.findall(text.raw))
    is_unspaced = characters > len(text.raw) / 4
    if is_unspaced:
        words = characters
    else:
        words = sum(re.search("[A-Za-z]", word) is not None for word in text.words)
    if words < _FEWEST_WORDS:
        return missing(f"fewer than {_FEWEST_WORDS} words to measure")
    if is_unspaced:
        grade = 0.35 * characters / sentences
    else:
        grade = 0.39 * words / sentences + 11.8 * sum(text.syllables) / words - 15.59
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
    grams = list_grams(tokens, n)
    distinct = len(set(grams))
    return distinct / len(grams), f"{distinct} of {len(grams)} {n}-grams are different"


@verifier("TurnRepetition", family="reply", domain=UNIT, version=2)
def turn_repetition(rollout: Rollout, *, n: Annotated[int, Field(ge=1, le=20)] = 5) -> Answer:
    """The share of the answer's runs of `n` words that the assistant has not said in an earlier turn.

    Passes (1): nothing is repeated, or there is no earlier turn of the assistant.
    Half: half of it is copied from before.
    Fails (0): the same answer again; an empty answer. What only the user said may be repeated.
    Missing: an answer of fewer than `n` words after earlier turns.
    Not covered: repetition in other words; within one answer (RepeatSegment).
    """
    earlier: set[tuple[str, ...]] = set()
    has_earlier_turn = False
    for message in rollout.prompt:
        if message.role == "assistant":
            has_earlier_turn = True
            earlier.update(list_grams(tokenize(str(message.content or ""))[:_LONGEST], n))
    tokens = tokenize(rollout.answer)
    if not tokens:
        return 0.0, "an empty answer"
    if not has_earlier_turn:
        return 1.0, "no earlier turn of the assistant"
    runs = set(list_grams(tokens[:_LONGEST], n))
    if not runs:
        return missing(f"the answer has only {len(tokens)} words, runs of {n} are compared")
    repeated = len(runs & earlier)
    reason = f"{repeated} of {len(runs)} runs of {n} words were said before"
    return 1.0 - repeated / len(runs), reason


@verifier("GroupDiversity", family="style", domain=UNIT)
def group_diversity(
    group: Group,
    *,
    n: Annotated[int, Field(ge=1, le=10)] = 2,
    against: Literal["all", "nearest"] = "all",
) -> Sequence[Answer]:
    """1 minus the similarity with the other rollouts of the query: the mean over all of them, or with the nearest.

    Similarity of two is the share of n-grams that both have (Jaccard); a text of fewer tokens is one gram.
    Passes (1): nothing in common with any other.
    Fails: 0 for the same words as all others, or an empty answer, which is not compared with either.
    Missing: a group of one, or no other answer that is not empty; where rollouts are graded one by one, it is decided
        once the group is complete, and about those that came.
    Not covered: the same thing said in other words counts as different, and so does nonsense: use it beside criteria of
        quality.
    """
    all_grams = []
    for rollout in group.rollouts:
        tokens = tokenize(rollout.text.shown.raw)[:_LONGEST]
        is_short = 0 < len(tokens) < n
        all_grams.append(frozenset([tuple(tokens)] if is_short else list_grams(tokens, n)))
    return [_compare_with_others(i, all_grams, against) for i in range(len(all_grams))]


def _compare_with_others(
    i: int, all_grams: Sequence[frozenset[tuple[str, ...]]], against: str
) -> Answer:
    """Return the verdict on rollout `i`, given the n-grams of all rollouts of the group."""
    if len(all_grams) < 2:
        return missing("there is no other rollout of the query to compare with")
    grams = all_grams[i]
    if not grams:
        return 0.0, "an empty answer"
    similarities = []
    for j, other_grams in enumerate(all_grams):
        if j != i and other_grams:
            similarities.append(len(grams & other_grams) / len(grams | other_grams))
    if not similarities:
        return missing(f"none of the {len(all_grams) - 1} other answers has words to compare with")
    if against == "nearest":
        similarity = max(similarities)
    else:
        similarity = sum(similarities) / len(similarities)
    compared = f"{against} of {len(similarities)} other answers"
    return 1.0 - similarity, f"similarity {similarity:.2f} with {compared}"
