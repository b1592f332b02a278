"""Rules that rank the rollouts of a group on each criterion, without a model: Borda, Copeland, RLRR."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rubrank.fusion.result import Fused
from rubrank.fusion.rules import checks
from rubrank.fusion.rules.group_math import (
    average_scores,
    count_wins_minus_losses,
    expand_rows,
    mask_weights,
    rank_densely,
    scale_ranks,
    sum_products,
)
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.spread import SPREAD


@dataclass(frozen=True)
class Borda(checks.LocalRule):
    """Borda: count how many rollouts a rollout beats on each criterion.

        scores 1, 0.5, 0.5 on one criterion of weight 2      wins + ½ ties = 2, 0.5, 0.5      R = 4, 1, 1

        R = Σ w (wins + ½ ties)          grade A: ordinal, without a model

    Differences of at most a criterion's margin are ties.
    Missing: a pair that cannot be compared counts ½ for both, so that a missing score neither helps nor hurts.
    """

    name: ClassVar[str] = "borda"
    bounded: ClassVar[bool] = False

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Return the weighted wins of each rollout."""
        return self.fuse_values(batch, self.values(batch))

    def values(self, batch: ScoreBatch) -> np.ndarray:
        """Return wins + ½ ties (M, K)."""
        opponents_M = expand_rows(batch.sizes - 1.0, batch)
        # wins + ½ ties = ½ (opponents + wins − losses)
        return np.asarray(0.5 * (opponents_M[:, None] + count_wins_minus_losses(batch)))

    def fuse_values(self, batch: ScoreBatch, values_MK: np.ndarray) -> Fused:
        """Return the weighted sum of such points, which may have been adjusted for attributes."""
        weights = expand_rows(mask_weights(batch, batch.weights_NK), batch)
        return Fused(batch, self.name, sum_products(values_MK, weights))


@dataclass(frozen=True)
class Copeland(checks.LocalRule):
    """Copeland: on each criterion, does a rollout beat more of the group than beat it?

        scores 1, 0.5, 0.2 on one criterion of weight 2      wins − losses = 2, 0, −2      R = 2, 0, −2

        R = Σ w sign(wins − losses)          grade A: ordinal, without a model

    Differences of at most a criterion's margin are ties. Missing: not compared, 0.
    """

    name: ClassVar[str] = "copeland"
    bounded: ClassVar[bool] = False

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Return the weighted majorities of each rollout."""
        return self.fuse_values(batch, self.values(batch))

    def values(self, batch: ScoreBatch) -> np.ndarray:
        """Return sign(wins − losses) (M, K)."""
        return np.sign(count_wins_minus_losses(batch))

    def fuse_values(self, batch: ScoreBatch, values_MK: np.ndarray) -> Fused:
        """Return the weighted sum of such signs, which may have been adjusted for attributes."""
        return Fused(
            batch, self.name, sum_products(values_MK, expand_rows(batch.weights_NK, batch))
        )


@dataclass(frozen=True)
class RLRR(checks.LocalRule):
    """RLRR: the rank in the group instead of the score.

        weighted means 0.9, 0.4, 0.9, 0.1      dense ranks 1, 2, 1, 3      R = (3 − r)/(3 − 1) = 1, 0.5, 1, 0

        R = (r_max − r)/(r_max − 1), 1 = best; a single rank → 0          grade B
        hybrid:  R = rule + scale · tanh(r_max/r − 1)                       scale 0.1

    In the hybrid form "rule" is the weighted mean of the criteria that a program decides, or of all if there are none.
    `tie`: means that differ by at most this much share a rank, so that rounding errors make no ranks.
    Missing: left out of the mean that is ranked.
    """

    name: ClassVar[str] = "rlrr"

    hybrid: bool = checks.flag(False)
    scale: float = checks.number(0.1)
    tie: float = checks.number(SPREAD)

    @property
    def bounded(self) -> bool:
        """Are the values from 0 to 1? Ranks are; the hybrid form goes beyond 1."""
        return not self.hybrid

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Return the rank of each rollout as a share; in the hybrid form, a mean plus a bonus for the rank."""
        mean_M = average_scores(batch.unit_MK, batch.weights_NK, batch)
        ranks_M = rank_densely(mean_M, batch, self.tie)
        if not self.hybrid:
            value_M = scale_ranks(ranks_M, batch, 0.0)
            return Fused(batch, self.name, value_M, details={"rank": ranks_M})
        is_verified_K = np.array([c.verifier is not None for c in batch.criteria], bool)
        if is_verified_K.any():
            mean_M = average_scores(batch.unit_MK, batch.weights_NK * is_verified_K, batch)
        last_M = expand_rows(np.maximum.reduceat(ranks_M, batch.starts[:-1]), batch)
        value_M = mean_M + self.scale * np.tanh(last_M / ranks_M - 1.0)
        return Fused(batch, self.name, value_M, details={"rank": ranks_M})
