"""Outcomes, from the definition: 1 if ahead by more than the margin, 0 if behind by more, else 0.5."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubrank.scores.outcomes import outcomes

NAN = np.nan


def test_the_table_in_the_docstring():
    expected = [[0.5, 1, 0.5], [0, 0.5, 0], [0.5, 1, 0.5]]
    np.testing.assert_array_equal(outcomes([[1.0], [0.2], [0.9]], 0.15)[:, :, 0], expected)


def test_without_a_margin_every_difference_counts():
    one_ulp = np.nextafter(0.5, 1.0)
    expected = [[0.5, 0, 0.5], [1, 0.5, 1], [0.5, 0, 0.5]]
    np.testing.assert_array_equal(outcomes([[0.5], [one_ulp], [0.5]])[:, :, 0], expected)


def test_a_difference_of_exactly_the_margin_is_a_tie():
    np.testing.assert_array_equal(outcomes([[3.0], [1.0]], 2.0)[:, :, 0], [[0.5, 0.5], [0.5, 0.5]])
    np.testing.assert_array_equal(outcomes([[3.0], [1.0]], 1.99)[:, :, 0], [[0.5, 1], [0, 0.5]])


def test_a_margin_for_each_criterion():
    result = outcomes([[1, 1], [0, 0]], [1, 0.5])
    assert result.shape == (2, 2, 2)
    np.testing.assert_array_equal(result[0, 1], [0.5, 1])


def test_a_missing_score_is_compared_with_nobody():
    result = outcomes([[1], [NAN], [0]])[:, :, 0]
    np.testing.assert_array_equal(result, [[0.5, NAN, 1], [NAN, NAN, NAN], [0, NAN, 0.5]])


def test_a_group_of_one_and_of_none():
    np.testing.assert_array_equal(outcomes([[7, NAN]]), [[[0.5, NAN]]])
    assert outcomes(np.zeros((0, 3))).shape == (0, 0, 3)


def test_margins_of_another_length_are_refused():
    with pytest.raises(ValueError, match=r"broadcast|margins"):
        outcomes([[1, 2], [3, 4]], [1, 2, 3])


def naive(a: float, b: float, margin: float) -> float:
    if a != a or b != b:
        return NAN
    return 1.0 if a - b > margin else 0.0 if b - a > margin else 0.5


score = st.one_of(st.integers(0, 4).map(float), st.floats(-1e6, 1e6), st.just(NAN))


@settings(deadline=None, derandomize=True)
@given(st.lists(score, min_size=1, max_size=7), st.sampled_from([0.0, 0.5, 1.0, 1e3]))
def test_every_pair_by_the_definition(scores, margin):
    result = outcomes(np.array(scores)[:, None], margin)[:, :, 0]
    expected = [[naive(a, b, margin) for b in scores] for a in scores]
    np.testing.assert_array_equal(result, expected)
    seen = ~np.isnan(result)
    np.testing.assert_array_equal((result + result.T)[seen], np.ones(seen.sum()))
