"""HealthBench: the points that a rollout wins, divided by the points that it could win.

    points 5 (met), 3 (not met), −4 (present)      R = (5 − 4) / (5 + 3) = 0.125

    R = Σ points · presence / Σ_{points > 0} points;  0 if none is positive          grade A

Points may be negative: "Invents a dosage", −8. A score s always says how good a rollout is (a criterion with negative
points has "lower" as its direction), so the presence of a bad thing is 1 − s. If a criterion has no points, its weight
is used. GEAR reads points in the same way.
`clip=True` (the default) limits R to [0, 1]. With `clip=False`, R is negative if a rollout loses more points than it
wins.
Missing: the criterion is left out of both sums for that rollout. A rollout without any score gets the mean of the other
rollouts of its group. If no rollout of the group has a score, all get 0.5, or 0 with `clip=False`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from rubrank.fusion.result import Fused
from rubrank.fusion.rules import checks
from rubrank.fusion.rules.group_math import expand_rows, fill_unknown, sum_products, zero_missing
from rubrank.scores.batch import ScoreBatch


@dataclass(frozen=True)
class HealthBench(checks.LocalRule):
    """The points that a rollout wins, divided by the points that it could win."""

    name: ClassVar[str] = "healthbench"

    clip: bool = checks.flag(True)

    @property
    def bounded(self) -> bool:
        """Values are from 0 to 1 only if they are clipped."""
        return self.clip

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Return the share of the points that each rollout wins."""
        points_NK, presence_MK = read_points(batch)
        reachable_NK = np.maximum(points_NK, 0.0)
        value_M = divide_points(
            zero_missing(presence_MK, batch), points_NK, reachable_NK, batch, self.clip
        )
        return Fused(batch, self.name, value_M, points_NK)


class Points(NamedTuple):
    """Points and presence of every criterion."""

    points_NK: np.ndarray
    """(N, K) or (1, K); negative if a response should not have what the criterion describes."""
    presence_MK: np.ndarray
    """(M, K), from 0 to 1: how far a response has what the criterion describes; NaN = missing."""


def read_points(batch: ScoreBatch) -> Points:
    """Read the points from every group's rubric, and how far each rollout has what the criteria describe."""
    rubric_NK = batch.collect_per_group(lambda c: np.nan if c.points is None else c.points)
    rubric_NK = rubric_NK.astype(float)
    points_NK = np.where(np.isnan(rubric_NK), batch.weights_NK, rubric_NK)
    is_negative_NK = points_NK < 0.0
    if not is_negative_NK.any():
        return Points(points_NK, batch.unit_MK)
    presence_MK = np.where(expand_rows(is_negative_NK, batch), 1.0 - batch.unit_MK, batch.unit_MK)
    return Points(points_NK, presence_MK)


def divide_points(
    presence_MK: np.ndarray,
    points_NK: np.ndarray,
    reachable_NK: np.ndarray,
    batch: ScoreBatch,
    clip: bool,
) -> np.ndarray:
    """Return Σ points · presence / Σ reachable (M,) over the criteria that a rollout has scores on.

    It is 0 if nothing can be won.

    Values are clipped first. Rollouts without scores then get the mean of the clipped values of their group.
    """
    won = sum_products(presence_MK, expand_rows(points_NK, batch))
    reachable = expand_rows(reachable_NK.sum(1), batch)
    if not batch.complete:
        reachable = sum_products(
            (~batch.missing_MK).astype(float), expand_rows(reachable_NK, batch)
        )
    value = np.divide(won, reachable, out=np.zeros(len(won)), where=reachable > 0.0)
    if clip:
        value = np.clip(value, 0.0, 1.0)
    if not batch.complete:
        value[batch.missing_MK.all(1)] = np.nan
    return fill_unknown(value, batch, 0.5 if clip else 0.0)
