"""Focal: less weight for the criteria that the group's best rollouts already meet.

    two criteria, equal weights; every rollout meets the first, half of them the second
    pace 1 and 0.62      f ∝ (0.05)³ and (0.43)³      nearly all weight goes to the second

    d_i = Σ b s,  π = softmax(d/T) within the group,  pace_k = Σ_i π_i s_ki, clipped to [0, 1]
    f_k ∝ b_k (1 − pace_k + ε)^γ,  R = Σ f s                                        grade B−: a reconstruction in part

b and f add up to 1. T = 1, γ = 3, ε = 0.05 are for scores from 0 to 1. γ = 0 is the weighted mean. Where all is
saturated and ε = 0, f = b.
Missing: left out of d, of pace (π of the others adds up to 1) and of R, weights divided by their sum. A rollout without
any score gets its group's mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rubrank.fusion.result import Fused
from rubrank.fusion.rules import checks
from rubrank.fusion.rules.group_math import (
    expand_rows,
    normalise_weights,
    sum_groups,
    weighted_mean,
    zero_missing,
)
from rubrank.scores.batch import ScoreBatch


@dataclass(frozen=True)
class Focal(checks.LocalRule):
    """A weighted mean with less weight for solved criteria."""

    name: ClassVar[str] = "focal"
    bounded: ClassVar[bool] = True

    temperature: float = checks.number(1.0, above=True)
    gamma: float = checks.number(3.0)
    eps: float = checks.number(0.05)

    def __call__(self, batch: ScoreBatch) -> Fused:
        """The re-weighted mean of each rollout's scores."""
        pace_NK = self.pace(batch)
        weights_NK = self._focus(batch, pace_NK)
        value_M = weighted_mean(batch.unit_MK, weights_NK, batch)
        return Fused(batch, self.name, value_M, weights_NK, {"pace": pace_NK})

    def weights(self, batch: ScoreBatch) -> np.ndarray:
        """(N, K): f."""
        return self._focus(batch, self.pace(batch))

    def pace(self, batch: ScoreBatch) -> np.ndarray:
        """(N, K): mean score of each criterion, in which better rollouts count more; 0 if no rollout has a score."""
        unit_MK = batch.unit_MK
        score_M = weighted_mean(unit_MK, batch.weights_NK, batch)
        # Relative to the best of the group, so that no exponent is above 0.
        score_M = score_M - expand_rows(np.maximum.reduceat(score_M, batch.starts[:-1]), batch)
        odds_M1 = np.exp(score_M / self.temperature)[:, None]
        total = sum_groups(odds_M1, batch)
        if not batch.complete:
            total = sum_groups(np.where(batch.missing_MK, 0.0, odds_M1), batch)
        pace = np.divide(
            sum_groups(zero_missing(unit_MK * odds_M1, batch), batch),
            total,
            out=np.zeros((batch.N, batch.K)),
            where=total > 0.0,
        )
        return np.clip(pace, 0.0, 1.0, out=pace)

    def _focus(self, batch: ScoreBatch, pace_NK: np.ndarray) -> np.ndarray:
        base = normalise_weights(batch, batch.weights_NK)
        focus = base * (1.0 - pace_NK + self.eps) ** self.gamma
        total = focus.sum(1, keepdims=True)
        return np.where(total > 0.0, focus / np.where(total > 0.0, total, 1.0), base)
