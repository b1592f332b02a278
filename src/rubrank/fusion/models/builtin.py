"""The three utility models of the library: Bradley–Terry, Thurstone and Borda.

Bradley–Terry and Thurstone say with which probability i beats j, and maximise

    Σ_ij wins_ij · log F(u_i − u_j)  −  ½ Σ_i ridge_i · u_i²

The prior is part of the model: without it, a rollout that wins all comparisons would have an infinite utility. The
objective is strictly concave, so there is exactly one maximum.
"""

from __future__ import annotations

import numpy as np

from rubrank.fusion.models.newton import maximise


class BradleyTerry:
    """i beats j with probability σ(u_i − u_j), the logistic function."""

    name = "bradley-terry"
    weighted = True

    def link(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """log σ(x), and its first and second derivative."""
        small = np.exp(-np.abs(x))  # in (0, 1]: nothing here can overflow
        value = np.minimum(x, 0.0) - np.log1p(small)
        slope = np.where(x > 0.0, small, 1.0) / (1.0 + small)
        return value, slope, -slope * (1.0 - slope)

    def fit(self, wins: np.ndarray, ridge: np.ndarray) -> np.ndarray:
        """The maximum, by Newton's method."""
        return maximise(wins, ridge, self.link)


class Thurstone:
    """i beats j with probability Φ(u_i − u_j), the normal distribution function (Thurstone's case V).

    The tails of the normal are thinner than those of the logistic, so a surprising result moves utilities further.
    """

    name = "thurstone"
    weighted = True

    def link(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """log Φ(x), and its first and second derivative."""
        # Imported here, because it loads numba, which takes half a second.
        from rubrank.fusion.models.likelihood import probit

        flat = np.ascontiguousarray(x, dtype=float).ravel()
        value = np.empty_like(flat)
        slope = np.empty_like(flat)
        curvature = np.empty_like(flat)
        probit(flat, value, slope, curvature)
        return value.reshape(x.shape), slope.reshape(x.shape), curvature.reshape(x.shape)

    def fit(self, wins: np.ndarray, ridge: np.ndarray) -> np.ndarray:
        """The maximum, by Newton's method."""
        return maximise(wins, ridge, self.link)


class BordaCount:
    """Half of wins minus losses, divided by the prior's precision; no probability model.

    Bradley–Terry becomes this as its prior grows strong.
    """

    name = "borda"
    weighted = True

    def fit(self, wins: np.ndarray, ridge: np.ndarray) -> np.ndarray:
        """u_i = (wins_i − losses_i) / (2 · ridge_i)."""
        return (wins.sum(-1) - wins.sum(-2)) / (2.0 * ridge)
