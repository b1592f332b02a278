"""Turns and tool calls of a group with short keys.

    {"i": [[["assistant", 0, null, [["search", 1, 2, 0]], 0]], []], "iw": ["I look it up.", "tides", "3 hits"]}

A turn is [role, text, reasoning, calls, failed], a call [name, arguments, result, failed]. Texts are meant by their
number in one list, so that all of them can be cut to one limit (`packing.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rubrank.records.record import GroupRecord


def cut(text: str, limit: int) -> str | list[Any]:
    """The text, or its beginning with its length."""
    return text if len(text) <= limit else [text[:limit], len(text)]


class Turns:
    """Collects the texts of one group's messages."""

    def __init__(self, limit: int) -> None:
        self.limit, self.texts = limit, list[Any]()

    def of(self, record: GroupRecord) -> dict[str, Any]:
        """The keys i, ip and iw; none where all is plain."""
        turns = [[self._turn(message) for message in said] for said in record.turns or ()]
        more = [self._more(message) for message in record.prompt or ()]
        found: dict[str, Any] = {"i": turns} if any(turns) else {}
        if any(any(message) for message in more):
            found["ip"] = more
        return {**found, "iw": self.texts} if found else {}

    def _turn(self, message: Mapping[str, Any]) -> list[Any]:
        text = str(message.get("content") or "")
        return [str(message.get("role", "")), self._text(text) if text else None, *self._more(message)]

    def _more(self, message: Mapping[str, Any]) -> list[Any]:
        calls = [self._call(call) for call in message.get("tool_calls") or () if isinstance(call, Mapping)]
        reasoning = message.get("reasoning")
        return [self._text(reasoning) if reasoning else None, calls, _yes(message)]

    def _call(self, call: Mapping[str, Any]) -> list[Any]:
        result = call.get("result")
        given = self._text(_written(call.get("arguments")))
        return [str(call.get("name", "")), given, None if result is None else self._text(_written(result)), _yes(call)]

    def _text(self, text: Any) -> int:
        self.texts.append(cut(str(text), self.limit))
        return len(self.texts) - 1


def _yes(data: Mapping[str, Any]) -> int:
    return int(bool(data.get("error")))


def _written(value: Any) -> str:
    """A text as it is, anything else as JSON that people can read."""
    if isinstance(value, str) or value is None:
        return value or ""
    short = json.dumps(value, ensure_ascii=False, default=str)
    deep = isinstance(value, Mapping | Sequence) and len(short) > 80
    return json.dumps(value, ensure_ascii=False, indent=2, default=str) if deep else short
