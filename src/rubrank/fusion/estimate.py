"""What is known about attributes: coefficients, how sure they are, and what of them is more than chance.

    γ̂ = 0.50, se = 0.10 over 128 groups: t = 1.98, γ̃ = 0.50 · (1 − (1.98 · 0.10 / 0.50)²) = 0.42
    γ̂ = 0.15, se = 0.10: within chance, γ̃ = 0

`models/controlled.py` has the whole method; this is its steps 2 and 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rubrank.fusion.student import point_975

FEWEST_GROUPS = 8
"""With fewer groups nothing is taken out: their spread says too little about the error."""


@dataclass(frozen=True, eq=False)
class InfluenceEstimate:
    """What is known about each attribute's influence on each criterion; K criteria, D attributes."""

    gamma_KD: np.ndarray
    """γ̂; 0 where nothing was fitted."""
    se_KD: np.ndarray
    """Its group-robust standard error; NaN with fewer than two groups."""
    shrunk_KD: np.ndarray
    """γ̃: what of γ̂ is more than chance."""
    n_K: np.ndarray
    """Groups that it comes from; not whole numbers in a running estimate."""
    information_KDD: np.ndarray
    """I: the curvature of the likelihood in γ, with utilities eliminated, before the prior."""
    variance_KDD: np.ndarray
    """V: of the likelihood's slope in γ, over groups."""

    @classmethod
    def of(
        cls, gamma_KD: np.ndarray, information_KDD: np.ndarray, variance_KDD: np.ndarray, n_K: np.ndarray, beta: float
    ) -> InfluenceEstimate:
        """Steps 2 and 3, from the sums over groups."""
        D = gamma_KD.shape[1]
        inverse = np.linalg.inv(information_KDD + beta * np.eye(D))
        told = np.isfinite(variance_KDD).all((1, 2))
        covariance = inverse @ np.where(told[:, None, None], variance_KDD, 0.0) @ inverse
        spread_KD = np.maximum(np.diagonal(covariance, axis1=1, axis2=2), 0.0)
        se_KD = np.where(told[:, None], np.sqrt(spread_KD), np.nan)
        return cls(gamma_KD, se_KD, garrote(gamma_KD, se_KD, n_K), n_K, information_KDD, variance_KDD)


def garrote(gamma_KD: np.ndarray, se_KD: np.ndarray, n_K: np.ndarray) -> np.ndarray:
    """γ̃ = γ̂ · max(0, 1 − (c·se/γ̂)²): the non-negative garrote at the 5% point; 0 with fewer than eight groups."""
    critical = np.array([point_975(float(n) - 1.0) if n >= FEWEST_GROUPS else np.inf for n in n_K])[:, None]
    enough = np.isfinite(critical) & np.isfinite(se_KD)
    bound_KD = np.where(enough, np.where(enough, critical, 0.0) * np.where(enough, se_KD, 0.0), np.inf)
    ratio = np.divide(bound_KD, gamma_KD, out=np.ones_like(gamma_KD), where=np.abs(gamma_KD) > bound_KD)
    return gamma_KD * (1.0 - ratio * ratio) + 0.0  # −0 is 0
