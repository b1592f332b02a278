"""Bradley–Terry with attributes, compiled: eight fits at a time.

For every group and criterion, find utilities u and coefficients γ that

    maximise  Σ_{i<j} [ o log σ(η_ij) + (1 − o) log σ(−η_ij) ] − (α/2) Σ u_i² − (β/2) Σ γ_d²,
    η_ij = u_i − u_j + γ·z_ij

starting from the utilities without attributes (γ = 0), by Newton's method. A *job* is one group and criterion; a block
of LANES jobs from groups of one size, a job in each lane, is fitted by one stream of vector instructions. A lane that
has converged is frozen, so what a job gets never depends on its neighbours.

Full steps are not checked against the objective here (that would cost a logarithm a pair). They converge from this
start in practice; a job where they do not is handed to `newton.py`, which halves steps (`tests/models/test_fit.py`).

Letters: n rollouts of a group, P = n(n−1)/2 pairs with p = j(j−1)/2 + i for i < j, D attributes, m = n + D unknowns.
A "row" of a working array is one vector of LANES numbers; triangular matrices are packed row by row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rubrank._jit import jit
from rubrank._jit import unsigned as _index
from rubrank.fusion.models.lanes import (
    LANES,
    any_positive,
    exponential,
    fma,
    larger,
    load,
    magnitude,
    minus_product,
    root,
    splat,
    store,
    where_greater,
)
from rubrank.scores.outcomes import ROUNDING

LARGEST_GROUP = 128  # beyond this the packed triangles of a block outgrow the caches; newton.py uses LAPACK
_TOLERANCE = 5e-6  # on a step: the error after it is of the order of its square
_ITERATIONS = 40


@jit
def _rows(count: int) -> Any:
    """A working array of vectors, each within one cache line: a vector across two lines takes twice as long to load."""
    flat = np.empty((count + 1) * LANES)
    skip = (-(flat.ctypes.data // 8)) % LANES
    return flat[skip : skip + count * LANES].reshape(count, LANES)


@jit
def contrasts(attributes_DM: Any, first: int, n: int, z: Any) -> None:
    """z[d, p] = (a_i − a_j)/(a_i + a_j) over its root mean square in the group; two zeros do not differ.

    Scaled, not centred: z is antisymmetric, so over both orders of each pair its mean is 0 already.
    """
    pairs = n * (n - 1) // 2
    for d in range(attributes_DM.shape[0]):
        a = attributes_DM[d, first : first + n]
        square = 0.0
        p = 0
        for j in range(1, n):
            b = a[j]
            for i in range(j):
                total = a[_index(i)] + b
                value = (a[_index(i)] - b) / (total if total > 0.0 else 1.0)
                z[_index(d), _index(p + i)] = value
                square += value * value
            p += j
        scale = np.sqrt(pairs / square) if square > 0.0 else 0.0
        for p in range(pairs):
            z[d, p] *= scale


@jit
def mean_contrasts(attributes_DM: Any, starts: Any, mean_MD: Any) -> None:
    """z̄: each rollout's mean contrast with the others of its group, 0 if there are none."""
    n_max = _largest_size(starts)
    D = attributes_DM.shape[0]
    z = np.empty((D, n_max * (n_max - 1) // 2))
    mean_MD[:, :] = 0.0
    for g in range(starts.shape[0] - 1):
        first, n = starts[g], starts[g + 1] - starts[g]
        contrasts(attributes_DM, first, n, z)
        for d in range(D):
            p = 0
            for j in range(1, n):
                for i in range(j):
                    mean_MD[first + i, d] += z[d, p] / (n - 1)
                    mean_MD[first + j, d] -= z[d, p] / (n - 1)
                    p += 1


@jit
def _largest_size(starts: Any) -> int:
    largest = 0
    for g in range(starts.shape[0] - 1):
        largest = max(largest, starts[g + 1] - starts[g])
    return largest


@jit
def _outcomes(scores_MK: Any, first: int, n: int, lane: int, k: int, margin: float, target: Any, compared: Any) -> None:
    """What was observed between each pair on criterion k, into one lane."""
    p = 0
    for j in range(1, n):
        y = scores_MK[_index(first + j), _index(k)]
        for i in range(j):
            x = scores_MK[_index(first + i), _index(k)]
            difference = x - y
            least = margin + ROUNDING * max(abs(x), abs(y)) if margin > 0.0 else 0.0
            target[_index(p), _index(lane)] = 0.5 * (difference > least) + 0.5 * (difference >= -least)
            compared[_index(p), _index(lane)] = difference == difference
            p += 1


@jit
def _residuals(
    n: int, D: int, z: Any, target: Any, compared: Any, u: Any, gamma: Any, residual: Any, weight: Any
) -> None:
    """o − σ(η) and σ(η)σ(−η) of every pair; 0 where the pair was not compared."""
    one = splat(1.0)
    pairs = n * (n - 1) // 2
    p = 0
    for j in range(1, n):
        u_j = load(u, j)
        for i in range(j):
            minus_eta = u_j - load(u, i)
            for d in range(D):
                minus_eta = minus_product(minus_eta, load(gamma, d), load(z, d * pairs + p))
            probability = one / (one + exponential(minus_eta))
            seen = load(compared, p)
            store(residual, p, seen * (load(target, p) - probability))
            store(weight, p, seen * probability * (one - probability))
            p += 1


@jit
def _gradient(
    n: int, D: int, z: Any, residual: Any, u: Any, gamma: Any, prior: float, attribute_prior: float, g: Any
) -> None:
    zero = splat(0.0)
    for i in range(n):
        total = minus_product(zero, splat(prior), load(u, i))
        for j in range(i):
            total = total - load(residual, i * (i - 1) // 2 + j)
        for j in range(i + 1, n):
            total = total + load(residual, j * (j - 1) // 2 + i)
        store(g, i, total)
    pairs = n * (n - 1) // 2
    for d in range(D):
        total = minus_product(zero, splat(attribute_prior), load(gamma, d))
        for p in range(pairs):
            total = fma(load(residual, p), load(z, d * pairs + p), total)
        store(g, n + d, total)


@jit
def _hessian(n: int, D: int, z: Any, weight: Any, weighted: Any, prior: float, attribute_prior: float, h: Any) -> None:
    """Minus the second derivatives, packed: utilities first, then coefficients."""
    zero = splat(0.0)
    for i in range(n):
        total = splat(prior)
        for j in range(i):
            w = load(weight, i * (i - 1) // 2 + j)
            store(h, i * (i + 1) // 2 + j, zero - w)
            total = total + w
        for j in range(i + 1, n):
            total = total + load(weight, j * (j - 1) // 2 + i)
        store(h, i * (i + 1) // 2 + i, total)
    pairs = n * (n - 1) // 2
    for d in range(D):
        row = (n + d) * (n + d + 1) // 2
        for p in range(pairs):
            store(weighted, p, load(weight, p) * load(z, d * pairs + p))
        for i in range(n):
            total = zero
            for j in range(i):
                total = total - load(weighted, i * (i - 1) // 2 + j)
            for j in range(i + 1, n):
                total = total + load(weighted, j * (j - 1) // 2 + i)
            store(h, row + i, total)
        _products(d, pairs, z, weighted, h, row + n)
        store(h, row + n + d, load(h, row + n + d) + splat(attribute_prior))


@jit
def _products(d: int, pairs: int, z: Any, weighted: Any, h: Any, at: int) -> None:
    """h[at + e] = Σ_p weighted_p z_ep, e ≤ d; four sums at a time hide each other's latency, the last may repeat d."""
    for e in range(0, d + 1, 4):
        e1, e2, e3 = min(e + 1, d), min(e + 2, d), min(e + 3, d)
        s0, s1, s2, s3 = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
        for p in range(pairs):
            w = load(weighted, p)
            s0 = fma(w, load(z, e * pairs + p), s0)
            s1 = fma(w, load(z, e1 * pairs + p), s1)
            s2 = fma(w, load(z, e2 * pairs + p), s2)
            s3 = fma(w, load(z, e3 * pairs + p), s3)
        store(h, at + e, s0)
        store(h, at + e1, s1)
        store(h, at + e2, s2)
        store(h, at + e3, s3)


@jit
def _cholesky(h: Any, m: int) -> None:
    """In place; the diagonal holds reciprocals, since only divisions by it follow.

    Column by column, four rows at a time: four independent sums hide each other's latency. Rows past the end repeat
    the last one.
    """
    one = splat(1.0)
    for j in range(m):
        column = j * (j + 1) // 2
        scale = one
        for i in range(j, m, 4):
            i1, i2, i3 = min(i + 1, m - 1), min(i + 2, m - 1), min(i + 3, m - 1)
            r0, r1, r2, r3 = i * (i + 1) // 2, i1 * (i1 + 1) // 2, i2 * (i2 + 1) // 2, i3 * (i3 + 1) // 2
            s0, s1, s2, s3 = load(h, r0 + j), load(h, r1 + j), load(h, r2 + j), load(h, r3 + j)
            for k in range(j):
                x = load(h, column + k)
                s0 = minus_product(s0, x, load(h, r0 + k))
                s1 = minus_product(s1, x, load(h, r1 + k))
                s2 = minus_product(s2, x, load(h, r2 + k))
                s3 = minus_product(s3, x, load(h, r3 + k))
            if i == j:
                scale = one / root(s0)
                s0 = one
            store(h, r0 + j, s0 * scale)
            if i1 > j:
                store(h, r1 + j, s1 * scale)
                store(h, r2 + j, s2 * scale)
                store(h, r3 + j, s3 * scale)


@jit
def _forward(h: Any, x: Any, at: int, m: int) -> None:
    """x[at .. at + m] := L⁻¹ x."""
    for i in range(m):
        row = i * (i + 1) // 2
        total = load(x, at + i)
        for k in range(i):
            total = minus_product(total, load(h, row + k), load(x, at + k))
        store(x, at + i, total * load(h, row + i))


@jit
def _backward(h: Any, x: Any, at: int, m: int) -> None:
    """x[at .. at + m] := L⁻ᵀ x."""
    for i in range(m - 1, -1, -1):
        total = load(x, at + i)
        for k in range(i + 1, m):
            total = minus_product(total, load(h, k * (k + 1) // 2 + i), load(x, at + k))
        store(x, at + i, total * load(h, i * (i + 1) // 2 + i))


@jit
def _advance(x: Any, step: Any, at: int, count: int, active: Any) -> None:
    for i in range(count):
        store(x, i, fma(active, load(step, at + i), load(x, i)))


@jit
def _largest(step: Any, m: int) -> Any:
    largest, poison = splat(0.0), splat(0.0)
    for i in range(m):
        x = load(step, i)
        largest = larger(magnitude(x), largest)  # drops NaN, hence the poison
        poison = fma(x, splat(0.0), poison)
    return largest + poison


# ------------------------------------------------------------------------------------------------------------- blocks


@jit
def _block_size(jobs: Any, starts: Any, begin: int) -> int:
    """How many jobs from `begin` on go into one block: at most LANES, all from groups of one size."""
    n = starts[jobs[begin, 0] + 1] - starts[jobs[begin, 0]]
    count = 1
    while count < LANES and begin + count < jobs.shape[0]:
        g = jobs[begin + count, 0]
        if starts[g + 1] - starts[g] != n:
            break
        count += 1
    return count


@jit
def _gather(
    scores_MK: Any, starts: Any, margins: Any, attributes_DM: Any, jobs: Any, begin: int, count: int,
    scratch: Any, z: Any, target: Any, compared: Any,
) -> None:  # fmt: skip
    """Observations and contrasts of a block's jobs, each in its lane; lanes past the last job stay empty."""
    D = attributes_DM.shape[0]
    group = -1
    n = starts[jobs[begin, 0] + 1] - starts[jobs[begin, 0]]
    pairs = n * (n - 1) // 2
    for lane in range(LANES):
        if lane < count:
            if jobs[begin + lane, 0] != group:
                group = jobs[begin + lane, 0]
                contrasts(attributes_DM, starts[group], n, scratch)
            k = jobs[begin + lane, 1]
            margin = margins[group if margins.shape[0] > 1 else 0, k]
            _outcomes(scores_MK, starts[group], n, lane, k, margin, target, compared)
        else:
            compared[:pairs, lane] = 0.0
            target[:pairs, lane] = 0.5
        for d in range(D):
            for p in range(pairs):
                z[_index(d * pairs + p), _index(lane)] = scratch[_index(d), _index(p)]


@jit
def _fit_block(
    n: int,
    D: int,
    z: Any,
    target: Any,
    compared: Any,
    u: Any,
    gamma: Any,
    work: Any,
    prior: float,
    attribute_prior: float,
) -> Any:
    """Newton on one block; returns 1 in the lanes that did not converge."""
    residual, weight, weighted, h, g = work
    m = n + D
    active = splat(1.0)
    for _ in range(_ITERATIONS):
        _residuals(n, D, z, target, compared, u, gamma, residual, weight)
        _gradient(n, D, z, residual, u, gamma, prior, attribute_prior, g)
        _hessian(n, D, z, weight, weighted, prior, attribute_prior, h)
        _cholesky(h, m)
        _forward(h, g, 0, m)
        _backward(h, g, 0, m)
        _advance(u, g, 0, n, active)
        _advance(gamma, g, n, D, active)
        # `tolerance > step` is false for NaN too, so a lane that broke down stays active and is reported.
        active = where_greater(splat(_TOLERANCE), _largest(g, m), splat(0.0), active)
        if not any_positive(active):
            break
    return active


@jit
def fit_groups(
    scores_MK: Any,
    starts: Any,
    margins: Any,
    attributes_DM: Any,
    jobs: Any,
    prior: float,
    attribute_prior: float,
    u_MK: Any,
    gamma_NKD: Any,
    failed: Any,
) -> None:
    """Fit each job (row of `jobs`: group, criterion; sorted by the group's size) on its own.

    u_MK comes in as the start and goes out as the result; a job that failed keeps its start.
    """
    D = attributes_DM.shape[0]
    n_max = _largest_size(starts)
    pairs, m = n_max * (n_max - 1) // 2, n_max + D
    target, compared, z = _rows(pairs), _rows(pairs), _rows(D * pairs)
    work = (_rows(pairs), _rows(pairs), _rows(pairs), _rows(m * (m + 1) // 2), _rows(m))
    u, gamma, trouble = _rows(n_max), _rows(D), _rows(1)
    scratch = np.zeros((D, pairs))
    begin = 0
    while begin < jobs.shape[0]:
        count = _block_size(jobs, starts, begin)
        n = starts[jobs[begin, 0] + 1] - starts[jobs[begin, 0]]
        _gather(scores_MK, starts, margins, attributes_DM, jobs, begin, count, scratch, z, target, compared)
        u[:, :] = 0.0
        gamma[:, :] = 0.0
        for lane in range(count):
            first, k = starts[jobs[begin + lane, 0]], jobs[begin + lane, 1]
            for i in range(n):
                u[i, lane] = u_MK[first + i, k]
        store(trouble, 0, _fit_block(n, D, z, target, compared, u, gamma, work, prior, attribute_prior))
        for lane in range(count):
            g, k = jobs[begin + lane, 0], jobs[begin + lane, 1]
            failed[begin + lane] = trouble[0, lane] > 0.0
            if not failed[begin + lane]:
                for i in range(n):
                    u_MK[starts[g] + i, k] = u[i, lane]
                for d in range(D):
                    gamma_NKD[g, k, d] = gamma[d, lane]
        begin += count


# ------------------------------------------------------------------------------------------------------------- pooled


@jit
def _eliminate(n: int, D: int, h: Any, g: Any, cross: Any) -> None:
    """Factor the utilities' block of h and half-solve: g := L⁻¹g, cross := L⁻¹B."""
    _cholesky(h, n)
    _forward(h, g, 0, n)
    for d in range(D):
        row = (n + d) * (n + d + 1) // 2
        for i in range(n):
            store(cross, d * n + i, load(h, row + i))
        _forward(h, cross, d * n, n)


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
    _backward(h, g, 0, n)
    for i in range(n):
        store(solved, at + i, load(g, i))
    for d in range(D):
        _backward(h, cross, d * n, n)
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
def fit_pooled(
    scores_MK: Any,
    starts: Any,
    margins: Any,
    attributes_DM: Any,
    jobs: Any,
    prior: float,
    attribute_prior: float,
    u_MK: Any,
    gamma_KD: Any,
    failed_K: Any,
) -> None:
    """One γ for each criterion, shared by all its jobs.

    Each job's utilities are eliminated by their Schur complement, so a step costs one pass over the jobs and one
    D × D system a criterion: linear in the number of groups.
    """
    K, D = scores_MK.shape[1], attributes_DM.shape[0]
    n_max = _largest_size(starts)
    pairs, m = n_max * (n_max - 1) // 2, n_max + D
    target, compared, z = _rows(pairs), _rows(pairs), _rows(D * pairs)
    residual, weight, weighted = _rows(pairs), _rows(pairs), _rows(pairs)
    h, grad, cross = _rows(m * (m + 1) // 2), _rows(m), _rows(n_max * D)
    u, gamma, share, right = _rows(n_max), _rows(D), _rows(D * (D + 1) // 2), _rows(D)
    scratch = np.zeros((D, pairs))
    blocks = 0
    begin = 0
    while begin < jobs.shape[0]:
        begin += _block_size(jobs, starts, begin)
        blocks += 1
    solved = _rows(blocks * n_max * (D + 1))
    schur_K, step_K = np.empty((K, D * (D + 1) // 2)), np.empty((K, D))
    moved_K, active_K = np.empty(K), np.zeros(K, np.bool_)
    for job in range(jobs.shape[0]):
        active_K[jobs[job, 1]] = True
    for _ in range(_ITERATIONS):
        if not active_K.any():
            break
        schur_K[:, :] = 0.0
        step_K[:, :] = 0.0
        begin, at = 0, 0
        while begin < jobs.shape[0]:
            count = _block_size(jobs, starts, begin)
            n = starts[jobs[begin, 0] + 1] - starts[jobs[begin, 0]]
            _gather(scores_MK, starts, margins, attributes_DM, jobs, begin, count, scratch, z, target, compared)
            u[:, :] = 0.0
            gamma[:, :] = 0.0
            for lane in range(count):
                first, k = starts[jobs[begin + lane, 0]], jobs[begin + lane, 1]
                for i in range(n):
                    u[i, lane] = u_MK[first + i, k]
                for d in range(D):
                    gamma[d, lane] = gamma_KD[k, d]
            _residuals(n, D, z, target, compared, u, gamma, residual, weight)
            _gradient(n, D, z, residual, u, gamma, prior, 0.0, grad)
            _hessian(n, D, z, weight, weighted, prior, 0.0, h)
            _eliminate(n, D, h, grad, cross)
            _schur(n, D, h, grad, cross, share, right)
            _keep_solved(n, D, h, grad, cross, solved, at)
            for lane in range(count):
                k = jobs[begin + lane, 1]
                for d in range(D):
                    step_K[k, d] += right[d, lane]
                for e in range(D * (D + 1) // 2):
                    schur_K[k, e] += share[e, lane]
            begin += count
            at += n * (D + 1)
        for k in range(K):
            moved_K[k] = 0.0
            for d in range(D):
                schur_K[k, d * (d + 1) // 2 + d] += attribute_prior
                step_K[k, d] -= attribute_prior * gamma_KD[k, d]
            _solve_small(schur_K[k], step_K[k])
            for d in range(D):
                if not abs(step_K[k, d]) <= moved_K[k]:  # written so that NaN gets through
                    moved_K[k] = abs(step_K[k, d])
                if active_K[k]:
                    gamma_KD[k, d] += step_K[k, d]
        begin, at = 0, 0
        while begin < jobs.shape[0]:
            count = _block_size(jobs, starts, begin)
            n = starts[jobs[begin, 0] + 1] - starts[jobs[begin, 0]]
            for lane in range(count):
                first, k = starts[jobs[begin + lane, 0]], jobs[begin + lane, 1]
                for i in range(n):
                    step = solved[at + i, lane]
                    for d in range(D):
                        step -= solved[at + (d + 1) * n + i, lane] * step_K[k, d]
                    if not abs(step) <= moved_K[k]:
                        moved_K[k] = abs(step)
                    if active_K[k]:
                        u_MK[first + i, k] += step
            begin += count
            at += n * (D + 1)
        for k in range(K):
            active_K[k] = active_K[k] and not moved_K[k] < _TOLERANCE
    failed_K[:] = active_K


@jit
def add_kept(kept_gamma_NKD: Any, mean_MD: Any, starts: Any, scores_MK: Any, u_MK: Any) -> None:
    """v = u + Σ_d keep·γ·z̄; a rollout that was not scored on a criterion stays at 0 there."""
    for g in range(starts.shape[0] - 1):
        for i in range(starts[g], starts[g + 1]):
            for k in range(u_MK.shape[1]):
                if scores_MK[i, k] == scores_MK[i, k]:
                    total = u_MK[i, k]
                    for d in range(mean_MD.shape[1]):
                        total += kept_gamma_NKD[g, k, d] * mean_MD[i, d]
                    u_MK[i, k] = total
