"""Any source of scores as a `ScoreTable` in memory, for the verbs that look at all of it.

    found = read_table("long.csv")
    print(found)                            read 512 rollouts in 64 groups (long CSV, by prompt_id).
    found.table.batch()

A file that `ScoreTable.write` wrote brings its rubrics. Of other tables only names are known: their criteria weigh the
same, higher is better, and a scale is from 0 to 1 unless scores lie outside.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rubrank.fusion.stream.facts import numbers
from rubrank.fusion.stream.names import LINE, SCORES, Columns
from rubrank.fusion.stream.opening import open_table, shape_of
from rubrank.fusion.stream.survey import Layout, cells_of, survey
from rubrank.scores.criterion import CriterionData
from rubrank.scores.files import read_scores
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.verifiers.domain import UNIT, Domain


@dataclass(frozen=True, eq=False)
class TableRead:
    """A table, and how it was read."""

    table: ScoreTable
    shape: str
    by: str
    attributes: np.ndarray | None = None
    """(rollouts, D): what the columns that were named say, rows as in the table; None if none was."""

    def __str__(self) -> str:
        """read 512 rollouts in 64 groups (long CSV, by prompt_id)."""
        rollouts, groups = len(self.table), len(self.table.groups)
        counted = f"{rollouts:,} rollout{'' if rollouts == 1 else 's'} in {groups:,} group{'' if groups == 1 else 's'}"
        return f"read {counted} ({self.shape}, by {self.by})."


def read_table(source: Any, columns: Columns | None = None) -> TableRead:
    """All scores of a source; rows of a group may stand apart."""
    columns = columns or Columns()
    reader = open_table(source, columns, any_order=True)
    if reader.rubrics:
        return TableRead(read_scores(reader.path), f"scores, {shape_of(reader, source)}", "group")
    layout = survey(reader, (), False, columns, True, None)
    groups: dict[str, list[dict[str, float]]] = {}
    measured: dict[str, list[list[float]]] = {}
    for label, scores, values in _rollouts(layout):
        groups.setdefault(label, []).append(scores)
        measured.setdefault(label, []).append(values)
    known = _criteria(layout, groups)
    table = ScoreTable(tuple(_group(label, rows, known) for label, rows in groups.items()))
    attributes = np.array([row for rows in measured.values() for row in rows]) if layout.attributes else None
    return TableRead(table, shape_of(reader, source), "/".join(layout.groups), attributes)


def _rollouts(layout: Layout) -> Iterator[tuple[str, dict[str, float], list[float]]]:
    """The label of every row, those of its scores that are there, and its attributes."""
    text, names = layout.reader.text_is_number, layout.names
    for frame in layout.reader.frames(layout.needed(), lines=layout.wide):
        labels = [str(label) for label in layout.labels(frame)]
        if layout.wide:
            rows = [json.loads(line).get(SCORES) or {} for line in frame[LINE]]
            cells = [{name: float(x) for name, x in row.items() if x is not None} for row in rows]
        else:
            matrix = np.stack([numbers(cells_of(frame, leaf), text).to_numpy() for leaf in layout.criteria], 1)
            cells = [{n: x for n, x in zip(names, row, strict=True) if not math.isnan(x)} for row in matrix.tolist()]
        columns = [numbers(cells_of(frame, leaf), text).to_list() for leaf in layout.attributes]
        yield from zip(
            labels, cells, map(list, zip(*columns, strict=True)) if columns else [[]] * len(cells), strict=True
        )


def _criteria(layout: Layout, groups: dict[str, list[dict[str, float]]]) -> dict[str, CriterionData]:
    low, high = dict.fromkeys(layout.names, 0.0), dict.fromkeys(layout.names, 1.0)
    for rows in groups.values():
        for row in rows:
            for name, x in row.items():
                low[name], high[name] = min(low[name], x), max(high[name], x)
    return {name: replace(CriterionData(name), domain=_domain(low[name], high[name])) for name in layout.names}


def _domain(low: float, high: float) -> Domain:
    return UNIT if (low, high) == (0.0, 1.0) else Domain("continuous", (), low, high)


def _group(label: str, rows: list[dict[str, float]], known: dict[str, CriterionData]) -> GroupScores:
    """A group with the criteria that rollouts in it were scored on."""
    asked = [name for name in known if any(name in row for row in rows)] or list(known)[:1]
    matrix = np.array([[row.get(name, math.nan) for name in asked] for row in rows], dtype=float)
    return GroupScores(label, tuple(known[name] for name in asked), matrix, (("",) * len(asked),) * len(rows))
