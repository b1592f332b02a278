"""Turn a record back into a fused group, which answers the same questions as the result of a rule.

    group = to_fused_group(record)
    group.outcomes[0, :, 2], group.effective_weights, group.explain(3)

A record of a rule without utilities works too: its utilities are NaN, and its explanation says who beats whom and what
the gate did, without contributions.

Letters: G rollouts, K criteria. The criteria that rank the rollouts are the first ones of a record; gates and watched
criteria follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rubrank.errors import only_our_errors
from rubrank.fusion.gate import Gate, GateResult
from rubrank.fusion.result import FusedGroup
from rubrank.records.record import GateRecord, GroupRecord, Table, to_array


@only_our_errors
def explain(record: GroupRecord, rollout: int) -> str:
    """Explain in words why this rollout (counted from 0) got its reward."""
    return to_fused_group(record).explain(rollout)


def to_fused_group(record: GroupRecord) -> FusedGroup:
    """Return the fused group of a record. What the record does not hold is NaN or None."""
    size = record.size
    ranked_count = len(record.weights)
    scores_GK = to_array(record.scores, (size, len(record.criteria)))
    names = tuple(criterion.name for criterion in record.ranked)
    is_higher = [criterion.direction == "higher" for criterion in record.ranked]
    gate = None
    gate_result = None
    if record.gate is not None:
        gate, gate_result = _restore_gate(record, record.gate)
    ranked_scores = None
    if record.ranked_scores is not None:
        ranked_scores = to_array(record.ranked_scores, (size, ranked_count))
    watched = {}
    for column, criterion in enumerate(record.criteria):
        if criterion.layer == "watch":
            watched[criterion.name] = scores_GK[:, column]
    return FusedGroup(
        label=record.group,
        criteria=names,
        weights=np.array(record.weights, dtype=float),
        margins=np.array([criterion.margin for criterion in record.ranked], dtype=float),
        scores=scores_GK[:, :ranked_count],
        higher_is_better=np.array(is_higher, dtype=bool),
        utilities=_read_array_or_nan(record.utilities, (size, ranked_count)),
        values=_read_array_or_nan(record.values, (size, ranked_count)),
        fused=np.full(size, np.nan) if record.fused is None else np.array(record.fused),
        ranking=np.array(record.ranking, dtype=float),
        reward=np.array(record.reward, dtype=float),
        no_signal=record.no_signal,
        scale=1.0 if record.scale is None else np.array(record.scale),
        gate=gate,
        gated=gate_result,
        compared=_read_outcomes(record, record.outcomes),
        soft=_read_outcomes(record, record.soft_outcomes),
        ranked_scores=ranked_scores,
        watched=watched,
        **_read_attribute_fields(record),
    )


def _read_outcomes(record: GroupRecord, tables: Mapping[str, Table]) -> dict[int, np.ndarray]:
    """Return column → (G, G) outcomes of comparisons, for the criteria that rank the rollouts.

    tables: name of a criterion → its outcomes; other criteria are left out.
    """
    names = [criterion.name for criterion in record.ranked]
    shape = (record.size, record.size)
    return {
        names.index(name): to_array(table, shape) for name, table in tables.items() if name in names
    }


def _restore_gate(record: GroupRecord, gate: GateRecord) -> tuple[Gate, GateResult]:
    """Return the gate of a record, and what it did to each rollout."""
    # Hard gates stop a rollout ("global_quality"), soft gates lower its reward ("low_quality").
    hard_names = [c.name for c in record.criteria if c.layer == "global_quality"]
    soft_names = [c.name for c in record.criteria if c.layer == "low_quality"]
    # A criterion that stopped a rollout is a hard gate even if the record does not list it.
    for stopped_by in gate.stopped_by:
        hard_names.extend(stopped_by)
    hard_names = list(dict.fromkeys(hard_names))  # each once, in this order
    is_stopped = [[name in stopped_by for name in hard_names] for stopped_by in gate.stopped_by]
    lifted = gate.lifted
    if lifted is None:  # the gate's factor was applied to the ranking itself
        lifted = record.ranking
    result = GateResult(
        reward=np.array(record.reward, dtype=float),
        passed=np.array(gate.passed, dtype=bool),
        factor=np.array(gate.factor, dtype=float),
        low_quality=np.array(gate.low_quality, dtype=float),
        stopped_by=np.array(is_stopped, dtype=bool).reshape(record.size, len(hard_names)),
        missing=np.array(gate.missing, dtype=int),
        lifted=np.array(lifted, dtype=float),
    )
    return Gate(global_quality=tuple(hard_names), low_quality=tuple(soft_names)), result


def _read_attribute_fields(record: GroupRecord) -> dict[str, Any]:
    """Return the fields of `FusedGroup` about attributes, such as length; None for what the record does not hold."""
    attributes = len(record.attribute_names)
    by_rollout = (record.size, attributes)
    by_criterion = (len(record.weights), attributes)
    tables = {
        "attributes": (record.attributes, by_rollout),
        "mean_contrasts": (record.mean_contrasts, by_rollout),
        "gamma": (record.gamma, by_criterion),
        "se": (record.se, by_criterion),
        "shrunk": (record.shrunk, by_criterion),
        "taken": (record.taken, by_criterion),
    }
    fields: dict[str, Any] = {"attribute_names": record.attribute_names, "pool": record.pool}
    fields["n"] = None if record.n is None else np.array(record.n, dtype=float)
    for name, (table, shape) in tables.items():
        fields[name] = None if table is None else to_array(table, shape)
    return fields


def _read_array_or_nan(table: Table | None, shape: tuple[int, int]) -> np.ndarray:
    """Return a table of a record as an array, which is NaN throughout if the record does not hold the table."""
    return np.full(shape, np.nan) if table is None else to_array(table, shape)
