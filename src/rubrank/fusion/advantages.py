"""How far the criteria agree: advantages on the scale of utilities, and errors from criteria as replicates.

    eight rollouts, two criteria of weight 1 that order them alike      A = 2u / (0.89 · √2): up to ±2.1
    the same two, one upside down                                       A = 0: nothing is amplified

Group standardisation gives a noisy tie-break the gradient of a unanimous verdict. Here

    A_i = (u_i − ū) / (s_ref · √Σ w²)      over the criteria that the group is asked; s_ref: sd of a strict order

is bounded and needs no further scaling. Behind a gate a stopped rollout stands `lift/(1 − lift)` of a strict order's
span below the worst that passed, and the soft factor draws the others towards that place.

    error_i   = √( K/(K−1) Σ_k (w_k u_ki − mean)² )      of the sum over K criteria that tell rollouts apart
    agreement = max(0, 1 − MS_residual / MS_rollouts)     of the table rollouts × criteria; 1 = all say the same

Real trade-offs between criteria count as disagreement too: a group is not to be dropped for it blindly.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rubrank.scores.batch import ScoreBatch

if TYPE_CHECKING:
    from rubrank.fusion.gate import Gate, GateResult


class Reference(NamedTuple):
    """A strict order of a group's size."""

    sd: float
    span: float


@lru_cache(maxsize=512)
def reference(model: Any, prior: float, size: int) -> Reference:
    """Spread of the utilities of a strict order; (1, 1) for a single rollout."""
    if size < 2:
        return Reference(1.0, 1.0)
    wins = np.tril(np.ones((size, size)), -1)
    u = np.asarray(model.fit(wins, np.full(size, prior)))
    return Reference(float(u.std()), float(np.ptp(u)))


def unit_of(batch: ScoreBatch, weights_NK: np.ndarray, model: Any, prior: float) -> np.ndarray:
    """(N,): s_ref · √Σ w² of every group."""
    asked = np.where(batch.asked_NK, weights_NK, 0.0)
    norm = np.sqrt((asked * asked).sum(1))
    sd = np.array([reference(model, prior, int(n)).sd for n in batch.sizes])
    return np.where(norm > 0.0, sd * norm, 1.0)


def advantages(fused_M: np.ndarray, batch: ScoreBatch, unit_N: np.ndarray) -> np.ndarray:
    """(M,): (u − ū) / unit."""
    return centred(fused_M / unit_N[batch.group_of_row], batch)


def centred(values_M: np.ndarray, batch: ScoreBatch) -> np.ndarray:
    """Minus the mean of the group."""
    if not batch.N:
        return values_M
    mean = np.add.reduceat(values_M, batch.starts[:-1]) / batch.sizes
    return np.asarray(values_M - mean[batch.group_of_row])


def gated_advantages(
    value_M: np.ndarray, batch: ScoreBatch, gate: Gate, gated: GateResult, span_N: np.ndarray
) -> np.ndarray:
    """(M,): advantages behind a gate; span_N: a strict order's span on their scale."""
    if not batch.N:
        return value_M
    lift = gate.lift or 0.0
    worst = np.minimum.reduceat(np.where(gated.passed, value_M, np.inf), batch.starts[:-1])
    floor_N = np.where(np.isfinite(worst), worst, 0.0) - lift / (1.0 - lift) * span_N
    floor_M = floor_N[batch.group_of_row]
    inside = np.where(gated.passed, floor_M + gated.factor * (value_M - floor_M), floor_M)
    asked_M = np.asarray(batch.gates_asked_NC.any(1))[batch.group_of_row]
    return centred(np.where(asked_M, inside, value_M), batch)


# ---------------------------------------------------------------------------------------------------- agreement


def errors(parts_MK: np.ndarray, telling_NK: np.ndarray, batch: ScoreBatch) -> np.ndarray:
    """(M,): standard error of the weighted sum, NaN where fewer than two criteria tell rollouts apart."""
    told = telling_NK[batch.group_of_row]
    count = told.sum(1)
    mean = np.where(told, parts_MK, 0.0).sum(1) / np.maximum(count, 1)
    square = np.where(told, (parts_MK - mean[:, None]) ** 2, 0.0).sum(1)
    scale = count / np.maximum(count - 1, 1)
    return np.where(count > 1, np.sqrt(scale * square), np.nan)


def agreement(parts_MK: np.ndarray, telling_NK: np.ndarray, batch: ScoreBatch) -> np.ndarray:
    """(N,): how far the criteria say the same about a group, from 0 to 1; NaN where fewer than two say anything."""
    if not batch.N:
        return np.zeros(0)
    at, sizes, told = batch.starts[:-1], batch.sizes, telling_NK[batch.group_of_row]
    K = telling_NK.sum(1)
    parts = np.where(told, parts_MK, 0.0)
    by_rollout = parts.sum(1) / np.maximum(K, 1)[batch.group_of_row]
    by_criterion = np.add.reduceat(parts, at, axis=0) / sizes[:, None]
    overall = np.add.reduceat(by_rollout, at) / sizes
    between = K * np.add.reduceat((by_rollout - overall[batch.group_of_row]) ** 2, at)
    fitted = by_rollout[:, None] + (by_criterion - overall[:, None])[batch.group_of_row]
    residual = np.add.reduceat(np.where(told, (parts - fitted) ** 2, 0.0).sum(1), at)
    usable = (K > 1) & (sizes > 1)
    ratio = np.divide(residual, np.maximum(K - 1, 1) * between, out=np.full(batch.N, np.inf), where=between > 1e-18)
    return np.where(usable, np.maximum(0.0, 1.0 - ratio), np.nan)
