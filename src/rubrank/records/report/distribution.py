"""Numbers as bars.

scores 0, 0.5, 0.5, 1          {"values": [0, 0.5, 1], "counts": [1, 2, 1]}
20,000 different numbers       {"edges": [0, 0.05, …, 1], "counts": [812, …]}
"""

from __future__ import annotations

from typing import Any

import numpy as np

_MOST_VALUES = 12
_BINS = 20


def distribution(values: np.ndarray, within: tuple[float, float] | None = None) -> dict[str, Any]:
    """A bar for each value if they are few, else for each of 20 equal bins; `within`: bounds to use if all lie inside.

    NaN is left out.
    """
    values = values[np.isfinite(values)]
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) <= _MOST_VALUES:
        return {"values": distinct.tolist(), "counts": counts.tolist()}
    low, high = float(distinct[0]), float(distinct[-1])
    if within is not None and within[0] <= low and high <= within[1]:
        low, high = within
    found, edges = np.histogram(values, bins=_BINS, range=(low, high))
    return {"edges": edges.tolist(), "counts": found.tolist()}
