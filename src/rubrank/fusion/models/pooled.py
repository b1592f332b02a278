"""One coefficient for each criterion, shared by all groups of a batch, compiled; and how sure it is.

Each job's utilities are eliminated by their Schur complement, so a Newton step costs one pass over the jobs and one
D × D system a criterion: linear in the number of groups. At the maximum one more pass takes what a group-robust
standard error needs, over the n groups of each criterion:

    s_g = Σ_{i<j} (slope of the pair's likelihood) z_ij        I = Σ_g [Z'WZ − Z'WX (X'WX + αE)⁻¹ X'WZ]_g

Sums over jobs are exact (`exact.py`): no bit of the coefficients depends on the order of groups, or on how a batch is
cut into parts. `fit_pooled` fits a batch that is here as a whole; `partitioned.py` has the same passes over parts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rubrank._jit import jit
from rubrank.fusion.models import exact
from rubrank.fusion.models.algebra import backward, cholesky, forward, rows
from rubrank.fusion.models.blocks import block_size, gather, gradient, hessian, largest_size, residuals, start_block
from rubrank.fusion.models.fit import ITERATIONS, TOLERANCE
from rubrank.fusion.models.lanes import load, minus_product, store


@jit
def _eliminate(n: int, D: int, h: Any, g: Any, cross: Any) -> None:
    """Factor the utilities' block of h and half-solve: g := L⁻¹g, cross := L⁻¹B."""
    cholesky(h, n)
    forward(h, g, 0, n)
    for d in range(D):
        row = (n + d) * (n + d + 1) // 2
        for i in range(n):
            store(cross, d * n + i, load(h, row + i))
        forward(h, cross, d * n, n)


@jit
def _schur(n: int, D: int, h: Any, g: Any, cross: Any, share: Any, right: Any) -> None:
    """A block's share of the system for γ: C − BᵀH⁻¹B (packed) and g_γ − BᵀH⁻¹g_u, from the half-solved parts."""
    for d in range(D):
        row = (n + d) * (n + d + 1) // 2 + n
        at = d * (d + 1) // 2
        total = load(g, n + d)
        for i in range(n):
            total = minus_product(total, load(cross, d * n + i), load(g, i))
        store(right, d, total)
        for e in range(0, d + 1, 4):
            e1, e2, e3 = min(e + 1, d), min(e + 2, d), min(e + 3, d)
            s0, s1, s2, s3 = load(h, row + e), load(h, row + e1), load(h, row + e2), load(h, row + e3)
            for i in range(n):
                x = load(cross, d * n + i)
                s0 = minus_product(s0, x, load(cross, e * n + i))
                s1 = minus_product(s1, x, load(cross, e1 * n + i))
                s2 = minus_product(s2, x, load(cross, e2 * n + i))
                s3 = minus_product(s3, x, load(cross, e3 * n + i))
            store(share, at + e, s0)
            store(share, at + e1, s1)
            store(share, at + e2, s2)
            store(share, at + e3, s3)


@jit
def _keep_solved(n: int, D: int, h: Any, g: Any, cross: Any, solved: Any, at: int) -> None:
    """Finish H⁻¹g and H⁻¹B, and keep them until the step of γ is known."""
    backward(h, g, 0, n)
    for i in range(n):
        store(solved, at + i, load(g, i))
    for d in range(D):
        backward(h, cross, d * n, n)
        for i in range(n):
            store(solved, at + (d + 1) * n + i, load(cross, d * n + i))


@jit
def _solve_small(a: Any, b: Any) -> None:
    """b := a⁻¹b for one symmetric positive definite matrix, packed; a is overwritten."""
    D = b.shape[0]
    for i in range(D):
        row = i * (i + 1) // 2
        for j in range(i + 1):
            column = j * (j + 1) // 2
            total = a[row + j]
            for k in range(j):
                total -= a[row + k] * a[column + k]
            a[row + j] = np.sqrt(total) if i == j else total / a[column + j]
        for k in range(i):
            b[i] -= a[row + k] * b[k]
        b[i] /= a[row + i]
    for i in range(D - 1, -1, -1):
        for k in range(i + 1, D):
            b[i] -= a[k * (k + 1) // 2 + i] * b[k]
        b[i] /= a[i * (i + 1) // 2 + i]


@jit
def working(n_max: int, D: int) -> Any:
    """Arrays that every block of a pass is worked on in."""
    pairs, m = n_max * (n_max - 1) // 2, n_max + D
    return (
        (rows(pairs), rows(pairs)),
        rows(D * pairs),
        rows(n_max),
        rows(D),
        rows(pairs),
        rows(pairs),
        rows(pairs),
        rows(m * (m + 1) // 2),
        rows(m),
        rows(n_max * D),
        rows(D * (D + 1) // 2),
        rows(D),
        np.zeros((D, pairs)),
        np.full(1, -1),
    )


@jit
def _block(
    link: int, data: Any, jobs: Any, begin: int, count: int, prior: float, u_MK: Any, gamma_KD: Any, work: Any
) -> int:
    """Derivatives of a block's jobs at (u, γ), the utilities eliminated; returns the size of its groups."""
    seen, z, u, gamma, residual, weight, weighted, h, grad, cross, share, right, scratch, held = work
    D = data[3].shape[0]
    gather(data, jobs, begin, count, held, scratch, z, seen)
    n = start_block(data[1], jobs, begin, count, u_MK, u)
    gamma[:, :] = 0.0
    for lane in range(count):
        for d in range(D):
            gamma[d, lane] = gamma_KD[jobs[begin + lane, 1], d]
    residuals(link, n, D, z, seen, u, gamma, residual, weight)
    gradient(n, D, z, residual, u, gamma, prior, 0.0, grad)
    hessian(n, D, z, weight, weighted, prior, 0.0, h)
    _eliminate(n, D, h, grad, cross)
    _schur(n, D, h, grad, cross, share, right)
    return n


@jit
def step_sums(
    link: int, data: Any, jobs: Any, prior: float, u_MK: Any, gamma_KD: Any, work: Any, solved: Any, sums: Any
) -> None:
    """One pass: sums (K, D + D(D+1)/2) for the step of γ, and what the steps of u need once that is known."""
    h, grad, cross, share, right = work[7], work[8], work[9], work[10], work[11]
    starts, D = data[1], data[3].shape[0]
    sums[:, :, :] = 0
    begin, at = 0, 0
    while begin < jobs.shape[0]:
        count = block_size(jobs, starts, begin)
        n = _block(link, data, jobs, begin, count, prior, u_MK, gamma_KD, work)
        _keep_solved(n, D, h, grad, cross, solved, at)
        for lane in range(count):
            k = jobs[begin + lane, 1]
            for d in range(D):
                exact.add(sums, k, d, right[d, lane])
            for e in range(D * (D + 1) // 2):
                exact.add(sums, k, D + e, share[e, lane])
        begin += count
        at += n * (D + 1)


@jit
def advance_coefficients(
    attribute_prior: float, sums: Any, active_K: Any, step_K: Any, gamma_KD: Any, moved_K: Any
) -> None:
    """Solve each criterion's system and go the step."""
    K, D = step_K.shape
    schur = np.empty(D * (D + 1) // 2)
    for k in range(K):
        moved_K[k] = 0.0
        if not active_K[k]:
            continue
        for d in range(D):
            step_K[k, d] = exact.value(sums, k, d) - attribute_prior * gamma_KD[k, d]
        for e in range(D * (D + 1) // 2):
            schur[e] = exact.value(sums, k, D + e)
        for d in range(D):
            schur[d * (d + 1) // 2 + d] += attribute_prior
        _solve_small(schur, step_K[k])
        for d in range(D):
            moved_K[k] = _further(moved_K[k], step_K[k, d])
            gamma_KD[k, d] += step_K[k, d]


@jit
def _further(moved: float, step: float) -> float:
    """The longer of the two; NaN where one of them is."""
    return moved if abs(step) <= moved or moved != moved else abs(step)


@jit
def advance_utilities(starts: Any, jobs: Any, solved: Any, step_K: Any, active_K: Any, u_MK: Any, moved_K: Any) -> None:
    """The step of all utilities that goes with the step of γ."""
    D = step_K.shape[1]
    begin, at = 0, 0
    while begin < jobs.shape[0]:
        count = block_size(jobs, starts, begin)
        n = starts[jobs[begin, 0] + 1] - starts[jobs[begin, 0]]
        for lane in range(count):
            first, k = starts[jobs[begin + lane, 0]], jobs[begin + lane, 1]
            if not active_K[k]:
                continue
            for i in range(n):
                step = solved[at + i, lane]
                for d in range(D):
                    step -= solved[at + (d + 1) * n + i, lane] * step_K[k, d]
                moved_K[k] = _further(moved_K[k], step)
                u_MK[first + i, k] += step
        begin += count
        at += n * (D + 1)


@jit
def rows_of_solved(starts: Any, jobs: Any, D: int) -> int:
    """How much room `_keep_solved` needs."""
    total, begin = 0, 0
    while begin < jobs.shape[0]:
        total += (starts[jobs[begin, 0] + 1] - starts[jobs[begin, 0]]) * (D + 1)
        begin += block_size(jobs, starts, begin)
    return total


@jit
def spread_sums(
    link: int, data: Any, jobs: Any, prior: float, u_MK: Any, gamma_KD: Any, work: Any, sums: Any, count_K: Any
) -> None:
    """At the maximum: sums (K, D + D(D+1)) of s_g, I and s_g s_gᵀ (packed), and the number of groups."""
    grad, share = work[8], work[10]
    starts, D = data[1], gamma_KD.shape[1]
    packed = D * (D + 1) // 2
    sums[:, :, :] = 0
    count_K[:] = 0
    begin = 0
    while begin < jobs.shape[0]:
        count = block_size(jobs, starts, begin)
        n = _block(link, data, jobs, begin, count, prior, u_MK, gamma_KD, work)
        for lane in range(count):
            k = jobs[begin + lane, 1]
            count_K[k] += 1
            for d in range(D):
                exact.add(sums, k, d, grad[n + d, lane])
                for e in range(d + 1):
                    at = D + d * (d + 1) // 2 + e
                    exact.add(sums, k, at, share[at - D, lane])
                    exact.add(sums, k, at + packed, grad[n + d, lane] * grad[n + e, lane])
        begin += count


@jit
def spread(sums: Any, count_K: Any, D: int, information_K: Any, variance_K: Any) -> None:
    """I, and V = n/(n − 1) Σ_g (s_g − s̄)(s_g − s̄)ᵀ, packed; NaN of a single group."""
    packed = D * (D + 1) // 2
    for k in range(len(count_K)):
        n_k = float(count_K[k])
        for d in range(D):
            for e in range(d + 1):
                at = d * (d + 1) // 2 + e
                information_K[k, at] = exact.value(sums, k, D + at)
                shift = exact.value(sums, k, d) * exact.value(sums, k, e) / n_k
                centred = exact.value(sums, k, D + packed + at) - shift
                variance_K[k, at] = centred * n_k / (n_k - 1.0) if n_k > 1.0 else np.nan


@jit
def fit_pooled(
    link: int,
    data: Any,
    jobs: Any,
    prior: float,
    attribute_prior: float,
    u_MK: Any,
    gamma_KD: Any,
    information_K: Any,
    variance_K: Any,
    failed_K: Any,
) -> None:
    """Fit (u, γ) in place from where they are; then I and V. A criterion that failed has nothing of use."""
    starts, (K, D) = data[1], gamma_KD.shape
    work = working(largest_size(starts), D)
    solved = rows(rows_of_solved(starts, jobs, D))
    sums, step_K = np.empty((K, D + D * (D + 1) // 2, exact.DIGITS), np.int64), np.empty((K, D))
    moved_K, active_K, count_K = np.empty(K), np.zeros(K, np.bool_), np.zeros(K, np.int64)
    for job in range(jobs.shape[0]):
        active_K[jobs[job, 1]] = True
    for _ in range(ITERATIONS):
        if not active_K.any():
            break
        step_sums(link, data, jobs, prior, u_MK, gamma_KD, work, solved, sums)
        advance_coefficients(attribute_prior, sums, active_K, step_K, gamma_KD, moved_K)
        advance_utilities(starts, jobs, solved, step_K, active_K, u_MK, moved_K)
        for k in range(K):
            active_K[k] = active_K[k] and not moved_K[k] < TOLERANCE
    failed_K[:] = active_K
    sums = np.empty((K, D + D * (D + 1), exact.DIGITS), np.int64)
    spread_sums(link, data, jobs, prior, u_MK, gamma_KD, work, sums, count_K)
    spread(sums, count_K, D, information_K, variance_K)
