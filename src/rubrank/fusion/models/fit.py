"""Utilities and coefficients of every group by itself, compiled: exactly as in the paper, eight fits at a time.

For every group and criterion, find utilities u and coefficients γ that maximise the likelihood of `blocks.py`, starting
from the utilities without attributes (γ = 0), by Newton's method. A lane that has converged is frozen, so what a job
gets never depends on its neighbours.

Full steps are not checked against the objective here (that would cost a logarithm a pair). They converge from this
start in practice; a job where they do not is handed to `newton.py`, which halves steps (`tests/fusion/test_fit.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rubrank._jit import jit
from rubrank.fusion.models.algebra import advance, backward, cholesky, forward, largest_magnitude, rows
from rubrank.fusion.models.blocks import block_size, gather, gradient, hessian, largest_size, residuals, start_block
from rubrank.fusion.models.lanes import any_positive, splat, store, where_greater

TOLERANCE = 5e-6  # on a step: the error after it is of the order of its square
ITERATIONS = 40


@jit
def fit_block(
    link: int, n: int, D: int, free: int, z: Any, seen: Any, u: Any, gamma: Any, work: Any, priors: Any
) -> Any:
    """Newton on one block, of D coefficients the first `free` (all, or none); 1 in the lanes that did not converge."""
    residual, weight, weighted, h, g = work
    prior, attribute_prior = priors
    m = n + free
    active = splat(1.0)
    for _ in range(ITERATIONS):
        residuals(link, n, D, z, seen, u, gamma, residual, weight)
        gradient(n, free, z, residual, u, gamma, prior, attribute_prior, g)
        hessian(n, free, z, weight, weighted, prior, attribute_prior, h)
        cholesky(h, m)
        forward(h, g, 0, m)
        backward(h, g, 0, m)
        advance(u, g, 0, n, active)
        advance(gamma, g, n, free, active)
        # `tolerance > step` is false for NaN too, so a lane that broke down stays active and is reported.
        active = where_greater(splat(TOLERANCE), largest_magnitude(g, m), splat(0.0), active)
        if not any_positive(active):
            break
    return active


@jit
def fit_groups(
    link: int, data: Any, jobs: Any, prior: float, attribute_prior: float, u_MK: Any, gamma_NKD: Any, failed: Any
) -> None:
    """Fit each job (row of `jobs`: group, criterion; sorted by the group's size) on its own.

    u_MK comes in as the start and goes out as the result; a job that failed keeps its start.
    """
    starts, D = data[1], data[3].shape[0]
    n_max = largest_size(starts)
    pairs, m = n_max * (n_max - 1) // 2, n_max + D
    seen, z = (rows(pairs), rows(pairs)), rows(D * pairs)
    work = (rows(pairs), rows(pairs), rows(pairs), rows(m * (m + 1) // 2), rows(m))
    u, gamma, trouble = rows(n_max), rows(D), rows(1)
    scratch, held = np.zeros((D, pairs)), np.full(1, -1)
    begin = 0
    while begin < jobs.shape[0]:
        count = block_size(jobs, starts, begin)
        gather(data, jobs, begin, count, held, scratch, z, seen)
        n = start_block(starts, jobs, begin, count, u_MK, u)
        gamma[:, :] = 0.0
        store(trouble, 0, fit_block(link, n, D, D, z, seen, u, gamma, work, (prior, attribute_prior)))
        for lane in range(count):
            g, k = jobs[begin + lane, 0], jobs[begin + lane, 1]
            failed[begin + lane] = trouble[0, lane] > 0.0
            if not failed[begin + lane]:
                for i in range(n):
                    u_MK[starts[g] + i, k] = u[i, lane]
                for d in range(D):
                    gamma_NKD[g, k, d] = gamma[d, lane]
        begin += count


@jit
def add_kept(kept_gamma_NKD: Any, mean_MD: Any, starts: Any, scores_MK: Any, u_MK: Any) -> None:
    """v = u + Σ_d keep·γ·z̃; a rollout that was not scored on a criterion stays at 0 there."""
    for g in range(starts.shape[0] - 1):
        for i in range(starts[g], starts[g + 1]):
            for k in range(u_MK.shape[1]):
                if scores_MK[i, k] == scores_MK[i, k]:
                    total = u_MK[i, k]
                    for d in range(mean_MD.shape[1]):
                        total += kept_gamma_NKD[g, k, d] * mean_MD[i, d]
                    u_MK[i, k] = total
