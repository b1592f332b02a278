"""Kendall's τ-b from counts of pairs.

τ-b = (pairs in the same order − pairs in the opposite order) / √(pairs untied in one · pairs untied in the other)

>>> float(compute_tau_b(4, 6, 6))       # 5 of 6 pairs in the same order, 1 in the opposite order, no ties
0.6666666666666666
"""

from __future__ import annotations

import numpy as np


def compute_tau_b(
    same_minus_opposite: np.ndarray | float,
    untied_in_one: np.ndarray | float,
    untied_in_other: np.ndarray | float,
) -> np.ndarray:
    """Return Kendall's τ-b from counts of pairs; NaN if one of the two rankings ties everything."""
    difference = np.asarray(same_minus_opposite, float)
    spread = np.sqrt(np.asarray(untied_in_one, float) * np.asarray(untied_in_other, float))
    undefined = np.full(np.broadcast_shapes(difference.shape, spread.shape), np.nan)
    return np.asarray(np.divide(difference, spread, out=undefined, where=spread > 0.0))
