"""JSON values from answers, tool calls and data sets: parse, limit and compare them, and check them against schemas.

    parse_json('{"a": 1}')                            {"a": 1}; ValueError for NaN, trailing text or very deep nesting
    are_equal({"a": 1}, {"a": 1.0})                   True: 1 equals 1.0, but not true
    is_match("1,000", 1000, "number")                 True: one of the five ways of `CompareMode`
    find_schema_error({"required": ["city"]}, {})     "$: 'city' is a required property"

The values may come from a policy that tries to break its reward, and the schemas from unknown sources. Depth and size
are therefore limited, and patterns are compiled by RE2, which takes linear time.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Literal, TypeAlias

import re2
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from referencing import Registry

from rubrank._plain import replace_surrogates
from rubrank.verifiers.shared.word_tables import compile_re2

CompareMode: TypeAlias = Literal["exact", "number", "casefold", "json", "regex"]

MOST_DEPTH = 100
MOST_NODES = 200_000

# "1,000", "-2.5", ".5", "1e3"; not "1,5", "1_000" or "inf", which float() or a removed comma would accept
_NUMBER_TEXT = re.compile(
    r"""
    [+-]?
    (?: \d{1,3} (?: ,\d{3} )+ | \d* )   # 1,000 with commas between thousands, or plain digits
    (?: \.\d* )?                        # .5
    (?: [eE][+-]?\d+ )?                 # e-3
    """,
    re.ASCII | re.VERBOSE,
)


class TooBig(ValueError):  # noqa: N818 - says what is wrong
    """A value is deeper or larger than verifiers compare."""


def check_size(value: Any, what: str) -> int:
    """Return how many values there are inside `value`, itself included.

    Raises TooBig if it is too deep or too large; the message begins with `what`. Does not recurse, so that a deep
    value cannot exhaust Python's stack.
    """
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
    """Is the value a JSON number? True and False are not, although Python counts them as integers."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def parse_json(text: str) -> Any:
    """Parse strict JSON. Raises ValueError for everything else: NaN, Infinity, 1e999, nesting beyond Python's stack."""
    try:
        return json.loads(text, parse_constant=_parse_float, parse_float=_parse_float)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _parse_float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits} is not a JSON number here")
    return number


def are_equal(left: Any, right: Any, tolerance: float = 0.0) -> bool:
    """Are two JSON values equal?

    1 equals 1.0 but not true; keys may stand in any order; numbers may differ by `tolerance`, relative or absolute.
    """
    if is_number(left) and is_number(right):
        try:
            return left == right or math.isclose(left, right, rel_tol=tolerance, abs_tol=tolerance)
        except OverflowError:  # whole numbers beyond any float
            return False
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(
            are_equal(left[key], right[key], tolerance) for key in left
        )
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(
            are_equal(a, b, tolerance) for a, b in zip(left, right, strict=True)
        )
    return type(left) is type(right) and left == right


def is_match(expected: Any, actual: Any, mode: CompareMode, tolerance: float = 0.0) -> bool:
    """Does the actual value satisfy the expected one?

    exact      JSON equality
    number     both are numbers, or texts that hold one ("1,000")
    casefold   JSON equality without regard to case and spacing of texts
    json       texts that hold JSON are parsed first: '{"a": 1}' matches {"a": 1}
    regex      `expected` is a pattern of RE2 that matches the whole text (other values are written as JSON)
    """
    if mode == "regex":
        if not isinstance(actual, str):
            actual = json.dumps(actual, ensure_ascii=False, default=str)
        return compile_pattern(str(expected)).fullmatch(replace_surrogates(actual)) is not None
    if mode == "number":
        expected_number = _read_number(expected)
        actual_number = _read_number(actual)
        if expected_number is None or actual_number is None:
            return False
        return are_equal(expected_number, actual_number, tolerance)
    if mode == "casefold":
        return are_equal(_fold_texts(expected), _fold_texts(actual), tolerance)
    if mode == "json":
        return are_equal(_parse_if_json(expected), _parse_if_json(actual), tolerance)
    return are_equal(expected, actual, tolerance)


def compile_pattern(source: str) -> Any:
    """Compile a pattern with RE2. Raises ValueError for what RE2 does not know (look-around, back-references)."""
    try:
        return compile_re2(source)
    except re2.error as error:
        raise ValueError(f"the pattern {source[:80]!r} cannot be used: {error}") from None


def _read_number(value: Any) -> float | None:
    """Return a number, or the number that a text holds ("1,000" → 1000.0); None for all other values."""
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


def _fold_texts(value: Any) -> Any:
    """Return the value with all texts inside it in lower case and with single spaces."""
    if isinstance(value, str):
        return " ".join(value.split()).casefold()
    if isinstance(value, Mapping):
        return {key: _fold_texts(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_fold_texts(item) for item in value]
    return value


def _parse_if_json(value: Any) -> Any:
    """Return what a JSON text holds; other texts and values unchanged."""
    if not isinstance(value, str):
        return value
    try:
        parsed = parse_json(value)
        check_size(parsed, "JSON text")
        return parsed
    except ValueError:
        return value


def write_canonical(value: Any) -> str:
    """Write a value as JSON so that equal values give equal texts: keys are sorted, 1.0 is written 1."""
    return json.dumps(_write_whole_numbers(value), sort_keys=True, ensure_ascii=True, default=str)


def _write_whole_numbers(value: Any) -> Any:
    """Return the value with whole numbers as integers: 1.0 becomes 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _write_whole_numbers(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_write_whole_numbers(item) for item in value]
    return value


def make_sort_key(
    value: Any, path: str = "$", is_compared: Callable[[str], bool] = lambda path: True
) -> tuple[Any, ...]:
    """Make a key that equal values share and by which values of different types can be sorted.

    The order inside lists does not matter: [1, 2.0] and [2, 1] share a key. Places that `is_compared` rejects are left
    out; their paths begin with `path` and have "[*]" for every index ("$.orders[*].id").
    """
    # The first entry is the rank of the type, because Python refuses to compare a text with a number.
    if is_number(value):
        return (0, value)
    if isinstance(value, str):
        return (1, value)
    if isinstance(value, (list, tuple)):
        place = f"{path}[*]"
        if not is_compared(place):
            return (3, ())
        return (3, tuple(sorted(make_sort_key(item, place, is_compared) for item in value)))
    if isinstance(value, Mapping):
        fields = []
        for name in sorted(value, key=str):
            place = f"{path}.{name}"
            if is_compared(place):
                fields.append((str(name), make_sort_key(value[name], place, is_compared)))
        return (4, tuple(fields))
    return (2, repr(value))


# ---- schemas ---------------------------------------------------------------------------------------------------------

_MOST_STEPS = 100_000
# A check that runs out of steps is blamed on the arguments if they hold more values than this, else on the schema.
_LARGE_ARGUMENTS = 1_000
# jsonschema's keyword functions have no place for a counter. The list holds one number, the steps left.
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
