"""What trainers know about a query besides its completions: a label, an info, a row → prompt, own rubric, metadata.

    query_of("<|user|>Name a lake.", '{"prompt": "Name a lake.", "rubric": ["EmptyAnswer"], "answer": "West Lake"}')
    Query(prompt="Name a lake.", rubric=["EmptyAnswer"], metadata={"answer": "West Lake"})

A row is a mapping, or JSON of one; anything else is `metadata["label"]`. A row's `prompt` is taken rather than what the
trainer passes, which a chat template may have been put over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.rollouts.messages import decoded
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.training.engine import RewardEngine, StepRewards, without_unknown
from rubrank.training.rollouts import Thinking, count_tokens, prompt_opening_tag, rollout_of, set_token_counts

__all__ = [
    "Completion",
    "Query",
    "group_of_query",
    "messages",
    "query_of",
    "score_query",
    "split_prompt",
    "without_unknown",
]

_INSTRUCTIONS = ("instruction_id_list", "kwargs")


@dataclass(frozen=True, eq=False)
class Query:
    """One query of a trainer."""

    prompt: Any
    rubric: Any = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    tools: Sequence[Mapping[str, Any]] | None = None
    opened: str | None = None
    """The tag in which the trainer's own prompt ends, whatever prompt the row has."""


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
    shown = messages(prompt if row.get("prompt") is None else row["prompt"])
    return Query(shown, rubric, metadata, tools or None, prompt_opening_tag(prompt))


@dataclass(frozen=True, eq=False)
class Completion:
    """One completion, with what the trainer knows about how it was sampled; None: not known."""

    said: Any
    """A text, or messages with tool calls and what came back."""
    finish_reason: str | None = None
    ids: Any = None
    """The tokens that were sampled."""
    tokens: int | None = None
    """Their number, where the trainer has no ids."""
    reasoning_tokens: int | None = None
    opened: str | None = None
    """The tag in which the templated prompt ends."""

    def rollout(self, engine: RewardEngine, query: Query, where: str, tokenizer: Any = None) -> Rollout:
        """The rollout, its tokens counted where that can be done."""
        return self.read(query, engine.thinking, where, tokenizer)

    def read(self, query: Query, thinking: Thinking, where: str, tokenizer: Any = None) -> Rollout:
        """The same, for those who have no engine at hand."""
        found = rollout_of(
            query.prompt,
            messages(self.said),
            tools=query.tools,
            metadata=query.metadata,
            finish_reason=self.finish_reason,
            thinking=thinking,
            opened=self.opened or query.opened,
            ids=self.ids,
            tokenizer=tokenizer,
            where=where,
        )
        if self.ids is not None:
            return count_tokens(found, self.ids, tokenizer)
        return set_token_counts(found, self.tokens, self.reasoning_tokens)


def group_of_query(
    engine: RewardEngine,
    query: Query,
    completions: Sequence[Any],
    *,
    step: int,
    where: str,
    id: str | None = None,
    train: bool = True,
    finish_reasons: Sequence[str | None] | None = None,
    tokenizer: Any = None,
) -> Group:
    """The completions of one query (`Completion`, text or messages) as a group.

    A rubric that cannot be decided is refused here, before a judge is asked.
    """
    engine.check_rubric(query.rubric, where)
    if not len(completions):
        raise InvalidInput(where, "completions", "at least one", "none", "Pass the whole group.")
    ends = finish_reasons or [None] * len(completions)
    each = [
        one if isinstance(one, Completion) else Completion(one, end) for one, end in zip(completions, ends, strict=True)
    ]
    name = engine.label(step, train=train) if id is None else id
    rollouts = tuple(one.rollout(engine, query, f"{where}: group {name!r}", tokenizer) for one in each)
    return Group(id=name, rollouts=rollouts, rubric=query.rubric)


async def score_query(
    engine: RewardEngine, query: Query, completions: Sequence[Any], *, step: int, train: bool = True, **given: Any
) -> StepRewards:
    """Rewards of the completions of one query; the parameters are those of `group_of_query`."""
    group = group_of_query(engine, query, completions, step=step, train=train, **given)
    return await engine.score_async([group], step, train=train)


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


def split_prompt(conversation: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """A conversation as messages: what was there before the policy first spoke, and what came then."""
    every = [_message(one) for one in conversation]
    first = next((i for i, one in enumerate(every) if _role(one) == "assistant"), len(every))
    return every[:first], every[first:]


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, Mapping) else None
