"""Score tables into files, so that nothing is lost; `files.py` says what they hold, and reads them."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from rubrank._files import replacing, wrong_suffix
from rubrank._plain import clean
from rubrank.scores.criterion import CriterionData

if TYPE_CHECKING:
    from rubrank.scores.table import GroupScores, ScoreTable

VERSION = 1
_KEYS = ("group", "rollout", "rubric")
REASON = " (reason)"
OUTCOMES = "outcomes"
_WIDEST = 500
SUFFIXES = (".parquet", ".jsonl", ".jsonl.gz")


def write_scores(table: ScoreTable, path: Path) -> None:
    """By suffix; the file appears when it is complete."""
    if not path.name.endswith(SUFFIXES):
        raise wrong_suffix(path, SUFFIXES)
    with replacing(path) as partial:
        if path.suffix == ".parquet":
            _write_parquet(table, partial)
        else:
            _write_jsonl(table, partial, path.suffix == ".gz")


def _rubrics(table: ScoreTable) -> dict[tuple[CriterionData, ...], int]:
    """The different lists of criteria, numbered."""
    found: dict[tuple[CriterionData, ...], int] = {}
    for group in table:
        found.setdefault(group.criteria, len(found))
    return found


def _header(table: ScoreTable, rubrics: Iterable[tuple[CriterionData, ...]]) -> dict[str, Any]:
    known = {} if table.provenance is None else {"judging": table.provenance.as_dict()}
    listed = [[asdict(criterion) for criterion in rubric] for rubric in rubrics]
    return {"rubrank": "scores", "version": VERSION, "rubrics": listed, **known}


def _write_jsonl(table: ScoreTable, path: Path, compressed: bool) -> None:
    rubrics = _rubrics(table)
    with gzip.open(path, "wt", encoding="utf-8") if compressed else path.open("w", encoding="utf-8") as file:
        _line(file, _header(table, rubrics))
        for group in table:
            for i in range(len(group.scores)):
                _line(file, _as_object(group, i, rubrics[group.criteria]))


def _line(file: IO[str], data: Any) -> None:
    # A lone surrogate in a name or reason cannot be written as UTF-8; escaped it can.
    text = json.dumps(data, ensure_ascii=False)
    file.write((text if text.isprintable() else json.dumps(data)) + "\n")


def _as_object(group: GroupScores, i: int, rubric: int) -> dict[str, Any]:
    compared = {OUTCOMES: outcomes_text(group, i)} if group.outcomes else {}
    return {
        "group": group.id,
        "rollout": i,
        "rubric": rubric,
        "scores": dict(zip(group.names, _with_nulls(group.scores[i]), strict=True)),
        "reasons": dict(zip(group.names, group.reasons[i], strict=True)),
        **compared,
    }


def _with_nulls(values: np.ndarray) -> list[float | None]:
    return [None if math.isnan(x) else x for x in values.tolist()]


def outcomes_text(group: GroupScores, i: int) -> str | None:
    """Rollout i against the others, on the criteria on which responses were compared."""
    if not group.outcomes:
        return None
    return json.dumps({name: _with_nulls(won[i]) for name, won in group.outcomes.items()}, ensure_ascii=False)


def _write_parquet(table: ScoreTable, path: Path) -> None:
    rubrics = _rubrics(table)
    wide = _fits_wide(table)
    frame = _wide(table, rubrics) if wide else _long(table, rubrics)
    header = {**_header(table, rubrics), "layout": "wide" if wide else "long"}
    frame.write_parquet(path, metadata={"rubrank": json.dumps(header)})


def _fits_wide(table: ScoreTable) -> bool:
    names = [*_KEYS, OUTCOMES, *table.criteria, *(name + REASON for name in table.criteria)]
    return len(table.criteria) <= _WIDEST and len(set(names)) == len(names)


def _keys(table: ScoreTable, rubrics: Mapping[tuple[CriterionData, ...], int]) -> dict[str, Any]:
    rubric = [rubrics[group.criteria] for group in table for _ in range(len(group.scores))]
    return {"group": table.group_ids, "rollout": table.rollout_numbers, "rubric": rubric}


def _wide(table: ScoreTable, rubrics: Mapping[tuple[CriterionData, ...], int]) -> Any:
    import polars

    columns: dict[str, Any] = _keys(table, rubrics)
    for k, name in enumerate(table.criteria):
        columns[name] = polars.Series(name, table.scores[:, k], nan_to_null=True)
        columns[name + REASON] = polars.Series(name + REASON, list(_reasons(table, name)), dtype=polars.String)
    if any(group.outcomes for group in table):
        compared = [outcomes_text(group, i) for group in table for i in range(len(group.scores))]
        columns[OUTCOMES] = polars.Series(OUTCOMES, compared, dtype=polars.String)
    return polars.DataFrame(columns, schema_overrides={"group": polars.String, "rollout": polars.Int64})


def _reasons(table: ScoreTable, name: str) -> Iterator[str | None]:
    for group in table:
        at = group.names.index(name) if name in group.names else None
        for reasons in group.reasons:
            yield None if at is None else clean(reasons[at])


def _long(table: ScoreTable, rubrics: Mapping[tuple[CriterionData, ...], int]) -> Any:
    import polars

    rows = [
        (group.id, i, rubrics[group.criteria], name, x, clean(reason), outcomes_text(group, i))
        for group in table
        for i in range(len(group.scores))
        for name, x, reason in zip(group.names, _with_nulls(group.scores[i]), group.reasons[i], strict=True)
    ]
    schema = {"group": polars.String, "rollout": polars.Int64, "rubric": polars.Int64, "criterion": polars.String}
    more = {"score": polars.Float64, "reason": polars.String, OUTCOMES: polars.String}
    return polars.DataFrame(rows, schema={**schema, **more}, orient="row")
