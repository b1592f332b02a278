"""Student's t: how far out a coefficient must lie before chance is a poor explanation.

>>> round(point_975(7), 3), round(point_975(127), 3)
(2.365, 1.979)

Degrees of freedom need not be whole: those of a running estimate are not. SciPy has this too, and is not needed for
anything else here.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, inf, lgamma, log, log1p, pi, sqrt

_NORMAL = 1.959963984540054
_LARGE = 1e9  # degrees of freedom from which the normal's point is right to 1e-9
_TINY = 1e-300
_STEPS = 200


@lru_cache(maxsize=4096)
def point_975(freedom: float) -> float:
    """The 97.5% point for so many degrees of freedom; infinite for none."""
    if not freedom > 0.0:
        return inf
    if freedom > _LARGE:
        return _NORMAL
    t = _first_guess(freedom)
    for _ in range(_STEPS):
        step = (_two_tails(t, freedom) - 0.05) / (2.0 * _density(t, freedom))
        t += max(step, -0.5 * t)  # the tails are convex in t: from below Newton does not overshoot, from above it may
        if abs(step) <= 1e-13 * t:
            break
    return t


def _first_guess(freedom: float) -> float:
    """The point of the normal, or of the heavy tail that few degrees of freedom have; never too far out."""
    log_tail = lgamma(0.5 * (freedom + 1.0)) - lgamma(0.5 * freedom) - 0.5 * log(pi * freedom) - log(0.025)
    heavy = 0.5 * exp(min((log_tail + 0.5 * (freedom - 1.0) * log(freedom)) / freedom, 600.0))
    return max(_NORMAL, heavy) if freedom < 3.0 else _NORMAL


def _density(t: float, freedom: float) -> float:
    log_top = lgamma(0.5 * (freedom + 1.0)) - lgamma(0.5 * freedom)
    return exp(log_top - 0.5 * (freedom + 1.0) * log1p(t * t / freedom)) / sqrt(pi * freedom)


def _two_tails(t: float, freedom: float) -> float:
    """P(|T| > t) = I_x(ν/2, ½) at x = ν/(ν + t²), the regularised incomplete beta function."""
    x, a, b = freedom / (freedom + t * t), 0.5 * freedom, 0.5
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) - a * log1p(t * t / freedom) + b * log(1.0 - x))
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _fraction(x, a, b) / a
    return 1.0 - front * _fraction(1.0 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    c, d = 1.0, 1.0 / _away_from_zero(1.0 - (a + b) * x / (a + 1.0))
    value = d
    for m in range(1, 10 * _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        for term in (even, odd):
            d = 1.0 / _away_from_zero(1.0 + term * d)
            c = _away_from_zero(1.0 + term / c)
            value *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return value


def _away_from_zero(x: float) -> float:
    return x if abs(x) > _TINY else _TINY
