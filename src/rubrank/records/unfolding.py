"""Records → fused groups: what was written can be asked again.

    fused = fused_group(record)
    fused.outcomes[0, :, 2], fused.effective_weights, fused.explain(3)

A record of a rule that has no utilities unfolds too: its utilities are NaN, and its explanation says who beats whom and
what the gate did, without shares.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rubrank.errors import only_our_errors
from rubrank.fusion.gate import Gate, GateResult
from rubrank.fusion.result import FusedGroup
from rubrank.records.record import GateRecord, GroupRecord, Table


def fused_group(record: GroupRecord) -> FusedGroup:
    """The group of a record, with everything that was computed about it."""
    G, K = record.size, len(record.weights)
    scores = number_table(record.scores, (G, len(record.criteria)))[:, :K]
    utilities = _optional(record.utilities, (G, K))
    values = _optional(record.values, (G, K))
    names, gate = tuple(c.name for c in record.ranked), record.gate
    compared = {names.index(name): number_table(won, (G, G)) for name, won in record.outcomes.items() if name in names}
    return FusedGroup(
        label=record.group,
        criteria=names,
        weights=np.array(record.weights, dtype=float),
        margins=np.array([c.margin for c in record.ranked], dtype=float),
        scores=scores,
        higher_is_better=np.array([c.direction == "higher" for c in record.ranked], dtype=bool),
        utilities=utilities,
        values=values,
        fused=np.full(G, np.nan) if record.fused is None else np.array(record.fused),
        ranking=np.array(record.ranking, dtype=float),
        reward=np.array(record.reward, dtype=float),
        no_signal=record.no_signal,
        scale=1.0 if record.scale is None else np.array(record.scale),
        gate=None if gate is None else Gate(global_quality=hard_gates(record), low_quality=_soft_gates(record)),
        gated=None if gate is None else _gated(record, gate),
        agreement=float("nan") if record.agreement is None else record.agreement,
        error=None if record.error is None else np.array(record.error, dtype=float),
        compared=compared,
        **_attributes(record),
    )


@only_our_errors
def explain(record: GroupRecord, rollout: int) -> str:
    """Why this rollout got its reward, in words."""
    return fused_group(record).explain(rollout)


def hard_gates(record: GroupRecord) -> tuple[str, ...]:
    """Names of the criteria that can stop a rollout, in the record's order."""
    asked = [c.name for c in record.criteria if c.layer == "global_quality"]
    stopped = [name for names in record.gate.stopped_by for name in names] if record.gate else []
    return tuple(dict.fromkeys([*asked, *stopped]))


def _soft_gates(record: GroupRecord) -> tuple[str, ...]:
    return tuple(c.name for c in record.criteria if c.layer == "low_quality")


def number_table(table: Table | None, shape: tuple[int, int]) -> np.ndarray:
    """A table of a record as numbers; None = NaN."""
    return np.array(table, dtype=float).reshape(shape)  # NumPy reads None as NaN


def _optional(table: Table | None, shape: tuple[int, int]) -> np.ndarray:
    return np.full(shape, np.nan) if table is None else number_table(table, shape)


def _attributes(record: GroupRecord) -> dict[str, Any]:
    G, K, D = record.size, len(record.weights), len(record.attribute_names)
    tables = {
        "attributes": (record.attributes, (G, D)),
        "mean_contrasts": (record.mean_contrasts, (G, D)),
        **{name: (getattr(record, name), (K, D)) for name in ("gamma", "se", "shrunk", "taken")},
    }
    found = {name: None if table is None else number_table(table, shape) for name, (table, shape) in tables.items()}
    n = None if record.n is None else np.array(record.n, dtype=float)
    return {"attribute_names": record.attribute_names, "pool": record.pool, "n": n, **found}


def _gated(record: GroupRecord, gate: GateRecord) -> GateResult:
    names = hard_gates(record)
    stopped = np.array([[name in found for name in names] for found in gate.stopped_by], dtype=bool)
    return GateResult(
        reward=np.array(record.reward, dtype=float),
        passed=np.array(gate.passed, dtype=bool),
        factor=np.array(gate.factor, dtype=float),
        low_quality=np.array(gate.low_quality, dtype=float),
        stopped_by=stopped.reshape(record.size, len(names)),
        missing=np.array(gate.missing, dtype=int),
        lifted=np.array(record.ranking if gate.lifted is None else gate.lifted, dtype=float),
    )
