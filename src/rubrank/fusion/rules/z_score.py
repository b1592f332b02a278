"""Weighted sum of z-scores ("normalised cardinal"): every criterion on the scale of its group.

    scores 1, 0, 0, 1 of a group      mean 0.5, std 0.5 → z = 1, −1, −1, 1; times its weight

    R = Σ w (s − mean)/std within the group, ddof 0; std 0 → 0          grade A

`floor`: a std of at most this much (of a domain's width) counts as 0, so that a judge's noise of 1e-6 has no effect.
Missing: not part of mean and std, and counts as the group's mean: z = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rubrank.fusion.result import Fused
from rubrank.fusion.rules import checks
from rubrank.fusion.rules.group_math import expand_rows, row_sums, z_scores
from rubrank.scores.batch import ScoreBatch


@dataclass(frozen=True)
class ZScore(checks.LocalRule):
    """Σ w z."""

    name: ClassVar[str] = "z-score"
    bounded: ClassVar[bool] = False

    floor: float = checks.number(1e-5)

    def __call__(self, batch: ScoreBatch) -> Fused:
        """The weighted sum of each rollout's z-scores."""
        z_MK = z_scores(batch.unit_MK, batch, ddof=0, eps=0.0, floor=self.floor)
        return Fused(batch, self.name, row_sums(z_MK, expand_rows(batch.weights_NK, batch)))
