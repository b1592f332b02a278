"""Write a table with added columns, as JSON Lines, CSV or Parquet.

    write_table(target, "jsonl", table, [(rows, frame), …])        each frame holds the new columns of some of the rows

A file appears only when it is complete. Lines of a JSON Lines file are copied unchanged, with the new keys at the
end; the cells of a CSV are copied as text.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, TypeAlias, TypeVar

import numpy as np
import polars as pl

from rubrank._files import atomic_write, check_output_path, suffix_error
from rubrank.errors import BadTable, InvalidInput
from rubrank.tables.cells import convert_csv_column
from rubrank.tables.columns import SCORES
from rubrank.tables.table import MOST_CRITERION_COLUMNS, Table

OUTPUT_SUFFIXES = (".jsonl", ".ndjson", ".csv", ".parquet", ".jsonl.gz", ".ndjson.gz", ".csv.gz")
AddedColumns: TypeAlias = Sequence[tuple[np.ndarray, pl.DataFrame]]
"""Row numbers and the new columns of these rows; together they cover all rows."""
_BLOCK_BYTES = 1 << 20
_Rows = TypeVar("_Rows", pl.DataFrame, pl.Series)


def check_output(source: Any, output: Path, force: bool, owner: str) -> tuple[Path, str]:
    """Return the path to write to and its format: "jsonl", "csv" or "parquet".

    Raises if the path cannot be written, or if something would be overwritten. owner: the caller, for the message.
    """
    name = output.name.lower()
    target = check_output_path(output, OUTPUT_SUFFIXES, inputs=(source,), force=force, verb=owner)
    if not name.endswith(OUTPUT_SUFFIXES):  # a device such as /dev/stdout
        remedy = "JSON Lines files end in .jsonl." if name.endswith(".json") else ""
        raise suffix_error(
            target, OUTPUT_SUFFIXES, what="output", remedy=remedy, error_type=BadTable
        )
    suffix = Path(name.removesuffix(".gz")).suffix
    return target, {".csv": "csv", ".parquet": "parquet"}.get(suffix, "jsonl")


def check_added_names(table: Table, names: Sequence[str], output: str, owner: str) -> None:
    """Raise if the columns cannot be added: too many criteria for the output format, or a name that is taken.

    output: "jsonl", "csv" or "parquet".
    """
    if table.ragged_scores is not None and output != "jsonl":
        count = len(set().union(*table.ragged_scores))
        remedy = "Write JSON lines, which hold only those of each row."
        allowed = f"at most {MOST_CRITERION_COLUMNS} for a table with columns"
        raise InvalidInput(owner, "criteria", allowed, f"{count:,} of them", remedy)
    for name in names:
        if name in table.frame.columns:
            remedy = "Give the new columns other names: `prefix=new_`."
            raise InvalidInput(
                owner=owner,
                parameter="added columns",
                allowed="new to the table",
                got=f"{name!r} again",
                remedy=remedy,
            )


def write_table(target: Path | IO[bytes], output: str, table: Table, added: AddedColumns) -> None:
    """Write the table with its new columns. output: "jsonl", "csv" or "parquet"; an open file gets JSON Lines."""
    if not isinstance(target, Path):
        data = _format_json_lines(table, added)
        # In blocks: a single write to a pipe that is closed meanwhile returns early instead of raising an error.
        for start in range(0, len(data), _BLOCK_BYTES):
            target.write(data[start : start + _BLOCK_BYTES])
        return
    with atomic_write(target) as temporary:
        if output == "parquet":
            _join_columns(table, added).write_parquet(temporary)
            return
        with temporary.open("wb") as raw:
            is_compressed = target.suffix.lower() == ".gz"
            # Without a file name and a time in the header, equal tables give equal files.
            file: Any = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if is_compressed else raw
            if output == "csv":
                frame = _join_columns(table, added, typed=False)
                nested = [column for column in frame.get_columns() if column.dtype.is_nested()]
                frame.with_columns(_encode_as_json(column) for column in nested).write_csv(file)
            else:
                file.write(_format_json_lines(table, added))
            if is_compressed:
                file.close()


def _format_json_lines(table: Table, added: AddedColumns) -> bytes:
    """Return the table as JSON Lines: the lines of the file with the new keys, or new lines for another format."""
    if table.json_lines is None:
        frame = _join_columns(table, added)
        if table.ragged_scores is None:
            return frame.write_ndjson().encode()
        # A long table with too many criteria for columns: each line has the scores of its own row.
        ragged_lines = []
        for row, scores in zip(frame.iter_rows(named=True), table.ragged_scores, strict=True):
            values = {name: value for name, value in row.items() if value is not None}
            ragged_lines.append(json.dumps({**values, SCORES: scores}, default=str) + "\n")
        return "".join(ragged_lines).encode()
    lines = pl.Series(table.lines)
    if len({tuple(columns.columns) for _, columns in added}) == 1:
        # All rows get the same columns, and one frame for all of them is faster.
        added = [(np.arange(len(lines)), _sort_by_row(added))]
    extended_lines = []
    for rows, columns in added:
        # Each line up to its closing brace, then the keys that have a value, then the brace.
        heads = lines[rows].str.strip_chars_end().str.strip_suffix("}").str.strip_chars_end()
        keys = []
        for name in columns.columns:
            text = pl.format(",{}:{}", pl.lit(json.dumps(name)), name)
            keys.append(pl.when(pl.col(name).is_null()).then(pl.lit("")).otherwise(text))
        line = pl.concat_str(heads.alias("\0line"), *keys, pl.lit("}\n"))
        extended_lines.append((rows, columns.select(line).to_series()))
    return "".join(_sort_by_row(extended_lines).to_list()).encode()


def _encode_as_json(column: pl.Series) -> pl.Series:
    """Return each cell of a column of lists or structs as JSON text; null stays null."""
    # polars encodes only structs: put each cell into {"x":…} and cut that off again.
    objects = column.alias("x").to_frame().to_struct("x").struct.json_encode()
    texts = objects.str.slice(5).str.head(-1).to_frame("text")
    not_null = pl.when(column.is_not_null()).then("text")
    return texts.select(not_null).to_series().alias(column.name)


def _join_columns(table: Table, added: AddedColumns, typed: bool = True) -> pl.DataFrame:
    """Return the columns of the table, then the new ones.

    typed: columns of a CSV become numbers or booleans if they can; in a CSV output they stay as they were written.
    """
    columns = table.frame.get_columns()
    if typed and table.text_is_number:
        columns = [convert_csv_column(column) for column in columns]
    return pl.DataFrame([*columns, *_sort_by_row(added).get_columns()])


def _sort_by_row(parts: Sequence[tuple[np.ndarray, _Rows]]) -> _Rows:
    """Return parts that belong to some rows each as one frame or column, sorted by row."""
    rows = np.concatenate([rows for rows, _ in parts])
    values = parts[0][1]
    if len(parts) > 1:
        # Groups may have different criteria, and then get different columns.
        how: Any = "diagonal" if isinstance(values, pl.DataFrame) else "vertical"
        values = pl.concat([part for _, part in parts], how=how)
    if (np.diff(rows) > 0).all():
        return values
    return values[np.argsort(rows)]
