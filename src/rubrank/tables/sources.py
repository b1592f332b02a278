"""Find the files of a source and read them: as rows, which are dicts, or as polars frames.

    read_rows("rollouts.csv")             the rows of a file, folder, pattern, frame, dataset or list of dicts
    frame, numbers = read_csv(path)       the cells of one CSV or TSV file as texts, and the number of each row
    frame = read_columnar(path)           one Parquet or Arrow file

    find_files("completions/")            every file of the folder, such as those that TRL's log_completions writes
    find_files("logs/*.eval")             the files that match the pattern, sorted by name
    find_files("-")                       standard input, copied to a temporary file

All files of a source must have the same format. Polars and NumPy are imported where a file needs them: trainers, which
read JSON or nothing at all, start faster without.
"""

from __future__ import annotations

import atexit
import csv
import glob
import gzip
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from rubrank._files import (
    data_suffix,
    encoding_error,
    explain_read_errors,
    find_rotated,
    open_bytes,
    open_text,
    read_text,
    require_file,
    suffix_error,
)
from rubrank._folders import make_folder
from rubrank._plain import check_unique_keys, describe_type
from rubrank.errors import BadTable, InvalidInput, import_optional
from rubrank.tables.inspect_logs import LogRow, is_log, read_json_log, read_zipped_log

if TYPE_CHECKING:
    import polars as pl

Source: TypeAlias = Any
"""A path or pattern, "-", "hf:…", a frame, a dataset, a mapping of columns, or an iterable of rows."""
Row: TypeAlias = Mapping[str, Any]

FORMATS = {
    ".jsonl": "JSON Lines",
    ".ndjson": "JSON Lines",
    ".json": "JSON",
    ".csv": "CSV",
    ".tsv": "TSV",
    ".parquet": "Parquet",
    ".arrow": "Arrow",
    ".feather": "Arrow",
    ".eval": "Inspect log",
}
"""The formats that can be read, by the suffix before .gz or .zst."""
STDIN = "-"
HUB = "hf:"
"""Prefix of a dataset on the Hugging Face hub."""

_SNIFFED_BYTES = 1 << 16  # read from standard input to guess its format
_SAVED_DATASET_FILES = ("dataset_info.json", "dataset_dict.json", "state.json")
# First bytes of a file → its suffix. An Inspect log is a zip; anything compressed with zstd is taken for JSON Lines.
_MAGIC_BYTES = {
    b"PAR1": ".parquet",
    b"ARROW1": ".arrow",
    b"PK": ".eval",
    b"\x28\xb5\x2f\xfd": ".jsonl.zst",
}
_stdin_copies: list[tuple[Any, Path]] = []
"""(stream, its copy): standard input can be read only once."""
_LONGEST_CSV_FIELD = 1 << 30  # characters; the csv module allows 131,072 by default
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NOT_LINE_END = re.compile(rb"[^\r\n]")


# --------------------------------------------------------------------------------------------------- finding files


def find_files(source: str | Path) -> list[Path]:
    """Return the files of a source, all of one format, sorted by name.

    Raises InvalidInput if there is none, if one cannot be read, or if they have different formats.
    """
    if str(source) == STDIN:
        return [_copy_standard_input()]
    if not str(source).strip():
        raise InvalidInput("rubrank", "the file", "a file that can be read", repr(str(source)), "")
    path = Path(source)
    files: list[Path] = []
    if os.path.isdir(path):  # Path.is_dir raises for names that are too long
        # TRL writes its logs to a subfolder `completions`.
        for folder in (path, path / "completions"):
            if files or not folder.is_dir():
                continue
            for file in sorted(folder.iterdir()):
                is_hidden = file.name.startswith((".", "_"))
                if data_suffix(file) in FORMATS and file.is_file() and not is_hidden:
                    files.append(file)
    elif os.path.exists(path):
        files = [require_file(path)]
    elif glob.has_magic(str(source)):
        matches = sorted(Path(name) for name in glob.glob(str(source), recursive=True))
        files = [match for match in matches if match.is_file()]
    else:
        files = find_rotated(path) or [require_file(path)]
    if not files:
        allowed = f"at least one of {', '.join(FORMATS)}"
        raise InvalidInput(str(source), "the files", allowed, "none")
    first_of_format: dict[str, Path] = {}
    for file in files:
        first_of_format.setdefault(format_of(file), file)
    if len(first_of_format) > 1:
        got = " and ".join(f"{name} ({file.name})" for name, file in first_of_format.items())
        remedy = f"Name those that are meant: '{source}/*{files[0].suffix}'."
        raise InvalidInput(str(source), "the files", "of one format", got, remedy)
    return files


def format_of(path: Path) -> str:
    """Return the format of a file, by its suffix, such as "JSON Lines"; raises InvalidInput for an unknown suffix."""
    suffix = data_suffix(path)
    if suffix not in FORMATS:
        raise suffix_error(
            path, tuple(FORMATS), remedy="Before .gz or .zst where it is compressed."
        )
    return FORMATS[suffix]


def is_dataset(source: str | Path) -> bool:
    """Return whether it is a dataset of the hub, or a folder that `datasets` wrote with save_to_disk."""
    if str(source).startswith(HUB):
        return True
    path = Path(source)
    return os.path.isdir(path) and any((path / name).is_file() for name in _SAVED_DATASET_FILES)


def is_table(source: Any) -> bool:
    """Return whether it is a frame, an Arrow table or a dataset, rather than a list of rows."""
    methods = ("iter_rows", "collect_schema", "column_names", "columns", "to_pylist")
    return any(hasattr(source, method) for method in methods)


def describe_source(source: Any) -> str:
    """Return what a source is, for a summary: "CSV", "2 Parquet files", "pandas table"."""
    if not isinstance(source, str | Path):
        module = type(source).__module__.partition(".")[0]
        return f"{module} table" if is_table(source) else "rows"
    if is_dataset(source):
        return "dataset"
    if str(source) == STDIN:
        return "standard input"
    files = find_files(source)
    if len(files) == 1:
        return format_of(files[0])
    return f"{len(files)} {format_of(files[0])} files"


# ------------------------------------------------------------------------------------------------------ standard input


def _copy_standard_input() -> Path:
    """Return a copy of standard input as a file whose suffix says its format.

    It is deleted when the process ends or, after a kill, by a later process.
    """
    for stdin, path in _stdin_copies:
        if stdin is sys.stdin:
            return path
    if sys.stdin is None:
        raise InvalidInput(
            "standard input",
            "the input",
            "open",
            "closed",
            "Name a file, or pipe rows into it.",
        )
    cleanup = ExitStack()
    atexit.register(cleanup.close)
    folder = Path(cleanup.enter_context(make_folder("stdin")))
    copy = folder / "stdin"
    stream: Any = getattr(sys.stdin, "buffer", sys.stdin)
    with copy.open("wb") as file:
        shutil.copyfileobj(stream, file)
    if not copy.stat().st_size:
        raise InvalidInput("standard input", "the input", "at least one row", "nothing", "")
    with copy.open("rb") as file:
        start = file.read(_SNIFFED_BYTES)
    if start.startswith(b"\x1f\x8b"):  # gzip
        with gzip.open(copy) as unpacked:
            suffix = f"{_guess_text_suffix(unpacked.read(_SNIFFED_BYTES))}.gz"
    else:
        suffixes = [suffix for magic, suffix in _MAGIC_BYTES.items() if start.startswith(magic)]
        suffix = suffixes[0] if suffixes else _guess_text_suffix(start)
    path = copy.rename(folder / f"stdin{suffix}")
    _stdin_copies.append((sys.stdin, path))
    return path


def _guess_text_suffix(start: bytes) -> str:
    """Return the suffix for a text file, from its first bytes."""
    text = start.decode("utf-8-sig", "replace").lstrip()
    first_line = text.split("\n", 1)[0]
    if text.startswith("{"):
        # One object in the first line: JSON Lines. A line that was cut off where reading stopped may be one too.
        try:
            json.loads(first_line)
        except (ValueError, RecursionError):
            return ".json" if "\n" in text else ".jsonl"
        return ".jsonl"
    if text.startswith("["):
        return ".json"
    return ".tsv" if first_line.count("\t") > first_line.count(",") else ".csv"


# ---------------------------------------------------------------------------------------------------- rows as dicts


def read_rows(source: Source) -> Iterator[Row]:
    """Yield the rows of a source, one mapping each; raises InvalidInput if it cannot be read."""
    if isinstance(source, str | Path):
        if is_dataset(source):
            yield from read_rows(_load_dataset(str(source)))
            return
        files = find_files(source)
        for path in files:
            for row in _read_file_rows(path):
                if len(files) > 1 and isinstance(row, LogRow):
                    # The same sample in two Inspect logs was answered in two runs: these are two groups.
                    row = {**row, "group": f"{path.name.split('.')[0]}/{row['group']}"}
                yield row
        return
    if isinstance(source, Mapping):
        yield from _read_column_rows(source)
        return
    # Frames are recognised by their methods.
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


def _read_file_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of one file; its suffix tells the format. Cells of a CSV are texts.

    A JSON file holds a list of objects, one object, an Inspect log, or an export of promptfoo.
    """
    file_format = format_of(path)
    if file_format == "Inspect log":
        yield from read_zipped_log(path)
    elif file_format in ("CSV", "TSV"):
        frame, _ = read_csv(path)
        yield from frame.fill_null("").iter_rows(named=True)
    elif file_format in ("Parquet", "Arrow"):
        yield from read_columnar(path).iter_rows(named=True)
    elif file_format == "JSON Lines":
        with open_text(path) as file:
            for _, _, row in parse_lines(file, path):
                yield row
    else:
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


# ------------------------------------------------------------------------------------------------- files of columns


def read_columnar(path: Path) -> pl.DataFrame:
    """Return a Parquet or Arrow file as a frame."""
    import polars as pl
    from polars.exceptions import PolarsError

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
    import polars as pl
    from polars.exceptions import PolarsError

    separator = "\t" if format_of(path) == "TSV" else ","
    with explain_read_errors(path, BadTable), open_bytes(require_file(path)) as raw:
        data = raw.read().removeprefix(_BYTE_ORDER_MARK)
    if not data:
        raise BadTable(str(path), "the table", "at least one row", "an empty file")
    if b'"' in data:
        _check_quotes(data, separator, path)
    names, header_end = _read_header(data, separator, path)
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


def _read_header(data: bytes, separator: str, path: Path) -> tuple[list[str], int]:
    """Return the names of the columns, which must be different, and the position after the header."""
    end = data.find(b"\n") + 1
    # An odd number of quotes: this line break is within a quoted name.
    while end and data.count(b'"', 0, end) % 2:
        end = data.find(b"\n", end) + 1
    end = end or len(data)
    try:
        names = next(csv.reader(io.StringIO(data[:end].decode()), delimiter=separator), [])
    except UnicodeDecodeError:
        raise encoding_error(path, "the header", BadTable) from None
    except csv.Error:
        remedy = "Save it with other line ends."
        raise BadTable(str(path), "the lines", "ended by LF or CR LF", "CR alone", remedy) from None
    for k, name in enumerate(names):
        if not name.strip() or name in names[:k]:
            got = f"{name!r} twice" if name.strip() else "an empty one"
            raise BadTable(str(path), "the header", "different names", got)
    return names, end


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
    import numpy as np

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
