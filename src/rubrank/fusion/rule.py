"""The contract of an aggregation rule: scores of a batch of groups → one number for each rollout.

    >>> from rubrank import ScoreBatch, find_rule
    >>> batch = ScoreBatch.of_arrays([[1, 0.5], [1, 1.0], [0, 1.0]], weights=[2, 1])     # three rollouts, two criteria
    >>> find_rule("weighted-mean")(batch).reward.round(2)
    array([0.83, 1.  , 0.33])

    result = find_rule("gdpo+")(table.batch())
    result.reward                       what the trainer gets, in the order of the rows; see `result.py` for the rest

A rule is a frozen dataclass whose fields are its constants. It is called with a `ScoreBatch`. `name` is the name that
`find_rule` looks up; `bounded` says that its values lie between 0 and 1 (for scores within their domains). A rule that
learns from batch to batch also has `state()` and `restore(state)`; the state is JSON data for a training checkpoint.

The rules of the library are derived from `CheckedRule`, which checks the constants when the rule is created, so that
`focal:gamma=-1` fails before any score is read:

    class Focal(LocalRule):
        gamma: float = number_field(3.0)      Focal(gamma=-1): "focal: gamma must be a number ≥ 0; got -1. Use 3.0."

Names are small expressions:  gdpo, gdpo+ (followed by the gate of the rubric's layers), rlvr2*focal (RLVR² with Focal's
weights), rlvr2*gear (RLVR² of GEAR's scores), rlvr2*focal+ (both). `rules/__init__.py` lists all rules and says how to
add one.

Letters at the end of a name are the axes of an array: M rollouts, N groups, K ranked criteria.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, fields
from reprlib import repr as brief
from typing import Any, ClassVar, Protocol, get_args, runtime_checkable

import numpy as np

from rubrank.errors import InvalidInput, UnknownName
from rubrank.fusion.result import Fused
from rubrank.scores.batch import ScoreBatch


@runtime_checkable
class Rule(Protocol):
    """What every rule has: a name, a range of values, and a call that fuses a batch."""

    @property
    def name(self) -> str:
        """The name that `find_rule` looks up."""
        ...

    @property
    def bounded(self) -> bool:
        """Do all values lie between 0 and 1? If not, a gate stretches them to [0, 1] in each group first."""
        ...

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Return one number for each rollout, in `value_M` of the result."""
        ...


def apply_rule(rule: Rule, batch: ScoreBatch) -> Fused:
    """Call the rule; raises InvalidInput if it does not return a `Fused` (which checks its own values)."""
    fused = rule(batch)
    if not isinstance(fused, Fused):
        raise InvalidInput(
            f"rule {rule.name!r}",
            "what it returns",
            allowed="a rubrank.Fused(batch, name, values)",
            got=brief(fused),
            remedy="See `rubrank help extending`.",
        )
    return fused


@runtime_checkable
class Reweighting(Rule, Protocol):
    """A weighted sum that computes its own weights. RLVR² can use them instead of the rubric's: rlvr2*focal."""

    def weights(self, batch: ScoreBatch) -> np.ndarray:
        """Return (N, K), or (1, K) if all groups have the same weights; 0 for a criterion that does not count."""
        ...


@runtime_checkable
class Rescoring(Rule, Protocol):
    """A rule that first changes the scores. RLVR² can rank by those instead of the rubric's: rlvr2*gear."""

    def scores(self, batch: ScoreBatch) -> np.ndarray:
        """Return the changed scores (M, K): from 0 to 1, higher is better, NaN = missing."""
        ...


@runtime_checkable
class AddsValues(Rule, Protocol):
    """A rule that makes numbers of its own from the scores and adds them up, such as Borda's points.

    Attribute control steps in between: it adjusts these numbers instead of the scores.
    """

    def compute_values(self, batch: ScoreBatch) -> np.ndarray:
        """Return the numbers (M, K) that the rule adds up. A rule that learns from batches learns in this call."""
        ...

    def fuse_values(self, batch: ScoreBatch, values_MK: np.ndarray) -> Fused:
        """Return the result for these numbers, which may have been adjusted."""
        ...


@runtime_checkable
class Stateful(Rule, Protocol):
    """A rule that learns from batch to batch."""

    def state(self) -> dict[str, Any]:
        """Return what it has learnt, as JSON data."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; raises InvalidInput if another rule or version saved it."""
        ...


# ---------------------------------------------------------------------------------------------------- library rules


@dataclass(frozen=True)
class CheckedRule:
    """Base of the built-in rules: runs the check of every constant. Raises InvalidInput for the first wrong one.

    The check of a field is called with the rule and the value, and returns what is allowed; None: the value is right.
    """

    def __post_init__(self) -> None:
        for constant in fields(self):
            value = getattr(self, constant.name)
            words = constant.metadata.get("words")
            if words and value not in words:
                raise UnknownName.of(self.name, constant.name, value, words)  # type: ignore[attr-defined]
            check = constant.metadata.get("check")
            allowed = check(self, value) if check else None
            if allowed is not None:
                raise InvalidInput(
                    self.name,  # type: ignore[attr-defined]
                    constant.name,
                    allowed=allowed,
                    got=repr(value),
                    remedy=f"Use {constant.default!r}.",
                )


@dataclass(frozen=True)
class LocalRule(CheckedRule):
    """Base of the built-in rules that look at each group by itself, so that a batch can be cut between groups."""

    local: ClassVar[bool] = True


@dataclass(frozen=True)
class LearningRule(CheckedRule):
    """Base of the built-in rules that learn from batch to batch."""

    memory: dict[str, Any] = field(init=False, repr=False, compare=False, default_factory=dict)
    """What was learnt, as JSON data."""

    def state(self) -> dict[str, Any]:
        """Return what was learnt, for a checkpoint."""
        return {"rule": self.name, "version": 2, "memory": deepcopy(self.memory)}  # type: ignore[attr-defined]

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        saved = check_state(self, 2, state)["memory"]
        self.memory.clear()
        self.memory.update(deepcopy(saved))


def number_field(
    default: float, *, low: float | str = 0.0, high: float = math.inf, above: bool = False
) -> Any:
    """Declare a constant from `low` to `high`; `low` may name another constant, and above=True excludes `low`."""

    def check(rule: Any, value: Any) -> str | None:
        lowest = getattr(rule, low) if isinstance(low, str) else low
        is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if is_number and lowest <= value <= high and not (above and value == lowest):
            return None
        if math.isinf(high):
            return f"a number {'>' if above else '≥'} {lowest:g}"
        if above:
            return f"a number above {lowest:g} and at most {high:g}"
        return f"a number from {lowest:g} to {high:g}"

    return field(default=default, metadata={"check": check})


def choice_field(default: str, literal: Any) -> Any:
    """Declare a constant that is one of the words of a `Literal`."""
    return field(default=default, metadata={"words": get_args(literal)})


def flag_field(default: bool) -> Any:
    """Declare a constant that is True or False."""
    return field(
        default=default,
        metadata={
            "check": lambda rule, value: None if isinstance(value, bool) else "True or False"
        },
    )


def check_state(rule: Any, version: int, state: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the saved state of a rule that learns; raises InvalidInput if another rule or version saved it."""
    if (state.get("rule"), state.get("version")) != (rule.name, version):
        raise InvalidInput(
            rule.name,
            "state",
            allowed=f"one that {rule.name!r} saved, version {version}",
            got=f"{state.get('rule')!r}, version {state.get('version')}",
            remedy="Restore each rule from its own state.",
        )
    return state
