"""Means with their uncertainty, and rank correlation within a group.

m = Moments(); m.add(1.0); m.add(2.0); m.add(None); m.mean, m.n         1.5, 2
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from rubrank.fusion.control.student_t import student_t_975
from rubrank.scores import kendall

_ROUNDING = 1e-9
FEWEST = 5  # groups that an interval is given for


class Moments:
    """Count, sum and sum of squares; they add up."""

    __slots__ = ("n", "squares", "total")

    def __init__(self) -> None:
        self.n, self.total, self.squares = 0, 0.0, 0.0

    @classmethod
    def of(cls, n: float, total: float, squares: float) -> Moments:
        """Sums that were taken elsewhere."""
        moments = cls()
        moments.n, moments.total, moments.squares = int(n), float(total), float(squares)
        return moments

    def add(self, x: float | None) -> None:
        """Count a number in; None and NaN are nothing."""
        if x is not None and x == x:
            self.n += 1
            self.total += x
            self.squares += x * x

    def merge(self, other: Moments) -> None:
        """Count in all that another has."""
        self.n, self.total, self.squares = self.n + other.n, self.total + other.total, self.squares + other.squares

    @property
    def mean(self) -> float | None:
        """None of nothing."""
        return self.total / self.n if self.n else None

    @property
    def half_width(self) -> float | None:
        """Of the 95% interval of the mean (Student's); None where the numbers do not say: few, or all the same."""
        if self.n < FEWEST:
            return None
        mean = self.total / self.n
        variance = (self.squares - self.n * mean * mean) / (self.n - 1)
        if variance <= _ROUNDING * max(mean * mean, 1e-12):
            return None  # a coefficient shared by all groups: its spread over groups is not its uncertainty
        return student_t_975(self.n - 1.0) * sqrt(variance / self.n)


def tau(signs_CP: np.ndarray, known_CP: np.ndarray, other_P: np.ndarray) -> list[float]:
    """τ-b of every criterion with one ranking, over the pairs that the criterion compares; NaN without a signal."""
    both = signs_CP @ other_P
    own, its = np.abs(signs_CP).sum(1), known_CP @ np.abs(other_P)
    return kendall.tau(both, own, its).tolist()


def tau_matrix(signs_KP: np.ndarray, known_KP: np.ndarray) -> np.ndarray:
    """(K, K): τ-b of every two criteria, over the pairs that both compare; NaN where one tells no rollouts apart."""
    both = signs_KP @ signs_KP.T
    told = np.abs(signs_KP) @ known_KP.T  # pairs that k tells apart and l compares
    return kendall.tau(both, told, told.T)
