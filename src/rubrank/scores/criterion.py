"""`CriterionData`: what score tables and score files know about a criterion, without its verifier or judge.

CriterionData.of(rubric.criteria[0])       CriterionData(name="WordCount", weight=1.0, …)
"""

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
    """The data of a criterion as plain values, so that a score file can be read where its verifier is not installed.

    `Criterion` in `rubrics/rubric.py` is the same with all that grading needs.
    """

    name: str
    weight: float = 1.0
    """0 for a criterion that is only watched."""
    margin: float = 0.0
    """Scores that differ by no more than this are tied."""
    direction: Literal["higher", "lower"] = "higher"
    """Which scores are better."""
    layer: Layer = "quality"
    """Whether the criterion is rewarded ("quality"), only watched ("watch"), or a gate."""
    domain: Domain = BINARY
    """Which scores are possible."""
    verifier: str | None = None
    """Name of the verifier; None: a judge decides."""
    version: int | None = None
    """Version of the verifier."""
    family: str | None = None
    """Family of the catalogue, such as "comprehensive"."""
    category: str | None = None
    """Such as Essential, Important, Optional, Pitfall."""
    tier: int | None = None
    """For the rule "lexicographic", which compares tier 1 first."""
    points: float | None = None
    """Points as a point-based rubric gives them."""
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

    def normalize_scores(self, scores: np.ndarray) -> np.ndarray:
        """Return the scores scaled so that 0 is the worst and 1 the best value of the domain. NaN stays NaN."""
        share = (scores - self.domain.low) / (self.domain.high - self.domain.low)
        return share if self.direction == "higher" else 1.0 - share
