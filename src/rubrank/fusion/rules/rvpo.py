"""RVPO: a soft minimum over criteria, so that strength in one does not pay for weakness in another.

    z = +1 and −1, κ = 1      −ln((e^{−1} + e^{1})/2) = −0.43: below their mean 0, above their minimum −1

    R = −(1/κ) ln( Σ_k b_k e^{−κ z_k} ) on GDPO's z-scores          grade B

b are the weights divided by their sum: equal weights give the mean over criteria. κ = 0 is the mean, κ = ∞ the minimum;
the default κ = 1 is ours. `eps` and `floor` as in GDPO.
Missing: counts as the group's mean, z = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rubrank.fusion.result import Fused
from rubrank.fusion.rules import checks
from rubrank.fusion.rules.group_math import expand_rows, normalise_weights, row_sums, z_scores
from rubrank.scores.batch import ScoreBatch


@dataclass(frozen=True)
class RVPO(checks.LocalRule):
    """Soft minimum of z-scores."""

    name: ClassVar[str] = "rvpo"
    bounded: ClassVar[bool] = False

    kappa: float = checks.number(1.0)
    eps: float = checks.number(1e-4, above=True)
    floor: float = checks.number(1e-5)

    def __call__(self, batch: ScoreBatch) -> Fused:
        """The soft minimum of each rollout."""
        z_MK = z_scores(batch.unit_MK, batch, ddof=1, eps=self.eps, floor=self.floor)
        share = expand_rows(normalise_weights(batch, batch.weights_NK), batch)
        return Fused(batch, self.name, self._soft_minimum(z_MK, share))

    def _soft_minimum(self, z_MK: np.ndarray, share: np.ndarray) -> np.ndarray:
        if self.kappa == 0.0:
            return row_sums(z_MK, share)
        lowest = np.where(share > 0.0, z_MK, np.inf).min(1, initial=np.inf)
        lowest = np.where(np.isinf(lowest), 0.0, lowest)  # a group without any score
        if np.isinf(self.kappa):
            return lowest
        # Relative to the lowest, no exponent is above 0; expm1 and log1p stay exact for κ → 0.
        beyond = row_sums(np.expm1(-self.kappa * np.maximum(z_MK - lowest[:, None], 0.0)), share)
        return np.asarray(lowest - np.log1p(beyond) / self.kappa)
