"""What a group's record says about how it was fused: plain numbers, names and lists of a `Fused`.

    record_data(fused, 0)["reward"]         (1.0, 0.25, 0.0)

The criteria are those that the group's own query asks for, those that are ranked by first, then gates. What is not
known is None, as in JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rubrank.fusion.group import FusedGroup
from rubrank.scores.batch import ScoreBatch

if TYPE_CHECKING:
    from rubrank.fusion.result import Fused


def record_data(fused: Fused, g: int) -> dict[str, Any]:
    """Everything between the scores of a group and its rewards: lists, numbers, names; None = not there."""
    batch, group = fused.batch, fused.group(g)
    asked = [k for k in range(batch.K) if _asks(batch, g, batch.criteria[k].name)]
    gates = [c for c, gate in enumerate(batch.gate_criteria) if _asks(batch, g, gate.name)]
    shown = {batch.criteria[k].name for k in asked}
    gates = [c for c in gates if batch.gate_criteria[c].name not in shown]
    own = {c.name: c for c in (batch.criteria + batch.gate_criteria if batch.own is None else batch.own[g])}
    scores = group.scores[:, asked]
    if batch.gates_MC is not None:
        scores = np.hstack([scores, batch.gates_MC[fused.rows_of(g)][:, gates]])
    return {
        "group": str(group.label),
        "rule": fused.rule,
        "criteria": tuple(
            own[c.name] for c in (*(batch.criteria[k] for k in asked), *(batch.gate_criteria[c] for c in gates))
        ),
        "scores": _table(scores),
        "outcomes": {batch.names[k]: _table(won) for k, won in group.compared.items()},
        "weights": _row(group.weights[asked]),
        "ranking": _row(group.ranking),
        "reward": _row(group.reward),
        "no_signal": group.no_signal,
        "flags": group.flags,
        "gate": _gate(group),
        "attribute_names": fused.attribute_names,
        "attributes": None if group.attributes is None else _table(group.attributes),
        **(_fitted(group, asked) if fused.fit is not None else {}),
    }


def _asks(batch: ScoreBatch, g: int, name: str) -> bool:
    return batch.own is None or any(criterion.name == name for criterion in batch.own[g])


def _fitted(group: FusedGroup, at: list[int]) -> dict[str, Any]:
    """What was fitted, for the criteria that this group asks for."""
    scale = np.broadcast_to(np.asarray(group.scale, dtype=float), len(group.criteria))
    return {
        "utilities": _table(group.utilities[:, at]),
        "values": _table(group.values[:, at]),
        "fused": _row(group.fused),
        "scale": _row(scale[at]),
        "effective_weights": _row(group.effective_weights[at]),
        "agreement": None if group.agreement != group.agreement else group.agreement,
        "error": None if group.error is None else _numbers(group.error),
        **_control(group, at),
    }


def _control(group: FusedGroup, at: list[int]) -> dict[str, Any]:
    if group.gamma is None or group.n is None:
        return {}
    tables = {name: getattr(group, name)[at] for name in ("gamma", "se", "shrunk", "taken")}
    return {
        "pool": group.pool,
        "mean_contrasts": None if group.mean_contrasts is None else _table(group.mean_contrasts),
        **{name: _table(table) for name, table in tables.items()},
        "n": _row(group.n[at]),
    }


def _gate(group: FusedGroup) -> dict[str, Any] | None:
    gate, gated = group.gate, group.gated
    if gate is None or gated is None:
        return None
    names = [str(name) for name in gate.global_quality]
    return {
        "passed": tuple(gated.passed.tolist()),
        "factor": _row(gated.factor),
        "low_quality": _numbers(gated.low_quality),
        "stopped_by": tuple(
            tuple(name for name, stopped in zip(names, row, strict=True) if stopped)
            for row in gated.stopped_by.tolist()
        ),
        "missing": tuple(int(n) for n in gated.missing),
        "lifted": _row(gated.lifted),
    }


def _row(values: np.ndarray) -> tuple[float, ...]:
    return tuple(np.asarray(values, dtype=float).tolist())


def _numbers(values: np.ndarray) -> tuple[float | None, ...]:
    return _table(values[None])[0]


def _table(values: np.ndarray) -> tuple[tuple[float | None, ...], ...]:
    rows = np.asarray(values, dtype=float)
    if not np.isnan(rows).any():
        return tuple(map(tuple, rows.tolist()))
    return tuple(tuple(None if x != x else x for x in row) for row in rows.tolist())
