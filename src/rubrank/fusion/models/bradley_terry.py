"""Bradley–Terry: i beats j with probability σ(u_i − u_j).

    maximise  Σ_ij wins_ij · log σ(u_i − u_j)  −  ½ Σ_i ridge_i · u_i²

The prior is part of the model: without it every ordering in which one rollout wins all comparisons has utilities that
run to infinity. Strictly concave, so there is one maximum, and Σ ridge·u = 0 there.
"""

from __future__ import annotations

import numpy as np

from rubrank.fusion.models.newton import maximise


class BradleyTerry:
    """The logistic model."""

    name = "bradley-terry"
    weighted = True

    def link(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """log σ(x), σ(−x), −σ(x)σ(−x)."""
        small = np.exp(-np.abs(x))  # in (0, 1]: nothing here can overflow
        value = np.minimum(x, 0.0) - np.log1p(small)
        slope = np.where(x > 0.0, small, 1.0) / (1.0 + small)
        return value, slope, -slope * (1.0 - slope)

    def fit(self, wins: np.ndarray, ridge: np.ndarray) -> np.ndarray:
        """The maximum, by Newton's method."""
        return maximise(wins, ridge, self.link)
