"""Rows of a file or a table, one dict each: JSON Lines, JSON, CSV, Parquet, Hugging Face `datasets`, frames."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, TypeAlias

from rubrank.errors import InvalidInput, UnknownName

Source: TypeAlias = Any
Row: TypeAlias = Mapping[str, Any]


def read_rows(source: Source) -> Iterator[Row]:
    """The rows of a source, one dict each."""
    if isinstance(source, str | Path):
        yield from _file_rows(source)
    elif hasattr(source, "iter_rows"):  # polars
        yield from source.iter_rows(named=True)
    elif hasattr(source, "to_dict") and hasattr(source, "columns"):  # pandas
        yield from source.to_dict("records")
    elif isinstance(source, Mapping):  # a DatasetDict: which split is meant, only the caller knows
        raise InvalidInput(
            "read_groups", "source", "one table", f"several ({', '.join(map(str, source))})", "Choose a split."
        )
    elif isinstance(source, Iterable):
        yield from source
    else:
        raise InvalidInput(
            "read_groups", "source", "a path, a table, or rows", type(source).__name__, "See docs/grading.md."
        )


def is_table(source: Any) -> bool:
    """A frame or a dataset, rather than a list?"""
    return hasattr(source, "iter_rows") or hasattr(source, "column_names") or hasattr(source, "columns")


def _file_rows(source: str | Path) -> Iterator[Row]:
    if isinstance(source, str) and source.startswith("hf:"):
        yield from _hub_rows(source.removeprefix("hf:"))
        return
    path = Path(source)
    if not path.exists():
        raise InvalidInput("read_groups", "source", "a file that exists", str(path), "Check the path.")
    kind = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    readers = {
        ".jsonl": _jsonl, ".ndjson": _jsonl, ".json": _json, ".csv": _csv, ".tsv": _csv, ".parquet": _parquet,
    }  # fmt: skip
    if path.is_dir():
        yield from _saved_dataset(path)
    elif kind in readers:
        yield from readers[kind](path)
    else:
        raise UnknownName.of("read_groups", "suffix of the file", kind, readers)


def _open(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")


def _jsonl(path: Path) -> Iterator[Row]:
    with _open(path) as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield _object(_parsed(line, f"{path}: line {number}"), f"{path}: line {number}")


def _json(path: Path) -> Iterator[Row]:
    with _open(path) as file:
        data = _parsed(file.read(), str(path))
    rows = data if isinstance(data, list) else [data]
    for number, row in enumerate(rows, start=1):
        yield _object(row, f"{path}: row {number}")


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(where, "text", "JSON", str(error), "Mend it.") from None


def _object(row: Any, where: str) -> Row:
    if not isinstance(row, Mapping):
        raise InvalidInput(where, "row", "an object {…}", type(row).__name__, "Write one object a row.")
    return row


def _csv(path: Path) -> Iterator[Row]:
    csv.field_size_limit(1 << 30)
    delimiter = "\t" if ".tsv" in path.suffixes else ","
    with _open(path) as file:
        for number, row in enumerate(csv.DictReader(file, delimiter=delimiter), start=1):
            if None in row or None in row.values():
                raise InvalidInput(
                    f"{path}: row {number}", "cells", "as many as the header has", "more or fewer", "Check its quotes."
                )
            yield row


def _parquet(path: Path) -> Iterator[Row]:
    import polars

    try:
        frame = polars.read_parquet(path)
    except polars.exceptions.PolarsError as error:
        raise InvalidInput(str(path), "file", "Parquet", str(error).splitlines()[0], "Check the file.") from None
    yield from frame.iter_rows(named=True)


def _saved_dataset(path: Path) -> Iterator[Row]:
    yield from read_rows(_datasets().load_from_disk(str(path)))


def _hub_rows(name: str) -> Iterator[Row]:
    name, _, split = name.partition(":")
    yield from read_rows(_datasets().load_dataset(name, split=split or None))


def _datasets() -> Any:
    try:
        import datasets
    except ImportError:
        raise InvalidInput(
            "read_groups", "source", "readable with what is installed", "a Hugging Face dataset",
            "Run `pip install datasets`.",
        ) from None  # fmt: skip
    return datasets
