"""Find the files of a source: a file, a pattern, a folder, or standard input.

    find_files("completions/")            every file of the folder, such as those that TRL's log_completions writes
    find_files("logs/*.eval")             the files that match the pattern, sorted by name
    find_files("-")                       standard input, copied to a temporary file

All files of a source must have the same format.
"""

from __future__ import annotations

import atexit
import glob
import gzip
import json
import os
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rubrank._files import data_suffix, find_rotated, require_file, suffix_error
from rubrank._folders import make_folder
from rubrank.errors import InvalidInput

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
_MAGIC_BYTES = ((b"PAR1", ".parquet"), (b"ARROW1", ".arrow"), (b"PK", ".eval"))
_stdin_copies: list[tuple[Any, Path]] = []
"""(stream, its copy): standard input can be read only once."""


def find_files(source: str | Path) -> list[Path]:
    """Return the files of a source, all of one format, sorted by name; raises InvalidInput if there is none."""
    if str(source) == STDIN:
        return [_copy_standard_input()]
    if not str(source).strip():
        raise InvalidInput("rubrank", "the file", "a file that can be read", repr(str(source)), "")
    path = Path(source)
    exists = os.path.exists(path)
    if not exists and glob.has_magic(str(source)):
        matches = sorted(Path(name) for name in glob.glob(str(source), recursive=True))
        return _check_one_format([match for match in matches if match.is_file()], source)
    if os.path.isdir(path):  # Path.is_dir raises for names that are too long
        # TRL writes its logs to a subfolder `completions`.
        for folder in (path, path / "completions"):
            files = sorted(folder.iterdir()) if folder.is_dir() else []
            readable = []
            for file in files:
                is_hidden = file.name.startswith((".", "_"))
                if data_suffix(file) in FORMATS and file.is_file() and not is_hidden:
                    readable.append(file)
            if readable:
                return _check_one_format(readable, source)
        return _check_one_format([], source)
    if not exists and (parts := find_rotated(path)):
        return _check_one_format(parts, source)
    format_of(require_file(path))
    return [path]


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


def _check_one_format(files: list[Path], source: str | Path) -> list[Path]:
    """Return the files unchanged; raises InvalidInput if there are none, or if they have different formats."""
    if not files:
        raise InvalidInput(
            str(source),
            "the files",
            f"at least one of {', '.join(FORMATS)}",
            "none",
            remedy="",
        )
    first_of_format: dict[str, Path] = {}
    for file in files:
        first_of_format.setdefault(format_of(file), file)
    if len(first_of_format) > 1:
        got = " and ".join(f"{name} ({file.name})" for name, file in first_of_format.items())
        remedy = f"Name those that are meant: '{source}/*{files[0].suffix}'."
        raise InvalidInput(str(source), "the files", "of one format", got, remedy)
    return files


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
    path = copy.rename(folder / f"stdin{_guess_suffix(copy)}")
    _stdin_copies.append((sys.stdin, path))
    return path


def _guess_suffix(path: Path) -> str:
    """Return the suffix for a file of unknown format, from its first bytes."""
    with path.open("rb") as file:
        start = file.read(_SNIFFED_BYTES)
    if start.startswith(b"\x1f\x8b"):  # gzip
        with gzip.open(path) as inner:
            return f"{_guess_text_suffix(inner.read(_SNIFFED_BYTES))}.gz"
    if start.startswith(b"\x28\xb5\x2f\xfd"):  # zstd
        return ".jsonl.zst"
    for magic, suffix in _MAGIC_BYTES:
        if start.startswith(magic):
            return suffix
    return _guess_text_suffix(start)


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
