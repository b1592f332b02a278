"""Check values against JSON Schemas (draft 2020-12) that come from unknown sources.

    find_schema_error({"required": ["city"]}, {})     "$: 'city' is a required property"

The `jsonschema` library does the work. Four things are changed so that no schema can stall or attack a verifier:
references to other documents are not fetched, patterns are matched by RE2, every keyword looked at uses up one step of
a budget, and two keywords that would need their own bookkeeping are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from referencing import Registry

from rubrank._plain import replace_surrogates
from rubrank.verifiers.shared.json_values import check_size, compile_pattern, write_canonical

_MOST_STEPS = 100_000
# A check that runs out of steps is blamed on the arguments if they hold more values than this, else on the schema.
_LARGE_ARGUMENTS = 1_000
# jsonschema's keyword functions have no place for a counter of ours. The list holds one number, the steps left.
_steps_left: ContextVar[list[int]] = ContextVar("steps left")


class BadSchema(ValueError):  # noqa: N818 - says what is wrong
    """The schema cannot be used. That is the fault of its author, not of the policy whose value is checked."""


class _OutOfSteps(Exception):  # noqa: N818
    """The budget is used up; whose fault that is depends on the size of the arguments."""


def find_schema_error(schema: Any, instance: Mapping[str, Any]) -> str | None:
    """Return the first error of the instance, with its place ("$.city: …"); None if it fits the schema.

    Raises BadSchema if the schema is unusable.
    """
    try:
        check_size(schema, "schema")
        _steps_left.set([_MOST_STEPS])
        validator = _Validator(_drop_dialect(schema), registry=Registry())
        error = next(validator.iter_errors(_make_plain(instance)), None)
    except BadSchema:
        raise
    except _OutOfSteps:
        # An error and not a missing score, or an agent could avoid the check by sending huge arguments.
        if check_size(instance, "arguments") > _LARGE_ARGUMENTS:
            return "the arguments are too large to be checked"
        raise BadSchema(f"the schema needs more than {_MOST_STEPS} steps") from None
    except Exception as problem:  # a schema of the wrong shape can fail anywhere inside jsonschema
        first_line = str(problem).split("\n", 1)[0][:200]
        raise BadSchema(f"{type(problem).__name__}: {first_line}") from None
    return None if error is None else f"{error.json_path}: {error.message[:200]}"


def _drop_dialect(schema: Any) -> Any:
    """Return the schema without its `$schema`. Raises BadSchema if a part of it has one.

    jsonschema checks a part that names a dialect with its own validator for it, whose patterns may take for ever.
    """
    if not isinstance(schema, Mapping):
        return schema
    without_dialect = {key: part for key, part in schema.items() if key != "$schema"}
    remaining = list(without_dialect.values())
    while remaining:
        part = remaining.pop()
        if isinstance(part, Mapping):
            if isinstance(part.get("$schema"), str):
                raise BadSchema("$schema is supported at the top of a schema only")
            remaining.extend(part.values())
        elif isinstance(part, (list, tuple)):
            remaining.extend(part)
    return without_dialect


def _make_plain(value: Any) -> Any:
    """Return the value as plain dicts and lists: only those are objects and arrays to jsonschema."""
    if isinstance(value, Mapping):
        return {str(key): _make_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_make_plain(item) for item in value]
    return value


# ---- keywords ----------------------------------------------------------------------------------------------------
# jsonschema's own versions of these use Python's patterns, or compare each item with each. Every function has
# jsonschema's signature: `value` is what the schema gives for the keyword, `instance` what is checked.


def _check_pattern(
    validator: Any, value: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if not isinstance(instance, str):
        return
    if not compile_pattern(value).search(replace_surrogates(instance)):
        yield ValidationError(f"{instance[:60]!r} does not match {value!r}")


def _check_pattern_properties(
    validator: Any, value: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    for pattern, subschema in value.items():
        for key in instance:
            if compile_pattern(pattern).search(replace_surrogates(key)):
                yield from validator.descend(
                    instance[key], subschema, path=key, schema_path=pattern
                )


def _check_additional_properties(
    validator: Any, value: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    properties = schema.get("properties", {})
    patterns = [compile_pattern(source) for source in schema.get("patternProperties", {})]
    for key in instance:
        name = replace_surrogates(key)
        if key in properties or any(pattern.search(name) for pattern in patterns):
            continue
        if value is False:
            yield ValidationError(f"{key!r} is not a parameter")
        elif isinstance(value, dict):
            yield from validator.descend(instance[key], value, path=key)


def _check_unique_items(
    validator: Any, value: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if not value or not isinstance(instance, list):
        return
    different_items = {write_canonical(item) for item in instance}
    if len(different_items) < len(instance):
        yield ValidationError("items are not unique")


def _refuse_unevaluated(
    validator: Any, value: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    raise BadSchema("unevaluatedProperties and unevaluatedItems are not supported")


def _count_steps(keyword: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a keyword function so that each call uses up one step. The wrapper raises _OutOfSteps if none is left."""

    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        steps = _steps_left.get()
        steps[0] -= 1
        if steps[0] < 0:
            raise _OutOfSteps
        yield from keyword(validator, value, instance, schema) or ()

    return check


_KEYWORDS: dict[str, Callable[..., Any]] = {
    **Draft202012Validator.VALIDATORS,
    "pattern": _check_pattern,
    "patternProperties": _check_pattern_properties,
    "additionalProperties": _check_additional_properties,
    "uniqueItems": _check_unique_items,
    "unevaluatedProperties": _refuse_unevaluated,
    "unevaluatedItems": _refuse_unevaluated,
}
_Validator = extend(
    Draft202012Validator, {name: _count_steps(keyword) for name, keyword in _KEYWORDS.items()}
)
