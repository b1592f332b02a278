"""One response of the policy, `Rollout`, and all responses to one query, `Group`.

    Rollout(prompt="Name a lake in Hangzhou.", response="<think>West Lake…</think>West Lake.")

A prompt is a text or chat messages. A response is a text, or the messages that the policy and its tools exchanged:

    Rollout(prompt="Which lake?", response=[
        {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "search", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "West Lake"},
        {"role": "assistant", "content": "West Lake."},
    ])
    .response                     "West Lake.", the text of the assistant's last message
    .tool_calls                   (ToolCall(name="search", arguments="{}", id="c1", result="West Lake"),)
    .messages                     the first two messages

If the assistant's last message only calls tools, the response is "": there is no final answer, and what was said on the
way, such as "I look it up.", must not be rewarded as one.

A response may have reasoning, in tags or in a separate field. Everything that a verifier can read is here; nothing here
knows about scores.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from rubrank._plain import validate_model
from rubrank.rollouts.shapes import find_reasoning, has_failed
from rubrank.texts.reasoning import reopen_reasoning, split_reasoning

if TYPE_CHECKING:
    from rubrank.texts.text import Text

Role: TypeAlias = Literal["system", "developer", "user", "assistant", "tool"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ToolCall(_Frozen):
    """One call of a tool, and its result."""

    name: str
    arguments: Mapping[str, Any] | str = {}
    """A mapping, or the text that was sampled, which may not be valid JSON."""
    id: str | None = None
    result: Any = None
    error: bool = False
    """Did the call fail?"""


class Message(_Frozen):
    """One turn of a conversation."""

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str | None = None
    tool_call_id: str | None = None
    """In a message of a tool: the call that it answers."""
    error: bool = False
    """In a message of a tool: did the call fail?"""


class Rollout(_Frozen):
    """One response to a query, with all data that verifiers and judges need."""

    prompt: tuple[Message, ...] = ()
    response: str
    reasoning: str | None = None
    """The reasoning, if the trainer has a separate field for it; None: it is in the response, between tags."""
    tool_calls: tuple[ToolCall, ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    """Definitions of the tools on offer, as JSON Schema in the style of chat APIs."""
    finish_reason: str | None = None
    """Why sampling ended: "stop", "length", "tool_calls" …, where known."""
    token_counts: Mapping[str, int] | None = None
    """Tokens of the "reasoning" and the "answer", where known."""
    messages: tuple[Message, ...] = Field(default=(), exclude=True, repr=False)
    """If the response came as messages: those before the last answer. Only for display; nothing is scored by them."""
    metadata: Mapping[str, Any] = Field(default_factory=dict)
    """All other data of the row: reference answers, final state, ids."""

    @field_validator("prompt", mode="before")
    @classmethod
    def _convert_text_prompt(cls, value: Any) -> Any:
        """Convert a prompt that is a text to one message of the user."""
        return ({"role": "user", "content": value},) if isinstance(value, str) else value

    @model_validator(mode="before")
    @classmethod
    def _convert_message_response(cls, data: Any) -> Any:
        """Convert a response that is chat messages to the text of the assistant's last message and all tool calls."""
        response = data.get("response") if isinstance(data, Mapping) else None
        if isinstance(response, str) or not isinstance(response, Sequence):
            return data
        # If these are not lists of messages and calls, leave the data to pydantic, which raises.
        if not all(isinstance(message, Mapping) for message in response):
            return data
        calls = data.get("tool_calls") or ()
        if not isinstance(calls, list | tuple):
            return data

        last_answer: Mapping[str, Any] = {}
        earlier = response
        assistant_messages = []
        for i, message in enumerate(response):
            if message.get("role", "assistant") == "assistant":
                assistant_messages.append(message)
                last_answer = message
                earlier = response[:i]
        if not calls:  # calls in a field of their own take precedence over those in messages
            calls = []
            for message in assistant_messages:
                calls_of_message = message.get("tool_calls") or ()
                if not isinstance(calls_of_message, list | tuple):
                    # pydantic refuses these calls and names the field.
                    return {**data, "response": "", "tool_calls": calls_of_message}
                calls.extend(calls_of_message)
        reasoning = data.get("reasoning")
        if reasoning is None:
            reasoning = find_reasoning(last_answer)
        tool_messages = [message for message in response if message.get("role") == "tool"]
        return {
            **data,
            "response": last_answer.get("content") or "",
            "reasoning": reasoning,
            "tool_calls": _add_results(calls, tool_messages),
            "messages": tuple(_convert_earlier_message(message) for message in earlier),
        }

    def __getstate__(self) -> dict[Any, Any]:
        """Return what is pickled: the fields without cached properties, which may be several times as large."""
        state = super().__getstate__()
        fields = type(self).model_fields
        if len(self.__dict__) > len(fields):
            state["__dict__"] = {name: self.__dict__[name] for name in fields}
        return state

    @cached_property
    def _reasoning_and_answer(self) -> tuple[str, str]:
        if self.reasoning is None:
            return split_reasoning(self.response)
        return self.reasoning, self.response

    @property
    def thoughts(self) -> str:
        """The reasoning, from its own field or from tags."""
        return self._reasoning_and_answer[0]

    @property
    def answer(self) -> str:
        """The response without its reasoning, which is what a reader sees."""
        return self._reasoning_and_answer[1]

    @cached_property
    def text(self) -> Text:
        """The answer as words, sentences, paragraphs …, each computed when it is first used."""
        # Imported here: `rubrank fuse` reads no texts, and their rules take longer to load than a small table to fuse.
        from rubrank.texts.text import Text

        return Text(self.answer)

    def forget_text(self) -> None:
        """Free the memory of `text`, which is computed again if it is needed."""
        self.__dict__.pop("text", None)  # where cached_property keeps it

    @property
    def digest(self) -> str:
        """A short digest of the response and its reasoning: score files have it, to find the response again."""
        return digest_response(self.response, self.reasoning)

    def replace_answer(self, answer: str) -> Rollout:
        """Return the same rollout with another answer; nothing is checked again.

        `token_counts` stay those of the sampled response: without them, a limit in tokens would be read in words.
        """
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self).model_construct(
            **{**values, "response": answer, "reasoning": self.thoughts}
        )

    def reopen_thoughts(self, tag: str | None = None) -> Rollout:
        """Return the rollout with the opening tag of the reasoning in the response, if it was at the end of the prompt.

        "Easy.</think>4" becomes "<think>Easy.</think>4"; a response without any tag is then all reasoning. A rollout
        with a separate reasoning field is returned unchanged.

        tag: the opening tag at the end of the prompt; None: the one that the response closes, or `<think>`.
        """
        if self.reasoning is not None:
            return self
        text = reopen_reasoning(self.response, tag)
        if text == self.response:
            return self
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self).model_construct(**{**values, "response": text})

    @property
    def question(self) -> str:
        """The last message of the user; "" if there is none."""
        for message in reversed(self.prompt):
            if message.role == "user":
                return message.content
        return ""

    @property
    def turns(self) -> tuple[str, ...]:
        """The earlier turns of the assistant in the prompt."""
        return tuple(message.content for message in self.prompt if message.role == "assistant")


class Group(_Frozen):
    """All rollouts of one query."""

    id: str
    rollouts: tuple[Rollout, ...]
    rubric: Any = None
    """The query's own rubric, if it has one (see `rubrank.rubrics.rubric`)."""


def digest_response(response: str, reasoning: str | None = None) -> str:
    """Return a short digest of a response and its reasoning."""
    text = f"{reasoning or ''}\0{response}"
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _convert_earlier_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message before the answer. It is only displayed, so unusual content is converted instead of refused."""
    role = message.get("role", "assistant")
    content = message.get("content") or ""
    call_id = message.get("tool_call_id")
    calls = message.get("tool_calls")
    if not isinstance(calls, list | tuple):
        calls = ()
    shown_calls = []
    for call in calls:
        flat_call = _flatten_call(call)
        if isinstance(flat_call, Mapping):
            name = str(flat_call.get("name") or "")
            arguments = flat_call.get("arguments", {})
        else:  # not a call: shown as the arguments of a call without a name
            name = ""
            arguments = flat_call
        is_object = isinstance(arguments, Mapping) and all(isinstance(k, str) for k in arguments)
        if not is_object and not isinstance(arguments, str):
            arguments = _format_json(arguments)
        shown_calls.append({"name": name, "arguments": arguments})
    return {
        "role": role if role in get_args(Role) else "tool",
        "content": content if isinstance(content, str) else _format_json(content),
        "tool_calls": tuple(shown_calls),
        "reasoning": find_reasoning(message),
        "tool_call_id": None if call_id is None else str(call_id),
        "error": has_failed(message),
    }


def _format_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _add_results(
    calls: Sequence[Any], tool_messages: Sequence[Mapping[str, Any]]
) -> tuple[Any, ...]:
    """Return the calls with their results; a call that has a result keeps it.

    The first call with an id gets the first tool message with this id, the second call the second message, and so on:
    some systems number the calls of every turn anew (`call_0`). A call without such a message gets the next message
    whose id no call has. Calls that are not mappings, or have an id that is not a text, are left to pydantic, which
    refuses them.
    """
    flat_calls = [_flatten_call(call) for call in calls]
    messages_of_id: dict[str, deque[Mapping[str, Any]]] = {}
    for call in flat_calls:
        if isinstance(call, Mapping) and isinstance(call.get("id"), str):
            messages_of_id[call["id"]] = deque()
    other_messages: deque[Mapping[str, Any]] = deque()
    for message in tool_messages:
        call_id = message.get("tool_call_id")
        if isinstance(call_id, str) and call_id in messages_of_id:
            messages_of_id[call_id].append(message)
        else:
            other_messages.append(message)

    answered = []
    for call in flat_calls:
        if not isinstance(call, Mapping):
            answered.append(call)
            continue
        call_id = call.get("id")
        result = None
        if isinstance(call_id, str) and messages_of_id[call_id]:
            # Taken even if the call has a result already: the next message with this id belongs to the next such call.
            result = messages_of_id[call_id].popleft()
        if call.get("result") is None:
            if result is None and other_messages:
                result = other_messages.popleft()
            if result is not None:
                is_error = bool(call.get("error")) or has_failed(result)
                call = {**call, "result": result.get("content"), "error": is_error}
        answered.append(call)
    return tuple(answered)


def _flatten_call(call: Any) -> Any:
    """Return {"id": …, "function": {"name": …, "arguments": …}} as {"id": …, "name": …, "arguments": …}.

    A result and an error beside `function` are kept; other keys, such as "type", are not. Anything else is returned
    unchanged.
    """
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        return call
    flat_call = {"id": call.get("id"), **function}
    if call.get("result") is not None:
        flat_call.setdefault("result", call["result"])
    if has_failed(call):
        flat_call["error"] = True
    return flat_call


def make_rollout(data: Mapping[str, Any], where: str) -> Rollout:
    """Return a rollout from its fields; raises `InvalidInput` if they are not valid."""
    return validate_model(Rollout, data, where, "grading")
