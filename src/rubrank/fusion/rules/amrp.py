"""AMRP: more weight for criteria that are far from their target, unsteady, or not improving.

    first batch: means 0.9 and 0.4, target 1, equal weights
    short 0.1 and 0.6; no spread and no progress yet      u = 0.15 and 0.65      w' = 0.375 and 1.625

    m ← m + a (x − m),  v ← (1 − a)(v + a (x − m)²)       x = batch mean of the scores, a = rate
    short = max(0, t − m)/(t − lo),  vol = √v/(m − lo + ε),  prog = max(0, m − m_old)/(range + ε)
    u = w (short + δ)(1 + vol) e^{−prog},  w' = u/Σu · Σw, clipped;  R = Σ w' s / Σ w'      grade C: a reconstruction

lo = 0 and range = 1: scores are on the scale of their domains. Rate a = 0.1 and δ = 0.05 are given; target t = 1,
ε = 0.01 and the clip to [low, high] times w are ours.
**Stateful**: m, v and m_old of each criterion, by name, are updated by every batch, before it is weighted. A criterion
that a batch does not have keeps its memory.
Missing: left out, of x and of R, as in the weighted mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from rubrank.fusion.result import Fused
from rubrank.fusion.rules import checks
from rubrank.fusion.rules.group_math import mask_weights, weighted_mean
from rubrank.fusion.rules.weights import batch_means
from rubrank.scores.batch import ScoreBatch

_VERSION = 1


@dataclass
class AMRPMemory:
    """Of each criterion: mean, variance, and the mean before the last batch."""

    criteria: dict[str, tuple[float, float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class AMRP(checks.CheckedRule):
    """Adaptive weights from running statistics."""

    name: ClassVar[str] = "amrp"
    bounded: ClassVar[bool] = True

    rate: float = checks.number(0.1, high=1.0, above=True)
    delta: float = checks.number(0.05, above=True)
    target: float = checks.number(1.0, high=1.0, above=True)
    eps: float = checks.number(0.01, above=True)
    low: float = checks.number(0.1, above=True)
    high: float = checks.number(10.0, low="low")
    memory: AMRPMemory = field(init=False, repr=False, compare=False, default_factory=AMRPMemory)

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Learn from the batch, then weigh it."""
        weights_NK = self.weights(batch)
        value_M = weighted_mean(batch.unit_MK, weights_NK, batch)
        return Fused(batch, self.name, value_M, weights_NK)

    def weights(self, batch: ScoreBatch) -> np.ndarray:
        """Learn from the batch; then w'."""
        self._learn(batch)
        nominal = mask_weights(batch, batch.weights_NK)
        urgent = nominal * self._urgency(batch.names)
        total = urgent.sum(1, keepdims=True)
        scale = np.divide(
            nominal.sum(1, keepdims=True), total, out=np.ones_like(total), where=total > 0.0
        )
        return np.clip(urgent * scale, self.low * nominal, self.high * nominal)

    def _learn(self, batch: ScoreBatch) -> None:
        memory = self.memory.criteria
        a = self.rate
        has_score_K = np.asarray((~batch.missing_MK).any(0)).tolist()
        for name, x, has_score in zip(
            batch.names, batch_means(batch).tolist(), has_score_K, strict=True
        ):
            if not has_score:
                continue
            if name not in memory:
                memory[name] = (x, 0.0, x)
                continue
            mean, variance, _ = memory[name]
            new_mean = mean + a * (x - mean)
            new_variance = (1.0 - a) * (variance + a * (x - mean) ** 2)
            memory[name] = (new_mean, new_variance, mean)

    def _urgency(self, names: tuple[str, ...]) -> np.ndarray:
        """(K,): (short + δ)(1 + vol) e^{−prog} of each criterion."""
        statistics = np.array([self.memory.criteria.get(name, (0.0, 0.0, 0.0)) for name in names])
        mean, variance, before = statistics.T
        short = np.maximum(0.0, self.target - mean) / self.target
        volatility = np.sqrt(variance) / (np.maximum(mean, 0.0) + self.eps)
        progress = np.maximum(0.0, mean - before) / (1.0 + self.eps)
        return np.asarray((short + self.delta) * (1.0 + volatility) * np.exp(-progress))

    def state(self) -> dict[str, Any]:
        """What is remembered of each criterion."""
        return {
            "rule": self.name,
            "version": _VERSION,
            "criteria": {name: list(numbers) for name, numbers in self.memory.criteria.items()},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        saved = checks.check_state(self, _VERSION, state)["criteria"]
        self.memory.criteria = {
            name: (float(m), float(v), float(old)) for name, (m, v, old) in saved.items()
        }
