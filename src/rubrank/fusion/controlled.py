"""Control of attributes before a rule other than RLVR², which has its own: "weighted-mean+" with `attributes`.

    rule = Gated(Controlled(find_rule("weighted-mean"), adjust=attenuate(1.0), pool="run"))

The stage of `control/linear.py` takes the influence of attributes out of the values that the rule adds up: the scores
on the scale from 0 to 1, or what the rule itself makes of them (Borda's points, run quantiles). Then comes the rule,
then the gate. Adjusted scores may leave [0, 1] by what was taken out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from rubrank._choices import Pool
from rubrank.errors import InvalidInput
from rubrank.fusion.control.adjustment import Adjustment
from rubrank.fusion.control.control import BatchEstimate
from rubrank.fusion.control.estimate import RunningEstimate
from rubrank.fusion.control.linear import control_linearly, estimate_linearly
from rubrank.fusion.result import Fused
from rubrank.fusion.rule import Rule, Stateful, apply_rule
from rubrank.fusion.rules import checks
from rubrank.scores.batch import ScoreBatch


@runtime_checkable
class AddsValues(Rule, Protocol):
    """A rule that adds up values of its own instead of unit scores; control acts on those."""

    def values(self, batch: ScoreBatch) -> np.ndarray:
        """The values (M, K) that the rule adds up."""
        ...

    def fuse_values(self, batch: ScoreBatch, values_MK: np.ndarray) -> Fused:
        """The result for these values, which may have been adjusted."""
        ...


@dataclass(frozen=True)
class Controlled:
    """A rule whose values are adjusted for the attributes of the batch; the options are those of `RLVR2`."""

    rule: Rule
    adjust: Adjustment | Sequence[Adjustment] | None = None
    pool: Pool = "batch"
    adjust_criteria: Sequence[str | int] | Literal["all"] | None = None
    seed: int = 0
    running: RunningEstimate = field(default_factory=RunningEstimate, repr=False, compare=False)
    """What pool="run" has learnt. Copies with other options share it."""
    batch_estimate: BatchEstimate | None = field(default=None, repr=False, compare=False)
    """An estimate that was made over a whole batch, for fusing parts of the batch one by one."""

    def __post_init__(self) -> None:
        if not getattr(self.rule, "controllable", True):
            allowed = "one that adds up scores, if `attributes` are controlled"
            remedy = "A small adjustment would decide which scores reach its threshold."
            raise InvalidInput(self.rule.name, "rule", allowed, repr(self.rule.name), remedy)
        if self.pool == "group":
            allowed = "'run' or 'batch': one group does not tell bias from quality"
            raise InvalidInput(self.rule.name, "pool", allowed, "'group'", "Only rlvr2 has it, as in the paper.")

    @property
    def name(self) -> str:
        """The name of the rule."""
        return self.rule.name

    @property
    def bounded(self) -> bool:
        """Whether the rule's rewards are from 0 to 1; adjusted ones may leave the range by what was taken out."""
        return self.rule.bounded

    @property
    def remembers(self) -> bool:
        """Does it learn from batch to batch?"""
        return self.pool == "run"

    @property
    def local(self) -> bool:
        """Does a group's reward depend on that group alone?"""
        return self.adjust is None or self.batch_estimate is not None

    def __call__(self, batch: ScoreBatch) -> Fused:
        """The reward of each rollout; `control` of the result says what was taken out."""
        if self.adjust is None or batch.attributes_MD is None or not batch.attributes_MD.shape[1]:
            return apply_rule(self.rule, batch)
        control = control_linearly(self, batch, self._values(batch))
        if isinstance(self.rule, AddsValues):
            return replace(self.rule.fuse_values(batch, control.values_MK), control=control)
        fused = apply_rule(self.rule, batch.with_unit(control.values_MK))
        return replace(fused, batch=batch, control=control)

    def _values(self, batch: ScoreBatch) -> np.ndarray:
        """(M, K): the values that the rule adds up."""
        if isinstance(self.rule, AddsValues):
            return self.rule.values(batch)
        return batch.unit_MK

    def estimate(self, batch: ScoreBatch) -> BatchEstimate:
        """The influence of attributes over a batch, for fusing parts of it one by one; with pool="run" it learns."""
        return estimate_linearly(self, batch, self._values(batch))

    def state(self) -> dict[str, Any]:
        """The state of the rule, if it has one, with what was learnt about attributes beside it."""
        state = self.rule.state() if isinstance(self.rule, Stateful) else {"rule": self.name, "version": 1}
        return {**state, "control": self.running.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state. The state of a run without control leaves the estimate empty."""
        if isinstance(self.rule, Stateful):
            self.rule.restore(state)
        else:
            checks.check_state(self, 1, state)
        if "control" in state:
            self.running.restore(state["control"])
