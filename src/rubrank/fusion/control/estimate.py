"""Estimates of the influence of attributes: coefficients, their standard errors, and their shrunk values.

    γ̂ = 0.50, se = 0.10 over 128 groups: t = 1.98, γ̃ = 0.50 · (1 − (1.98 · 0.10 / 0.50)²) = 0.42
    γ̂ = 0.15, se = 0.10: chance explains it, γ̃ = 0

`models/attribute_fit.py` has the whole method; steps 2 and 3 are here. `RunningEstimate` is the same over a training
run, as a moving sum over its steps (ρ = 0.9: about ten of them):

    A ← ρA + I      b ← ρb + (I + βE)γ̂_t      V ← ρ²V + V_t      n ← ρn + n_t
    γ̂ = (A + βE)⁻¹ b

E is the identity matrix. The standard error of γ̂ is computed as for a single step, with A in place of I and V in place
of V_t.

One step has few groups. Ten steps have ten times as many, and the judge has the same bias in all of them.
`control/linear.py` keeps the sums of its own estimate in the same class.

Letters at the end of a name are the axes of an array: K criteria, D attributes; M rollouts, N groups.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from math import atan, cos, exp, inf, lgamma, log, pi, sqrt, tan
from typing import Any

import numpy as np

from rubrank.fusion.result import AttributeControl

FEWEST_GROUPS = 8
"""With fewer groups nothing is taken out: their spread says too little about the error."""
DECAY = 0.9
"""ρ: how much of a running sum is left after one more step."""
_FEWEST_GROUPS_OF_A_STEP = 2  # the variance over groups needs two

# For `student_t_975`.
_NORMAL_975 = 1.959963984540054  # the 97.5% point of the normal distribution
_LARGE_FREEDOM = 1e9  # degrees of freedom from which the normal's point is right to 1e-9
_MOST_STEPS = 200  # of Newton's method


@dataclass(frozen=True, eq=False)
class InfluenceEstimate:
    """The influence of each attribute on each criterion; K criteria, D attributes."""

    gamma_KD: np.ndarray
    """γ̂; 0 where nothing was fitted."""
    se_KD: np.ndarray
    """Its group-robust standard error; NaN with fewer than two groups."""
    shrunk_KD: np.ndarray
    """γ̃: the part of γ̂ that chance does not explain."""
    n_K: np.ndarray
    """The number of groups behind it; not a whole number in a running estimate."""
    information_KDD: np.ndarray
    """I: the curvature of the likelihood in γ, with utilities eliminated, before the prior."""
    variance_KDD: np.ndarray
    """V: the variance of the likelihood's slope in γ over groups."""

    @classmethod
    def of(
        cls,
        gamma_KD: np.ndarray,
        information_KDD: np.ndarray,
        variance_KDD: np.ndarray,
        n_K: np.ndarray,
        beta: float,
        threshold_in_errors: float | None = None,
    ) -> InfluenceEstimate:
        """Compute standard errors and shrunk values from γ̂ and the sums over groups.

        beta: the prior's precision. threshold_in_errors: see `shrink`.
        """
        D = gamma_KD.shape[1]
        inverse_KDD = np.linalg.inv(information_KDD + beta * np.eye(D))
        has_variance_K = np.isfinite(variance_KDD).all((1, 2))
        finite_KDD = np.where(has_variance_K[:, None, None], variance_KDD, 0.0)
        covariance_KDD = inverse_KDD @ finite_KDD @ inverse_KDD
        squared_error_KD = np.maximum(np.diagonal(covariance_KDD, axis1=1, axis2=2), 0.0)
        se_KD = np.where(has_variance_K[:, None], np.sqrt(squared_error_KD), np.nan)
        shrunk_KD = shrink(gamma_KD, se_KD, n_K, threshold_in_errors)
        return cls(gamma_KD, se_KD, shrunk_KD, n_K, information_KDD, variance_KDD)

    def describe(
        self, pool: str, values_MK: np.ndarray, taken_NKD: np.ndarray, contrasts_MD: np.ndarray
    ) -> AttributeControl:
        """Return the estimate, which all groups share, together with what was taken out of the values."""
        return AttributeControl(
            pool,
            values_MK=values_MK,
            gamma_NKD=np.broadcast_to(self.gamma_KD, taken_NKD.shape),
            se_NKD=np.broadcast_to(self.se_KD, taken_NKD.shape),
            shrunk_NKD=np.broadcast_to(self.shrunk_KD, taken_NKD.shape),
            n_NK=np.broadcast_to(self.n_K, taken_NKD.shape[:2]),
            taken_NKD=taken_NKD,
            contrasts_MD=contrasts_MD,
        )


def shrink(
    gamma_KD: np.ndarray,
    se_KD: np.ndarray,
    n_K: np.ndarray,
    threshold_in_errors: float | None = None,
) -> np.ndarray:
    """γ̃ = γ̂ · max(0, 1 − (c·se/γ̂)²), the non-negative garrote; 0 with fewer than FEWEST_GROUPS groups.

    threshold_in_errors: c. A coefficient must exceed this many of its standard errors, otherwise it becomes 0. None:
    the 97.5% point of Student's t with n − 1 degrees of freedom.
    """
    shrunk_KD = np.zeros_like(gamma_KD)
    for k, n in enumerate(n_K):
        if n < FEWEST_GROUPS:
            continue
        threshold = threshold_in_errors
        if threshold is None:
            threshold = student_t_975(float(n) - 1.0)
        bound_D = threshold * se_KD[k]
        is_beyond_D = np.abs(gamma_KD[k]) > bound_D  # False where the error is unknown
        ratio_D = bound_D[is_beyond_D] / gamma_KD[k, is_beyond_D]
        shrunk_KD[k, is_beyond_D] = gamma_KD[k, is_beyond_D] * (1.0 - ratio_D * ratio_D)
    return shrunk_KD


@dataclass(frozen=True, eq=False)
class BatchEstimate:
    """An estimate made over a whole batch, for fusing parts of the batch one by one."""

    scale_D: np.ndarray
    """What contrasts are multiplied by."""
    criteria: tuple[Hashable, ...]
    estimate: InfluenceEstimate

    def select(self, criteria: Sequence[Hashable]) -> InfluenceEstimate:
        """Return the estimate for these criteria, in this order; 0 for a criterion that it does not have."""
        if tuple(criteria) == self.criteria:
            return self.estimate
        row_of = {name: k for k, name in enumerate(self.criteria)}
        zero_row = len(self.criteria)  # appended below
        rows = [row_of.get(name, zero_row) for name in criteria]
        arrays = {}
        for array in fields(self.estimate):
            values = getattr(self.estimate, array.name)
            zeros = np.zeros((1, *values.shape[1:]))
            arrays[array.name] = np.concatenate([values, zeros])[rows]
        return InfluenceEstimate(**arrays)


@dataclass(eq=False, slots=True)
class Sums:
    """A, b, V and n of one criterion."""

    information_DD: np.ndarray
    rhs_D: np.ndarray
    """b: the right-hand side of the equations for γ̂."""
    variance_DD: np.ndarray
    n: float


@dataclass(eq=False, slots=True)
class RunningEstimate:
    """The estimate of a training run so far; every step adds to it.

    A step counts for a criterion if its scores differ within at least two groups. Coefficients are estimated jointly,
    so all sums are cleared when the controlled attributes change.
    """

    attributes: tuple[str, ...] = ()
    sums: dict[str, Sums] = field(default_factory=dict)

    def learn(
        self,
        step: InfluenceEstimate,
        criteria: Sequence[Hashable],
        attributes: Sequence[Hashable],
        beta: float,
    ) -> InfluenceEstimate:
        """Add the estimate of a step, and return the estimate of the run so far for the criteria of the step."""
        self.set_attributes(attributes)
        D = len(self.attributes)
        rhs_KD = ((step.information_KDD + beta * np.eye(D)) @ step.gamma_KD[:, :, None])[:, :, 0]
        for k in np.flatnonzero(step.n_K >= _FEWEST_GROUPS_OF_A_STEP):
            sums = self.decay_sums(criteria[k])
            sums.information_DD += step.information_KDD[k]
            sums.rhs_D += rhs_KD[k]
            sums.variance_DD += step.variance_KDD[k]
            sums.n += float(step.n_K[k])
        return self.estimate(criteria, beta)

    def set_attributes(self, attributes: Sequence[Hashable]) -> None:
        """Clear the sums if other attributes than before are controlled."""
        columns = tuple(str(name) for name in attributes)
        if columns != self.attributes:
            self.attributes = columns
            self.sums = {}

    def decay_sums(self, criterion: Hashable) -> Sums:
        """Multiply the sums of a criterion by ρ (V by ρ²), and return them: the caller adds those of the new step."""
        D = len(self.attributes)
        sums = self.sums.setdefault(
            str(criterion), Sums(np.zeros((D, D)), np.zeros(D), np.zeros((D, D)), 0.0)
        )
        sums.information_DD = DECAY * sums.information_DD
        sums.rhs_D = DECAY * sums.rhs_D
        sums.variance_DD = DECAY * DECAY * sums.variance_DD
        sums.n = DECAY * sums.n
        return sums

    def estimate(
        self, criteria: Sequence[Hashable], beta: float, threshold_in_errors: float | None = None
    ) -> InfluenceEstimate:
        """Return the estimate of the run so far. beta: the prior's precision. threshold_in_errors: see `shrink`."""
        names = [str(name) for name in criteria]
        K = len(names)
        D = len(self.attributes)
        rhs_KD = np.zeros((K, D))
        n_K = np.zeros(K)
        information_KDD = np.zeros((K, D, D))
        variance_KDD = np.full((K, D, D), np.nan)
        for k, name in enumerate(names):
            if name in self.sums:
                sums = self.sums[name]
                rhs_KD[k] = sums.rhs_D
                n_K[k] = sums.n
                information_KDD[k] = sums.information_DD
                variance_KDD[k] = sums.variance_DD
        curvature_KDD = information_KDD + beta * np.eye(D)
        gamma_KD = np.linalg.solve(curvature_KDD, rhs_KD[:, :, None])[:, :, 0]
        return InfluenceEstimate.of(
            gamma_KD, information_KDD, variance_KDD, n_K, beta, threshold_in_errors
        )

    def state(self) -> dict[str, Any]:
        """Return the sums as JSON data, for a checkpoint."""
        criteria = {
            name: {
                "A": sums.information_DD.tolist(),
                "b": sums.rhs_D.tolist(),
                "V": sums.variance_DD.tolist(),
                "n": sums.n,
            }
            for name, sums in self.sums.items()
        }
        return {"attributes": list(self.attributes), "criteria": criteria}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.attributes = tuple(state["attributes"])
        self.sums = {}
        for name, saved in state["criteria"].items():
            A, b, V = (np.array(saved[key], float) for key in "AbV")
            self.sums[name] = Sums(A, b, V, saved["n"])


# ------------------------------------------------------------------------------------------------------- Student's t


@lru_cache(maxsize=4096)
def student_t_975(freedom: float) -> float:
    """Return the 97.5% point of Student's t with so many degrees of freedom; infinite for fewer than 1.

    >>> round(student_t_975(7), 3), round(student_t_975(127), 3)
    (2.365, 1.979)

    Degrees of freedom need not be whole: those of a running estimate are not. SciPy has this function too, but only
    the extras depend on SciPy.
    """
    if not freedom >= 1.0:  # or NaN
        return inf
    if freedom > _LARGE_FREEDOM:
        return _NORMAL_975
    # With T = √ν tan θ, the density of θ is cos^(ν − 1) θ, up to a constant. It falls, so Newton's method for the
    # angle with 95% of the distribution on both sides rises steadily from the normal's point, which lies below.
    nodes, weights = np.polynomial.legendre.leggauss(64)
    power = freedom - 1.0
    log_constant = lgamma(0.5 * freedom + 0.5) - lgamma(0.5 * freedom) + log(2.0) - 0.5 * log(pi)
    angle = atan(_NORMAL_975 / sqrt(freedom))
    for _ in range(_MOST_STEPS):
        cosines = np.cos(0.5 * angle * (nodes + 1.0))
        inside = 0.5 * angle * float(weights @ np.exp(power * np.log(cosines) + log_constant))
        step = (0.95 - inside) / exp(power * log(cos(angle)) + log_constant)
        angle += step
        if abs(step) <= 1e-15 * angle:
            break
    return sqrt(freedom) * tan(angle)
