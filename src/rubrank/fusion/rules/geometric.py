"""Geometric mean (Nash): a score near 0 drags everything down.

    scores 1 and 0.25, equal weights      R = √(1 · 0.25) = 0.5, where the weighted mean is 0.63

    R = exp( Σ w ln(s + ε) / Σ w )          grade A; ε = 1e-3 is ours: how far a score of 0 reaches (1 + ε at most)

Missing: left out, as in the weighted mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rubrank.fusion.result import Fused
from rubrank.fusion.rules import checks
from rubrank.fusion.rules.group_math import fill_unknown, weighted_mean
from rubrank.scores.batch import ScoreBatch


@dataclass(frozen=True)
class Geometric(checks.LocalRule):
    """Weighted geometric mean."""

    name: ClassVar[str] = "geometric"
    bounded: ClassVar[bool] = True

    eps: float = checks.number(1e-3, above=True)

    def __call__(self, batch: ScoreBatch) -> Fused:
        """The geometric mean of each rollout's scores."""
        logs_MK = np.log(np.maximum(batch.unit_MK, 0.0) + self.eps)
        value_M = np.exp(weighted_mean(logs_MK, batch.weights_NK, batch))
        if not batch.complete:  # fill with the mean of means, not of logs
            value_M = fill_unknown(np.where(batch.missing_MK.all(1), np.nan, value_M), batch, 0.5)
        return Fused(batch, self.name, value_M)
