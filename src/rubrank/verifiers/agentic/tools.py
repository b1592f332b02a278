"""Verifiers of tool calls: are they valid, are they the expected ones, in which order and how often, did they fail?

    ToolCallValid                                        the arguments fit the tools' JSON Schemas
    ToolCallMatch, ToolArgsMatch                         the calls, or the share of their arguments, are as expected
    FunctionCalls                                        the same by the rules of the Berkeley leaderboard (BFCL)
    NoToolError, EndsWithoutError                        no call failed, or the last one did not
    ToolCalled, ToolNotCalled, ToolArgument              single tools
    ToolOrder, StepLimit, NoRepeatedCall                 order and number of calls
    TrajectoryEfficiency                                 how many calls were needed

The calls are `rollout.tool_calls`, in order: of chat messages, of Responses items, or given as such. Calls of earlier
turns (in the prompt) are not looked at. Expected calls come from the parameter `expected` or from
`metadata["expected_calls"]`: a list of {"name": …, "arguments": {…}}.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from pydantic import Field, TypeAdapter

from rubrank._plain import Strict, replace_surrogates
from rubrank.rollouts.rollout import Rollout, ToolCall
from rubrank.verifiers.shared.json_values import (
    BadSchema,
    CompareMode,
    TooBig,
    check_size,
    compile_pattern,
    find_schema_error,
    is_match,
    is_number,
    parse_json,
    write_canonical,
)
from rubrank.verifiers.verifier import UNIT, Answer, missing, verifier

# Limits of the calls that are paired with each other: the time grows with their product, to a tenth of a second.
_MOST_EXPECTED = 64
_MOST_CALLS = 1_000
_MOST_OF_RESULT = (
    10_000  # characters of a tool's result in which an error is looked for: errors come first
)

# "Error: no such file", "ValueError: …", "fatal: …", and the first line of a Python traceback
_ERROR_PATTERNS = (
    r"(?i)^\s*(?:\w*error|\w*exception|fatal)\b\s*:",
    r"^\s*Traceback \(most recent call last\)",
)


class ExpectedCall(Strict):
    """A call that should be made; if `arguments` is None, any arguments will do."""

    name: str
    arguments: dict[str, Any] | None = None


ExpectedCalls: TypeAlias = Annotated[list[ExpectedCall], Field(max_length=_MOST_EXPECTED)]
_EXPECTED_CALLS: TypeAdapter[list[ExpectedCall]] = TypeAdapter(ExpectedCalls)


@dataclass(frozen=True)
class _Comparison:
    """How arguments are compared: by `mode`, unless `mode_by_argument` names another for an argument."""

    mode: CompareMode
    mode_by_argument: dict[str, CompareMode]
    tolerance: float

    def count_right(self, expected: ExpectedCall, call: ToolCall) -> int:
        """Return how many of the expected arguments a call of the same name has right; 1 if none are expected."""
        if expected.name != call.name:
            return 0
        if not expected.arguments:
            return 1
        arguments = _read_arguments_or_empty(call)
        right = 0
        for key, value in expected.arguments.items():
            mode = self.mode_by_argument.get(key, self.mode)
            if key in arguments and is_match(value, arguments[key], mode, self.tolerance):
                right += 1
        return right


def find_expected_calls(
    rollout: Rollout, expected: list[ExpectedCall] | None
) -> list[ExpectedCall] | None:
    """Return the expected calls, from the parameters or the data; None if neither has them."""
    if expected is not None:
        return expected
    in_data = rollout.metadata.get("expected_calls")
    return None if in_data is None else _EXPECTED_CALLS.validate_python(in_data)


def find_schemas(tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the schema of the parameters by the tool's name; None for a tool without one.

    Reads OpenAI's nested definitions ({"function": {"name", "parameters"}}) and flat ones, with the keys of OpenAI's
    Responses ("parameters"), Anthropic ("input_schema") and MCP ("inputSchema").
    """
    schemas: dict[str, Any] = {}
    for tool in tools:
        nested = tool.get("function")
        function = nested if isinstance(nested, Mapping) else tool
        name = str(function.get("name"))
        schemas[name] = None
        for key in ("parameters", "input_schema", "inputSchema"):
            if schemas[name] is None:
                schemas[name] = function.get(key)
    return schemas


def _read_arguments_or_empty(call: ToolCall) -> Mapping[str, Any]:
    try:
        return read_arguments(call)
    except ValueError:
        return {}


# ---- arguments, repeated calls, pairs --------------------------------------------------------------------------------


def read_arguments(call: ToolCall) -> Mapping[str, Any]:
    """Return the arguments of a call as a mapping; an empty text means no arguments.

    Raises ValueError if they are not a JSON object, or too large.
    """
    arguments = call.arguments
    if isinstance(arguments, str):
        arguments = parse_json(arguments) if arguments.strip() else {}
    if not isinstance(arguments, Mapping):
        raise ValueError("not a JSON object")
    check_size(arguments, "arguments")
    return arguments


def write_call_key(call: ToolCall, *, with_result: bool) -> str | None:
    """Write a text that is the same for calls with the same tool and arguments (and result).

    Returns None if the call is too large to compare.
    """
    arguments: Any  # as a mapping if they are one, so that the order of keys does not matter
    try:
        arguments = dict(read_arguments(call))
    except ValueError:
        arguments = call.arguments
    parts = [call.name, arguments, call.result if with_result else None]
    try:
        check_size(parts, "call")
    except TooBig:
        return None
    return write_canonical(parts)


def count_repeated(calls: Sequence[ToolCall], *, with_result: bool) -> int:
    """Count the calls with the same tool and arguments (and result) as an earlier one."""
    # A call too large to compare gets a unique key: it repeats nothing.
    keys = [
        write_call_key(call, with_result=with_result) or f"#{i}" for i, call in enumerate(calls)
    ]
    return len(keys) - len(set(keys))


def find_best_pairs(gains: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Pair rows with columns so that the sum of the gains is largest; each row and column is used once at most.

    `gains[row][column]` is a whole number, 0 or more; pairs that gain nothing are left out. For [[3, 2], [3, 0]] the
    result is [(0, 1), (1, 0)]: row 0 leaves column 0 to row 1, which loses more without it.

    Rows are added one at a time. The new row may take a column from an earlier row, which then takes another column,
    perhaps from a third row, and so on until a free column is reached. Of all such chains the one with the largest
    change of the sum is carried out. Starting from the best pairs of the earlier rows, this gives the best pairs of
    one row more (the method of successive augmenting paths for the assignment problem).
    """
    table = np.asarray(gains, dtype=np.int64)
    if table.size == 0:
        return []
    rows = table.shape[0]
    # A column of zeros for each row: to remain without a partner is to take one of these.
    table = np.hstack([table, np.zeros((rows, rows), dtype=np.int64)])
    row_of: dict[int, int] = {}  # column → the row that has it
    for new_row in range(rows):
        # best_change[c]: the largest change of the sum by a chain that ends with somebody taking column c.
        best_change = table[new_row].copy()
        # previous_column[c]: the column before c in that chain; -1 if c is the first.
        previous_column = np.full(table.shape[1], -1)
        improved = True
        while improved:
            improved = False
            for column, row in row_of.items():
                # The chain takes `column` from `row`, which moves on to any other column.
                change = best_change[column] - table[row, column] + table[row]
                is_better = change > best_change
                if is_better.any():
                    best_change[is_better] = change[is_better]
                    previous_column[is_better] = column
                    improved = True
        free_columns = [column for column in range(table.shape[1]) if column not in row_of]
        column = max(free_columns, key=lambda free: int(best_change[free]))
        # Carry out the chain from its end: each row moves to the column after its own.
        while previous_column[column] >= 0:
            taken_from = int(previous_column[column])
            row_of[column] = row_of[taken_from]
            column = taken_from
        row_of[column] = new_row
    return sorted((row, column) for column, row in row_of.items() if table[row, column] > 0)


# ---- validity and expected calls -------------------------------------------------------------------------------------


@verifier("ToolCallValid", family="agentic")
def tool_call_valid(
    rollout: Rollout, *, at_least: int = 1, extra: Literal["schema", "refuse"] = "schema"
) -> Answer:
    """Every call names a tool on offer, and its arguments fit that tool's JSON Schema.

    Passes: {"city": "Paris"} for a tool whose schema asks for a text `city`; arguments as a mapping or as JSON text.
    Fails: a tool that is not on offer; arguments that are not a JSON object or break the schema; fewer calls than
        `at_least` (1: making no call is not valid calling; 0 lets it pass). `extra="refuse"` also fails arguments that
        the schema does not list, even if it allows them. A tool without a schema takes any arguments.
    Missing: no tools on offer, or a schema that cannot be used (remote `$ref`, a pattern beyond RE2, too large).
    Not covered: `format`, `unevaluated…`, and whether the call makes sense.
    """
    if not rollout.tools:
        return missing("no tool definitions in the rollout")
    if len(rollout.tool_calls) < at_least:
        return False, f"{len(rollout.tool_calls)} calls made, at least {at_least} required"
    schemas = find_schemas(rollout.tools)
    for number, call in enumerate(rollout.tool_calls, 1):
        try:
            problem = _find_problem(call, schemas, extra)
        except BadSchema as error:
            return missing(f"the schema of {call.name!r} cannot be used: {error}")
        if problem:
            return False, f"call {number} ({call.name[:80]}): {problem}"
    return True, f"{len(rollout.tool_calls)} calls, all valid"


def _find_problem(call: ToolCall, schemas: dict[str, Any], extra: str) -> str | None:
    """Return what makes the call invalid; None if it is valid. Raises BadSchema if its tool has an unusable schema."""
    if call.name not in schemas:
        return f"no such tool; on offer: {', '.join(sorted(schemas))[:200]}"
    try:
        arguments = read_arguments(call)
    except ValueError as error:
        return f"arguments unusable: {error}"
    schema = schemas[call.name]
    if schema is None:
        return None
    if extra == "refuse" and isinstance(schema, Mapping):
        unknown = sorted(set(arguments) - set(schema.get("properties", {})))
        if unknown:
            return f"unknown arguments {', '.join(unknown)[:200]}"
    return find_schema_error(schema, arguments)


@verifier("ToolCallMatch", family="agentic")
def tool_call_match(
    rollout: Rollout,
    *,
    expected: ExpectedCalls | None = None,
    mode: Literal["ordered", "unordered", "subset", "subsequence"] = "ordered",
    compare: CompareMode = "exact",
    compare_by_argument: dict[str, CompareMode] = {},  # noqa: B006 - pydantic copies it
    tolerance: float = 0.0,
    extra_arguments: bool = False,
) -> Answer:
    """The calls made are the expected ones.

    `mode`: "ordered": the same calls in the same order, no others; "unordered": the same calls in any order, no others;
    "subset": all expected calls are among those made; "subsequence": the same, in that order. Arguments are compared as
    in ToolArgsMatch; further ones fail unless `extra_arguments`. A call without expected arguments (None) matches by
    name alone. If an empty list is expected, making no call passes.
    Missing: no expected calls given.
    Not covered: equivalent calls of other tools; defaults that a schema supplies.
    """
    expected_calls = find_expected_calls(rollout, expected)
    if expected_calls is None:
        return missing("no expected calls: give `expected` or metadata['expected_calls']")
    calls = rollout.tool_calls
    total = len(expected_calls)
    allows_others = mode in ("subset", "subsequence")
    if len(calls) < total or (len(calls) > total and not allows_others):
        return False, f"{len(calls)} calls made, {total} expected"
    comparison = _Comparison(compare, compare_by_argument, tolerance)

    def is_expected(expected_call: ExpectedCall, call: ToolCall) -> bool:
        if expected_call.arguments is None:
            return expected_call.name == call.name
        try:
            arguments = read_arguments(call)
        except ValueError:
            return False
        if not extra_arguments and not set(arguments) <= set(expected_call.arguments):
            return False
        right = comparison.count_right(expected_call, call)
        return right == max(1, len(expected_call.arguments))

    if mode == "ordered":
        for number, (expected_call, call) in enumerate(zip(expected_calls, calls, strict=True), 1):
            if not is_expected(expected_call, call):
                expectation = f"{expected_call.name}({expected_call.arguments})"
                reason = (
                    f"call {number}: {expectation} expected, {call.name}({call.arguments}) made"
                )
                return False, reason[:400]
        return True, f"{total} calls as expected"
    if mode == "subsequence":
        right = 0
        for call in calls:
            if right < total and is_expected(expected_calls[right], call):
                right += 1
    else:
        gains = [
            [int(is_expected(expected_call, call)) for call in calls[:_MOST_CALLS]]
            for expected_call in expected_calls
        ]
        right = len(find_best_pairs(gains))
    return right == total, f"{right} of {total} expected calls found among {len(calls)}"


@verifier("ToolArgsMatch", family="agentic", domain=UNIT, version=2)
def tool_args_match(
    rollout: Rollout,
    *,
    expected: ExpectedCalls | None = None,
    compare: CompareMode = "exact",
    compare_by_argument: dict[str, CompareMode] = {},  # noqa: B006
    tolerance: float = 0.0,
    count_extra: bool = False,
) -> Answer:
    """The share of the expected arguments that the calls have right.

    Each expected call is paired with at most one call of the same name, so that as many arguments as possible agree;
    the order of the calls does not matter. A call expected without arguments counts as one, for being made.
    `count_extra`: unexpected arguments count as wrong ones. `compare`: "exact" (JSON equality: 1 = 1.0, not true),
    "number" (within `tolerance`, relative or absolute; "1,000" is a number), "casefold" (case and spacing aside),
    "json" (texts that hold JSON are read first), "regex" (the expected value is a pattern of RE2 for the whole value);
    `compare_by_argument` sets it for some names.
    Missing: no expected calls given, or none expected.
    Passes with 1: all arguments right.
    Fails with 0: none of them, or no such call.
    Not covered: arguments inside arguments count as a whole.
    """
    expected_calls = find_expected_calls(rollout, expected)
    if not expected_calls:
        return missing("no expected calls: give `expected` or metadata['expected_calls']")
    comparison = _Comparison(compare, compare_by_argument, tolerance)
    calls = rollout.tool_calls[:_MOST_CALLS]
    gains = [
        [comparison.count_right(expected_call, call) for call in calls]
        for expected_call in expected_calls
    ]
    right = 0
    unexpected = 0
    for i, j in find_best_pairs(gains):
        right += gains[i][j]
        if count_extra:
            arguments = _read_arguments_or_empty(calls[j])
            unexpected += len(set(arguments) - set(expected_calls[i].arguments or {}))
    total = sum(max(1, len(call.arguments or {})) for call in expected_calls)
    reason = f"{right} of {total} expected arguments right"
    if unexpected:
        reason += f", {unexpected} unexpected"
    return right / (total + unexpected), reason


@verifier("NoToolError", family="agentic", version=2)
def no_tool_error(
    rollout: Rollout,
    *,
    most: int = 0,
    look: Literal["flag", "result"] = "result",
    patterns: list[str] = list(_ERROR_PATTERNS),  # noqa: B006 - never changed
) -> Answer:
    """At most `most` tool calls ended in an error.

    An error is a call marked so (`error=True`) and, with `look="result"`, a result that says so: an object with a true
    `error`, `is_error` or `isError`, or with the status "error" or "failed"; a text on which one of `patterns` (RE2) is
    found: by default "Error: …", "ValueError: …", a Python traceback at its beginning.
    Passes: no calls at all (use ToolCallValid to ask for calls).
    Fails: one error more than allowed, even if a later call put it right.
    Not covered: results that are wrong without saying so.
    """
    failed = []
    for number, call in enumerate(rollout.tool_calls, 1):
        if call.error or (look == "result" and says_error(call.result, patterns)):
            failed.append(number)
    reason = f"{len(failed)} of {len(rollout.tool_calls)} calls ended in an error"
    if failed:
        reason += f" (calls {', '.join(map(str, failed[:10]))})"
    reason += f", {most} allowed"
    return len(failed) <= most, reason


def says_error(result: Any, patterns: Sequence[str] = _ERROR_PATTERNS) -> bool:
    """Does a tool's result say that it failed?"""
    if isinstance(result, Mapping):
        if any(result.get(key) for key in ("error", "is_error", "isError")):
            return True
        return str(result.get("status", "")).lower() in ("error", "failed", "failure")
    if not isinstance(result, str):
        return False
    beginning = replace_surrogates(result[:_MOST_OF_RESULT])
    return any(compile_pattern(pattern).search(beginning) for pattern in patterns)


# ---- the rules of the Berkeley Function-Calling Leaderboard ----------------------------------------------------------

# One mapping per expected call: the function's name → for each argument the values that are allowed.
AllowedCalls = Annotated[list[dict[str, dict[str, list[Any]]]], Field(max_length=_MOST_EXPECTED)]
_ALLOWED_CALLS: TypeAdapter[list[dict[str, dict[str, list[Any]]]]] = TypeAdapter(AllowedCalls)
_IGNORED_CHARACTERS = str.maketrans("", "", " ,./-_*^")


@verifier("FunctionCalls", family="agentic")
def function_calls(rollout: Rollout, *, expected: AllowedCalls | None = None) -> Answer:
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
        next(iter(call.items())) for call in _ALLOWED_CALLS.validate_python(expected) if call
    ]
    calls = rollout.tool_calls
    if len(calls) != len(expected_calls):
        return False, f"{len(calls)} calls made, {len(expected_calls)} expected"
    problems = [
        [_find_difference(name, allowed, call) for call in calls]
        for name, allowed in expected_calls
    ]
    gains = [[int(problem is None) for problem in row] for row in problems]
    right = len(find_best_pairs(gains))
    if right == len(calls):
        return True, f"{right} calls as expected"
    first_problem = next(problem for row in problems for problem in row if problem)
    return False, f"{right} of {len(calls)} calls as expected; {first_problem}"


def _find_difference(name: str, allowed: Mapping[str, list[Any]], call: ToolCall) -> str | None:
    """Return how the call differs from the expected one; None if it is that call."""
    spellings = (name, name.replace(".", "_"))
    if call.name not in spellings and call.name.replace("_", ".") != name:
        return f"{call.name[:60]!r} called, {name!r} expected"
    try:
        arguments = read_arguments(call)
    except ValueError as error:
        return f"{name}: arguments unusable: {error}"
    unknown = sorted(set(arguments) - set(allowed))
    if unknown:
        return f"{name}: {unknown[0][:60]!r} is not expected"
    for key, values in allowed.items():
        if key not in arguments:
            if "" not in values:
                return f"{name}: {key!r} is absent"
        elif not any(_is_allowed(value, arguments[key]) for value in values):
            return f"{name}: {key} is {str(arguments[key])[:60]!r}, which is not allowed"
    return None


def _is_allowed(expected: Any, actual: Any) -> bool:
    """Does an argument agree with one of its allowed values, by BFCL's rules?"""
    if isinstance(expected, bool) or isinstance(actual, bool) or expected is None or actual is None:
        return type(expected) is type(actual) and expected == actual
    if isinstance(expected, str) and isinstance(actual, str):
        return _fold_text(expected) == _fold_text(actual)
    if is_number(expected) and is_number(actual):
        return bool(expected == actual) and (isinstance(expected, float) or isinstance(actual, int))
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        if set(actual) - set(expected):
            return False
        for key, values in expected.items():
            # BFCL gives lists of allowed values inside mappings, too.
            options = values if _is_list(values) else [values]
            if key not in actual:
                if "" not in options:
                    return False
            elif not any(_is_allowed(option, actual[key]) for option in (*options, values)):
                return False
        return True
    if _is_list(expected) and _is_list(actual):
        return len(expected) == len(actual) and all(map(_is_allowed, expected, actual))
    return False


def _fold_text(text: str) -> str:
    return text.translate(_IGNORED_CHARACTERS).lower().replace("'", '"')


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


# ---- single calls, order and number ----------------------------------------------------------------------------------

_Count = Annotated[int, Field(ge=0, le=100_000)]
_Names = Annotated[list[str], Field(min_length=1, max_length=1000)]


@verifier("ToolCalled", family="agentic")
def tool_called(
    rollout: Rollout, *, tool: str, at_least: _Count = 1, at_most: _Count | None = None
) -> Answer:
    """The tool was called at least `at_least` and at most `at_most` times.

    Passes: one call of `search` where one is asked.
    Fails: none, or more than `at_most`. Names are compared to the letter.
    Not covered: whether the call succeeded (EndsWithoutError, NoToolError) or made sense.
    """
    times = sum(call.name == tool for call in rollout.tool_calls)
    expected = f"at least {at_least}"
    if at_most is not None:
        expected += f" and at most {at_most}"
    passed = times >= at_least and (at_most is None or times <= at_most)
    return passed, f"{tool!r} was called {times} times, {expected} required"


@verifier("ToolNotCalled", family="agentic")
def tool_not_called(rollout: Rollout, *, tools: _Names) -> Answer:
    """None of these tools was called.

    Passes: no call of them, or no calls at all.
    Fails: one call, even one that ended in an error: it was tried.
    Not covered: the same thing done by another tool.
    """
    for number, call in enumerate(rollout.tool_calls, 1):
        if call.name in tools:
            return False, f"call {number} is of {call.name!r}, which is forbidden"
    return True, "none of them was called"


@verifier("ToolArgument", family="agentic")
def tool_argument(
    rollout: Rollout,
    *,
    tool: str,
    argument: str,
    value: Any,
    compare: CompareMode = "exact",
    tolerance: Annotated[float, Field(ge=0)] = 0.0,
    every: bool = False,
) -> Answer:
    """A call of the tool had this argument; with `every`, each of them had.

    Compared as in ToolArgsMatch: "exact", "number", "casefold", "json" or "regex" (RE2, for the whole value).
    Passes: `search(query="Paris")` where that is asked.
    Fails: another value, the argument absent, arguments that are no JSON object, or the tool never called.
    Not covered: arguments inside arguments, other than as a whole.
    """
    calls = [call for call in rollout.tool_calls if call.name == tool]
    right = 0
    for call in calls:
        arguments = _read_arguments_or_empty(call)
        if argument in arguments and is_match(value, arguments[argument], compare, tolerance):
            right += 1
    passed = right > 0 and (right == len(calls) or not every)
    return passed, f"{right} of {len(calls)} calls of {tool!r} have {argument} as required"


@verifier("ToolOrder", family="agentic")
def tool_order(rollout: Rollout, *, tools: _Names, adjacent: bool = False) -> Answer:
    """The tools were called in this order; other calls may stand between them, unless `adjacent`.

    Passes: search, open, answer for [search, answer].
    Fails: one of them absent, or only in another order.
    Not covered: calls made at once, which count in the order in which they are written.
    """
    names = [call.name for call in rollout.tool_calls]
    if adjacent:
        for i in range(len(names) - len(tools) + 1):
            if names[i : i + len(tools)] == tools:
                return True, f"the {len(tools)} calls stand one after the other"
        return False, f"the {len(tools)} calls do not stand one after the other"
    done = 0
    for name in names:
        if done < len(tools) and name == tools[done]:
            done += 1
    return done == len(tools), f"{done} of {len(tools)} calls found in this order"


@verifier("StepLimit", family="agentic")
def step_limit(rollout: Rollout, *, most: _Count, at_least: _Count = 0) -> Answer:
    """The agent took at most `most` steps (tool calls).

    Passes: as many calls, or fewer.
    Fails: one more, or fewer than `at_least`.
    Not covered: turns without a call, and tokens (length criteria).
    """
    steps = len(rollout.tool_calls)
    reason = f"{steps} calls made, at most {most} allowed, at least {at_least} required"
    return at_least <= steps <= most, reason


@verifier("EndsWithoutError", family="agentic")
def ends_without_error(
    rollout: Rollout, *, last: Annotated[int, Field(ge=1, le=1000)] = 1
) -> Answer:
    """The last call (or the `last` calls) did not end in an error; what went wrong before may have been put right.

    An error is what NoToolError takes for one.
    Passes: a failed call followed by one that worked; no calls at all.
    Fails: the last call failed.
    Not covered: a call whose result is wrong without saying so, or was never given.
    """
    for number, call in list(enumerate(rollout.tool_calls, 1))[-last:]:
        if call.error or says_error(call.result):
            total = len(rollout.tool_calls)
            return False, f"call {number} of {total} ({call.name[:80]}) ended in an error"
    return True, "the end is without an error"


@verifier("NoRepeatedCall", family="agentic")
def no_repeated_call(rollout: Rollout, *, most: _Count = 0, same_result: bool = False) -> Answer:
    """No call was repeated with the same arguments; `most`: the number of repetitions allowed.

    With `same_result`, only calls with the same result count: polling that sees something new is no repetition.
    Passes: every call once.
    Fails: one again, wherever it stands.
    Not covered: calls that differ in wording alone.
    """
    repeated = count_repeated(rollout.tool_calls, with_result=same_result)
    reason = f"{repeated} of {len(rollout.tool_calls)} calls are repeated, {most} allowed"
    return repeated <= most, reason


@verifier("TrajectoryEfficiency", family="agentic", domain=UNIT, version=2)
def trajectory_efficiency(
    rollout: Rollout,
    *,
    optimal: Annotated[int, Field(ge=1, le=1_000_000)] | None = None,
    duplicate_weight: Annotated[float, Field(ge=0)] = 1.0,
    noop_weight: Annotated[float, Field(ge=0)] = 1.0,
    noop_tools: list[str] = ["noop", "no_op"],  # noqa: B006
) -> Answer:
    """The efficiency of the calls: optimal steps / (calls made + weighted waste), 1 at most.

    `optimal` (or `metadata["optimal_steps"]`, or the number of `metadata["expected_calls"]`) is the number of calls
    that suffice. Waste, counted on top of the call itself: a duplicate (same tool, same arguments and same result as an
    earlier call: polling that sees something new is none) × `duplicate_weight`, and a call of one of `noop_tools` ×
    `noop_weight`. No call at all is 0, not perfect efficiency. Fewer calls than optimal are 1: whether the task was
    done is for FinalStateMatch or TestsPass to say; make one of them a prerequisite.
    Missing: no optimal number given.
    Passes with 1: no more calls than needed.
    Fails with 0: no call.
    Not covered: calls that differ only in wording; steps without a call.
    """
    expected_calls = rollout.metadata.get("expected_calls") or ()
    steps = optimal or rollout.metadata.get("optimal_steps") or len(expected_calls)
    if not isinstance(steps, int) or steps < 1:
        return missing("no optimal number of steps: give `optimal` or metadata['optimal_steps']")
    calls = rollout.tool_calls
    if not calls:
        return 0.0, f"no calls made, {steps} are needed"
    real_calls = [call for call in calls if call.name not in noop_tools]
    no_ops = len(calls) - len(real_calls)
    duplicates = count_repeated(real_calls, with_result=True)
    value = steps / (len(calls) + duplicate_weight * duplicates + noop_weight * no_ops)
    reason = f"{len(calls)} calls ({duplicates} duplicates, {no_ops} no-ops), {steps} suffice"
    return min(1.0, value), reason
