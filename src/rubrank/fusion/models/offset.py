"""Utilities given what is taken out, compiled: v = argmax_u of the likelihood with a fixed offset δ·z, eight at a time.

    e_ij = u_i − u_j + δ·z_ij                          a tie between a long and a short one is still a tie

Every job starts from the utilities without attributes, moved by half of what the offset asks for: the answer lies near.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rubrank._jit import jit
from rubrank.fusion.models.algebra import advance, backward, cholesky, forward, largest_magnitude, rows
from rubrank.fusion.models.blocks import block_size, gather, gradient, hessian, largest_size, residuals
from rubrank.fusion.models.fit import ITERATIONS, TOLERANCE
from rubrank.fusion.models.lanes import LANES, any_positive, splat, store, where_greater

_NEAR = 0.5  # of the way from no offset to v = u − δ·z̃; the prior keeps v from going all of it


@jit
def _offsets(n: int, D: int, z: Any, delta: Any, seen: Any, offset: Any, u: Any) -> None:
    """offset_p = δ·z_p; u moves with it where the pair was compared."""
    compared = seen[1]
    pairs = n * (n - 1) // 2
    p = 0
    for j in range(1, n):
        for i in range(j):
            for lane in range(LANES):
                total = 0.0
                for d in range(D):
                    total += delta[d, lane] * z[d * pairs + p, lane]
                offset[p, lane] = total
                u[i, lane] -= _NEAR / n * total * compared[p, lane]
                u[j, lane] += _NEAR / n * total * compared[p, lane]
            p += 1


@jit
def _refit_block(link: int, n: int, offset: Any, seen: Any, u: Any, one: Any, work: Any, prior: float) -> Any:
    """Newton on one block; returns 1 in the lanes that did not converge."""
    residual, weight, h, g = work
    active = splat(1.0)
    for _ in range(ITERATIONS):
        residuals(link, n, 1, offset, seen, u, one, residual, weight)
        gradient(n, 0, offset, residual, u, one, prior, 0.0, g)
        hessian(n, 0, offset, weight, weight, prior, 0.0, h)
        cholesky(h, n)
        forward(h, g, 0, n)
        backward(h, g, 0, n)
        advance(u, g, 0, n, active)
        active = where_greater(splat(TOLERANCE), largest_magnitude(g, n), splat(0.0), active)
        if not any_positive(active):
            break
    return active


@jit
def refit(link: int, data: Any, jobs: Any, delta_JD: Any, prior: float, u_MK: Any, failed: Any) -> None:
    """Fit each job again with its offset; u_MK goes in without, comes out with. A job that failed keeps its start."""
    starts, D = data[1], data[3].shape[0]
    n_max = largest_size(starts)
    pairs = n_max * (n_max - 1) // 2
    seen, z, offset = (rows(pairs), rows(pairs)), rows(D * pairs), rows(pairs)
    work = (rows(pairs), rows(pairs), rows(n_max * (n_max + 1) // 2), rows(n_max))
    u, delta, one, trouble = rows(n_max), rows(D), rows(1), rows(1)
    one[:, :] = 1.0
    scratch, held = np.zeros((D, pairs)), np.full(1, -1)
    begin = 0
    while begin < jobs.shape[0]:
        count = block_size(jobs, starts, begin)
        n = starts[jobs[begin, 0] + 1] - starts[jobs[begin, 0]]
        gather(data, jobs, begin, count, held, scratch, z, seen)
        u[:, :] = 0.0
        delta[:, :] = 0.0
        for lane in range(count):
            first, k = starts[jobs[begin + lane, 0]], jobs[begin + lane, 1]
            for i in range(n):
                u[i, lane] = u_MK[first + i, k]
            for d in range(D):
                delta[d, lane] = delta_JD[begin + lane, d]
        _offsets(n, D, z, delta, seen, offset, u)
        store(trouble, 0, _refit_block(link, n, offset, seen, u, one, work, prior))
        for lane in range(count):
            failed[begin + lane] = trouble[0, lane] > 0.0
            if not failed[begin + lane]:
                first, k = starts[jobs[begin + lane, 0]], jobs[begin + lane, 1]
                for i in range(n):
                    u_MK[first + i, k] = u[i, lane]
        begin += count
