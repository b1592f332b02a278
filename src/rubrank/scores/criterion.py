"""`CriterionData`: the data of a criterion that scores need, without its verifier or judge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from rubrank.verifiers.domain import BINARY, Domain, Layer

if TYPE_CHECKING:
    from rubrank.rubrics.rubric import Criterion

SLACK = 1e-9
"""How far a score may lie outside its domain: scores computed from log-probabilities have rounding errors."""


@dataclass(frozen=True)
class CriterionData:
    """The data of a criterion as plain values, which can be read where its verifier is not installed."""

    name: str
    weight: float = 1.0
    margin: float = 0.0
    direction: Literal["higher", "lower"] = "higher"
    layer: Layer = "quality"
    domain: Domain = BINARY
    verifier: str | None = None
    """Name of the verifier; None: a judge decides."""
    version: int | None = None
    family: str | None = None
    category: str | None = None
    tier: int | None = None
    points: float | None = None
    depends: tuple[tuple[str, str], ...] = ()
    """(criterion, kind) of every prerequisite."""

    @classmethod
    def of(cls, criterion: Criterion) -> CriterionData:
        """Return the data of a rubric's criterion."""
        verifier = None if criterion.judged else criterion.decided_by
        return cls(
            name=criterion.name,
            weight=0.0 if criterion.value_layer == "watch" else criterion.weight,
            margin=criterion.margin,
            direction=criterion.direction,
            layer=criterion.value_layer,
            domain=criterion.value_domain,
            verifier=verifier.name if verifier else None,
            version=verifier.version if verifier else None,
            family=criterion.family or (verifier.family if verifier else None),
            category=criterion.category,
            tier=criterion.tier,
            points=criterion.points,
            depends=tuple((edge.on, edge.kind) for edge in criterion.depends),
        )

    def compute_cleanness(self, scores: np.ndarray) -> np.ndarray:
        """Return the scores scaled from 0 to 1, where 1 is best, as a gate reads them."""
        share = (scores - self.domain.low) / (self.domain.high - self.domain.low)
        return share if self.direction == "higher" else 1.0 - share
