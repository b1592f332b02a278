"""The points of a rubric, which may be negative, for HealthBench and GEAR.

    "Asks about allergies" 5 points, met         weight  5, presence 1
    "Invents a dosage"    −8 points, not there   weight −8, presence 0

A score always says how good a rollout is (a criterion with negative points has "lower" as its direction), so the
presence of a bad thing is 1 − s. A criterion without points has its weight as points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rubrank.fusion.rules.group_math import expand_rows
from rubrank.scores.batch import ScoreBatch


class Points(NamedTuple):
    """Points and presence of every criterion."""

    points_NK: np.ndarray
    """(N, K) or (1, K); negative for what should not be there."""
    presence_MK: np.ndarray
    """From 0 to 1: how much of it is there; NaN = missing."""


def read_points(batch: ScoreBatch) -> Points:
    """Read the points of every group's rubric."""
    rubric_NK = batch.read(lambda c: np.nan if c.points is None else c.points).astype(float)
    points_NK = np.where(np.isnan(rubric_NK), batch.weights_NK, rubric_NK)
    is_negative_NK = points_NK < 0.0
    if not is_negative_NK.any():
        return Points(points_NK, batch.unit_MK)
    presence_MK = np.where(expand_rows(is_negative_NK, batch), 1.0 - batch.unit_MK, batch.unit_MK)
    return Points(points_NK, presence_MK)
