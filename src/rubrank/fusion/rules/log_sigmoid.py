"""Log-sigmoid sum (soft AND): every criterion must clear its reference.

    one criterion, reference 0.5, T = 0.1      score 0.5 → ln ½ = −0.69;  0.9 → −0.02;  0.1 → −4.02

    R = Σ w log σ((s − ref_k)/T)          grade A; ref = 0.5 and T = 0.1 are ours

`reference` is one number on the scale from 0 to 1, or one for each criterion by name (0.5 for the others).
Missing: left out, and the sum over the others is scaled up to the whole weight. A rollout without any score gets its
group's mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rubrank.errors import InvalidInput, UnknownName
from rubrank.fusion.result import Fused
from rubrank.fusion.rules import checks
from rubrank.fusion.rules.group_math import expand_rows, mask_weights, weighted_mean, zero_missing
from rubrank.scores.batch import ScoreBatch

_REFERENCE = 0.5


@dataclass(frozen=True)
class LogSigmoid(checks.LocalRule):
    """Σ w log σ."""

    name: ClassVar[str] = "log-sigmoid"
    bounded: ClassVar[bool] = False

    reference: float | Mapping[str, float] = _REFERENCE
    temperature: float = checks.number(0.1, above=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        references = (
            self.reference.values() if isinstance(self.reference, Mapping) else [self.reference]
        )
        if not all(
            isinstance(reference, int | float) and np.isfinite(reference)
            for reference in references
        ):
            allowed = "a number, or one for each criterion by name"
            raise InvalidInput(self.name, "reference", allowed, repr(self.reference), "Use 0.5.")

    def __call__(self, batch: ScoreBatch) -> Fused:
        """The sum of each rollout's log-sigmoids."""
        margin_MK = zero_missing(
            (batch.unit_MK - self._references(batch)) / self.temperature, batch
        )
        logs_MK = -np.logaddexp(0.0, -margin_MK)
        weight = expand_rows(mask_weights(batch, batch.weights_NK).sum(1), batch)
        value_M = weight * weighted_mean(logs_MK, batch.weights_NK, batch, empty=0.0)
        return Fused(batch, self.name, value_M)

    def _references(self, batch: ScoreBatch) -> np.ndarray:
        """(K,), or one number for all criteria."""
        if not isinstance(self.reference, Mapping):
            return np.array(self.reference)
        for name in self.reference:
            if name not in batch.names:
                raise UnknownName.of(self.name, "reference", name, batch.names)
        return np.array([self.reference.get(name, _REFERENCE) for name in batch.names])
