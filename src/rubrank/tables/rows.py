"""Read the rows of any source as dicts: files of every format, folders, patterns, frames, datasets, objects.

read_rows("rollouts.csv")     read_rows("completions/")     read_rows("-")     read_rows(frame)     read_rows(rows)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from rubrank._files import open_text, read_text
from rubrank._plain import check_unique_keys, describe_type
from rubrank.errors import BadTable, InvalidInput, import_optional
from rubrank.tables.inspect_logs import LogRow, is_log, read_json_log, read_zipped_log
from rubrank.tables.sources import HUB, find_files, format_of, is_dataset, is_table

Source: TypeAlias = Any
Row: TypeAlias = Mapping[str, Any]


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
    """Yield the rows of one file; its suffix tells the format. Cells of a CSV are texts."""
    file_format = format_of(path)
    if file_format == "Inspect log":
        yield from read_zipped_log(path)
    elif file_format == "JSON":
        yield from _read_json(path)
    elif file_format == "JSON Lines":
        with open_text(path) as file:
            for _, _, row in parse_lines(file, path):
                yield row
    else:
        # Imported here: files of the other formats can be read without polars.
        from rubrank.tables.frames import read_columnar, read_csv

        if file_format in ("CSV", "TSV"):
            frame = read_csv(path)[0].fill_null("")
        else:
            frame = read_columnar(path)
        yield from frame.iter_rows(named=True)


def parse_lines(
    lines: Iterable[str], path: Path, first: int = 1
) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yield number, text and object of each line that is not blank; raises BadTable, which names a wrong line.

    first: the number of the first line.
    """
    for number, line in enumerate(lines, first):
        if line.strip():
            remedy = "Repair the line, or remove it if the file was cut off there."
            try:
                row = json.loads(line, object_pairs_hook=check_unique_keys)
                got = f"{line[:40]!r}"
            except (ValueError, RecursionError) as error:
                row = None
                got = str(error)
            if not isinstance(row, dict):
                raise BadTable(str(path), f"line {number}", "one JSON object", got, remedy)
            yield number, line, row


def _read_json(path: Path) -> Iterator[Row]:
    """Yield the rows of a JSON file: a list of objects, one object, an Inspect log, or an export of promptfoo."""
    try:
        data = json.loads(read_text(path), object_pairs_hook=check_unique_keys)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(str(path), "text", "JSON", str(error)) from None
    if is_log(data):
        yield from read_json_log(data, str(path))
        return
    rows = data if isinstance(data, list) else [data]
    summary = data.get("results") if isinstance(data, Mapping) else None
    if isinstance(summary, Mapping) and isinstance(summary.get("results"), list):
        rows = summary["results"]  # what `promptfoo eval --output results.json` writes
    yield from _check_objects(rows, str(path))


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
        yield from _check_objects(source, "rollouts")


def _check_objects(rows: Iterable[Any], where: str) -> Iterator[Row]:
    """Yield the rows unchanged; raises InvalidInput at the first that is not a mapping."""
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, Mapping):
            remedy = "Write one object per row."
            got = describe_type(row)
            raise InvalidInput(f"{where}: row {number}", "row", "an object {…}", got, remedy)
        yield row


def _read_column_rows(source: Mapping[Any, Any]) -> Iterator[Row]:
    """Yield the rows of a mapping from names to columns."""
    if not source:
        raise InvalidInput("rollouts", "source", "at least one column", "an empty mapping")
    if any(is_table(value) for value in source.values()):
        # A `DatasetDict` holds several tables, and only the caller knows which one is meant.
        got = f"several ({', '.join(map(str, source))})"
        raise InvalidInput("rollouts", "source", "one table", got, "Choose a split.")
    for name, cells in source.items():
        if not isinstance(cells, list | tuple):
            remedy = "Write a single row as lists of one."
            got = describe_type(cells)
            raise InvalidInput("rollouts", f"column {str(name)!r}", "a list of cells", got, remedy)
    lengths = {str(name): len(cells) for name, cells in source.items()}
    if len(set(lengths.values())) > 1:
        got = ", ".join(f"{name!r} with {length}" for name, length in lengths.items())
        raise InvalidInput("rollouts", "source", "columns of one length", got)
    for cells in zip(*source.values(), strict=True):
        yield dict(zip(lengths, cells, strict=True))


def _load_dataset(source: str) -> Any:
    """Return a dataset of the Hugging Face hub, "hf:owner/name:split", or a folder that save_to_disk wrote."""
    datasets = import_optional("datasets", "rollouts")
    if not source.startswith(HUB):
        return datasets.load_from_disk(source)
    name, _, split = source.removeprefix(HUB).partition(":")
    try:
        return datasets.load_dataset(name, split=split or None)
    except Exception as error:  # the hub raises errors of many kinds
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        allowed = "a dataset that can be read"
        raise InvalidInput(f"hf:{name}", "the source", allowed, reason) from None
