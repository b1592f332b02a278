"""Lexicographic: a tier decides only between rollouts that tie on all tiers before it.

    tier 1: 1, 1, 0, 1      tier 2: 0.2, 0.9, 1, 0.9
    order: second and fourth, then first, then third      R = 0.5, 1, 0, 1

Rollouts are compared by the weighted mean of tier 1 (the smallest number), ties by that of tier 2, and so on; R is the
dense rank as a share from 0 (worst) to 1 (best), 0.5 for all where nothing tells them apart. Ours.

Criteria without a tier come last. `tie`: means that differ by at most this much are equal.
Missing: left out of its tier's mean; a rollout without any score in a tier has the group's mean there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rubrank.fusion.result import Fused
from rubrank.fusion.rules import checks
from rubrank.fusion.rules.group_math import dense_ranks, mask_weights, rank_shares, weighted_mean
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.spread import SPREAD

_EXACT = 2.0**52  # integers beyond it are not all doubles


@dataclass(frozen=True)
class Lexicographic(checks.LocalRule):
    """Tiers, one after the other."""

    name: ClassVar[str] = "lexicographic"
    bounded: ClassVar[bool] = True

    tie: float = checks.number(SPREAD)

    def __call__(self, batch: ScoreBatch) -> Fused:
        """The place of each rollout."""
        tiers_NK = batch.read(lambda c: np.inf if c.tier is None else float(c.tier))
        base = batch.sizes.max(initial=0) + 1.0
        places_M = np.zeros(len(batch.unit_MK))
        largest = 1.0
        for tier in np.unique(tiers_NK):
            weights_NK = mask_weights(batch, batch.weights_NK) * (tiers_NK == tier)
            place_M = dense_ranks(weighted_mean(batch.unit_MK, weights_NK, batch), batch, self.tie)
            if (
                largest * base > _EXACT
            ):  # replace places by their ranks, which are small numbers in the same order
                places_M = dense_ranks(-places_M, batch, 0.0).astype(float)
                largest = base
            # Like digits of a number: earlier tiers decide, and this tier breaks their ties.
            places_M = places_M * base + place_M
            largest *= base
        ranks_M = dense_ranks(-places_M, batch, 0.0)
        return Fused(batch, self.name, rank_shares(ranks_M, batch, 0.5), details={"rank": ranks_M})
