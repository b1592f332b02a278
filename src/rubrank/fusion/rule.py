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

Names are small expressions:  gdpo, gdpo+ (followed by the gate of the rubric's layers), rlvr2*focal (RLVR² with Focal's
weights), rlvr2*gear (RLVR² of GEAR's scores), rlvr2*focal+ (both). `rules/__init__.py` lists all rules and says how to
add one.

Letters at the end of a name are the axes of an array: M rollouts, N groups, K ranked criteria.
"""

from __future__ import annotations

from collections.abc import Mapping
from reprlib import repr as brief
from typing import Any, Protocol, runtime_checkable

import numpy as np

from rubrank.errors import InvalidInput
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
class Stateful(Rule, Protocol):
    """A rule that learns from batch to batch."""

    def state(self) -> dict[str, Any]:
        """Return what it has learnt, as JSON data."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; raises InvalidInput if another rule or version saved it."""
        ...
