"""Mean minus variance: even strength is worth more than a mix of highs and lows.

    scores 1, 0 (equal weights)      mean 0.5, variance 0.25      R = 0.5 − 1 · 0.25 = 0.25

    R = mean − λ var over the criteria, both weighted          grade A; λ = 1 is ours

Missing: left out of both. A rollout without any score gets its group's mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rubrank.fusion.result import Fused
from rubrank.fusion.rules import checks
from rubrank.fusion.rules.group_math import weighted_mean
from rubrank.scores.batch import ScoreBatch


@dataclass(frozen=True)
class MeanVariance(checks.LocalRule):
    """mean − λ var."""

    name: ClassVar[str] = "mean-variance"
    bounded: ClassVar[bool] = False

    lam: float = checks.number(1.0)

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Mean minus variance of each rollout's scores."""
        mean_M = weighted_mean(batch.unit_MK, batch.weights_NK, batch)
        around_MK = batch.unit_MK - mean_M[:, None]
        variance_M = weighted_mean(around_MK * around_MK, batch.weights_NK, batch, empty=0.0)
        return Fused(batch, self.name, mean_M - self.lam * variance_M)
