"""Remove records that a resumed run will write again.

    rewind_records(Path("records.jsonl.zst"), 200)        keeps training before step 200, and evaluations up to it
    rewind_records(path, 200, {"file": "records.jsonl.zst", "bytes": 81_234})     the checkpoint knows the place

A run writes its records in order, so the records to remove are at the end. Nothing is copied: a file is truncated after
the last complete piece before the step. A piece is a line of a .jsonl, a member of a .gz, or a frame of a .zst; each
call of a writer appends one member or frame. If a piece contains records from before and after the step, those from
before are written again. A killed run may have left an incomplete piece at the end, which is removed with a warning.
"""

from __future__ import annotations

import json
import logging
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rubrank._files import import_zstandard
from rubrank.errors import InvalidInput
from rubrank.records.files import append_lines, find_record_files

_log = logging.getLogger("rubrank")
_BLOCK = 1 << 20  # bytes that are read at a time
_GZIP_WINDOW = 31  # zlib's code for the largest window with the headers of gzip


@dataclass
class _Piece:
    """Lines that were written together, from byte `start` on; `is_whole` is False if the piece was cut short."""

    start: int
    lines: list[bytes] = field(default_factory=list)
    is_whole: bool = False


def rewind_records(path: Path, step: int, place: Mapping[str, Any] | None = None) -> int:
    """Drop the records from `step` on; returns how many.

    An evaluation at `step` itself was made before the checkpoint, and stays. Before the first step there is no
    checkpoint: a run that begins at step 0 evaluates again, and everything is dropped.
    place: where the records ended at the checkpoint, from `RecordWriter.find_end`; None: it is searched for.
    """
    files = find_record_files(path, missing_ok=True)
    folder = str(path.parent.resolve())
    cuts: list[tuple[Path, int]] | None = None
    if step == 0:
        cuts = [(file, 0) for file in files]
    elif place is not None and place.get("folder", folder) == folder:
        # The checkpoint from which a branch starts has a place in the records of another run, in another folder.
        cuts = _find_cuts(files, place)
    if cuts is not None:
        return sum(_cut(file, size, path) for file, size in cuts)
    dropped = 0
    for file in reversed(files):
        size, remaining_lines = _find_step(file, step)
        dropped += _cut(file, size, path, remaining_lines)
        if size or remaining_lines:
            break
    return dropped


def drop_half_record(path: Path) -> None:
    """Remove a record that a killed process left half written; only for a file that no other process writes.

    If it stayed, the next record would continue its line, and the file could not be read from there on.
    """
    files = find_record_files(path, missing_ok=True)
    if not files:
        return
    file = files[-1]
    if file.suffix == ".jsonl":
        _cut(file, _find_end_of_last_line(file), path)
        return
    for piece in _read_pieces(file):
        if not piece.is_whole:
            whole_lines = [line for line in piece.lines if line.endswith(b"\n")]
            _cut(file, piece.start, path, whole_lines)
            return


def _find_end_of_last_line(file: Path) -> int:
    """Return the number of bytes up to the last line break, reading from the end because files may be large."""
    end = file.stat().st_size
    with file.open("rb") as stream:
        while end:
            start = max(end - _BLOCK, 0)
            stream.seek(start)
            newline = stream.read(end - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            end = start
    return 0


def _find_cuts(files: Sequence[Path], place: Mapping[str, Any]) -> list[tuple[Path, int]] | None:
    """Return the files to cut, each with the number of bytes that stay; None if the files do not match the place."""
    if not place.get("file"):  # nothing had been written
        return [(file, 0) for file in files]
    names = [file.name for file in files]
    if place["file"] not in names:
        return None
    number = names.index(place["file"])
    if files[number].stat().st_size < place["bytes"]:
        return None
    return [(files[number], place["bytes"]), *((file, 0) for file in files[number + 1 :])]


def _find_step(file: Path, step: int) -> tuple[int, list[bytes]]:
    """Return the byte at which to truncate a file, and the lines after that byte that are from before the step."""
    end = None
    remaining_lines: list[bytes] = []
    for piece in _read_pieces(file):
        lines_before = [line for line in piece.lines if _is_before(line, step)]
        if end is None:
            if piece.is_whole and len(lines_before) == len(piece.lines):
                continue
            end = piece.start
        remaining_lines += lines_before
    return file.stat().st_size if end is None else end, remaining_lines


def _is_before(line: bytes, step: int) -> bool:
    """Whether a record stays if a run is resumed at `step`: evaluations at `step` itself do."""
    try:
        record = json.loads(line)
    except ValueError:
        return False  # half a line
    record_step = record.get("step")
    if record_step is None:
        return True
    is_evaluation = record.get("metadata", {}).get("mode") == "eval"
    return bool(record_step <= step if is_evaluation else record_step < step)


def _cut(file: Path, size: int, path: Path, remaining_lines: Sequence[bytes] = ()) -> int:
    """Truncate a file and append the lines that stay; returns how many lines were dropped."""
    if file.stat().st_size == size:
        return 0
    pieces = list(_read_pieces(file, size))
    if not all(piece.is_whole for piece in pieces):
        _log.warning("%s: a record that was being written when the run was killed is dropped", file)
    os.truncate(file, size)
    append_lines(file, remaining_lines)
    if not size and not remaining_lines and file != path:
        file.unlink()  # a rotated file that would be empty; the resumed run makes it again
    return sum(len(piece.lines) for piece in pieces) - len(remaining_lines)


# -------------------------------------------------------------------------------------------------------------- pieces


def _read_pieces(file: Path, start: int = 0) -> Iterator[_Piece]:
    """Yield the pieces of a file from a byte on, in order; raises InvalidInput if a compressed file is damaged."""
    if file.suffix == ".jsonl":
        with file.open("rb") as stream:
            stream.seek(start)
            for line in stream:
                yield _Piece(start, [line], line.endswith(b"\n"))
                start += len(line)
        return
    try:
        yield from _read_compressed_pieces(file, start)
    except Exception as error:
        # The error of zstandard is known by its name: the package need not be installed.
        if not isinstance(error, zlib.error) and type(error).__name__ != "ZstdError":
            raise
        raise InvalidInput(
            "records",
            "path",
            allowed="a file that can be read to its end",
            got=f"{file} ({error})",
            remedy="Move it away.",
        ) from None


def _read_compressed_pieces(file: Path, start: int) -> Iterator[_Piece]:
    """Yield the members of a .gz or the frames of a .zst. An incomplete piece has the lines that can be read."""

    def new_decompressor() -> Any:
        if file.suffix == ".gz":
            return zlib.decompressobj(_GZIP_WINDOW)
        return import_zstandard(file).ZstdDecompressor().decompressobj()

    decompressor = new_decompressor()
    piece = _Piece(start)
    half_line = b""
    position = start
    with file.open("rb") as stream:
        stream.seek(start)
        while block := stream.read(_BLOCK):
            position += len(block)
            while block:
                text = half_line + decompressor.decompress(block)
                *lines, half_line = text.split(b"\n")
                piece.lines += [line + b"\n" for line in lines]
                # The bytes after the end of this piece, if it has ended.
                block = decompressor.unused_data
                if decompressor.eof:
                    piece.is_whole = True
                    yield piece
                    piece = _Piece(position - len(block))
                    decompressor = new_decompressor()
                    half_line = b""
    if piece.start < position:
        if half_line:
            piece.lines.append(half_line)
        yield piece
