"""What an agent did, step by step: tools called or not, with which arguments, in which order, how often, how it ended.

The calls are `rollout.tool_calls`, in order: of chat messages, of Responses items, or given as such.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from rubrank.rollouts.rollout import Rollout, ToolCall
from rubrank.verifiers.agentic.tools import error_rules, says_error
from rubrank.verifiers.agentic.values import How, call_arguments, identity, matches
from rubrank.verifiers.verifier import Answer, verifier

_Count = Annotated[int, Field(ge=0, le=100_000)]
_Names = Annotated[list[str], Field(min_length=1, max_length=1000)]


@verifier("ToolCalled", family="agentic", version=1)
def tool_called(rollout: Rollout, *, tool: str, at_least: _Count = 1, at_most: _Count | None = None) -> Answer:
    """The tool was called, `at_least` and `at_most` so often.

    Passes: one call of `search` where one is asked. Fails: none, or more than `at_most`. Names are compared to the
    letter. Not covered: whether the call succeeded (EndsWithoutError, NoToolError) or made sense.
    """
    found = sum(call.name == tool for call in rollout.tool_calls)
    right = found >= at_least and (at_most is None or found <= at_most)
    asked = f"at least {at_least}" + ("" if at_most is None else f" and at most {at_most}")
    return right, f"{tool!r} was called {found} times, {asked} asked"


@verifier("ToolNotCalled", family="agentic", version=1)
def tool_not_called(rollout: Rollout, *, tools: _Names) -> Answer:
    """None of these tools was called.

    Passes: no call of them, or no calls at all. Fails: one call, even one that ended in an error: it was tried. Not
    covered: the same thing done by another tool.
    """
    forbidden = set(tools)
    found = next((i for i, call in enumerate(rollout.tool_calls, 1) if call.name in forbidden), None)
    return found is None, "none of them was called" if found is None else (
        f"call {found} is of {rollout.tool_calls[found - 1].name!r}, which is forbidden"
    )


@verifier("ToolArgument", family="agentic", version=1)
def tool_argument(
    rollout: Rollout,
    *,
    tool: str,
    argument: str,
    value: Any,
    compare: How = "exact",
    tolerance: Annotated[float, Field(ge=0)] = 0.0,
    every: bool = False,
) -> Answer:
    """A call of the tool had this argument; with `every`, each of them had.

    Compared as in ToolArgsMatch: "exact", "number", "casefold", "json" or "regex" (RE2, for the whole value).
    Passes: `search(query="Paris")` where that is asked. Fails: another value, the argument absent, arguments that are
    no JSON object, or the tool never called. Not covered: arguments inside arguments, other than as a whole.
    """
    calls = [call for call in rollout.tool_calls if call.name == tool]
    right = [_has(call, argument, value, compare, tolerance) for call in calls]
    passed = bool(right) and (all(right) if every else any(right))
    return passed, f"{sum(right)} of {len(calls)} calls of {tool!r} have {argument} as asked"


def _has(call: ToolCall, argument: str, value: Any, compare: How, tolerance: float) -> bool:
    try:
        arguments = call_arguments(call)
    except ValueError:
        return False
    return argument in arguments and matches(value, arguments[argument], compare, tolerance)


@verifier("ToolOrder", family="agentic", version=1)
def tool_order(rollout: Rollout, *, tools: _Names, adjacent: bool = False) -> Answer:
    """The tools were called in this order; other calls may stand between them, unless `adjacent`.

    Passes: search, open, answer for [search, answer]. Fails: one of them absent, or only in another order. Not covered:
    calls made at once, which count in the order in which they are written.
    """
    names = [call.name for call in rollout.tool_calls]
    if adjacent:
        found = any(names[i : i + len(tools)] == tools for i in range(len(names) - len(tools) + 1))
        return found, f"the {len(tools)} calls {'stand' if found else 'do not stand'} one after the other"
    rest = iter(names)
    done = next((i for i, tool in enumerate(tools) if tool not in rest), len(tools))
    return done == len(tools), f"{done} of {len(tools)} calls found in this order"


@verifier("StepLimit", family="agentic", version=1)
def step_limit(rollout: Rollout, *, most: _Count, at_least: _Count = 0) -> Answer:
    """The agent took at most so many steps: calls of tools.

    Passes: as many calls, or fewer. Fails: one more, or fewer than `at_least`. Not covered: turns without a call, and
    tokens (length criteria).
    """
    found = len(rollout.tool_calls)
    return at_least <= found <= most, f"{found} calls made, at most {most} allowed, at least {at_least} asked"


@verifier("EndsWithoutError", family="agentic", version=1)
def ends_without_error(rollout: Rollout, *, last: Annotated[int, Field(ge=1, le=1000)] = 1) -> Answer:
    """The last call (or the `last` calls) did not end in an error; what went wrong before may have been put right.

    An error is what NoToolError takes for one. Passes: a failed call followed by one that worked; no calls at all.
    Fails: the last call failed. Not covered: a call whose result is wrong without saying so, or was never given.
    """
    rules = error_rules()
    for number, call in list(enumerate(rollout.tool_calls, 1))[-last:]:
        if call.error or says_error(call.result, rules):
            return False, f"call {number} of {len(rollout.tool_calls)} ({call.name[:80]}) ended in an error"
    return True, "the end is without an error"


@verifier("NoRepeatedCall", family="agentic", version=1)
def no_repeated_call(rollout: Rollout, *, most: _Count = 0, same_result: bool = False) -> Answer:
    """No call was made again with the same arguments; `most`: so often it may be.

    With `same_result` only those count that brought the same result, too: polling that sees something new is none.
    Passes: every call once. Fails: one again, wherever it stands. Not covered: calls that differ in wording alone.
    """
    seen: set[str] = set()
    again = 0
    for number, call in enumerate(rollout.tool_calls):
        key = _key(call, same_result) or str(number)
        again += key in seen
        seen.add(key)
    return again <= most, f"{again} of {len(rollout.tool_calls)} calls are repeated, {most} allowed"


def _key(call: ToolCall, with_result: bool) -> str | None:
    try:
        arguments: Any = dict(call_arguments(call))
    except ValueError:
        arguments = call.arguments
    return identity([call.name, arguments, call.result if with_result else None])
