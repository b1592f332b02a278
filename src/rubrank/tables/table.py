"""Read a table from any source into memory: CSV, TSV, JSON Lines, Parquet, Arrow, frames, datasets, rows.

    table = read_source("scores.csv")
    table.frame                        the columns of the file as a polars frame; the cells of a CSV are texts
    table.rows, table.unit             where each row is in the file, for messages: "row 17", "line 4"

This is the first of three steps: `rubrank.tables.long` then brings tables with one row per score into the form of one
row per rollout, and `rubrank.tables.layout` finds the columns and checks their cells.

Files with columns are read by polars. JSON, and everything else that has rows, is read as Python objects: a column of
polars has one type, and a text among numbers could not be told from a number any more.

A table is read whole. What does not fit into memory is a job for Ray (docs/scale.md).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from rubrank._files import read_text
from rubrank.errors import BadTable, InvalidInput
from rubrank.tables.columns import GROUP_NAMES, REASONS, SCORES, STEP_NAMES
from rubrank.tables.frames import read_columnar, read_csv
from rubrank.tables.inspect_logs import LogRow
from rubrank.tables.rows import parse_lines, read_rows
from rubrank.tables.sources import describe_source, find_files, format_of, is_dataset

ColumnPath: TypeAlias = tuple[str, ...]
"""Where cells are: ("Facts",) is a column, ("scores", "Facts") a field of one."""
ParsedLine: TypeAlias = tuple[int, str, Mapping[str, Any]]
"""The number of a line, its JSON text, and the object."""

MOST_CRITERION_COLUMNS = 256
"""With more distinct criteria (each query has its own) a column for each would be mostly empty."""


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
    """The JSON text of each object."""
    scores: Sequence[Mapping[str, Any]] | None = None
    """The scores of each row by criterion, if the objects have `scores`."""

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


@convert_to_bad_table()
def read_source(source: Any) -> Table:
    """Return any source as a table with the rows that it has, which may be one per rollout or one per score.

    Raises BadTable if it cannot be read.
    """
    shape = describe_source(source)
    if isinstance(source, pl.LazyFrame):
        source = source.collect()
    if isinstance(source, pl.DataFrame):
        return make_frame_table(source, Path(shape), shape)
    path = Path(source) if isinstance(source, str | Path) else Path(shape)
    file_format = ""
    files: list[Path] = []
    if isinstance(source, str | Path) and not is_dataset(source):
        files = find_files(source)
        file_format = format_of(files[0])
    if file_format in ("CSV", "TSV"):
        return _read_csv_files(files, path, shape)
    if file_format in ("Parquet", "Arrow"):
        # A column with different types gets the wider one.
        frames = [read_columnar(file) for file in files]
        return make_frame_table(pl.concat(frames, how="diagonal_relaxed"), path, shape)
    if file_format == "JSON Lines":
        texts = [read_text(file).split("\n") for file in files]
        return make_object_table(parse_lines(chain.from_iterable(texts), path), path, shape)
    parsed = []
    for number, row in enumerate(read_rows(source), start=1):
        if isinstance(row, LogRow) and shape == "JSON":
            shape = "Inspect log"
        named = {str(key): value for key, value in row.items()}
        line = json.dumps(named, default=_convert_to_json)
        parsed.append((number, line, json.loads(line)))
    return make_object_table(parsed, path, shape)


def _convert_to_json(value: Any) -> Any:
    """Return a value that JSON does not have (NumPy's numbers and arrays, sets, dates) as one that it has."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, set) else str(value)


def _read_csv_files(files: Sequence[Path], path: Path, shape: str) -> Table:
    """Return CSV or TSV files as one table, by the names of their columns. Rows are numbered through all files."""
    frames = []
    row_numbers = []
    next_row = 1
    for file in files:
        frame, rows = read_csv(file, next_row)
        frames.append(frame)
        row_numbers.append(rows)
        if len(rows):
            next_row = int(rows[-1]) + 1
    frame = pl.concat(frames, how="diagonal")
    return Table(path, shape, frame, pl.concat(row_numbers), "row", text_is_number=True)


def make_frame_table(frame: pl.DataFrame, path: Path, shape: str) -> Table:
    """Return a frame as a table."""
    rows = pl.Series(range(1, len(frame) + 1), dtype=pl.Int64)
    if "prompt" in frame.columns and frame.schema["prompt"].is_nested():
        frame = _add_groups_of_messages(frame, frame["prompt"].to_list())
    return Table(path, shape, frame, rows, "row")


def make_object_table(
    parsed: Iterable[ParsedLine], path: Path, shape: str, unit: str = "line"
) -> Table:
    """Return JSON objects as a table; they may have different keys, and a key that is absent is null."""
    numbers = []
    lines = []
    objects = []
    for number, line, row in parsed:
        numbers.append(number)
        lines.append(line)
        objects.append(row)
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
        texts.append(text and text.encode("utf-8", "backslashreplace").decode())
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
