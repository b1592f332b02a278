"""X+: any rule, followed by the gate that the rubric's layers make.

    weighted means 0.9, 0.8, 0.7; the second is empty (global quality 0), the third has a template (low quality 0)
    weighted-mean+ = 1, 0, 0.25 · 0.5 = 0.125          those that passed, stretched to [0, 1] and lifted to [0.25, 1]

    R = 0 where a criterion of the layer "global_quality" is below its maximum,
    R = ρ · (lift + (1 − lift) · R̃) otherwise          grade A: docs/gates.md; lift=0 is the paper

A factor below 1 would *raise* a negative number. The values of a rule that is not bounded (advantages, logarithms,
counts) are therefore stretched to [0, 1] within each group first. The result's `value_M` is still the rule's own
number; `details["stretched"]` is what was gated. A group whose query asks for no gate keeps the rule's values.
Penalties (the layer "low_quality") act through the factor here, and are not ranked.
Missing: a gate without a score does not gate; `Gate(missing="fail")` makes it, where the query asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from reprlib import repr as brief
from typing import Any

import numpy as np

from rubrank._plugins import is_ours
from rubrank.errors import InvalidInput
from rubrank.fusion.advantages import gated_advantages
from rubrank.fusion.gate import LIFT, Gate
from rubrank.fusion.result import Fused
from rubrank.fusion.rule import Rule, Stateful, fused_by
from rubrank.fusion.rules import checks
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.spread import stretched

_ROUNDING = 1e-6


@dataclass(frozen=True)
class Gated:
    """A rule, then a gate; `gate` has the options, its criteria come from the batch."""

    rule: Rule
    gate: Gate = field(default_factory=Gate)

    def __post_init__(self) -> None:
        if not isinstance(self.gate, Gate):
            raise InvalidInput("Gated", "gate", "a Gate, such as Gate(floor=0.5)", brief(self.gate), "")

    @property
    def bounded(self) -> bool:
        """From 0 to 1, but for advantages."""
        return getattr(self.rule, "scale", "ranking") == "ranking"

    @property
    def name(self) -> str:
        """Such as "gdpo+"."""
        return f"{self.rule.name}+"

    def __call__(self, batch: ScoreBatch) -> Fused:
        """The gated reward of each rollout."""
        batch = batch.without_penalties()
        fused = fused_by(self.rule, batch)
        values_M, details, span_N = fused.value_M, fused.details, fused.details.get("reference_span")
        if span_N is not None:
            values_M = fused.ranking_M
        elif not self.rule.bounded:
            values_M = stretched(values_M, batch.starts)
            details = {**details, "stretched": values_M}
        elif not is_ours(self.rule):
            self._check_bounds(values_M)
        gate = self._gate_of(batch)
        names = [criterion.name for criterion in batch.gate_criteria]
        gated = gate(values_M, batch.clean_MC, names, batch.gates_asked_NC[batch.group_of_row], batch.starts)
        if span_N is not None:
            gated = replace(gated, reward=gated_advantages(fused.value_M, batch, gate, gated, span_N))
        return replace(fused, rule=self.name, details=details, gate=gate, gated=gated)

    def _check_bounds(self, values_M: np.ndarray) -> None:
        """Hold a rule to what it says of itself: a factor would raise what is below 0."""
        low = values_M.min(initial=0.0)
        if low < -_ROUNDING:
            allowed = "from 0 to 1, as its `bounded` says"
            raise InvalidInput(f"rule {self.rule.name!r}", "the value", allowed, f"{low:g}", "Set bounded = False.")

    def _gate_of(self, batch: ScoreBatch) -> Gate:
        hard = tuple(c.name for c in batch.gate_criteria if c.layer == "global_quality")
        soft = tuple(c.name for c in batch.gate_criteria if c.layer == "low_quality")
        lift = LIFT if self.gate.lift is None else self.gate.lift
        return replace(self.gate, global_quality=hard, low_quality=soft, lift=lift)

    def state(self) -> dict[str, Any]:
        """Of the rule, if it has one."""
        inner = self.rule.state() if isinstance(self.rule, Stateful) else None
        return {"rule": self.name, "version": 1, "gated": inner}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        inner = checks.state_of(self, 1, state)["gated"]
        if isinstance(self.rule, Stateful):
            self.rule.restore(inner)
