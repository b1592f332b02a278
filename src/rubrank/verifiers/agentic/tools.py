"""Tool calls: are they valid, are they the expected ones, did they fail?

The calls are `rollout.tool_calls`, in order; calls of earlier turns (in the prompt) are not looked at. Expected
calls come from the parameter `expected` or from `metadata["expected_calls"]`: a list of {"name": …, "arguments": {…}}.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, TypeAdapter

from rubrank._plain import Strict, clean
from rubrank.rollouts.rollout import Rollout, ToolCall
from rubrank.verifiers.agentic.schema import BadSchema, first_error
from rubrank.verifiers.agentic.values import How, best_pairs, call_arguments, matches, pattern
from rubrank.verifiers.verifier import UNIT, Answer, missing, verifier

_MOST_EXPECTED, _MOST_CALLS = 64, 1_000


class ExpectedCall(Strict):
    """A call that should be made; `arguments` None: whatever they are."""

    name: str
    arguments: dict[str, Any] | None = None


Expected: TypeAlias = Annotated[list[ExpectedCall], Field(max_length=_MOST_EXPECTED)]
_EXPECTED: TypeAdapter[list[ExpectedCall]] = TypeAdapter(Expected)


def expected_calls(rollout: Rollout, expected: list[ExpectedCall] | None) -> list[ExpectedCall] | None:
    """The expected calls, from the parameters or the data; None if neither has them."""
    if expected is not None:
        return expected
    given = rollout.metadata.get("expected_calls")
    return None if given is None else _EXPECTED.validate_python(given)


def tool_schemas(tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Name → parameter schema (None: not given), for nested and flat definitions."""
    found = {}
    for tool in tools:
        inner = tool.get("function")
        function = inner if isinstance(inner, Mapping) else tool
        keys = ("parameters", "input_schema", "inputSchema")
        found[str(function.get("name"))] = next((function[key] for key in keys if function.get(key) is not None), None)
    return found


@verifier("ToolCallValid", family="agentic", version=1)
def tool_call_valid(rollout: Rollout, *, at_least: int = 1, extra: Literal["schema", "refuse"] = "schema") -> Answer:
    """Every call names a tool on offer, and its arguments fit that tool's JSON Schema.

    Passes: {"city": "Paris"} for a tool whose schema asks for a text `city`; arguments as a mapping or as JSON text.
    Fails: a tool that is not on offer; arguments that are not a JSON object or break the schema; fewer calls than
    `at_least` (1: making no call is not valid calling; 0 lets it pass). `extra="refuse"` also fails arguments that the
    schema does not list, even if it allows them. A tool without a schema takes any arguments.
    Missing: no tools on offer, or a schema that cannot be used (remote `$ref`, a pattern beyond RE2, too large).
    Not covered: `format`, `unevaluated…`, and whether the call makes sense.
    """
    if not rollout.tools:
        return missing("no tool definitions in the rollout")
    if len(rollout.tool_calls) < at_least:
        return False, f"{len(rollout.tool_calls)} calls made, at least {at_least} asked"
    schemas = tool_schemas(rollout.tools)
    for number, call in enumerate(rollout.tool_calls, 1):
        try:
            trouble = _trouble(call, schemas, extra)
        except BadSchema as error:
            return missing(f"the schema of {call.name!r} cannot be used: {error}")
        if trouble:
            return False, f"call {number} ({call.name[:80]}): {trouble}"
    return True, f"{len(rollout.tool_calls)} calls, all valid"


def _trouble(call: ToolCall, schemas: dict[str, Any], extra: str) -> str | None:
    if call.name not in schemas:
        return f"no such tool; on offer: {', '.join(sorted(schemas))[:200]}"
    try:
        arguments = call_arguments(call)
    except ValueError as error:
        return f"arguments unusable: {error}"
    schema = schemas[call.name]
    if schema is None:
        return None
    if extra == "refuse" and isinstance(schema, Mapping):
        unknown = sorted(set(arguments) - set(schema.get("properties", {})))
        if unknown:
            return f"unknown arguments {', '.join(unknown)[:200]}"
    return first_error(schema, arguments)


@verifier("ToolCallMatch", family="agentic", version=1)
def tool_call_match(
    rollout: Rollout,
    *,
    expected: Expected | None = None,
    mode: Literal["ordered", "unordered", "subset", "subsequence"] = "ordered",
    compare: How = "exact",
    compare_by_argument: dict[str, How] = {},  # noqa: B006 - pydantic copies it
    tolerance: float = 0.0,
    extra_arguments: bool = False,
) -> Answer:
    """The calls made are the expected ones.

    `mode`: "ordered": the same calls in the same order, no others; "unordered": the same calls in any order, no others;
    "subset": all expected calls are among those made; "subsequence": so, and in that order.
    Arguments are compared as in ToolArgsMatch; further ones fail unless `extra_arguments`. A call without expected
    arguments (None) matches by name alone. Nothing expected and nothing called passes: that is the expectation then.
    Missing: no expected calls given. Not covered: equivalent calls of other tools; defaults that a schema supplies.
    """
    wanted = expected_calls(rollout, expected)
    if wanted is None:
        return missing("no expected calls: give `expected` or metadata['expected_calls']")
    calls, n = rollout.tool_calls, len(wanted)
    strict = mode in ("ordered", "unordered")
    if (strict and len(calls) != n) or len(calls) < n:
        return False, f"{len(calls)} calls made, {n} expected{_difference(wanted, calls)}"

    def fits(want: ExpectedCall, call: ToolCall) -> bool:
        return _fits(want, call, compare, compare_by_argument, tolerance, extra_arguments)

    if mode == "ordered":
        wrong = next((i for i, pair in enumerate(zip(wanted, calls, strict=True)) if not fits(*pair)), None)
        return wrong is None, f"{n} calls as expected" if wrong is None else _unlike(wrong, wanted[wrong], calls[wrong])
    found = _in_order(wanted, calls, fits) if mode == "subsequence" else _paired(wanted, calls, fits)
    return found == n, f"{found} of {n} expected calls found among {len(calls)}"


def _difference(wanted: list[ExpectedCall], calls: Sequence[ToolCall]) -> str:
    absent = Counter(w.name for w in wanted) - Counter(c.name for c in calls)
    return f"; not called: {', '.join(sorted(absent))[:200]}" if absent else ""


def _unlike(index: int, want: ExpectedCall, call: ToolCall) -> str:
    return f"call {index + 1}: {want.name}({want.arguments}) expected, {call.name}({call.arguments}) made"[:400]


def _in_order(wanted: list[ExpectedCall], calls: Sequence[ToolCall], fits: Any) -> int:
    rest = iter(calls)
    for found, want in enumerate(wanted):
        if not any(fits(want, call) for call in rest):
            return found
    return len(wanted)


def _paired(wanted: list[ExpectedCall], calls: Sequence[ToolCall], fits: Any) -> int:
    return len(best_pairs([[float(fits(want, call)) for call in calls[:_MOST_CALLS]] for want in wanted]))


def _fits(
    want: ExpectedCall, call: ToolCall, compare: How, special: dict[str, How], tolerance: float, extra: bool
) -> bool:
    if want.name != call.name:
        return False
    if want.arguments is None:
        return True
    arguments = _arguments(call)
    if arguments is None or (not extra and set(arguments) - set(want.arguments)):
        return False
    return _right(want, arguments, compare, special, tolerance) == len(want.arguments)


def _arguments(call: ToolCall) -> Mapping[str, Any] | None:
    try:
        return call_arguments(call)
    except ValueError:
        return None


def _right(want: ExpectedCall, arguments: Mapping[str, Any], compare: How, special: dict[str, How], tol: float) -> int:
    """How many expected arguments the call has right."""
    expected = want.arguments or {}
    return sum(
        key in arguments and matches(value, arguments[key], special.get(key, compare), tol)
        for key, value in expected.items()
    )


@verifier("ToolArgsMatch", family="agentic", domain=UNIT, version=1)
def tool_args_match(
    rollout: Rollout,
    *,
    expected: Expected | None = None,
    compare: How = "exact",
    compare_by_argument: dict[str, How] = {},  # noqa: B006
    tolerance: float = 0.0,
    count_extra: bool = False,
) -> Answer:
    """The share of the expected arguments that the calls have right.

    Each expected call is paired with at most one call of the same name, so that as many arguments as possible agree;
    the order of the calls does not matter. A call expected without arguments counts as one, for being made.
    `count_extra`: unexpected arguments count as wrong ones.
    `compare`: "exact" (JSON equality: 1 = 1.0, not true), "number" (within `tolerance`, relative or absolute;
    "1,000" is a number), "casefold" (case and spacing aside), "json" (texts that hold JSON are read first), "regex"
    (the expected value is a pattern of RE2 for the whole value); `compare_by_argument` sets it for some names.
    Missing: no expected calls given, or none expected. Passes with 1: all arguments right. Fails with 0: none of them,
    or no such call. Not covered: arguments inside arguments count as a whole.
    """
    wanted = expected_calls(rollout, expected)
    if not wanted:
        return missing("no expected calls: give `expected` or metadata['expected_calls']")
    calls = [(call.name, _arguments(call)) for call in rollout.tool_calls[:_MOST_CALLS]]
    gains = [
        [_gain(want, name, args, compare, compare_by_argument, tolerance) for name, args in calls] for want in wanted
    ]
    pairs = best_pairs(gains) if calls else []
    right = sum(int(gains[i][j]) for i, j in pairs)
    total = sum(max(1, len(want.arguments or {})) for want in wanted)
    extra = sum(len(set(calls[j][1] or {}) - set(wanted[i].arguments or {})) for i, j in pairs) if count_extra else 0
    words = f", {extra} unexpected" if extra else ""
    return right / (total + extra), f"{right} of {total} expected arguments right{words}"


def _gain(
    want: ExpectedCall,
    name: str,
    arguments: Mapping[str, Any] | None,
    compare: How,
    special: dict[str, How],
    tol: float,
) -> float:
    if want.name != name:
        return 0.0
    if not want.arguments:
        return 1.0
    return 0.0 if arguments is None else float(_right(want, arguments, compare, special, tol))


_ERRORS = (r"(?i)^\s*(?:\w*error|\w*exception|fatal)\b\s*:", r"^\s*Traceback \(most recent call last\)")


@verifier("NoToolError", family="agentic", version=1)
def no_tool_error(
    rollout: Rollout,
    *,
    most: int = 0,
    look: Literal["flag", "result"] = "result",
    patterns: list[str] = list(_ERRORS),  # noqa: B006 - never changed
) -> Answer:
    """At most `most` tool calls ended in an error.

    An error is a call marked so (`error=True`) and, with `look="result"`, a result that says so: an object with a true
    `error`, `is_error` or `isError`, or with the status "error" or "failed"; a text on which one of `patterns` (RE2) is
    found: by default "Error: …", "ValueError: …", a Python traceback at its beginning.
    Passes: no calls at all (use ToolCallValid to ask for calls). Fails: one error more than allowed, even if a later
    call put it right. Not covered: results that are wrong without saying so.
    """
    rules = [pattern(text) for text in patterns] if look == "result" else []
    bad = [
        i for i, call in enumerate(rollout.tool_calls, 1) if call.error or (rules and says_error(call.result, rules))
    ]
    where = f" (calls {', '.join(map(str, bad[:10]))})" if bad else ""
    return len(bad) <= most, f"{len(bad)} of {len(rollout.tool_calls)} calls ended in an error{where}, {most} allowed"


def error_rules() -> list[Any]:
    """The usual patterns of a result that tells of an error."""
    return [pattern(text) for text in _ERRORS]


def says_error(result: Any, rules: list[Any]) -> bool:
    """Does a tool's result say that it failed?"""
    if isinstance(result, Mapping):
        marked = any(result.get(key) for key in ("error", "is_error", "isError"))
        return marked or str(result.get("status", "")).lower() in ("error", "failed", "failure")
    return isinstance(result, str) and any(rule.search(clean(result[:10_000])) for rule in rules)
