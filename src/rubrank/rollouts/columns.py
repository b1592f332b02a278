"""The usual names of columns, in one place: what `grade` finds by name, `fuse` and all other verbs find too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rubrank._plain import word_list

GROUP_NAMES = ("group", "group_id", "uid", "prompt_id", "query_id", "question_id", "problem_id", "task_id", "qid")
"""Columns that say which group a rollout belongs to; the first one present is taken."""
WEAK_GROUP_NAMES = ("key", "id")
"""The same where nothing else is there: in other files they number rows."""
STEP_NAMES = ("step", "global_step", "training_step", "train_step")
"""Columns that say in which training step a rollout was sampled: the same query in two steps is two groups."""

COLUMNS: dict[str, tuple[str, ...]] = {
    "group": (*GROUP_NAMES, *WEAK_GROUP_NAMES),
    "step": STEP_NAMES,
    "prompt": ("prompt", "prompts", "messages", "query", "question", "instruction", "input", "conversation"),
    "response": word_list("""
        response responses completion completions output outputs generation generations rollouts samples model_output
    """),
    "reasoning": ("reasoning", "reasoning_content", "thinking", "thoughts"),
    "tool_calls": ("tool_calls",),
    "tools": ("tools",),
    "finish_reason": ("finish_reason", "stop_reason"),
    "token_counts": ("token_counts",),
    "metadata": ("metadata",),
    "rubric": ("rubric", "rubrics", "criteria"),
}
"""The usual names of each field, the likeliest first."""


def reasoning_in(message: Mapping[str, Any]) -> str | None:
    """What a chat message says that was thought: its first key of these names that is a text, and not empty."""
    said = (message.get(name) for name in ("reasoning_content", *COLUMNS["reasoning"]))
    return next((text for text in said if isinstance(text, str) and text), None)
