"""The linear stage of attribute control: scores → scores without the influence of attributes.

Every rule is controlled in this way except the ordinal fit of RLVR², which has `models/attribute_fit.py`.

    lengths 100, 300 of two rollouts      z = −0.25, +0.25      (mean contrast with the group, itself included)
    γ̃ = 0.4 on Clarity, scores 0.6, 0.8   δz = −0.1, +0.1       x' = 0.7, 0.7: length explained the difference

For criterion k, over the groups g in which it tells rollouts apart (docs/method.md, "Control before any rule"; E is
the identity matrix):

    z_i = mean_j (a_i − a_j)/(a_i + a_j)      A = Σ_g z'z      b = Σ_g z'x      γ̂ = (A + 0.05 E)⁻¹ b
    s_g = z'(x − zγ̂)                          V = Σ_g s_g s_g'  se from (A + 0.05 E)⁻¹ V (A + 0.05 E)⁻¹
    γ̃ = γ̂ · max(0, 1 − (c·se/γ̂)²)             δ = γ̃, or λ · max(0, γ̃)                 x' = x − δz

With pool="run" A, b and V are the decaying sums of `RunningEstimate`, and c = 1: if one step takes out too much,
later steps correct it. With pool="batch" there is no next step, and c is the 97.5% point of Student's t.
A group in which a criterion ties all rollouts is left as it is: a tie shows no bias.

`Controlled` is the stage as a part of a rule; graded wins of RLVR² call `control_linearly` themselves:

    rule = Gated(Controlled(find_rule("weighted-mean"), adjust=attenuate(1.0), pool="run"))

It adjusts what the rule adds up: the scores on the scale from 0 to 1, or the numbers that the rule makes of them
(Borda's points, run quantiles; `AddsValues` in rule.py). The rule and the gate come after it. Adjusted scores may leave
[0, 1] by what was taken out.

Letters at the end of a name are the axes of an array: M rollouts, N groups, K criteria, D attributes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rubrank._choices import Pool
from rubrank.errors import InvalidInput
from rubrank.fusion.control.adjustment import (
    Adjustment,
    choose_taken,
    name_columns,
    select_criteria,
)
from rubrank.fusion.control.estimate import BatchEstimate, RunningEstimate
from rubrank.fusion.result import AttributeControl, Fused
from rubrank.fusion.rule import AddsValues, Rule, Stateful, apply_rule, check_state
from rubrank.scores.batch import ScoreBatch

if TYPE_CHECKING:
    from rubrank.fusion.rlvr2 import RLVR2

RIDGE = 0.05
"""Precision of the prior on γ, in units of Σz²: a group of eight whose lengths vary by half has about 0.5."""
ERRORS_OF_RUN = 1.0
"""c of the formula with pool="run": how many standard errors γ̂ is shrunk by."""


def control_linearly(
    rule: RLVR2 | Controlled, batch: ScoreBatch, values_MK: np.ndarray
) -> AttributeControl:
    """Take the influence of attributes out of a rule's values (M, K), which are not changed themselves."""
    batch_estimate = rule.batch_estimate or estimate_linearly(rule, batch, values_MK)
    influence = batch_estimate.select(name_columns(batch)[0])
    contrasts_MD = measure_contrasts(batch)
    controlled_NK, controlled_MK = _find_controlled(rule, batch, values_MK)
    taken_NKD = choose_taken(rule, batch, influence.shrunk_KD, controlled_NK)
    removed_MK = np.zeros(values_MK.shape)
    for d in np.flatnonzero(taken_NKD.any((0, 1))):
        removed_MK += taken_NKD[batch.group_of_row, :, d] * contrasts_MD[:, d : d + 1]
    adjusted_MK = np.where(controlled_MK, values_MK - removed_MK, values_MK)
    return influence.describe(rule.pool, adjusted_MK, taken_NKD, contrasts_MD)


def estimate_linearly(
    rule: RLVR2 | Controlled, batch: ScoreBatch, values_MK: np.ndarray
) -> BatchEstimate:
    """Estimate the influence of attributes over the batch, or over the run so far with this batch as its last step."""
    criteria, attributes = name_columns(batch)
    contrasts_MD = measure_contrasts(batch)
    _, controlled_MK = _find_controlled(rule, batch, values_MK)
    running = rule.running if rule.pool == "run" else RunningEstimate()
    running.set_attributes(attributes)
    for k in np.flatnonzero(controlled_MK.any(0)).tolist():
        rows = np.flatnonzero(controlled_MK[:, k])
        group_of_row = batch.group_of_row[rows]
        starts = np.flatnonzero(np.diff(group_of_row, prepend=-1))
        # Rows with missing scores are left out, so the rest must be centred again, contrasts as well.
        x = _subtract_group_means(values_MK[rows, k : k + 1], starts)[:, 0]
        z = _subtract_group_means(contrasts_MD[rows], starts)
        sums = running.decay_sums(criteria[k])
        sums.information_DD += z.T @ z
        sums.rhs_D += z.T @ x
        sums.n += len(starts)
        gamma_D = np.linalg.solve(sums.information_DD + RIDGE * np.eye(len(attributes)), sums.rhs_D)
        # s_g of the formula, a row per group
        scores_ND = np.add.reduceat(z * (x - z @ gamma_D)[:, None], starts)
        sums.variance_DD += scores_ND.T @ scores_ND
    # c of the formula; None stands for the 97.5% point of Student's t.
    threshold_in_errors = ERRORS_OF_RUN if rule.pool == "run" else None
    influence = running.estimate(criteria, RIDGE, threshold_in_errors)
    return BatchEstimate(np.ones(len(attributes)), tuple(criteria), influence)


def _find_controlled(
    rule: RLVR2 | Controlled, batch: ScoreBatch, values_MK: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Find what is controlled.

    Returns (N, K): is the criterion controlled, and does it tell rollouts of the group apart? And (M, K): is the value
    one of such a criterion, and known?
    """
    is_known_MK = ~batch.missing_MK
    differs_NK = np.zeros((0, batch.K), bool)
    if batch.N:
        starts = batch.starts[:-1]
        highest_NK = np.maximum.reduceat(np.where(is_known_MK, values_MK, -np.inf), starts)
        lowest_NK = np.minimum.reduceat(np.where(is_known_MK, values_MK, np.inf), starts)
        differs_NK = np.asarray(highest_NK > lowest_NK)
    controlled_NK = differs_NK & select_criteria(rule.adjust_criteria, batch)
    return controlled_NK, controlled_NK[batch.group_of_row] & is_known_MK


def check_pool(rule: RLVR2 | Controlled) -> None:
    """Raise InvalidInput for pool="group", which only the ordinal fit has."""
    if rule.pool == "group":
        raise InvalidInput(
            rule.name,
            "pool",
            allowed="'run' or 'batch': one group does not tell bias from quality",
            got="'group'",
            remedy="Only the ordinal fit of rlvr2 has it, as in the paper.",
        )


def measure_contrasts(batch: ScoreBatch) -> np.ndarray:
    """Return z (M, D): how much more of each attribute a rollout has than its group, from −1 to 1."""
    # Imported here: it loads numba, which `import rubrank` should not.
    from rubrank.fusion.models import likelihood

    assert batch.attributes_MD is not None
    attributes_MD = np.array(batch.attributes_MD, dtype=float, order="C")
    contrasts_MD = np.empty(attributes_MD.shape)
    likelihood.average_contrasts(
        attributes_MD, np.ones(attributes_MD.shape[1]), batch.starts, contrasts_MD
    )
    return contrasts_MD


def _subtract_group_means(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Subtract the mean of its group from each row; group g is rows starts[g] up to the next start."""
    counts = np.diff(starts, append=len(values))
    means = np.add.reduceat(values, starts) / counts[:, None]
    return np.asarray(values - np.repeat(means, counts, axis=0))


# ------------------------------------------------------------------------------------------------- the stage of a rule


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
            raise InvalidInput(
                self.rule.name, "rule", allowed=allowed, got=repr(self.rule.name), remedy=remedy
            )
        check_pool(self)

    @property
    def name(self) -> str:
        """The name of the rule without the stage."""
        return self.rule.name

    @property
    def bounded(self) -> bool:
        """Are the rule's values from 0 to 1? Adjusted ones may leave the range by what was taken out."""
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
        """Return the reward of each rollout; `control` of the result says what was taken out."""
        if self.adjust is None or batch.attributes_MD is None or not batch.attributes_MD.shape[1]:
            return apply_rule(self.rule, batch)
        control = control_linearly(self, batch, self._read_values(batch))
        if isinstance(self.rule, AddsValues):
            return replace(self.rule.fuse_values(batch, control.values_MK), control=control)
        fused = apply_rule(self.rule, batch.replace_unit_scores(control.values_MK))
        return replace(fused, batch=batch, control=control)

    def _read_values(self, batch: ScoreBatch) -> np.ndarray:
        """Return the values (M, K) that the rule adds up."""
        if isinstance(self.rule, AddsValues):
            return self.rule.compute_values(batch)
        return batch.unit_MK

    def estimate(self, batch: ScoreBatch) -> BatchEstimate:
        """Estimate the influence of attributes over a batch, for fusing parts of it one by one.

        With pool="run" the rule learns from the batch.
        """
        return estimate_linearly(self, batch, self._read_values(batch))

    def state(self) -> dict[str, Any]:
        """Return the state of the rule, if it has one, with what was learnt about attributes beside it."""
        state: dict[str, Any] = {"rule": self.name, "version": 1}
        if isinstance(self.rule, Stateful):
            state = self.rule.state()
        return {**state, "control": self.running.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state. The state of a run without control leaves the estimate empty."""
        if isinstance(self.rule, Stateful):
            self.rule.restore(state)
        else:
            check_state(self, 1, state)
        if "control" in state:
            self.running.restore(state["control"])
