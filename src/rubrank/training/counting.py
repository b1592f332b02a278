"""Lengths in tokens, where the trainer has the ids that were sampled.

    counted(rollout, ids, tokenizer).token_counts          {"reasoning": 812, "answer": 40}
    with_total(rollout, 852, 812).token_counts             the same, from numbers that an endpoint gave

The total is the trainer's own count. The reasoning is counted by the trainer's tokenizer; the answer is the rest, with
the tags around the reasoning and the end token. Without a tokenizer only a response without reasoning can be counted.
"""

from __future__ import annotations

from typing import Any

from rubrank.rollouts.rollout import Rollout


def counted(rollout: Rollout, ids: Any, tokenizer: Any) -> Rollout:
    """The rollout with its token counts; as it was where they cannot be known."""
    if ids is None:
        return rollout
    total, thoughts = len(ids), rollout.thoughts
    reasoning = _tokens(thoughts, getattr(tokenizer, "tokenizer", tokenizer)) if thoughts else 0  # a processor has one
    if reasoning is None:
        return rollout
    reasoning = min(reasoning, total)
    return rollout.model_copy(update={"token_counts": {"reasoning": reasoning, "answer": total - reasoning}})


def with_total(rollout: Rollout, total: int | None, reasoning: int | None = None) -> Rollout:
    """The rollout with counts from the number of its tokens, and of those in its reasoning, where known."""
    if total is None or (reasoning is None and rollout.thoughts):
        return rollout
    part = min(reasoning or 0, total)
    return rollout.model_copy(update={"token_counts": {"reasoning": part, "answer": total - part}})


def _tokens(text: str, tokenizer: Any) -> int | None:
    encode = getattr(tokenizer, "encode", None)
    return len(encode(text, add_special_tokens=False)) if callable(encode) else None
