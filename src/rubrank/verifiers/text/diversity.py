"""How different a rollout is from the others of its group: n-grams that it does not share with them.

    ["one two three", "one two three", "four five six"]      0.5, 0.5, 1

Tokens as in `similarity`: words without case and punctuation, single characters of Chinese, Japanese and Thai.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from rubrank.rollouts.rollout import Group
from rubrank.verifiers.text.similarity import tokenize
from rubrank.verifiers.verifier import UNIT, Answer, missing, verifier

_LONGEST = 20_000  # tokens of an answer that are looked at


@verifier("GroupDiversity", family="style", domain=UNIT, version=1)
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
    all_grams = [_find_grams(rollout.text.shown.raw, n) for rollout in group.rollouts]
    return [_compare_with_others(i, all_grams, against) for i in range(len(all_grams))]


def _find_grams(text: str, n: int) -> frozenset[tuple[str, ...]]:
    tokens = tokenize(text)[:_LONGEST]
    if 0 < len(tokens) < n:
        return frozenset([tuple(tokens)])
    return frozenset(zip(*(tokens[i:] for i in range(n)), strict=False))


def _compare_with_others(
    i: int, all_grams: Sequence[frozenset[tuple[str, ...]]], against: str
) -> Answer:
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
        others_compared = f"the nearest of {len(similarities)}"
    else:
        similarity = sum(similarities) / len(similarities)
        others_compared = f"{len(similarities)}"
    return (
        1.0 - similarity,
        f"similarity {similarity:.2f} with {others_compared} others of the query",
    )
