"""Find the columns of a table that hold groups, criteria and attributes, and check all their cells.

    layout = find_layout(read_table("scores.csv"), Columns())
    layout.labels                       the group of every row
    layout.names                        the criteria
    layout.select_scores(rows, names)   a matrix: one row per rollout, one column per criterion, NaN = not scored

The steps of `find_layout`:

    1. groups        the columns that name the group of a row, and every cell in them
    2. attributes    the columns that the user named
    3. criteria      the columns that the user named, the fields of `scores`, or all columns of numbers
    4. rows          rows of a group have one prompt and different rollouts, and are adjacent

The first cell that cannot be used is reported with its row and column: a table is read as a whole or not at all.
Columns that could be read in two ways are refused as well, because rewards from the wrong column look like any other
rewards.

A `ColumnPath` is where values are: ("Facts",) is a column, ("scores", "Facts") a field of the column `scores`. Scores
are ragged if every query has its own criteria, which are too many for columns: each row then has a mapping.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from rubrank._plain import find_similar_names
from rubrank.errors import BadTable, UnknownName
from rubrank.tables.cells import (
    ALLOWED_SCORES,
    Numbers,
    ScoreLimits,
    convert_csv_column,
    find_first_true,
    is_inexact_integer,
    read_numbers,
)
from rubrank.tables.columns import (
    ATTRIBUTES,
    BOOKKEEPING,
    COLUMNS,
    CRITERION_NAMES,
    GROUP_NAMES,
    ROLLOUT_ID_NAMES,
    SCORES,
    STEP_NAMES,
    TEXT_NAMES,
    Columns,
)
from rubrank.tables.table import MOST_CRITERION_COLUMNS, ColumnPath, Table, show_cell

_SAMPLED_CELLS = 100  # looked at to decide whether a column of texts holds scores
_MOST_LISTED_COLUMNS = 30  # in an error message
# Names that spreadsheets give to a last row with totals or means.
_SUMMARY_WORDS = "all average avg count max mean median min overall std sum total"
_SUMMARY_ROWS = frozenset(_SUMMARY_WORDS.split())
# A score that is not written as a number. (?ix): any case, and spaces in the pattern do not count.
_SCORE_AS_TEXT = r"""(?ix) ^\s* (
      yes | no | pass | fail | passed | failed
    | [$€£]? \s* -? \d+ ([.,]\d+)?            # 8   $5   3,5
      \s* ( / \s* \d+ ([.,]\d+)? | % )?      # 8/10   70%
) \s*$"""


@dataclass(frozen=True, eq=False)
class Layout:
    """What the columns of a table hold; every cell that is used has been checked."""

    table: Table
    group_columns: tuple[str, ...]
    labels: pl.Series
    """The group of every row: integers if a single column of integers names it, else texts."""
    names: tuple[str, ...]
    """The criteria."""
    scores_MK: np.ndarray | None
    """(rows, criteria), NaN = not scored; None if there are too many criteria for one matrix: see `select_scores`."""
    attributes_MD: np.ndarray | None
    """(rows, attributes); None if the user named no attributes."""
    left_out: tuple[str, ...]
    """Columns without any use, for a message to the user."""

    def select_scores(self, rows: np.ndarray, names: Sequence[str]) -> np.ndarray:
        """Return the scores of some rows on some criteria, in the order of `rows` and `names`; NaN = not scored."""
        if self.scores_MK is not None:
            is_whole_table = np.array_equal(rows, np.arange(len(self.labels)))
            if is_whole_table and tuple(names) == self.names:
                return self.scores_MK  # without a copy
            columns = np.array([self._column_of[name] for name in names], dtype=np.intp)
            return self.scores_MK[np.ix_(rows, columns)]
        assert self.table.ragged_scores is not None
        return make_matrix([self.table.ragged_scores[row] for row in rows], names)

    def find_scored_names(self, rows: np.ndarray) -> list[str]:
        """Return the criteria with a score in one of these rows, in the order of the table."""
        if self.scores_MK is not None:
            is_scored = ~np.isnan(self.scores_MK[rows]).all(axis=0)
            return [name for name, scored in zip(self.names, is_scored, strict=True) if scored]
        assert self.table.ragged_scores is not None
        scored_names = set()
        for row in rows:
            for name, value in self.table.ragged_scores[row].items():
                if value is not None and not math.isnan(value):
                    scored_names.add(name)
        return [name for name in self.names if name in scored_names]

    @cached_property
    def _column_of(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self.names)}

    @cached_property
    def rows_of_groups(self) -> dict[Any, np.ndarray]:
        """Label → the rows of the group, groups in the order in which they first appear."""
        frame = pl.DataFrame({"label": self.labels, "row": pl.Series(np.arange(len(self.labels)))})
        grouped = frame.group_by("label", maintain_order=True).agg("row")
        labels = grouped["label"].to_list()
        rows_of_groups = [rows.to_numpy() for rows in grouped["row"]]
        return dict(zip(labels, rows_of_groups, strict=True))


def make_matrix(scores: Sequence[Mapping[str, Any]], names: Sequence[str]) -> np.ndarray:
    """Return a matrix (rows, criteria) from the scores of each row by criterion; NaN = not scored."""
    matrix = np.full((len(scores), len(names)), np.nan)
    for i, scores_of_row in enumerate(scores):
        for k, name in enumerate(names):
            value = scores_of_row.get(name)
            if value is not None:
                matrix[i, k] = value
    return matrix


def find_layout(
    table: Table,
    columns: Columns,
    *,
    limits: Mapping[str, ScoreLimits] | None = None,
    any_order: bool = False,
    whole_batches: bool = False,
) -> Layout:
    """Return which columns hold what; raises BadTable, which names row and column, for the first wrong cell.

    columns: what the user said about the columns.
    limits: criterion → the range that its scores must be in.
    any_order: the rows of a group need not be adjacent.
    whole_batches: the rule needs whole batches, so the rows of a batch must be adjacent too (unless any_order).
    """
    limits = limits or {}
    group_columns = _find_group_columns(table, columns)

    attribute_paths = []
    attribute_values = []
    for name in columns.attributes:
        path = _find_path(table, "attribute", ATTRIBUTES, name)
        numbers = read_numbers(table, path)
        numbers.check_attribute(table, path)
        attribute_paths.append(path)
        attribute_values.append(numbers.values.to_numpy())
    attributes_MD = np.stack(attribute_values, 1) if attribute_values else None

    left_out: tuple[str, ...] = ()
    scores_MK = None
    if table.ragged_scores is not None:
        names = _check_ragged_scores(table, columns, limits)
        if len(names) <= MOST_CRITERION_COLUMNS:
            scores_MK = make_matrix(table.ragged_scores, names)
    else:
        attribute_columns = [path[0] for path in attribute_paths if len(path) == 1]
        other_columns = {*group_columns, columns.batch, *attribute_columns}
        criteria, left_out = _choose_criteria(table, columns, other_columns)
        values = []
        for path, numbers in criteria.items():
            # Criteria that the user named may be in use already.
            if path in attribute_paths or path[0] in group_columns:
                use = "an attribute" if path in attribute_paths else "the group"
                raise BadTable(
                    owner=str(table.path),
                    parameter="the criteria",
                    allowed="columns without another use",
                    got=f"{path[-1]!r}, which is {use}, too",
                    remedy="Leave one out.",
                )
            numbers.check_scores(table, path)
            if path[-1] in limits:
                numbers.check_limits(table, path, limits[path[-1]])
            values.append(numbers.values.fill_null(np.nan).to_numpy())
        names = tuple(path[-1] for path in criteria)
        scores_MK = np.stack(values, 1)
    # "Facts" and "facts " are probably one criterion. Criteria that the user named are meant as they are.
    similar_names = find_similar_names(names) if columns.named_criteria is None else None
    if similar_names:
        raise BadTable(
            owner=str(table.path),
            parameter="the criteria",
            allowed="of different names",
            got=f"{similar_names[0]!r} and {similar_names[1]!r}",
            remedy="Give them one name, or name the criteria that are meant: `criteria=Facts,Style`.",
        )

    labels = _make_labels(table, group_columns, columns.batch)
    _check_one_prompt(table, labels)
    _check_rollouts_once(table, labels)
    if not any_order:
        _check_adjacent(table, labels, "group")
        if columns.batch and whole_batches:
            _check_adjacent(table, join_cells(table.frame, (columns.batch,)), "batch")
    return Layout(table, group_columns, labels, names, scores_MK, attributes_MD, left_out)


# -------------------------------------------------------------------------------------------------------------- groups


def join_cells(frame: pl.DataFrame, names: Sequence[str]) -> pl.Series:
    """Return the cells of some columns joined to one text, different for different cells; null if one of them is null.

    Cells "7" and "q1" give "7/q1".
    """
    texts = [frame.get_column(name).cast(pl.String).alias(str(i)) for i, name in enumerate(names)]
    if len(texts) == 1:
        return texts[0].alias("label")
    # Separators within a cell are escaped. Otherwise ("a/b", "c") and ("a", "b/c") would be one group.
    escaped = [text.str.replace_all(r"([/\\])", r"\$1") for text in texts[:-1]]
    cells = pl.DataFrame([*escaped, texts[-1]])
    return cells.select(pl.concat_str(pl.all(), separator="/")).to_series().alias("label")


def _find_group_columns(table: Table, columns: Columns) -> tuple[str, ...]:
    """Return the columns that name the groups: those that the user named, or else the first usual name.

    If the user named none, the column of the training step may be put before the group: always before a prompt, and
    before another column if one of its groups occurs in several steps.

    Raises BadTable if the columns are missing, incomplete or ambiguous.
    """
    frame = table.frame
    present = frame.columns
    group_columns = tuple(columns.group)
    if not group_columns:
        group_columns = tuple(name for name in (*GROUP_NAMES, "prompt") if name in present)[:1]
    if not group_columns:
        raise BadTable(
            owner=str(table.path),
            parameter="the group",
            allowed=f"a column {', '.join(map(repr, GROUP_NAMES))}, or a prompt",
            got=f"columns {', '.join(map(repr, present))}",
            remedy="Name the column of the group: `group_column=NAME`.",
        )
    checked_columns = (columns.batch, *group_columns) if columns.batch else group_columns
    for name in checked_columns:
        if name not in present:
            field = "batch_column" if name == columns.batch else "group_column"
            where = "the group or batch column"
            raise UnknownName.of(str(table.path), where, name, present, field=field)
        _check_group_names(table, name)
    if columns.group:
        return group_columns

    # The table may have several of the usual names. They must group the rows alike.
    group = group_columns[0]
    other_names = () if group == "prompt" else GROUP_NAMES
    for other in other_names:
        if other == group or other not in present:
            continue
        if frame.schema[other].is_nested() or frame.get_column(other).null_count():
            continue  # cannot name groups
        # Two columns group the rows alike if each alone has as many distinct values as both together.
        choices = ([group], [other], [group, other])
        counts = {frame.select(names).n_unique() for names in choices}
        if len(counts) > 1:
            raise BadTable(
                owner=str(table.path),
                parameter="the group",
                allowed="in one column",
                got=f"two readings: by {group!r} and by {other!r}",
                remedy=f"Choose one: `group_column={group}`.",
            )

    # The same query in two training steps is two groups.
    step = next((name for name in STEP_NAMES if name in present and name != group), None)
    if step is None or columns.batch:
        return group_columns
    is_in_several_steps = frame.select(step, group).n_unique() != frame.select(group).n_unique()
    if group == "prompt" or is_in_several_steps:
        _check_group_names(table, step)
        return (step, group)
    return group_columns


def _check_group_names(table: Table, name: str) -> None:
    """Raise BadTable if a cell of a group column does not name a group.

    Names that differ only by blanks are refused ("q1" and "q1 "), and so is a last row with totals or means.
    """
    cells = table.frame.get_column(name)
    remedy = "Every rollout belongs to a group."
    if cells.dtype.is_nested() or cells.dtype == pl.Binary:
        where = f"{table.unit} {table.rows[0]}, column {name!r}"
        raise BadTable(str(table.path), where, "a number or a text", f"a {cells.dtype}", remedy)
    if cells.null_count():
        raise table.make_cell_error(
            find_first_true(cells.is_null()), (name,), "a number or a text", remedy
        )
    if cells.dtype != pl.String:
        return
    # A run is a sequence of rows with the same label. Rows of a group are usually adjacent, so there are far fewer runs
    # than rows, and it is enough to look at the first row of each.
    first_rows = (cells != cells.shift()).fill_null(True).arg_true()
    runs = pl.DataFrame({"row": first_rows, "label": cells.gather(first_rows)})
    runs = runs.with_columns(stripped=pl.col("label").str.strip_chars())
    if runs["stripped"].n_unique() < runs["label"].n_unique():
        # Find the first run whose label differs from the earlier label with the same text (`label_right`).
        earliest_runs = runs.unique("stripped", keep="first", maintain_order=True)
        paired = runs.join(earliest_runs, on="stripped", maintain_order="left")
        different = paired.filter(pl.col("label") != pl.col("label_right"))
        allowed = f"{different['label_right'][0]!r} as before, or another name: blanks do not tell groups apart"
        raise table.make_cell_error(different["row"][0], (name,), allowed, "Remove the blanks.")
    last_row = len(cells) - 1
    last_label = runs["stripped"][-1]
    is_single_row = last_row > 0 and first_rows[-1] == last_row
    is_new_label = int((runs["stripped"] == last_label).sum()) == 1
    if is_single_row and is_new_label and last_label.lower() in _SUMMARY_ROWS:
        remedy = "Remove the row of totals or means, or give the group another name."
        raise table.make_cell_error(last_row, (name,), "the group of a rollout", remedy)


def _make_labels(table: Table, group_columns: tuple[str, ...], batch: str | None) -> pl.Series:
    """Return the group of every row: integers if a single column of integers names it, else the joined cells as text.

    batch: a column whose cells become the first part of the label.
    """
    if len(group_columns) == 1 and batch is None:
        cells = table.frame.get_column(group_columns[0])
        if table.text_is_number:
            cells = convert_csv_column(cells)
        if cells.dtype == pl.UInt64:
            return cells
        if cells.dtype.is_integer() and cells.dtype != pl.Int128:  # which may not fit into Int64
            return cells.cast(pl.Int64)
    return join_cells(table.frame, (batch, *group_columns) if batch else group_columns)


def _check_adjacent(table: Table, labels: pl.Series, what: str) -> None:
    """Raise BadTable if a label comes back after another one, because that may be the same query in another step.

    what: "group" or "batch", for the message.
    """
    begins_run = (labels != labels.shift()).fill_null(True)
    run_labels = labels.filter(begins_run)
    comes_back = ~run_labels.is_first_distinct()
    if comes_back.any():
        run_rows = table.rows.filter(begins_run)
        second_run = find_first_true(comes_back)
        label = run_labels[second_run]
        first_run = find_first_true(run_labels == label)
        begin = f"{table.unit} {run_rows[first_run]}"
        again = f"{table.unit} {run_rows[second_run]}"
        raise BadTable(
            owner=str(table.path),
            parameter=f"the rows of {what} {label!r}",
            allowed="next to each other",
            got=f"one that begins at {begin} and comes back at {again}",
            remedy=f"Sort the file, or use `any_order=true` if they are one {what}.",
        )


def _check_one_prompt(table: Table, labels: pl.Series) -> None:
    """Raise BadTable if rows of a group have different prompts."""
    frame = table.frame
    if "prompt" not in frame.columns or frame.schema["prompt"] != pl.String:
        return
    columns = {"label": labels, "prompt": frame.get_column("prompt"), "row": table.rows}
    prompts = pl.DataFrame(columns).drop_nulls()
    # Pair every row with the first row of its group.
    first_cells = pl.col("prompt", "row").first().name.prefix("first_")
    firsts = prompts.group_by("label", maintain_order=True).agg(first_cells)
    paired = prompts.join(firsts, on="label", maintain_order="left")
    different = paired.filter(pl.col("prompt") != pl.col("first_prompt"))
    if len(different):
        row = different.row(0, named=True)
        raise BadTable(
            owner=str(table.path),
            parameter=f"{table.unit} {row['row']}, the prompt of group {row['label']!r}",
            allowed="the same in all rows",
            got=f"another than {table.unit} {row['first_row']} has",
            remedy="Give different prompts different ids, or name the column of the group: `group_column=NAME`.",
        )


def _check_rollouts_once(table: Table, labels: pl.Series) -> None:
    """Raise BadTable if a column of rollout ids has the same id twice in a group."""
    if any(name in table.frame.columns for name in CRITERION_NAMES):
        return  # a long table that is read as wide: several rows per rollout are normal
    name = next((name for name in ROLLOUT_ID_NAMES if name in table.frame.columns), None)
    if name is None:
        return
    ids = table.frame.get_column(name)
    if ids.dtype.is_nested() or ids.null_count():
        return
    rollouts = pl.DataFrame({"label": labels, "rollout": ids})
    if rollouts.n_unique() == labels.n_unique():  # one id per group: it does not identify rollouts
        return
    is_repeated = ~rollouts.to_struct("rollout").is_first_distinct()
    if is_repeated.any():
        index = find_first_true(is_repeated)
        raise BadTable(
            owner=str(table.path),
            parameter=f"{table.unit} {table.rows[index]}",
            allowed="a rollout that is there once",
            got=f"a second {name} {rollouts['rollout'][index]!r} of group {labels[index]!r}",
            remedy="Remove the copies.",
        )


# ------------------------------------------------------------------------------------------------------------ criteria


def _choose_criteria(
    table: Table, columns: Columns, other_columns: set[str | None]
) -> tuple[dict[ColumnPath, Numbers], tuple[str, ...]]:
    """Return the criteria with their scores, and the names of the columns that are left out.

    The criteria are the ones that the user named, or else the fields of the column `scores`, or else all columns of
    numbers (without those in `BOOKKEEPING`), if the user said `criteria=all` or declared each of them in another way.
    other_columns: those with another use, such as the group.
    Raises BadTable if it is not certain which columns are criteria.
    """
    all_paths = _list_paths(table)
    if columns.named_criteria is not None:
        paths = [_find_path(table, "criterion", SCORES, name) for name in columns.named_criteria]
    else:
        paths = [path for path in all_paths if len(path) == 2 and path[0] == SCORES]
    if paths:
        # These columns identify a rollout. That they are not criteria need not be said.
        identity_columns = ("prompt", "response", *ROLLOUT_ID_NAMES)
        used_paths = {*paths, *((name,) for name in (*other_columns, *identity_columns))}
        unused_paths = [path for path in all_paths if path not in used_paths]
        left_out_names = [path[-1] for path in unused_paths if path[0] != ATTRIBUTES]
        return {path: read_numbers(table, path) for path in paths}, tuple(left_out_names)

    criteria: dict[ColumnPath, Numbers] = {}
    left_out = []
    for path in all_paths:
        if len(path) == 2 or path[0] in other_columns:
            continue
        numbers = read_numbers(table, path)
        if not numbers.is_mostly_numbers:
            _refuse_scores_as_text(table, path)
            left_out.append(path[0])
            continue
        name = path[0]
        is_earlier_result = "utility." in name  # a column that `fuse --utilities` added
        if name.lower() in BOOKKEEPING or name in GROUP_NAMES or is_earlier_result:
            left_out.append(name)
        else:
            criteria[path] = numbers
    if not criteria:
        raise BadTable(
            owner=str(table.path),
            parameter="the criteria",
            allowed="at least one column of numbers",
            got=f"columns {', '.join(map(repr, table.frame.columns))}",
            remedy="Name them: `criteria=Facts,Style`.",
        )
    candidates = [path[0] for path in criteria]
    if columns.criteria is None and any(name not in columns.declared for name in candidates):
        # One of these columns of numbers may be a temperature or a cost.
        names = tuple(candidates[:_MOST_LISTED_COLUMNS])
        got = ", ".join(map(repr, names))
        if len(candidates) > len(names):
            got += f" and {len(candidates) - len(names)} more"
        remedy = f"Name those that are criteria: `criteria={','.join(names)}`; for all of these use `criteria=all`."
        raise BadTable(
            owner=str(table.path),
            parameter="the criteria",
            allowed="named, because a column of numbers may be something else",
            got=got,
            remedy=remedy,
        )
    return criteria, tuple(left_out)


def _refuse_scores_as_text(table: Table, path: ColumnPath) -> None:
    """Raise BadTable if a column that would be left out holds scores in another form: 8/10, 70%, "8", yes and no."""
    name = path[0].lower()
    cells = table.get_cells(path)
    is_text_column = name in TEXT_NAMES or any(name in names for names in COLUMNS.values())
    if cells.dtype != pl.String or is_text_column or name in BOOKKEEPING or name in GROUP_NAMES:
        return
    sample = cells.drop_nulls().head(_SAMPLED_CELLS)
    if len(sample) and sample.str.contains(_SCORE_AS_TEXT).all():
        index = find_first_true(cells.is_not_null())
        remedy = "Write numbers, true or false, or name the criteria: `criteria=Facts,Style`."
        raise table.make_cell_error(index, path, "a number, or a text that is not a score", remedy)


def _list_paths(table: Table) -> list[ColumnPath]:
    """Return all columns that hold single values, and the fields of `scores` and `attributes`."""
    paths: list[ColumnPath] = []
    for name, dtype in table.frame.schema.items():
        if name in (SCORES, ATTRIBUTES) and isinstance(dtype, pl.Struct):
            paths += [(name, field.name) for field in dtype.fields]
        elif not dtype.is_nested():
            paths.append((name,))
    return paths


def _find_path(table: Table, what: str, home: str, name: str) -> ColumnPath:
    """Return where a criterion or attribute is: a field of the column `home`, or a separate column.

    what: "criterion" or "attribute". Raises UnknownName, which suggests the nearest name, if it is nowhere.
    """
    paths = _list_paths(table)
    for path in ((home, name), (name,)):
        if path in paths:
            return path
    candidates = {path[-1] for path in paths if len(path) == 1 or path[0] == home}
    field = "attributes" if what == "attribute" else "criteria"
    raise UnknownName.of(str(table.path), what, name, candidates, field=field)


def _check_ragged_scores(
    table: Table, columns: Columns, limits: Mapping[str, ScoreLimits]
) -> tuple[str, ...]:
    """Return the criteria of a table with ragged scores; raises BadTable for the first score that is wrong."""
    assert table.ragged_scores is not None
    names: dict[str, None] = {}  # an ordered set
    for index, scores in enumerate(table.ragged_scores):
        for name, value in scores.items():
            names[name] = None
            if value is None or value != value:  # NaN: the only value that differs from itself
                continue
            column = f"{SCORES}.{name}"
            where = f"{table.unit} {table.rows[index]}, column {column!r}"
            is_number = isinstance(value, bool | int | float)
            if not is_number or is_inexact_integer(value) or math.isinf(value):
                raise BadTable(
                    owner=str(table.path),
                    parameter=where,
                    allowed=ALLOWED_SCORES,
                    got=show_cell(value),
                    remedy="Repair the cell, or empty it if there is no score.",
                )
            limit = limits.get(name)
            if limit is not None and not limit.low <= value <= limit.high:
                raise BadTable(
                    owner=str(table.path),
                    parameter=where,
                    allowed=limit.allowed,
                    got=show_cell(value),
                    remedy=limit.remedy,
                )
    if columns.named_criteria is None:
        return tuple(names)
    for name in columns.named_criteria:
        if name not in names:
            raise UnknownName.of(str(table.path), "criterion", name, names, field="criteria")
    return columns.named_criteria
