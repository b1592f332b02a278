"""Find the columns of a table that hold groups, criteria and attributes, and check all their cells.

    layout = find_layout(read_table("scores.csv"), Columns())
    layout.group_labels                 the groups
    layout.group_rows[0]                the rows of the first group
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

A `ColumnPath` is where values are: ("Facts",) is a column, ("scores", "Facts") a field of the column `scores`.

If every query has its own criteria, these are too many for the columns of a matrix. `scores_MK` is then None, and
`select_scores` makes matrices of some rows and criteria.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from rubrank._plain import find_similar_names
from rubrank.errors import BadTable, UnknownName
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
from rubrank.tables.table import (
    ALLOWED_SCORES,
    MOST_CRITERION_COLUMNS,
    ColumnPath,
    ScoreLimits,
    Table,
    convert_csv_column,
    is_inexact_integer,
    read_numbers,
    show_cell,
)

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
    group_labels: tuple[Hashable, ...]
    """The groups in the order in which they first appear: integers if a single column of integers names them, else
    texts."""
    order: np.ndarray
    """The rows sorted by group: those of group g are order[starts[g]:starts[g + 1]]."""
    starts: np.ndarray
    names: tuple[str, ...]
    """The criteria."""
    scores_MK: np.ndarray | None
    """(rows, criteria), NaN = not scored; None if there are too many criteria for one matrix: see `select_scores`."""
    attributes_MD: np.ndarray | None
    """(rows, attributes); None if the user named no attributes."""
    left_out: tuple[str, ...]
    """Columns without any use, for a message to the user."""

    @cached_property
    def group_rows(self) -> list[np.ndarray]:
        """The rows of each group."""
        return np.split(self.order, self.starts[1:-1])

    def select_scores(self, rows: np.ndarray, names: Sequence[str]) -> np.ndarray:
        """Return the scores of some rows on some criteria, in the order of `rows` and `names`; NaN = not scored."""
        if self.scores_MK is None:
            assert self.table.scores is not None
            return make_matrix([self.table.scores[row] for row in rows], names)
        # As many different rows as the table has, in increasing order: these are all of them, as they stand.
        is_every_row = len(rows) == len(self.order) and (np.diff(rows) > 0).all()
        if is_every_row and tuple(names) == self.names:
            return self.scores_MK  # without a copy
        column_of = {name: k for k, name in enumerate(self.names)}
        columns = [column_of[name] for name in names]
        return self.scores_MK[rows[:, None], columns]

    def find_scored_names(self, rows: np.ndarray) -> list[str]:
        """Return the criteria with a score in one of these rows, in the order of the table."""
        names: Sequence[str] = self.names
        if self.scores_MK is None:
            assert self.table.scores is not None
            row_names = set().union(*(self.table.scores[row] for row in rows))
            names = [name for name in self.names if name in row_names]
        is_scored = ~np.isnan(self.select_scores(rows, names)).all(axis=0)
        return [name for name, scored in zip(names, is_scored, strict=True) if scored]


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
        path = _find_path(table, ATTRIBUTES, name)
        values = read_numbers(table, path).values
        is_usable = np.isfinite(values) & (values >= 0.0)
        remedy = "Attributes are counts, lengths or densities; measure them on every rollout."
        table.refuse_cell(~is_usable, path, "a finite number ≥ 0", remedy)
        attribute_paths.append(path)
        attribute_values.append(values)
    attributes_MD = np.stack(attribute_values, 1) if attribute_values else None

    attribute_columns = [path[0] for path in attribute_paths if len(path) == 1]
    other_columns = {*group_columns, columns.batch, *attribute_columns}
    criteria, left_out = _choose_criteria(table, columns, other_columns)
    for path in criteria:
        # Criteria that the user named may be in use already.
        if path in attribute_paths or path[0] in group_columns:
            use = "an attribute" if path in attribute_paths else "the group"
            got = f"{path[-1]!r}, which is {use}, too"
            allowed = "columns without another use"
            raise BadTable(str(table.path), "the criteria", allowed, got, "Leave one out.")
    names = tuple(path[-1] for path in criteria)
    scores_MK = _read_scores(table, criteria, limits)
    # "Facts" and "facts " are probably one criterion. Criteria that the user named are meant as they are.
    similar_names = find_similar_names(names) if columns.named_criteria is None else None
    if similar_names:
        got = f"{similar_names[0]!r} and {similar_names[1]!r}"
        remedy = "Give them one name, or name the criteria that are meant: `criteria=Facts,Style`."
        raise BadTable(str(table.path), "the criteria", "of different names", got, remedy)

    label_columns = (columns.batch, *group_columns) if columns.batch else group_columns
    labels = make_labels(table, label_columns)
    _check_rows(table, labels)
    if not any_order:
        if columns.batch and whole_batches:
            _check_adjacent(table, make_labels(table, [columns.batch]), "batch")
        _check_adjacent(table, labels, "group")
    group_labels, order, starts = _group_rows(labels)
    return Layout(
        table, group_columns, group_labels, order, starts, names, scores_MK, attributes_MD, left_out
    )


# -------------------------------------------------------------------------------------------------------------- groups


def make_labels(table: Table, names: Sequence[str]) -> pl.Series:
    """Return a label for every row from its cells in some columns: different labels for different cells.

    A single column of integers gives integers, anything else texts; cells "7" and "q1" give "7/q1". The label is null
    if a cell is null.
    """
    if len(names) == 1:
        cells = table.frame.get_column(names[0])
        if table.text_is_number:
            cells = convert_csv_column(cells)
        if cells.dtype == pl.UInt64:
            return cells
        if cells.dtype.is_integer() and cells.dtype != pl.Int128:  # Int128 may not fit into Int64
            return cells.cast(pl.Int64)
    *texts, last_text = (table.frame.get_column(name).cast(pl.String) for name in names)
    # Separators within a cell are escaped. Otherwise ("a/b", "c") and ("a", "b/c") would be one group.
    escaped = [text.str.replace_all(r"([/\\])", r"\$1") for text in texts]
    columns = [text.alias(str(i)) for i, text in enumerate([*escaped, last_text])]
    return pl.DataFrame(columns).select(pl.concat_str(pl.all(), separator="/")).to_series()


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
        allowed = f"a column {', '.join(map(repr, GROUP_NAMES))}, or a prompt"
        got = f"columns {', '.join(map(repr, present))}"
        remedy = "Name the column of the group: `group_column=NAME`."
        raise BadTable(str(table.path), "the group", allowed, got, remedy)
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
            got = f"two readings: by {group!r} and by {other!r}"
            remedy = f"Choose one: `group_column={group}`."
            raise BadTable(str(table.path), "the group", "in one column", got, remedy)

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
    allowed = "a number or a text"
    if cells.dtype.is_nested() or cells.dtype == pl.Binary:
        remedy = "Lists, objects and bytes cannot name a group. Name another column: `group_column=NAME`."
        table.refuse_cell(cells.is_not_null(), (name,), allowed, remedy)
    table.refuse_cell(cells.is_null(), (name,), allowed, "Every rollout belongs to a group.")
    if cells.dtype != pl.String:
        return
    # Rows of a group are usually adjacent: one label of each run of equal labels is enough.
    labels = cells.rle().struct.field("value").unique()
    if labels.str.strip_chars().n_unique() < len(labels):
        frame = pl.DataFrame({"label": cells, "stripped": cells.str.strip_chars()})
        first_spellings = frame.select(pl.col("label").first().over("stripped")).to_series()
        is_wrong = cells != first_spellings
        original = first_spellings[int(is_wrong.arg_true()[0])]
        allowed = f"{original!r} as before, or another name: blanks do not tell groups apart"
        table.refuse_cell(is_wrong, (name,), allowed, "Remove the blanks.")
    last_label = cells[-1]
    if last_label.strip().lower() in _SUMMARY_ROWS and len(cells) > 1:
        is_last_label = cells == last_label
        if is_last_label.sum() == 1:  # a group of one row, the last of the table
            remedy = "Remove the row of totals or means, or give the group another name."
            table.refuse_cell(is_last_label, (name,), "the group of a rollout", remedy)


def _check_adjacent(table: Table, labels: pl.Series, what: str) -> None:
    """Raise BadTable if a label comes back after another one, because that may be the same query in another step.

    what: "group" or "batch", for the message.
    """
    runs = labels.rle()  # one entry for adjacent rows with the same label
    run_labels = runs.struct.field("value")
    comes_back = ~run_labels.is_first_distinct()
    if not comes_back.any():
        return
    second_run = int(comes_back.arg_true()[0])
    label = run_labels[second_run]
    first_run = int((run_labels == label).arg_true()[0])
    lengths = runs.struct.field("len")
    begin = table.describe_row(int(lengths[:first_run].sum()))
    again = table.describe_row(int(lengths[:second_run].sum()))
    got = f"one that begins at {begin} and comes back at {again}"
    remedy = f"Sort the file, or use `any_order=true` if they are one {what}."
    where = f"the rows of {what} {label!r}"
    raise BadTable(str(table.path), where, "next to each other", got, remedy)


def _group_rows(labels: pl.Series) -> tuple[tuple[Hashable, ...], np.ndarray, np.ndarray]:
    """Return the distinct labels, the rows sorted by label, and where each label starts, as a `Layout` has them."""
    # Usually the rows of a group are adjacent. They are then sorted already.
    runs = labels.rle()
    run_labels = runs.struct.field("value")
    if run_labels.n_unique() == len(runs):
        run_ends = runs.struct.field("len").cum_sum().to_numpy().astype(np.int64)
        starts = np.concatenate([[0], run_ends])
        return tuple(run_labels.to_list()), np.arange(len(labels)), starts
    rows = pl.DataFrame({"label": labels}).with_row_index("row")
    groups = rows.group_by("label", maintain_order=True).agg("row")
    starts = np.concatenate([[0], groups["row"].list.len().cum_sum().to_numpy()]).astype(np.int64)
    order = groups["row"].explode().to_numpy().astype(np.int64)
    return tuple(groups["label"].to_list()), order, starts


def _check_rows(table: Table, labels: pl.Series) -> None:
    """Raise BadTable if rows of a group have different prompts, or the same rollout id."""
    frame = table.frame
    if frame.schema.get("prompt") == pl.String:
        columns = {"label": labels, "prompt": frame.get_column("prompt"), "row": table.rows}
        prompts = pl.DataFrame(columns).drop_nulls()
        # Pair every row with the first row of its group.
        first_cells = pl.col("prompt", "row").first().name.prefix("first_")
        firsts = prompts.group_by("label", maintain_order=True).agg(first_cells)
        paired = prompts.join(firsts, on="label", maintain_order="left")
        different = paired.filter(pl.col("prompt") != pl.col("first_prompt"))
        if len(different):
            row = different.row(0, named=True)
            where = f"{table.unit} {row['row']}, the prompt of group {row['label']!r}"
            got = f"another than {table.unit} {row['first_row']} has"
            remedy = "Give different prompts different ids, or name the column of the group: `group_column=NAME`."
            raise BadTable(str(table.path), where, "the same in all rows", got, remedy)

    name = next((name for name in ROLLOUT_ID_NAMES if name in frame.columns), None)
    # Several rows per rollout are normal in a long table that is read as wide.
    is_long = any(name in frame.columns for name in CRITERION_NAMES)
    if name is None or is_long:
        return
    ids = frame.get_column(name)
    if ids.dtype.is_nested() or ids.null_count():
        return
    rollouts = pl.DataFrame({"label": labels, "rollout": ids})
    if rollouts.n_unique() == labels.n_unique():  # one id per group: it does not identify rollouts
        return
    is_repeated = ~rollouts.to_struct("rollout").is_first_distinct()
    if is_repeated.any():
        index = int(is_repeated.arg_true()[0])
        allowed = "a rollout that is there once"
        got = f"a second {name} {ids[index]!r} of group {labels[index]!r}"
        where = table.describe_row(index)
        raise BadTable(str(table.path), where, allowed, got, "Remove the copies.")


# ------------------------------------------------------------------------------------------------------------ criteria


def _choose_criteria(
    table: Table, columns: Columns, other_columns: set[str | None]
) -> tuple[list[ColumnPath], tuple[str, ...]]:
    """Return where the criteria are, and the columns that are left out.

    The criteria are the ones that the user named, or else the fields of the column `scores`, or else all columns of
    numbers (without those in `BOOKKEEPING`), if the user said `criteria=all` or declared each of them in another way.
    other_columns: those with another use, such as the group.
    Raises BadTable if it is not certain which columns are criteria.
    """
    if columns.named_criteria is not None:
        paths = [_find_path(table, SCORES, name) for name in columns.named_criteria]
    else:
        paths = [path for path in table.paths if len(path) == 2 and path[0] == SCORES]
    if paths:
        # These columns identify a rollout. That they are not criteria need not be said.
        identity_columns = ("prompt", "response", *ROLLOUT_ID_NAMES)
        known_columns = {ATTRIBUTES, *identity_columns, *other_columns}
        chosen = set(paths)
        unused_paths = [path for path in table.paths if path not in chosen]
        left_out_names = [path[-1] for path in unused_paths if path[0] not in known_columns]
        return paths, tuple(left_out_names)

    left_out = []
    for path in table.paths:
        name = path[0]
        if len(path) == 2 or name in other_columns:
            continue
        # `fuse --utilities` added a column "utility.…".
        is_bookkeeping = name.lower() in BOOKKEEPING or name in GROUP_NAMES or "utility." in name
        if not is_bookkeeping:
            if read_numbers(table, path).is_mostly_numbers:
                paths.append(path)
                continue
            _refuse_scores_as_text(table, name)
        left_out.append(name)
    names = [path[0] for path in paths]
    if not paths:
        got = f"columns {', '.join(map(repr, table.frame.columns))}"
        remedy = "Name them: `criteria=Facts,Style`."
        raise BadTable(
            str(table.path), "the criteria", "at least one column of numbers", got, remedy
        )
    if columns.criteria is None and any(name not in columns.declared for name in names):
        # One of these columns of numbers may be a temperature or a cost.
        listed = names[:_MOST_LISTED_COLUMNS]
        got = ", ".join(map(repr, listed))
        if len(names) > len(listed):
            got += f" and {len(names) - len(listed)} more"
        allowed = "named, because a column of numbers may be something else"
        remedy = f"Name those that are criteria: `criteria={','.join(listed)}`; for all of these use `criteria=all`."
        raise BadTable(str(table.path), "the criteria", allowed, got, remedy)
    return paths, tuple(left_out)


def _refuse_scores_as_text(table: Table, name: str) -> None:
    """Raise BadTable if a column that would be left out holds scores in another form: 8/10, 70%, "8", yes and no."""
    cells = table.frame.get_column(name)
    is_text_column = name.lower() in TEXT_NAMES.union(*COLUMNS.values())
    if cells.dtype != pl.String or is_text_column:
        return
    sample = cells.drop_nulls().head(_SAMPLED_CELLS)
    if len(sample) and sample.str.contains(_SCORE_AS_TEXT).all():
        remedy = "Write numbers, true or false, or name the criteria: `criteria=Facts,Style`."
        allowed = "a number, or a text that is not a score"
        table.refuse_cell(cells.is_not_null(), (name,), allowed, remedy)


def _find_path(table: Table, home: str, name: str) -> ColumnPath:
    """Return where a criterion or attribute is: a field of the column `home`, or a separate column.

    home: "scores" or "attributes". Raises UnknownName, which suggests the nearest name, if it is nowhere.
    """
    for path in ((home, name), (name,)):
        if path in table.paths:
            return path
    candidates = {path[-1] for path in table.paths if len(path) == 1 or path[0] == home}
    what = "attribute" if home == ATTRIBUTES else "criterion"
    field = "attributes" if home == ATTRIBUTES else "criteria"
    raise UnknownName.of(str(table.path), what, name, candidates, field=field)


def _read_scores(
    table: Table, criteria: Sequence[ColumnPath], limits: Mapping[str, ScoreLimits]
) -> np.ndarray | None:
    """Return the scores, (rows, criteria); None if there are too many criteria for one matrix.

    Raises BadTable for the first score that is wrong. limits: criterion → the range that its scores must be in.
    """
    # Fields of `scores` in JSON are checked row by row, because a row has only some of the criteria.
    checked_paths = set(criteria)
    for index, scores in enumerate(table.scores or ()):
        for name, value in scores.items():
            is_missing = value is None or value != value  # NaN differs from itself
            if is_missing or (SCORES, name) not in checked_paths:
                continue
            allowed = ALLOWED_SCORES
            remedy = "Repair the cell, or empty it if there is no score."
            is_number = isinstance(value, bool | int | float) and abs(value) < math.inf
            is_wrong = not is_number or is_inexact_integer(value)
            if not is_wrong and name in limits:
                limit = limits[name]
                allowed = limit.allowed
                remedy = limit.remedy
                is_wrong = not limit.low <= value <= limit.high
            if is_wrong:
                where = f"{table.describe_row(index)}, column {f'{SCORES}.{name}'!r}"
                raise BadTable(str(table.path), where, allowed, show_cell(value), remedy)
    if table.scores is not None and len(criteria) > MOST_CRITERION_COLUMNS:
        return None
    columns = []
    for path in criteria:
        if table.scores is not None and path[0] == SCORES:
            _, name = path
            columns.append(make_matrix(table.scores, [name])[:, 0])
        else:
            numbers = read_numbers(table, path)
            numbers.check_scores(table, path, limits.get(path[-1]))
            columns.append(numbers.values)
    return np.stack(columns, 1)
