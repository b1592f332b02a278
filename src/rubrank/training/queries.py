"""Score one query: make a group of its prompt, rubric, metadata and completions, and compute the rewards.

    make_query("<|user|>Name a lake.", '{"prompt": "Name a lake.", "rubric": ["EmptyAnswer"], "answer": "West Lake"}')
    Query(prompt="Name a lake.", rubric=["EmptyAnswer"], metadata={"answer": "West Lake"})

Trainers pass what they know about a query as a label, an info or a row: a mapping, or a mapping as JSON. Anything else
becomes `metadata["label"]`. A `prompt` in the row is preferred to the trainer's prompt, to which a chat template may
have been applied.

For trainers that pass one group and take a list of rewards:

    step = score_group(engine, "Name a lake.", ["West Lake.", "No.", ""], step=12)
    step.flat()                        [1.0, 0.4, 0.0]
    step.metrics                       for the trainer's log

In asynchronous code: `await score_query(engine, query, completions, step=12, where="my trainer")`. An engine may be
used in several threads. Rules that look at a whole batch (GDPO, AMRP …) see one group at a time here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rubrank._choices import Thinking
from rubrank.errors import InvalidInput, only_our_errors
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.rollouts.shapes import parse_json_cell
from rubrank.training.engine import RewardEngine, StepRewards
from rubrank.training.rollouts import (
    find_end_token_ids,
    find_prompt_opening_tag,
    find_token_opening_tag,
    infer_finish_reason,
    normalize_finish_reason,
    rollout_of,
)

INSTRUCTION_COLUMNS = ("instruction_id_list", "kwargs")
"""Columns with the instructions of IFEval, which are read as a rubric."""


@dataclass(frozen=True, eq=False)
class Query:
    """A query: what all completions of a group have in common."""

    prompt: Any
    rubric: Any = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    tools: Sequence[Mapping[str, Any]] | None = None
    reasoning_tag: str | None = None
    """The reasoning tag, such as "<think>", with which the templated prompt ends, so that completions begin inside the
    reasoning; None: no tag."""


def make_query(prompt: Any, *rows: Any, rubric_column: str = "rubric") -> Query:
    """Make a query of a trainer's prompt and what it passes with it (mappings, JSON or other values, None).

    The keys of later rows override those of earlier ones.
    """
    merged_row: dict[str, Any] = {}
    for row in rows:
        value = parse_json_cell(row)
        is_empty_text = isinstance(value, str) and not value
        if isinstance(value, Mapping):
            merged_row |= value
        elif value is not None and not is_empty_text:
            merged_row["label"] = value
    not_metadata = (rubric_column, "prompt", "tools")
    metadata = {
        name: value
        for name, value in merged_row.items()
        if name not in not_metadata and value is not None
    }
    untemplated_prompt = merged_row.get("prompt")
    return Query(
        prompt=to_messages(prompt if untemplated_prompt is None else untemplated_prompt),
        rubric=find_own_rubric(merged_row, rubric_column),
        metadata=metadata,
        tools=merged_row.get("tools") or None,
        # Only the trainer's prompt can end in a tag: the row's prompt has no template.
        reasoning_tag=find_prompt_opening_tag(prompt),
    )


def select_row_columns(columns: Mapping[str, Any], number: int) -> dict[str, Sequence[Any]]:
    """Return the columns that have one value for each of `number` rows; trainers pass other arguments with them."""
    row_columns = {}
    for name, values in columns.items():
        is_list = isinstance(values, Sequence) and not isinstance(values, str)
        if is_list and len(values) == number:
            row_columns[name] = values
    return row_columns


def find_own_rubric(row: Mapping[str, Any], rubric_column: str = "rubric") -> Any:
    """Return the rubric of a row: its rubric column, else the instructions of IFEval; None if it has neither."""
    rubric = row.get(rubric_column)
    if rubric is None and row.get("instruction_id_list") is not None:
        return {name: row[name] for name in INSTRUCTION_COLUMNS if row.get(name) is not None}
    return rubric


@dataclass(frozen=True, eq=False)
class Completion:
    """One completion, and what the trainer knows about how it was sampled; None if it is not known."""

    content: Any
    """A text, or messages with tool calls and their results."""
    finish_reason: Any = None
    """A word such as "stop" or "MAX_TOKENS", or an enum member."""
    ids: Any = None
    """The sampled tokens."""
    tokens: int | None = None
    """Their number, if the trainer has no ids."""
    reasoning_tokens: int | None = None
    reasoning_tag: str | None = None
    """The reasoning tag in which this completion begins; None: that of the query."""

    def to_rollout(
        self, query: Query, thinking: Thinking, where: str, tokenizer: Any = None
    ) -> Rollout:
        """Make the rollout, with its token counts if they are known. where: the place that errors name."""
        return rollout_of(
            query.prompt,
            to_messages(self.content),
            tools=query.tools,
            metadata=query.metadata,
            finish_reason=normalize_finish_reason(self.finish_reason),
            thinking=thinking,
            reasoning_tag=self.reasoning_tag or query.reasoning_tag,
            ids=self.ids,
            tokenizer=tokenizer,
            tokens=self.tokens,
            reasoning_tokens=self.reasoning_tokens,
            where=where,
        )


def read_token_completion(
    tokenizer: Any,
    prompt_ids: Sequence[int],
    response_ids: Sequence[int],
    finish_reason: Any,
    max_tokens: int | None = None,
) -> Completion:
    """Return the completion that a trainer has as tokens.

    finish_reason: what the trainer reports; None: it is inferred from the last token and from max_tokens.
    """
    if normalize_finish_reason(finish_reason) is None:
        finish_reason = infer_finish_reason(response_ids, find_end_token_ids(tokenizer), max_tokens)
    return Completion(
        tokenizer.decode(response_ids, skip_special_tokens=True),
        finish_reason,
        response_ids,
        reasoning_tag=find_token_opening_tag(tokenizer, prompt_ids),
    )


def make_group(
    engine: RewardEngine,
    query: Query,
    completions: Sequence[Any],
    *,
    step: int,
    where: str,
    id: str | None = None,
    train: bool = True,
    tokenizer: Any = None,
) -> Group:
    """Make a group of the completions of one query (`Completion`s, texts or messages).

    id: unique in the run; None: the engine makes one. where: the place that errors name.
    Raises InvalidInput if there are no completions, or if the rubric cannot be scored: before a judge is called.
    """
    engine.check_rubric(query.rubric, where)
    if isinstance(completions, str) or not len(completions):
        raise InvalidInput(
            where,
            "completions",
            allowed="a list of at least one",
            got=repr(completions),
            remedy="Pass the whole group.",
        )
    group_id = engine.label(step, train=train) if id is None else id
    rollouts = []
    for completion in completions:
        if not isinstance(completion, Completion):
            completion = Completion(completion)
        rollouts.append(
            completion.to_rollout(
                query, engine.thinking, f"{where}: group {group_id!r}", tokenizer=tokenizer
            )
        )
    return Group(id=group_id, rollouts=tuple(rollouts), rubric=query.rubric)


async def score_query(
    engine: RewardEngine,
    query: Query,
    completions: Sequence[Any],
    *,
    step: int,
    train: bool = True,
    **options: Any,
) -> StepRewards:
    """Return the rewards of the completions of one query; the parameters are those of `make_group`."""
    group = make_group(engine, query, completions, step=step, train=train, **options)
    return await engine.score_async([group], step, train=train)


@only_our_errors
def score_group(
    engine: RewardEngine,
    prompt: Any,
    completions: Sequence[Any],
    *,
    step: int,
    rubric: Any = None,
    id: str | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    metadata: Mapping[str, Any] | None = None,
    train: bool = True,
) -> StepRewards:
    """Return the rewards of the completions of one query, in their order.

    prompt: a text or chat messages. rubric: the query's own.
    completions: texts, chat messages, or `Completion`s, which also say why sampling ended and count the tokens.
    id: of the group, in the records; by default one that no other group of the run has.
    """
    query = Query(
        prompt, rubric, metadata or {}, tools, reasoning_tag=find_prompt_opening_tag(prompt)
    )
    group = make_group(
        engine, query, completions, step=step, where="score_group", id=id, train=train
    )
    return engine.score([group], step, train=train)


# ------------------------------------------------------------------------------------------------------------ messages


def to_messages(value: Any) -> Any:
    """Convert message objects to mappings, with thinking parts as `reasoning_content`; texts stay as they are."""
    if isinstance(value, list | tuple):
        return [_to_message(item) for item in value]
    return _to_message(value)


def split_prompt(conversation: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Split a conversation into the messages before the first one of the assistant, and the others."""
    messages = [_to_message(item) for item in conversation]
    for i, message in enumerate(messages):
        if isinstance(message, Mapping) and message.get("role") == "assistant":
            return messages[:i], messages[i:]
    return messages, []


def _to_message(value: Any) -> Any:
    """Convert one message to a mapping, as `to_messages` does; anything that is no message is returned unchanged."""
    message = to_plain_data(value)
    if not isinstance(message, Mapping) or "role" not in message:
        return message
    message = dict(message)
    # A list of parts: {"type": "thinking", "thinking": "First …"}, {"type": "text", "text": "West Lake."}
    if isinstance(message.get("content"), list) and not message.get("reasoning_content"):
        parts = [part for part in message["content"] if isinstance(part, Mapping)]
        thoughts = [part["thinking"] for part in parts if part.get("type") == "thinking"]
        if thoughts:
            message["reasoning_content"] = "".join(thoughts)
    return message


def to_plain_data(value: Any) -> Any:
    """Convert pydantic objects, configurations, arrays and tensors to dicts, lists and numbers, at every depth.

    Other values are returned unchanged.
    """
    if hasattr(value, "model_dump"):
        value = value.model_dump(exclude_none=True)
    elif hasattr(value, "tolist"):  # numpy's arrays and numbers, tensors, tensordict's stacks
        value = value.tolist()
    if isinstance(value, Mapping):
        return {name: to_plain_data(item) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [to_plain_data(item) for item in value]
    return value
