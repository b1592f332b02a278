"""What trainers know about a query besides its completions: a label, an info, a row → prompt, own rubric, metadata.

    query_of("<|user|>Name a lake.", '{"prompt": "Name a lake.", "rubric": ["EmptyAnswer"], "answer": "West Lake"}')
    Query(prompt="Name a lake.", rubric=["EmptyAnswer"], metadata={"answer": "West Lake"})

A row is a mapping, or JSON of one; anything else is `metadata["label"]`. A row's `prompt` is taken rather than what the
trainer passes, which a chat template may have been put over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import Any

from rubrank.rollouts.messages import decoded
from rubrank.training.engine import RewardEngine, StepRewards
from rubrank.training.shapes.one_group import group_of

_INSTRUCTIONS = ("instruction_id_list", "kwargs")


@dataclass(frozen=True, eq=False)
class Query:
    """One query of a trainer."""

    prompt: Any
    rubric: Any = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    tools: Sequence[Mapping[str, Any]] | None = None


def query_of(prompt: Any, *rows: Any, rubric_column: str = "rubric") -> Query:
    """A query from what the trainer passes with its prompt; later rows go before earlier ones."""
    row: dict[str, Any] = {}
    for given in rows:
        found = decoded(given)
        if isinstance(found, Mapping):
            row |= found
        elif found is not None and not (isinstance(found, str) and not found):
            row["label"] = found
    rubric = row.get(rubric_column)
    if rubric is None and "instruction_id_list" in row:
        rubric = {name: row[name] for name in _INSTRUCTIONS if name in row}
    tools = row.get("tools")
    known = (rubric_column, "prompt", "tools")
    metadata = {name: value for name, value in row.items() if name not in known and value is not None}
    return Query(messages(prompt if row.get("prompt") is None else row["prompt"]), rubric, metadata, tools or None)


async def score_query(
    engine: RewardEngine,
    query: Query,
    completions: Sequence[Any],
    *,
    step: int,
    where: str,
    id: str | None = None,
    train: bool = True,
    finish_reasons: Sequence[str | None] | None = None,
) -> StepRewards:
    """Rewards of the completions of one query; a rubric that nobody can decide is refused before a judge is asked."""
    engine.check_rubric(query.rubric, where)
    group = group_of(
        engine, query.prompt, [messages(one) for one in completions], step=step, rubric=query.rubric, id=id,
        tools=query.tools, metadata=query.metadata, train=train, finish_reasons=finish_reasons,
    )  # fmt: skip
    return await engine.score_async([group], step, train=train)


def without_unknown(rewards: Sequence[float]) -> list[float]:
    """Rewards for trainers that cannot leave a rollout out: one about which nothing is known gets the mean of its
    group, so that its advantage is 0 and the others' baseline stays. Nothing known about anybody: 0 for all.
    """
    known = [reward for reward in rewards if not isnan(reward)]
    mean = sum(known) / len(known) if known else 0.0
    return [mean if isnan(reward) else reward for reward in rewards]


def messages(value: Any) -> Any:
    """Messages that are objects as mappings; parts that are thoughts as `reasoning_content`. Texts as they are."""
    if isinstance(value, list | tuple):
        return [_message(one) for one in value]
    return _message(value)


def _message(value: Any) -> Any:
    message = _dumped(value)
    if not isinstance(message, Mapping) or "role" not in message:
        return message
    found = {**message, "content": _all_dumped(message.get("content"))}
    if found.get("tool_calls"):
        found["tool_calls"] = _all_dumped(found["tool_calls"])
    thoughts = [part["thinking"] for part in _parts(found["content"]) if part.get("type") == "thinking"]
    if thoughts and not found.get("reasoning_content"):
        found["reasoning_content"] = "".join(thoughts)
    return found


def _parts(content: Any) -> list[Mapping[str, Any]]:
    return [part for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []


def _all_dumped(value: Any) -> Any:
    return [_dumped(one) for one in value] if isinstance(value, list | tuple) else value


def _dumped(value: Any) -> Any:
    return value.model_dump(exclude_none=True) if hasattr(value, "model_dump") else value
