"""Read the rows of any source as dicts: files of every format, folders, patterns, frames, datasets, objects.

read_rows("rollouts.csv")     read_rows("completions/")     read_rows("-")     read_rows(frame)     read_rows(rows)
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from rubrank._files import explain_read_errors, open_text, read_text
from rubrank._plain import check_unique_keys, describe_type
from rubrank.errors import InvalidInput, import_optional
from rubrank.tables.inspect_logs import LogRow, is_log, read_json_log, read_zipped_log
from rubrank.tables.sources import HUB, find_files, format_of, is_dataset, is_table

Source: TypeAlias = Any
Row: TypeAlias = Mapping[str, Any]

LONGEST_CSV_FIELD = 1 << 30


def read_rows(source: Source) -> Iterator[Row]:
    """Yield the rows of a source, one mapping each; raises InvalidInput if it cannot be read."""
    if isinstance(source, str | Path):
        if is_dataset(source):
            yield from read_rows(_load_dataset(str(source)))
            return
        files = find_files(source)
        for path in files:
            for row in read_file_rows(path):
                if len(files) > 1 and isinstance(row, LogRow):
                    # The same sample in two Inspect logs was answered in two runs: these are two groups.
                    row = {**row, "group": f"{path.name.split('.')[0]}/{row['group']}"}
                yield row
    elif isinstance(source, Mapping):
        yield from _read_column_rows(source)
    else:
        yield from _read_object_rows(source)


def read_file_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of one file; its suffix tells the format."""
    file_format = format_of(path)
    if file_format == "Inspect log":
        yield from read_zipped_log(path)
    elif file_format == "JSON":
        yield from _read_json(path)
    elif file_format in ("CSV", "TSV"):
        yield from _read_csv(path)
    elif file_format == "JSON Lines":
        with open_text(path) as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    where = f"{path}: line {number}"
                    yield _check_object(_parse_json(line, where), where)
    else:
        # Imported here: files of the other formats can be read without it.
        import polars

        try:
            with explain_read_errors(path), path.open("rb") as file:
                # glob=False, and an open file: otherwise polars reads brackets in a file name as a pattern.
                if file_format == "Parquet":
                    frame = polars.read_parquet(path, glob=False)
                else:
                    frame = polars.read_ipc(file)
        except (polars.exceptions.PolarsError, OSError) as error:
            reason = str(error).splitlines()[0]
            raise InvalidInput(str(path), "the file", file_format, reason, "") from None
        yield from frame.iter_rows(named=True)


def check_csv_header(
    path: Path, names: Iterable[str], error_type: type[InvalidInput] = InvalidInput
) -> None:
    """Raise if two columns of a CSV have the same name, or one has none."""
    earlier_names: set[str] = set()
    for name in names:
        if not name.strip() or name in earlier_names:
            got = f"{name!r} twice" if name in earlier_names else "an empty one"
            raise error_type(str(path), "the header", "different names", got, "")
        earlier_names.add(name)


def check_quotes(
    data: bytes, separator: str, path: Path, error_type: type[InvalidInput] = InvalidInput
) -> None:
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
        remedy = "Close its quotes, or double them."
        raise error_type(
            owner=str(path),
            parameter=f"line {line}",
            allowed="without a quote that swallows other rows",
            got=got,
            remedy=remedy,
        )


# ------------------------------------------------------------------------------------------------------------- objects


def _read_object_rows(source: Any) -> Iterator[Row]:
    """Yield the rows of a frame, which is recognised by its methods, or of any iterable of mappings."""
    if hasattr(source, "collect_schema") and hasattr(source, "collect"):  # a lazy polars frame
        source = source.collect()
    if hasattr(source, "iter_rows"):  # polars
        yield from source.iter_rows(named=True)
    elif hasattr(source, "to_pylist") and hasattr(source, "column_names"):  # Arrow
        yield from source.to_pylist()
    elif hasattr(source, "to_dict") and hasattr(source, "columns"):  # pandas
        for row in source.to_dict("records"):
            for name, value in row.items():
                # NaN, NA and NaT: what pandas writes for an empty cell.
                is_nan = isinstance(value, float) and value != value
                if is_nan or type(value).__name__ in ("NAType", "NaTType"):
                    row[name] = None
            yield row
    elif isinstance(source, bytes) or not isinstance(source, Iterable):
        allowed = "a path, a table, or rows"
        remedy = "See `rubrank help data`."
        raise InvalidInput("rollouts", "source", allowed, type(source).__name__, remedy)
    else:
        for number, row in enumerate(source, start=1):
            yield _check_object(row, f"rollouts: row {number}")


def _read_column_rows(source: Mapping[Any, Any]) -> Iterator[Row]:
    """Yield the rows of a mapping from names to columns."""
    if not source:
        raise InvalidInput("rollouts", "source", "at least one column", "an empty mapping", "")
    if any(is_table(value) for value in source.values()):
        # A `DatasetDict` holds several tables, and only the caller knows which one is meant.
        names = ", ".join(map(str, source))
        raise InvalidInput(
            owner="rollouts",
            parameter="source",
            allowed="one table",
            got=f"several ({names})",
            remedy="Choose a split.",
        )
    for name, cells in source.items():
        if not isinstance(cells, list | tuple):
            remedy = "Write a single row as lists of one."
            got = describe_type(cells)
            raise InvalidInput("rollouts", f"column {str(name)!r}", "a list of cells", got, remedy)
    lengths = {str(name): len(cells) for name, cells in source.items()}
    if len(set(lengths.values())) > 1:
        got = ", ".join(f"{name!r} with {length}" for name, length in lengths.items())
        raise InvalidInput("rollouts", "source", "columns of one length", got, "")
    columns = [str(name) for name in source]
    for cells in zip(*source.values(), strict=True):
        yield dict(zip(columns, cells, strict=True))


def _load_dataset(source: str) -> Any:
    """Return a dataset of the Hugging Face hub, "hf:owner/name:split", or a folder that save_to_disk wrote."""
    if not source.startswith(HUB):
        return import_optional("datasets", "rollouts").load_from_disk(source)
    name, _, split = source.removeprefix(HUB).partition(":")
    try:
        return import_optional("datasets", "rollouts").load_dataset(name, split=split or None)
    except InvalidInput:
        raise
    except Exception as error:  # the hub raises errors of many kinds
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidInput(
            owner=f"hf:{name}",
            parameter="the source",
            allowed="a dataset that can be read",
            got=reason,
            remedy="",
        ) from None


# --------------------------------------------------------------------------------------------------------------- files


def _read_json(path: Path) -> Iterator[Row]:
    """Yield the rows of a JSON file: a list of objects, one object, an Inspect log, or an export of promptfoo."""
    data = _parse_json(read_text(path), str(path))
    if is_log(data):
        yield from read_json_log(data, str(path))
        return
    rows = data if isinstance(data, list) else [data]
    summary = data.get("results") if isinstance(data, Mapping) else None
    if isinstance(summary, Mapping) and isinstance(summary.get("results"), list):
        rows = summary["results"]  # what `promptfoo eval --output results.json` writes
    for number, row in enumerate(rows, start=1):
        yield _check_object(row, f"{path}: row {number}")


def _parse_json(text: str, where: str) -> Any:
    """Return the parsed text; raises InvalidInput if it is not JSON, or has a key twice."""
    try:
        return json.loads(text, object_pairs_hook=check_unique_keys)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(where, "text", "JSON", str(error), "") from None


def _check_object(row: Any, where: str) -> Row:
    """Return the row unchanged; raises InvalidInput unless it is a mapping."""
    if not isinstance(row, Mapping):
        raise InvalidInput(
            owner=where,
            parameter="row",
            allowed="an object {…}",
            got=describe_type(row),
            remedy="Write one object per row.",
        )
    return row


def _read_csv(path: Path) -> Iterator[Row]:
    """Yield the rows of a CSV or TSV file; every cell is a text."""
    csv.field_size_limit(LONGEST_CSV_FIELD)
    delimiter = "\t" if format_of(path) == "TSV" else ","
    text = read_text(path)
    if '"' in text:
        check_quotes(text.encode("utf-8", "surrogatepass"), delimiter, path)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        check_csv_header(path, reader.fieldnames or ())
        for number, row in enumerate(reader, start=1):
            if None in row or None in row.values():
                allowed = "as many as the header has"
                raise InvalidInput(
                    owner=f"{path}: row {number}",
                    parameter="cells",
                    allowed=allowed,
                    got="more or fewer",
                    remedy="Check its quotes.",
                )
            yield row
    except csv.Error as error:
        raise InvalidInput(str(path), "the file", "CSV", str(error), "Check its quotes.") from None
