"""The 97.5% point of Student's t: how many standard errors a coefficient must exceed to be significant at 5%.

>>> round(student_t_975(7), 3), round(student_t_975(127), 3)
(2.365, 1.979)

Degrees of freedom need not be whole: those of a running estimate are not. SciPy has this function too, but only the
extras depend on SciPy.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, inf, lgamma, log, log1p, pi, sqrt

_NORMAL = 1.959963984540054  # the 97.5% point of the normal distribution
_LARGE = 1e9  # degrees of freedom from which the normal's point is right to 1e-9
_TINY = 1e-300  # stands for 0 in a denominator
_STEPS = 200


@lru_cache(maxsize=4096)
def student_t_975(freedom: float) -> float:
    """The 97.5% point of the t distribution with so many degrees of freedom; infinite for 0."""
    if not freedom > 0.0:
        return inf
    if freedom > _LARGE:
        return _NORMAL
    log_ratio = lgamma(0.5 * (freedom + 1.0)) - lgamma(0.5 * freedom)
    t = _NORMAL
    if freedom < 3.0:  # start in the heavy tail that few degrees of freedom have
        log_tail = log_ratio - 0.5 * log(pi * freedom) - log(0.025)
        log_start = (log_tail + 0.5 * (freedom - 1.0) * log(freedom)) / freedom
        t = max(t, 0.5 * exp(min(log_start, 600.0)))
    for _ in range(_STEPS):
        log_shape = log_ratio - 0.5 * (freedom + 1.0) * log1p(t * t / freedom)
        density = exp(log_shape) / sqrt(pi * freedom)
        step = (_two_tails(t, freedom) - 0.05) / (2.0 * density)
        # The tails are convex in t: Newton does not overshoot from below, but it may from above.
        t += max(step, -0.5 * t)
        if abs(step) <= 1e-13 * t:
            break
    return t


def _two_tails(t: float, freedom: float) -> float:
    """P(|T| > t) = I_x(ν/2, ½) at x = ν/(ν + t²), the regularised incomplete beta function."""
    x = freedom / (freedom + t * t)
    a = 0.5 * freedom
    b = 0.5
    front = exp(
        lgamma(a + b) - lgamma(a) - lgamma(b) - a * log1p(t * t / freedom) + b * log(1.0 - x)
    )
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _beta_fraction(x, a, b) / a
    return 1.0 - front * _beta_fraction(1.0 - x, b, a) / b


def _beta_fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    c = 1.0
    d = 1.0 / _avoid_zero(1.0 - (a + b) * x / (a + 1.0))
    value = d
    for m in range(1, 10 * _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        for term in (even, odd):
            d = 1.0 / _avoid_zero(1.0 + term * d)
            c = _avoid_zero(1.0 + term / c)
            value *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return value


def _avoid_zero(x: float) -> float:
    return x if abs(x) > _TINY else _TINY
