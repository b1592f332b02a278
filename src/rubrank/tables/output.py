"""Write a table with added columns, as JSON Lines, CSV or Parquet.

    write_table(target, table, [(rows, frame), …])        each frame holds the new columns of some of the rows

A file appears only when it is complete. Lines of a JSON Lines file are copied unchanged, with the new keys at the
end; the cells of a CSV are copied as text.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
import polars as pl

from rubrank._files import atomic_write, data_suffix
from rubrank.errors import InvalidInput
from rubrank.tables.columns import SCORES
from rubrank.tables.table import MOST_CRITERION_COLUMNS, Table, convert_csv_column

OUTPUT_SUFFIXES = (".jsonl", ".ndjson", ".csv", ".parquet", ".jsonl.gz", ".ndjson.gz", ".csv.gz")
AddedColumns: TypeAlias = Sequence[tuple[np.ndarray, pl.DataFrame]]
"""Row numbers and the new columns of these rows; together they cover all rows."""
_BLOCK_BYTES = 1 << 20


def write_table(target: Path | IO[bytes], table: Table, added: AddedColumns) -> None:
    """Write the table with its new columns as CSV or Parquet if the suffix says so, else as JSON Lines.

    Raises InvalidInput if there are too many criteria for the columns of a CSV or Parquet file.
    """
    if not isinstance(target, Path):
        data = _format_json_lines(table, added)
        # In blocks: a single write to a pipe that is closed meanwhile returns early instead of raising an error.
        for start in range(0, len(data), _BLOCK_BYTES):
            target.write(data[start : start + _BLOCK_BYTES])
        return
    with atomic_write(target) as temporary:
        if target.suffix.lower() == ".parquet":
            _join_columns(table, added).write_parquet(temporary)
            return
        with temporary.open("wb") as raw:
            is_compressed = target.suffix.lower() == ".gz"
            # Without a file name and a time in the header, equal tables give equal files.
            file: Any = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if is_compressed else raw
            if data_suffix(target) == ".csv":
                frame = _join_columns(table, added, typed=False)
                nested = [column for column in frame.get_columns() if column.dtype.is_nested()]
                frame.with_columns(_encode_as_json(column) for column in nested).write_csv(file)
            else:
                file.write(_format_json_lines(table, added))
            if is_compressed:
                file.close()


def _format_json_lines(table: Table, added: AddedColumns) -> bytes:
    """Return the table as JSON Lines: the lines of the file with the new keys, or new lines for another format.

    {"id": "q1", "A": 1.0}     reward 0.5        {"id": "q1", "A": 1.0, "reward": 0.5}
    {"id": "q2", "A": 1.0}     reward null       {"id": "q2", "A": 1.0}
    """
    if table.objects is None:
        return _join_columns(table, added).write_ndjson().encode()
    lines = [line.rstrip() for line in table.lines]
    if not lines:
        lines = [json.dumps(row, default=str) for row in table.objects]
    for rows, columns in added:
        for row, values in zip(rows, columns.iter_rows(named=True), strict=True):
            present = {name: value for name, value in values.items() if value is not None}
            if present:
                without_end = lines[row].removesuffix("}").rstrip()
                without_start = json.dumps(present).removeprefix("{")
                lines[row] = f"{without_end}, {without_start}"
    return "".join(f"{line}\n" for line in lines).encode()


def _encode_as_json(column: pl.Series) -> pl.Series:
    """Return each cell of a column of lists or structs as JSON text; null stays null."""
    texts = []
    for cell in column.to_list():
        text = json.dumps(cell, ensure_ascii=False, separators=(",", ":"), default=str)
        texts.append(None if cell is None else text)
    return pl.Series(column.name, texts, dtype=pl.String)


def _join_columns(table: Table, added: AddedColumns, typed: bool = True) -> pl.DataFrame:
    """Return the columns of the table, then the new ones.

    typed: columns of a CSV become numbers or booleans if they can; in a CSV output they stay as they were written.
    """
    # A table of objects has no column `scores` if it has too many criteria for columns (see `make_object_table`).
    if table.objects and table.scores and SCORES not in table.frame.columns:
        count = len(set().union(*table.scores))
        remedy = "Write JSON lines, which hold only those of each row."
        allowed = f"at most {MOST_CRITERION_COLUMNS} for a table with columns"
        raise InvalidInput("fuse_file", "criteria", allowed, f"{count:,} of them", remedy)
    columns = table.frame.get_columns()
    if typed and table.text_is_number:
        columns = [convert_csv_column(column) for column in columns]
    # Groups may have different criteria, and then get different columns.
    new_columns = pl.concat([part for _, part in added], how="diagonal")
    rows = np.concatenate([rows for rows, _ in added])
    if (np.diff(rows) < 0).any():
        new_columns = new_columns[np.argsort(rows)]
    return pl.DataFrame([*columns, *new_columns.get_columns()])
