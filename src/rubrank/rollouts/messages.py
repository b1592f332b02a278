"""Convert chat messages and tool calls from the shapes of APIs and datasets to the keys of `Message` and `ToolCall`.

    convert_message({"role": "tool", "tool_call_id": "c1", "content": "no such file", "is_error": True})
    {"role": "tool", "content": "no such file", "tool_call_id": "c1", "error": True}

    convert_tool_calls([{"id": 7, "function": {"name": "search", "arguments": '{"query": "lakes"}'}}])
    [{"name": "search", "id": "7", "arguments": {"query": "lakes"}}]

Values that cannot be converted are left unchanged, so that `Message` and `ToolCall` refuse them and name the field.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from rubrank.tables.columns import COLUMNS
from rubrank.tables.sources import Row


def parse_json_cell(value: Any) -> Any:
    """Return the parsed content of a cell that holds a JSON object or list as text; any other value unchanged."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def are_messages(value: Any) -> bool:
    """Whether a value is a list of chat messages, rather than of texts, and not empty."""
    if hasattr(value, "tolist"):  # an array, as pandas and Parquet have lists
        value = value.tolist()
    if not isinstance(value, list | tuple) or not value:
        return False
    return all(isinstance(message, Mapping) and "role" in message for message in value)


def find_reasoning(message: Mapping[str, Any]) -> str | None:
    """Return the reasoning that a chat message has in a separate field; None if there is none."""
    # Chat APIs use the first name; the others are those of columns.
    for name in ("reasoning_content", *COLUMNS["reasoning"]):
        text = message.get(name)
        if isinstance(text, str) and text:
            return text
    return None


def convert_message(message: Row) -> dict[str, Any]:
    """Return a chat message with the keys of `Message`; content in parts is joined.

    A tool may return any value, which is written as text. Other content that is not a text, such as a number, is left
    unchanged.
    """
    role = message["role"]
    content = _join_content(message.get("content"))
    if role == "tool" and not isinstance(content, str):
        content = json.dumps(content, ensure_ascii=False, default=str)
    converted = {"role": "user" if role == "human" else role, "content": content}
    calls: Any = message.get("tool_calls")
    if hasattr(calls, "tolist"):
        calls = calls.tolist()
    calls = parse_json_cell(calls)
    if calls:
        is_list = isinstance(calls, list | tuple)
        converted["tool_calls"] = convert_tool_calls(calls) if is_list else calls
    reasoning = find_reasoning(message)
    if reasoning is not None:
        converted["reasoning"] = reasoning
    if message.get("tool_call_id") is not None:
        converted["tool_call_id"] = str(message["tool_call_id"])
    if role == "tool" and has_failed(message):
        converted["error"] = True
    return converted


def convert_response_message(message: Row) -> dict[str, Any]:
    """Return a message of a response with the keys of `Message`.

    Unlike in a prompt, an object that a tool returned stays an object: it becomes the result of a call.
    """
    converted = convert_message(message)
    content = message.get("content")
    if message["role"] == "tool" and isinstance(content, Mapping):
        converted["content"] = content
    return converted


def convert_tool_calls(calls: Iterable[Any]) -> list[Any]:
    """Return tool calls in the flat form, from {"id": …, "function": {"name": …, "arguments": …}} or the flat form."""
    converted_calls: list[Any] = []
    for call in calls:
        if not isinstance(call, Mapping):
            converted_calls.append(call)
            continue
        function = call.get("function")
        flat_call = {**call, **function} if isinstance(function, Mapping) else call
        converted = {}
        for name in ("name", "result"):
            if flat_call.get(name) is not None:
                converted[name] = flat_call[name]
        if flat_call.get("id") is not None:
            converted["id"] = str(flat_call["id"])
        if has_failed(flat_call):
            converted["error"] = True
        arguments = parse_json_cell(flat_call.get("arguments", {}))
        converted["arguments"] = {} if arguments is None else arguments
        converted_calls.append(converted)
    return converted_calls


def has_failed(data: Row) -> bool:
    """Whether a tool message, or a call with its result, is marked as failed in one of the usual ways."""
    is_marked = any(data.get(name) for name in ("error", "is_error", "isError"))
    return is_marked or str(data.get("status") or "").lower() in ("error", "failed", "failure")


def _join_content(content: Any) -> Any:
    """Return the text of a content that is None, bytes, an object or a list of parts; anything else unchanged."""
    if hasattr(content, "tolist"):
        content = content.tolist()
    if content is None:
        return ""
    if isinstance(content, bytes | bytearray):
        return content.decode("utf-8", "replace")
    if isinstance(content, Mapping):
        if content.get("type") == "text" and isinstance(content.get("text"), str):
            return content["text"]  # one part that should be in a list
        return json.dumps(content, ensure_ascii=False, default=str)
    if isinstance(content, list | tuple):
        are_parts = all(
            isinstance(part, str)
            or (isinstance(part, Mapping) and ("type" in part or "text" in part))
            for part in content
        )
        if are_parts:
            # Images and other parts without text count as nothing.
            texts = [part if isinstance(part, str) else part.get("text") or "" for part in content]
            if all(isinstance(text, str) for text in texts):
                return "".join(texts)
    return content
