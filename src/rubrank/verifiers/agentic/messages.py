"""What crosses the pipe between a solution and its tests: frames, and plain data as JSON.

    tests_process.py (the tests' sandbox)  ──pipe──>  solution_process.py (the solution's sandbox)

These three modules run inside the sandboxes: they use the standard library, each other and `shared/inside/children.py`,
and nothing else of rubrank.

    encode((1, {2}), refer)                    →  ["tuple", [1, ["set", [2]]]]
    decode(["tuple", [1, ["set", [2]]]], …)    →  (1, {2})

Numbers, texts, lists, dicts, dates … are copied. A function or an object of the solution stays where it is; a reference
to it crosses instead: ["remote", number, kind]. Decoding only builds the plain types of `_CODECS`, by exact type, so no
object that decides for itself what it equals ever arrives.
"""

from __future__ import annotations

import builtins
import collections
import datetime
import decimal
import fractions
import itertools
import json
import os
import struct
import types
from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple

# The file descriptors of the pipe in both processes: `sandbox.run` gives the channel from 3 on.
READ_END = 3
WRITE_END = 4
MOST_BYTES = 32 << 20  # of one frame, so that neither side can exhaust the other's memory
# Kinds of frames. The head of a frame is its kind and the length of its payload.
DATA = b"D"  # a message
NEW = b"N"  # start a child
END = b"E"  # end the child
DEAD = b"X"  # the child is dead
HEAD = struct.Struct("=cI")
_FIRST_INEXACT_INTEGER = 1 << 53  # in JSON readers that use floats
_MOST_ITEMS = 10_000  # of an iterator, which may be endless
_ARRAY_KINDS = "biufcSU"  # numpy's letters for arrays of numbers and texts: only these are copied
_REFERENCE_TAGS = ("remote", "error class", "module")


class PipeClosed(BaseException):
    """The other side has ended. Not an Exception: a test cannot take it for the error it expects."""


# --- frames -------------------------------------------------------------------------------------------------------


def send(descriptor: int, kind: bytes, payload: bytes = b"") -> None:
    """Write one frame. Raises PipeClosed if nobody reads any more."""
    if len(payload) > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES >> 20} MB of data at once")
    rest = memoryview(HEAD.pack(kind, len(payload)) + payload)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        raise PipeClosed("the other side has ended") from None


def receive(descriptor: int) -> tuple[bytes, bytes]:
    """Read one frame, its kind and its payload. Raises PipeClosed at the end."""
    kind, size = HEAD.unpack(_read_exactly(descriptor, HEAD.size))
    if size > MOST_BYTES:
        raise PipeClosed("a frame that is too large")
    return kind, _read_exactly(descriptor, size)


def _read_exactly(descriptor: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        block = os.read(descriptor, min(size - len(data), 1 << 20))
        if not block:
            raise PipeClosed("the other side has ended")
        data += block
    return bytes(data)


def send_message(descriptor: int, message: dict[str, Any]) -> None:
    """Write one message as a frame of JSON."""
    send(descriptor, DATA, json.dumps(message).encode())


# --- plain data ---------------------------------------------------------------------------------------------------


def _flatten_items(mapping: dict[Any, Any]) -> list[Any]:
    """{1: 2, 3: 4} → [1, 2, 3, 4]."""
    return list(itertools.chain.from_iterable(mapping.items()))


def _pair_up(state: list[Any]) -> dict[Any, Any]:
    """[1, 2, 3, 4] → {1: 2, 3: 4}."""
    return dict(zip(state[::2], state[1::2], strict=True))


def _rebuild_array(state: list[Any]) -> Any:
    import numpy as np

    dtype, shape, data = state
    if np.dtype(dtype).kind not in _ARRAY_KINDS:
        raise ValueError("not an array of numbers")
    return np.frombuffer(data, dtype=dtype).reshape(shape).copy()


def _rebuild_builtin(name: str) -> Any:
    value = getattr(builtins, name, None)
    if not isinstance(value, type):
        raise ValueError(f"{name} is not a type")
    return value


def _replay_items(state: list[Any]) -> Generator[Any]:
    """Yield the items of the solution's iterator. Raises RuntimeError where copying them was stopped."""
    *items, is_complete = state
    yield from items
    if not is_complete:
        raise RuntimeError(f"the solution's iterator gives more than {_MOST_ITEMS} items")


async def _return_later(value: Any) -> Any:
    return value


class _Codec(NamedTuple):
    """How values of one type cross the pipe."""

    type: type
    get_state: Callable[[Any], Any]
    """The state of a value, as a text or a flat list of values."""
    rebuild: Callable[[Any], Any]
    """The value made from its state."""


# By the tag under which a type crosses. Types are compared exactly: subclasses have no tag.
_CODECS: dict[str, _Codec] = {
    "list": _Codec(list, list, list),
    "tuple": _Codec(tuple, list, tuple),
    "set": _Codec(set, list, set),
    "frozenset": _Codec(frozenset, list, frozenset),
    "dict": _Codec(dict, _flatten_items, _pair_up),
    "default dict": _Codec(collections.defaultdict, _flatten_items, _pair_up),
    "ordered dict": _Codec(
        collections.OrderedDict,
        _flatten_items,
        lambda state: collections.OrderedDict(_pair_up(state)),
    ),
    "counter": _Codec(
        collections.Counter, _flatten_items, lambda state: collections.Counter(_pair_up(state))
    ),
    "deque": _Codec(
        collections.deque,
        lambda v: [v.maxlen, *v],
        lambda state: collections.deque(state[1:], state[0]),
    ),
    "large int": _Codec(int, hex, lambda state: int(state, 16)),
    "float": _Codec(float, repr, float),
    "bytes": _Codec(bytes, bytes.hex, bytes.fromhex),
    "bytearray": _Codec(bytearray, bytearray.hex, bytearray.fromhex),
    "complex": _Codec(complex, lambda v: [v.real, v.imag], lambda state: complex(*state)),
    "range": _Codec(range, lambda v: [v.start, v.stop, v.step], lambda state: range(*state)),
    "decimal": _Codec(decimal.Decimal, str, decimal.Decimal),
    "fraction": _Codec(
        fractions.Fraction,
        lambda v: [v.numerator, v.denominator],
        lambda state: fractions.Fraction(*state),
    ),
    "datetime": _Codec(
        datetime.datetime, datetime.datetime.isoformat, datetime.datetime.fromisoformat
    ),
    "date": _Codec(datetime.date, datetime.date.isoformat, datetime.date.fromisoformat),
    "time": _Codec(datetime.time, datetime.time.isoformat, datetime.time.fromisoformat),
    "duration": _Codec(
        datetime.timedelta,
        lambda v: [v.days, v.seconds, v.microseconds],
        lambda state: datetime.timedelta(*state),
    ),
}
_TAGS = {codec.type: tag for tag, codec in _CODECS.items()}
_REBUILD: dict[str, Callable[[Any], Any]] = {
    **{tag: codec.rebuild for tag, codec in _CODECS.items()},
    # These are recognised by more than their exact type: see `encode`.
    "named tuple": lambda state: collections.namedtuple(state[0], state[1], rename=True)(
        *state[2:]
    ),
    "array": _rebuild_array,
    "type": _rebuild_builtin,
    "iterator": _replay_items,
    "coroutine": lambda state: _return_later(state[0]),
}
_PLAIN_BASES: tuple[Any, ...] = (
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


def encode(value: Any, refer: Callable[[Any], Any]) -> Any:
    """Return the value as JSON. What is not plain data is left to `refer`, which returns a reference or raises."""
    kind: Any = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if kind is int and abs(value) < _FIRST_INEXACT_INTEGER:
        return value
    if kind is float and value - value == 0:  # neither infinite nor NaN
        return value
    if kind in _TAGS:
        tag = _TAGS[kind]
        return _encode_state(tag, _CODECS[tag].get_state(value), refer)
    type_name = value.__name__ if isinstance(value, type) else ""
    if type_name and getattr(builtins, type_name, None) is value:
        return ["type", type_name]
    if isinstance(value, tuple) and hasattr(kind, "_fields") and kind.__bases__ == (tuple,):
        return _encode_state("named tuple", [kind.__name__, list(kind._fields), *value], refer)
    array_kind = getattr(getattr(value, "dtype", None), "kind", "-")
    if kind.__module__ == "numpy" and array_kind in _ARRAY_KINDS:
        if kind.__name__ != "ndarray":  # a single number
            return encode(value.item(), refer)
        state = [value.dtype.str, list(value.shape), value.tobytes()]
        return _encode_state("array", state, refer)
    if isinstance(value, Iterator) and kind.__module__ in ("builtins", "itertools"):
        items = list(itertools.islice(value, _MOST_ITEMS + 1))
        return _encode_state("iterator", [*items[:_MOST_ITEMS], len(items) <= _MOST_ITEMS], refer)
    if isinstance(value, types.CoroutineType):
        import asyncio  # takes a tenth of a second, and few solutions need it

        return _encode_state("coroutine", [asyncio.run(value)], refer)
    for base in _PLAIN_BASES:
        # An instance of a subclass crosses as the plain value that it holds.
        if isinstance(value, base) and not callable(value):
            return encode(base(value), refer)
    return refer(value)


def _encode_state(tag: str, state: Any, refer: Callable[[Any], Any]) -> Any:
    if isinstance(state, str):
        return [tag, state]
    return [tag, [encode(item, refer) for item in state]]


def decode(data: Any, resolve: Callable[[list[Any]], Any]) -> Any:
    """Return the value again; references are left to `resolve`. Raises ValueError for what `encode` does not write."""
    if isinstance(data, dict):
        raise ValueError("not a value")
    if not isinstance(data, list):
        return data
    tag = data[0] if data else None
    if tag in _REFERENCE_TAGS:
        return resolve(data)
    if tag not in _REBUILD:
        raise ValueError(f"not a value: {tag!r}")
    state = data[1]
    if isinstance(state, list):
        state = [decode(item, resolve) for item in state]
    return _REBUILD[tag](state)


# --- tests --------------------------------------------------------------------------------------------------------


def run_test(job: dict[str, Any], scope: dict[str, Any], entry_points: list[Any]) -> None:
    """Run a job's source in a module with these names, then call its test. Raises an exception if the test fails.

    `job["call"]` is "test_a", "TestB.test_c" or absent; the entry points are the arguments of HumanEval's `check`.
    """
    import sys

    tests = types.ModuleType("__tests__")
    tests.__dict__.update(scope)
    sys.modules["__tests__"] = tests
    exec(compile(job["source"], "tests.py", "exec"), tests.__dict__)
    class_name, _, function = job.get("call", "").rpartition(".")
    if not function:
        return
    result = None
    unittest = sys.modules.get("unittest")
    if not class_name:
        result = tests.__dict__[function](*entry_points)
    elif unittest is not None and issubclass(tests.__dict__[class_name], unittest.TestCase):
        tests.__dict__[class_name](function).debug()
    else:
        test = tests.__dict__[class_name]()
        for name in ("setup_method", "setUp"):
            getattr(test, name, lambda: None)()
        result = getattr(test, function)()
        for name in ("teardown_method", "tearDown"):
            getattr(test, name, lambda: None)()
    # An async test that is not awaited would always pass.
    if isinstance(result, types.CoroutineType):
        import asyncio

        asyncio.run(result)
