"""What the policy said: one `Rollout`, and the `Group` of rollouts of one query.

    Rollout(prompt="Name a lake in Hangzhou.", response="<think>West Lake…</think>West Lake.")

A prompt is a text or chat messages; a response may carry its reasoning in tags or in a field of its own, and the tool
calls made on the way. Everything a verifier can ask about is here; nothing here knows about scores.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from rubrank._plain import validated
from rubrank.rollouts.messages import reasoning_in
from rubrank.texts.reasoning import reopen_reasoning, split_reasoning
from rubrank.texts.text import Text

Role: TypeAlias = Literal["system", "developer", "user", "assistant", "tool"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ToolCall(_Frozen):
    """One call of a tool: its name, its arguments (a mapping, or text as it was sampled) and what came back."""

    name: str
    arguments: Mapping[str, Any] | str = {}
    id: str | None = None
    result: Any = None
    error: bool = False


class Message(_Frozen):
    """One turn of a conversation."""

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str | None = None
    tool_call_id: str | None = None
    """Of a tool's message: the call that it answers."""
    error: bool = False
    """Of a tool's message: did the call fail?"""


class Rollout(_Frozen):
    """One response to a query, with what is needed to judge it."""

    prompt: tuple[Message, ...] = ()
    response: str
    reasoning: str | None = None
    """The trainer's own reasoning field; None: look for tags in the response."""
    tool_calls: tuple[ToolCall, ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    """Definitions of the tools on offer, as JSON Schema in the style of chat APIs."""
    finish_reason: str | None = None
    """Why sampling ended: "stop", "length", "tool_calls" …, where known."""
    token_counts: Mapping[str, int] | None = None
    """Tokens of the "reasoning" and the "answer", where known."""
    messages: tuple[Message, ...] = Field(default=(), exclude=True, repr=False)
    """Where the response came as messages: those before the last answer, with their tool calls; to be looked at."""
    metadata: Mapping[str, Any] = Field(default_factory=dict)
    """Whatever else the data holds: reference answers, final state, ids."""

    @field_validator("prompt", mode="before")
    @classmethod
    def _text_prompt(cls, value: Any) -> Any:
        return ({"role": "user", "content": value},) if isinstance(value, str) else value

    @model_validator(mode="before")
    @classmethod
    def _message_response(cls, data: Any) -> Any:
        """A response given as chat messages (as trainers do) becomes the last assistant text and all tool calls."""
        response = data.get("response") if isinstance(data, Mapping) else None
        if isinstance(response, str) or not isinstance(response, Sequence):
            return data
        if not all(isinstance(message, Mapping) for message in response):
            return data  # said to be no text
        if not isinstance(data.get("tool_calls") or (), list | tuple):
            return data  # said to be no list
        return {**data, **_from_messages(response, data)}

    def __getstate__(self) -> dict[Any, Any]:
        """What another process needs: what is kept to save work would be several times the text."""
        state, fields = super().__getstate__(), type(self).model_fields
        if len(self.__dict__) > len(fields):
            state["__dict__"] = {name: self.__dict__[name] for name in fields}
        return state

    @cached_property
    def _parts(self) -> tuple[str, str]:
        return split_reasoning(self.response) if self.reasoning is None else (self.reasoning, self.response)

    def keep_parts(self, thoughts: slice, answer: slice) -> None:
        """Keep where reasoning and answer stand in the response, as another process found them."""
        if self.reasoning is None:
            self.__dict__.setdefault("_parts", (self.response[thoughts], self.response[answer]))

    @property
    def thoughts(self) -> str:
        """The reasoning, from its own field or from tags."""
        return self._parts[0]

    @property
    def answer(self) -> str:
        """What a reader sees: the response without its reasoning."""
        return self._parts[1]

    @cached_property
    def text(self) -> Text:
        """The answer, cut into words, sentences, paragraphs … when asked."""
        return Text(self.answer)

    def with_answer(self, answer: str) -> Rollout:
        """The same rollout with another answer; nothing is checked again, so it costs next to nothing."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self).model_construct(**{**values, "response": answer, "reasoning": self.thoughts})

    def begun_in_thoughts(self, tag: str | None = None) -> Rollout:
        """The same rollout, if the prompt had opened the reasoning: a response without any tag is then all reasoning.

        tag: in which the prompt ends; None: the one that the response closes, or `<think>`. Where the reasoning has a
        field of its own nothing is changed.
        """
        text = self.response if self.reasoning is not None else reopen_reasoning(self.response, tag)
        if text == self.response:
            return self
        return type(self).model_construct(
            **{name: getattr(self, name) for name in type(self).model_fields} | {"response": text}
        )

    @property
    def question(self) -> str:
        """The last message of the user."""
        return next((m.content for m in reversed(self.prompt) if m.role == "user"), "")

    @property
    def turns(self) -> tuple[str, ...]:
        """What the assistant said before, turn by turn."""
        return tuple(m.content for m in self.prompt if m.role == "assistant")


class Group(_Frozen):
    """All rollouts of one query."""

    id: str
    rollouts: tuple[Rollout, ...]
    rubric: Any = None
    """The query's own rubric, if it brings one (see `rubrank.rubrics.rubric`)."""


def _from_messages(messages: Sequence[Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """The last text and its reasoning, and the tool calls of all messages with what came back."""
    said = [m for m in messages if m.get("role", "assistant") == "assistant"]
    calls = data.get("tool_calls") or [call for m in said for call in m.get("tool_calls") or ()]
    last = said[-1] if said else {}
    reasoning = data.get("reasoning")
    return {
        "response": last.get("content") or "",
        "reasoning": reasoning_in(last) if reasoning is None else reasoning,
        "tool_calls": _answered(calls, [m for m in messages if m.get("role") == "tool"]),
        "messages": tuple(_earlier(m) for m in messages[: _last_answer(messages)]),
    }


def _last_answer(messages: Sequence[Any]) -> int:
    """Where the answer stands: the last message of the assistant."""
    said = [at for at, message in enumerate(messages) if message.get("role", "assistant") == "assistant"]
    return said[-1] if said else len(messages)


def _earlier(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message with the keys that ours have; it is looked at and not judged, so that nothing odd in it is an error."""
    content, role = message.get("content"), message.get("role", "assistant")
    calls = message.get("tool_calls")
    answers = message.get("tool_call_id")
    return {
        "role": role if role in get_args(Role) else "tool",
        "content": content if isinstance(content, str) else _as_json(content) if content else "",
        "tool_calls": tuple(_shown_call(call) for call in calls) if isinstance(calls, list | tuple) else (),
        "reasoning": reasoning_in(message),
        "tool_call_id": None if answers is None else str(answers),
        "error": bool(message.get("error") or message.get("is_error") or message.get("status") == "error"),
    }


def _shown_call(call: Any) -> dict[str, Any]:
    plain = _plain_call(call)
    if not isinstance(plain, Mapping):
        return {"name": "", "arguments": _as_json(plain)}
    given = plain.get("arguments", {})
    fits = isinstance(given, str) or (isinstance(given, Mapping) and all(isinstance(key, str) for key in given))
    return {"name": str(plain.get("name") or ""), "arguments": given if fits else _as_json(given)}


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _answered(calls: Sequence[Any], results: Sequence[Mapping[str, Any]]) -> tuple[Any, ...]:
    """The calls, each with its tool message: the one that names its id, else the next that names none it knows."""
    plain = [_plain_call(call) for call in calls]
    ids = {call.get("id") for call in plain if isinstance(call, Mapping)} - {None}
    named = {m["tool_call_id"]: m for m in results if m.get("tool_call_id") in ids}
    others = iter([m for m in results if m.get("tool_call_id") not in ids])
    return tuple(_with_result(call, named, others) for call in plain)


def _with_result(call: Any, named: Mapping[str, Mapping[str, Any]], others: Iterator[Mapping[str, Any]]) -> Any:
    if not isinstance(call, Mapping) or call.get("result") is not None:
        return call
    message = named.get(call.get("id") or "") or next(others, None)
    if message is None:
        return call
    failed = call.get("error") or message.get("is_error") or message.get("error") or message.get("status") == "error"
    return {**call, "result": message.get("content"), "error": bool(failed)}


def _plain_call(call: Any) -> Any:
    """{"id": …, "type": …, "function": {"name": …, "arguments": …}} → the flat form."""
    function = call.get("function") if isinstance(call, Mapping) else None
    return call if function is None else {"id": call.get("id"), **function}


def to_rollout(data: Mapping[str, Any], where: str) -> Rollout:
    """A rollout from its fields; one clear error if they do not fit."""
    return validated(Rollout, data, where, "docs/grading.md")
