"""Effective weights of rules that do not report any: how the criteria explain the rewards within groups.

Rewards and scores are taken around the mean of their group; the share of criterion k is β_k · cov(s_k, R) / var(R),
with β by least squares over all groups (the measure of `rubrank replay`). Only sums of products are kept.
"""

from __future__ import annotations

import numpy as np

from rubrank.records.report.grouped import Grouped

_MOST = 300  # criteria; with thousands of rubrics of their own no regression would mean anything


class SharesPart:
    """Sums of products of the ranked criteria's scores and the ranking."""

    def __init__(self) -> None:
        self.number: dict[str, int] = {}
        self.products, self.with_reward, self.variance = np.zeros((16, 16)), np.zeros(16), 0.0

    def add(self, group: Grouped) -> None:
        """Count a group in."""
        if len(self.number) > _MOST or not group.record.size:
            return
        at = [self.number.setdefault(name, len(self.number)) for name in group.names[: group.K]]
        self._grow()
        scores, reward = _centred(group.scores[:, : group.K]), group.ranking - group.ranking.mean()
        self.products[np.ix_(at, at)] += scores.T @ scores
        self.with_reward[at] += scores.T @ reward
        self.variance += float(reward @ reward)

    def result(self) -> dict[str, float]:
        """Criterion → share; empty without groups, or with too many criteria."""
        K = len(self.number)
        if not 0 < K <= _MOST or not self.variance > 0.0:
            return {}
        spread = np.sqrt(np.diag(self.products)[:K])
        used = np.flatnonzero(spread > 1e-12 * max(1.0, spread.max()))
        scale = spread[used]
        correlated = self.products[np.ix_(used, used)] / np.outer(scale, scale)
        covariance = self.with_reward[used] / scale
        slope = np.linalg.lstsq(correlated, covariance, rcond=None)[0]
        shares = np.zeros(K)
        shares[used] = slope * covariance / self.variance
        return dict(zip(self.number, shares.tolist(), strict=True))

    def _grow(self) -> None:
        if len(self.number) > len(self.with_reward):
            more = 2 * len(self.number) - len(self.with_reward)
            self.products = np.pad(self.products, (0, more))
            self.with_reward = np.pad(self.with_reward, (0, more))


def _centred(scores: np.ndarray) -> np.ndarray:
    """Around the mean of the group; what is missing counts as that mean."""
    known = ~np.isnan(scores)
    mean = np.where(known, scores, 0.0).sum(0) / np.maximum(known.sum(0), 1)
    return np.where(known, scores - mean, 0.0)
