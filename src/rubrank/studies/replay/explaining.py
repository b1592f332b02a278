"""What moves a rule: the share of each criterion in its rewards, and its rewards without one.

    reward = 0.8 · Facts + 0.2 · Style within every group, both of the same spread and independent
    effective weights       Facts 0.94, Style 0.06: shares of the variance, 0.8² to 0.2²

The rewards are explained by the criteria's scores, both taken around the mean of their group, by least squares; the
share of criterion k is β_k · cov(s_k, R) / var(R). Shares add up to what the criteria explain together (1 for a
weighted mean, less where gates, ranks or products come in), and may be negative where criteria work against each
other.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rubrank.scores.batch import ScoreBatch


def effective_weights(reward_M: np.ndarray, batch: ScoreBatch) -> np.ndarray:
    """(K,): each criterion's share of the variance of the rewards within groups."""
    scores = _around_group_mean(batch.unit_MK, batch)
    reward = _around_group_mean(reward_M[:, None], batch)[:, 0]
    variance = reward @ reward
    if not variance > 0.0:
        return np.zeros(batch.K)
    spread = np.sqrt((scores * scores).sum(0))
    used = spread > 1e-12 * max(1.0, spread.max(initial=0.0))
    shares = np.zeros(batch.K)
    scaled = scores[:, used] / spread[used]
    slope = np.linalg.lstsq(scaled, reward, rcond=None)[0]
    shares[used] = slope * (scaled.T @ reward) / variance
    return shares


def without(batch: ScoreBatch, k: int) -> ScoreBatch:
    """The batch as if criterion k had never been scored."""
    scores = batch.scores_MK.copy()
    scores[:, k] = np.nan
    return replace(batch, scores_MK=scores, outcomes={at: won for at, won in batch.outcomes.items() if at[1] != k})


def _around_group_mean(values_MK: np.ndarray, batch: ScoreBatch) -> np.ndarray:
    """Values minus the mean of their group; what is missing counts as that mean."""
    known = ~np.isnan(values_MK)
    total = np.add.reduceat(np.where(known, values_MK, 0.0), batch.starts[:-1], axis=0)
    count = np.add.reduceat(known, batch.starts[:-1], axis=0)
    mean = (total / np.maximum(count, 1))[batch.group_of_row]
    return np.where(known, values_MK - mean, 0.0)
