"""Read any source into a table with one row per rollout: CSV, TSV, JSON Lines, Parquet, Arrow, frames, datasets, rows.

    table = read_table("scores.csv")
    table.frame                        the columns of the file as a polars frame; the cells of a CSV are texts
    table.rows, table.unit             where each row is in the file, for messages: "row 17", "line 4"

    numbers = read_numbers(table, ("attributes", "tokens"))
    numbers.values                     the cells as doubles; NaN where there is no number
    numbers.check_scores(table, …)     raises for a text, an infinity, or an integer that a double cannot hold

Files with columns are read by polars. JSON, and everything else that has rows, is read as Python objects: a column of
polars has one type, and a text among numbers could not be told from a number any more.

Scores come in wide tables, with one row per rollout, and in long tables, with one row per score, which are converted:

    prompt_id,response_id,criterion,score          prompt_id, response_id, scores
    q1,a,Facts,1                                   q1,        a,           {Facts: 1, Style: 3}
    q1,a,Style,3

A table is long if the option `long` says so, or if it has a column of texts with the names of criteria and a column
with their scores. If it also has other columns of numbers, these could be criteria, and the table wide. It is then
refused unless the option `long` or `criteria` decides.

`rubrank.tables.layout` then finds out which columns hold what, and checks their cells. A table is read whole. What does
not fit into memory is a job for Ray (docs/scale.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from rubrank._files import read_text
from rubrank.errors import BadTable, InvalidInput, UnknownName
from rubrank.tables.columns import (
    ATTRIBUTES,
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
from rubrank.tables.inspect_logs import LogRow
from rubrank.tables.sources import (
    describe_source,
    find_files,
    format_of,
    is_dataset,
    parse_lines,
    read_columnar,
    read_csv,
    read_rows,
)

ColumnPath: TypeAlias = tuple[str, ...]
"""Where cells are: ("Facts",) is a column, ("scores", "Facts") a field of one."""

MOST_CRITERION_COLUMNS = 256
"""With more distinct criteria (each query has its own) a column for each would be mostly empty."""

LARGEST_EXACT_INTEGER = 2**53
"""Different integers beyond this can become the same double: their order would be lost."""
ALLOWED_SCORES = "a finite number (whole ones within ±2**53), yes/no as true/false, or empty"
"""What an error says about a cell that holds no score."""
_SAMPLED_CELLS = 100  # looked at first: most columns of texts are recognised by these
# Cells of a CSV. "", "NaN", " n/a ": no score.
_UNSCORED_PATTERN = r"(?i)^\s*(nan|null|none|na|n/a)?\s*$"
# true, 12, -0.5, 1e-3: the column may hold values of one type. The next two patterns are stricter.
_VALUE_PATTERN = r"(?i)^(true|false|-?\d+(\.\d+)?(e[+-]?\d+)?)$"
_INTEGER_PATTERN = r"^(0|-?[1-9]\d{0,17})$"  # 0, -12; not 007, and nothing beyond 64 bits
_FLOAT_PATTERN = r"^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$"  # 0.5, -12, 1e-3; not 007 or .5
# Columns of a long table whose numbers describe the criterion of a row, and so are no criteria themselves.
_NUMBERS_ABOUT_CRITERIA = {"weight", "points", "margin", "version"}


@dataclass(frozen=True, eq=False)
class Table:
    """Rows with named columns, and where they came from."""

    path: Path
    """The file, or the name of another source in messages."""
    shape: str
    """The format in words, such as "long CSV"."""
    frame: pl.DataFrame
    """All columns. Of a table of objects with too many criteria, without `scores` and `reasons`."""
    rows: pl.Series
    """The number of each row in error messages."""
    unit: str
    """What that number counts: a "line" of the file, a "row" without the header, or a "rollout" of a long table."""
    text_is_number: bool = False
    """Is a text such as "0.5" a number, as in a CSV?"""
    objects: Sequence[Mapping[str, Any]] | None = None
    """The rows as JSON has them, if the source has objects instead of columns."""
    lines: Sequence[str] = ()
    """The JSON text of each object, if the source is a file of such lines."""
    scores: Sequence[Mapping[str, Any]] | None = None
    """The scores of each row by criterion, if the objects have `scores`."""
    numbers: dict[ColumnPath, Numbers] = field(default_factory=dict, init=False)
    """What `read_numbers` has read."""

    @cached_property
    def paths(self) -> dict[ColumnPath, None]:
        """All columns that hold single values, and the fields of `scores` and `attributes`, as an ordered set."""
        paths: dict[ColumnPath, None] = {}
        for scores in self.scores or ():
            paths.update(((SCORES, name), None) for name in scores)
        for name, dtype in self.frame.schema.items():
            if name in (SCORES, ATTRIBUTES) and isinstance(dtype, pl.Struct):
                paths.update(((name, field.name), None) for field in dtype.fields)
            elif not dtype.is_nested():
                paths[name,] = None
        return paths

    def get_cells(self, path: ColumnPath) -> pl.Series | list[Any]:
        """Return a column, or a field of one."""
        if self.objects is None:
            column = self.frame.get_column(path[0])
            return column if len(path) == 1 else column.struct.field(path[1])
        cells: list[Any] = list(self.objects)
        for key in path:
            cells = [cell.get(key) if isinstance(cell, Mapping) else None for cell in cells]
        return cells

    def describe_row(self, index: int) -> str:
        """Return where a row is in the file: "line 4"."""
        return f"{self.unit} {self.rows[index]}"

    def refuse_cell(self, wrong: Any, path: ColumnPath, allowed: str, remedy: str) -> None:
        """Raise BadTable about the first cell that is wrong, if there is one. wrong: for each row whether it is."""
        indices = np.flatnonzero(wrong)
        if len(indices):
            index = int(indices[0])
            cell = show_cell(self.get_cells(path)[index])
            where = f"{self.describe_row(index)}, column {'.'.join(path)!r}"
            raise BadTable(str(self.path), where, allowed, cell, remedy)


@contextmanager
def convert_to_bad_table() -> Iterator[None]:
    """Turn every `InvalidInput` into a `BadTable` with the same message."""
    try:
        yield
    except BadTable:
        raise
    except InvalidInput as error:
        raise BadTable(*error.args) from None


def show_cell(value: Any) -> str:
    """Return a cell for an error message, at most 50 characters long."""
    if isinstance(value, pl.Series):  # a list in a cell; its repr has several lines
        value = value.to_list()
    text = "nothing" if value is None else repr(value)
    return text if len(text) < 50 else f"{text[:47]}…"


def read_table(source: Any, columns: Columns | None = None) -> Table:
    """Return any source of scores as a table with one row per rollout.

    Raises BadTable if it cannot be read, is empty, is a file of records, or could be long or wide.
    """
    columns = columns or Columns()
    table = _read_source(source)
    if not len(table.frame):
        raise BadTable(str(table.path), "the table", "at least one row", "none")
    if any(names <= set(table.frame.columns) for names in RECORD_COLUMNS):
        got = "records of groups that were fused"
        remedy = "Read it with `rubrank record`, `replay` or `view`, or name the score file that it was made of."
        raise BadTable(str(table.path), "the table", "scores of rollouts", got, remedy)
    if columns.long is False:
        return table
    criterion = _find_column(table, columns, "criterion", CRITERION_NAMES)
    score = _find_column(table, columns, "score", SCORE_NAMES)
    is_declared_long = bool(columns.long) or "criterion" in columns.fields
    if criterion is None or score is None:
        if is_declared_long:
            missing = "criterion" if criterion is None else "score"
            raise _make_missing_error(table, missing, f"Name it: `column.{missing}=NAME`.")
        return table
    if not is_declared_long:
        schema = table.frame.schema
        named = columns.named_criteria
        is_named_wide = named is not None and all(name in schema for name in named)
        # A column `scores` has all scores of a rollout in one row. A column of numbers does not name criteria.
        if SCORES in schema or is_named_wide or schema[criterion].is_numeric():
            return table
    return _widen(table, columns, criterion, score, is_declared_long)


@convert_to_bad_table()
def _read_source(source: Any) -> Table:
    """Return any source as a table with the rows that it has, which may be one per rollout or one per score."""
    shape = describe_source(source)
    path = Path(source) if isinstance(source, str | Path) else Path(shape)
    file_format = ""
    files: list[Path] = []
    if isinstance(source, str | Path) and not is_dataset(source):
        files = find_files(source)
        file_format = format_of(files[0])
    if file_format in ("CSV", "TSV"):
        csv_frames = []
        row_numbers = []
        next_row = 1  # rows are numbered through all files
        for file in files:
            csv_frame, rows = read_csv(file, next_row)
            csv_frames.append(csv_frame)
            row_numbers.append(rows)
            if len(rows):
                next_row = int(rows[-1]) + 1
        frame = pl.concat(csv_frames, how="diagonal")  # by the names of their columns
        return Table(path, shape, frame, pl.concat(row_numbers), "row", text_is_number=True)
    if file_format == "JSON Lines":
        texts = [read_text(file).split("\n") for file in files]
        parsed = list(parse_lines(chain.from_iterable(texts), path))
        numbers = [number for number, _, _ in parsed]
        lines = [line for _, line, _ in parsed]
        objects = [row for _, _, row in parsed]
        return make_object_table(objects, path, shape, "line", numbers, lines)
    if file_format in ("Parquet", "Arrow"):
        # A column with different types gets the wider one.
        frame = pl.concat([read_columnar(file) for file in files], how="diagonal_relaxed")
    elif isinstance(source, pl.LazyFrame):
        frame = source.collect()
    elif isinstance(source, pl.DataFrame):
        frame = source
    else:
        objects = []
        for row in read_rows(source):
            if isinstance(row, LogRow) and shape == "JSON":
                shape = "Inspect log"
            named = {str(key): value for key, value in row.items()}
            objects.append(json.loads(json.dumps(named, default=_convert_to_json)))
        return make_object_table(objects, path, shape, "row")
    rows = pl.Series(range(1, len(frame) + 1), dtype=pl.Int64)
    if "prompt" in frame.columns and frame.schema["prompt"].is_nested():
        frame = _add_groups_of_messages(frame, frame["prompt"].to_list())
    return Table(path, shape, frame, rows, "row")


def _convert_to_json(value: Any) -> Any:
    """Return a value that JSON does not have (NumPy's numbers and arrays, sets, dates) as one that it has."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, set) else str(value)


def make_object_table(
    objects: Sequence[Mapping[str, Any]],
    path: Path,
    shape: str,
    unit: str,
    numbers: Sequence[int] = (),
    lines: Sequence[str] = (),
) -> Table:
    """Return JSON objects as a table; they may have different keys, and a key that is absent is null.

    unit, numbers: what the rows are called in messages, and their numbers, by default from 1. lines: the JSON texts.
    """
    numbers = numbers or range(1, len(objects) + 1)
    keys = dict.fromkeys(key for row in objects for key in row)
    scores = None
    score_cells = [row.get(SCORES) for row in objects]
    if any(isinstance(cell, Mapping) for cell in score_cells):
        for number, cell in zip(numbers, score_cells, strict=True):
            if not isinstance(cell, Mapping | None):
                where = f"{unit} {number}, column {SCORES!r}"
                raise BadTable(str(path), where, "an object, as in other rows", show_cell(cell))
        scores = [cell or {} for cell in score_cells]
        if len(set().union(*scores)) > MOST_CRITERION_COLUMNS:
            keys.pop(SCORES)
            keys.pop(REASONS, None)  # has as many keys as the scores
    frame = pl.DataFrame({key: _make_column([row.get(key) for row in objects]) for key in keys})
    prompts = [row.get("prompt") for row in objects]
    if any(isinstance(prompt, list | Mapping) for prompt in prompts):
        frame = _add_groups_of_messages(frame, prompts)
    rows = pl.Series(numbers, dtype=pl.Int64)
    return Table(path, shape, frame, rows, unit, objects=objects, lines=lines, scores=scores)


def _make_column(cells: list[Any]) -> pl.Series:
    """Return cells of any types as a column; if they have different types, they become numbers or texts."""
    types = {type(cell) for cell in cells} - {type(None)}
    if types.isdisjoint({list, dict}):
        with suppress(UnicodeEncodeError):  # a lone surrogate: its escape is written below
            return pl.Series(cells, strict=False)
    texts = []
    for cell in cells:
        text = cell if isinstance(cell, str | None) else json.dumps(cell)
        if text is not None:
            text = text.encode("utf-8", "backslashreplace").decode()
        texts.append(text)
    column = pl.Series(texts, dtype=pl.String)
    if len(types) == 1 and types <= {list, dict}:
        # By way of JSON, because polars drops parts of lists and dicts whose types differ.
        with suppress(PolarsError):
            return column.str.json_decode(infer_schema_length=None)
    return column


def _add_groups_of_messages(frame: pl.DataFrame, prompts: Sequence[Any]) -> pl.DataFrame:
    """Return the frame with a column `group` that numbers the prompts, if it needs one.

    A prompt of text can name the group itself. A list of chat messages cannot, so equal lists get the same number.
    """
    if set(GROUP_NAMES) & set(frame.columns):
        return frame
    # The same prompt in two training steps is two groups.
    step = next((name for name in STEP_NAMES if name in frame.columns), None)
    steps = [None] * len(prompts) if step is None else frame[step].to_list()
    number_of: dict[str, int] = {}
    labels = []
    for key in zip(steps, prompts, strict=True):
        text = json.dumps(key, sort_keys=True, default=str)
        labels.append(str(number_of.setdefault(text, len(number_of))))
    return frame.select(pl.Series("group", labels), pl.all())


# ----------------------------------------------------------------------------------------------------- cells as numbers


@dataclass(frozen=True)
class ScoreLimits:
    """The lowest and highest score of a criterion, and what an error says about a score outside."""

    low: float
    high: float
    allowed: str
    remedy: str = ""


@dataclass(frozen=True, eq=False)
class Numbers:
    """The cells of one column as numbers."""

    values: np.ndarray
    """Doubles: NaN if the cell holds no number.

    An integer that a double cannot hold is infinite: it is a number, but `check_scores` must refuse it.
    """
    filled: np.ndarray
    """Is anything in the cell?"""

    @property
    def is_mostly_numbers(self) -> bool:
        """Is the column meant to hold numbers? A single "yes" among them is a mistake to report."""
        count = int(np.count_nonzero(~np.isnan(self.values)))
        return count > 0 and 2 * count >= int(np.count_nonzero(self.filled))

    def check_scores(self, table: Table, path: ColumnPath, limits: ScoreLimits | None) -> None:
        """Raise BadTable for the first cell that is wrong, or else for the first score outside the limits."""
        remedy = "Repair the cell, empty it if there is no score, or name the criteria: `criteria=Facts,Style`."
        is_wrong = self.filled & ~np.isfinite(self.values)
        table.refuse_cell(is_wrong, path, ALLOWED_SCORES, remedy)
        if limits is not None:
            outside = (self.values < limits.low) | (self.values > limits.high)
            table.refuse_cell(outside, path, limits.allowed, limits.remedy)


def read_numbers(table: Table, path: ColumnPath) -> Numbers:
    """Return the cells of a column, or of a field of one, as numbers; each column is read once."""
    if path in table.numbers:
        return table.numbers[path]
    cells = table.get_cells(path)
    if isinstance(cells, list):  # cells of JSON
        values = np.full(len(cells), np.nan)
        for i, cell in enumerate(cells):
            if isinstance(cell, bool | int | float):  # a text is no number here, as it is in a CSV
                values[i] = np.inf if is_inexact_integer(cell) else cell
        filled = np.array([cell is not None and cell == cell for cell in cells], bool)  # NaN ≠ NaN
    else:
        is_filled = cells.is_not_null()
        if cells.dtype.is_numeric() or cells.dtype == pl.Boolean:
            doubles = cells.cast(pl.Float64)
        elif cells.dtype == pl.String and table.text_is_number:
            doubles = cells.cast(pl.Float64, strict=False)
            if doubles.null_count() > cells.null_count():  # usually all cells are numbers
                clean = cells.str.strip_chars().str.to_lowercase()
                clean = clean.replace({"true": "1", "false": "0"})
                doubles = clean.cast(pl.Float64, strict=False)
                is_filled &= ~cells.str.contains(_UNSCORED_PATTERN).fill_null(False)
        else:
            doubles = pl.Series([None], dtype=pl.Float64).new_from_index(0, len(cells))
        values = doubles.fill_null(np.nan).to_numpy().copy()
        filled = (is_filled & ~doubles.is_nan().fill_null(False)).to_numpy()
        for index in np.flatnonzero(np.abs(values) >= LARGEST_EXACT_INTEGER).tolist():
            if is_inexact_integer(cells[index]):
                values[index] = np.inf
    numbers = Numbers(values, filled)
    table.numbers[path] = numbers
    return numbers


def is_inexact_integer(value: Any) -> bool:
    """Return whether it is an integer, or the text of one, that a double cannot hold exactly."""
    if isinstance(value, str):
        is_integer = re.fullmatch(r"\s*[+-]?[0-9]+\s*", value) is not None
    else:
        is_integer = isinstance(value, int | Decimal)
    return is_integer and abs(int(value)) > LARGEST_EXACT_INTEGER


def convert_csv_column(cells: pl.Series) -> pl.Series:
    """Return a CSV column as integers, floats or booleans, if all its cells can be converted; else unchanged.

    A column with a number such as 007 or .5 stays text: 007 is probably an id, which would become 7.
    """
    if cells.dtype != pl.String:
        return cells
    sample = cells.head(_SAMPLED_CELLS)
    sample = sample.filter(~sample.str.contains(_UNSCORED_PATTERN))
    if not sample.str.contains(_VALUE_PATTERN).all():
        return cells  # the first cells already show that it is text
    filled = cells.filter(~cells.str.contains(_UNSCORED_PATTERN))
    if filled.is_empty():
        return cells
    if filled.str.contains(_INTEGER_PATTERN).all():
        return cells.cast(pl.Int64, strict=False)
    if filled.str.contains(_FLOAT_PATTERN).all():
        return cells.cast(pl.Float64, strict=False)
    truth_values = {"true": True, "false": False}
    if filled.str.to_lowercase().is_in(list(truth_values)).all():
        lower = cells.str.to_lowercase()
        return lower.replace_strict(truth_values, default=None, return_dtype=pl.Boolean)
    return cells


# --------------------------------------------------------------------------------------------------------- long tables


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


def _widen(
    table: Table, columns: Columns, criterion: str, score: str, is_declared_long: bool
) -> Table:
    """Return a long table with one row per rollout, in the order of first appearance, as objects with `scores`.

    Other columns, such as the prompt, have the value of the rollout's first row. Reasons are in `reasons`.
    Raises BadTable if a row lacks its response or criterion, a score is repeated, or a score is not a number.

    criterion, score: the columns with the name of the criterion and its score.
    """
    frame = table.frame
    if columns.group:
        group = tuple(name for name in columns.group if name in frame.columns)
    else:
        group = tuple(name for name in (*GROUP_NAMES, "prompt") if name in frame.columns)[:1]
        steps = [name for name in STEP_NAMES if name in frame.columns]
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

    remedy = "Every score belongs to a response and a criterion."
    is_blank = frame[criterion].cast(pl.String).str.strip_chars() == ""
    # A response may be blank, if the column has the responses themselves.
    table.refuse_cell(frame[response].is_null(), (response,), "given", remedy)
    table.refuse_cell(is_blank.fill_null(True), (criterion,), "given", remedy)
    keys = [*group, response]
    if columns.batch and columns.batch in frame.columns and columns.batch not in keys:
        keys.append(columns.batch)  # the same response in two batches is two rollouts
    is_repeated = ~frame.select(*keys, criterion).to_struct("pair").is_first_distinct()
    if is_repeated.any():
        index = int(is_repeated.arg_true()[0])
        allowed = "the only score of its response and criterion"
        got = f"a second {frame[criterion][index]!r} of response {frame[response][index]!r}"
        raise BadTable(str(table.path), table.describe_row(index), allowed, got)
    numbers = read_numbers(table, (score,))
    numbers.check_scores(table, (score,), limits=None)

    score_columns = [criterion, score, SCORES, REASONS]
    if reason is not None:
        score_columns.append(reason)
    other_columns = frame.drop(score_columns, strict=False)
    if table.text_is_number:
        converted = [convert_csv_column(column) for column in other_columns.get_columns()]
        other_columns = pl.DataFrame(converted)
    criteria = frame[criterion].cast(pl.String).to_list()
    reasons = None if reason is None else frame[reason].to_list()
    rollouts: dict[Any, dict[str, Any]] = {}
    for i, key in enumerate(frame.select(keys).iter_rows()):
        rollout = rollouts.get(key)
        if rollout is None:
            rollout = {**other_columns.row(i, named=True), SCORES: {}}
            rollouts[key] = rollout
        value = float(numbers.values[i])
        rollout[SCORES][criteria[i]] = value if value == value else None  # NaN: not scored
        if reasons is not None:
            rollout.setdefault(REASONS, {})[criteria[i]] = reasons[i]
    return make_object_table(list(rollouts.values()), table.path, f"long {table.shape}", "rollout")
