"""Thurstone (case V): i beats j with probability Φ(u_i − u_j), the normal distribution function.

The normal's tails are thinner than the logistic's, so a surprising result moves the utilities more.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rubrank._jit import jit
from rubrank.fusion.models.newton import maximise

_SQRT_HALF = math.sqrt(0.5)
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_FAR = -5.0  # left of this the distribution function underflows by and by; the continued fraction does not


@jit
def _tail_ratio(x: float) -> float:
    """Φ(x)/φ(x) for x well below 0: Laplace's continued fraction, evaluated from the back."""
    t = -x
    fraction = t
    for k in range(60, 0, -1):
        fraction = t + k / fraction
    return 1.0 / fraction


@jit
def hazard(x: float) -> float:
    """φ(x)/Φ(x), the slope of log Φ."""
    if x < _FAR:
        return 1.0 / _tail_ratio(x)
    return math.exp(-0.5 * x * x - _LOG_SQRT_2PI) / (0.5 * math.erfc(-x * _SQRT_HALF))


@jit
def _probit(x: Any, value: Any, slope: Any, curvature: Any) -> None:
    for i in range(x.shape[0]):
        slope[i] = hazard(x[i])
        density = -0.5 * x[i] * x[i] - _LOG_SQRT_2PI  # its logarithm
        if x[i] < _FAR:
            value[i] = density - math.log(slope[i])
        else:
            value[i] = math.log(0.5 * math.erfc(-x[i] * _SQRT_HALF))
        curvature[i] = -slope[i] * (x[i] + slope[i])


class Thurstone:
    """The probit model."""

    name = "thurstone"
    weighted = True

    def link(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """log Φ(x), φ/Φ, and the second derivative."""
        flat = np.ascontiguousarray(x, dtype=float).ravel()
        value, slope, curvature = np.empty_like(flat), np.empty_like(flat), np.empty_like(flat)
        _probit(flat, value, slope, curvature)
        return value.reshape(x.shape), slope.reshape(x.shape), curvature.reshape(x.shape)

    def fit(self, wins: np.ndarray, ridge: np.ndarray) -> np.ndarray:
        """The maximum, by Newton's method."""
        return maximise(wins, ridge, self.link)
