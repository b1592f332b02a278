"""How alike two rules rank the rollouts of each group.

    group of three; one rule says 0.9, 0.5, 0.5, the other 0.7, 0.1, 0.4
    pairs     first > second in both, first > third in both, second ? third: a tie in one        τ-b = 2/√6 = 0.82
    signs     above or below the group's mean: + − −  against  + − =  (0.4 is the mean)            2 of 3 agree

Everything is about one group at a time, as a group-relative trainer is; means are over the groups in which both rules
tell rollouts apart. Differences below 1e-9 of a group's spread are rounding, and count as ties; so is a spread below
1e-9 itself.

Letters: M rollouts, N groups, n rollouts of a group; R rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rubrank.scores.kendall import tau
from rubrank.scores.spread import ROUNDING, SPREAD


@dataclass(frozen=True, eq=False)
class Ordered:
    """The rewards of one rule, group by group: who is above whom."""

    blocks: tuple[np.ndarray, ...]
    """For every size of group: (groups of that size, n, n), the sign of row minus column."""
    signs_M: np.ndarray
    """Above (1), at (0) or below (−1) the mean of its group."""
    best: tuple[np.ndarray, ...]
    """For every size: (groups of that size, n), which rollouts are not beaten."""


def by_size(starts: np.ndarray) -> list[np.ndarray]:
    """For every size of group: the rows of its groups, (groups of that size, n)."""
    sizes = np.diff(starts)
    return [starts[:-1][sizes == n][:, None] + np.arange(n) for n in np.unique(sizes)]


def ordered(reward_M: np.ndarray, starts: np.ndarray) -> Ordered:
    """Who is above whom, and who above the mean."""
    signs_M, blocks, best = np.zeros(len(reward_M), np.int8), [], []
    for rows in by_size(starts):
        reward = reward_M[rows]
        spread = np.ptp(reward, axis=1, keepdims=True)
        slack = np.where(spread < SPREAD, np.inf, ROUNDING * spread)
        difference = reward[:, :, None] - reward[:, None, :]
        sign = np.sign(difference) * (np.abs(difference) > slack[:, :, None])
        around = reward - reward.mean(1, keepdims=True)
        signs_M[rows] = np.sign(around) * (np.abs(around) > slack)
        blocks.append(sign.astype(np.int8))
        best.append((sign >= 0).all(2))
    return Ordered(tuple(blocks), signs_M, tuple(best))


def kendall_by_group(a: Ordered, b: Ordered) -> np.ndarray:
    """τ-b of every group in which both tell rollouts apart; groups sorted by size."""
    return np.concatenate([tau((x * y).sum((1, 2)), _pairs_told(x), _pairs_told(y)) for x, y in _both(a, b)])


def spearman_by_group(a: Ordered, b: Ordered) -> np.ndarray:
    """ρ of every group, likewise: the correlation of ranks, which are sums of signs."""
    return np.concatenate([_cosine(x.sum(2, dtype=float), y.sum(2, dtype=float)) for x, y in _both(a, b)])


def same_signs(a: Ordered, b: Ordered) -> float:
    """The share of rollouts that both rules put on the same side of their group's mean."""
    return float((a.signs_M == b.signs_M).mean()) if len(a.signs_M) else float("nan")


def same_winner(a: Ordered, b: Ordered) -> float:
    """The share of groups in which a rollout is best under both rules; of those in which both tell rollouts apart."""
    found = [
        (x & y).any(1)[_tells(s) & _tells(t)] for x, y, s, t in zip(a.best, b.best, a.blocks, b.blocks, strict=True)
    ]
    hits = np.concatenate(found) if found else np.zeros(0)
    return float(hits.mean()) if len(hits) else float("nan")


def mean(values: np.ndarray) -> float:
    """The mean; NaN of nothing, without a warning."""
    return float(values.mean()) if len(values) else float("nan")


def matrix(rules: Sequence[Ordered], measure: str) -> np.ndarray:
    """(R, R): a measure of every pair of rules."""
    measures = {
        "kendall": lambda a, b: mean(kendall_by_group(a, b)),
        "spearman": lambda a, b: mean(spearman_by_group(a, b)),
        "signs": same_signs,
        "winner": same_winner,
    }
    of = measures[measure]
    return np.array([[of(a, b) for b in rules] for a in rules])


def _both(a: Ordered, b: Ordered) -> list[tuple[np.ndarray, np.ndarray]]:
    pairs = []
    for x, y in zip(a.blocks, b.blocks, strict=True):
        some = _tells(x) & _tells(y)
        pairs.append((x[some], y[some]))
    return pairs or [(np.zeros((0, 1, 1)), np.zeros((0, 1, 1)))]


def _tells(sign: np.ndarray) -> np.ndarray:
    return np.asarray(sign.any((1, 2)))


def _pairs_told(sign: np.ndarray) -> np.ndarray:
    return np.asarray(np.abs(sign).sum((1, 2)))


def _cosine(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    x, y = x.astype(float), y.astype(float)
    return np.asarray((x * y).sum(1) / np.sqrt((x * x).sum(1) * (y * y).sum(1)))
