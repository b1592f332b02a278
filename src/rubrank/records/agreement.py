"""How much two rules agree about the order of the rollouts within each group.

    group of three; one rule says 0.9, 0.5, 0.5, the other 0.7, 0.1, 0.4
    pairs     first > second in both, first > third in both, second ? third: a tie in one        τ-b = 2/√6 = 0.82
    signs     above or below the group's mean: + − −  against  + − =  (0.4 is the mean)            2 of 3 agree

Rules are compared within groups, because a group-relative trainer only uses differences within a group. Means are over
the groups in which both rules tell rollouts apart. Differences below 1e-9 of a group's spread come from rounding and
count as ties; if the spread itself is below 1e-9, the whole group is tied.

Letters: M rollouts, N groups, n rollouts of a group; R rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rubrank.scores.kendall import tau
from rubrank.scores.spread import ROUNDING, SPREAD


@dataclass(frozen=True, eq=False)
class RankedRewards:
    """Which rollout is above which under one rule. Groups of the same size are stored in one array."""

    signs: tuple[np.ndarray, ...]
    """For every size n: (groups of that size, n, n), the sign of row minus column."""
    best: tuple[np.ndarray, ...]
    """For every size n: (groups of that size, n), the rollouts that no other beats."""
    side_M: np.ndarray
    """Above (1), at (0) or below (−1) the mean of its group."""


def rank_rewards(reward_M: np.ndarray, starts: np.ndarray) -> RankedRewards:
    """Compare all rollouts of each group with each other and with the group's mean. starts: (N + 1,) first rows."""
    side_M = np.zeros(len(reward_M), np.int8)
    all_signs = []
    all_best = []
    for rows in rows_by_size(starts):
        reward = reward_M[rows]
        spread = np.ptp(reward, axis=1, keepdims=True)
        tolerance = np.where(spread < SPREAD, np.inf, ROUNDING * spread)
        difference = reward[:, :, None] - reward[:, None, :]
        signs = np.sign(difference) * (np.abs(difference) > tolerance[:, :, None])
        from_mean = reward - reward.mean(1, keepdims=True)
        side_M[rows] = np.sign(from_mean) * (np.abs(from_mean) > tolerance)
        all_signs.append(signs.astype(np.int8))
        all_best.append((signs >= 0).all(2))
    return RankedRewards(tuple(all_signs), tuple(all_best), side_M)


def rows_by_size(starts: np.ndarray) -> list[np.ndarray]:
    """For every size of group: the rows of its groups, (groups of that size, n)."""
    sizes = np.diff(starts)
    return [starts[:-1][sizes == n][:, None] + np.arange(n) for n in np.unique(sizes)]


def kendall_by_group(a: RankedRewards, b: RankedRewards) -> np.ndarray:
    """τ-b of every group in which both rules tell rollouts apart; groups are sorted by size."""
    taus = []
    for x, y in _pairs_with_signal(a, b):
        decided_by_x = np.abs(x).sum((1, 2))
        decided_by_y = np.abs(y).sum((1, 2))
        taus.append(tau((x * y).sum((1, 2)), decided_by_x, decided_by_y))
    return np.concatenate(taus)


def spearman_by_group(a: RankedRewards, b: RankedRewards) -> np.ndarray:
    """Spearman's ρ of the same groups: the correlation of ranks, which are sums of signs."""
    correlations = []
    for x, y in _pairs_with_signal(a, b):
        x_ranks = x.sum(2, dtype=float)
        y_ranks = y.sum(2, dtype=float)
        lengths = np.sqrt((x_ranks * x_ranks).sum(1) * (y_ranks * y_ranks).sum(1))
        correlations.append((x_ranks * y_ranks).sum(1) / lengths)
    return np.concatenate(correlations)


def share_of_same_sides(a: RankedRewards, b: RankedRewards) -> float:
    """The share of rollouts that both rules put on the same side of their group's mean."""
    return mean_or_nan(a.side_M == b.side_M)


def share_of_same_winners(a: RankedRewards, b: RankedRewards) -> float:
    """The share of groups in which a rollout is best under both rules, of those in which both have a signal."""
    hits = [np.zeros(0, dtype=bool)]
    for a_best, b_best, x, y in zip(a.best, b.best, a.signs, b.signs, strict=True):
        same_winner = (a_best & b_best).any(1)
        hits.append(same_winner[_has_signal(x) & _has_signal(y)])
    return mean_or_nan(np.concatenate(hits))


_MEASURES: dict[str, Callable[[RankedRewards, RankedRewards], float]] = {
    "kendall": lambda a, b: mean_or_nan(kendall_by_group(a, b)),
    "spearman": lambda a, b: mean_or_nan(spearman_by_group(a, b)),
    "signs": share_of_same_sides,
    "winner": share_of_same_winners,
}


def compare_rules(rules: Sequence[RankedRewards], measure: str) -> np.ndarray:
    """(R, R): a measure of every pair of rules. measure: "kendall", "spearman", "signs" or "winner"."""
    compute = _MEASURES[measure]
    return np.array([[compute(a, b) for b in rules] for a in rules])


def mean_or_nan(values: np.ndarray) -> float:
    """The mean; NaN of nothing, without a warning."""
    return float(values.mean()) if len(values) else float("nan")


def _pairs_with_signal(a: RankedRewards, b: RankedRewards) -> list[tuple[np.ndarray, np.ndarray]]:
    """The signs of the groups in which both rules tell rollouts apart, size by size."""
    pairs = []
    for x, y in zip(a.signs, b.signs, strict=True):
        both = _has_signal(x) & _has_signal(y)
        pairs.append((x[both], y[both]))
    return pairs or [(np.zeros((0, 1, 1)), np.zeros((0, 1, 1)))]


def _has_signal(signs: np.ndarray) -> np.ndarray:
    """For each group: does the rule tell any rollouts apart?"""
    return np.asarray(signs.any((1, 2)))
