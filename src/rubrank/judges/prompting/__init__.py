"""Criterion + rollouts → `Call`: what a judge is shown. `calls.py` makes them, `../prompts/` has the texts."""

from rubrank.judges.prompting.calls import absolute_call, batched_call, has_prompt, listwise_call, pairwise_call

__all__ = ["absolute_call", "batched_call", "has_prompt", "listwise_call", "pairwise_call"]
