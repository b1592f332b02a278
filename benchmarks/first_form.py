"""Attribute control as the first version (commit ab20e21) had it, for tables that show old and new side by side.

v = u + keep·γ·z̄, from the joint fit over a batch, z scaled in each group: nothing is shrunk, nothing fitted again

`control(form, adjust)` is the rule of a form: "letter" (pool="group"), "old", "batch" or "run".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rubrank import RLVR2, Fused, ScoreBatch
from rubrank.fusion.control.adjustment import Attenuate
from rubrank.fusion.models.attribute_fit import FitData, estimate
from rubrank.fusion.models.model import find_model
from rubrank.scores.spread import stretch_groups


def control(form: str, adjust: Any, **options: Any) -> Any:
    """The rule of a form."""
    if form == "old":
        return FirstForm(adjust)
    pool: Any = {"letter": "group"}.get(form, form)
    return RLVR2(adjust=adjust, pool=pool, **options)


@dataclass(frozen=True)
class FirstForm:
    """The pooled form of the first version; all criteria are adjusted, by one rule for all attributes."""

    adjust: Any
    name: str = "rlvr2, old form"
    bounded: bool = True

    def __call__(self, batch: ScoreBatch) -> Fused:
        """The reward of each rollout."""
        plain = RLVR2()(batch)
        assert plain.fit is not None
        assert batch.attributes_MD is not None
        attributes_MD = np.array(batch.attributes_MD, order="C")
        observed = FitData(batch.oriented_MK, batch.starts, batch.margins_NK, attributes_MD, 1.0, 1.0, batch.outcomes)
        u_MK = plain.fit.utilities_MK.copy()
        told_NK = observed.find_informative(u_MK)
        estimated, u_MK = estimate(find_model("bradley-terry"), observed, told_NK, u_MK)
        gamma_KD = estimated.gamma_KD
        sizes_M = batch.sizes[batch.group_of_row][:, None]
        contrasts_MD = observed.average_contrasts() * sizes_M / np.maximum(sizes_M - 1, 1)
        known_MK = told_NK[batch.group_of_row] & ~batch.missing_MK
        values_MK = u_MK + known_MK * (contrasts_MD @ self._kept(gamma_KD).T)
        weights_MK = np.broadcast_to(batch.weights_NK, (batch.N, batch.K))[batch.group_of_row]
        value_M = stretch_groups((weights_MK * values_MK).sum(1), batch.starts)
        return replace(plain, rule=self.name, value_M=value_M, fit=None)

    def _kept(self, gamma_KD: np.ndarray) -> np.ndarray:
        if isinstance(self.adjust, Attenuate):
            return np.where(gamma_KD > 0.0, (1.0 - self.adjust.lam) * gamma_KD, gamma_KD)
        return np.zeros_like(gamma_KD)
