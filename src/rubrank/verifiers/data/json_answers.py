"""JSON in answers: does it fit a schema, does it have the expected values?

The JSON of an answer is the whole answer or the content of its last code fence. Neither the answer nor the schema is
trusted: size, depth, steps and patterns are limited.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import Annotated, Any, Literal

from pydantic import Field

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import split_code
from rubrank.verifiers.shared.json_schema import BadSchema, find_schema_error
from rubrank.verifiers.shared.json_values import (
    TooBig,
    check_size,
    is_number,
    parse_json,
    write_canonical,
)
from rubrank.verifiers.verifier import BINARY, UNIT, Answer, missing, verifier

_ABSENT = object()


def find_json(answer: str, bare: bool = False) -> Any:
    """Return the JSON value of an answer. With `bare`, no text may stand around it.

    Raises ValueError if the answer holds no JSON.
    """
    text = answer.strip()
    candidates = [text]
    if not bare:
        fences = split_code(text)[1]
        candidates += [code for tag, code in fences if tag.lower() in ("", "json", "json5")]
    problem = ""
    for candidate in reversed(candidates):  # the last fence first, the whole answer last
        try:
            return parse_json(candidate)
        except ValueError as error:
            problem = str(error)
    raise ValueError(f"no JSON: {problem}")


@verifier("JsonSchema", family="data", domain=BINARY, version=1)
def json_schema(
    rollout: Rollout, *, schema: dict[str, Any] | None = None, bare: bool = False
) -> Answer:
    """The answer is JSON that fits a JSON Schema (`schema`, or `metadata["schema"]`).

    Passes: {"age": 3} for {"type": "object", "required": ["age"]}, also in a ```json fence with words around it.
    Fails: no JSON; JSON that breaks the schema; NaN; words around it where `bare` is set; JSON too large to be checked.
    Missing: no schema, or one that cannot be used.
    Not covered: remote references, unevaluatedProperties.
    """
    definition = rollout.metadata.get("schema") if schema is None else schema
    if not isinstance(definition, Mapping):
        return missing("no schema: give `schema`, or metadata['schema']")
    try:
        value = find_json(rollout.answer, bare)
        check_size(value, "the answer")
    except (ValueError, TooBig) as error:
        return False, str(error)[:200]
    try:
        problem = find_schema_error(definition, value)
    except BadSchema as error:
        return missing(f"the schema cannot be used: {error}")
    return problem is None, problem or "fits the schema"


@verifier("JsonMatch", family="data", domain=UNIT, version=2)
def json_match(
    rollout: Rollout,
    *,
    expected: Any = None,
    tolerance: Annotated[float, Field(ge=0)] = 1e-9,
    order: Literal["matters", "ignored"] = "matters",
    extra: Literal["allowed", "counted"] = "counted",
) -> Answer:
    """The share of expected values (`expected`, or `metadata["expected"]`) that the answer's JSON has at their place.

    Passes (1): {"a": 1, "b": [2]} for itself; 1.0 for 1; lists in another order with `order="ignored"`.
    Half: one of two values right.
    Fails (0): no JSON; nothing right. Keys that were not asked for count as wrong values with `extra="counted"`.
    Missing: nothing expected, or too much to be compared.
    Not covered: values that are equal only in meaning ("3" is not 3).
    """
    reference = rollout.metadata.get("expected", _ABSENT) if expected is None else expected
    if reference is _ABSENT:
        return missing("nothing expected: give `expected`, or metadata['expected']")
    try:
        check_size(reference, "expected")
    except TooBig as error:
        return missing(str(error))
    try:
        value = find_json(rollout.answer)
        check_size(value, "the answer")
    except (ValueError, TooBig) as error:
        return False, str(error)[:200]
    right, total, unexpected = count_leaves(
        reference, value, tolerance, any_order=order == "ignored"
    )
    reason = f"{right} of {total} expected values"
    if unexpected:
        reason += f", {unexpected} not asked for"
    if extra == "counted":
        total += unexpected
    return right / total if total else 1.0, reason


def count_leaves(
    expected: Any, actual: Any, tolerance: float, any_order: bool
) -> tuple[int, int, int]:
    """Count the values inside two values: (right, expected, unexpected).

    A value is right if the actual one has an equal value at the same place. Does not recurse, so deep values are safe.
    """
    right = 0
    total = 0
    unexpected = 0
    stack = [(expected, actual)]
    while stack:
        reference, value = stack.pop()
        if isinstance(reference, Mapping) and reference:
            entries = value if isinstance(value, Mapping) else {}
            stack += [(item, entries.get(key, _ABSENT)) for key, item in reference.items()]
            extra_keys = [key for key in entries if key not in reference]
            unexpected += sum(_count_values(entries[key]) for key in extra_keys)
        elif isinstance(reference, (list, tuple)) and reference:
            items = list(value) if isinstance(value, (list, tuple)) else []
            if any_order:
                items = _align_items(list(reference), items)
            stack += zip_longest(reference, items[: len(reference)], fillvalue=_ABSENT)
            unexpected += sum(map(_count_values, items[len(reference) :]))
        else:
            total += 1
            if _is_same(reference, value, tolerance):
                right += 1
    return right, total, unexpected


def _align_items(expected: list[Any], actual: list[Any]) -> list[Any]:
    """Move actual items to the places where equal items are expected; the others fill the gaps, then follow."""
    places: dict[str, list[int]] = {}
    for i, item in enumerate(actual):
        places.setdefault(write_canonical(item), []).append(i)
    aligned: list[Any] = [_ABSENT] * len(expected)
    used = set()
    for i, item in enumerate(expected):
        equal_items = places.get(write_canonical(item))
        if equal_items:
            place = equal_items.pop(0)
            used.add(place)
            aligned[i] = actual[place]
    rest = iter([item for i, item in enumerate(actual) if i not in used])
    filled = [next(rest, _ABSENT) if item is _ABSENT else item for item in aligned]
    return [*filled, *rest]


def _is_same(left: Any, right: Any, tolerance: float) -> bool:
    if is_number(left) and is_number(right):
        try:
            return bool(abs(left - right) <= tolerance * max(1.0, abs(left)))
        except OverflowError:  # a whole number too large for a float
            return bool(left == right)
    return type(left) is type(right) and bool(left == right)


def _count_values(value: Any) -> int:
    """Return how many values there are inside a value; an empty list or object is one."""
    count = 0
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, Mapping) and item:
            stack += item.values()
        elif isinstance(item, (list, tuple)) and item:
            stack += item
        else:
            count += 1
    return count
