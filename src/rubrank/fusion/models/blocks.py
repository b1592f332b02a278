"""Contrasts, outcomes and the derivatives of a likelihood with attributes, of eight fits at a time.

    e_ij = u_i − u_j + γ·z_ij           Σ_{i<j} [ o log F(e) + (1 − o) log F(−e) ] − (α/2) Σ u_i² − (β/2) Σ γ_d²

F is σ (Bradley–Terry) or Φ (Thurstone). A *job* is one group and criterion; a block of LANES jobs from groups of one
size, a job in each lane, is worked on by one stream of vector instructions.

`data` is what was observed, as compiled code takes it: scores_MK, starts, margins (one row, or one for each group),
attributes_DM, scale_D (of the contrasts; empty: each group's own), cell_NK (where the outcomes of a group that was
compared on a criterion begin in `outcomes_C`, −1 where it was scored; empty where no pair was compared), outcomes_C.

Letters: n rollouts of a group, P = n(n−1)/2 pairs with p = j(j−1)/2 + i for i < j, D attributes, m = n + D unknowns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rubrank._jit import jit
from rubrank._jit import unsigned as _index
from rubrank.fusion.models import exact
from rubrank.fusion.models.algebra import products
from rubrank.fusion.models.lanes import (
    LANES,
    exponential,
    fma,
    load,
    minus_product,
    splat,
    store,
)
from rubrank.fusion.models.thurstone import hazard
from rubrank.scores.outcomes import ROUNDING

LARGEST_GROUP = 128  # beyond this the packed triangles of a block outgrow the caches; newton.py uses LAPACK
LOGISTIC, PROBIT = 0, 1
"""Links that are compiled."""


# ---------------------------------------------------------------------------------------------------------- contrasts


@jit
def _raw_contrasts(a: Any, n: int, z: Any) -> float:
    """z[p] = (a_i − a_j)/(a_i + a_j), 0 where both are 0; returns the sum of their squares."""
    square = 0.0
    p = 0
    for j in range(1, n):
        b = a[j]
        for i in range(j):
            total = a[_index(i)] + b
            value = (a[_index(i)] - b) / (total if total > 0.0 else 1.0)
            z[_index(p + i)] = value
            square += value * value
        p += j
    return square


@jit
def contrasts(attributes_DM: Any, scale_D: Any, first: int, n: int, z: Any) -> None:
    """z[d, p], scaled: by scale_D, or over the group's own root mean square where that is empty.

    Scaled, not centred: z is antisymmetric, so over both orders of each pair its mean is 0 already.
    """
    pairs = n * (n - 1) // 2
    for d in range(attributes_DM.shape[0]):
        square = _raw_contrasts(attributes_DM[d, first : first + n], n, z[d])
        if scale_D.shape[0] > 0:
            scale = scale_D[d]
        else:
            scale = np.sqrt(pairs / square) if square > 0.0 else 0.0
        for p in range(pairs):
            z[d, p] *= scale


@jit
def square_sums(attributes_DM: Any, starts: Any, sums: Any) -> int:
    """The sums (1, D) of the squares of each attribute's contrasts, exactly; returns how many pairs there are."""
    n_max, pairs = largest_size(starts), 0
    z = np.empty(n_max * (n_max - 1) // 2)
    for g in range(starts.shape[0] - 1):
        n = starts[g + 1] - starts[g]
        pairs += n * (n - 1) // 2
        for d in range(attributes_DM.shape[0]):
            exact.add(sums, 0, d, _raw_contrasts(attributes_DM[d, starts[g] : starts[g + 1]], n, z))
    return pairs


@jit
def scales(sums: Any, pairs: int, scale_D: Any) -> None:
    """One over the root mean square of each attribute's contrasts, over all pairs of the batch; 0 of a constant one."""
    for d in range(len(scale_D)):
        square = exact.value(sums, 0, d)
        scale_D[d] = np.sqrt(pairs / square) if square > 0.0 else 0.0


@jit
def mean_contrasts(attributes_DM: Any, scale_D: Any, starts: Any, mean_MD: Any) -> None:
    """z̃: each rollout's contrasts with all of its group, itself too, as a mean."""
    n_max = largest_size(starts)
    D = attributes_DM.shape[0]
    z = np.empty((D, n_max * (n_max - 1) // 2))
    mean_MD[:, :] = 0.0
    for g in range(starts.shape[0] - 1):
        first, n = starts[g], starts[g + 1] - starts[g]
        contrasts(attributes_DM, scale_D, first, n, z)
        for d in range(D):
            p = 0
            for j in range(1, n):
                for i in range(j):
                    mean_MD[first + i, d] += z[d, p] / n
                    mean_MD[first + j, d] -= z[d, p] / n
                    p += 1


@jit
def largest_size(starts: Any) -> int:
    """Rollouts in the largest group."""
    largest = 0
    for g in range(starts.shape[0] - 1):
        largest = max(largest, starts[g + 1] - starts[g])
    return largest


# ----------------------------------------------------------------------------------------------------------- outcomes


@jit
def _scored(scores_MK: Any, first: int, n: int, lane: int, k: int, margin: float, target: Any, compared: Any) -> None:
    """What scores on criterion k say about each pair, into one lane."""
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
def _observed(outcomes_C: Any, at: int, pairs: int, lane: int, target: Any, compared: Any) -> None:
    """What was observed by comparing, into one lane."""
    for p in range(pairs):
        outcome = outcomes_C[at + p]
        known = outcome == outcome
        target[p, lane] = outcome if known else 0.5
        compared[p, lane] = known


@jit
def gather(data: Any, jobs: Any, begin: int, count: int, held: Any, scratch: Any, z: Any, seen: Any) -> None:
    """Outcomes and contrasts of a block's jobs, each in its lane; lanes past the last job stay empty.

    `scratch` has the contrasts of group `held[0]`: neighbouring blocks share groups.
    """
    scores_MK, starts, margins, attributes_DM, scale_D, cell_NK, outcomes_C = data
    target, compared = seen
    n = starts[jobs[begin, 0] + 1] - starts[jobs[begin, 0]]
    pairs = n * (n - 1) // 2
    for lane in range(LANES):
        if lane < count:
            group, k = jobs[begin + lane, 0], jobs[begin + lane, 1]
            if group != held[0]:
                contrasts(attributes_DM, scale_D, starts[group], n, scratch)
                held[0] = group
            if cell_NK.shape[0] > 0 and cell_NK[group, k] >= 0:
                _observed(outcomes_C, cell_NK[group, k], pairs, lane, target, compared)
            else:
                margin = margins[group if margins.shape[0] > 1 else 0, k]
                _scored(scores_MK, starts[group], n, lane, k, margin, target, compared)
        else:
            compared[:pairs, lane] = 0.0
            target[:pairs, lane] = 0.5
        for d in range(attributes_DM.shape[0]):
            for p in range(pairs):
                z[_index(d * pairs + p), _index(lane)] = scratch[_index(d), _index(p)]


@jit
def start_block(starts: Any, jobs: Any, begin: int, count: int, u_MK: Any, u: Any) -> int:
    """The utilities that a block starts from, each job's in its lane; returns the size of its groups."""
    n = starts[jobs[begin, 0] + 1] - starts[jobs[begin, 0]]
    u[:, :] = 0.0
    for lane in range(count):
        first, k = starts[jobs[begin + lane, 0]], jobs[begin + lane, 1]
        for i in range(n):
            u[i, lane] = u_MK[first + i, k]
    return int(n)


@jit
def block_size(jobs: Any, starts: Any, begin: int) -> int:
    """How many jobs from `begin` on go into one block: at most LANES, all from groups of one size."""
    n = starts[jobs[begin, 0] + 1] - starts[jobs[begin, 0]]
    count = 1
    while count < LANES and begin + count < jobs.shape[0]:
        g = jobs[begin + count, 0]
        if starts[g + 1] - starts[g] != n:
            break
        count += 1
    return count


# -------------------------------------------------------------------------------------------------------- derivatives


@jit
def residuals(link: int, n: int, D: int, z: Any, seen: Any, u: Any, gamma: Any, residual: Any, weight: Any) -> None:
    """Slope and minus the curvature of every pair's likelihood; 0 where the pair was not compared."""
    if link == PROBIT:
        _probit_residuals(n, D, z, seen, u, gamma, residual, weight)
        return
    target, compared = seen
    one = splat(1.0)
    pairs = n * (n - 1) // 2
    p = 0
    for j in range(1, n):
        u_j = load(u, j)
        for i in range(j):
            minus_e = u_j - load(u, i)
            for d in range(D):
                minus_e = minus_product(minus_e, load(gamma, d), load(z, d * pairs + p))
            probability = one / (one + exponential(minus_e))
            known = load(compared, p)
            store(residual, p, known * (load(target, p) - probability))
            store(weight, p, known * probability * (one - probability))
            p += 1


@jit
def _probit_residuals(n: int, D: int, z: Any, seen: Any, u: Any, gamma: Any, residual: Any, weight: Any) -> None:
    target, compared = seen
    pairs = n * (n - 1) // 2
    p = 0
    for j in range(1, n):
        for i in range(j):
            for lane in range(LANES):
                residual[p, lane], weight[p, lane] = 0.0, 0.0
                if compared[p, lane] > 0.0:
                    e = u[i, lane] - u[j, lane]
                    for d in range(D):
                        e += gamma[d, lane] * z[d * pairs + p, lane]
                    won, lost = target[p, lane], 1.0 - target[p, lane]
                    up, down = hazard(e), hazard(-e)
                    residual[p, lane] = won * up - lost * down
                    weight[p, lane] = won * up * (e + up) + lost * down * (down - e)
            p += 1


@jit
def gradient(
    n: int, D: int, z: Any, residual: Any, u: Any, gamma: Any, prior: float, attribute_prior: float, g: Any
) -> None:
    """First derivatives: by the utilities, then by the coefficients."""
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
def hessian(n: int, D: int, z: Any, weight: Any, weighted: Any, prior: float, attribute_prior: float, h: Any) -> None:
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
        products(d, pairs, z, weighted, h, row + n)
        store(h, row + n + d, load(h, row + n + d) + splat(attribute_prior))
