"""Criterion + rollouts → `Call`: what a judge is shown. `calls.py` makes them, `../prompts/` has the texts."""

from typing import Any

from rubrank.judges.judge import Judge
from rubrank.judges.prompting.calls import (
    absolute_call,
    batched_call,
    listwise_call,
    pairwise_call,
)

__all__ = [
    "absolute_call",
    "batched_call",
    "listwise_call",
    "pairwise_call",
    "select_prompt_options",
]


def select_prompt_options(judge: Judge) -> dict[str, Any]:
    """Return the settings of a judge that its calls depend on, as keyword arguments of `absolute_call` etc."""
    return {"language": judge.language, "order": judge.order, "template": judge.prompt}
