"""Values that tools and agents exchange: comparing them, checking them against JSON Schemas, pairing lists of calls.

Everything here expects hostile data: depth and size are limited, and patterns run under RE2.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Literal, TypeAlias

import numpy as np
import re2
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from referencing import Registry

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
    stack = [(value, 0)]
    nodes = 0
    while stack:
        item, depth = stack.pop()
        nodes += 1
        if depth > MOST_DEPTH or nodes > MOST_NODES:
            raise TooBig(
                f"{what}: deeper than {MOST_DEPTH} levels or larger than {MOST_NODES} values"
            )
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
        return json.loads(text, parse_constant=_parse_float, parse_float=_parse_float)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _parse_float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits} is not a JSON number here")
    return number


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
        try:
            return left == right or math.isclose(left, right, rel_tol=tolerance, abs_tol=tolerance)
        except OverflowError:  # whole numbers beyond any float
            return False
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(
            equal(left[key], right[key], tolerance) for key in left
        )
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(
            equal(a, b, tolerance) for a, b in zip(left, right, strict=True)
        )
    return type(left) is type(right) and left == right


def matches(expected: Any, actual: Any, how: How, tolerance: float = 0.0) -> bool:
    """Does the actual value satisfy the expected one, read in this way?"""
    if how == "regex":
        if not isinstance(actual, str):
            actual = json.dumps(actual, ensure_ascii=False, default=str)
        return pattern(str(expected)).fullmatch(clean(actual)) is not None
    if how == "number":
        expected_number = _read_number(expected)
        number = _read_number(actual)
        if expected_number is None or number is None:
            return False
        return equal(expected_number, number, tolerance)
    if how == "casefold":
        return equal(_fold(expected), _fold(actual), tolerance)
    if how == "json":
        return equal(_decode(expected), _decode(actual), tolerance)
    return equal(expected, actual, tolerance)


def pattern(text: str) -> Any:
    """A pattern from data, compiled by RE2; ValueError if RE2 does not know it (look-around, back-references)."""
    try:
        return compile_re2(text)
    except re2.error as error:
        raise ValueError(f"the pattern {text[:80]!r} cannot be used: {error}") from None


# "1,000", "-2.5", ".5", "1e3"; not "1,5", "1_000" or "inf", which float() or a removed comma would accept
_NUMBER_TEXT = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d*)(?:\.\d*)?(?:[eE][+-]?\d+)?", re.ASCII)


def _read_number(value: Any) -> float | None:
    """A number, or a text that is one ("1,000")."""
    if not isinstance(value, str):
        return value if is_number(value) else None
    text = value.strip()
    if not _NUMBER_TEXT.fullmatch(text):
        return None
    try:
        number = float(text.replace(",", ""))
    except ValueError:  # a sign or a point without digits
        return None
    return number if math.isfinite(number) else None


def _fold(value: Any) -> Any:
    if isinstance(value, str):
        return " ".join(value.split()).casefold()
    if isinstance(value, Mapping):
        return {key: _fold(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_fold(item) for item in value]
    return value


def _decode(value: Any) -> Any:
    """What a text of JSON holds; other values as they are."""
    if not isinstance(value, str):
        return value
    try:
        decoded = parse_json(value)
        check_size(decoded, "JSON text")
        return decoded
    except ValueError:
        return value


def canonical(value: Any) -> str:
    """One text for equal values, to find duplicates; 1 and 1.0 are equal."""
    return json.dumps(_write_whole_numbers(value), sort_keys=True, ensure_ascii=True, default=str)


def _write_whole_numbers(value: Any) -> Any:
    """The value with whole numbers as integers: 1.0 becomes 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _write_whole_numbers(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_write_whole_numbers(item) for item in value]
    return value


def write_call_key(call: ToolCall, *, with_result: bool) -> str | None:
    """One text for calls with the same tool and arguments (and result); None if a call is too large to compare."""
    arguments: Any
    try:
        arguments = dict(call_arguments(call))
    except ValueError:
        arguments = call.arguments
    parts = [call.name, arguments, call.result if with_result else None]
    try:
        check_size(parts, "call")
    except TooBig:
        return None
    return canonical(parts)


def best_pairs(gains: Sequence[Sequence[float]]) -> list[tuple[int, int]]:
    """Pair rows with columns so that the sum of gains is largest (the Hungarian method); each is used once at most.

    Pairs that gain nothing are left out. Takes rows² × columns steps, of which numpy does a row at once.
    """
    table = np.asarray(gains, dtype=float)
    if table.size == 0:
        return []
    is_flipped = table.shape[0] > table.shape[1]
    row_of_column = _assign(-(table.T if is_flipped else table))
    pairs = []
    for column, row in enumerate(row_of_column.tolist()):
        if row >= 0:
            pairs.append((column, row) if is_flipped else (row, column))
    return sorted(pair for pair in pairs if table[pair] > 0)


def _assign(costs: np.ndarray) -> np.ndarray:
    """For each column the row it belongs to, or -1; there are at most as many rows as columns.

    Rows are added one by one. Each looks for the cheapest chain of columns that ends in a free one (a shortest path
    under prices that keep every cost at zero or above), and every row of the chain moves on by one column. The
    column behind the last stands for "no column yet".
    """
    rows, columns = costs.shape
    row_price = np.zeros(rows)
    column_price = np.zeros(columns + 1)
    owner = np.full(columns + 1, -1)
    for row in range(rows):
        owner[columns] = row
        column = columns
        slack = np.full(columns, np.inf)
        came_from = np.zeros(columns, dtype=int)
        used = np.zeros(columns + 1, dtype=bool)
        while owner[column] >= 0:
            used[column] = True
            reduced = costs[owner[column]] - row_price[owner[column]] - column_price[:columns]
            free = ~used[:columns]
            better = free & (reduced < slack)
            slack[better] = reduced[better]
            came_from[better] = column
            cheapest = int(np.argmin(np.where(free, slack, np.inf)))
            step = slack[cheapest]
            row_price[owner[used]] += step
            column_price[used] -= step
            slack[free] -= step
            column = cheapest
        while column != columns:
            previous = int(came_from[column])
            owner[column] = owner[previous]
            column = previous
    return owner[:columns]


# ---- JSON Schema -----------------------------------------------------------------------------------------------------

# Tool definitions come from unknown sources: no remote references, and a budget of steps, so that none can stall us.
_MOST_STEPS = 100_000
_MANY = 1_000  # with more values than this, the arguments (not the schema) are to blame for too many steps
_left: ContextVar[list[int]] = ContextVar("steps left")


class _OutOfSteps(Exception):  # noqa: N818
    """The budget is used up; whose fault that is depends on the size of the arguments."""


class BadSchema(ValueError):  # noqa: N818 - says what is wrong
    """The tool's definition cannot be used: its author's fault, not the caller's."""


def _count_steps(keyword: Callable[..., Any]) -> Callable[..., Any]:
    """The same keyword, using up one step each time it is looked at."""

    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        left = _left.get()
        left[0] -= 1
        if left[0] < 0:
            raise _OutOfSteps
        yield from keyword(validator, value, instance, schema) or ()

    return check


def _pattern(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not pattern(value).search(clean(instance)):
        yield ValidationError(f"{instance[:60]!r} does not match {value!r}")


def _pattern_properties(
    validator: Any, value: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    for text, subschema in value.items():
        for key in instance:
            if pattern(text).search(clean(key)):
                yield from validator.descend(instance[key], subschema, path=key, schema_path=text)


def _additional_properties(
    validator: Any, value: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    properties = schema.get("properties", {})
    patterns = [pattern(text) for text in schema.get("patternProperties", {})]
    for key in instance:
        if key in properties or any(compiled.search(clean(key)) for compiled in patterns):
            continue
        if value is False:
            yield ValidationError(f"{key!r} is not a parameter")
        elif isinstance(value, dict):
            yield from validator.descend(instance[key], value, path=key)


def _unique_items(
    validator: Any, value: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if (
        value
        and isinstance(instance, list)
        and len({canonical(item) for item in instance}) < len(instance)
    ):
        yield ValidationError("items are not unique")


def _refuse_unevaluated(
    validator: Any, value: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    raise BadSchema("unevaluatedProperties and unevaluatedItems are not supported")


# jsonschema's own versions use Python's patterns, or compare each item with each.
_KEYWORDS: dict[str, Callable[..., Any]] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
    "unevaluatedProperties": _refuse_unevaluated,
    "unevaluatedItems": _refuse_unevaluated,
}
_Validator = extend(
    Draft202012Validator,
    {
        name: _count_steps(rule)
        for name, rule in {**Draft202012Validator.VALIDATORS, **_KEYWORDS}.items()
    },
)


def first_error(schema: Any, instance: Mapping[str, Any]) -> str | None:
    """What is wrong with the instance, with its place; None if nothing. `BadSchema` if the schema is unusable."""
    try:
        check_size(schema, "schema")
        _left.set([_MOST_STEPS])
        validator = _Validator(_drop_dialect(schema), registry=Registry())
        error = next(validator.iter_errors(_make_plain(instance)), None)
    except BadSchema:
        raise
    except _OutOfSteps:
        # An error and not a missing score, or an agent could avoid the check by sending huge arguments.
        if check_size(instance, "arguments") > _MANY:
            return "the arguments are too large to be checked"
        raise BadSchema(f"the schema needs more than {_MOST_STEPS} steps") from None
    except Exception as problem:  # a schema of the wrong shape can fail anywhere inside: whatever it is, it is unusable
        first_line = str(problem).split("\n", 1)[0][:200]
        raise BadSchema(f"{type(problem).__name__}: {first_line}") from None
    return None if error is None else f"{error.json_path}: {error.message[:200]}"


def _drop_dialect(schema: Any) -> Any:
    """The schema without its `$schema`; one inside a part of it is refused.

    jsonschema checks a part that names a dialect with its own validator for it, whose patterns may take for ever.
    """
    if not isinstance(schema, Mapping):
        return schema
    without = {key: part for key, part in schema.items() if key != "$schema"}
    remaining = list(without.values())
    while remaining:
        part = remaining.pop()
        if isinstance(part, Mapping):
            if isinstance(part.get("$schema"), str):
                raise BadSchema("$schema is supported at the top of a schema only")
            remaining.extend(part.values())
        elif isinstance(part, (list, tuple)):
            remaining.extend(part)
    return without


def _make_plain(value: Any) -> Any:
    """Plain dicts and lists: what jsonschema takes for objects and arrays."""
    if isinstance(value, Mapping):
        return {str(key): _make_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_make_plain(item) for item in value]
    return value
