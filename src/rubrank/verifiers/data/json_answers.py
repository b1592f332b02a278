"""JSON in answers: does it fit a schema, does it say what was expected?

The JSON of an answer is the whole of it, or what stands in its last code fence; the schema and the expected value come
from the rubric or from the data, neither of which is trusted: size, depth, steps and patterns are limited.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import split_code
from rubrank.verifiers.agentic.schema import BadSchema, first_error
from rubrank.verifiers.agentic.values import TooBig, canonical, check_size, is_number, parse_json
from rubrank.verifiers.verifier import BINARY, UNIT, Answer, missing, verifier

_NONE = object()


def find_json(answer: str, bare: bool = False) -> Any:
    """The JSON value of an answer; ValueError where there is none. `bare`: nothing may stand around it."""
    text = answer.strip()
    fences = [] if bare else [code for tag, code in split_code(text)[1] if tag.lower() in ("", "json", "json5")]
    for candidate in (*reversed(fences), text):
        try:
            return parse_json(candidate)
        except ValueError as error:
            wrong = error
    raise ValueError(f"no JSON: {wrong}")


@verifier("JsonSchema", family="data", domain=BINARY, version=1)
def json_schema(rollout: Rollout, *, schema: dict[str, Any] | None = None, bare: bool = False) -> Answer:
    """The answer is JSON that fits a JSON Schema (`schema`, or `metadata["schema"]`).

    Passes: {"age": 3} for {"type": "object", "required": ["age"]}, also in a ```json fence with words around it.
    Fails: no JSON; JSON that breaks the schema; NaN; words around it where `bare` is set; JSON too large to be checked.
    Missing: no schema, or one that cannot be used. Not covered: remote references, unevaluatedProperties.
    """
    wanted = schema if schema is not None else rollout.metadata.get("schema")
    if not isinstance(wanted, Mapping):
        return missing("no schema: give `schema`, or metadata['schema']")
    try:
        value = find_json(rollout.answer, bare)
        check_size(value, "the answer")
    except (ValueError, TooBig) as error:
        return False, str(error)[:200]
    try:
        wrong = first_error(wanted, value)
    except BadSchema as error:
        return missing(f"the schema cannot be used: {error}")
    return wrong is None, wrong or "fits the schema"


@verifier("JsonMatch", family="data", domain=UNIT, version=1)
def json_match(
    rollout: Rollout,
    *,
    expected: Any = None,
    tolerance: Annotated[float, Field(ge=0)] = 1e-9,
    order: Literal["matters", "ignored"] = "matters",
    extra: Literal["allowed", "counted"] = "counted",
) -> Answer:
    """The share of expected values (`expected`, or `metadata["expected"]`) that the answer's JSON has at their place.

    Passes (1): {"a": 1, "b": [2]} for itself; 1.0 for 1; lists in another order with `order="ignored"`. Half: one of
    two values right. Fails (0): no JSON; nothing right. Keys that were not asked for count as wrong values with
    `extra="counted"`. Missing: nothing expected. Not covered: values that are equal only in meaning ("3" is not 3).
    """
    wanted = expected if expected is not None else rollout.metadata.get("expected", _NONE)
    if wanted is _NONE:
        return missing("nothing expected: give `expected`, or metadata['expected']")
    try:
        value = find_json(rollout.answer)
        check_size(value, "the answer")
        check_size(wanted, "expected")
    except (ValueError, TooBig) as error:
        return False, str(error)[:200]
    right, asked, more = _compare(wanted, value, tolerance, order == "ignored")
    total = asked + (more if extra == "counted" else 0)
    share = right / total if total else 1.0
    return share, f"{right} of {asked} expected values" + (f", {more} not asked for" if more else "")


def _compare(wanted: Any, got: Any, tolerance: float, any_order: bool) -> tuple[int, int, int]:
    """(right, expected, extra) leaves; without recursion, so that depth is no danger."""
    right = asked = more = 0
    stack = [(wanted, got)]
    while stack:
        a, b = stack.pop()
        if isinstance(a, Mapping) and a:
            others = b if isinstance(b, Mapping) else {}
            stack.extend((value, others.get(key, _NONE)) for key, value in a.items())
            more += sum(_leaves(value) for key, value in others.items() if key not in a)
        elif isinstance(a, (list, tuple)) and a:
            items = list(b) if isinstance(b, (list, tuple)) else []
            if any_order:
                items = _aligned(list(a), items)
            stack.extend((value, items[i] if i < len(items) else _NONE) for i, value in enumerate(a))
            more += sum(map(_leaves, items[len(a) :]))
        else:
            asked += 1
            right += _same(a, b, tolerance)
    return right, asked, more


def _aligned(wanted: list[Any], got: list[Any]) -> list[Any]:
    """The items in the order in which equal ones are wanted; the rest fills the gaps."""
    left: dict[str, list[int]] = {}
    for i, item in enumerate(got):
        left.setdefault(canonical(item), []).append(i)
    taken: list[Any] = [_NONE] * len(wanted)
    used = set()
    for i, item in enumerate(wanted):
        if places := left.get(canonical(item)):
            used.add(places[0])
            taken[i] = got[places.pop(0)]
    rest = iter([item for i, item in enumerate(got) if i not in used])
    filled = [next(rest, _NONE) if item is _NONE else item for item in taken]
    return [*filled, *rest]


def _same(a: Any, b: Any, tolerance: float) -> bool:
    if is_number(a) and is_number(b):
        return bool(abs(a - b) <= tolerance * max(1.0, abs(a)))
    return type(a) is type(b) and bool(a == b)


def _leaves(value: Any) -> int:
    """Values in a value that were not asked for."""
    count, stack = 0, [value]
    while stack:
        item = stack.pop()
        inner = list(item.values()) if isinstance(item, Mapping) else item if isinstance(item, (list, tuple)) else None
        count += not inner
        stack.extend(inner or ())
    return count
