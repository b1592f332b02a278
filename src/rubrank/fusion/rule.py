"""The contract of an aggregation rule: scores of a batch of groups → one number for each rollout.

    >>> from rubrank import ScoreBatch, find_rule
    >>> batch = ScoreBatch.of_arrays([[1, 0.5], [1, 1.0], [0, 1.0]], weights=[2, 1])     # three rollouts, two criteria
    >>> find_rule("weighted-mean")(batch).reward.round(2)
    array([0.83, 1.  , 0.33])

    result = find_rule("gdpo+")(table.batch())
    result.reward                       what the trainer gets, in the order of the rows; see `result.py` for the rest

A rule is a frozen dataclass whose fields are its constants, called with a `ScoreBatch`. `name` is what it is called in
`rules/`, `bounded` says that its values are from 0 to 1 (for scores within their domains). A rule that remembers
has `state()` and `restore(state)`: plain data that JSON can hold, so that a training checkpoint can carry it.

Names are small expressions:  gdpo, gdpo+ (followed by the gate of the rubric's layers), rlvr2*focal (RLVR² with Focal's
weights), rlvr2*focal+ (both). `rules/__init__.py` lists all rules and says how to add one.

Letters: M rollouts, N groups, K criteria that are ranked by, C gate criteria, D attributes.
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
    """What every rule can do."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def bounded(self) -> bool:
        """Values from 0 to 1? Those of other rules are stretched to that, group by group, before a gate acts."""
        ...

    def __call__(self, batch: ScoreBatch) -> Fused:
        """One number for each rollout."""
        ...


def apply_rule(rule: Rule, batch: ScoreBatch) -> Fused:
    """Call the rule, and check that it returns a `Fused`, which checks its values itself."""
    fused = rule(batch)
    if not isinstance(fused, Fused):
        allowed = "a rubrank.Fused(batch, name, values)"
        raise InvalidInput(f"rule {rule.name!r}", "what it returns", allowed, brief(fused), "See docs/extending.md.")
    return fused


@runtime_checkable
class Reweighting(Rule, Protocol):
    """A rule that is a weighted sum with weights of its own, which another rule can take over: rlvr2*focal."""

    def weights(self, batch: ScoreBatch) -> np.ndarray:
        """(N, K) or (1, K), > 0 where a criterion counts."""
        ...


@runtime_checkable
class Stateful(Rule, Protocol):
    """A rule that remembers from batch to batch."""

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON can hold it."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state that was saved; raises for one of another rule or version."""
        ...
