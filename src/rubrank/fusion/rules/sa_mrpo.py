"""SA-MRPO: GDPO with less weight for what the whole batch does well already.

    batch means 0.9 and 0.2, equal weights, γ = 1      weights 0.1 and 0.8

    w̃_k = w_k (1 − m_k)^γ,  m_k = mean of s_k over the batch;  then GDPO with w̃          grade A

γ = 0 is GDPO. The default γ = 1 is ours. Where all criteria are saturated no rollouts are told apart: 0 for all.
Other parameters and missing scores as in GDPO; m_k is the mean of the scores that are there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from rubrank.fusion.result import Fused
from rubrank.fusion.rules import checks
from rubrank.fusion.rules.gdpo import (
    Conditions,
    apply_conditions,
    check_conditions,
    normalise_batch,
    sum_z_scores,
)
from rubrank.fusion.rules.group_math import zero_missing
from rubrank.scores.batch import ScoreBatch


@dataclass(frozen=True)
class SAMRPO(checks.CheckedRule):
    """GDPO with saturation-aware weights."""

    name: ClassVar[str] = "sa-mrpo"
    bounded: ClassVar[bool] = False

    gamma: float = checks.number(1.0)
    eps: float = checks.number(1e-4, above=True)
    floor: float = checks.number(1e-5)
    batch_norm: bool = checks.flag(True)
    conditions: Conditions = field(default=(), metadata={"check": check_conditions})

    def __call__(self, batch: ScoreBatch) -> Fused:
        """The advantage of each rollout."""
        batch = apply_conditions(self.name, self.conditions, batch)
        weights_NK = self.weights(batch)
        pre_norm_M = sum_z_scores(batch, weights_NK, self.eps, self.floor)
        value_M = normalise_batch(pre_norm_M, batch, self.eps) if self.batch_norm else pre_norm_M
        return Fused(batch, self.name, value_M, weights_NK, {"pre_norm": pre_norm_M})

    def weights(self, batch: ScoreBatch) -> np.ndarray:
        """w (1 − m)^γ."""
        headroom = np.clip(1.0 - batch_means(batch), 0.0, 1.0)
        return batch.weights_NK * headroom**self.gamma


def batch_means(batch: ScoreBatch) -> np.ndarray:
    """(K,): mean score of each criterion over the batch; 0 where no rollout has one."""
    if batch.complete:
        return np.asarray(batch.unit_MK.mean(0)) if len(batch.unit_MK) else np.zeros(batch.K)
    count = (~batch.missing_MK).sum(0)
    return np.asarray(zero_missing(batch.unit_MK, batch).sum(0) / np.maximum(count, 1))
