"""Weighted mean ("cardinal"): add up what was scored.

    scores 1, 0.5 with weights 2, 1      R = (2 · 1 + 1 · 0.5) / 3 = 0.83

    R = Σ w s / Σ w          grade A

Missing: the criterion is left out for that rollout, and the weights of the others are divided by their own sum. A
rollout without any score gets the mean of its group; 0.5 where no rollout has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rubrank.fusion.result import Fused
from rubrank.fusion.rules.checks import LocalRule
from rubrank.fusion.rules.group_math import weighted_mean
from rubrank.scores.batch import ScoreBatch


@dataclass(frozen=True)
class WeightedMean(LocalRule):
    """Σ w s / Σ w."""

    name: ClassVar[str] = "weighted-mean"
    bounded: ClassVar[bool] = True

    def __call__(self, batch: ScoreBatch) -> Fused:
        """The mean of each rollout's scores."""
        return Fused(batch, self.name, weighted_mean(batch.unit_MK, batch.weights_NK, batch))
