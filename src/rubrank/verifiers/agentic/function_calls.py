"""Tool calls by the rules of the Berkeley Function-Calling Leaderboard: allowed values, any order, parallel calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from rubrank.rollouts.rollout import Rollout, ToolCall
from rubrank.verifiers.agentic.values import best_pairs, call_arguments, is_number
from rubrank.verifiers.verifier import Answer, missing, verifier

Allowed = Annotated[list[dict[str, dict[str, list[Any]]]], Field(max_length=64)]
_ALLOWED: TypeAdapter[list[dict[str, dict[str, list[Any]]]]] = TypeAdapter(Allowed)
_DROPPED = str.maketrans("", "", " ,./-_*^")


@verifier("FunctionCalls", family="agentic", version=1)
def function_calls(rollout: Rollout, *, expected: Allowed | None = None) -> Answer:
    """The calls made are those expected, by BFCL's rules, in any order and each once.

    `expected` (or `metadata["ground_truth"]`): [{"weather": {"city": ["Paris", "Paris, France"], "unit": ["C", ""]}}]:
    for every argument the values allowed; "" among them makes it optional. Texts agree without regard to case, spaces
    and ,./-_*^; a whole number may stand for a decimal one, true and false for nothing but themselves; lists agree item
    by item, mappings key by key (their values may be lists of allowed ones). A dot in a name may be written "_".
    Passes: as many calls as expected, each with its own.
    Fails: a call more or less, another name, an argument that is not expected or absent, a value that is not allowed.
    Missing: nothing expected given.
    Not covered: types of the schema (ToolCallValid); Java's and JavaScript's own types; multi-turn states.
    """
    expected = rollout.metadata.get("ground_truth") if expected is None else expected
    if expected is None:
        return missing("no expected calls: give `expected` or metadata['ground_truth']")
    expected_calls = [
        next(iter(call.items())) for call in _ALLOWED.validate_python(expected) if call
    ]
    calls = rollout.tool_calls
    if len(calls) != len(expected_calls):
        return False, f"{len(calls)} calls made, {len(expected_calls)} expected"
    problems = [
        [_find_problem(name, allowed, call) for call in calls] for name, allowed in expected_calls
    ]
    right = (
        len(best_pairs([[float(problem is None) for problem in row] for row in problems]))
        if calls
        else 0
    )
    if right == len(calls):
        return True, f"{right} calls as expected"
    first_problem = next(problem for row in problems for problem in row if problem)
    return False, f"{right} of {len(calls)} calls as expected; {first_problem}"


def _find_problem(name: str, allowed: Mapping[str, list[Any]], call: ToolCall) -> str | None:
    """What makes the call another than the expected one; None if nothing does."""
    if name not in (call.name, call.name.replace("_", ".")) and name.replace(".", "_") != call.name:
        return f"{call.name[:60]!r} called, {name!r} expected"
    try:
        arguments = call_arguments(call)
    except ValueError as error:
        return f"{name}: arguments unusable: {error}"
    unknown = sorted(set(arguments) - set(allowed))
    if unknown:
        return f"{name}: {unknown[0][:60]!r} is not expected"
    for key, values in allowed.items():
        if key not in arguments:
            if "" not in values:
                return f"{name}: {key!r} is absent"
        elif not any(_agrees(value, arguments[key]) for value in values):
            return f"{name}: {key} is {str(arguments[key])[:60]!r}, which is not allowed"
    return None


def _agrees(expected: Any, actual: Any) -> bool:
    if isinstance(expected, bool) or isinstance(actual, bool) or expected is None or actual is None:
        return type(expected) is type(actual) and expected == actual
    if isinstance(expected, str) and isinstance(actual, str):
        return _fold(expected) == _fold(actual)
    if is_number(expected) and is_number(actual):
        return bool(expected == actual) and (isinstance(expected, float) or isinstance(actual, int))
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return _mappings_agree(expected, actual)
    if _is_list(expected) and _is_list(actual):
        return len(expected) == len(actual) and all(map(_agrees, expected, actual))
    return False


def _mappings_agree(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> bool:
    """BFCL gives lists of allowed values inside mappings, too."""
    if set(actual) - set(expected):
        return False
    for key, values in expected.items():
        options = values if _is_list(values) else [values]
        if key not in actual:
            if "" not in options:
                return False
        elif not any(_agrees(option, actual[key]) for option in (*options, values)):
            return False
    return True


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _fold(text: str) -> str:
    return text.translate(_DROPPED).lower().replace("'", '"')
