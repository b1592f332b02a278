"""POW3R: within a category, weight moves to the criteria that tell the policy's rollouts apart.

    one category, equal weights, std in the group 0.5 and 0, λ = 0.5
    g = 0.5 and 0, mean 0.25      α̂ = 0.5 + 0.5 · 2 = 1.5 and 0.5 + 0 = 0.5
    with β = 0.5: α = (1 + 1.5)/2 = 1.25 and (1 + 0.5)/2 = 0.75

    g_j = √(V_j + ε),  ḡ = its weighted mean in the category,  α̂ = clip((1 − λ) + λ g/ḡ, α_min, α_max)
    α ← (1 − β) α + β α̂ (from 1),  R = mean over categories of Σ w α s / Σ w α                           grade B

V is the population variance in the group. No public source gives the constants; λ = 0.5, α from 0.5 to 2, β = 0.5 and ε
= 1e-6 are ours.
**Stateful**: `memory_of="query"` (default) remembers α of every group label and criterion, so that it moves once an
epoch if labels name queries; "criterion" remembers one α a criterion, moved by every batch (the mean α̂ of its groups),
for trainers whose labels are new each step. What a batch does not have keeps its α.
Missing: left out, of V and of R, as in the weighted mean; a category without any score is left out of its mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from rubrank.errors import InvalidInput
from rubrank.fusion.result import Fused
from rubrank.fusion.rules import checks
from rubrank.fusion.rules.group_math import (
    centre,
    expand_rows,
    fill_unknown,
    mask_weights,
    row_sums,
    zero_missing,
)
from rubrank.scores.batch import ScoreBatch

_VERSION = 1
_ALL_QUERIES = ""  # the only label of memory_of="criterion"


@dataclass
class POW3RMemory:
    """Label of the group → criterion → α."""

    alpha: dict[str, dict[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class POW3R(checks.CheckedRule):
    """Weights within categories by the spread of each criterion."""

    name: ClassVar[str] = "pow3r"
    bounded: ClassVar[bool] = True

    mix: float = checks.number(0.5, high=1.0)
    rate: float = checks.number(0.5, high=1.0)
    low: float = checks.number(0.5, above=True)
    high: float = checks.number(2.0, low="low")
    eps: float = checks.number(1e-6, above=True)
    memory_of: Literal["query", "criterion"] = checks.choice("query", ("query", "criterion"))
    memory: POW3RMemory = field(init=False, repr=False, compare=False, default_factory=POW3RMemory)

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Learn from the batch, then weigh it."""
        members = _categories(batch)
        alpha_NK = self._learn(batch, members)
        weights_NK = mask_weights(batch, batch.weights_NK) * alpha_NK
        value_M = _mean_of_categories(batch, weights_NK, members)
        return Fused(
            batch, self.name, value_M, _flatten_weights(weights_NK, members), {"alpha": alpha_NK}
        )

    def weights(self, batch: ScoreBatch) -> np.ndarray:
        """Learn from the batch, and return the weight of each criterion in R. The weights of a group add up to 1."""
        members = _categories(batch)
        weights_NK = mask_weights(batch, batch.weights_NK) * self._learn(batch, members)
        return _flatten_weights(weights_NK, members)

    def _learn(self, batch: ScoreBatch, members: list[np.ndarray]) -> np.ndarray:
        """(N, K): α after this batch."""
        target_NK = self._target(batch, members)
        is_scored_NK = batch.scored_NK
        if self.memory_of == "query":
            return self._move(
                [str(label) for label in batch.labels], batch.names, target_NK, is_scored_NK
            )
        count_K = is_scored_NK.sum(0)
        mean_K = np.where(is_scored_NK, target_NK, 0.0).sum(0) / np.maximum(count_K, 1)
        alpha_1K = self._move([_ALL_QUERIES], batch.names, mean_K[None], count_K[None] > 0)
        return np.broadcast_to(alpha_1K, is_scored_NK.shape)

    def _move(
        self,
        labels: list[str],
        names: tuple[str, ...],
        target_NK: np.ndarray,
        is_scored_NK: np.ndarray,
    ) -> np.ndarray:
        """Move α from its remembered value (1 at first) towards the target, where a group asks for the criterion."""
        alpha_NK = np.ones(is_scored_NK.shape)
        for g, label in enumerate(labels):
            remembered = self.memory.alpha.setdefault(label, {})
            for k in np.flatnonzero(is_scored_NK[g]).tolist():
                old = remembered.get(names[k], 1.0)
                remembered[names[k]] = (1.0 - self.rate) * old + self.rate * float(target_NK[g, k])
                alpha_NK[g, k] = remembered[names[k]]
        return alpha_NK

    def _target(self, batch: ScoreBatch, members: list[np.ndarray]) -> np.ndarray:
        """(N, K): α̂."""
        std = centre(batch.unit_MK, batch, 0).std_NK
        spread = np.sqrt(std * std + self.eps)
        weights = np.broadcast_to(mask_weights(batch, batch.weights_NK), spread.shape)
        relative = np.ones_like(spread)
        for member in members:
            inside = weights * member
            total = inside.sum(1, keepdims=True)
            mean = (inside * spread).sum(1, keepdims=True) / np.where(total > 0.0, total, 1.0)
            relative = np.where(
                member & (mean > 0.0), spread / np.where(mean > 0.0, mean, 1.0), relative
            )
        return np.clip((1.0 - self.mix) + self.mix * relative, self.low, self.high)

    def state(self) -> dict[str, Any]:
        """α by label and criterion."""
        alpha = {label: dict(alpha_of) for label, alpha_of in self.memory.alpha.items()}
        return {"rule": self.name, "version": _VERSION, "memory_of": self.memory_of, "alpha": alpha}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        saved = checks.check_state(self, _VERSION, state)
        if saved["memory_of"] != self.memory_of:
            raise InvalidInput(
                self.name,
                "state",
                f"with memory_of={self.memory_of!r}",
                repr(saved["memory_of"]),
                "Make the rule as it was when the state was saved.",
            )
        self.memory.alpha = {label: dict(alpha_of) for label, alpha_of in saved["alpha"].items()}


def _categories(batch: ScoreBatch) -> list[np.ndarray]:
    """For each category, whether each criterion is in it: (N, K) or (1, K)."""
    words = batch.read(lambda c: c.category or "")
    return [words == word for word in dict.fromkeys(words.ravel().tolist())]


def _mean_of_categories(
    batch: ScoreBatch, weights_NK: np.ndarray, members: list[np.ndarray]
) -> np.ndarray:
    unit_MK = zero_missing(batch.unit_MK, batch)
    has_score_MK = (~batch.missing_MK).astype(float)
    total_M = np.zeros(len(unit_MK))
    count_M = np.zeros(len(unit_MK))
    for member in members:
        inside = expand_rows(weights_NK * member, batch)
        weight_M = row_sums(has_score_MK, inside)
        total_M += np.divide(
            row_sums(unit_MK, inside), weight_M, out=np.zeros_like(weight_M), where=weight_M > 0.0
        )
        count_M += weight_M > 0.0
    mean_M = np.divide(total_M, count_M, out=np.full(len(total_M), np.nan), where=count_M > 0.0)
    return fill_unknown(mean_M, batch, 0.5)


def _flatten_weights(weights_NK: np.ndarray, members: list[np.ndarray]) -> np.ndarray:
    """Weights within categories → weights over all criteria; each category counts the same."""
    flat = np.zeros_like(weights_NK)
    count = np.zeros((len(weights_NK), 1))
    for member in members:
        inside = weights_NK * member
        total = inside.sum(1, keepdims=True)
        flat += np.divide(inside, total, out=np.zeros_like(inside), where=total > 0.0)
        count += total > 0.0
    return flat / np.maximum(count, 1.0)
