"""Do the values of a group tell its rollouts apart? One definition for rules, gates, records, metrics and studies.

values 0.5, 0.5, 0.5 + 1e-12      no signal: they differ by less than 1e-9, which is rounding
"""

from __future__ import annotations

import numpy as np

SPREAD = 1e-9
"""Values of a group that lie within this are equal: there is no signal."""

ROUNDING = 1e-9
"""Differences below this share of a group's spread are rounding: a tie where rankings are compared."""


def no_signal(values_M: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """(N,): groups in which all values are equal; group g is rows starts[g] .. starts[g + 1]."""
    at = starts[:-1]
    if not len(at):
        return np.zeros(0, bool)
    return np.asarray(np.maximum.reduceat(values_M, at) - np.minimum.reduceat(values_M, at) < SPREAD)


def stretched(values_M: np.ndarray, starts: np.ndarray, among_M: np.ndarray | None = None) -> np.ndarray:
    """Each group's values stretched to [0, 1], by those `among` whom it is (all by default); 0.5 where they are equal.

    What stands outside of them is cut off at 0 and 1.
    """
    at, rows = starts[:-1], np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    if not len(at):
        return np.zeros(len(values_M))
    kept = np.ones(len(values_M), bool) if among_M is None else among_M
    low = np.minimum.reduceat(np.where(kept, values_M, np.inf), at)
    high = np.maximum.reduceat(np.where(kept, values_M, -np.inf), at)
    flat = ~(high - low >= SPREAD)  # also where no rollout is left
    low, spread = np.where(flat, 0.0, low), np.where(flat, 1.0, high - low)
    share = np.clip((values_M - low[rows]) / spread[rows], 0.0, 1.0)
    return np.where(flat[rows], 0.5, share)
