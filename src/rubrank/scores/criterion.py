"""What a criterion says about its column of scores, by value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from rubrank.verifiers.domain import BINARY, Domain, Layer

if TYPE_CHECKING:
    from rubrank.rubrics.rubric import Criterion

SLACK = 1e-9
"""How far a score may lie outside its domain: what is computed from log-probabilities is rounded."""


@dataclass(frozen=True)
class CriterionData:
    """What a criterion says about its column, by value: readable where its verifier is not installed."""

    name: str
    weight: float = 1.0
    margin: float = 0.0
    direction: Literal["higher", "lower"] = "higher"
    layer: Layer = "quality"
    domain: Domain = BINARY
    verifier: str | None = None
    """None: a judge decides."""
    version: int | None = None
    family: str | None = None
    category: str | None = None
    tier: int | None = None
    points: float | None = None
    depends: tuple[tuple[str, str], ...] = ()
    """(criterion, kind) of every prerequisite."""

    @classmethod
    def of(cls, criterion: Criterion) -> CriterionData:
        """The data of a rubric's criterion."""
        decided = None if criterion.judged else criterion.decided_by
        return cls(
            criterion.name,
            criterion.weight,
            criterion.margin,
            criterion.direction,
            criterion.value_layer,
            criterion.value_domain,
            decided.name if decided else None,
            decided.version if decided else None,
            criterion.family or (decided.family if decided else None),
            criterion.category,
            criterion.tier,
            criterion.points,
            tuple((edge.on, edge.kind) for edge in criterion.depends),
        )

    def cleanness(self, scores: np.ndarray) -> np.ndarray:
        """The scores as a gate reads them: from 0 to 1 = clean."""
        share = (scores - self.domain.low) / (self.domain.high - self.domain.low)
        return share if self.direction == "higher" else 1.0 - share
