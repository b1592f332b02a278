"""Chebyshev: minus the largest weighted distance from the best scores so far.

    best so far 1 and 0.6, τ = 0.05, weights 1; scores 0.9 and 0.2      −max(1.05 − 0.9, 0.65 − 0.2) = −0.45

    R = −max_k w_k |z*_k − s_k|,  z*_k = best score so far + τ          grade A; τ = 0.05 is ours

**Stateful**: the best score of each criterion, by name, over all batches, this one included. A criterion that a batch
does not have keeps its best.
Missing: left out; a rollout without any score gets its group's mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from rubrank.fusion.result import Fused
from rubrank.fusion.rules import checks
from rubrank.fusion.rules.group_math import expand_rows, fill_unknown
from rubrank.scores.batch import ScoreBatch

_VERSION = 1


@dataclass
class ChebyshevMemory:
    """The best score of each criterion."""

    best: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Chebyshev(checks.CheckedRule):
    """Distance from the utopian point."""

    name: ClassVar[str] = "chebyshev"
    bounded: ClassVar[bool] = False

    tau: float = checks.number(0.05)
    memory: ChebyshevMemory = field(
        init=False, repr=False, compare=False, default_factory=ChebyshevMemory
    )

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Learn the best of the batch; then minus the largest distance."""
        utopia_K = self._learn(batch) + self.tau
        distance_MK = expand_rows(batch.weights_NK, batch) * np.abs(utopia_K - batch.unit_MK)
        value_M = fill_unknown(-np.fmax.reduce(distance_MK, axis=1), batch, 0.0)
        return Fused(batch, self.name, value_M, details={"utopia": utopia_K})

    def _learn(self, batch: ScoreBatch) -> np.ndarray:
        """(K,): the best scores so far, this batch included."""
        best = self.memory.best
        unit_MK = batch.unit_MK
        highest_K = np.fmax.reduce(unit_MK, axis=0) if len(unit_MK) else np.full(batch.K, np.nan)
        for name, highest in zip(batch.names, highest_K.tolist(), strict=True):
            if not np.isnan(highest):  # some rollout has a score
                best[name] = max(highest, best.get(name, highest))
        return np.array([best.get(name, 0.0) for name in batch.names])

    def state(self) -> dict[str, Any]:
        """The best scores."""
        return {"rule": self.name, "version": _VERSION, "best": dict(self.memory.best)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        saved = checks.check_state(self, _VERSION, state)["best"]
        self.memory.best = {name: float(best) for name, best in saved.items()}
