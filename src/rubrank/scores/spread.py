"""Find groups whose values are all equal, and compare rankings: one definition for rules, gates, records and studies.

values 0.5, 0.5, 0.5 + 1e-12      no signal: they differ by less than 1e-9, which is rounding

>>> float(compute_tau_b(4, 6, 6))       # 5 of 6 pairs in the same order, 1 in the opposite order, no ties
0.6666666666666666
"""

from __future__ import annotations

import numpy as np

SPREAD = 1e-9
"""If the values of a group span less than this, they count as equal: the group has no signal."""

ROUNDING = 1e-9
"""When rankings are compared, differences below this share of a group's spread count as ties."""


def find_no_signal(values_M: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return (N,) whether all values of a group are equal; group g is rows starts[g] .. starts[g + 1]."""
    first_rows = starts[:-1]
    if not len(first_rows):
        return np.zeros(0, bool)
    spread = np.maximum.reduceat(values_M, first_rows) - np.minimum.reduceat(values_M, first_rows)
    return np.asarray(spread < SPREAD)


def stretch_groups(
    values_M: np.ndarray, starts: np.ndarray, among_M: np.ndarray | None = None
) -> np.ndarray:
    """Return each group's values stretched to [0, 1]; 0.5 where they are all equal.

    among_M: the rows that set the ends of the scale, all by default; values of other rows are clipped to [0, 1].
    """
    first_rows = starts[:-1]
    if not len(first_rows):
        return np.zeros(len(values_M))
    group_of_row = np.repeat(np.arange(len(first_rows)), np.diff(starts))
    is_among = np.ones(len(values_M), bool) if among_M is None else among_M
    low = np.minimum.reduceat(np.where(is_among, values_M, np.inf), first_rows)
    high = np.maximum.reduceat(np.where(is_among, values_M, -np.inf), first_rows)
    is_flat = ~(high - low >= SPREAD)  # also True if no row of the group is in among_M
    low = np.where(is_flat, 0.0, low)
    spread = np.where(is_flat, 1.0, high - low)
    share = np.clip((values_M - low[group_of_row]) / spread[group_of_row], 0.0, 1.0)
    return np.where(is_flat[group_of_row], 0.5, share)


def compute_tau_b(
    same_minus_opposite: np.ndarray | float,
    untied_in_one: np.ndarray | float,
    untied_in_other: np.ndarray | float,
) -> np.ndarray:
    """Return Kendall's τ-b from counts of pairs; NaN if one of the two rankings ties everything.

    τ-b = (pairs in the same order − pairs in the opposite order) / √(pairs untied in one · pairs untied in the other)
    """
    difference = np.asarray(same_minus_opposite, float)
    spread = np.sqrt(np.asarray(untied_in_one, float) * np.asarray(untied_in_other, float))
    undefined = np.full(np.broadcast_shapes(difference.shape, spread.shape), np.nan)
    return np.asarray(np.divide(difference, spread, out=undefined, where=spread > 0.0))
