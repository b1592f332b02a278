"""Soft lengths: a reward that fades instead of a limit that cuts."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.words import count_words
from rubrank.verifiers.verifier import UNIT, Answer, missing, verifier

Part = Literal["answer", "reasoning", "total"]
Length = Annotated[int, Field(ge=1, le=100_000_000)]


def measured(rollout: Rollout, part: Part) -> tuple[int, str]:
    """Tokens where the trainer counted them, else words (characters in Chinese and Japanese)."""
    counts = rollout.token_counts or {}
    name = {"answer": "answer", "reasoning": "reasoning", "total": "total"}[part]
    if counts.get(name) is not None:
        return int(counts[name]), "tokens"
    texts = {"answer": (rollout.answer,), "reasoning": (rollout.thoughts,), "total": (rollout.thoughts, rollout.answer)}
    return sum(count_words(text) for text in texts[part]), "words"


@verifier("SoftLength", family="length", domain=UNIT, version=1)
def soft_length(
    rollout: Rollout,
    *,
    shape: Literal["overlong", "cosine", "target"] = "overlong",
    limit: Length,
    fade: Length | None = None,
    part: Part = "total",
) -> Answer:
    """A length that costs gradually: 1 = fine, 0 = far off.

    overlong (DAPO): 1 up to `limit − fade`, then falling evenly to 0 at `limit` and beyond. cosine: falling from 1 at
    nothing to 0 at `limit` along a half cosine. target: 1 at `limit`, falling evenly to 0 at `fade` more or less.
    `fade` is a fifth of `limit` by default. Tokens where the trainer counts them, else words. Passes (1): 80 of 100.
    Part: 90 of 100. Fails (0): 100 of 100. Missing: never. Not covered: what would have been said beyond a cut.
    """
    length, unit = measured(rollout, part)
    width = fade if fade is not None else max(1, limit // 5)
    if shape == "overlong":
        if width > limit:
            return missing("`fade` is more than `limit`")
        value = (limit - length) / width
    elif shape == "cosine":
        value = 0.5 * (1.0 + math.cos(math.pi * min(length, limit) / limit))
    else:
        value = 1.0 - abs(length - limit) / width
    return min(1.0, max(0.0, value)), f"{length} {unit}, {shape} {limit}"
