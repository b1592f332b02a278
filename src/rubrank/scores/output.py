"""Write score tables to files, with reasons and rubrics; `scores/files.py` describes the format and reads it."""

from __future__ import annotations

import gzip
import json
import math
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


def format_outcomes(group: GroupScores, rollout: int) -> str | None:
    """Return the outcomes of a rollout against the others of its group, as JSON; None if none were compared."""
    if not group.outcomes:
        return None
    rows = {name: _list_with_nulls(outcomes[rollout]) for name, outcomes in group.outcomes.items()}
    return json.dumps(rows, ensure_ascii=False)


def format_probabilities(group: GroupScores, rollout: int) -> str | None:
    """Return the distributions of a rollout's scores as JSON, criterion → (value, probability) pairs; None if none."""
    if not group.probabilities:
        return None
    rows = {name: cell[rollout] for name, cell in group.probabilities.items() if cell[rollout]}
    return json.dumps(rows, ensure_ascii=False)


def _write_json_lines(
    table: ScoreTable, numbers: _RubricNumbers, header: dict[str, Any], path: Path, compressed: bool
) -> None:
    """Write the header and one line per rollout."""
    open_file: Any = gzip.open if compressed else open
    with open_file(path, "wt", encoding="utf-8") as file:
        file.write(_format_line(header))
        for group in table:
            for i in range(len(group.scores)):
                scores = _list_with_nulls(group.scores[i])
                row = {
                    "group": group.id,
                    "rollout": i,
                    RUBRIC: numbers[group.criteria],
                    "scores": dict(zip(group.names, scores, strict=True)),
                    "reasons": dict(zip(group.names, group.reasons[i], strict=True)),
                }
                if group.digests:
                    row[DIGEST] = group.digests[i]
                if group.outcomes:
                    row[OUTCOMES] = format_outcomes(group, i)
                if group.probabilities:
                    row[PROBABILITIES] = format_probabilities(group, i)
                file.write(_format_line(row))


def _format_line(data: Any) -> str:
    """Return one line of JSON, in ASCII if a character cannot be printed."""
    text = json.dumps(data, ensure_ascii=False)
    if not text.isprintable():
        # A lone surrogate in a name or reason cannot be written as UTF-8, but its escape can.
        text = json.dumps(data)
    return text + "\n"


def _list_with_nulls(values: np.ndarray) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values.tolist()]


def _write_parquet(
    table: ScoreTable, numbers: _RubricNumbers, header: dict[str, Any], path: Path
) -> None:
    """Write one row per rollout, or one row per score if there are too many criteria for columns."""
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
        frame = _make_long_frame(table, numbers)
    else:
        layout = "wide"
        frame = _make_wide_frame(table, numbers)
    frame.write_parquet(path, metadata={"rubrank": json.dumps({**header, "layout": layout})})


def _make_wide_frame(table: ScoreTable, numbers: _RubricNumbers) -> pl.DataFrame:
    """Return a frame with one row per rollout, and two columns per criterion: score and reason."""
    import polars as pl

    columns: dict[str, Any] = {
        "group": table.group_ids,
        "rollout": table.rollout_numbers,
        RUBRIC: [numbers[group.criteria] for group in table for _ in range(len(group.scores))],
    }
    for k, name in enumerate(table.criteria):
        columns[name] = pl.Series(name, table.scores[:, k], nan_to_null=True)
        reasons: list[str | None] = []
        for group in table:
            if name in group.names:
                column = group.names.index(name)
                reasons += [clean(reasons_of_row[column]) for reasons_of_row in group.reasons]
            else:  # not in the group's rubric
                reasons += [None] * len(group.reasons)
        columns[name + REASON_SUFFIX] = pl.Series(reasons, dtype=pl.String)
    if all(group.digests for group in table):
        columns[DIGEST] = [digest for group in table for digest in group.digests]
    if any(group.outcomes for group in table):
        texts = [format_outcomes(group, i) for group in table for i in range(len(group.scores))]
        columns[OUTCOMES] = pl.Series(texts, dtype=pl.String)
    if any(group.probabilities for group in table):
        texts = [
            format_probabilities(group, i) for group in table for i in range(len(group.scores))
        ]
        columns[PROBABILITIES] = pl.Series(texts, dtype=pl.String)
    return pl.DataFrame(columns, schema_overrides={"group": pl.String, "rollout": pl.Int64})


def _make_long_frame(table: ScoreTable, numbers: _RubricNumbers) -> pl.DataFrame:
    """Return a frame with one row per score."""
    import polars as pl

    rows = []
    for group in table:
        number = numbers[group.criteria]
        for i in range(len(group.scores)):
            # These are repeated in all rows of the rollout.
            outcomes = format_outcomes(group, i)
            probabilities = format_probabilities(group, i)
            digest = group.digests[i] if group.digests else None
            scores = _list_with_nulls(group.scores[i])
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
