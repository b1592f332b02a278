"""What an agent did, step by step: tools called or not, with which arguments, in which order, how often, how it ended.

The calls are `rollout.tool_calls`, in order: of chat messages, of Responses items, or given as such.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.agentic.tools import says_error
from rubrank.verifiers.agentic.values import How, call_arguments, identity, matches
from rubrank.verifiers.verifier import Answer, verifier

_Count = Annotated[int, Field(ge=0, le=100_000)]
_Names = Annotated[list[str], Field(min_length=1, max_length=1000)]


@verifier("ToolCalled", family="agentic", version=1)
def tool_called(
    rollout: Rollout, *, tool: str, at_least: _Count = 1, at_most: _Count | None = None
) -> Answer:
    """The tool was called, `at_least` and `at_most` so often.

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


@verifier("ToolNotCalled", family="agentic", version=1)
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
    Passes: `search(query="Paris")` where that is asked.
    Fails: another value, the argument absent, arguments that are no JSON object, or the tool never called.
    Not covered: arguments inside arguments, other than as a whole.
    """
    calls = [call for call in rollout.tool_calls if call.name == tool]
    right = 0
    for call in calls:
        try:
            arguments = call_arguments(call)
        except ValueError:
            continue
        right += argument in arguments and matches(value, arguments[argument], compare, tolerance)
    passed = right > 0 and (right == len(calls) or not every)
    return passed, f"{right} of {len(calls)} calls of {tool!r} have {argument} as required"


@verifier("ToolOrder", family="agentic", version=1)
def tool_order(rollout: Rollout, *, tools: _Names, adjacent: bool = False) -> Answer:
    """The tools were called in this order; other calls may stand between them, unless `adjacent`.

    Passes: search, open, answer for [search, answer].
    Fails: one of them absent, or only in another order.
    Not covered: calls made at once, which count in the order in which they are written.
    """
    names = [call.name for call in rollout.tool_calls]
    if adjacent:
        stand = any(names[i : i + len(tools)] == tools for i in range(len(names) - len(tools) + 1))
        return (
            stand,
            f"the {len(tools)} calls {'stand' if stand else 'do not stand'} one after the other",
        )
    done = 0
    for name in names:
        if done < len(tools) and name == tools[done]:
            done += 1
    return done == len(tools), f"{done} of {len(tools)} calls found in this order"


@verifier("StepLimit", family="agentic", version=1)
def step_limit(rollout: Rollout, *, most: _Count, at_least: _Count = 0) -> Answer:
    """The agent took at most so many steps: calls of tools.

    Passes: as many calls, or fewer.
    Fails: one more, or fewer than `at_least`.
    Not covered: turns without a call, and tokens (length criteria).
    """
    steps = len(rollout.tool_calls)
    return (
        at_least <= steps <= most,
        f"{steps} calls made, at most {most} allowed, at least {at_least} required",
    )


@verifier("EndsWithoutError", family="agentic", version=1)
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
            return (
                False,
                f"call {number} of {len(rollout.tool_calls)} ({call.name[:80]}) ended in an error",
            )
    return True, "the end is without an error"


@verifier("NoRepeatedCall", family="agentic", version=1)
def no_repeated_call(rollout: Rollout, *, most: _Count = 0, same_result: bool = False) -> Answer:
    """No call was made again with the same arguments; `most`: so often it may be.

    With `same_result` only those count that brought the same result, too: polling that sees something new is none.
    Passes: every call once.
    Fails: one again, wherever it stands.
    Not covered: calls that differ in wording alone.
    """
    earlier_calls: set[str] = set()
    repeated = 0
    for number, call in enumerate(rollout.tool_calls):
        try:
            arguments: Any = dict(call_arguments(call))
        except ValueError:
            arguments = call.arguments
        key = identity([call.name, arguments, call.result if same_result else None]) or str(number)
        repeated += key in earlier_calls
        earlier_calls.add(key)
    return (
        repeated <= most,
        f"{repeated} of {len(rollout.tool_calls)} calls are repeated, {most} allowed",
    )
