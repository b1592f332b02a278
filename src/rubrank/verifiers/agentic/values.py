"""Comparing values that tools and agents exchange: JSON equality, tolerance, case, patterns; and the best pairing of
two lists of calls. Everything here expects hostile data: depth and size are limited, patterns run under RE2.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np
import re2

from rubrank._plain import clean
from rubrank.rollouts.rollout import ToolCall
from rubrank.verifiers.shared.patterns import compile_re2

How: TypeAlias = Literal["exact", "number", "casefold", "json", "regex"]

MOST_DEPTH = 100
MOST_NODES = 200_000


class TooBig(ValueError):  # noqa: N818 - says what is wrong
    """Deeper or larger than is compared here."""


def check_size(value: Any, what: str) -> int:
    """Refuse values too deep or too large, without recursion; the number of values inside."""
    stack, nodes = [(value, 0)], 0
    while stack:
        item, depth = stack.pop()
        nodes += 1
        if depth > MOST_DEPTH or nodes > MOST_NODES:
            raise TooBig(f"{what}: deeper than {MOST_DEPTH} levels or larger than {MOST_NODES} values")
        if isinstance(item, Mapping):
            stack.extend((child, depth + 1) for child in item.values())
        elif isinstance(item, (list, tuple)):
            stack.extend((child, depth + 1) for child in item)
    return nodes


def is_number(value: Any) -> bool:
    """A JSON number: not true or false."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def parse_json(text: str) -> Any:
    """Strict JSON (no NaN, no Infinity); ValueError for everything else, however deep."""
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _refuse(digits)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON number here")


def call_arguments(call: ToolCall) -> Mapping[str, Any]:
    """The arguments of a call as a mapping; ValueError if they are not a JSON object."""
    arguments = call.arguments
    if isinstance(arguments, str):
        arguments = parse_json(arguments) if arguments.strip() else {}
    if not isinstance(arguments, Mapping):
        raise ValueError("not a JSON object")
    check_size(arguments, "arguments")
    return arguments


def equal(left: Any, right: Any, tolerance: float = 0.0) -> bool:
    """JSON equality: 1 equals 1.0 but not true; keys in any order; numbers within a relative or absolute tolerance."""
    if is_number(left) and is_number(right):
        return left == right or (tolerance > 0 and _near(left, right, tolerance))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(equal(left[k], right[k], tolerance) for k in left)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(equal(a, b, tolerance) for a, b in zip(left, right, strict=True))
    return type(left) is type(right) and left == right


def _near(left: float, right: float, tolerance: float) -> bool:
    try:
        return math.isclose(left, right, rel_tol=tolerance, abs_tol=tolerance)
    except OverflowError:  # whole numbers beyond any float
        return False


def matches(expected: Any, actual: Any, how: How, tolerance: float = 0.0) -> bool:
    """Does the actual value satisfy the expected one, read in this way?"""
    if how == "regex":
        return pattern(str(expected)).fullmatch(_as_text(actual)) is not None
    if how == "number":
        a, b = _as_number(expected), _as_number(actual)
        return a is not None and b is not None and equal(a, b, tolerance)
    if how == "casefold":
        return equal(_fold(expected), _fold(actual), tolerance)
    if how == "json":
        return equal(_decoded(expected), _decoded(actual), tolerance)
    return equal(expected, actual, tolerance)


@lru_cache(maxsize=256)
def pattern(text: str) -> Any:
    """A pattern from data, compiled by RE2; ValueError if RE2 does not know it (look-around, back-references)."""
    try:
        return compile_re2(clean(text))
    except re2.error as error:
        raise ValueError(f"the pattern {text[:80]!r} cannot be used: {error}") from None


def _as_text(value: Any) -> str:
    return clean(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


def _as_number(value: Any) -> float | None:
    try:
        number = float(str(value).strip().replace(",", "")) if isinstance(value, str) else value
    except ValueError:
        return None
    return number if is_number(number) else None


def _fold(value: Any) -> Any:
    if isinstance(value, str):
        return " ".join(value.split()).casefold()
    if isinstance(value, Mapping):
        return {key: _fold(item) for key, item in value.items()}
    return [_fold(item) for item in value] if isinstance(value, (list, tuple)) else value


def _decoded(value: Any) -> Any:
    """A text that holds JSON is what it holds."""
    if not isinstance(value, str):
        return value
    try:
        decoded = parse_json(value)
        check_size(decoded, "JSON text")
        return decoded
    except ValueError:
        return value


def canonical(value: Any) -> str:
    """One text for equal values, to find duplicates."""
    return json.dumps(value, sort_keys=True, ensure_ascii=True, default=str)


def identity(call: Sequence[Any]) -> str | None:
    """The same of the parts of a call; None where it is too large to compare."""
    try:
        check_size(call, "call")
    except TooBig:
        return None
    return canonical(call)


def best_pairs(gains: Sequence[Sequence[float]]) -> list[tuple[int, int]]:
    """Pair rows with columns so that the sum of gains is largest (the Hungarian method); each is used once at most.

    Pairs that gain nothing are left out. Rows times rows times columns steps, the columns at once.
    """
    table = np.asarray(gains, dtype=float)
    if table.size == 0:
        return []
    flipped = table.shape[0] > table.shape[1]
    costs = -(table.T if flipped else table)
    owner = _assign(costs)
    pairs = [(int(row), column) for column, row in enumerate(owner) if row >= 0]
    pairs = [(column, row) for row, column in pairs] if flipped else pairs
    return sorted(pair for pair in pairs if table[pair] > 0)


def _assign(costs: np.ndarray) -> np.ndarray:
    """For each column the row it belongs to, or -1; there are at most as many rows as columns."""
    rows, columns = costs.shape
    row_price, column_price = np.zeros(rows), np.zeros(columns + 1)
    owner = np.full(columns + 1, -1)
    for row in range(rows):
        owner[columns] = row
        at, slack, came = columns, np.full(columns, np.inf), np.zeros(columns, dtype=int)
        used = np.zeros(columns + 1, dtype=bool)
        while owner[at] >= 0:
            used[at] = True
            reduced = costs[owner[at]] - row_price[owner[at]] - column_price[:columns]
            free = ~used[:columns]
            better = free & (reduced < slack)
            slack[better], came[better] = reduced[better], at
            after = int(np.argmin(np.where(free, slack, np.inf)))
            step = slack[after]
            row_price[owner[used]] += step
            column_price[used] -= step
            slack[free] -= step
            at = after
        while at != columns:
            owner[at], at = owner[came[at]], int(came[at])
    return owner[:columns]
