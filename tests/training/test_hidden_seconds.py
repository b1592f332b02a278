"""Seconds of judging that are hidden behind generation: those in which something was really under way."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from rubrank.training.barrier import count_covered_seconds

SPANS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)).map(sorted))


@given(SPANS, st.integers(0, 25))
def test_seconds_are_counted_once_and_only_before_the_end(spans, end):
    seconds = {at for begun, ended in spans for at in range(begun, min(ended, end))}
    assert count_covered_seconds(spans, end) == len(seconds)


def test_what_goes_on_counts_up_to_the_end():
    assert count_covered_seconds([[1.0, math.inf], [0.0, 0.5]], 3.0) == 2.5
    assert count_covered_seconds([[5.0, math.inf]], 3.0) == 0.0
    assert count_covered_seconds([], 3.0) == 0.0
