"""RLVR² as a rule among rules: an adaptor over the ordinal fusion, and its composition with other rules' weights.

    three rollouts, two criteria of equal weight: scores (1, 0.5), (1, 1), (0, 1)
    the first two beat the third on one, the last two beat the first on the other      R = 0, 1, 0

    R = Σ w u stretched to [0, 1] within the group, u = utilities of the ordering      grade A: docs/method.md
    rlvr2*focal: Focal's f in place of w, and so for every rule that re-weights        grade C: a reconstruction

`adjust` says what becomes of the batch's attributes ("remove", `attenuate(…)`); None leaves them alone. The other
parameters are those of `rubrank.RLVR2`. A group that nothing tells apart, such as a single rollout, has 0.5.
Missing: compared with nobody on that criterion, never a loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rubrank.errors import InvalidInput
from rubrank.fusion.adjust import Rule as Adjustment
from rubrank.fusion.adjust import rules_for
from rubrank.fusion.fusing import Options, Pool, Span, run
from rubrank.fusion.model import UtilityModel
from rubrank.fusion.rule import Reweighting, RuleResult, Stateful
from rubrank.scores.arrays import Batch
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.observed import Observations

if TYPE_CHECKING:
    from rubrank.fusion.gate import Gate
    from rubrank.fusion.result import FusedBatch

_LEAST = 1e-9  # share of a group's largest weight: an ordering has no weight 0, and this much moves nothing


@dataclass(eq=False)
class OrdinalResult(RuleResult):
    """What RLVR² says; everything behind it is in `fused`, computed when it is asked for."""

    ordinal: OrdinalFusion | None = field(default=None, repr=False)
    batch: ScoreBatch | None = field(default=None, repr=False)

    @cached_property
    def fused(self) -> FusedBatch:
        """Utilities, outcomes, coefficients, gate and explanations of every group."""
        assert self.ordinal is not None
        assert self.batch is not None
        weights_NK = self.batch.weights_NK if self.weights_NK is None else self.weights_NK
        return self.ordinal.fused(self.batch, weights_NK, self.gate)


@dataclass(frozen=True)
class OrdinalFusion:
    """RLVR² with its options."""

    name: ClassVar[str] = "rlvr2"
    bounded: ClassVar[bool] = True

    adjust: Adjustment | Sequence[Adjustment] | None = None
    pool: Pool = "group"
    prior: float = 1.0
    attribute_prior: float = 1.0
    span: Span = "model"
    model: str | UtilityModel = "bradley-terry"
    seed: int = 0

    def __post_init__(self) -> None:
        Options(**self._options(), owner=self.name).check()
        if self.adjust is not None:
            one = isinstance(self.adjust, str) or not isinstance(self.adjust, Sequence)
            given: Any = [self.adjust] if one else self.adjust
            rules_for(self.name, given, len(given))  # raises for what is none

    def __call__(self, batch: ScoreBatch) -> RuleResult:
        """The reward of each rollout."""
        return OrdinalResult(self.values(batch, batch.weights_NK), self.name, batch.starts, ordinal=self, batch=batch)

    def values(self, batch: ScoreBatch, weights_NK: np.ndarray) -> np.ndarray:
        """(M,): rewards by these weights; nothing else is kept."""
        if not batch.N:
            return np.zeros(0)
        attributes = self._attributes(batch)
        by_name = attributes is not None or bool(batch.outcomes)
        options = Options(
            **self._options(),
            weights=_each_or_all(weights_NK),
            margins=_each_or_all(batch.margins_NK) if batch.margins_NK.any() else None,
            directions=_directions(batch),
            criteria=batch.names if by_name else None,
            attribute_names=None if attributes is None else batch.attribute_names or None,
            outcomes=_observations(batch),
        )
        rows = Batch(batch.scores_MK, batch.starts, (len(batch.scores_MK),), None, batch.labels)
        return run(options, rows, attributes).ranking_M

    def fused(self, batch: ScoreBatch, weights_NK: np.ndarray, gate: Gate | None) -> FusedBatch:
        """The whole fusion, with all that it knows about each group."""
        from rubrank.fusion.rlvr2 import RLVR2

        gates_MC = np.zeros((len(batch.scores_MK), 0)) if gate is None or batch.gates_MC is None else batch.gates_MC
        C, attributes = gates_MC.shape[1], self._attributes(batch)
        names = [c.name for c in batch.gate_criteria][:C]
        rule = RLVR2(
            **self._options(),
            criteria=[*batch.names, *names],
            weights=_wider(weights_NK, batch.N, C, 1.0),
            margins=_wider(batch.margins_NK, batch.N, C, 0.0),
            directions=[*(_directions(batch) or ["higher"] * batch.K), *(["higher"] * C)],
            attribute_names=None if attributes is None else batch.attribute_names or None,
            gate=gate,
        )
        labels = [batch.labels[g] for g in batch.group_of_row.tolist()]
        scores = np.hstack([batch.scores_MK, gates_MC])
        return rule(scores, groups=labels, attributes=attributes, outcomes=_observations(batch))

    def _options(self) -> dict[str, Any]:
        return {
            "adjust": self.adjust,
            "pool": self.pool,
            "prior": self.prior,
            "attribute_prior": self.attribute_prior,
            "span": self.span,
            "model": self.model,
            "seed": self.seed,
        }

    def _attributes(self, batch: ScoreBatch) -> np.ndarray | None:
        return None if self.adjust is None else batch.attributes_MD


@dataclass(frozen=True)
class Reweighted:
    """RLVR² with the weights of another rule."""

    ordinal: OrdinalFusion
    weighing: Reweighting

    bounded: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """Such as "rlvr2*focal"."""
        return f"{self.ordinal.name}*{self.weighing.name}"

    def __call__(self, batch: ScoreBatch) -> RuleResult:
        """The reward of each rollout."""
        weights_NK = usable(self.weighing.weights(batch), batch)
        value_M = self.ordinal.values(batch, weights_NK)
        return OrdinalResult(value_M, self.name, batch.starts, weights_NK, ordinal=self.ordinal, batch=batch)

    def state(self) -> dict[str, Any]:
        """Of the weights, if they have one."""
        inner = self.weighing.state() if isinstance(self.weighing, Stateful) else None
        return {"rule": self.name, "version": 1, "weighing": inner}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        from rubrank.fusion.rules import checks

        inner = checks.state_of(self, 1, state)["weighing"]
        if isinstance(self.weighing, Stateful):
            self.weighing.restore(inner)


def usable(weights_NK: np.ndarray, batch: ScoreBatch) -> np.ndarray:
    """Weights > 0 in the same ratios: next to nothing for 0, and the batch's own where a group's are all 0."""
    top = weights_NK.max(1, keepdims=True)
    if not np.isfinite(top).all():
        raise InvalidInput("rlvr2", "weights", "finite", "an infinite or missing one", "Check the rule they come from.")
    return np.where(top > 0.0, np.maximum(weights_NK, _LEAST * top), batch.weights_NK)


def _each_or_all(numbers_NK: np.ndarray) -> np.ndarray:
    """(N, K), or (K,) for all groups: the forms that the fusion takes."""
    return numbers_NK[0] if len(numbers_NK) == 1 else numbers_NK


def _directions(batch: ScoreBatch) -> list[str] | None:
    ways: list[str] = [criterion.direction for criterion in batch.criteria]
    return ways if "lower" in ways else None


def _observations(batch: ScoreBatch) -> Observations:
    """Outcomes by name and label: the form that the fusion takes."""
    found: dict[str, dict[Any, Any]] = {}
    for (g, k), won in batch.outcomes.items():
        found.setdefault(batch.names[k], {})[batch.labels[g]] = won
    return found or None


def _wider(numbers_NK: np.ndarray, N: int, C: int, fill: float) -> np.ndarray:
    """With columns for the gates, and a row a group."""
    return np.hstack([np.broadcast_to(numbers_NK, (N, numbers_NK.shape[1])), np.full((N, C), fill)])
