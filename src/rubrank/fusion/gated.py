"""X+: any rule, followed by the gate that the rubric's layers make.

    weighted means 0.9, 0.8, 0.7; the second is empty (global quality 0), the third has a template (low quality 0)
    weighted-mean+ = 0.9, 0, 0.7 · 0.5 = 0.35

    R = 0 where a criterion of the layer "global_quality" is below its maximum,
    R = ρ · value otherwise          grade A: docs/gates.md

A factor below 1 would *raise* a negative number. The values of a rule that is not bounded (advantages, logarithms,
counts) are therefore stretched to [0, 1] within each group first: the worst has 0, the best 1, all 0.5 where they are
equal. The result's `value_M` is still the rule's own number; `details["stretched"]` is what was gated. A batch without
gate criteria gets the same treatment, with nothing to stop anybody.
Missing: a gate without a score does not gate; `Gate(missing="fail")` makes it, where the query asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from rubrank.fusion.gate import Gate
from rubrank.fusion.rule import Rule, RuleResult, Stateful
from rubrank.fusion.rules import checks
from rubrank.fusion.rules.within import stretched
from rubrank.scores.batch import ScoreBatch


@dataclass(frozen=True)
class GatedRule:
    """A rule, then a gate; `gate` has the options, its criteria come from the batch."""

    rule: Rule
    gate: Gate = field(default_factory=Gate)

    bounded: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """Such as "gdpo+"."""
        return f"{self.rule.name}+"

    def __call__(self, batch: ScoreBatch) -> RuleResult:
        """The gated reward of each rollout."""
        result = self.rule(batch)
        values_M, details = result.value_M, result.details
        if not self.rule.bounded:
            values_M = stretched(values_M, batch)
            details = {**details, "stretched": values_M}
        gate = self._gate_of(batch)
        gates_MC = np.zeros((len(values_M), 0)) if batch.gates_MC is None else batch.gates_MC
        asked_MC = batch.gates_asked_MC if gate.missing == "fail" else None
        gated = gate(values_M, gates_MC, [c.name for c in batch.gate_criteria], asked_MC)
        return replace(result, rule=self.name, details=details, gate=gate, gated=gated)

    def _gate_of(self, batch: ScoreBatch) -> Gate:
        hard = tuple(c.name for c in batch.gate_criteria if c.layer == "global_quality")
        soft = tuple(c.name for c in batch.gate_criteria if c.layer == "low_quality")
        return replace(self.gate, global_quality=hard, low_quality=soft)

    def state(self) -> dict[str, Any]:
        """Of the rule, if it has one."""
        inner = self.rule.state() if isinstance(self.rule, Stateful) else None
        return {"rule": self.name, "version": 1, "gated": inner}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        inner = checks.state_of(self, 1, state)["gated"]
        if isinstance(self.rule, Stateful):
            self.rule.restore(inner)
