"""The likelihood of a model with attributes and its Newton steps, compiled.

    e_ij = u_i − u_j + γ·z_ij           Σ_{i<j} [ o log F(e) + (1 − o) log F(−e) ] − (α/2) Σ u_i² − (β/2) Σ γ_d²

F is σ (Bradley–Terry) or Φ (Thurstone); o is 1, ½ or 0 for a win, a tie or a loss of i against j. A *job* is one group
on one criterion. All jobs of a group share its contrasts z, so jobs are listed group by group.

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
    """Scratch arrays for one job at a time; sized for the largest group.

    A job fills them in this order, and repeats the last three steps until its utilities converge:

        load_contrasts   z_PD                                   once for each group
        _load_outcomes   target_P, compared_P
        _load_utilities  u_n
        _load_shifts     shift_P                                from γ, or from the fixed offset δ
        _linearise       H_nn, B_nD, solved, slope_D, schur_DD  at the current utilities
        _eliminate       solved, schur_DD, right_D              H_nn is used up
    """

    z_PD: Any
    """Contrasts of each pair."""
    target_P: Any
    """1, ½ or 0: the outcome of each pair."""
    compared_P: Any
    shift_P: Any
    """γ·z of each pair."""
    u_n: Any
    H_nn: Any
    """Minus the second derivatives in u; the upper triangle."""
    B_nD: Any
    solved: Any
    """(n, 1 + D): the slope in u, then B; after the solve, H⁻¹ times both."""
    slope_D: Any
    """Slope in γ."""
    schur_DD: Any
    """C, then S = C − Bᵀ H⁻¹ B."""
    right_D: Any
    """The slope in γ, minus Bᵀ H⁻¹ times the slope in u."""


@jit
def make_work(starts: Any, D: int) -> Any:
    """Scratch arrays for the largest group."""
    n = find_largest_size(starts)
    P = n * (n - 1) // 2
    return Work(
        np.empty((P, D)),
        np.empty(P),
        np.empty(P, np.bool_),
        np.empty(P),
        np.empty(n),
        np.empty((n, n)),
        np.empty((n, D)),
        np.empty((n, 1 + D)),
        np.empty(D),
        np.empty((D, D)),
        np.empty(D),
    )


@jit
def find_largest_size(starts: Any) -> int:
    """Rollouts in the largest group."""
    largest = 0
    for g in range(starts.shape[0] - 1):
        largest = max(largest, starts[g + 1] - starts[g])
    return largest


# ------------------------------------------------------------------------------------------------------------ contrasts


@jit
def _load_raw_contrasts(attributes_MD: Any, first: int, n: int, z_PD: Any) -> None:
    """z = (a_i − a_j)/(a_i + a_j), and 0 where both are 0."""
    p = 0
    for j in range(first + 1, first + n):
        for i in range(first, j):
            for d in range(attributes_MD.shape[1]):
                total = attributes_MD[i, d] + attributes_MD[j, d]
                difference = attributes_MD[i, d] - attributes_MD[j, d]
                z_PD[p, d] = difference / (total if total > 0.0 else 1.0)
            p += 1


@jit
def load_contrasts(attributes_MD: Any, scale_D: Any, first: int, n: int, z_PD: Any) -> None:
    """Contrasts of a group, scaled by `scale_D`, or to a root mean square of 1 in this group if that is empty.

    They are not centred: z_ij = −z_ji, so the mean over both orders of each pair is 0 already.
    """
    P = n * (n - 1) // 2
    _load_raw_contrasts(attributes_MD, first, n, z_PD)
    for d in range(attributes_MD.shape[1]):
        if scale_D.shape[0] > 0:
            scale = scale_D[d]
        else:
            square = 0.0
            for p in range(P):
                square += z_PD[p, d] * z_PD[p, d]
            scale = np.sqrt(P / square) if square > 0.0 else 0.0
        for p in range(P):
            z_PD[p, d] *= scale


@jit
def sum_squared_contrasts(attributes_MD: Any, starts: Any, squares_D: Any) -> int:
    """Add the squares of all contrasts to squares_D; returns the number of pairs."""
    n = find_largest_size(starts)
    z_PD = np.empty((n * (n - 1) // 2, attributes_MD.shape[1]))
    total_pairs = 0
    for g in range(starts.shape[0] - 1):
        n = starts[g + 1] - starts[g]
        P = n * (n - 1) // 2
        total_pairs += P
        _load_raw_contrasts(attributes_MD, starts[g], n, z_PD)
        for p in range(P):
            for d in range(attributes_MD.shape[1]):
                squares_D[d] += z_PD[p, d] * z_PD[p, d]
    return total_pairs


@jit
def average_contrasts(attributes_MD: Any, scale_D: Any, starts: Any, mean_MD: Any) -> None:
    """z̃: the mean of each rollout's contrasts with all rollouts of its group, itself included."""
    n = find_largest_size(starts)
    z_PD = np.empty((n * (n - 1) // 2, attributes_MD.shape[1]))
    mean_MD[:, :] = 0.0
    for g in range(starts.shape[0] - 1):
        first = starts[g]
        n = starts[g + 1] - first
        load_contrasts(attributes_MD, scale_D, first, n, z_PD)
        p = 0
        for j in range(1, n):
            for i in range(j):
                for d in range(attributes_MD.shape[1]):
                    mean_MD[first + i, d] += z_PD[p, d] / n
                    mean_MD[first + j, d] -= z_PD[p, d] / n
                p += 1


# ---------------------------------------------------------------------------------------------------------------- pairs


@jit
def _load_outcomes(data: Any, g: int, k: int, work: Any) -> None:
    """The outcome of each pair of a group on a criterion, and whether the pair was compared at all."""
    target_P = work.target_P
    compared_P = work.compared_P
    first = data.starts[g]
    n = data.starts[g + 1] - first
    if data.cell_NK.shape[0] > 0 and data.cell_NK[g, k] >= 0:
        offset = data.cell_NK[g, k]
        for p in range(n * (n - 1) // 2):
            outcome = data.outcomes[offset + p]
            compared_P[p] = outcome == outcome  # False for NaN
            target_P[p] = outcome
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
            compared_P[p] = difference == difference  # False for NaN: a score is missing
            p += 1


@jit
def hazard(x: float) -> float:
    """φ(x)/Φ(x), the slope of log Φ."""
    if x < _FAR:
        # Laplace's continued fraction of Φ(x)/φ(x), evaluated from the back.
        fraction = -x
        for k in range(_FRACTION_TERMS, 0, -1):
            fraction = -x + k / fraction
        return fraction
    return math.exp(-0.5 * x * x - _LOG_SQRT_2PI) / (0.5 * math.erfc(-x * _SQRT_HALF))


@jit
def probit(x: Any, value: Any, slope: Any, curvature: Any) -> None:
    """log Φ and its first and second derivative at every x."""
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
    """Slope, and minus the curvature, of one pair's log-likelihood."""
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
    """right := A⁻¹ right for a positive definite A (m, m), given by its upper triangle, which is overwritten."""
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
def _linearise(link: int, n: int, D: int, prior: float, work: Any) -> None:
    """H, B, C and the slopes of a job at its utilities u_n and shifts shift_P, for the first D attributes."""
    z_PD, target_P, compared_P, shift_P, u_n, H_nn, B_nD, solved, slope_D, schur_DD, _ = work
    for i in range(n):
        for j in range(i, n):
            H_nn[i, j] = 0.0
        H_nn[i, i] = prior
        solved[i, 0] = -prior * u_n[i]
        for d in range(D):
            B_nD[i, d] = 0.0
    for d in range(D):
        slope_D[d] = 0.0
        for e in range(D):
            schur_DD[d, e] = 0.0
    p = -1
    for j in range(1, n):
        for i in range(j):
            p += 1
            if not compared_P[p]:
                continue
            slope, weight = _differentiate_pair(link, u_n[i] - u_n[j] + shift_P[p], target_P[p])
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


@jit
def _eliminate(n: int, D: int, work: Any) -> None:
    """Solve for the utilities of a job, and for its part of the system for γ: schur_DD and right_D."""
    _, _, _, _, _, H_nn, B_nD, solved, slope_D, schur_DD, right_D = work
    for i in range(n):
        for d in range(D):
            solved[i, 1 + d] = B_nD[i, d]
    _solve(H_nn, n, solved, 1 + D)
    for d in range(D):
        right_D[d] = slope_D[d]
    for i in range(n):
        for d in range(D):
            right_D[d] -= B_nD[i, d] * solved[i, 0]
            for e in range(D):
                schur_DD[d, e] -= B_nD[i, d] * solved[i, 1 + e]


@jit
def _load_utilities(data: Any, g: int, k: int, u_MK: Any, work: Any) -> None:
    """The utilities of a group on a criterion."""
    first = data.starts[g]
    for i in range(data.starts[g + 1] - first):
        work.u_n[i] = u_MK[first + i, k]


@jit
def _load_shifts(n: int, gamma_D: Any, work: Any) -> None:
    """γ·z of each pair."""
    z_PD = work.z_PD
    shift_P = work.shift_P
    for p in range(n * (n - 1) // 2):
        total = 0.0
        for d in range(gamma_D.shape[0]):
            total += gamma_D[d] * z_PD[p, d]
        shift_P[p] = total


@jit
def _take_larger_magnitude(longest: float, step: float) -> float:
    """The larger of `longest` and the magnitude of `step`; NaN if one of them is NaN."""
    return longest if abs(step) <= longest or longest != longest else abs(step)


@jit
def sum_over_groups(
    link: int,
    data: Any,
    jobs: Any,
    prior: float,
    u_MK: Any,
    gamma_KD: Any,
    solved: Any,
    right_KD: Any,
    information_KDD: Any,
    slope_KD: Any,
    square_KDD: Any,
) -> None:
    """One pass over all jobs at (u, γ): sums over the groups of each criterion, added to the last four arrays.

    right_KD, information_KDD: the system for the step of γ, before its prior.
    slope_KD, square_KDD: slopes of the likelihood in γ, and their products: what the standard error needs.
    solved: (rows of all jobs, 1 + D): what `advance_utilities` needs once the step of γ is known.
    """
    D = gamma_KD.shape[1]
    work = make_work(data.starts, D)
    loaded_group = -1
    row = 0  # of `solved`
    for job in range(jobs.shape[0]):
        g = jobs[job, 0]
        k = jobs[job, 1]
        first = data.starts[g]
        n = data.starts[g + 1] - first
        if g != loaded_group:  # jobs of a group are neighbours, and share its contrasts
            load_contrasts(data.attributes_MD, data.scale_D, first, n, work.z_PD)
            loaded_group = g
        _load_outcomes(data, g, k, work)
        _load_utilities(data, g, k, u_MK, work)
        _load_shifts(n, gamma_KD[k], work)
        _linearise(link, n, D, prior, work)
        _eliminate(n, D, work)
        for i in range(n):
            for c in range(1 + D):
                solved[row + i, c] = work.solved[i, c]
        row += n
        for d in range(D):
            right_KD[k, d] += work.right_D[d]
            slope_KD[k, d] += work.slope_D[d]
            for e in range(D):
                information_KDD[k, d, e] += work.schur_DD[d, e]
                square_KDD[k, d, e] += work.slope_D[d] * work.slope_D[e]


@jit
def advance_utilities(
    starts: Any, jobs: Any, solved: Any, step_KD: Any, active_K: Any, u_MK: Any, moved_K: Any
) -> None:
    """The step of the utilities that belongs to a step of γ; moved_K becomes the longest step of each criterion."""
    row = 0  # of `solved`
    for job in range(jobs.shape[0]):
        k = jobs[job, 1]
        first = starts[jobs[job, 0]]
        n = starts[jobs[job, 0] + 1] - first
        if active_K[k]:
            for i in range(n):
                step = solved[row + i, 0]
                for d in range(step_KD.shape[1]):
                    step -= solved[row + i, 1 + d] * step_KD[k, d]
                u_MK[first + i, k] += step
                moved_K[k] = _take_larger_magnitude(moved_K[k], step)
        row += n


@jit
def fit_jobs(
    link: int,
    data: Any,
    jobs: Any,
    prior: float,
    attribute_prior: float,
    u_MK: Any,
    gamma_JD: Any,
    failed: Any,
) -> None:
    """Fit the utilities and coefficients of each job by itself.

    u_MK and gamma_JD hold the start and are overwritten with the result. A job that fails keeps its start.
    """
    D = gamma_JD.shape[1]
    work = make_work(data.starts, D)
    gamma_D = np.empty(D)
    step_D1 = np.empty((D, 1))
    loaded_group = -1
    for job in range(jobs.shape[0]):
        g = jobs[job, 0]
        k = jobs[job, 1]
        first = data.starts[g]
        n = data.starts[g + 1] - first
        if g != loaded_group:
            load_contrasts(data.attributes_MD, data.scale_D, first, n, work.z_PD)
            loaded_group = g
        _load_outcomes(data, g, k, work)
        _load_utilities(data, g, k, u_MK, work)
        gamma_D[:] = gamma_JD[job]
        failed[job] = True
        for _ in range(ITERATIONS):
            _load_shifts(n, gamma_D, work)
            _linearise(link, n, D, prior, work)
            _eliminate(n, D, work)
            for d in range(D):
                work.schur_DD[d, d] += attribute_prior
                step_D1[d, 0] = work.right_D[d] - attribute_prior * gamma_D[d]
            _solve(work.schur_DD, D, step_D1, 1)
            moved = 0.0
            for d in range(D):
                gamma_D[d] += step_D1[d, 0]
                moved = _take_larger_magnitude(moved, step_D1[d, 0])
            for i in range(n):
                step = work.solved[i, 0]
                for d in range(D):
                    step -= work.solved[i, 1 + d] * step_D1[d, 0]
                work.u_n[i] += step
                moved = _take_larger_magnitude(moved, step)
            if moved < TOLERANCE:  # False for NaN: a job that broke down counts as failed
                failed[job] = False
                break
        if not failed[job]:
            gamma_JD[job] = gamma_D
            for i in range(n):
                u_MK[first + i, k] = work.u_n[i]


@jit
def refit_jobs(
    link: int, data: Any, jobs: Any, delta_JD: Any, prior: float, u_MK: Any, failed: Any
) -> None:
    """Fit the utilities of each job with a fixed offset δ·z.

    u_MK holds the utilities without the offset, and is overwritten. A job that fails keeps its start.
    """
    work = make_work(data.starts, delta_JD.shape[1])
    loaded_group = -1
    for job in range(jobs.shape[0]):
        g = jobs[job, 0]
        k = jobs[job, 1]
        first = data.starts[g]
        n = data.starts[g + 1] - first
        if g != loaded_group:
            load_contrasts(data.attributes_MD, data.scale_D, first, n, work.z_PD)
            loaded_group = g
        _load_outcomes(data, g, k, work)
        _load_shifts(n, delta_JD[job], work)
        _load_utilities(data, g, k, u_MK, work)
        _move_start(n, work)
        failed[job] = True
        for _ in range(ITERATIONS):
            _linearise(link, n, 0, prior, work)
            _solve(work.H_nn, n, work.solved, 1)
            moved = 0.0
            for i in range(n):
                work.u_n[i] += work.solved[i, 0]
                moved = _take_larger_magnitude(moved, work.solved[i, 0])
            if moved < TOLERANCE:
                failed[job] = False
                break
        if not failed[job]:
            for i in range(n):
                u_MK[first + i, k] = work.u_n[i]


@jit
def _move_start(n: int, work: Any) -> None:
    """Move the start half way from u to u − δ·z̃: the maximum lies between the two, because of the prior."""
    p = 0
    for j in range(1, n):
        for i in range(j):
            if work.compared_P[p]:
                work.u_n[i] -= 0.5 / n * work.shift_P[p]
                work.u_n[j] += 0.5 / n * work.shift_P[p]
            p += 1
