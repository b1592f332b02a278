"""Measure how much two rules agree about the order of the rollouts within each group.

    a group of three rollouts; the rewards are 0.9, 0.5, 0.5 by one rule and 0.7, 0.1, 0.4 by the other

    kendall   of pairs: first > second in both, first > third in both, second ? third: a tie in one    2/√6 = 0.82
    spearman  of ranks: 2, −1, −1  against  2, −2, 0                                                   6/√48 = 0.87
    winner    the first is best in both                                                                1
    signs     above or below the group's mean: + − −  against  + − =  (0.4 is the mean)                2 of 3 agree

Rules are compared within groups, because a group-relative trainer only uses differences within a group. `signs` is a
mean over all rollouts. The other means are over the groups in which both rules tell rollouts apart ("have a signal").
Differences below 1e-9 of a group's spread come from rounding and count as ties; if the spread itself is below 1e-9, the
whole group is tied.

Letters: M rollouts, N groups, n rollouts of a group; R rules; a, b two rules, x, y their signs of pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rubrank.scores.spread import ROUNDING, SPREAD, compute_tau_b


@dataclass(frozen=True, eq=False)
class RankedRewards:
    """Which rollout is above which under one rule. Groups of the same size are stored in one array."""

    signs: tuple[np.ndarray, ...]
    """For every size n: (groups of that size, n, n), the sign of row minus column."""
    side_M: np.ndarray
    """Above (1), at (0) or below (−1) the mean of its group."""


def rank_rewards(reward_M: np.ndarray, starts: np.ndarray) -> RankedRewards:
    """Compare all rollouts of each group with each other and with the group's mean.

    starts: (N + 1,), the first row of each group, and the number of rows.
    """
    side_M = np.zeros(len(reward_M), np.int8)
    all_signs = []
    for rows in find_rows_by_size(starts):
        reward = reward_M[rows]  # (groups of this size, n)
        spread = np.ptp(reward, axis=1, keepdims=True)
        # In a group without spread no difference counts.
        tolerance = np.where(spread < SPREAD, np.inf, ROUNDING * spread)
        difference = reward[:, :, None] - reward[:, None, :]
        is_different = np.abs(difference) > tolerance[:, :, None]
        signs = np.sign(difference) * is_different
        from_mean = reward - reward.mean(1, keepdims=True)
        is_off_mean = np.abs(from_mean) > tolerance
        side_M[rows] = np.sign(from_mean) * is_off_mean
        all_signs.append(signs.astype(np.int8))
    return RankedRewards(tuple(all_signs), side_M)


def find_rows_by_size(starts: np.ndarray) -> list[np.ndarray]:
    """Return, for every size n of group, the rows of the groups of that size: an array (groups, n)."""
    sizes = np.diff(starts)
    rows = []
    for n in np.unique(sizes):
        first_rows = starts[:-1][sizes == n]
        rows.append(first_rows[:, None] + np.arange(n))
    return rows


def measure_kendall(a: RankedRewards, b: RankedRewards) -> np.ndarray:
    """Return τ-b of every group in which both rules tell rollouts apart; groups are sorted by size."""
    taus = []
    for x, y in _select_groups_with_signal(a, b):
        agreement = (x * y).sum((1, 2))  # pairs in the same order minus pairs in the opposite order
        decided_by_x = np.abs(x).sum((1, 2))  # pairs that are not tied
        decided_by_y = np.abs(y).sum((1, 2))
        taus.append(compute_tau_b(agreement, decided_by_x, decided_by_y))
    return np.concatenate(taus)


def measure_spearman(a: RankedRewards, b: RankedRewards) -> np.ndarray:
    """Return Spearman's ρ, the correlation of ranks, of the same groups in the same order."""
    correlations = []
    for x, y in _select_groups_with_signal(a, b):
        # Rollouts below minus rollouts above: a rank (ties share one) whose mean is 0, as a correlation needs it.
        x_ranks = x.sum(2, dtype=float)
        y_ranks = y.sum(2, dtype=float)
        product_of_norms = np.sqrt((x_ranks * x_ranks).sum(1) * (y_ranks * y_ranks).sum(1))
        correlations.append((x_ranks * y_ranks).sum(1) / product_of_norms)
    return np.concatenate(correlations)


def measure_same_sides(a: RankedRewards, b: RankedRewards) -> float:
    """Return the share of rollouts that both rules put on the same side of their group's mean."""
    return compute_mean(a.side_M == b.side_M)


def measure_same_winners(a: RankedRewards, b: RankedRewards) -> float:
    """Return the share of groups in which a rollout is best under both rules, of those in which both have a signal."""
    hits = []
    for x, y in _select_groups_with_signal(a, b):
        is_best_in_both = np.all((x >= 0) & (y >= 0), axis=2)  # no other rollout beats it
        hits.append(is_best_in_both.any(axis=1))
    return compute_mean(np.concatenate(hits))


_MEASURES: dict[str, Callable[[RankedRewards, RankedRewards], float]] = {
    "kendall": lambda a, b: compute_mean(measure_kendall(a, b)),
    "spearman": lambda a, b: compute_mean(measure_spearman(a, b)),
    "signs": measure_same_sides,
    "winner": measure_same_winners,
}


def compare_rules(rules: Sequence[RankedRewards], measure: str) -> np.ndarray:
    """Return (R, R): the measure of every pair of rules. measure: "kendall", "spearman", "signs" or "winner"."""
    compute = _MEASURES[measure]
    return np.array([[compute(a, b) for b in rules] for a in rules])


def compute_mean(values: np.ndarray) -> float:
    """Return the mean; NaN if there are no values, without NumPy's warning."""
    return float(values.mean()) if len(values) else float("nan")


def _select_groups_with_signal(
    a: RankedRewards, b: RankedRewards
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the signs under both rules of the groups in which both tell rollouts apart, size by size."""
    pairs = []
    for x, y in zip(a.signs, b.signs, strict=True):
        both = x.any((1, 2)) & y.any((1, 2))
        pairs.append((x[both], y[both]))
    # Without any group, one empty array of each, so that results can be concatenated.
    return pairs or [(np.zeros((0, 1, 1)), np.zeros((0, 1, 1)))]
