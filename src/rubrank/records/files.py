"""Read and write files of records: JSON lines, or Parquet with one row for each record.

    {"version":1,"group":"q7","rule":"rlvr2","step":12,"criteria":[…],"scores":[[1.0,null],…],"reward":[…],…}

A Parquet file has a few columns to filter by (group, step, rule, no_signal, rollouts) and the record itself as JSON.

A training run may write its records to several numbered files beside each other: records.000100.jsonl,
records.000200.jsonl, … These are called rotated, and are found by the name records.jsonl.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from pydantic import ValidationError

from rubrank._files import (
    atomic_write,
    explain_read_errors,
    find_rotated,
    import_zstandard,
    open_bytes,
    require_file,
    suffix_error,
)
from rubrank.errors import BadTable, InvalidInput, only_our_errors
from rubrank.records.record import VERSION, GroupRecord

SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet")
_PARQUET_ROWS = 1000  # read at once
_ZSTD_LEVEL = 1  # half the time of the usual 3, and a third more bytes
# Keys that every record has, by which `is_records` recognises a file.
_RECORD_KEYS = {"group", "criteria", "scores", "reward", "ranking"}


@only_our_errors
def write_records(path: str | Path, records: Iterable[GroupRecord], *, append: bool = False) -> int:
    """Write records to a .jsonl, .jsonl.gz, .jsonl.zst or .parquet file; returns how many.

    append: add lines to the file. Without it, the file appears when it is complete, or stays as it was.
    """
    path = Path(path)
    is_parquet = _is_parquet(path)  # refuses other suffixes, before anything is written
    if append and is_parquet:
        raise InvalidInput(
            "write_records",
            "append",
            allowed="used with .jsonl",
            got=str(path),
            remedy="Parquet cannot grow.",
        )
    if append:
        path.parent.mkdir(parents=True, exist_ok=True)
        return _write_lines(path, records, "ab", path.suffix)
    with atomic_write(path) as partial:
        if is_parquet:
            return _write_parquet(partial, records)
        return _write_lines(partial, records, "wb", path.suffix)


def _write_lines(path: Path, records: Iterable[GroupRecord], mode: str, compression: str) -> int:
    """Write one line per record; returns how many. mode and compression: those of `_open`."""
    count = 0
    with _open(path, mode, compression) as file:
        for record in records:
            file.write(_encode_record(record) + b"\n")
            count += 1
    return count


def append_lines(path: Path, lines: Iterable[bytes]) -> None:
    """Append lines to a file of records. lines: encoded records, each with its line break."""
    text = b"".join(lines)
    if text:
        with _open(path, "ab", path.suffix) as file:
            file.write(text)


@only_our_errors
def read_records(path: str | Path) -> Iterator[GroupRecord]:
    """Iterate over the records of a file, with its rotated files, or of all files of a folder or a pattern.

    Raises InvalidInput at once if there is no such file, and BadTable with file and line for a line that is not a
    record when that line is reached.
    """
    # Another function yields: a generator would look for the files only when its first record is taken.
    return _read_files(find_record_files(Path(path)))


def _read_files(paths: Iterable[Path]) -> Iterator[GroupRecord]:
    for path in paths:
        lines = _read_parquet_rows(path) if _is_parquet(path) else _read_json_lines(path)
        for number, line in lines:
            yield parse_record(line, f"{path}:{number}")


def find_record_files(path: Path, missing_ok: bool = False) -> list[Path]:
    """Return the files of records at a path, sorted by name, with numbers in names compared as numbers.

    A folder: its files called records.…, as training writes them; if there are none, all files with such a suffix.
    A pattern such as records.*.jsonl.zst: what it matches.
    The name of a file: it, and the rotated files beside it, such as records.000100.jsonl.zst.
    If there are no files, raises InvalidInput, or returns an empty list if missing_ok.
    """
    if os.path.isdir(path):  # Path.is_dir raises for names that are too long
        visible_files = [file for file in path.iterdir() if not file.name.startswith(".")]
        files = [file for file in visible_files if file.name.endswith(SUFFIXES)]
        # A training folder has other files beside its records.
        files = [file for file in files if file.name.startswith("records.")] or files
        if not files and not missing_ok:
            raise InvalidInput(
                "records",
                "path",
                allowed=f"a folder with files that end in {', '.join(SUFFIXES)}",
                got=f"{path}, which has none",
            )
    elif any(sign in path.name for sign in "*?[") and not os.path.exists(path):
        files = [file for file in path.parent.glob(path.name) if file.is_file()]
    else:
        files = find_rotated(path)
        if os.path.exists(path):
            files = [path, *files]
    if not files and not missing_ok:
        require_file(path)
    return sorted(files, key=_make_sort_key)


def name_runs(sources: Sequence[Path]) -> list[str]:
    """Return a short name for each run, from the path of its file of records.

    runs/a/records.jsonl, runs/b/records.jsonl                a, b
    runs/first.jsonl, runs/second.jsonl                       first.jsonl, second.jsonl
    a/seed0/records.jsonl, b/seed0/records.jsonl              a, b
    a/x/records.jsonl, a/y/records.jsonl, b/x/records.jsonl   the whole paths
    """
    places = []
    for source in sources:
        place = source.resolve()
        # Every trainer calls its file records.jsonl: the folder says which run it is.
        places.append(place.parent if source.name.startswith("records.") else place)
    if len(places) < 2:
        return [place.name or str(place) for place in places]
    # Parts of the paths that all runs share, such as seed0, are skipped from the end.
    position = 1
    shortest = min(len(place.parts) for place in places)
    while position < shortest and len({place.parts[-position] for place in places}) == 1:
        position += 1
    names = [place.parts[-position] for place in places]
    if len(set(names)) < len(names):
        return [str(source) for source in sources]
    return names


def split_suffix(path: Path) -> tuple[str, str]:
    """Split a file name: records.jsonl.zst becomes ("records", ".jsonl.zst")."""
    suffix = next((suffix for suffix in SUFFIXES if path.name.endswith(suffix)), path.suffix)
    return path.name.removesuffix(suffix), suffix


def _make_sort_key(path: Path) -> list[Any]:
    """Return the texts and numbers of a name in turn, so that records.9 comes before records.10."""
    # Without its suffixes, so that records.jsonl comes before records.000100.jsonl.
    stem, _ = split_suffix(path)
    # isdecimal, because isdigit also accepts "²", which int refuses.
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", stem)]


def is_records(path: Path) -> bool:
    """Does the file hold records rather than scores? Decided by its first line, or by its columns."""
    try:
        path = find_record_files(path)[0]
        if not path.is_file() or not path.name.endswith(SUFFIXES):
            return False
        if _is_parquet(path):
            import polars

            return "record" in polars.scan_parquet(path, glob=False).collect_schema()
        with _open(path, "rt", path.suffix) as file:
            first = json.loads(file.readline())
    except Exception:  # reading it will say what is wrong
        return False
    return isinstance(first, dict) and first.keys() >= _RECORD_KEYS


def _is_parquet(path: Path) -> bool:
    """Is it Parquet rather than lines of JSON? Decided by the suffix. Raises InvalidInput for any other suffix."""
    if path.name.endswith((".jsonl", ".jsonl.gz", ".jsonl.zst")):
        return False
    if path.suffix == ".parquet":
        return True
    raise suffix_error(path, SUFFIXES)


def _open(path: Path, mode: str, compression: str) -> IO[Any]:
    """Open a file of lines. mode: "wb", "ab" or "rt".

    compression: ".gz", ".zst", or anything else for none; a file that is not complete yet may have another suffix.
    """
    encoding: dict[str, Any] = {}
    if "b" not in mode:
        # Responses may hold lone surrogates, which strict UTF-8 refuses.
        encoding = {"encoding": "utf-8", "errors": "surrogatepass"}
    if compression == ".gz":
        return gzip.open(path, mode, **encoding)  # type: ignore[return-value]
    if compression != ".zst":
        return path.open(mode, **encoding)
    zstandard = import_zstandard(path)
    if mode == "rt":
        return io.TextIOWrapper(open_bytes(path), **encoding)
    # A Zstandard file is a sequence of frames. Every time it is opened to append, a frame is added; all are read.
    compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL)
    return compressor.stream_writer(path.open(mode))


def _encode_record(record: GroupRecord) -> bytes:
    """Encode the record as one line of JSON, without a line break."""
    try:
        # `model_dump_json` would make a string of these bytes, to be encoded again; a line may hold megabytes of texts.
        return record.__pydantic_serializer__.to_json(record, exclude_defaults=True)
    except ValueError:  # lone surrogates in a response: JSON's own escapes can hold them
        data = record.model_dump(mode="python", exclude_defaults=True)
        return json.dumps(data, default=list).encode()


def _read_json_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number, line) of all lines that are not empty."""
    with explain_read_errors(path), _open(path, "rt", path.suffix) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield number, line


def _read_parquet_rows(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (row number, the record of the row as JSON). Raises BadTable if the file has no records."""
    import polars

    try:
        frame = polars.scan_parquet(path, glob=False)
        total = frame.select(polars.len()).collect().item()
        for start in range(0, total, _PARQUET_ROWS):
            part = frame.select("record").slice(start, _PARQUET_ROWS).collect()["record"]
            yield from enumerate(part, start + 1)
    except polars.exceptions.PolarsError as error:
        raise BadTable(
            str(path),
            "records",
            allowed="a Parquet file that write_records wrote",
            got=str(error).splitlines()[0],
            remedy="Score tables are for `rubrank fuse`.",
        ) from None


def _write_parquet(path: Path, records: Iterable[GroupRecord]) -> int:
    """Write one row per record; returns how many."""
    import polars

    schema = {
        "group": polars.String,
        "step": polars.Int64,
        "rule": polars.String,
        "no_signal": polars.Boolean,
        "rollouts": polars.Int64,
        "record": polars.String,
    }
    rows = []
    for record in records:
        text = _encode_record(record).decode()
        rows.append((record.group, record.step, record.rule, record.no_signal, record.size, text))
    polars.DataFrame(rows, schema, orient="row").write_parquet(path, compression="zstd")
    return len(rows)


def parse_record(line: str, where: str) -> GroupRecord:
    """Parse the record in a line of JSON. where: file and line, for errors. Raises BadTable if it holds no record."""
    try:
        try:
            record = GroupRecord.model_validate_json(line)
        except ValidationError as error:
            if "\\ud" not in line or error.errors()[0]["type"] != "json_invalid":
                raise
            # Only Python's own parser accepts lone surrogates. If it refuses the line too, the first error stands.
            try:
                data = json.loads(line)
            except ValueError:
                raise error from None
            record = GroupRecord.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        raise BadTable(
            where,
            ".".join(map(str, first["loc"])) or "line",
            allowed=f"that of a record ({first['msg']})",
            got=repr(first.get("input"))[:80],
            remedy="Records are written by write_records, `rubrank record` or a trainer.",
        ) from None
    if record.version > VERSION:
        raise BadTable(
            where,
            "version",
            allowed=f"at most {VERSION}",
            got=str(record.version),
            remedy="Use a newer rubrank to read it.",
        )
    return record
