"""Worst case: a rollout is as good as its worst criterion.

    scores 1, 0.8, 0.3      R = 0.3

    R = min_k s          grade A

Weights do not count. Missing: left out; a rollout without any score gets its group's mean; 0.5 where none has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rubrank.fusion.result import Fused
from rubrank.fusion.rules.checks import LocalRule
from rubrank.fusion.rules.group_math import fill_unknown
from rubrank.scores.batch import ScoreBatch


@dataclass(frozen=True)
class WorstCase(LocalRule):
    """min_k s."""

    name: ClassVar[str] = "worst-case"
    bounded: ClassVar[bool] = True

    def __call__(self, batch: ScoreBatch) -> Fused:
        """The worst score of each rollout."""
        return Fused(
            batch, self.name, fill_unknown(np.fmin.reduce(batch.unit_MK, axis=1), batch, 0.5)
        )
