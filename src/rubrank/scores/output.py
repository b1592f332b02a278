"""Write score tables to files, with reasons and rubrics.

    write_scores(table, Path("scores.parquet"))     one row per rollout; with very many criteria, one row per score
    write_scores(table, Path("scores.jsonl"))       a header, then one line per rollout; also .jsonl.gz

`scores/files.py` describes the format and reads it. Groups with the same criteria share a rubric: the header lists the
different rubrics, and every row has the number of its rubric.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rubrank._files import atomic_write, suffix_error
from rubrank._plain import replace_surrogates
from rubrank.scores.criterion import CriterionData
from rubrank.tables.columns import REASONS, SCORES

if TYPE_CHECKING:
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
_MOST_CRITERION_COLUMNS = 500  # with more, Parquet gets one row per score


def write_scores(table: ScoreTable, path: Path) -> None:
    """Write a table as Parquet or JSON Lines, depending on the suffix; the file appears when it is complete.

    Raises InvalidInput for another suffix.
    """
    if not path.name.endswith(SUFFIXES):
        raise suffix_error(path, SUFFIXES)
    rubric_numbers: dict[tuple[CriterionData, ...], int] = {}
    for group in table:
        rubric_numbers.setdefault(group.criteria, len(rubric_numbers))
    header: dict[str, Any] = {
        "rubrank": "scores",
        "version": VERSION,
        "rubrics": [[asdict(criterion) for criterion in rubric] for rubric in rubric_numbers],
    }
    if table.provenance is not None:
        header["judging"] = table.provenance.as_dict()
    rows = (
        _make_row(group, i, rubric_numbers[group.criteria])
        for group in table
        for i in range(len(group.scores))
    )
    with atomic_write(path) as temporary:
        if path.suffix == ".parquet":
            _write_parquet(list(rows), table.criteria, header, temporary)
            return
        open_file: Any = gzip.open if path.suffix == ".gz" else open
        with open_file(temporary, "wt", encoding="utf-8") as file:
            for data in chain([header], rows):
                text = json.dumps(data, ensure_ascii=False)
                if not text.isprintable():
                    # The text may hold a lone surrogate, which UTF-8 cannot encode: all but ASCII is escaped.
                    text = json.dumps(data)
                file.write(text + "\n")


def _make_row(group: GroupScores, rollout: int, rubric_number: int) -> dict[str, Any]:
    """Return a rollout as a line of JSON Lines has it."""
    scores = _list_with_nulls(group.scores[rollout])
    row = {
        "group": group.id,
        "rollout": rollout,
        RUBRIC: rubric_number,
        SCORES: dict(zip(group.names, scores, strict=True)),
        REASONS: dict(zip(group.names, group.reasons[rollout], strict=True)),
    }
    if group.digests:
        row[DIGEST] = group.digests[rollout]
    if group.outcomes:
        row[OUTCOMES] = format_outcomes(group, rollout)
    if group.probabilities:
        row[PROBABILITIES] = format_probabilities(group, rollout)
    return row


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


def _list_with_nulls(values: np.ndarray) -> list[float | None]:
    """Return the numbers as a list with None for NaN, which JSON does not have."""
    return [None if math.isnan(value) else value for value in values.tolist()]


def _write_parquet(
    rows: list[dict[str, Any]], criteria: Sequence[str], header: dict[str, Any], path: Path
) -> None:
    """Write one row per rollout, or one row per score if the criteria cannot be columns."""
    import polars as pl

    schema = {"group": pl.String, "rollout": pl.Int64, RUBRIC: pl.Int64}
    text_columns = [
        name for name in (DIGEST, OUTCOMES, PROBABILITIES) if any(name in row for row in rows)
    ]
    # Two columns would have the same name if a criterion is called "group", or "Tone (reason)" beside "Tone".
    reason_columns = [name + REASON_SUFFIX for name in criteria]
    all_names = [*schema, DIGEST, OUTCOMES, PROBABILITIES, *criteria, *reason_columns]
    has_clash = len(set(all_names)) < len(all_names)
    is_long = len(criteria) > _MOST_CRITERION_COLUMNS or has_clash
    if is_long:
        schema |= {"criterion": pl.String, "score": pl.Float64, "reason": pl.String}
    else:
        for name in criteria:
            schema |= {name: pl.Float64, name + REASON_SUFFIX: pl.String}
    cells = []
    for row in rows:
        # Parquet has UTF-8 only, in which a lone surrogate cannot be written, nor its escape.
        reasons = {name: replace_surrogates(reason) for name, reason in row[REASONS].items()}
        if is_long:
            for name, score in row[SCORES].items():
                cells.append({**row, "criterion": name, "score": score, "reason": reasons[name]})
        else:
            named_reasons = {name + REASON_SUFFIX: reason for name, reason in reasons.items()}
            cells.append({**row, **row[SCORES], **named_reasons})
    schema |= dict.fromkeys(text_columns, pl.String)
    columns = {name: [row.get(name) for row in cells] for name in schema}
    layout = "long" if is_long else "wide"
    metadata = {"rubrank": json.dumps({**header, "layout": layout})}
    pl.DataFrame(columns, schema=schema).write_parquet(path, metadata=metadata)
