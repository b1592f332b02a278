"""A score table as one batch for aggregation rules: columns ranked by apart from columns that gate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from rubrank.scores.arrays import Batch, attributes_like
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.criterion import CriterionData
from rubrank.scores.table import ScoreTable
from rubrank.verifiers.verifier import UNIT


def score_batch_of(table: ScoreTable, attributes: Any, attribute_names: tuple[str, ...]) -> ScoreBatch:
    """Rows in the order of the table; see `ScoreBatch`."""
    criteria = table.specifications()
    ranked = [k for k, c in enumerate(criteria) if c.layer == "quality"]
    gates = [k for k, c in enumerate(criteria) if c.layer != "quality"]
    sizes = [len(group.scores) for group in table.groups]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    scores, margins = table.scores.copy(), table.per_group("margin", 0.0)
    for k in ranked:
        if _differs(table, criteria[k].name):
            criteria[k] = _to_unit(table, criteria[k], k, starts, scores, margins)
    batch = ScoreBatch(
        scores_MK=np.ascontiguousarray(scores[:, ranked]),
        starts=starts,
        criteria=tuple(criteria[k] for k in ranked),
        weights_NK=_once(table.per_group("weight", 1.0)[:, ranked]),
        margins_NK=_once(margins[:, ranked]),
        labels=tuple(group.id for group in table.groups),
        own=_own(table),
        outcomes=_cells(table, {criteria[k].name: i for i, k in enumerate(ranked)}),
        attribute_names=attribute_names,
    )
    if gates:
        clean = [criteria[k].cleanness(scores[:, k]) for k in gates]
        batch.gates_MC, batch.gate_criteria = np.stack(clean, axis=1), tuple(criteria[k] for k in gates)
    if attributes is not None:
        like = Batch(batch.scores_MK, starts, (len(table),))
        batch.attributes_MD = attributes_like("ScoreTable.batch", like, attributes)
    return batch


def _differs(table: ScoreTable, name: str) -> bool:
    """Does a criterion mean another scale, or the other direction, in some query?"""
    return len({(c.domain, c.direction) for c in table.variants(name)}) > 1


def _to_unit(
    table: ScoreTable, criterion: CriterionData, k: int, starts: np.ndarray, scores: np.ndarray, margins: np.ndarray
) -> CriterionData:
    """Put a column whose scale differs from query to query on one scale, in place: 0 to 1, more is better."""
    for g, group in enumerate(table.groups):
        own = next((c for c in group.criteria if c.name == criterion.name), None)
        if own is not None:
            rows = slice(starts[g], starts[g + 1])
            scores[rows, k] = own.cleanness(scores[rows, k])
            margins[g, k] /= own.domain.high - own.domain.low
    return replace(criterion, domain=UNIT, direction="higher")


def _once(values_NK: np.ndarray) -> np.ndarray:
    """One row where all groups have the same."""
    return values_NK[:1] if len(values_NK) and (values_NK == values_NK[0]).all() else values_NK


def _own(table: ScoreTable) -> tuple[tuple[CriterionData, ...], ...] | None:
    own = tuple(group.criteria for group in table.groups)
    return None if len(set(own)) <= 1 else own


def _cells(table: ScoreTable, columns: dict[str, int]) -> dict[tuple[int, int], np.ndarray]:
    return {
        (g, columns[name]): outcomes
        for g, group in enumerate(table.groups)
        for name, outcomes in group.outcomes.items()
        if name in columns
    }
