"""Utilities given what is taken out, compiled: v = argmax_u of the likelihood with a fixed offset δ·z, eight at a time.

    e_ij = u_i − u_j + δ·z_ij                          a tie between a long and a short one is still a tie

Every job starts from the utilities without attributes, moved by half of what the offset asks for: the answer lies near.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rubrank._jit import jit
from rubrank.fusion.models.algebra import rows
from rubrank.fusion.models.blocks import block_size, gather, largest_size, start_block
from rubrank.fusion.models.fit import fit_block
from rubrank.fusion.models.lanes import LANES, store

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
def refit(link: int, data: Any, jobs: Any, delta_JD: Any, prior: float, u_MK: Any, failed: Any) -> None:
    """Fit each job again with its offset; u_MK goes in without, comes out with. A job that failed keeps its start."""
    starts, D = data[1], data[3].shape[0]
    n_max = largest_size(starts)
    pairs = n_max * (n_max - 1) // 2
    seen, z, offset = (rows(pairs), rows(pairs)), rows(D * pairs), rows(pairs)
    weight = rows(pairs)
    work = (rows(pairs), weight, weight, rows(n_max * (n_max + 1) // 2), rows(n_max))
    u, delta, one, trouble = rows(n_max), rows(D), rows(1), rows(1)
    one[:, :] = 1.0
    scratch, held = np.zeros((D, pairs)), np.full(1, -1)
    begin = 0
    while begin < jobs.shape[0]:
        count = block_size(jobs, starts, begin)
        gather(data, jobs, begin, count, held, scratch, z, seen)
        n = start_block(starts, jobs, begin, count, u_MK, u)
        delta[:, :] = 0.0
        for lane in range(count):
            for d in range(D):
                delta[d, lane] = delta_JD[begin + lane, d]
        _offsets(n, D, z, delta, seen, offset, u)
        store(trouble, 0, fit_block(link, n, 1, 0, offset, seen, u, one, work, (prior, 0.0)))
        for lane in range(count):
            failed[begin + lane] = trouble[0, lane] > 0.0
            if not failed[begin + lane]:
                first, k = starts[jobs[begin + lane, 0]], jobs[begin + lane, 1]
                for i in range(n):
                    u_MK[first + i, k] = u[i, lane]
        begin += count
