"""The figures that a summary is made of: means with intervals, distributions as bars, and counts of reasons.

moments = Moments()
moments.add(1.0)
moments.add(2.0)
moments.mean, moments.half_width          1.5, None: an interval needs five numbers
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from rubrank.fusion.control.estimate import student_t_975

_FEWEST_FOR_INTERVAL = 5  # numbers
_ROUNDING = 1e-9  # relative variance up to which all numbers count as the same
_MOST_SEPARATE_BARS = 12  # with more different values, a distribution has bins
_BINS = 20
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")  # 212, 1,000, 0.75
_MOST_KINDS = 2000  # of reasons that are counted separately
_SHOWN_KINDS = 8
_LONGEST_KIND = 160  # characters


@dataclass
class Moments:
    """Count, sum and sum of squares of numbers; two of them can be merged."""

    n: int = 0
    total: float = 0.0
    sum_of_squares: float = 0.0

    def add(self, x: float | None) -> None:
        """Add a number; None and NaN are ignored."""
        if x is not None and x == x:
            self.n += 1
            self.total += x
            self.sum_of_squares += x * x

    def merge(self, other: Moments) -> None:
        """Add the numbers of another one."""
        self.n += other.n
        self.total += other.total
        self.sum_of_squares += other.sum_of_squares

    @property
    def mean(self) -> float | None:
        """None without numbers."""
        return self.total / self.n if self.n else None

    @property
    def half_width(self) -> float | None:
        """Half of the 95% interval of the mean (Student's t); None below five numbers, or if all are the same."""
        if not self.n:
            return None
        mean = self.total / self.n
        variance = (self.sum_of_squares - self.n * mean * mean) / max(1, self.n - 1)
        return compute_half_width(self.n, mean, variance)


def compute_half_width(n: int, mean: float, variance: float | None) -> float | None:
    """Return half of the 95% interval of a mean (Student's t); None below five numbers, or if all are the same.

    variance: the unbiased one of the n numbers; None for a single one.
    """
    if variance is None or n < _FEWEST_FOR_INTERVAL:
        return None
    if variance <= _ROUNDING * max(mean * mean, 1e-12):
        # A coefficient that all groups share: its spread over groups is not its uncertainty.
        return None
    return student_t_975(n - 1.0) * sqrt(variance / n)


def make_distribution(
    values: np.ndarray, bounds: tuple[float, float] | None = None
) -> dict[str, Any]:
    """Return numbers as bars: one per value if there are at most twelve values, otherwise 20 bins. NaN is left out.

        0, 0.5, 0.5, 1              {"values": [0, 0.5, 1], "counts": [1, 2, 1]}
        20,000 different numbers    {"edges": [0, 0.05, …, 1], "counts": [812, …]}

    bounds: ends of the bins, used if all values lie between them.
    """
    values = values[np.isfinite(values)]
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) <= _MOST_SEPARATE_BARS:
        return {"values": distinct.tolist(), "counts": counts.tolist()}
    low = float(distinct[0])
    high = float(distinct[-1])
    if bounds is not None and bounds[0] <= low and high <= bounds[1]:
        low, high = bounds
    counts, edges = np.histogram(values, bins=_BINS, range=(low, high))
    return {"edges": edges.tolist(), "counts": counts.tolist()}


class ReasonCounts:
    """Counts what verifiers and judges said, with numbers replaced by "#".

    "212 words, 80 to 120 required" and "76 words, 80 to 120 required" are one kind: "# words, # to # required".
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._uncounted = 0

    def add(self, reason: str) -> None:
        """Count a reason; an empty one is ignored."""
        kind = _NUMBER.sub("#", reason.strip())[:_LONGEST_KIND]
        if not kind:
            return
        if kind in self._counts or len(self._counts) < _MOST_KINDS:
            self._counts[kind] += 1
        else:
            self._uncounted += 1

    def list_most_common(self) -> list[tuple[str, int]]:
        """Return (kind, count) of the most frequent kinds, and ("others", count) for the rest."""
        kinds = self._counts.most_common(_SHOWN_KINDS)
        rest = sum(self._counts.values()) + self._uncounted - sum(count for _, count in kinds)
        return [*kinds, ("others", rest)] if rest else kinds
