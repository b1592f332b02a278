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


def measure_length(rollout: Rollout, part: Part) -> tuple[int, str]:
    """A length and its unit: tokens if the trainer counted them, else words (characters in Chinese and Japanese)."""
    tokens = (rollout.token_counts or {}).get(part)
    if tokens is not None:
        return int(tokens), "tokens"
    words = 0
    if part in ("answer", "total"):
        words += count_words(rollout.answer)
    if part in ("reasoning", "total"):
        words += count_words(rollout.thoughts)
    return words, "words"


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
    `fade` is a fifth of `limit` by default. Tokens where the trainer counts them, else words.
    Passes (1): 80 of 100.
    Part: 90 of 100.
    Fails (0): 100 of 100.
    Missing: never.
    Not covered: what would have been said beyond a cut.
    """
    length, unit = measure_length(rollout, part)
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
