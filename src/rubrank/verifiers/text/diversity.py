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
    group: Group, *, n: Annotated[int, Field(ge=1, le=10)] = 2, against: Literal["all", "nearest"] = "all"
) -> Sequence[Answer]:
    """1 minus the similarity with the other rollouts of the query: the mean over all of them, or with the nearest.

    Similarity of two is the share of n-grams that both have (Jaccard); a text of fewer tokens is one gram. Passes (1):
    nothing in common with any other. Fails: 0 for the same words as all others, or an empty answer, which is not
    compared with either. Missing: a group of one, or no other answer that is not empty; where rollouts are graded one
    by one, it is decided once the group is complete, and about those that came. Not covered: the same thing said in
    other words counts as different, and so does nonsense: use it beside criteria of quality.
    """
    grams = [_grams(rollout.answer, n) for rollout in group.rollouts]
    return [_verdict(i, grams, against) for i in range(len(grams))]


def _grams(text: str, n: int) -> frozenset[tuple[str, ...]]:
    found = tokenize(text)[:_LONGEST]
    if 0 < len(found) < n:
        return frozenset([tuple(found)])
    return frozenset(zip(*(found[i:] for i in range(n)), strict=False))


def _verdict(i: int, grams: Sequence[frozenset[tuple[str, ...]]], against: str) -> Answer:
    if len(grams) < 2:
        return missing("there is no other rollout of the query to compare with")
    if not grams[i]:
        return 0.0, "an empty answer"
    alike = [len(grams[i] & other) / len(grams[i] | other) for j, other in enumerate(grams) if j != i and other]
    if not alike:
        return missing(f"none of the {len(grams) - 1} other answers has words to compare with")
    similarity = max(alike) if against == "nearest" else sum(alike) / len(alike)
    what = f"the nearest of {len(alike)}" if against == "nearest" else f"{len(alike)}"
    return 1.0 - similarity, f"similarity {similarity:.2f} with {what} others of the query"
