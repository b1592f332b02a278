"""RLVR² with the weights of another rule: rlvr2*focal, and so for every rule that re-weights.

    Focal gives nearly all weight to the criterion that the better rollouts have not got yet: its ranking decides

grade C: a reconstruction
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rubrank.errors import InvalidInput
from rubrank.fusion.result import Fused
from rubrank.fusion.rlvr2 import RLVR2
from rubrank.fusion.rule import Reweighting, Stateful
from rubrank.fusion.rules import checks
from rubrank.scores.batch import ScoreBatch

_LEAST = 1e-9  # share of a group's largest weight: an ordering has no weight 0, and this much moves nothing


@dataclass(frozen=True)
class Reweighted:
    """RLVR² with the weights of another rule."""

    ordinal: RLVR2
    weighing: Reweighting

    @property
    def bounded(self) -> bool:
        """As RLVR² is."""
        return self.ordinal.bounded

    @property
    def scale(self) -> str:
        """Of the rewards."""
        return self.ordinal.scale

    @property
    def name(self) -> str:
        """Such as "rlvr2*focal"."""
        return f"{self.ordinal.name}*{self.weighing.name}"

    def __call__(self, batch: ScoreBatch) -> Fused:
        """The reward of each rollout."""
        weights_NK = usable(self.weighing.weights(batch), batch)
        return replace(self.ordinal.weighed(batch, weights_NK), rule=self.name)

    def state(self) -> dict[str, Any]:
        """Of the weights, if they have one, and of the attributes, if they are learnt about."""
        inner = self.weighing.state() if isinstance(self.weighing, Stateful) else None
        ordinal = self.ordinal.state() if self.ordinal.remembers else None
        return {"rule": self.name, "version": 1, "weighing": inner, "ordinal": ordinal}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        checked = checks.state_of(self, 1, state)
        if isinstance(self.weighing, Stateful):
            self.weighing.restore(checked["weighing"])
        if self.ordinal.remembers and checked.get("ordinal") is not None:
            self.ordinal.restore(checked["ordinal"])


def usable(weights_NK: np.ndarray, batch: ScoreBatch) -> np.ndarray:
    """Weights > 0 in the same ratios: next to nothing for 0, and the batch's own where a group's are all 0."""
    top = weights_NK.max(1, keepdims=True)
    if not np.isfinite(top).all():
        raise InvalidInput("rlvr2", "weights", "finite", "an infinite or missing one", "")
    return np.where(top > 0.0, np.maximum(weights_NK, _LEAST * top), batch.weights_NK)
