"""DVAO: the weight of a criterion grows with its spread in the group.

    std 0.5 and 0.1, equal weights      shares v = 0.83 and 0.17

    v_k = b_k σ_k / Σ b σ,  A = Σ v_k (s − mean)/(σ_k + ε),  population σ within the group; 0 where Σ b σ ≤ ε
                                                                            grade B; ε = 1e-4 is ours, as in GDPO
b are the weights, divided by their sum.
Missing: not part of mean and σ, and counts as the group's mean: 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rubrank.fusion.result import Fused
from rubrank.fusion.rules import checks
from rubrank.fusion.rules.group_math import centre, expand_rows, normalise_weights, row_sums
from rubrank.scores.batch import ScoreBatch


@dataclass(frozen=True)
class DVAO(checks.LocalRule):
    """Variance-weighted z-scores."""

    name: ClassVar[str] = "dvao"
    bounded: ClassVar[bool] = False

    eps: float = checks.number(1e-4, above=True)

    def __call__(self, batch: ScoreBatch) -> Fused:
        """The advantage of each rollout."""
        around_MK, std_NK, _ = centre(batch.unit_MK, batch, 0)
        weights_NK = self._shares(batch, std_NK)
        value_M = row_sums(around_MK, expand_rows(weights_NK / (std_NK + self.eps), batch))
        return Fused(batch, self.name, value_M, weights_NK)

    def weights(self, batch: ScoreBatch) -> np.ndarray:
        """(N, K): v, which add up to 1; all 0 in a group without any spread."""
        return self._shares(batch, centre(batch.unit_MK, batch, 0).std_NK)

    def _shares(self, batch: ScoreBatch, std_NK: np.ndarray) -> np.ndarray:
        weighted_NK = normalise_weights(batch, batch.weights_NK) * std_NK
        total_N1 = weighted_NK.sum(1, keepdims=True)
        return np.divide(
            weighted_NK, total_N1, out=np.zeros_like(weighted_NK), where=total_N1 > self.eps
        )
