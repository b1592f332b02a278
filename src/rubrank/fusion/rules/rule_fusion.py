"""Rule-Fusion: a weighted mean that is 0 if a hard rule is broken.

    hard rule "NotEmpty", weights 2, 1
    NotEmpty 1, scores 1, 0.5      R = (2 · 1 + 0.5)/3 = 0.83
    NotEmpty 0, scores 1, 1        R = 0

    R = Π_{h ∈ H} 1[s_h ≥ τ] · Σ_{k ∉ H} w s / Σ w,      τ = the domain's maximum          grade C: a reconstruction

No public text defines it beyond "a weighted sum gated by hard rules".
`hard` says what H is: "gates" (the rubric's criteria of the layer "global_quality"), "verified" (the ranked criteria
that a program decides with yes or no), or names. If all criteria are hard rules, R is 1 or 0.
`threshold` is τ on the scale from 0 to 1.
Missing: a hard rule without a score does not stop a rollout; other criteria are left out as in the weighted mean. A
rollout without any soft score gets its group's mean, whatever its hard rules say; only a group that asks for no soft
criterion is decided by hard rules alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rubrank.errors import InvalidInput, UnknownName
from rubrank.fusion.result import Fused
from rubrank.fusion.rules import checks
from rubrank.fusion.rules.group_math import weighted_mean
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.criterion import CriterionData


@dataclass(frozen=True)
class RuleFusion(checks.LocalRule):
    """Hard rules times a weighted mean."""

    name: ClassVar[str] = "rule-fusion"
    bounded: ClassVar[bool] = True

    hard: str | Sequence[str] = "gates"
    threshold: float = checks.number(1.0, high=1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.hard, str) and self.hard not in ("gates", "verified"):
            allowed = '"gates", "verified", or a list of names'
            raise InvalidInput(self.name, "hard", allowed, repr(self.hard), "Put a name in [ ].")

    def __call__(self, batch: ScoreBatch) -> Fused:
        """The weighted mean; 0 for a rollout that breaks a hard rule."""
        if not isinstance(self.hard, str):
            names = {*batch.names, *(c.name for c in batch.gate_criteria)}
            for name in self.hard:
                if name not in names:
                    raise UnknownName.of(self.name, "hard", name, names)
        hard_K = np.array([self._is_hard(c, ranked=True) for c in batch.criteria], bool)
        broken = (batch.scored_unit_MK[:, hard_K] < self.threshold).any(1)
        if batch.gates_MC is not None:
            stops = np.array([self._is_hard(c, ranked=False) for c in batch.gate_criteria], bool)
            broken |= (batch.clean_MC[:, stops] < self.threshold).any(1)
        mean = weighted_mean(batch.unit_MK, np.where(hard_K, 0.0, batch.weights_NK), batch)
        if hard_K.any():
            # In a group with hard rules only, a rollout that breaks none of them gets 1.
            alone_N = batch.scored_NK[:, hard_K].any(1) & ~batch.scored_NK[:, ~hard_K].any(1)
            mean = np.where(np.asarray(alone_N)[batch.group_of_row], 1.0, mean)
        return Fused(batch, self.name, np.where(broken, 0.0, mean), details={"broken": broken})

    def _is_hard(self, criterion: CriterionData, ranked: bool) -> bool:
        """Is it a hard rule? ranked: it is one of the ranked criteria, not of the gate criteria."""
        if self.hard == "gates":
            return not ranked and criterion.layer == "global_quality"
        if self.hard == "verified":
            return ranked and criterion.verifier is not None and criterion.domain.kind == "binary"
        return criterion.name in self.hard
