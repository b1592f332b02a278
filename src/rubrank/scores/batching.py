"""A score table as one batch: columns ranked by apart from columns that gate, scores as they were given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rubrank.errors import InvalidInput
from rubrank.scores.arrays import read_attributes
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.criterion import CriterionData

if TYPE_CHECKING:
    from rubrank.scores.table import ScoreTable


def score_batch_of(
    table: ScoreTable,
    attributes: Any,
    attribute_names: tuple[str, ...],
    columns: Sequence[CriterionData],
    rank_penalties: bool,
) -> ScoreBatch:
    """Rows in the order of the table; see `ScoreTable.batch`."""
    known = {criterion.name: criterion for criterion in (*columns, *table.specifications())}
    criteria = list(known.values())
    ranked = [c for c in criteria if c.layer == "quality" or (rank_penalties and c.layer == "low_quality")]
    gates = [c for c in criteria if c.layer != "quality"]
    if len(gates) == len(criteria) and table.groups:
        allowed = 'some in the layer "quality"'
        raise InvalidInput("ScoreTable", "criteria", allowed, "gates only", "Add something to rank by.")
    sizes = [len(group.scores) for group in table.groups]
    batch = ScoreBatch(
        scores_MK=_columns(table, table.scores, ranked, np.nan),
        starts=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        criteria=tuple(ranked),
        weights_NK=_once(_columns(table, table.per_group("weight", 1.0), ranked, 1.0)),
        margins_NK=_once(_columns(table, table.per_group("margin", 0.0), ranked, 0.0)),
        given_labels=tuple(group.id for group in table.groups),
        own=_own(table, len(criteria)),
        outcomes=_cells(table, {c.name: k for k, c in enumerate(ranked)}),
        attribute_names=attribute_names,
    )
    if gates:
        batch.gates_MC, batch.gate_criteria = _columns(table, table.scores, gates, np.nan), tuple(gates)
    if attributes is not None:
        batch.attributes_MD = read_attributes("ScoreTable.batch", batch, attributes)
    return batch


def _columns(table: ScoreTable, values: np.ndarray, criteria: Sequence[CriterionData], absent: float) -> np.ndarray:
    """The columns of these criteria; those that the table has not are all `absent`."""
    number = {name: k for k, name in enumerate(table.criteria)}
    if all(c.name in number for c in criteria):
        return np.ascontiguousarray(values[:, [number[c.name] for c in criteria]])
    found = np.full((len(values), len(criteria)), absent)
    for k, criterion in enumerate(criteria):
        if criterion.name in number:
            found[:, k] = values[:, number[criterion.name]]
    return found


def _once(values_NK: np.ndarray) -> np.ndarray:
    """One row where all groups have the same."""
    same = len(values_NK) > 0 and (values_NK == values_NK[0]).all()
    return np.ascontiguousarray(values_NK[:1] if same else values_NK)


def _own(table: ScoreTable, columns: int) -> tuple[tuple[CriterionData, ...], ...] | None:
    own = tuple(group.criteria for group in table.groups)
    return None if len(set(own)) <= 1 and columns == len(table.criteria) else own


def _cells(table: ScoreTable, columns: dict[str, int]) -> dict[tuple[int, int], np.ndarray]:
    return {
        (g, columns[name]): outcomes
        for g, group in enumerate(table.groups)
        for name, outcomes in group.outcomes.items()
        if name in columns
    }
