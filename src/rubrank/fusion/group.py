"""One group of a `Fused`: everything between its scores and its rewards, as arrays of that group.

    group = fused["query-17"]
    group.reward, group.effective_weights, group.flags
    group.explain(3)                 in words

Letters: G rollouts, K criteria that are ranked by, D attributes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from rubrank.errors import InvalidInput, counted
from rubrank.fusion.explain import explain_rollout
from rubrank.fusion.gate import Gate, GateResult
from rubrank.scores.observed import was_compared
from rubrank.scores.outcomes import outcomes


@dataclass(frozen=True, eq=False)
class FusedGroup:
    """One group: G rollouts, K criteria, D attributes."""

    label: Hashable
    criteria: tuple[str, ...]
    weights: np.ndarray
    margins: np.ndarray
    scores: np.ndarray
    """(G, K), as given; NaN = not scored."""
    higher_is_better: np.ndarray
    utilities: np.ndarray
    """(G, K), as fitted; NaN under a rule that has none."""
    values: np.ndarray
    """(G, K): what is weighted and added up; the utilities, but for attributes and `span`."""
    fused: np.ndarray
    """(G,): the weighted sum."""
    ranking: np.ndarray
    """(G,): before the gate; R̃ of RLVR², the value of another rule."""
    reward: np.ndarray
    """(G,): after the gate."""
    no_signal: bool
    """Nothing tells the rollouts apart: all rewards are equal."""
    attribute_names: tuple[str, ...] = ()
    attributes: np.ndarray | None = None
    """(G, D)"""
    mean_contrasts: np.ndarray | None = None
    """(G, D): how much more of each attribute a rollout has than its group."""
    pool: str | None = None
    """What γ was estimated over: "batch", "run" or "group"."""
    gamma: np.ndarray | None = None
    """(K, D): γ̂, how much each attribute goes with winning on each criterion."""
    se: np.ndarray | None = None
    """(K, D): its standard error; NaN where there is none."""
    shrunk: np.ndarray | None = None
    """(K, D): γ̃, what of it is more than chance."""
    n: np.ndarray | None = None
    """(K,): groups that the estimate comes from; 0 where a criterion is not controlled."""
    taken: np.ndarray | None = None
    """(K, D): what was taken out in this group."""
    scale: np.ndarray | float = 1.0
    """(K,): what `span` multiplied each criterion by."""
    gate: Gate | None = None
    gated: GateResult | None = None
    agreement: float = np.nan
    """How far the criteria say the same, from 0 to 1; NaN where fewer than two say anything."""
    error: np.ndarray | None = None
    """(G,): standard error of the weighted sum, criteria taken as replicates."""
    compared: Mapping[int, np.ndarray] = field(default_factory=dict)
    """Column → (G, G) outcomes, of criteria on which responses were compared instead of scored."""

    def __repr__(self) -> str:
        best = "no signal" if self.no_signal else f"rollout {int(np.argmax(self.reward))} is best"
        size = f"{counted(len(self.reward), 'rollout')}, {counted(len(self.criteria), 'criterion')}"
        return f"FusedGroup({self.label!r}, {size}, {best})"

    @cached_property
    def outcomes(self) -> np.ndarray:
        """(G, G, K): 1 = row beats column, 0.5 = tie, 0 = loses, NaN = not compared."""
        found = outcomes(np.where(self.higher_is_better, self.scores, -self.scores), self.margins)
        for k, observed in self.compared.items():
            found[:, :, k] = observed
        return found

    @cached_property
    def known(self) -> np.ndarray:
        """(G, K): was this rollout scored, or compared with another, on this criterion?"""
        known = ~np.isnan(self.scores)
        for k, observed in self.compared.items():
            known[:, k] = was_compared(observed)
        return known

    @property
    def missing(self) -> np.ndarray:
        """(K,): rollouts about which each criterion says nothing."""
        return np.asarray((~self.known).sum(0))

    @cached_property
    def constant(self) -> np.ndarray:
        """(K,): criteria that tell no rollouts apart."""
        if np.isnan(self.utilities).any():
            return np.asarray(~(self.outcomes != 0.5).any((0, 1), where=~np.isnan(self.outcomes)))
        return np.asarray(~self.utilities.any(0))

    @property
    def effective_weights(self) -> np.ndarray:
        """(K,): each criterion's share of the variance of the fused utility; they add up to 1, and may be negative."""
        parts = self.weights * self.values
        parts = parts - parts.mean(0)
        total = parts.sum(1)
        variance = total @ total
        told = variance > 0.0 and self.ranking.max() > self.ranking.min()
        return np.asarray(parts.T @ total / variance) if told else 0.0 * parts[0]

    @property
    def flags(self) -> tuple[str, ...]:
        """What a reader should know, in words."""
        found = ["no signal"] if self.no_signal else []
        for name, n, tied in zip(self.criteria, self.missing, self.constant, strict=True):
            if n == len(self.reward):
                continue  # no rollout was scored: another query's criterion
            found += [f"missing: {name} ({n})"] if n else []
            found += [f"constant: {name}"] if tied else []
        return tuple(found)

    def explain(self, rollout: int) -> str:
        """Why this rollout got its reward, in words."""
        if not 0 <= rollout < len(self.reward):
            raise InvalidInput("explain", "rollout", f"a number from 0 to {len(self.reward) - 1}", str(rollout), "")
        return explain_rollout(self, rollout)
