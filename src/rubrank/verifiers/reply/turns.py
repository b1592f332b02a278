"""Repetition across turns: does the response say again what the assistant said before?"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.text.similarity import tokenize
from rubrank.verifiers.verifier import UNIT, Answer, missing, verifier

_LONGEST = 20_000  # tokens


@verifier("TurnRepetition", family="reply", domain=UNIT, version=1)
def turn_repetition(rollout: Rollout, *, n: Annotated[int, Field(ge=1, le=20)] = 5) -> Answer:
    """The share of the answer's runs of `n` words that the assistant has not said in an earlier turn.

    Passes (1): nothing is repeated, or there is no earlier turn of the assistant.
    Half: half of it is copied from before.
    Fails (0): the same answer again; an empty answer. What only the user said may be repeated.
    Missing: an answer of fewer than `n` words after earlier turns.
    Not covered: repetition in other words; within one answer (RepeatSegment).
    """
    earlier: set[tuple[str, ...]] = set()
    for message in rollout.prompt:
        if message.role == "assistant":
            earlier |= _list_runs(str(message.content or ""), n)
    tokens = tokenize(rollout.answer)
    if not tokens:
        return 0.0, "an empty answer"
    if not earlier:
        return 1.0, "no earlier turn of the assistant"
    runs = _list_runs(rollout.answer, n)
    if not runs:
        return missing(f"the answer has only {len(tokens)} words, runs of {n} are compared")
    repeated = len(runs & earlier)
    return 1.0 - repeated / len(
        runs
    ), f"{repeated} of {len(runs)} runs of {n} words were said before"


def _list_runs(text: str, n: int) -> set[tuple[str, ...]]:
    tokens = tokenize(text)[:_LONGEST]
    return {tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)}
