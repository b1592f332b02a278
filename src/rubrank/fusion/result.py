"""What a fusion tells about a group: everything between its scores and its rewards.

`RLVR2` returns a `FusedBatch`; `batch[0]`, `batch["query-17"]` or iterating over it give one `FusedGroup` each.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from rubrank.errors import InvalidInput
from rubrank.fusion.adjust import Rule
from rubrank.fusion.explain import explain_rollout
from rubrank.fusion.fusing import Fusion
from rubrank.fusion.gate import Gate, Gated
from rubrank.scores.observed import was_compared
from rubrank.scores.outcomes import outcomes


@dataclass(frozen=True, eq=False)
class FusedGroup:
    """One group: G rollouts, K fused criteria, D attributes."""

    label: Hashable
    criteria: tuple[str, ...]
    weights: np.ndarray
    margins: np.ndarray
    scores: np.ndarray
    """(G, K), as given; NaN = not scored."""
    higher_is_better: np.ndarray
    utilities: np.ndarray
    """(G, K), as fitted."""
    values: np.ndarray
    """(G, K): what is weighted and added up; the utilities, but for attributes kept and span="unit"."""
    fused: np.ndarray
    """(G,): the weighted sum."""
    ranking: np.ndarray
    """(G,): R̃, the fused utility stretched to [0, 1]."""
    reward: np.ndarray
    """(G,): after the gate."""
    no_signal: bool
    """Nothing tells the rollouts apart: all rewards are equal."""
    attribute_names: tuple[str, ...] = ()
    attributes: np.ndarray | None = None
    """(G, D)"""
    mean_contrasts: np.ndarray | None = None
    """(G, D): how much more of each attribute a rollout has than the others."""
    gamma: np.ndarray | None = None
    """(K, D): how much each attribute goes with winning on each criterion."""
    kept: np.ndarray | None = None
    """(K, D): the share of γ that stays in the reward."""
    scale: np.ndarray | float = 1.0
    """(K,): what span="unit" multiplied each criterion by."""
    rules: tuple[Rule, ...] = ()
    gate: Gate | None = None
    gated: Gated | None = None
    compared: Mapping[int, np.ndarray] = field(default_factory=dict)
    """Column → (G, G) outcomes, of criteria on which responses were compared instead of scored."""

    @cached_property
    def outcomes(self) -> np.ndarray:
        """(G, G, K): 1 = row beats column, 0.5 = tie, 0 = loses, NaN = not compared."""
        found = outcomes(np.where(self.higher_is_better, self.scores, -self.scores), self.margins)
        for k, observed in self.compared.items():
            found[:, :, k] = observed
        return found

    @cached_property
    def known(self) -> np.ndarray:
        """(G, K): was this rollout scored, or compared with anybody, on this criterion?"""
        known = ~np.isnan(self.scores)
        for k, observed in self.compared.items():
            known[:, k] = was_compared(observed)
        return known

    @property
    def missing(self) -> np.ndarray:
        """(K,): rollouts about which each criterion says nothing."""
        return np.asarray((~self.known).sum(0))

    @property
    def constant(self) -> np.ndarray:
        """(K,): criteria that tell nobody apart."""
        return np.asarray(~self.utilities.any(0))

    @property
    def effective_weights(self) -> np.ndarray:
        """(K,): each criterion's share of the variance of the fused utility; they add up to 1, and may be negative."""
        parts = self.weights * self.values
        parts = parts - parts.mean(0)
        total = parts.sum(1)
        variance = total @ total
        return (
            parts.T @ total / variance if variance > 0.0 and self.ranking.max() > self.ranking.min() else 0.0 * parts[0]
        )

    @property
    def flags(self) -> tuple[str, ...]:
        """What a reader should know, in words."""
        found = ["no signal"] if self.no_signal else []
        for name, n, tied in zip(self.criteria, self.missing, self.constant, strict=True):
            if n == len(self.reward):
                continue  # nobody was scored: another query's criterion
            found += [f"missing: {name} ({n})"] if n else []
            found += [f"constant: {name}"] if tied else []
        return tuple(found)

    def explain(self, rollout: int) -> str:
        """Why this rollout got its reward, in words."""
        if not 0 <= rollout < len(self.reward):
            raise InvalidInput(
                "explain", "rollout", f"a number from 0 to {len(self.reward) - 1}", str(rollout), "Count from 0."
            )
        return explain_rollout(self, rollout)


@dataclass(frozen=True, eq=False)
class FusedBatch:
    """All groups of a batch; arrays have the order and shape in which the scores were given."""

    fusion: Fusion
    all_scores_MC: np.ndarray
    """Every column that was given, sorted by group: the fused ones and the gate's."""
    names: tuple[str, ...]
    fused_columns: tuple[int, ...]
    higher_is_better: np.ndarray
    attribute_names: tuple[str, ...]
    attributes_MD: np.ndarray | None
    rules: tuple[Rule, ...]
    gate: Gate | None
    gated: Gated | None

    @property
    def criteria(self) -> tuple[str, ...]:
        """Names of the fused criteria."""
        return tuple(self.names[k] for k in self.fused_columns)

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """One label a group."""
        return self.fusion.batch.labels

    @property
    def reward(self) -> np.ndarray:
        """The reward of every rollout."""
        sorted_reward = self.fusion.ranking_M if self.gated is None else self.gated.reward
        return self.fusion.batch.per_rollout(sorted_reward)

    @property
    def ranking(self) -> np.ndarray:
        """R̃: the reward before the gate."""
        return self.fusion.batch.per_rollout(self.fusion.ranking_M)

    @property
    def fused(self) -> np.ndarray:
        """The weighted sum of utilities."""
        return self.fusion.batch.per_rollout(self.fusion.fused_M)

    @property
    def utilities(self) -> np.ndarray:
        """Fitted utilities, criteria last."""
        return self.fusion.batch.per_rollout(self.fusion.utilities_MK)

    @property
    def gamma(self) -> np.ndarray | None:
        """Attribute coefficients (groups, K, D), or (K, D) for a single group; None without attributes."""
        gamma = self.fusion.gamma_NKD
        return None if gamma is None else self.fusion.batch.per_group(gamma)

    @property
    def kept(self) -> np.ndarray | None:
        """Share of each coefficient that stays in the reward; the shape of gamma."""
        kept = self.fusion.kept_NKD
        return None if kept is None else self.fusion.batch.per_group(kept)

    @cached_property
    def no_signal(self) -> np.ndarray:
        """For each group: do all its rollouts have the same reward?"""
        if self.gated is None:
            return ~self.fusion.signal_N
        starts = self.fusion.batch.starts[:-1]
        if not len(starts):
            return np.zeros(0, bool)
        reward = self.gated.reward
        return np.maximum.reduceat(reward, starts) == np.minimum.reduceat(reward, starts)

    def __len__(self) -> int:
        return self.fusion.batch.N

    def __iter__(self) -> Iterator[FusedGroup]:
        return (self._group(g) for g in range(len(self)))

    def __getitem__(self, label: Hashable) -> FusedGroup:
        """The group with this label."""
        if not isinstance(label, Hashable) or label not in self._numbers:
            raise InvalidInput(
                "FusedBatch",
                "label",
                f"the label of one of its {len(self)} groups, such as {next(iter(self._numbers), None)!r}",
                repr(label),
                "See .labels.",
            )
        return self._group(self._numbers[label])

    def explain(self, rollout: int | tuple[int, int]) -> str:
        """Why a rollout got its reward: its row number, or (group, rollout) for a (groups, rollouts, …) batch."""
        g, i = self._locate(rollout)
        return self._group(g).explain(i)

    @cached_property
    def _numbers(self) -> dict[Hashable, int]:
        return {label: g for g, label in enumerate(self.labels)}

    def _locate(self, rollout: int | tuple[int, int]) -> tuple[int, int]:
        batch = self.fusion.batch
        at = rollout if isinstance(rollout, tuple) else (rollout,)
        whole = isinstance(rollout, tuple) == (len(batch.shape) == 2) and len(at) == len(batch.shape)
        whole = whole and all(isinstance(i, int | np.integer) for i in at)
        if not whole or not all(0 <= i < size for i, size in zip(at, batch.shape, strict=True)):
            allowed = f"a row from 0 to {batch.shape[0] - 1}"
            if len(batch.shape) == 2:
                allowed = f"a pair (group, rollout) from (0, 0) to {tuple(size - 1 for size in batch.shape)}"
            raise InvalidInput("explain", "rollout", allowed, repr(rollout), "Count from 0.")
        index = int(np.ravel_multi_index(at, batch.shape))
        row = int(index if batch.order is None else np.flatnonzero(batch.order == index)[0])
        g = int(np.searchsorted(batch.starts, row, side="right")) - 1
        return g, row - int(batch.starts[g])

    def _group(self, g: int) -> FusedGroup:
        fusion, batch = self.fusion, self.fusion.batch
        rows = slice(batch.starts[g], batch.starts[g + 1])
        gated = None if self.gated is None else _part(self.gated, rows)
        return FusedGroup(
            label=self.labels[g],
            criteria=self.criteria,
            weights=fusion.weights[g if len(fusion.weights) > 1 else 0],
            margins=fusion.margins[g if len(fusion.margins) > 1 else 0],
            scores=self.all_scores_MC[rows][:, list(self.fused_columns)],
            higher_is_better=self.higher_is_better,
            utilities=fusion.utilities_MK[rows],
            values=fusion.values_MK[rows],
            fused=fusion.fused_M[rows],
            ranking=fusion.ranking_M[rows],
            reward=fusion.ranking_M[rows] if gated is None else gated.reward,
            no_signal=bool(self.no_signal[g]),
            attribute_names=self.attribute_names,
            attributes=None if self.attributes_MD is None else self.attributes_MD[rows],
            mean_contrasts=None if fusion.mean_contrast_MD is None else fusion.mean_contrast_MD[rows],
            gamma=None if fusion.gamma_NKD is None else fusion.gamma_NKD[g],
            kept=None if fusion.kept_NKD is None else fusion.kept_NKD[g],
            scale=1.0 if fusion.scale_NK is None else fusion.scale_NK[g],
            rules=self.rules,
            gate=self.gate,
            gated=gated,
            compared={k: found for (at, k), found in (fusion.outcomes or {}).items() if at == g},
        )


def _part(gated: Gated, rows: slice) -> Gated:
    return Gated(**{name: getattr(gated, name)[rows] for name in Gated.__dataclass_fields__})
