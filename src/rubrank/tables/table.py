"""Read a table from any source into memory: CSV, TSV, JSON Lines, Parquet, Arrow, frames, datasets, rows.

    table = read_source("scores.csv")
    table.frame                        the columns of the file as a polars frame; the cells of a CSV are texts
    table.rows, table.unit             where each row is in the file, for messages: "row 17", "line 4"

This is the first of three steps: `rubrank.tables.long` then brings tables with one row per score into the form of one
row per rollout, and `rubrank.tables.layout` finds the columns and checks their cells.

A table is read whole. What does not fit into memory is a job for Ray (docs/scale.md).
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from rubrank._files import encoding_error, explain_read_errors, open_bytes
from rubrank._plain import RepeatedKey, check_unique_keys
from rubrank.errors import BadTable, InvalidInput
from rubrank.tables.columns import ATTRIBUTES, GROUP_NAMES, REASONS, SCORES, STEP_NAMES
from rubrank.tables.inspect_logs import LogRow
from rubrank.tables.rows import LONGEST_CSV_FIELD, check_csv_header, check_quotes, read_rows
from rubrank.tables.sources import describe_source, find_files, format_of, is_dataset

ColumnPath: TypeAlias = tuple[str, ...]
"""Where cells are: ("Facts",) is a column, ("scores", "Facts") a field of one."""

MOST_CRITERION_COLUMNS = 256
"""With more distinct criteria (each query has its own) a column for each would be mostly empty."""
# About so many lines are looked at to guess whether there are too many criteria.
_SAMPLED_LINES = 512
# A program that writes a key twice does so from the start; checking more lines takes seconds.
_CHECKED_LINES = 20_000
_LARGEST_DOUBLE = 2**1023  # integers from here on may exceed the range of doubles
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NOT_LINE_END = re.compile(rb"[^\r\n]")


@dataclass(frozen=True, eq=False)
class Table:
    """Rows with named columns, and where they came from."""

    path: Path
    """The file, or the name of another source in messages."""
    shape: str
    """The format in words, such as "long CSV"."""
    frame: pl.DataFrame
    rows: pl.Series
    """The number of each row in error messages."""
    unit: str
    """What that number counts: a "line" of the file, a "row" without the header, or a "rollout" of a long table."""
    text_is_number: bool = False
    """Is a text such as "0.5" a number, as in a CSV?"""
    json_lines: bytes | None = None
    """The bytes of the file, if it is JSON Lines."""
    ragged_scores: Sequence[Mapping[str, Any]] | None = None
    """For each row its scores by criterion, if there are too many different criteria for columns."""

    @cached_property
    def lines(self) -> list[str]:
        """The JSON text of each row, without blank lines; only for a table of JSON Lines."""
        assert self.json_lines is not None
        return [line for line in split_lines(self.json_lines, self.path) if line.strip()]

    def get_cells(self, path: ColumnPath) -> pl.Series:
        """Return a column, or a field of one."""
        column = self.frame.get_column(path[0])
        return column if len(path) == 1 else column.struct.field(path[1])

    def parse_json_cells(self, indices: Sequence[int], path: ColumnPath) -> list[Any]:
        """Return the cells of some rows as the JSON Lines have them: polars converts a whole column to one type."""
        values: list[Any] = []
        for index in indices:
            value = json.loads(self.lines[index])
            for key in path:
                value = value.get(key) if isinstance(value, dict) else None
            values.append(value)
        return values

    def make_cell_error(self, index: int, path: ColumnPath, allowed: str, remedy: str) -> BadTable:
        """Return the error about one cell; it names the row and the column."""
        where = f"{self.unit} {self.rows[index]}, column {'.'.join(path)!r}"
        cell = None
        if path[0] in self.frame.columns:
            cell = self.get_cells(path)[index]
        return BadTable(str(self.path), where, allowed, show_cell(cell), remedy)


@contextmanager
def convert_to_bad_table() -> Iterator[None]:
    """Turn every `InvalidInput` into a `BadTable` with the same message."""
    try:
        yield
    except BadTable:
        raise
    except InvalidInput as error:
        raise BadTable(
            owner=error.owner,
            parameter=error.parameter,
            allowed=error.allowed,
            got=error.got,
            remedy=error.remedy,
        ) from None


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
        return _make_table_of_frame(source, Path(shape), shape)
    if not isinstance(source, str | Path):
        return _make_table_of_rows(source, Path(shape), shape)
    path = Path(source)
    if is_dataset(source):
        return _make_table_of_rows(source, path, shape)
    files = find_files(source)
    file_format = format_of(files[0])
    if file_format in ("CSV", "TSV"):
        return _read_csv_files(files, path, shape)
    if file_format == "JSON Lines":
        return read_json_lines(read_bytes(files), path, shape)
    if file_format in ("Parquet", "Arrow"):
        return _make_table_of_frame(read_columnar_files(files, path), path, shape)
    return _make_table_of_rows(source, path, shape)


def read_bytes(files: Sequence[Path]) -> bytes:
    """Return the bytes of some files of lines, decompressed, one after another; raises BadTable if there are none."""
    parts = []
    for file in files:
        with explain_read_errors(file, BadTable), open_bytes(file) as raw:
            data = raw.read()
        if not data and len(files) == 1:
            raise BadTable(str(file), "the table", "at least one row", "an empty file", "")
        parts.append(data.removeprefix(_BYTE_ORDER_MARK))
    return parts[0] if len(parts) == 1 else b"\n".join(parts)


def _make_table_of_frame(frame: pl.DataFrame, path: Path, shape: str) -> Table:
    """Return a frame as a table."""
    rows = pl.Series(range(1, len(frame) + 1), dtype=pl.Int64)
    return Table(path, shape, _add_groups_of_messages(frame), rows, "row")


def _make_table_of_rows(source: Any, path: Path, shape: str) -> Table:
    """Return rows of any kind as a table: they are written as JSON Lines and read as such."""
    lines = []
    for row in read_rows(source):
        if isinstance(row, LogRow) and shape == "JSON":
            shape = "Inspect log"
        named = {str(key): value for key, value in row.items()}
        lines.append(json.dumps(named, default=_convert_to_json).encode())
    return read_json_lines(b"\n".join(lines), path, shape)


def _convert_to_json(value: Any) -> Any:
    """Return a value that JSON does not have (NumPy's numbers and arrays, sets, dates) as one that it has."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, set) else str(value)


def _add_groups_of_messages(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame with a column `group` that numbers the prompts, if it needs one.

    A prompt of text can name the group itself. A list of chat messages cannot, so equal lists get the same number.
    """
    if set(GROUP_NAMES) & set(frame.columns) or "prompt" not in frame.columns:
        return frame
    if not frame.schema["prompt"].is_nested():
        return frame
    # The same prompt in two training steps is two groups.
    step = next((name for name in STEP_NAMES if name in frame.columns), None)
    key_columns = ["prompt"] if step is None else [step, "prompt"]
    keys = frame.select(key_columns).to_struct("key").struct.json_encode()
    number_of: dict[str, int] = {}
    labels = [str(number_of.setdefault(key, len(number_of))) for key in keys]
    return frame.select(pl.Series("group", labels), pl.all())


# ------------------------------------------------------------------------------------------------------ Parquet, Arrow


def read_columnar_files(files: Sequence[Path], path: Path) -> pl.DataFrame:
    """Return Parquet or Arrow files as one frame; a column with different types gets the wider one."""
    try:
        if format_of(files[0]) == "Arrow":
            frames = [pl.read_ipc(io.BytesIO(file.read_bytes())).lazy() for file in files]
        else:
            # Without glob=False brackets in a file name would be a pattern.
            frames = [pl.scan_parquet(file, glob=False) for file in files]
        lazy = frames[0] if len(frames) == 1 else pl.concat(frames, how="diagonal_relaxed")
        return lazy.collect()
    except (PolarsError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise BadTable(
            owner=str(path),
            parameter="the table",
            allowed=f"a {format_of(files[0])} file",
            got=reason,
            remedy="Copy it again.",
        ) from None


# ----------------------------------------------------------------------------------------------------------- CSV, TSV


def _read_csv_files(files: Sequence[Path], path: Path, shape: str) -> Table:
    """Return CSV or TSV files as one table of texts, by the names of their columns; an empty cell is null.

    Rows are numbered through all files.
    """
    frames = []
    row_numbers = []
    next_row = 1
    for file in files:
        frame, rows = _read_csv(file, next_row)
        frames.append(frame)
        row_numbers.append(rows)
        if len(rows):
            next_row = int(rows[-1]) + 1
    frame = frames[0] if len(frames) == 1 else pl.concat(frames, how="diagonal")
    return Table(path, shape, frame, pl.concat(row_numbers), "row", text_is_number=True)


def _read_csv(path: Path, first_row: int) -> tuple[pl.DataFrame, pl.Series]:
    """Return the cells of one file as texts, and the number of each row; blank lines are counted and left out.

    first_row: the number of its first row. Raises BadTable for a wrong header, quotes, encoding or count of cells.
    """
    separator = "\t" if format_of(path) == "TSV" else ","
    data = read_bytes([path])
    if b'"' in data:
        check_quotes(data, separator, path, BadTable)
    header_end = data.find(b"\n") + 1
    # An odd number of quotes: this line break is within a quoted name.
    while header_end and data.count(b'"', 0, header_end) % 2:
        header_end = data.find(b"\n", header_end) + 1
    header_end = header_end or len(data)
    try:
        header = data[:header_end].decode()
    except UnicodeDecodeError:
        raise encoding_error(path, "the header", BadTable) from None
    try:
        names = next(csv.reader(io.StringIO(header), delimiter=separator), [])
    except csv.Error:
        remedy = "Save it with other line ends."
        raise BadTable(str(path), "the lines", "ended by LF or CR LF", "CR alone", remedy) from None
    check_csv_header(path, names, BadTable)
    schema = dict.fromkeys(names, pl.String)
    # Blank lines after the header are skipped here: polars would count the columns of the first line.
    first_record = _NOT_LINE_END.search(data, header_end)
    if first_record is None:
        return pl.DataFrame(schema=schema), pl.Series([], dtype=pl.Int64)
    start = first_record.start()
    first_row += data.count(b"\n", header_end, start)
    try:
        frame = pl.read_csv(
            data,
            has_header=False,
            skip_lines=data.count(b"\n", 0, start),
            schema=schema,
            infer_schema=False,
            separator=separator,
        )
    except PolarsError as error:
        _check_cell_counts(data[start:], separator, len(names), path, first_row)
        reason = str(error).splitlines()[0]
        raise BadTable(
            owner=str(path),
            parameter="the table",
            allowed="CSV in UTF-8",
            got=reason,
            remedy="Check its quotes.",
        ) from None
    if frame[names[-1]].null_count():  # polars pads a row that has too few cells
        _check_cell_counts(data[start:], separator, len(names), path, first_row)
    rows = pl.Series(range(first_row, first_row + len(frame)), dtype=pl.Int64)
    is_blank = frame.select(pl.all_horizontal(pl.all().is_null())).to_series()
    if is_blank.any():
        return frame.filter(~is_blank), rows.filter(~is_blank)
    return frame, rows


def _check_cell_counts(
    records: bytes, separator: str, expected: int, path: Path, first_row: int
) -> None:
    """Raise BadTable at the first row that is not UTF-8, or that has more or fewer cells than the header."""
    try:
        text = records.decode()
    except UnicodeDecodeError as error:
        row = first_row + records.count(b"\n", 0, error.start)
        raise encoding_error(path, f"row {row}", BadTable) from None
    csv.field_size_limit(LONGEST_CSV_FIELD)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    for row, cells in enumerate(reader, first_row):
        if cells and len(cells) != expected:
            allowed = f"of {expected} cells, as the header"
            remedy = "Quote cells that contain a comma, and leave a cell without a score empty."
            raise BadTable(str(path), f"row {row}", allowed, str(len(cells)), remedy)


# ---------------------------------------------------------------------------------------------------------- JSON Lines


def split_lines(data: bytes, path: Path) -> list[str]:
    """Return all lines, blank ones too; raises BadTable if they are not UTF-8."""
    try:
        return data.decode().split("\n")
    except UnicodeDecodeError as error:
        line = 1 + data.count(b"\n", 0, error.start)
        raise encoding_error(path, f"line {line}", BadTable) from None


def read_json_lines(data: bytes, path: Path, shape: str, first_line: int = 1) -> Table:
    """Return one JSON object a line as a table; lines may have different keys, and a key that is absent is null.

    polars parses the lines, which is fast. Two kinds of files are parsed line by line instead: those that polars
    refuses, and those with so many criteria that a column for each would be mostly empty (`Table.ragged_scores`).

    first_line: the number of the first line, if lines before it were removed.
    Raises BadTable, which names the line, if one is not a JSON object.
    """
    if not data.strip():
        no_rows = pl.Series([], dtype=pl.Int64)
        return Table(path, shape, pl.DataFrame(), no_rows, "line", json_lines=b"")
    _check_repeated_keys(data, path, first_line)
    ragged_scores = None
    try:
        is_ragged = _has_many_criteria(data)
        if not is_ragged:
            frame = pl.read_ndjson(data, infer_schema_length=None)
            scores = frame.schema.get(SCORES)
            is_ragged = (
                isinstance(scores, pl.Struct) and len(scores.fields) > MOST_CRITERION_COLUMNS
            )
        if is_ragged:
            frame, ragged_scores = _parse_lines(data, path, first_line, separate_scores=True)
    except PolarsError:
        frame, ragged_scores = _parse_lines(data, path, first_line)
    count = data.count(b"\n") + (not data.endswith(b"\n"))
    line_numbers: Sequence[int] = range(first_line, first_line + count)
    if len(frame) != count:  # polars skips blank lines
        lines = split_lines(data, path)
        line_numbers = [i for i, line in enumerate(lines, first_line) if line.strip()]
    return Table(
        path,
        shape,
        _add_groups_of_messages(frame),
        pl.Series(line_numbers, dtype=pl.Int64),
        "line",
        json_lines=data,
        ragged_scores=ragged_scores,
    )


def _check_repeated_keys(data: bytes, path: Path, first_line: int) -> None:
    """Raise BadTable if an object has a key twice: polars would keep the first value, Python the last."""
    for number, line in enumerate(data.split(b"\n", _CHECKED_LINES)[:_CHECKED_LINES], first_line):
        try:
            if line.strip():
                json.loads(line, object_pairs_hook=check_unique_keys)
        except RepeatedKey as error:
            remedy = "Remove one of them."
            raise BadTable(
                owner=str(path),
                parameter=f"line {number}",
                allowed="an object with different keys",
                got=str(error),
                remedy=remedy,
            ) from None
        except (ValueError, RecursionError):
            return  # not JSON: the parser reports it


def _has_many_criteria(data: bytes) -> bool:
    """Return whether the lines name more criteria than fit in columns: a guess from lines at equal distances."""
    distance = max(1, len(data) // _SAMPLED_LINES)
    names: set[str] = set()
    line_end = 0
    for position in range(0, len(data), distance):
        if position < line_end:
            continue  # still in the line that was read last
        line_start = data.rfind(b"\n", 0, position) + 1
        line_end = data.find(b"\n", position)
        if line_end < 0:  # the last line
            line_end = len(data)
        try:
            names.update(json.loads(data[line_start:line_end])[SCORES])
        except (ValueError, TypeError, KeyError, RecursionError):
            continue  # without scores, or broken: the parser reports it
    return len(names) > MOST_CRITERION_COLUMNS


def _parse_lines(
    data: bytes, path: Path, first_line: int, separate_scores: bool = False
) -> tuple[pl.DataFrame, list[dict[str, Any]] | None]:
    """Parse line by line what polars refuses: reads NaN, gives every key one type, and reports a broken line.

    separate_scores: keep the scores out of the frame, and return them as the second value, by row. They stay in the
        frame, and the second value is None, if there are few enough criteria for columns.
    Raises BadTable, which names the line, if one is not a JSON object.
    """
    objects = []
    for number, line in enumerate(split_lines(data, path), first_line):
        if line.strip():
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                remedy = "Repair the line, or remove it if the file was cut off there."
                raise BadTable(
                    owner=str(path),
                    parameter=f"line {number}",
                    allowed="one JSON object",
                    got=str(error),
                    remedy=remedy,
                ) from None
            if not isinstance(value, dict):
                got = f"{line[:40]!r}"
                remedy = 'Write {"group": …, "scores": {…}}.'
                raise BadTable(str(path), f"line {number}", "one JSON object", got, remedy)
            objects.append(value)
    ragged_scores = None
    if separate_scores:
        ragged_scores = []
        for row in objects:
            scores = row.pop(SCORES, None)
            ragged_scores.append(scores if isinstance(scores, dict) else {})
            row.pop(REASONS, None)  # has as many keys as the scores; still in `Table.lines`
        if len(set().union(*ragged_scores)) <= MOST_CRITERION_COLUMNS:  # few enough after all
            return _parse_lines(data, path, first_line)
    text = "\n".join(json.dumps(row) for row in _unify_types(objects))
    try:
        return pl.read_ndjson(text.encode(), infer_schema_length=None), ragged_scores
    except PolarsError as error:
        reason = str(error).splitlines()[0]
        raise BadTable(str(path), "the lines", "of one type for each key", reason, "") from None


def _unify_types(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the objects with one type for each key: booleans beside numbers become numbers, other mixtures text.

    Each object gets all keys; those that it did not have are null.
    """
    columns: dict[str, list[Any]] = {key: [] for row in objects for key in row}
    for key, values in columns.items():
        values.extend(_replace_special_numbers(row.get(key)) for row in objects)
        types = {type(value) for value in values} - {type(None)}
        if types == {dict} and key in (SCORES, ATTRIBUTES):
            inner = iter(_unify_types([value for value in values if value is not None]))
            values[:] = [None if value is None else next(inner) for value in values]
        elif types <= {bool, int, float} and types != {bool}:
            for i, value in enumerate(values):
                if value is not None:
                    # Beyond 64-bit integers only a float is left.
                    is_float = float in types or abs(value) >= 2**63
                    values[i] = float(value) if is_float else int(value)
        elif len(types) > 1:
            values[:] = [
                value if value is None or isinstance(value, str) else json.dumps(value)
                for value in values
            ]
    if not columns:
        return objects
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def _replace_special_numbers(value: Any) -> Any:
    """Return NaN as null, and infinity and integers beyond doubles as texts, which are refused as scores later."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if isinstance(value, int) and abs(value) >= _LARGEST_DOUBLE:
        return str(value)
    if isinstance(value, dict):
        return {key: _replace_special_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_replace_special_numbers(inner) for inner in value]
    return value
