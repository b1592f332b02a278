"""The likelihood of a model with attributes and its Newton steps, compiled.

    e_ij = u_i − u_j + γ·z_ij           Σ_{i<j} [ o log F(e) + (1 − o) log F(−e) ] − (α/2) Σ u_i² − (β/2) Σ γ_d²

F is σ (Bradley–Terry) or Φ (Thurstone); o is 1, ½ or 0 for a win, a tie or a loss of i against j. A *job* is one group
on one criterion.

A Newton step solves the system of all second derivatives. The utilities of a job meet those of other jobs only through
γ, so they are eliminated first (the Schur complement), and a D × D system for γ is left:

    | H   B | |step of u|   |slope in u|        S = C − Bᵀ H⁻¹ B
    | Bᵀ  C | |step of γ| = |slope in γ|        step of γ = (S + βE)⁻¹ (slope in γ − Bᵀ H⁻¹ · slope in u)
                                                step of u = H⁻¹ · slope in u − H⁻¹ B · step of γ

Letters: n rollouts of a group, P = n(n−1)/2 pairs in the order (0,1), (0,2), (1,2), (0,3), …; D attributes.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rubrank._jit import jit
from rubrank.scores.outcomes import ROUNDING

LOGISTIC = 0
PROBIT = 1
LARGEST_GROUP = 128  # beyond this, newton.py with LAPACK is faster than the plain loops here
TOLERANCE = 5e-6  # on the length of a step: the error after it is of the order of its square
ITERATIONS = 40  # a fit that needs more is left to newton.py

_SQRT_HALF = math.sqrt(0.5)
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_FAR = -5.0  # left of this, Φ loses digits and finally underflows; the continued fraction does not
_FRACTION_TERMS = 60  # enough for full precision left of _FAR


class Data(NamedTuple):
    """The data of a fit, for compiled code; group g is rows starts[g] .. starts[g + 1]."""

    scores_MK: Any
    starts: Any
    margins: Any
    """(1, K) or (N, K)."""
    attributes_MD: Any
    scale_D: Any
    """What contrasts are multiplied by; empty if each group has its own scale."""
    cell_NK: Any
    """Where the outcomes of a group that was compared on a criterion begin in `outcomes`; −1 where it was scored.
    Empty if no group was compared."""
    outcomes: Any


class Work(NamedTuple):
    """Scratch arrays for one job at a time; sized for the largest group. `_linearise_job` fills them."""

    z_PD: Any
    """Contrasts of each pair."""
    target_P: Any
    """1, ½ or 0: the outcome of each pair; NaN if it was not compared."""
    H_nn: Any
    """Minus the second derivatives in u; the upper triangle. The solve overwrites it."""
    B_nD: Any
    solved: Any
    """(n, 1 + D): the slope in u, then B; after the solve, H⁻¹ times both."""
    slope_D: Any
    """Slope in γ."""
    schur_DD: Any
    """C, then S = C − Bᵀ H⁻¹ B."""


@jit
def make_work(n: int, D: int) -> Any:
    """Make the scratch arrays for groups of up to n rollouts."""
    P = n * (n - 1) // 2
    return Work(
        np.empty((P, D)),
        np.empty(P),
        np.empty((n, n)),
        np.empty((n, D)),
        np.empty((n, 1 + D)),
        np.empty(D),
        np.empty((D, D)),
    )


# ------------------------------------------------------------------------------------------------------------ contrasts


@jit
def _contrast(a: float, b: float) -> float:
    """Return (a − b)/(a + b), and 0 if both are 0."""
    total = a + b
    return (a - b) / (total if total > 0.0 else 1.0)


@jit
def _measure_group(attributes_MD: Any, first: int, n: int, squares_D: Any) -> int:
    """Add the squares of a group's contrasts to squares_D, and return the number of its pairs."""
    for j in range(first + 1, first + n):
        for i in range(first, j):
            for d in range(attributes_MD.shape[1]):
                z = _contrast(attributes_MD[i, d], attributes_MD[j, d])
                squares_D[d] += z * z
    return n * (n - 1) // 2


@jit
def sum_squared_contrasts(attributes_MD: Any, starts: Any, squares_D: Any) -> int:
    """Add the squares of all contrasts to squares_D, and return the number of pairs."""
    pairs = 0
    for g in range(starts.shape[0] - 1):
        pairs += _measure_group(attributes_MD, starts[g], starts[g + 1] - starts[g], squares_D)
    return pairs


@jit
def _find_scale(attributes_MD: Any, scale_D: Any, first: int, n: int) -> Any:
    """Return `scale_D`; if that is empty, the scale that gives the group's contrasts a root mean square of 1."""
    if scale_D.shape[0] > 0:
        return scale_D
    squares_D = np.zeros(attributes_MD.shape[1])
    pairs = _measure_group(attributes_MD, first, n, squares_D)
    for d in range(squares_D.shape[0]):
        squares_D[d] = np.sqrt(pairs / squares_D[d]) if squares_D[d] > 0.0 else 0.0
    return squares_D


@jit
def load_contrasts(attributes_MD: Any, scale_D: Any, first: int, n: int, z_PD: Any) -> None:
    """Fill in the scaled contrasts of a group's pairs.

    They are not centred: z_ij = −z_ji, so the mean over both orders of each pair is 0 already.
    """
    scale_of_group_D = _find_scale(attributes_MD, scale_D, first, n)
    p = 0
    for j in range(first + 1, first + n):
        for i in range(first, j):
            for d in range(attributes_MD.shape[1]):
                z = _contrast(attributes_MD[i, d], attributes_MD[j, d])
                z_PD[p, d] = z * scale_of_group_D[d]
            p += 1


@jit
def average_contrasts(attributes_MD: Any, scale_D: Any, starts: Any, mean_MD: Any) -> None:
    """Fill in z̃, the mean of each rollout's contrasts with all rollouts of its group, itself included."""
    mean_MD[:, :] = 0.0
    for g in range(starts.shape[0] - 1):
        first = starts[g]
        n = starts[g + 1] - first
        scale_of_group_D = _find_scale(attributes_MD, scale_D, first, n)
        for i in range(first, first + n):
            for j in range(first, first + n):
                for d in range(attributes_MD.shape[1]):
                    z = _contrast(attributes_MD[i, d], attributes_MD[j, d])
                    mean_MD[i, d] += z * scale_of_group_D[d] / n


# ---------------------------------------------------------------------------------------------------------------- pairs


@jit
def _load_outcomes(data: Any, g: int, k: int, target_P: Any) -> None:
    """Fill in the outcome of each pair of a group on a criterion; NaN if it was not compared."""
    first = data.starts[g]
    n = data.starts[g + 1] - first
    if data.cell_NK.shape[0] > 0 and data.cell_NK[g, k] >= 0:
        offset = data.cell_NK[g, k]
        for p in range(n * (n - 1) // 2):
            target_P[p] = data.outcomes[offset + p]
        return
    margin = data.margins[g if data.margins.shape[0] > 1 else 0, k]
    p = 0
    for j in range(first + 1, first + n):
        y = data.scores_MK[j, k]
        for i in range(first, j):
            x = data.scores_MK[i, k]
            difference = x - y
            reach = margin + ROUNDING * max(abs(x), abs(y)) if margin > 0.0 else 0.0
            target_P[p] = 0.5 * (difference > reach) + 0.5 * (difference >= -reach)
            if difference != difference:  # a score is missing
                target_P[p] = np.nan
            p += 1


@jit
def hazard(x: float) -> float:
    """Return φ(x)/Φ(x), the slope of log Φ."""
    if x < _FAR:
        # Laplace's continued fraction of Φ(x)/φ(x), evaluated from the back.
        fraction = -x
        for k in range(_FRACTION_TERMS, 0, -1):
            fraction = -x + k / fraction
        return fraction
    return math.exp(-0.5 * x * x - _LOG_SQRT_2PI) / (0.5 * math.erfc(-x * _SQRT_HALF))


@jit
def probit(x: Any, value: Any, slope: Any, curvature: Any) -> None:
    """Fill in log Φ and its first and second derivative at every x."""
    for i in range(x.shape[0]):
        slope[i] = hazard(x[i])
        if x[i] < _FAR:
            log_density = -0.5 * x[i] * x[i] - _LOG_SQRT_2PI
            value[i] = log_density - math.log(slope[i])
        else:
            value[i] = math.log(0.5 * math.erfc(-x[i] * _SQRT_HALF))
        curvature[i] = -slope[i] * (x[i] + slope[i])


@jit
def _differentiate_pair(link: int, e: float, target: float) -> tuple[float, float]:
    """Return the slope of one pair's log-likelihood in e, and minus its curvature."""
    if link == LOGISTIC:
        probability = 1.0 / (1.0 + math.exp(-e))
        return target - probability, probability * (1.0 - probability)
    won = target
    lost = 1.0 - target
    up = hazard(e)
    down = hazard(-e)
    return won * up - lost * down, won * up * (e + up) + lost * down * (down - e)


# --------------------------------------------------------------------------------------------------------- Newton steps


# numba cannot call LAPACK without SciPy, so the small systems are solved by plain elimination. No pivoting is needed:
# the matrices are positive definite, because the priors are.


@jit
def _solve(A: Any, m: int, right: Any, columns: int) -> None:
    """Replace `right` by A⁻¹ right, for a positive definite A (m, m); its upper triangle is read and overwritten."""
    for j in range(m):
        inverse = 1.0 / A[j, j]
        for i in range(j + 1, m):
            factor = A[j, i] * inverse
            for k in range(i, m):
                A[i, k] -= factor * A[j, k]
            for c in range(columns):
                right[i, c] -= factor * right[j, c]
    for j in range(m - 1, -1, -1):
        for i in range(j + 1, m):
            for c in range(columns):
                right[j, c] -= A[j, i] * right[i, c]
        inverse = 1.0 / A[j, j]
        for c in range(columns):
            right[j, c] *= inverse


@jit
def _linearise_job(
    link: int, data: Any, g: int, k: int, prior: float, u_MK: Any, gamma_D: Any, D: int, work: Any
) -> None:
    """Fill `work`, which holds contrasts and outcomes, with the system for the next step of a job at u_MK and γ.

    D: the number of coefficients that are fitted, which is all of them or none. The utilities are eliminated: `solved`
    and `schur_DD` are what the solve leaves.
    """
    z_PD, target_P, H_nn, B_nD, solved, slope_D, schur_DD = work
    first = data.starts[g]
    n = data.starts[g + 1] - first
    for i in range(n):
        for j in range(i, n):
            H_nn[i, j] = 0.0
        for d in range(D):
            B_nD[i, d] = 0.0
        H_nn[i, i] = prior
        solved[i, 0] = -prior * u_MK[first + i, k]
    for d in range(D):
        slope_D[d] = 0.0
        for e in range(D):
            schur_DD[d, e] = 0.0
    p = -1
    for j in range(1, n):
        for i in range(j):
            p += 1
            if target_P[p] != target_P[p]:  # not compared
                continue
            argument = u_MK[first + i, k] - u_MK[first + j, k]
            for d in range(gamma_D.shape[0]):
                argument += gamma_D[d] * z_PD[p, d]
            slope, weight = _differentiate_pair(link, argument, target_P[p])
            solved[i, 0] += slope
            solved[j, 0] -= slope
            H_nn[i, i] += weight
            H_nn[j, j] += weight
            H_nn[i, j] -= weight
            for d in range(D):
                pull = weight * z_PD[p, d]
                B_nD[i, d] += pull
                B_nD[j, d] -= pull
                slope_D[d] += slope * z_PD[p, d]
                for e in range(D):
                    schur_DD[d, e] += pull * z_PD[p, e]
    for i in range(n):
        for d in range(D):
            solved[i, 1 + d] = B_nD[i, d]
    _solve(H_nn, n, solved, 1 + D)
    for i in range(n):
        for d in range(D):
            for e in range(D):
                schur_DD[d, e] -= B_nD[i, d] * solved[i, 1 + e]


@jit
def _take_larger_magnitude(longest: float, step: float) -> float:
    """Return the larger of `longest` and the magnitude of `step`; NaN if one of them is NaN."""
    return longest if abs(step) <= longest or longest != longest else abs(step)


@jit
def fit_pooled(
    link: int,
    data: Any,
    groups: Any,
    k: int,
    prior: float,
    attribute_prior: float,
    D: int,
    u_MK: Any,
    gamma_D: Any,
    information_DD: Any,
    slopes_BD: Any,
) -> bool:
    """Fit the utilities of some groups on criterion k, and the coefficients that they share. Did it converge?

    u_MK and gamma_D hold the start and are overwritten with the result; other utilities stay as they are.
    D: the number of coefficients; 0 leaves γ as it is, and fits the utilities with the offset γ·z.
    information_DD and slopes_BD are filled with I, and the slope of each group's likelihood in γ, at the result.
    """
    largest = 0
    rows = 0
    for g in groups:
        n = data.starts[g + 1] - data.starts[g]
        largest = max(largest, n)
        rows += n
    work = make_work(largest, gamma_D.shape[0])
    # `work.solved` of all groups: their steps depend on the step of γ, which is known only after a pass over all
    solved = np.empty((rows, 1 + D))
    step_D1 = np.zeros((D, 1))
    schur_DD = np.empty((D, D))
    moved = np.inf
    # Each pass takes the step that the pass before has found, and sums up the system for the next one. The first pass
    # has no step to take, so there is one pass more than steps.
    for iteration in range(ITERATIONS + 1):
        information_DD[:, :] = 0.0
        right_D1 = np.zeros((D, 1))
        row = 0
        for b in range(groups.shape[0]):
            g = groups[b]
            first = data.starts[g]
            n = data.starts[g + 1] - first
            if iteration > 0:
                for i in range(n):
                    step = solved[row + i, 0]
                    for d in range(D):
                        step -= solved[row + i, 1 + d] * step_D1[d, 0]
                    u_MK[first + i, k] += step
                    moved = _take_larger_magnitude(moved, step)
            if iteration == 0 or groups.shape[0] > 1:
                load_contrasts(data.attributes_MD, data.scale_D, first, n, work.z_PD)
                _load_outcomes(data, g, k, work.target_P)
            _linearise_job(link, data, g, k, prior, u_MK, gamma_D, D, work)
            for i in range(n):
                for c in range(1 + D):
                    solved[row + i, c] = work.solved[i, c]
            row += n
            for d in range(D):
                slopes_BD[b, d] = work.slope_D[d]
                right_D1[d, 0] += work.slope_D[d]
                for i in range(n):
                    right_D1[d, 0] -= work.B_nD[i, d] * work.solved[i, 0]
                for e in range(D):
                    information_DD[d, e] += work.schur_DD[d, e]
        if moved < TOLERANCE:  # False for NaN: a fit that broke down has not converged
            return True
        # The Newton step of γ. The utilities are already eliminated from this system.
        schur_DD[:, :] = information_DD
        for d in range(D):
            schur_DD[d, d] += attribute_prior
            step_D1[d, 0] = right_D1[d, 0] - attribute_prior * gamma_D[d]
        _solve(schur_DD, D, step_D1, 1)
        moved = 0.0
        for d in range(D):
            gamma_D[d] += step_D1[d, 0]
            moved = _take_larger_magnitude(moved, step_D1[d, 0])
    return False


@jit
def fit_jobs(
    link: int,
    data: Any,
    jobs: Any,
    prior: float,
    attribute_prior: float,
    D: int,
    u_MK: Any,
    gamma_JD: Any,
    failed: Any,
) -> None:
    """Fit each job by itself: its utilities, and with D > 0 its coefficients, which are an offset otherwise.

    u_MK and gamma_JD hold the start and are overwritten with the result. A job that fails keeps its start.
    """
    information_DD = np.empty((D, D))
    slopes_1D = np.empty((1, D))
    for job in range(jobs.shape[0]):
        g = jobs[job, 0]
        k = jobs[job, 1]
        rows = slice(data.starts[g], data.starts[g + 1])
        start_n = u_MK[rows, k].copy()
        gamma_D = gamma_JD[job].copy()
        failed[job] = not fit_pooled(
            link,
            data,
            jobs[job : job + 1, 0].copy(),
            k,
            prior,
            attribute_prior,
            D,
            u_MK,
            gamma_D,
            information_DD,
            slopes_1D,
        )
        if failed[job]:
            u_MK[rows, k] = start_n
        else:
            gamma_JD[job] = gamma_D
