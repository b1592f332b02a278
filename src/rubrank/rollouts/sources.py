"""Which files a source means: a file, a pattern, a folder, or standard input.

files_of("completions/")            every file of it, which must be of one kind: what TRL's log_completions wrote
files_of("logs/*.eval")             those that the pattern matches, in the order of their names
files_of("-")                       standard input, kept in a temporary file, as files are read twice
"""

from __future__ import annotations

import atexit
import glob
import gzip
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from rubrank._files import existing_file, rotated, unpacked_suffix, wrong_suffix
from rubrank.errors import InvalidInput

KINDS = {
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
"""The formats that are read, by the suffix before .gz or .zst."""
STDIN = "-"
_PEEK = 1 << 16
_KEPT: list[tuple[Any, Path]] = []
_SAVED = ("dataset_info.json", "dataset_dict.json", "state.json")
_MAGIC = ((b"PAR1", ".parquet"), (b"ARROW1", ".arrow"), (b"PK", ".eval"))


def files_of(source: str | Path) -> list[Path]:
    """The files, all of one kind, in the order of their names; raises if there is none."""
    if str(source) == STDIN:
        return [_standard_input()]
    if not str(source).strip():
        raise InvalidInput("rubrank", "the file", "a file that can be read", repr(str(source)), "")
    path = Path(source)
    if not _exists(path) and glob.has_magic(str(source)):
        found = sorted(Path(name) for name in glob.glob(str(source), recursive=True))
        return _of_one_kind([file for file in found if file.is_file()], source)
    if path.is_dir():
        return _of_one_kind(_files_in(path), source)
    if not _exists(path) and (parts := rotated(path)):
        return _of_one_kind(parts, source)
    kind_of(existing_file(path))
    return [path]


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def kind_of(path: Path) -> str:
    """The format of a file, by its suffix; one message for all others."""
    suffix = unpacked_suffix(path)
    if suffix not in KINDS:
        raise wrong_suffix(path, tuple(KINDS), remedy="Before .gz or .zst where it is compressed.")
    return KINDS[suffix]


def is_saved_dataset(path: Path) -> bool:
    """Is it a folder that `datasets` wrote with save_to_disk?"""
    return path.is_dir() and any((path / name).is_file() for name in _SAVED)


def _files_in(folder: Path) -> list[Path]:
    """Readable files of a folder, or of the folder `completions` in it, where TRL puts what it logs."""
    for place in (folder, folder / "completions"):
        files = sorted(p for p in place.iterdir() if p.is_file()) if place.is_dir() else []
        if found := [p for p in files if unpacked_suffix(p) in KINDS and not p.name.startswith((".", "_"))]:
            return found
    return []


def _of_one_kind(files: list[Path], source: str | Path) -> list[Path]:
    if not files:
        raise InvalidInput(str(source), "the files", f"at least one of {', '.join(KINDS)}", "none", "")
    first: dict[str, Path] = {}
    for file in files:
        first.setdefault(kind_of(file), file)
    if len(first) > 1:
        got = " and ".join(f"{kind} ({file.name})" for kind, file in first.items())
        remedy = f"Name those that are meant: '{source}/*{files[0].suffix}'."
        raise InvalidInput(str(source), "the files", "of one kind", got, remedy)
    return files


# ------------------------------------------------------------------------------------------------------ standard input


def _standard_input() -> Path:
    """Standard input in a file whose suffix says what it holds; it goes away at the end of the process."""
    for stdin, path in _KEPT:  # it can be read once only
        if stdin is sys.stdin:
            return path
    folder = Path(tempfile.mkdtemp(prefix="rubrank-stdin-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    kept = folder / "stdin"
    stream: Any = getattr(sys.stdin, "buffer", sys.stdin)
    with kept.open("wb") as file:
        shutil.copyfileobj(stream, file)
    if not kept.stat().st_size:
        raise InvalidInput("standard input", "the input", "at least one row", "nothing", "")
    path = kept.rename(folder / f"stdin{_sniffed(kept)}")
    _KEPT.append((sys.stdin, path))
    return path


def _sniffed(path: Path) -> str:
    with path.open("rb") as file:
        start = file.read(_PEEK)
    if start.startswith(b"\x1f\x8b"):
        with gzip.open(path) as inner:
            return f"{_text_kind(inner.read(_PEEK))}.gz"
    if start.startswith(b"\x28\xb5\x2f\xfd"):
        return ".jsonl.zst"
    return next((suffix for magic, suffix in _MAGIC if start.startswith(magic)), None) or _text_kind(start)


def _text_kind(start: bytes) -> str:
    text = start.decode("utf-8-sig", "replace").lstrip()
    first = text.split("\n", 1)[0]
    if text.startswith("{"):
        return ".jsonl" if _is_json(first) or "\n" not in text else ".json"
    if text.startswith("["):
        return ".json"
    return ".tsv" if first.count("\t") > first.count(",") else ".csv"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
