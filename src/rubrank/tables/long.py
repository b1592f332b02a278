"""Convert long tables, with one row per score, to tables with one row per rollout.

    prompt_id,response_id,criterion,score          prompt_id, response_id, scores
    q1,a,Facts,1                                   q1,        a,           {Facts: 1, Style: 3}
    q1,a,Style,3

A table is long if the option `long` says so, or if it has a column of texts with the names of criteria and a column
with their scores. If it also has other columns of numbers, these could be criteria, and the table wide. It is then
refused unless the option `long` or `criteria` decides.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from rubrank.errors import BadTable, UnknownName
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
from rubrank.tables.table import (
    Table,
    convert_csv_column,
    make_object_table,
    read_numbers,
    read_source,
)

# Numbers that describe the criterion of a row, and so are no criteria themselves.
_NUMBERS_ABOUT_CRITERIA = {"weight", "points", "margin", "version"}


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
        raise BadTable(str(table.path), "the table", "at least one row", "none")
    if any(names <= set(table.frame.columns) for names in RECORD_COLUMNS):
        got = "records of groups that were fused"
        remedy = "Read it with `rubrank record`, `replay` or `view`, or name the score file that it was made of."
        raise BadTable(str(table.path), "the table", "scores of rollouts", got, remedy)
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
    for name, dtype in table.frame.schema.items():
        if name in used or name.lower() in BOOKKEEPING | _NUMBERS_ABOUT_CRITERIA:
            continue
        if not dtype.is_nested() and read_numbers(table, (name,)).is_mostly_numbers:
            possible_criteria.append(name)
    if possible_criteria:
        wide = ", ".join(map(repr, [*possible_criteria, score]))
        got = f"two readings: long (a score per row, {criterion!r} names its criterion) and wide (the criteria {wide})"
        remedy = "Choose one: `long=true`, or `criteria=A,B`."
        raise BadTable(str(table.path), "the table", "long or wide", got, remedy)


def _widen(table: Table, columns: LongColumns) -> Table:
    """Return the table with one row per rollout, in the order of first appearance, as objects with `scores`.

    Other columns, such as the prompt, have the value of the rollout's first row. Reasons are in `reasons`.
    Raises BadTable if a row lacks its response or criterion, a score is repeated, or a score is not a number.
    """
    frame = table.frame
    remedy = "Every score belongs to a response and a criterion."
    is_blank = frame[columns.criterion].cast(pl.String).str.strip_chars() == ""
    # A response may be blank, if the column has the responses themselves.
    table.refuse_cell(frame[columns.response].is_null(), (columns.response,), "given", remedy)
    table.refuse_cell(is_blank.fill_null(True), (columns.criterion,), "given", remedy)
    keys = [*columns.group, columns.response]
    is_repeated = ~frame.select(*keys, columns.criterion).to_struct("pair").is_first_distinct()
    if is_repeated.any():
        index = int(is_repeated.arg_true()[0])
        allowed = "the only score of its response and criterion"
        got = f"a second {frame[columns.criterion][index]!r} of response {frame[columns.response][index]!r}"
        raise BadTable(str(table.path), table.describe_row(index), allowed, got)
    numbers = read_numbers(table, (columns.score,))
    numbers.check_scores(table, (columns.score,), limits=None)

    score_columns = [columns.criterion, columns.score, columns.reason or REASONS, SCORES, REASONS]
    cells = frame.drop(score_columns, strict=False)
    if table.text_is_number:
        cells = cells.select(convert_csv_column(column) for column in cells.get_columns())
    criteria = frame[columns.criterion].cast(pl.String).to_list()
    reasons = None if columns.reason is None else frame[columns.reason].to_list()
    rollouts: dict[Any, dict[str, Any]] = {}
    for i, key in enumerate(frame.select(keys).iter_rows()):
        rollout = rollouts.get(key)
        if rollout is None:
            rollout = {**cells.row(i, named=True), SCORES: {}}
            rollouts[key] = rollout
        score = float(numbers.values[i])
        rollout[SCORES][criteria[i]] = score if score == score else None  # NaN: not scored
        if reasons is not None:
            rollout.setdefault(REASONS, {})[criteria[i]] = reasons[i]
    parsed = []
    for number, rollout in enumerate(rollouts.values(), start=1):
        parsed.append((number, json.dumps(rollout, default=str), rollout))
    return make_object_table(parsed, table.path, f"long {table.shape}", unit="rollout")
