"""Agreement within groups, against scipy group by group."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from cases import folded
from scipy.stats import kendalltau, spearmanr

from rubrank.records.agreement import (
    compare_rules,
    compute_mean,
    measure_kendall,
    measure_same_sides,
    measure_same_winners,
    measure_spearman,
    rank_rewards,
)

SIZES = [3, 8, 1, 3, 5, 8, 2]
STARTS = np.concatenate([[0], np.cumsum(SIZES)])


def rewards(seed: int, levels: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, levels, STARTS[-1]) / 7.0


@folded("seed", range(6))
@folded(("measure", "oracle"), [(measure_kendall, kendalltau), (measure_spearman, spearmanr)])
def test_against_scipy(seed: int, measure, oracle) -> None:
    a, b = rewards(seed, 4), rewards(seed + 100, 3)
    expected = []
    for first, end in itertools.pairwise(STARTS):
        x, y = a[first:end], b[first:end]
        if np.ptp(x) > 0 and np.ptp(y) > 0:
            expected.append(oracle(x, y).statistic)
    found = measure(rank_rewards(a, STARTS), rank_rewards(b, STARTS))
    assert sorted(found) == pytest.approx(sorted(expected), abs=1e-12)


def test_the_worked_instance() -> None:
    starts = np.array([0, 3])
    one, other = rank_rewards(np.array([0.9, 0.5, 0.5]), starts), rank_rewards(np.array([0.7, 0.1, 0.4]), starts)
    assert measure_kendall(one, other) == pytest.approx([2 / np.sqrt(6)])
    assert measure_same_sides(one, other) == pytest.approx(2 / 3)
    assert measure_same_winners(one, other) == 1.0


def test_rounding_is_a_tie() -> None:
    starts = np.array([0, 3])
    dust = rank_rewards(np.array([0.3, 0.1 + 0.2, 0.9]), starts)
    assert dust.signs[0][0, 0, 1] == 0
    assert dust.side_M.tolist() == [-1, -1, 1]


def test_a_group_of_rounding_is_one_tie() -> None:
    dust = rank_rewards(np.array([0.3, 0.1 + 0.2, 0.3]), np.array([0, 3]))
    assert not dust.signs[0].any()
    assert dust.side_M.tolist() == [0, 0, 0]


def test_groups_without_signal_are_left_out() -> None:
    starts = np.array([0, 2, 4])
    flat, clear = (
        rank_rewards(np.array([1.0, 1.0, 0.0, 1.0]), starts),
        rank_rewards(np.array([0.0, 1.0, 0.0, 1.0]), starts),
    )
    assert measure_kendall(flat, clear).tolist() == [1.0]
    assert measure_same_winners(flat, clear) == 1.0
    assert np.isnan(compute_mean(measure_kendall(*[rank_rewards(np.ones(2), np.array([0, 2]))] * 2)))


def test_matrix_is_symmetric_with_ones() -> None:
    rules = [rank_rewards(rewards(seed, 5), STARTS) for seed in range(3)]
    for measure in ("kendall", "spearman", "signs", "winner"):
        found = compare_rules(rules, measure)
        assert np.diag(found) == pytest.approx(1.0)
        assert found == pytest.approx(found.T)
