"""RLVR² on arrays, gate included, for tests: options once, batches many times.

rlvr2(criteria=["A", "B"], weights=[2, 1])([[9, 1], [8, 0]])      what `RLVR2()(ScoreBatch.of_arrays(…))` gives
rlvr2(gate=Gate(["NotEmpty"]))                                    followed by the paper's gate, which does not lift
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rubrank import RLVR2, Fused, Gated, ScoreBatch

_OF_BATCH = ("criteria", "weights", "margins", "directions", "attribute_names")


def rlvr2(*, gate: Any = None, lift: float = 0.0, **options: Any) -> Callable[..., Fused]:
    data = {name: options.pop(name) for name in _OF_BATCH if name in options}

    def call(scores: Any, **given: Any) -> Fused:
        if gate is not None:
            given |= {"global_quality": gate.global_quality, "low_quality": gate.low_quality}
        if given.get("attributes") is not None:
            options.setdefault("adjust", "remove")
        batch = ScoreBatch.of_arrays(scores, **data, **given)
        rule = RLVR2(**options)
        return rule(batch) if gate is None else Gated(rule, replace(gate, lift=lift))(batch)

    RLVR2(**options)  # raises for what is none
    return call
