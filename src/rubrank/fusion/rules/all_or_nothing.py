"""All or nothing (RIFL): one failed criterion is a failed rollout.

    scores 1, 1, 1 → 1        scores 1, 1, 0.9 → 0

    R = 1 if every criterion reaches `threshold` of its domain (1 = its maximum), else 0          grade A

Missing: left out; a rollout without any score gets the mean of its group, 0.5 where no rollout has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rubrank.fusion.result import Fused
from rubrank.fusion.rules import checks
from rubrank.fusion.rules.group_math import fill_unknown
from rubrank.scores.batch import ScoreBatch


@dataclass(frozen=True)
class AllOrNothing(checks.LocalRule):
    """1 if everything is met."""

    name: ClassVar[str] = "all-or-nothing"
    bounded: ClassVar[bool] = True
    controllable: ClassVar[bool] = False

    threshold: float = checks.number(1.0, high=1.0)

    def __call__(self, batch: ScoreBatch) -> Fused:
        """1 or 0 for each rollout."""
        value_M = np.where(
            (batch.unit_MK < self.threshold).any(1), 0.0, 1.0
        )  # NaN is not below anything
        if not batch.complete:
            value_M[batch.missing_MK.all(1)] = np.nan
        return Fused(batch, self.name, fill_unknown(value_M, batch, 0.5))
