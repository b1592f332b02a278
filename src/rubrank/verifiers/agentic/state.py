"""What the agent left behind, and how directly it got there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.agentic.values import TooBig, canonical, check_size, equal, identity
from rubrank.verifiers.verifier import UNIT, Answer, missing, verifier

_ABSENT = object()


@dataclass(frozen=True)
class _Rules:
    subset: bool
    unordered: bool
    tolerance: float
    ignore: frozenset[str]


@verifier("FinalStateMatch", family="agentic", domain=UNIT, version=1)
def final_state_match(
    rollout: Rollout,
    *,
    expected: Any = None,
    partial: bool = False,
    subset: bool = False,
    unordered: bool = False,
    tolerance: Annotated[float, Field(ge=0)] = 0.0,
    ignore: list[str] = [],  # noqa: B006 - pydantic copies it
) -> Answer:
    """The state at the end (`metadata["final_state"]`) is the expected one (`expected` or
    `metadata["expected_state"]`).

    Compared to the last leaf; the reason names the first places that differ: `$.orders[2].status`. `subset`: keys that
    are not expected are allowed. `unordered`: lists as bags. `tolerance`: for numbers, relative or absolute. `ignore`:
    places left out, with `*` for any key or index (`$.orders[*].id`). Value 1 or 0; with `partial` the share of leaves
    that agree, over those of both states (an unexpected leaf counts against it, too).
    Missing: one of the two states is not given, or too large. Passes: the same leaves. Fails: one
    that differs. Not covered: how the state came about; values with a
    meaning of their own (dates, paths) are compared as they are written.
    """
    want = rollout.metadata.get("expected_state", _ABSENT) if expected is None else expected
    have = rollout.metadata.get("final_state", _ABSENT)
    if want is _ABSENT or have is _ABSENT:
        return missing(f"no {'expected' if want is _ABSENT else 'final'} state given")
    check_size(want, "expected state")
    try:
        check_size(have, "final state")
    except TooBig as error:  # the expected state is not so large
        return 0.0, str(error)
    leaves = list(_compare("$", want, have, _Rules(subset, unordered, tolerance, frozenset(ignore))))
    wrong = [note for note in leaves if note]
    value = 1 - len(wrong) / len(leaves) if partial and leaves else float(not wrong)
    reason = f"{len(wrong)} of {len(leaves)} leaves differ: {'; '.join(wrong[:3])}"
    return value, reason if wrong else f"all {len(leaves)} leaves agree"


def _ignored(path: str, rules: _Rules) -> bool:
    if not rules.ignore:
        return False
    parts = path.replace("[", ".[").split(".")
    return any(_same(rule.replace("[", ".[").split("."), parts) for rule in rules.ignore)


def _same(rule: list[str], parts: list[str]) -> bool:
    if len(rule) != len(parts):
        return False
    return all(r in (p, "*") or (r == "[*]" and p[:1] == "[") for r, p in zip(rule, parts, strict=True))


def _compare(path: str, want: Any, have: Any, rules: _Rules) -> Iterator[str]:
    """One note for each leaf: empty if it agrees."""
    if _ignored(path, rules):
        return
    if isinstance(want, Mapping) and isinstance(have, Mapping) and (want or have):
        for key in [*want, *(k for k in have if k not in want and not rules.subset)]:
            yield from _compare(f"{path}.{key}", want.get(key, _ABSENT), have.get(key, _ABSENT), rules)
    elif isinstance(want, (list, tuple)) and isinstance(have, (list, tuple)) and (want or have):
        if rules.unordered:
            want, have = _lined_up(want, have)
        for i in range(max(len(want), len(have))):
            left, right = (side[i] if i < len(side) else _ABSENT for side in (want, have))
            yield from _compare(f"{path}[{i}]", left, right, rules)
    elif want is _ABSENT or have is _ABSENT:
        yield f"{path}: {'unexpected' if want is _ABSENT else 'absent'}"
    elif rules.subset and want in ({}, []) and type(want) is type(have):
        yield ""
    else:
        yield "" if equal(want, have, rules.tolerance) else f"{path}: {_short(want)} expected, {_short(have)} found"


def _lined_up(want: Any, have: Any) -> tuple[list[Any], list[Any]]:
    """Both lists with their equal items first, in the same order; the rest sorted, so that like stands near like."""
    rest: dict[str, list[Any]] = {}
    for item in have:
        rest.setdefault(canonical(item), []).append(item)
    common, only = [], []
    for item in want:
        bag = rest.get(canonical(item))
        common.append(item) if bag and bag.pop() is not _ABSENT else only.append(item)
    left = [item for _, bag in sorted(rest.items()) for item in bag]
    return common + sorted(only, key=canonical), common + left


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


@verifier("TrajectoryEfficiency", family="agentic", domain=UNIT, version=1)
def trajectory_efficiency(
    rollout: Rollout,
    *,
    optimal: Annotated[int, Field(ge=1, le=1_000_000)] | None = None,
    duplicate_weight: Annotated[float, Field(ge=0)] = 1.0,
    noop_weight: Annotated[float, Field(ge=0)] = 1.0,
    noop_tools: list[str] = ["noop", "no_op"],  # noqa: B006
) -> Answer:
    """How direct the way was: optimal steps / (calls made + weighted waste), 1 at most.

    `optimal` (or `metadata["optimal_steps"]`, or the number of `metadata["expected_calls"]`) is the number of calls
    that suffice. Waste, counted on top of the call itself: a duplicate (same tool, same arguments and same result as an
    earlier call: polling that sees something new is none) × `duplicate_weight`, and a call of one of `noop_tools` ×
    `noop_weight`.
    No call at all is 0, not perfect efficiency. Fewer calls than optimal are 1: whether the task was done is for
    FinalStateMatch or TestsPass to say; make one of them a prerequisite.
    Missing: no optimal number given. Passes with 1: no more calls than needed. Fails with 0: no
    call. Not covered: calls that differ only in wording; steps without a call.
    """
    best = optimal or rollout.metadata.get("optimal_steps") or len(rollout.metadata.get("expected_calls") or ())
    if not isinstance(best, int) or best < 1:
        return missing("no optimal number of steps: give `optimal` or metadata['optimal_steps']")
    calls = rollout.tool_calls
    if not calls:
        return 0.0, f"no calls made, {best} are needed"
    idle = sum(call.name in noop_tools for call in calls)
    acting = [call for call in calls if call.name not in noop_tools]
    same = [identity([call.name, call.arguments, call.result]) for call in acting]
    again = len(acting) - len({one or str(i) for i, one in enumerate(same)})
    value = best / (len(calls) + duplicate_weight * again + noop_weight * idle)
    return min(1.0, value), f"{len(calls)} calls ({again} duplicates, {idle} no-ops), {best} suffice"
