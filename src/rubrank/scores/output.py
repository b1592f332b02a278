"""Write score tables to files, with reasons and rubrics; `scores/files.py` describes the format and reads it."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rubrank._files import atomic_write, suffix_error
from rubrank._plain import clean
from rubrank.scores.criterion import CriterionData

if TYPE_CHECKING:
    import polars as pl

    from rubrank.scores.table import GroupScores, ScoreTable

VERSION = 1
RUBRIC = "rubric"
"""The column with the number of a row's rubric."""
REASON_SUFFIX = " (reason)"
"""Name of a criterion + this = the column with its reasons."""
OUTCOMES = "outcomes"
"""The column with comparisons, as a JSON text."""
PROBABILITIES = "probabilities"
"""The column with distributions of verdicts, as a JSON text."""
DIGEST = "digest"
"""The column with a digest of the response that was scored."""
SUFFIXES = (".parquet", ".jsonl", ".jsonl.gz")
_KEY_COLUMNS = ("group", "rollout", RUBRIC)
_MOST_CRITERION_COLUMNS = 500  # with more, Parquet gets one row per score

_RubricNumbers = dict[tuple[CriterionData, ...], int]


def write_scores(table: ScoreTable, path: Path) -> None:
    """Write a table as Parquet or JSON Lines, by suffix; the file appears when it is complete."""
    if not path.name.endswith(SUFFIXES):
        raise suffix_error(path, SUFFIXES)
    numbers: _RubricNumbers = {}
    for group in table:
        numbers.setdefault(group.criteria, len(numbers))
    header: dict[str, Any] = {
        "rubrank": "scores",
        "version": VERSION,
        "rubrics": [[asdict(criterion) for criterion in rubric] for rubric in numbers],
    }
    if table.provenance is not None:
        header["judging"] = table.provenance.as_dict()
    with atomic_write(path) as temporary:
        if path.suffix == ".parquet":
            _write_parquet(table, numbers, header, temporary)
        else:
            _write_json_lines(table, numbers, header, temporary, compressed=path.suffix == ".gz")


def outcomes_text(group: GroupScores, rollout: int) -> str | None:
    """The outcomes of a rollout against the others of its group, as JSON; None if responses were not compared."""
    if not group.outcomes:
        return None
    rows = {name: _with_nulls(outcomes[rollout]) for name, outcomes in group.outcomes.items()}
    return json.dumps(rows, ensure_ascii=False)


def probabilities_text(group: GroupScores, rollout: int) -> str | None:
    """How sure the scores of a rollout are, as JSON: criterion → [value, probability] pairs; None if unknown."""
    if not group.probabilities:
        return None
    rows = {name: cell[rollout] for name, cell in group.probabilities.items() if cell[rollout]}
    return json.dumps(rows, ensure_ascii=False)


def _write_json_lines(
    table: ScoreTable, numbers: _RubricNumbers, header: dict[str, Any], path: Path, compressed: bool
) -> None:
    open_file: Any = gzip.open if compressed else open
    with open_file(path, "wt", encoding="utf-8") as file:
        file.write(_as_line(header))
        for group in table:
            for i in range(len(group.scores)):
                row = {
                    "group": group.id,
                    "rollout": i,
                    RUBRIC: numbers[group.criteria],
                    "scores": dict(zip(group.names, _with_nulls(group.scores[i]), strict=True)),
                    "reasons": dict(zip(group.names, group.reasons[i], strict=True)),
                }
                if group.digests:
                    row[DIGEST] = group.digests[i]
                if group.outcomes:
                    row[OUTCOMES] = outcomes_text(group, i)
                if group.probabilities:
                    row[PROBABILITIES] = probabilities_text(group, i)
                file.write(_as_line(row))


def _as_line(data: Any) -> str:
    """One line of JSON, in ASCII if a character cannot be printed."""
    # A lone surrogate in a name or reason cannot be written as UTF-8, but its escape can.
    text = json.dumps(data, ensure_ascii=False)
    return (text if text.isprintable() else json.dumps(data)) + "\n"


def _with_nulls(values: np.ndarray) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values.tolist()]


def _write_parquet(
    table: ScoreTable, numbers: _RubricNumbers, header: dict[str, Any], path: Path
) -> None:
    names = [
        *_KEY_COLUMNS,
        OUTCOMES,
        PROBABILITIES,
        DIGEST,
        *table.criteria,
        *(name + REASON_SUFFIX for name in table.criteria),
    ]
    has_clash = len(set(names)) < len(names)  # a criterion may be called "rollout"
    if len(table.criteria) > _MOST_CRITERION_COLUMNS or has_clash:
        layout = "long"
        frame = _one_row_per_score(table, numbers)
    else:
        layout = "wide"
        frame = _one_row_per_rollout(table, numbers)
    frame.write_parquet(path, metadata={"rubrank": json.dumps({**header, "layout": layout})})


def _one_row_per_rollout(table: ScoreTable, numbers: _RubricNumbers) -> pl.DataFrame:
    import polars as pl

    columns: dict[str, Any] = {
        "group": table.group_ids,
        "rollout": table.rollout_numbers,
        RUBRIC: [numbers[group.criteria] for group in table for _ in range(len(group.scores))],
    }
    for k, name in enumerate(table.criteria):
        columns[name] = pl.Series(name, table.scores[:, k], nan_to_null=True)
        columns[name + REASON_SUFFIX] = pl.Series(list(_reasons_on(table, name)), dtype=pl.String)
    if all(group.digests for group in table):
        columns[DIGEST] = [digest for group in table for digest in group.digests]
    if any(group.outcomes for group in table):
        texts = [outcomes_text(group, i) for group in table for i in range(len(group.scores))]
        columns[OUTCOMES] = pl.Series(texts, dtype=pl.String)
    if any(group.probabilities for group in table):
        texts = [probabilities_text(group, i) for group in table for i in range(len(group.scores))]
        columns[PROBABILITIES] = pl.Series(texts, dtype=pl.String)
    return pl.DataFrame(columns, schema_overrides={"group": pl.String, "rollout": pl.Int64})


def _reasons_on(table: ScoreTable, name: str) -> Iterator[str | None]:
    """The reason of every row on a criterion; None if the criterion is not in the group's rubric."""
    for group in table:
        column = group.names.index(name) if name in group.names else None
        for reasons in group.reasons:
            yield None if column is None else clean(reasons[column])


def _one_row_per_score(table: ScoreTable, numbers: _RubricNumbers) -> pl.DataFrame:
    import polars as pl

    rows = []
    for group in table:
        number = numbers[group.criteria]
        for i in range(len(group.scores)):
            # These are repeated in all rows of the rollout.
            outcomes = outcomes_text(group, i)
            probabilities = probabilities_text(group, i)
            digest = group.digests[i] if group.digests else None
            scores = _with_nulls(group.scores[i])
            for name, score, reason in zip(group.names, scores, group.reasons[i], strict=True):
                keys = (group.id, i, number, name)
                rows.append((*keys, score, clean(reason), outcomes, probabilities, digest))
    schema = {
        "group": pl.String,
        "rollout": pl.Int64,
        RUBRIC: pl.Int64,
        "criterion": pl.String,
        "score": pl.Float64,
        "reason": pl.String,
        OUTCOMES: pl.String,
        PROBABILITIES: pl.String,
        DIGEST: pl.String,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")
