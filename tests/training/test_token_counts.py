"""Lengths in tokens from what a trainer sampled."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rubrank.rollouts.rollout import Rollout
from rubrank.training.rollouts import count_tokens


class Words:
    """A tokenizer that has a token for each word."""

    def encode(self, text: str, add_special_tokens: bool = True) -> list[str]:
        return ["<s>"] * add_special_tokens + text.split()


@pytest.mark.parametrize("tokenizer", [Words(), SimpleNamespace(tokenizer=Words())], ids=["tokenizer", "processor"])
@pytest.mark.parametrize(
    ("rollout", "total", "counts"),
    [
        (Rollout(response="<think>a b c</think>d e"), 8, {"reasoning": 3, "answer": 5}),
        (Rollout(response="d e", reasoning="a b c"), 8, {"reasoning": 3, "answer": 5}),
        (Rollout(response="<think>a b c d"), 4, {"reasoning": 4, "answer": 0}),
        (Rollout(response="<think>a b c d"), 2, {"reasoning": 2, "answer": 0}),  # never more than were sampled
        (Rollout(response="d e"), 3, {"reasoning": 0, "answer": 3}),
        (Rollout(response=""), 0, {"reasoning": 0, "answer": 0}),
    ],
)
def test_tokens_of_the_reasoning_and_of_the_rest(tokenizer, rollout, total, counts):
    assert count_tokens(rollout, list(range(total)), tokenizer).token_counts == counts


def test_what_cannot_be_known_is_left_open():
    thought = Rollout(response="<think>a</think>b")
    assert count_tokens(thought, [1, 2, 3], None).token_counts is None
    assert count_tokens(Rollout(response="b"), [1], None).token_counts == {"reasoning": 0, "answer": 1}
