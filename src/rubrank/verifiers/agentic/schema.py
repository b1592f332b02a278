"""JSON Schema as tool definitions carry it, from unknown sources: patterns under RE2, no remote references, and a
budget of steps, so that no schema can keep the verifier busy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from referencing import Registry

from rubrank._plain import clean
from rubrank.verifiers.agentic.values import canonical, check_size, pattern

_MOST_STEPS = 100_000
_MANY = 1_000  # values in the arguments from which on running out of steps is their fault
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
        error = next(
            _Validator(schema, registry=Registry()).iter_errors(_make_plain(instance)), None
        )
    except BadSchema:
        raise
    except _OutOfSteps:
        if (
            check_size(instance, "arguments") > _MANY
        ):  # not missing: sending too much is no way around a verdict
            return "the arguments are too large to be checked"
        raise BadSchema(f"the schema needs more than {_MOST_STEPS} steps") from None
    except Exception as problem:  # a schema of the wrong shape can fail anywhere inside: whatever it is, it is unusable
        first_line = str(problem).split("\n", 1)[0][:200]
        raise BadSchema(f"{type(problem).__name__}: {first_line}") from None
    return None if error is None else f"{error.json_path}: {error.message[:200]}"


def _make_plain(value: Any) -> Any:
    """Plain dicts and lists: what jsonschema takes for objects and arrays."""
    if isinstance(value, Mapping):
        return {str(key): _make_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_make_plain(item) for item in value]
    return value
