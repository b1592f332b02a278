"""The order in which a run takes its prompts: shares, stages, passes, seed."""

from __future__ import annotations

import numpy as np
import pytest

from rubrank.training.job.data import MixStage, lay_out


def counts(order: np.ndarray, sizes: list[int]) -> list[int]:
    """Rows taken of each source."""
    return np.bincount(np.searchsorted(np.cumsum(sizes), order, side="right"), minlength=len(sizes)).tolist()


@pytest.mark.parametrize(
    "shares", [(0.7, 0.3), (0.5, 0.25, 0.25), (0.9, 0.05, 0.05), (1 / 3, 1 / 3, 1 / 3), (0.999, 0.001)]
)
def test_every_moment_has_the_shares(shares):
    sizes = [50] * len(shares)
    order = lay_out([MixStage(40, tuple(range(len(shares))), shares)], sizes, batch=8, seed=3)
    assert len(order) == 320
    for batches in range(1, 41):
        had = np.array(counts(order[: batches * 8], sizes))
        assert np.abs(had - np.array(shares) * batches * 8).max() < len(shares)


def test_all_rows_come_before_any_comes_again():
    order = lay_out([MixStage(6, (0, 1), (0.5, 0.5))], [6, 100], batch=4, seed=0)
    small = [row for row in order.tolist() if row < 6]
    assert len(small) == 12
    assert sorted(small[:6]) == sorted(small[6:]) == list(range(6))
    assert small[:6] != small[6:]  # in another order
    large = [row for row in order.tolist() if row >= 6]
    assert len(set(large)) == len(large)


def test_stages_take_their_own_sources_and_go_on_in_shared_ones():
    parts = [MixStage(2, (0,), (1.0,)), MixStage(2, (1,), (1.0,)), MixStage(1, (0,), (1.0,))]
    order = lay_out(parts, [12, 5], batch=4, seed=1)
    assert counts(order[:8], [12, 5]) == [8, 0]
    assert counts(order[8:16], [12, 5]) == [0, 8]
    assert sorted([*order[:8], *order[16:]]) == list(range(12))  # the third stage takes what the first has left


def test_one_seed():
    def made(seed: int) -> list[int]:
        return lay_out([MixStage(5, (0, 1), (0.6, 0.4))], [20, 20], batch=5, seed=seed).tolist()

    assert made(0) == made(0) != made(1)


def test_sources_stand_in_no_fixed_place_of_a_batch():
    order = lay_out([MixStage(200, (0, 1), (0.5, 0.5))], [10, 10], batch=4, seed=0).reshape(200, 4)
    first = (order < 10).mean(axis=0)
    assert np.all((first > 0.35) & (first < 0.65))
