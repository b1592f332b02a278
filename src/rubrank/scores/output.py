"""Write score tables to files, with reasons and rubrics.

    write_scores(table, Path("scores.parquet"))     one row per rollout; with very many criteria, one row per score
    write_scores(table, Path("scores.jsonl"))       a header, then one line per rollout; also .jsonl.gz

`scores/files.py` describes the format and reads it. Groups with the same criteria share a rubric: the header lists the
different rubrics, and every row has the number of its own.
"""

from __future__ import annotations

import gzip
import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rubrank._files import atomic_write, suffix_error
from rubrank._plain import replace_surrogates
from rubrank.scores.criterion import CriterionData

if TYPE_CHECKING:
    import polars as pl

    from rubrank.scores.table import GroupScores, ScoreTable

VERSION = 1
"""Of the file format."""
RUBRIC = "rubric"
"""The column with the number of a row's rubric, which is its place in the header."""
REASON_SUFFIX = " (reason)"
"""Name of a criterion + this = the column with its reasons."""
OUTCOMES = "outcomes"
"""The column with comparisons, as a JSON text (in JSON Lines, too, so that all forms are read alike)."""
PROBABILITIES = "probabilities"
"""The column with distributions of verdicts, as a JSON text."""
DIGEST = "digest"
"""The column with a digest of the response that was scored."""
SUFFIXES = (".parquet", ".jsonl", ".jsonl.gz")
_KEY_COLUMNS = ("group", "rollout", RUBRIC)
_MOST_CRITERION_COLUMNS = 500  # with more, Parquet gets one row per score

# Criteria of a rubric → its number.
_RubricNumbers = dict[tuple[CriterionData, ...], int]


def write_scores(table: ScoreTable, path: Path) -> None:
    """Write a table as Parquet or JSON Lines, depending on the suffix; the file appears when it is complete.

    Raises InvalidInput for another suffix.
    """
    if not path.name.endswith(SUFFIXES):
        raise suffix_error(path, SUFFIXES)
    rubric_numbers: _RubricNumbers = {}
    for group in table:
        rubric_numbers.setdefault(group.criteria, len(rubric_numbers))
    header: dict[str, Any] = {
        "rubrank": "scores",
        "version": VERSION,
        "rubrics": [[asdict(criterion) for criterion in rubric] for rubric in rubric_numbers],
    }
    if table.provenance is not None:
        header["judging"] = table.provenance.as_dict()
    with atomic_write(path) as temporary:
        if path.suffix == ".parquet":
            _write_parquet(table, rubric_numbers, header, temporary)
        else:
            is_compressed = path.suffix == ".gz"
            _write_json_lines(table, rubric_numbers, header, temporary, is_compressed)


def format_outcomes(group: GroupScores, rollout: int) -> str | None:
    """Return the outcomes of a rollout against the others of its group, as JSON; None if none were compared.

    {"Tone": [null, 1.0, 0.5]}: rollout 0 beats rollout 1 and ties with rollout 2.
    """
    if not group.outcomes:
        return None
    rows = {name: _list_with_nulls(outcomes[rollout]) for name, outcomes in group.outcomes.items()}
    return json.dumps(rows, ensure_ascii=False)


def format_probabilities(group: GroupScores, rollout: int) -> str | None:
    """Return the distributions of a rollout's scores as JSON; None if the group has none.

    {"Tone": [[0.0, 0.2], [1.0, 0.8]]}: the score is 0 with probability 0.2, and 1 with probability 0.8.
    """
    if not group.probabilities:
        return None
    pairs_of_criterion = {}
    for name, pairs_of_rollout in group.probabilities.items():
        if pairs_of_rollout[rollout]:
            pairs_of_criterion[name] = pairs_of_rollout[rollout]
    return json.dumps(pairs_of_criterion, ensure_ascii=False)


def _write_json_lines(
    table: ScoreTable,
    rubric_numbers: _RubricNumbers,
    header: dict[str, Any],
    path: Path,
    is_compressed: bool,
) -> None:
    """Write the header and one line per rollout."""
    open_file: Any = gzip.open if is_compressed else open
    with open_file(path, "wt", encoding="utf-8") as file:
        file.write(_format_line(header))
        for group in table:
            for i in range(len(group.scores)):
                scores = _list_with_nulls(group.scores[i])
                row = {
                    "group": group.id,
                    "rollout": i,
                    RUBRIC: rubric_numbers[group.criteria],
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
    """Return one line of JSON, in ASCII if it has characters that cannot be printed."""
    text = json.dumps(data, ensure_ascii=False)
    if not text.isprintable():
        # Such a character may be a lone surrogate, which cannot be written as UTF-8, but its escape can.
        text = json.dumps(data)
    return text + "\n"


def _list_with_nulls(values: np.ndarray) -> list[float | None]:
    """Return the numbers as a list with None for NaN, which JSON does not have."""
    return [None if math.isnan(value) else value for value in values.tolist()]


def _write_parquet(
    table: ScoreTable, rubric_numbers: _RubricNumbers, header: dict[str, Any], path: Path
) -> None:
    """Write one row per rollout, or one row per score if the criteria cannot be columns."""
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
        frame = _make_long_frame(table, rubric_numbers)
    else:
        layout = "wide"
        frame = _make_wide_frame(table, rubric_numbers)
    frame.write_parquet(path, metadata={"rubrank": json.dumps({**header, "layout": layout})})


def _make_wide_frame(table: ScoreTable, rubric_numbers: _RubricNumbers) -> pl.DataFrame:
    """Return a frame with one row per rollout, and two columns per criterion: score and reason."""
    import polars as pl

    rubric_of_row: list[int] = []
    outcomes: list[str | None] = []
    probabilities: list[str | None] = []
    digests: list[str | None] = []
    for group in table:
        size = len(group.scores)
        rubric_of_row += [rubric_numbers[group.criteria]] * size
        outcomes += [format_outcomes(group, i) for i in range(size)]
        probabilities += [format_probabilities(group, i) for i in range(size)]
        digests += group.digests or [None] * size
    columns: dict[str, Any] = {
        "group": table.group_ids,
        "rollout": table.rollout_numbers,
        RUBRIC: rubric_of_row,
    }
    for k, name in enumerate(table.criteria):
        columns[name] = pl.Series(name, table.scores[:, k], nan_to_null=True)
        reasons: list[str | None] = []
        for group in table:
            if name in group.names:
                column = group.names.index(name)
                # Parquet has UTF-8 only, in which a lone surrogate cannot be written, nor its escape.
                reasons += [
                    replace_surrogates(reasons_of_row[column]) for reasons_of_row in group.reasons
                ]
            else:  # not in the group's rubric
                reasons += [None] * len(group.reasons)
        columns[name + REASON_SUFFIX] = pl.Series(reasons, dtype=pl.String)
    for name, texts in ((DIGEST, digests), (OUTCOMES, outcomes), (PROBABILITIES, probabilities)):
        if any(text is not None for text in texts):
            columns[name] = pl.Series(texts, dtype=pl.String)
    return pl.DataFrame(columns, schema_overrides={"group": pl.String, "rollout": pl.Int64})


def _make_long_frame(table: ScoreTable, rubric_numbers: _RubricNumbers) -> pl.DataFrame:
    """Return a frame with one row per score; the texts of a rollout are repeated in all its rows."""
    import polars as pl

    rows = []
    for group in table:
        rubric_number = rubric_numbers[group.criteria]
        for i in range(len(group.scores)):
            outcomes = format_outcomes(group, i)
            probabilities = format_probabilities(group, i)
            digest = group.digests[i] if group.digests else None
            scores = _list_with_nulls(group.scores[i])
            for name, score, reason in zip(group.names, scores, group.reasons[i], strict=True):
                keys = (group.id, i, rubric_number, name)
                rows.append(
                    (*keys, score, replace_surrogates(reason), outcomes, probabilities, digest)
                )
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
