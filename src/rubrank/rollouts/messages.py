"""Chat messages and tool calls in the shapes that APIs and datasets have, with the keys that ours have.

said_message({"role": "tool", "tool_call_id": "c1", "content": "no such file", "is_error": True})
{"role": "tool", "content": "no such file", "tool_call_id": "c1", "error": True}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from rubrank.tables.columns import COLUMNS
from rubrank.tables.rows import Row


def reasoning_in(message: Mapping[str, Any]) -> str | None:
    """The reasoning that a chat message carries beside its content; None if there is none."""
    for name in ("reasoning_content", *COLUMNS["reasoning"]):
        text = message.get(name)
        if isinstance(text, str) and text:
            return text
    return None


def are_messages(value: Any) -> bool:
    """A list of messages, and not of texts?"""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return (
        isinstance(value, list | tuple) and bool(value) and all(isinstance(m, Mapping) and "role" in m for m in value)
    )


def prompt_message(message: Row) -> dict[str, Any]:
    """A chat message with the keys that ours have; content in parts is joined."""
    reasoning = reasoning_in(message)
    called = message.get("tool_call_id")
    return {
        "role": "user" if message["role"] == "human" else message["role"],
        "content": _content(message.get("content")),
        **({"tool_calls": tool_calls_of(message["tool_calls"])} if message.get("tool_calls") else {}),
        **({} if reasoning is None else {"reasoning": reasoning}),
        **({} if called is None else {"tool_call_id": str(called)}),
        **({"error": True} if message["role"] == "tool" and _failed(message) else {}),
    }


def said_message(message: Row) -> dict[str, Any]:
    """A message of a response; what a tool gave back as an object stays one, as the result of its call."""
    content = message.get("content")
    whole = message["role"] == "tool" and isinstance(content, Mapping)
    return {**prompt_message(message), "content": content} if whole else prompt_message(message)


def _failed(data: Row) -> bool:
    """Is a tool's message, or a call with its result, marked as an error, in one of the usual ways?"""
    marked = any(data.get(name) for name in ("error", "is_error", "isError"))
    return marked or str(data.get("status") or "").lower() in ("error", "failed", "failure")


def _content(content: Any) -> str:
    if isinstance(content, list | tuple):
        return "".join(str(part.get("text") or "") if isinstance(part, Mapping) else str(part) for part in content)
    if isinstance(content, Mapping):
        return json.dumps(content, ensure_ascii=False, default=str)
    if isinstance(content, bytes | bytearray):
        return content.decode("utf-8", "replace")
    return "" if content is None else str(content)


def tool_calls_of(calls: Iterable[Any]) -> list[Any]:
    """{"id": …, "function": {"name": …, "arguments": …}} and the flat form, both as the flat one."""
    return [_call(call) for call in calls]


def _call(call: Any) -> Any:
    if not isinstance(call, Mapping):
        return call
    flat = {**call, **call["function"]} if isinstance(call.get("function"), Mapping) else call
    arguments = decoded(flat.get("arguments", {}))
    kept = {name: flat[name] for name in ("name", "result") if flat.get(name) is not None}
    kept |= {} if flat.get("id") is None else {"id": str(flat["id"])}
    failed = {"error": True} if _failed(flat) else {}
    return {**kept, **failed, "arguments": arguments if arguments is not None else {}}


def decoded(value: Any) -> Any:
    """JSON, where a cell holds it as text."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value
