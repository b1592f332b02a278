"""Copeland: on each criterion, does a rollout beat more of the group than beat it?

    scores 1, 0.5, 0.2 on one criterion of weight 2      wins − losses = 2, 0, −2      R = 2, 0, −2

    R = Σ w sign(wins − losses)          grade A: ordinal, without a model

Differences of at most a criterion's margin are ties. Missing: not compared, 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rubrank.fusion.result import Fused
from rubrank.fusion.rules.checks import LocalRule
from rubrank.fusion.rules.group_math import expand_rows, row_sums, wins_minus_losses
from rubrank.scores.batch import ScoreBatch


@dataclass(frozen=True)
class Copeland(LocalRule):
    """Σ w sign(wins − losses)."""

    name: ClassVar[str] = "copeland"
    bounded: ClassVar[bool] = False

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Majorities of each rollout."""
        return self.fuse_values(batch, self.values(batch))

    def values(self, batch: ScoreBatch) -> np.ndarray:
        """(M, K): sign(wins − losses)."""
        return np.sign(wins_minus_losses(batch))

    def fuse_values(self, batch: ScoreBatch, values_MK: np.ndarray) -> Fused:
        """The weighted sum of such signs."""
        return Fused(batch, self.name, row_sums(values_MK, expand_rows(batch.weights_NK, batch)))
