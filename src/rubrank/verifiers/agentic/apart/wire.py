"""What crosses the pipe: frames, and values as JSON.

    encode([1, (2, "a")])  →  ["l", [1, ["t", [2, "a"]]]]

Plain data (numbers, texts, lists, dicts, dates …) is copied. Everything else stays where it is, and a reference
crosses: ["h", number, …] says "an object of mine", ["m", number] "that object of yours" (and ["k", …] a class, ["M",
name] a module, ["y", name] one of Python's own types). Whatever arrives is decoded
into the plain types named here, by exact type: no object that compares as it likes ever gets across.
"""

from __future__ import annotations

import builtins
import collections
import datetime
import decimal
import fractions
import json
import os
import struct
from collections.abc import Callable
from typing import Any

MOST = 32 << 20
"""Bytes of one frame."""
DATA, NEW, END, DEAD = b"D", b"N", b"E", b"X"
HEAD = struct.Struct("=cI")
_SAFE = 1 << 53
_SEQUENCES: dict[type, str] = {list: "l", tuple: "t", set: "s", frozenset: "S"}
_MAPPINGS: dict[type, str] = {
    dict: "d",
    collections.defaultdict: "d",
    collections.OrderedDict: "o",
    collections.Counter: "C",
}
_TIMES: dict[type, str] = {datetime.datetime: "datetime", datetime.date: "date", datetime.time: "time"}
PLAIN: tuple[Any, ...] = (
    int,
    float,
    complex,
    str,
    bytes,
    bytearray,
    list,
    tuple,
    set,
    frozenset,
    dict,
    collections.deque,
)
"""Types whose subclasses can be asked for the plain value they hold."""


class Gone(BaseException):
    """The other side is not there any more. Not an Exception: no test takes it for what it expects."""


# --- frames -------------------------------------------------------------------------------------------------------


def send(descriptor: int, kind: bytes, payload: bytes = b"") -> None:
    """One frame, whole."""
    if len(payload) > MOST:
        raise ValueError(f"more than {MOST >> 20} MB of data at once")
    view = memoryview(HEAD.pack(kind, len(payload)) + payload)
    try:
        while view:
            view = view[os.write(descriptor, view) :]
    except OSError:
        raise Gone("the other side has ended") from None


def receive(descriptor: int) -> tuple[bytes, bytes]:
    """The next frame; `Gone` at the end."""
    kind, size = HEAD.unpack(_exactly(descriptor, HEAD.size))
    if size > MOST:
        raise Gone("a frame that is too large")
    return kind, _exactly(descriptor, size)


def _exactly(descriptor: int, size: int) -> bytes:
    parts, rest = [], size
    while rest:
        block = os.read(descriptor, min(rest, 1 << 20))
        if not block:
            raise Gone("the other side has ended")
        parts.append(block)
        rest -= len(block)
    return b"".join(parts)


# --- values -------------------------------------------------------------------------------------------------------


def encode(value: Any, reference: Callable[[Any], Any]) -> Any:
    """The value as JSON; what is not plain is left to `reference`."""
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        return value if -_SAFE < value < _SAFE else ["i", hex(value)]
    if kind is float:
        return value if value - value == 0 else ["f", repr(value)]
    if kind in _SEQUENCES:
        return [_SEQUENCES[kind], [encode(item, reference) for item in value]]
    if kind in _MAPPINGS:
        pairs = [[encode(key, reference), encode(item, reference)] for key, item in value.items()]
        return [_MAPPINGS[kind], pairs]
    return _encode_rarer(value, kind, reference)


def _encode_rarer(value: Any, kind: type, reference: Callable[[Any], Any]) -> Any:
    if kind in (bytes, bytearray):
        return ["b" if kind is bytes else "B", value.hex()]
    if kind is complex:
        return ["c", encode(value.real, reference), encode(value.imag, reference)]
    if kind is range:
        return ["r", *(encode(part, reference) for part in (value.start, value.stop, value.step))]
    if kind is collections.deque:
        return ["q", [encode(item, reference) for item in value], value.maxlen]
    if kind is decimal.Decimal:
        return ["D", str(value)]
    if kind is fractions.Fraction:
        return ["F", encode(value.numerator, reference), encode(value.denominator, reference)]
    if kind in _TIMES and getattr(value, "tzinfo", None) is None:
        return ["T", _TIMES[kind], value.isoformat()]
    if kind is datetime.timedelta:
        return ["T", "timedelta", [value.days, value.seconds, value.microseconds]]
    if issubclass(kind, tuple) and hasattr(kind, "_fields") and kind.__bases__ == (tuple,):
        return ["n", kind.__name__, list(kind._fields), [encode(item, reference) for item in value]]
    if kind.__module__ == "numpy":
        return _encode_array(value, reference)
    return reference(value)


def _encode_array(value: Any, reference: Callable[[Any], Any]) -> Any:
    """numpy's arrays of numbers, and its scalars as Python's."""
    dtype = getattr(value, "dtype", None)
    if dtype is None or dtype.kind not in "biufcSU":
        return reference(value)
    if not hasattr(value, "tobytes") or (getattr(value, "shape", None) == () and type(value).__name__ != "ndarray"):
        return encode(value.item(), reference)
    return ["a", dtype.str, list(value.shape), value.tobytes().hex()]


def decode(data: Any, resolve: Callable[[list[Any]], Any]) -> Any:
    """The value again; references are left to `resolve`. ValueError for anything that `encode` does not write."""
    if not isinstance(data, list):
        if isinstance(data, dict):
            raise ValueError("not a value")
        return data
    tag = data[0] if data else None
    if tag in _DECODERS:
        return _DECODERS[tag](data, resolve)
    if tag in ("h", "m", "k", "M", "y"):
        return resolve(data)
    raise ValueError(f"not a value: {tag!r}")


def _items(data: Any, resolve: Callable[[list[Any]], Any]) -> list[Any]:
    return [decode(item, resolve) for item in data[1]]


def _pairs(data: Any, resolve: Callable[[list[Any]], Any]) -> dict[Any, Any]:
    return {decode(key, resolve): decode(item, resolve) for key, item in data[1]}


def _time(data: Any, _: Any) -> Any:
    kinds: dict[str, Any] = {"datetime": datetime.datetime, "date": datetime.date, "time": datetime.time}
    return datetime.timedelta(*data[2]) if data[1] == "timedelta" else kinds[data[1]].fromisoformat(data[2])


def _named(data: Any, resolve: Callable[[list[Any]], Any]) -> Any:
    kind = collections.namedtuple(data[1], data[2], rename=True)  # type: ignore[misc]
    return kind(*(decode(item, resolve) for item in data[3]))


def _array(data: Any, _: Any) -> Any:
    import numpy as np

    if np.dtype(data[1]).kind not in "biufcSU":
        raise ValueError("not an array of numbers")
    return np.frombuffer(bytes.fromhex(data[3]), dtype=data[1]).reshape(data[2]).copy()


_DECODERS: dict[str, Callable[[Any, Any], Any]] = {
    "i": lambda d, _: int(d[1], 16),
    "f": lambda d, _: float(d[1]),
    "b": lambda d, _: bytes.fromhex(d[1]),
    "B": lambda d, _: bytearray.fromhex(d[1]),
    "c": lambda d, r: complex(decode(d[1], r), decode(d[2], r)),
    "r": lambda d, r: range(*(decode(part, r) for part in d[1:4])),
    "l": _items,
    "t": lambda d, r: tuple(_items(d, r)),
    "s": lambda d, r: set(_items(d, r)),
    "S": lambda d, r: frozenset(_items(d, r)),
    "q": lambda d, r: collections.deque(_items(d, r), d[2]),
    "d": _pairs,
    "o": lambda d, r: collections.OrderedDict(_pairs(d, r)),
    "C": lambda d, r: collections.Counter(_pairs(d, r)),
    "D": lambda d, _: decimal.Decimal(d[1]),
    "F": lambda d, r: fractions.Fraction(decode(d[1], r), decode(d[2], r)),
    "T": _time,
    "n": _named,
    "a": _array,
}


def is_own(kind: type) -> bool:
    """One of Python's own types, which both sides have?"""
    return vars(builtins).get(kind.__name__) is kind


def plain(value: Any) -> Any:
    """The plain value that an instance of a subclass of a plain type holds; TypeError for other objects."""
    for base in PLAIN:
        if isinstance(value, base):
            return base(value)
    raise TypeError(f"{type(value).__name__} holds no plain value")


# --- asking -------------------------------------------------------------------------------------------------------


class Peer:
    """One end of the pipe: asks the other, and answers it while it waits.

    A message is {"do": name, …} (a request) or {"ok": …} or {"error": …} (the answer to the last one still open).
    """

    def __init__(self, incoming: int, outgoing: int, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self.incoming, self.outgoing, self.answer = incoming, outgoing, answer
        self.dead = ""

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send a request and wait for its answer; requests that come meanwhile are answered first."""
        self._write(request)
        while True:
            message = self._read()
            if "do" not in message:
                return message
            self._write(self.answer(message))

    def serve(self) -> None:
        """Answer until the other side ends."""
        while True:
            message = self._read()
            if "do" in message:
                self._write(self.answer(message))

    def _write(self, message: dict[str, Any]) -> None:
        if self.dead:
            raise Gone(self.dead)
        send(self.outgoing, DATA, json.dumps(message).encode())

    def _read(self) -> dict[str, Any]:
        try:
            kind, payload = receive(self.incoming)
            if kind == DATA:
                message = json.loads(payload)
                if isinstance(message, dict):
                    return message
            self.dead = payload.decode("utf-8", "replace") if kind == DEAD else "it sent what is no message"
        except Gone as error:
            self.dead = str(error)
        except (ValueError, RecursionError):
            self.dead = "it sent what is no message"
        raise Gone(self.dead)
