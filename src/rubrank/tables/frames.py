"""Read one file of columns as a polars frame: CSV and TSV, whose cells are texts, Parquet and Arrow.

frame, row_numbers = read_csv(Path("scores.csv"))
frame = read_columnar(Path("scores.parquet"))
"""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from rubrank._files import encoding_error, explain_read_errors, open_bytes, require_file
from rubrank.errors import BadTable
from rubrank.tables.sources import format_of

_LONGEST_CSV_FIELD = 1 << 30
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NOT_LINE_END = re.compile(rb"[^\r\n]")


def read_columnar(path: Path) -> pl.DataFrame:
    """Return a Parquet or Arrow file as a frame."""
    file_format = format_of(path)
    try:
        if file_format == "Arrow":
            return pl.read_ipc(io.BytesIO(require_file(path).read_bytes()))
        # Without glob=False brackets in a file name would be a pattern.
        return pl.read_parquet(path, glob=False)
    except (PolarsError, OSError) as error:
        reason = str(error).splitlines()[0]
        remedy = "Copy it again."
        raise BadTable(str(path), "the table", f"a {file_format} file", reason, remedy) from None


def read_csv(path: Path, first_row: int = 1) -> tuple[pl.DataFrame, pl.Series]:
    """Return the cells of a CSV or TSV file as texts, an empty one as null, and the number of each row.

    Blank lines are counted and left out. first_row: the number of its first row.
    Raises BadTable for a wrong header, quotes, encoding or count of cells.
    """
    separator = "\t" if format_of(path) == "TSV" else ","
    with explain_read_errors(path, BadTable), open_bytes(require_file(path)) as raw:
        data = raw.read().removeprefix(_BYTE_ORDER_MARK)
    if not data:
        raise BadTable(str(path), "the table", "at least one row", "an empty file")
    if b'"' in data:
        _check_quotes(data, separator, path)
    header_end = data.find(b"\n") + 1
    # An odd number of quotes: this line break is within a quoted name.
    while header_end and data.count(b'"', 0, header_end) % 2:
        header_end = data.find(b"\n", header_end) + 1
    header_end = header_end or len(data)
    names = _read_header(data[:header_end], separator, path)
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
        remedy = "Check its quotes."
        raise BadTable(str(path), "the table", "CSV in UTF-8", reason, remedy) from None
    if frame[names[-1]].null_count():  # polars pads a row that has too few cells
        _check_cell_counts(data[start:], separator, len(names), path, first_row)
    rows = pl.Series(range(first_row, first_row + len(frame)), dtype=pl.Int64)
    is_blank = frame.select(pl.all_horizontal(pl.all().is_null())).to_series()
    if is_blank.any():
        return frame.filter(~is_blank), rows.filter(~is_blank)
    return frame, rows


def _read_header(header: bytes, separator: str, path: Path) -> list[str]:
    """Return the names of the columns, which must be different."""
    try:
        names = next(csv.reader(io.StringIO(header.decode()), delimiter=separator), [])
    except UnicodeDecodeError:
        raise encoding_error(path, "the header", BadTable) from None
    except csv.Error:
        remedy = "Save it with other line ends."
        raise BadTable(str(path), "the lines", "ended by LF or CR LF", "CR alone", remedy) from None
    for k, name in enumerate(names):
        if not name.strip() or name in names[:k]:
            got = f"{name!r} twice" if name.strip() else "an empty one"
            raise BadTable(str(path), "the header", "different names", got)
    return names


def _check_cell_counts(
    records: bytes, separator: str, expected: int, path: Path, first_row: int
) -> None:
    """Raise BadTable at the first row that is not UTF-8, or that has more or fewer cells than the header."""
    try:
        text = records.decode()
    except UnicodeDecodeError as error:
        row = first_row + records.count(b"\n", 0, error.start)
        raise encoding_error(path, f"row {row}", BadTable) from None
    csv.field_size_limit(_LONGEST_CSV_FIELD)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    for row, cells in enumerate(reader, first_row):
        if cells and len(cells) != expected:
            allowed = f"of {expected} cells, as the header"
            remedy = "Quote cells that contain a comma, and leave a cell without a value empty."
            raise BadTable(str(path), f"row {row}", allowed, str(len(cells)), remedy)


def _check_quotes(data: bytes, separator: str, path: Path) -> None:
    """Raise for a quote that is never closed, or that opens within a cell and swallows the following rows."""
    characters = np.frombuffer(data, np.uint8)
    # The quotes of a CSV pair up: the first opens, the second closes, the third opens … A doubled quote inside a cell
    # ("say ""hi""") closes the cell and opens it again at once, so that every pair still is an opening and a closing.
    quotes = np.flatnonzero(characters == ord('"'))
    opening_positions = quotes[0::2]
    closing_positions = quotes[1::2]
    characters_before = characters[np.maximum(opening_positions - 1, 0)]
    cell_starters = np.frombuffer(f'\r\n"{separator}'.encode(), np.uint8)
    starts_cell = (opening_positions == 0) | np.isin(characters_before, cell_starters)
    line_ends = np.flatnonzero(characters == ord("\n"))
    if len(opening_positions) > len(closing_positions):
        wrong_positions = opening_positions[-1:]  # never closed
    else:
        opening_lines = np.searchsorted(line_ends, opening_positions)
        closing_lines = np.searchsorted(line_ends, closing_positions)
        wrong_positions = opening_positions[~starts_cell & (opening_lines != closing_lines)]
    if len(wrong_positions):
        # A stray quote shifts the pairs of all that follow, so the first quote within a cell is the likeliest cause.
        within_cell = opening_positions[~starts_cell]
        position = within_cell[0] if len(within_cell) else wrong_positions[0]
        line = int(np.searchsorted(line_ends, position)) + 1
        got = repr(data[position : position + 40].decode(errors="replace"))
        allowed = "without a quote that swallows other rows"
        remedy = "Close its quotes, or double them."
        raise BadTable(str(path), f"line {line}", allowed, got, remedy)
