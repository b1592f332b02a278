"""RaR explicit: weights from category words such as "Essential".

    Essential met, Important not, Pitfall avoided      R = (1.0 + 0 + 0.9) / (1.0 + 0.7 + 0.9) = 0.73

    R = Σ w c / Σ w,  w = 1.0 Essential, 0.7 Important, 0.3 Optional, 0.9 Pitfall          grade B

The words are the criteria's categories, in any case; a criterion of another category, or none, has its own weight. A
pitfall counts as met where it was avoided.
Missing: left out, as in the weighted mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rubrank.fusion.result import Fused
from rubrank.fusion.rules import checks
from rubrank.fusion.rules.group_math import weighted_mean
from rubrank.scores.batch import ScoreBatch


@dataclass(frozen=True)
class RarExplicit(checks.LocalRule):
    """Weighted mean by category."""

    name: ClassVar[str] = "rar-explicit"
    bounded: ClassVar[bool] = True

    essential: float = checks.number(1.0, above=True)
    important: float = checks.number(0.7, above=True)
    optional: float = checks.number(0.3, above=True)
    pitfall: float = checks.number(0.9, above=True)

    def __call__(self, batch: ScoreBatch) -> Fused:
        """The mean of each rollout's scores by the weights of their categories."""
        weights_NK = self.category_weights(batch)
        value_M = weighted_mean(batch.unit_MK, weights_NK, batch)
        return Fused(batch, self.name, value_M, weights_NK)

    def category_weights(self, batch: ScoreBatch) -> np.ndarray:
        """(N, K) or (1, K)."""
        weight_of = {
            "essential": self.essential,
            "important": self.important,
            "optional": self.optional,
            "pitfall": self.pitfall,
        }
        category_NK = batch.read(
            lambda c: weight_of.get((c.category or "").strip().lower(), np.nan)
        )
        return np.where(np.isnan(category_NK), batch.weights_NK, category_NK)
