"""Rows of a source, one dict each, whatever it is: files of every format, folders, patterns, frames, datasets, objects.

read_rows("rollouts.csv")     read_rows("completions/")     read_rows("-")     read_rows(frame)     read_rows(rows)
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from rubrank._files import in_our_words_of, open_text, read_text
from rubrank._plain import kind_in_words
from rubrank.errors import InvalidInput, optional_package
from rubrank.rollouts.inspect_logs import LogRow, is_log, log_rows, zipped_log_rows
from rubrank.rollouts.sources import STDIN, files_of, is_saved_dataset, kind_of

Source: TypeAlias = Any
Row: TypeAlias = Mapping[str, Any]

_HUB = "hf:"


def read_rows(source: Source) -> Iterator[Row]:
    """The rows of a source, one dict each."""
    if isinstance(source, str | Path):
        yield from _named_rows(source)
    elif isinstance(source, Mapping):
        yield from _column_rows(source)
    elif (rows := _object_rows(source)) is not None:
        yield from rows
    else:
        raise InvalidInput("rollouts", "source", "a path, a table, or rows", type(source).__name__, "See docs/data.md.")


def format_of_source(source: Source) -> str:
    """In words, for a summary: "CSV", "Parquet", "2 Inspect logs", "pandas frame"."""
    if not isinstance(source, str | Path):
        module = type(source).__module__.partition(".")[0]
        return f"{module} table" if is_table(source) else "rows"
    if str(source).startswith(_HUB) or is_saved_dataset(Path(source)):
        return "dataset"
    if str(source) == STDIN:
        return "standard input"
    files = files_of(source)
    return kind_of(files[0]) if len(files) == 1 else f"{len(files)} {kind_of(files[0])} files"


def is_table(source: Any) -> bool:
    """A frame, an Arrow table or a dataset, rather than a list?"""
    return any(
        hasattr(source, name) for name in ("iter_rows", "collect_schema", "column_names", "columns", "to_pylist")
    )


def _object_rows(source: Any) -> Iterable[Row] | None:
    if hasattr(source, "collect_schema") and hasattr(source, "collect"):  # polars, lazy
        source = source.collect()
    if hasattr(source, "iter_rows"):  # polars
        return source.iter_rows(named=True)
    if hasattr(source, "to_pylist") and hasattr(source, "column_names"):  # Arrow
        return source.to_pylist()
    if hasattr(source, "to_dict") and hasattr(source, "columns"):  # pandas writes what is not there as NaN
        return ({k: None if _is_nothing(v) else v for k, v in row.items()} for row in source.to_dict("records"))
    if isinstance(source, str | bytes) or not isinstance(source, Iterable):
        return None
    return (_object(row, f"rollouts: row {number}") for number, row in enumerate(source, start=1))


def _is_nothing(value: Any) -> bool:
    return (isinstance(value, float) and value != value) or type(value).__name__ in ("NAType", "NaTType")


def _column_rows(source: Mapping[Any, Any]) -> Iterator[Row]:
    """Columns by name; a `DatasetDict` holds several tables, and which one is meant only the caller knows."""
    if not source or any(is_table(value) for value in source.values()):
        names = ", ".join(map(str, source)) or "nothing"
        raise InvalidInput("rollouts", "source", "one table", f"several ({names})", "Choose a split.")
    lengths = {len(value) if isinstance(value, list | tuple) else -1 for value in source.values()}
    if len(lengths) > 1 or -1 in lengths:
        raise InvalidInput("rollouts", "source", "columns of one length", "others", "A single row is a list of one.")
    for cells in zip(*source.values(), strict=True):
        yield dict(zip(map(str, source), cells, strict=True))


def _named_rows(source: str | Path) -> Iterator[Row]:
    if isinstance(source, str) and source.startswith(_HUB):
        yield from _hub_rows(source.removeprefix(_HUB))
    elif str(source) != STDIN and is_saved_dataset(Path(source)):
        yield from _saved_dataset(Path(source))
    else:
        files = files_of(source)
        for path in files:
            rows = file_rows(path)
            yield from rows if len(files) == 1 else _told_apart(rows, path)


def _told_apart(rows: Iterator[Row], path: Path) -> Iterator[Row]:
    """The same sample in two logs of Inspect was answered in two runs: two groups."""
    for row in rows:
        own = isinstance(row, LogRow)
        yield {**row, "group": f"{path.name.split('.')[0]}/{row['group']}"} if own else row


def file_rows(path: Path) -> Iterator[Row]:
    """The rows of one file, by its suffix."""
    readers: dict[str, Callable[[Path], Iterator[Row]]] = {
        "JSON Lines": _jsonl,
        "JSON": _json,
        "CSV": _csv,
        "TSV": _csv,
        "Parquet": _polars,
        "Arrow": _polars,
        "Inspect log": zipped_log_rows,
    }
    yield from readers[kind_of(path)](path)


# --------------------------------------------------------------------------------------------------------------- files


def _jsonl(path: Path) -> Iterator[Row]:
    with open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield _object(_parsed(line, f"{path}: line {number}"), f"{path}: line {number}")


def _json(path: Path) -> Iterator[Row]:
    data = _parsed(read_text(path), str(path))
    if is_log(data):
        yield from log_rows(data, str(path))
        return
    rows = data if isinstance(data, list) else [data]
    for number, row in enumerate(rows, start=1):
        yield _object(row, f"{path}: row {number}")


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(where, "text", "JSON", str(error), "") from None


def _object(row: Any, where: str) -> Row:
    if not isinstance(row, Mapping):
        raise InvalidInput(where, "row", "an object {…}", kind_in_words(row), "Write one object per row.")
    return row


def _csv(path: Path) -> Iterator[Row]:
    csv.field_size_limit(1 << 30)
    delimiter = "\t" if kind_of(path) == "TSV" else ","
    with open_text(path) as file:
        reader = csv.DictReader(file, delimiter=delimiter)
        try:
            _check_header(path, reader.fieldnames or ())
            for number, row in enumerate(reader, start=1):
                if None in row or None in row.values():
                    allowed = "as many as the header has"
                    raise InvalidInput(f"{path}: row {number}", "cells", allowed, "more or fewer", "Check its quotes.")
                yield row
        except csv.Error as error:
            raise InvalidInput(str(path), "the file", "CSV", str(error), "Check its quotes.") from None


def _check_header(path: Path, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if not name.strip() or name in seen:
            got = f"{name!r} twice" if name in seen else "an empty one"
            raise InvalidInput(str(path), "the header", "different names", got, "")
        seen.add(name)


def _polars(path: Path) -> Iterator[Row]:
    import polars

    parquet = kind_of(path) == "Parquet"
    try:
        with in_our_words_of(path), path.open("rb") as file:  # of a path, brackets would be a pattern
            frame = polars.read_parquet(path, glob=False) if parquet else polars.read_ipc(file)
    except (polars.exceptions.PolarsError, OSError) as error:
        what = "Parquet" if parquet else "Arrow"
        raise InvalidInput(str(path), "the file", what, str(error).splitlines()[0], "") from None
    yield from frame.iter_rows(named=True)


# ------------------------------------------------------------------------------------------------------------ datasets


def _saved_dataset(path: Path) -> Iterator[Row]:
    yield from read_rows(optional_package("datasets", "rollouts").load_from_disk(str(path)))


def _hub_rows(name: str) -> Iterator[Row]:
    name, _, split = name.partition(":")
    try:
        found = optional_package("datasets", "rollouts").load_dataset(name, split=split or None)
    except InvalidInput:
        raise
    except Exception as error:  # the hub has many ways to say no
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidInput(f"hf:{name}", "the source", "a dataset that can be read", reason, "") from None
    yield from read_rows(found)
