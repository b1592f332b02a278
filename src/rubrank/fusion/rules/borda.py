"""Borda: count how many rollouts a rollout beats on each criterion.

    scores 1, 0.5, 0.5 on one criterion of weight 2      wins + ½ ties = 2, 0.5, 0.5      R = 4, 1, 1

    R = Σ w (wins + ½ ties)          grade A: ordinal, without a model

Differences of at most a criterion's margin are ties.
Missing: a pair that cannot be compared counts ½ for both, so that a missing score neither helps nor hurts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rubrank.fusion.result import Fused
from rubrank.fusion.rules.checks import LocalRule
from rubrank.fusion.rules.group_math import expand_rows, mask_weights, row_sums, wins_minus_losses
from rubrank.scores.batch import ScoreBatch


@dataclass(frozen=True)
class Borda(LocalRule):
    """Σ w (wins + ½ ties)."""

    name: ClassVar[str] = "borda"
    bounded: ClassVar[bool] = False

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Wins of each rollout."""
        return self.fuse_values(batch, self.values(batch))

    def values(self, batch: ScoreBatch) -> np.ndarray:
        """(M, K): wins + ½ ties."""
        opponents_M = expand_rows(batch.sizes - 1.0, batch)
        # wins + ½ ties = ½ (opponents + wins − losses)
        return np.asarray(0.5 * (opponents_M[:, None] + wins_minus_losses(batch)))

    def fuse_values(self, batch: ScoreBatch, values_MK: np.ndarray) -> Fused:
        """The weighted sum of such points."""
        weights = expand_rows(mask_weights(batch, batch.weights_NK), batch)
        return Fused(batch, self.name, row_sums(values_MK, weights))
