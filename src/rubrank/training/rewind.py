"""Remove records that a resumed run will write again.

    rewind_records(Path("records.jsonl.zst"), 200)        keeps training before step 200, and evaluations up to it

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
from collections.abc import Callable, Iterator
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


def rewind_records(path: Path, step: int) -> int:
    """Drop the records from `step` on; returns how many.

    An evaluation at `step` itself was made before the checkpoint, and stays. Before the first step there is no
    checkpoint: a run that begins at step 0 evaluates again, and everything is dropped.
    """
    dropped = 0
    for file in reversed(find_record_files(path, missing_ok=True)):
        dropped += _cut(file, lambda line: step > 0 and _is_before(line, step))
        if file.stat().st_size:
            break  # earlier files have earlier records only
        if file != path:
            file.unlink()  # a rotated file that is empty now; the resumed run makes it again
    return dropped


def drop_half_record(path: Path) -> None:
    """Remove a record that a killed process left half written; only for a file that no other process writes.

    If it stayed, the next record would continue its line, and the file could not be read from there on.
    """
    files = find_record_files(path, missing_ok=True)
    if files:
        _cut(files[-1], lambda line: line.endswith(b"\n"))


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


def _cut(file: Path, stays: Callable[[bytes], bool]) -> int:
    """Remove the lines of a file that do not stay, and an incomplete piece; returns how many lines were removed."""
    end = None
    remaining_lines: list[bytes] = []
    dropped = 0
    for piece in _read_pieces(file):
        staying_lines = [line for line in piece.lines if stays(line)]
        if end is None:
            if piece.is_whole and len(staying_lines) == len(piece.lines):
                continue
            end = piece.start
        remaining_lines += staying_lines
        dropped += len(piece.lines) - len(staying_lines)
        if not piece.is_whole:
            _log.warning(
                "%s: a record that was being written when the run was killed is dropped", file
            )
    if end is not None:
        os.truncate(file, end)
        append_lines(file, remaining_lines)
    return dropped


# -------------------------------------------------------------------------------------------------------------- pieces


def _read_pieces(file: Path) -> Iterator[_Piece]:
    """Yield the pieces of a file, in order; raises InvalidInput if a compressed file is damaged."""
    if file.suffix == ".jsonl":
        start = 0
        with file.open("rb") as stream:
            for line in stream:
                yield _Piece(start, [line], line.endswith(b"\n"))
                start += len(line)
        return
    try:
        yield from _read_compressed_pieces(file)
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


def _read_compressed_pieces(file: Path) -> Iterator[_Piece]:
    """Yield the members of a .gz or the frames of a .zst. An incomplete piece has the lines that can be read."""

    def new_decompressor() -> Any:
        if file.suffix == ".gz":
            return zlib.decompressobj(_GZIP_WINDOW)
        return import_zstandard(file).ZstdDecompressor().decompressobj()

    decompressor = new_decompressor()
    piece = _Piece(0)
    half_line = b""
    position = 0
    with file.open("rb") as stream:
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
