"""Convert long tables, with one row per score, to tables with one row per rollout.

    prompt_id,response_id,criterion,score          prompt_id, response_id, scores
    q1,a,Facts,1                                   q1,        a,           {Facts: 1, Style: 3}
    q1,a,Style,3

A table is long if the option `long` says so, or if it has a column of texts with the names of criteria and a column
with their scores. If it also has other columns of numbers, these could be criteria, and the table wide. It is then
refused unless the option `long` or `criteria` decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from rubrank.errors import BadTable, UnknownName
from rubrank.tables.cells import find_first_true, parse_numbers, read_numbers
from rubrank.tables.columns import (
    BOOKKEEPING,
    CRITERION_NAMES,
    GROUP_NAMES,
    REASON_NAMES,
    REASONS,
    RECORD_COLUMNS,
    RESPONSE_NAMES,
    SCORE_NAMES,
    SCORES,
    STEP_NAMES,
    Columns,
)
from rubrank.tables.table import MOST_CRITERION_COLUMNS, Table, read_source

# Numbers that describe the criterion of a row, and so are no criteria themselves.
_NUMBERS_ABOUT_CRITERIA = {"weight", "points", "margin", "version"}
_SAMPLED_ROWS = 20  # looked at to decide whether a CSV column holds numbers
_ROW_NUMBER = "\0row"  # a name that no column of a file has


@dataclass(frozen=True)
class LongColumns:
    """Which columns of a long table hold what."""

    group: tuple[str, ...]
    """Usually one; several if their cells together name a group, such as step and query."""
    response: str
    criterion: str
    score: str
    reason: str | None


def read_table(source: Any, columns: Columns | None = None) -> Table:
    """Return any source of scores as a table with one row per rollout.

    Raises BadTable if it is empty, if it is a file of records, or if it could be long or wide.
    """
    table = read_source(source)
    if not len(table.frame):
        raise BadTable(
            owner=str(table.path), parameter="the table", allowed="at least one row", got="none"
        )
    if any(names <= set(table.frame.columns) for names in RECORD_COLUMNS):
        raise BadTable(
            owner=str(table.path),
            parameter="the table",
            allowed="scores of rollouts",
            got="records of groups that were fused",
            remedy="Read it with `rubrank record`, `replay` or `view`, or name the score file that it was made of.",
        )
    long_columns = _find_long_columns(table, columns or Columns())
    return table if long_columns is None else _widen(table, long_columns)


def _find_long_columns(table: Table, columns: Columns) -> LongColumns | None:
    """Return the columns of a long table; None if it is wide. Raises BadTable if it could be either."""
    if columns.long is False:
        return None
    schema = table.frame.schema
    criterion = _find_column(table, columns, "criterion", CRITERION_NAMES)
    score = _find_column(table, columns, "score", SCORE_NAMES)
    is_declared_long = bool(columns.long) or "criterion" in columns.fields
    if criterion is None or score is None:
        if is_declared_long:
            missing = "criterion" if criterion is None else "score"
            raise _make_missing_error(table, missing, f"Name it: `column.{missing}=NAME`.")
        return None
    if not is_declared_long:
        named = columns.named_criteria
        is_named_wide = named is not None and all(name in schema for name in named)
        # A column `scores` has all scores of a rollout in one row. A column of numbers does not name criteria.
        if SCORES in schema or is_named_wide or schema[criterion].is_numeric():
            return None
    present = table.frame.columns
    if columns.group:
        group = tuple(name for name in columns.group if name in present)
    else:
        group = tuple(name for name in (*GROUP_NAMES, "prompt") if name in present)[:1]
        steps = [name for name in STEP_NAMES if name in present]
        # The same query in two training steps is two groups.
        if group and steps and not columns.batch:
            group = (steps[0], *group)
    response = _find_column(
        table, columns, "response", RESPONSE_NAMES, excluded=(*group, criterion, score)
    )
    if not is_declared_long:
        used = {*group, response, *columns.attributes, columns.batch, criterion, score}
        _refuse_if_wide_as_well(table, criterion, score, used)
    if not group:
        raise _make_missing_error(table, "group", "Name it: `group_column=NAME`.")
    if response is None:
        raise _make_missing_error(table, "response", "Name it: `column.response=NAME`.")
    reason = _find_column(table, columns, "reason", REASON_NAMES)
    return LongColumns(group, response, criterion, score, reason)


def _find_column(
    table: Table,
    columns: Columns,
    field: str,
    usual_names: Sequence[str],
    excluded: Sequence[str] = (),
) -> str | None:
    """Return the column that the user named for a field, or the first usual name that is there; None without one.

    excluded: columns with another use. Raises UnknownName if the table does not have the column that the user named.
    """
    present = table.frame.columns
    if field in columns.fields:
        name = columns.fields[field]
        if name not in present:
            raise UnknownName.of(
                str(table.path), f"the column of {field!r}", name, present, field="column"
            )
        return name
    return next((name for name in usual_names if name in present and name not in excluded), None)


def _make_missing_error(table: Table, field: str, remedy: str) -> BadTable:
    """Return the error about a long table without a column for this field."""
    got = f"columns {', '.join(map(repr, table.frame.columns))}"
    return BadTable(str(table.path), f"the {field} of a long table", "in a column", got, remedy)


def _refuse_if_wide_as_well(table: Table, criterion: str, score: str, used: set[Any]) -> None:
    """Raise BadTable if other columns of numbers could be criteria, in which case the table would be wide.

    used: columns whose use is known.
    """
    possible_criteria = []
    for name in table.frame.columns:
        if name in used or name.lower() in BOOKKEEPING | _NUMBERS_ABOUT_CRITERIA:
            continue
        cells = table.frame.get_column(name)
        if table.text_is_number:
            sample = cells.head(_SAMPLED_ROWS).drop_nulls()
            is_number = len(sample) > 0 and not parse_numbers(sample, True).is_null().any()
        else:
            is_number = cells.dtype.is_numeric()
        if is_number:
            possible_criteria.append(name)
    if possible_criteria:
        wide = ", ".join(map(repr, [*possible_criteria, score]))
        raise BadTable(
            owner=str(table.path),
            parameter="the table",
            allowed="long or wide",
            got=f"two readings: long (a score per row, {criterion!r} names its criterion)"
            f" and wide (the criteria {wide})",
            remedy="Choose one: `long=true`, or `criteria=A,B`.",
        )


def _widen(table: Table, names: LongColumns) -> Table:
    """Return the table with one row per rollout, in the order of first appearance, and scores in the column `scores`.

    Other columns, such as the prompt, have the value of the rollout's first row. Reasons are in the column `reasons`.
    With too many criteria for columns, the scores are in `ragged_scores` instead, and there are no reasons.
    Raises BadTable if a row lacks its response or criterion, a score is repeated, or a score is not a number.
    """
    frame = table.frame
    _check_keys(table, names)
    scores = read_numbers(table, (names.score,))
    scores.check_scores(table, (names.score,))

    keys = [*names.group, names.response]
    first_rows, rollout_of_row = _number_by_first_row(frame, keys)
    criterion_rows, criterion_of_row = _number_by_first_row(frame, [names.criterion])
    criteria = [str(name) for name in frame[criterion_rows][names.criterion]]
    # Columns of objects are not carried over.
    score_columns = {names.criterion, names.score, names.reason, SCORES, REASONS}
    other_columns = [
        name
        for name, dtype in frame.schema.items()
        if name not in score_columns and not isinstance(dtype, pl.Struct)
    ]
    rollouts = frame[first_rows].select(other_columns)

    ragged_scores: list[dict[str, Any]] | None = None
    if len(criteria) > MOST_CRITERION_COLUMNS:
        ragged_scores = [{} for _ in first_rows]
        rows = zip(rollout_of_row, criterion_of_row, scores.values, strict=True)
        for i, k, value in rows:
            ragged_scores[i][criteria[k]] = value
    else:
        matrix = np.full((len(first_rows), len(criteria)), np.nan)
        matrix[rollout_of_row, criterion_of_row] = scores.values.fill_null(np.nan).to_numpy()
        fields = {}
        for k, name in enumerate(criteria):
            fields[name] = pl.Series(matrix[:, k], nan_to_null=True)
        rollouts = rollouts.with_columns(pl.DataFrame(fields).to_struct(SCORES))
        if names.reason is not None:
            texts = np.full(matrix.shape, None, dtype=object)
            texts[rollout_of_row, criterion_of_row] = frame[names.reason].to_list()
            reasons = {}
            for k, name in enumerate(criteria):
                reasons[name] = pl.Series(texts[:, k].tolist(), dtype=pl.String)
            rollouts = rollouts.with_columns(pl.DataFrame(reasons).to_struct(REASONS))
    return Table(
        path=table.path,
        shape=f"long {table.shape}",
        frame=rollouts,
        rows=pl.Series(range(1, len(rollouts) + 1), dtype=pl.Int64),
        unit="rollout",
        text_is_number=table.text_is_number,
        ragged_scores=ragged_scores,
    )


def _number_by_first_row(frame: pl.DataFrame, keys: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Number the different keys in the order of their first rows; a key is the cells of the columns `keys`.

    Return (first row of each key, number of the key of each row): keys b, a, b, c give [0, 1, 3] and [0, 1, 0, 2].
    """
    numbered = frame.select(keys).with_row_index(_ROW_NUMBER)
    first_row_of_row = numbered.select(pl.col(_ROW_NUMBER).min().over(keys)).to_series().to_numpy()
    first_rows, key_numbers = np.unique(first_row_of_row, return_inverse=True)
    return first_rows, key_numbers


def _check_keys(table: Table, names: LongColumns) -> None:
    """Raise BadTable if a row does not name its response and criterion, or names a pair that has a score already."""
    frame = table.frame
    for name in (names.response, names.criterion):
        cells = frame.get_column(name)
        is_empty = cells.is_null()
        if (
            name == names.criterion
        ):  # a response may be blank, if the column has the responses themselves
            is_empty = is_empty | (cells.cast(pl.String).str.strip_chars() == "").fill_null(False)
        if is_empty.any():
            remedy = "Every score belongs to a response and a criterion."
            raise table.make_cell_error(find_first_true(is_empty), (name,), "given", remedy)
    pairs = frame.select(*names.group, names.response, names.criterion)
    is_repeated = ~pairs.to_struct("pair").is_first_distinct()
    if is_repeated.any():
        index = find_first_true(is_repeated)
        got = f"a second {frame[names.criterion][index]!r} of response {frame[names.response][index]!r}"
        where = f"{table.unit} {table.rows[index]}"
        raise BadTable(
            owner=str(table.path),
            parameter=where,
            allowed="the only score of its response and criterion",
            got=got,
            remedy="",
        )
