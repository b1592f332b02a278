"""GDPO: normalise every criterion within its group, add up, normalise over the batch.

    one pass in eight      z = +2.47 for the one that passed, −0.35 for the others: a rare pass counts much
    two criteria of equal weight whose scores add up to the same for all: their z-scores cancel, and nothing is learnt

    z[i,k] = (s − mean_G)/(std_G + ε)    mean and std over the group's scores on criterion k, ddof 1; std 0 → z = 0
    A[i]   = Σ_k w z[i,k]                "pre_norm" in the details
    R[i]   = (A − mean_B)/(std_B + ε)    over all rollouts of the batch, ddof 1

s is the score scaled from 0 to 1 by its domain (GDPO's own code takes scores as they come), w the weight of its
criterion, R the value of the rollout. The formulas are of grade A: they follow official code or text (docs/rules.md
explains the grades).

`eps`, the ε = 1e-4 of the formulas, is part of the method: it dampens a criterion whose std is near it.
`floor`: a std of at most this much counts as 0. Without it, the last line would blow up a batch that holds only
rounding errors.
`conditions`: (easy, hard, t): the easy criterion counts only where the hard one has at least t of its domain, else it
is 0; where the hard one is missing, so is the easy one.
`batch_norm=False` stops at the second line, and makes the rule local to each group.
Missing: not part of mean and std, and counts as the group's mean: 0. A rollout without any score is left out of the
last line's mean and std, and gets 0.

A batch has two forms of s. `unit_MK` is what a rule adds up; attribute control may have taken the influence of length
and the like out of it before the rule is called. `scored_unit_MK` is never adjusted. Thresholds read the latter: a
small adjustment must not decide whether a condition is met. (Rules that add up numbers of their own, such as Borda,
are split into `compute_values` and `fuse_values` instead; see ranks.py.)

Letters at the end of a name are the axes of an array: M rollouts of the batch, N groups, K criteria.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from rubrank.errors import UnknownName
from rubrank.fusion.result import Fused
from rubrank.fusion.rule import CheckedRule, flag_field, number_field
from rubrank.fusion.rules.group_math import compute_z_scores, expand_rows, sum_products
from rubrank.scores.batch import ScoreBatch

Conditions = tuple[tuple[str, str, float], ...]
"""(name of the easy criterion, name of the hard criterion, threshold from 0 to 1) each."""


def check_conditions(rule: Any, value: Any) -> str | None:
    """Return what is allowed, unless every condition is (easy criterion, hard criterion, threshold)."""
    for condition in value:
        is_triple = isinstance(condition, tuple) and len(condition) == 3
        if not is_triple or not isinstance(condition[2], int | float):
            return "(easy criterion, hard criterion, threshold) each"
    return None


@dataclass(frozen=True)
class GDPO(CheckedRule):
    """GDPO, group reward-decoupled normalisation: the constants are explained above."""

    name: ClassVar[str] = "gdpo"
    bounded: ClassVar[bool] = False

    # above=True: 0 is not allowed, as the last line of the formula divides by eps if all rollouts are equal.
    eps: float = number_field(1e-4, above=True)
    floor: float = number_field(1e-5)
    batch_norm: bool = flag_field(True)
    conditions: Conditions = field(default=(), metadata={"check": check_conditions})

    @property
    def local(self) -> bool:
        """Does a group's value depend on that group alone? Only without the normalisation over the batch."""
        return not self.batch_norm

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Return the advantage of each rollout."""
        batch = apply_conditions(self.name, self.conditions, batch)
        pre_norm_M = sum_z_scores(batch, batch.weights_NK, self.eps, self.floor)
        value_M = pre_norm_M
        if self.batch_norm:
            value_M = normalise_batch(pre_norm_M, batch, self.eps)
        return Fused(batch, self.name, value_M, details={"pre_norm": pre_norm_M})


def sum_z_scores(batch: ScoreBatch, weights_NK: np.ndarray, eps: float, floor: float) -> np.ndarray:
    """Return Σ w (s − mean)/(std + eps) of each rollout (M,), with mean and std of its group, ddof 1."""
    z_MK = compute_z_scores(batch.unit_MK, batch, ddof=1, eps=eps, floor=floor)
    return sum_products(z_MK, expand_rows(weights_NK, batch))


def normalise_batch(values_M: np.ndarray, batch: ScoreBatch, eps: float) -> np.ndarray:
    """Return (A − mean)/(std + eps) (M,) with mean and std of the batch, ddof 1.

    It is 0 for a rollout without scores, and for a batch of one rollout.
    """
    has_score_M = ~batch.missing_MK.all(1)
    values = values_M[has_score_M]
    result_M = np.zeros_like(values_M)
    if len(values) > 1:
        deviations = values - values.mean()
        std = np.sqrt(deviations @ deviations / (len(values) - 1))
        result_M[has_score_M] = deviations / (std + eps)
    return result_M


def apply_conditions(owner: str, conditions: Conditions, batch: ScoreBatch) -> ScoreBatch:
    """Return the batch with easy criteria set to 0 where their hard criterion is not met.

    owner: the name of the rule, for errors. Raises UnknownName for a criterion that the batch does not have.
    """
    if not conditions:
        return batch
    unit_MK = batch.unit_MK.copy()
    unadjusted_MK = batch.scored_unit_MK
    for easy, hard, threshold in conditions:
        for name in (easy, hard):
            if name not in batch.names:
                raise UnknownName.of(owner, "conditions", name, batch.names)
        k = batch.names.index(easy)
        easy_M = unadjusted_MK[:, k]
        hard_M = unadjusted_MK[:, batch.names.index(hard)]
        unit_MK[hard_M < threshold, k] = 0.0
        # A missing easy score stays missing, also where the line above has set it to 0.
        unit_MK[np.isnan(hard_M) | np.isnan(easy_M), k] = np.nan
    return batch.replace_unit_scores(unit_MK)
