"""The contract of an aggregation rule: scores of a batch of groups → one number for each rollout.

    >>> from rubrank.fusion.rules import find_rule, score_batch
    >>> batch = score_batch([[1, 0.5], [1, 1.0], [0, 1.0]], weights=[2, 1])     # three rollouts, two criteria
    >>> find_rule("weighted-mean")(batch).reward.round(2)
    array([0.83, 1.  , 0.33])

    result = find_rule("gdpo+")(table.batch())
    result.reward                       (rollouts,): what the trainer gets; rows in the order of the batch
    result.weights_NK                   what each criterion weighed, where the rule changes weights
    result.no_signal                    (groups,): are all rewards of a group equal?

A rule is a frozen dataclass whose fields are its constants, called with a `ScoreBatch`. `name` is what it is called in
`aggregators/`, `bounded` says that its values are from 0 to 1 (for scores within their domains). A rule that remembers
has `state()` and `restore(state)`: plain data that JSON can hold, so that a training checkpoint can carry it.

Names are small expressions:  gdpo, gdpo+ (followed by the gate of the rubric's layers), rlvr2*focal (RLVR² with Focal's
weights), rlvr2*focal+ (both). `aggregators/__init__.py` lists all rules and says how to add one.

Letters: M rollouts, N groups, K criteria that are ranked by, C gate criteria, D attributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from rubrank.scores.batch import ScoreBatch

if TYPE_CHECKING:
    from rubrank.fusion.gate import Gate, Gated

_SPREAD = 1e-9  # rewards closer than this are equal, as in docs/method.md


@dataclass(eq=False)
class RuleResult:
    """What a rule says about a batch; rows as in the batch."""

    value_M: np.ndarray
    """The rule's own number for each rollout."""
    rule: str
    starts: np.ndarray
    """Of the batch: group g is rows starts[g] .. starts[g + 1]."""
    weights_NK: np.ndarray | None = None
    """The weights that were used, where the rule sets them; (1, K) if the same for all groups."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What else a reader may want to know, by name: "pre_norm" of GDPO, "pace" of Focal … arrays or numbers."""
    gate: Gate | None = None
    gated: Gated | None = None

    @property
    def reward(self) -> np.ndarray:
        """(M,): what the trainer gets: the value, or what the gate made of it."""
        return self.value_M if self.gated is None else self.gated.reward

    @property
    def no_signal(self) -> np.ndarray:
        """(N,): groups whose rewards are all equal, so that nobody can learn from them."""
        at = self.starts[:-1]
        if not len(at):
            return np.zeros(0, bool)
        reward = self.reward
        return np.asarray(np.maximum.reduceat(reward, at) - np.minimum.reduceat(reward, at) < _SPREAD)


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

    def __call__(self, batch: ScoreBatch) -> RuleResult:
        """One number for each rollout."""
        ...


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
