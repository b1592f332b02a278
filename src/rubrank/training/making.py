"""Prompts and completions, as trainers have them → rollouts.

    rollout_of("Name a lake.", "<think>Hangzhou…</think>West Lake.")
    rollout_of([{"role": "user", "content": "Name a lake."}], [{"role": "assistant", "content": "West Lake."}])

A completion in messages may call tools on the way: its last assistant message is the answer, `reasoning_content` its
reasoning, and every call goes with what came back. Columns of the dataset are metadata, whatever they are called: a
column `reasoning` is what the dataset says, not what the policy thought.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rubrank.errors import only_our_errors
from rubrank.rollouts.messages import are_messages, prompt_message, said_message
from rubrank.rollouts.rollout import Rollout, to_rollout


@only_our_errors
def rollout_of(
    prompt: Any,
    completion: Any,
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    metadata: Mapping[str, Any] | None = None,
    finish_reason: str | None = None,
    where: str = "rollout",
) -> Rollout:
    """One rollout; `where` names it in errors. finish_reason: why sampling ended, where known ("stop", "length")."""
    data: dict[str, Any] = {"prompt": _prompt(prompt), "response": _response(completion), "metadata": metadata or {}}
    if tools:
        data["tools"] = tools
    if finish_reason:
        data["finish_reason"] = finish_reason
    return to_rollout(data, where)


def _prompt(prompt: Any) -> Any:
    return [prompt_message(message) for message in prompt] if are_messages(prompt) else prompt


def _response(completion: Any) -> Any:
    if isinstance(completion, Mapping):
        completion = [completion]
    if are_messages(completion):
        return [said_message(message) for message in completion]
    # An empty list is a conversation in which nobody said anything.
    return "" if completion is None or (isinstance(completion, list) and not completion) else completion
