"""The fields of a record that an index needs, decoded without the rest.

    record = decoded(line)
    record.group, record.reward, record.criteria[0].name

Decoding skips what is not asked for, and checks types on the way: 100,000 records take seconds instead of minutes. The
names are those of `GroupRecord`, so that `facts.bits_of` reads both.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

import msgspec


class LightCriterion(msgspec.Struct):
    """A criterion."""

    name: str
    layer: str = "quality"
    verifier: str | None = None


class LightGate(msgspec.Struct):
    """What the gate did."""

    passed: list[bool]
    factor: list[float]


class Light(msgspec.Struct):
    """A record, in part."""

    group: str
    criteria: list[LightCriterion]
    scores: list[list[float | None]]
    weights: list[float]
    reward: list[float]
    no_signal: bool
    rule: str = "rlvr2"
    step: int | None = None
    reasons: list[list[str]] | None = None
    outcomes: dict[str, list[list[float | None]]] = {}
    attribute_names: list[str] = []
    attributes: list[list[float | None]] | None = None
    gate: LightGate | None = None
    prompt: list[dict[str, Any]] | None = None
    responses: list[str] | None = None
    others: dict[str, list[float]] = {}
    metadata: dict[str, Any] = {}


class Head(msgspec.Struct):
    """What a row of a list shows besides its numbers."""

    group: str
    prompt: list[dict[str, Any]] | None = None


class Said(msgspec.Struct):
    """Everything in words, to search in."""

    group: str
    criteria: list[LightCriterion] = []
    reasons: list[list[str]] = []
    prompt: list[dict[str, Any]] = []
    turns: list[list[dict[str, Any]]] = []
    responses: list[str] = []
    reasoning: list[str] = []

    def texts(self) -> list[str]:
        """All of it, in pieces."""
        messages = [*self.prompt, *(message for turns in self.turns for message in turns)]
        said = [self.group, *(c.name for c in self.criteria), *self.responses, *self.reasoning]
        return [
            *said,
            *(text for message in messages for text in _words(message)),
            *(r for row in self.reasons for r in row),
        ]


_LIGHT, _HEAD, _SAID = msgspec.json.Decoder(Light), msgspec.json.Decoder(Head), msgspec.json.Decoder(Said)


def decoded(line: bytes) -> Light:
    """The fields; raises ValueError for a line that is no record."""
    return _decoded(line, _LIGHT, Light)


def head_of(line: bytes) -> Head:
    """Name and prompt."""
    return _decoded(line, _HEAD, Head)


def said_in(line: bytes) -> Said:
    """The words."""
    return _decoded(line, _SAID, Said)


def _decoded(line: bytes, decoder: Any, kind: Any) -> Any:
    try:
        return decoder.decode(line)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:  # NaN, lone surrogates: what only Python's parser takes
        return msgspec.convert(json.loads(line), kind)


def _words(value: Any) -> list[str]:
    """All texts in a message, whatever its shape."""
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in items for text in _words(item)]


def same_prompt(record: Light) -> int:
    """A number that two groups share if they were asked the same; without a prompt, if they have the same name."""
    asked = [(message.get("role"), message.get("content")) for message in record.prompt or ()]
    text = json.dumps(asked or record.group, default=str)
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "little")
