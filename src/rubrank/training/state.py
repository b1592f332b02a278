"""Records of a run that goes on from a checkpoint: what it makes again is cut off, in place.

    rewind(Path("records.jsonl.zst"), 200)               keeps training before step 200, and evaluations up to it
    rewind(path, 200, {"file": "records.jsonl.zst", "bytes": 81_234})    the same, where the checkpoint knows the place

Nothing is copied: a file is shortened to where its last whole piece before the step ends. Pieces are lines, members of
a .gz or frames of a .zst; each call of a writer adds one. A run that was killed may have left half a piece at the end;
it goes too, and that is said. Records that a run writes stand in the order in which they were made, so that what goes
is the end of a file; where a piece holds both, what stays of it is written again.
"""

from __future__ import annotations

import json
import logging
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rubrank._files import import_zstandard
from rubrank.errors import InvalidInput
from rubrank.records.files import append_lines, record_files

_log = logging.getLogger("rubrank")
_BLOCK = 1 << 20


@dataclass
class _Piece:
    """Lines of a file that were written together, from `start` on; `whole` is False where it was cut short."""

    start: int
    lines: list[bytes] = field(default_factory=list)
    whole: bool = False


def rewind(path: Path, step: int, place: Mapping[str, Any] | None = None) -> int:
    """Drop the records from `step` on; returns how many went.

    An evaluation at `step` itself was made before the checkpoint, and stays. place: where the records ended when the
    checkpoint was made, from `RecordWriter.place`; None: it is looked for.
    """
    files = record_files(path, missing_ok=True)
    known = None if place is None else _known(files, place)
    if known is not None:
        return sum(_cut(file, at, path, ()) for file, at in known)
    dropped = 0
    for file in reversed(files):
        at, kept = _end_of(file, step)
        gone = _cut(file, at, path, kept)
        dropped += gone
        if at or kept:
            break
    return dropped


def drop_half(path: Path) -> None:
    """Take away what a process that was killed had half written; only where nobody else writes there.

    Else the next record would be added to half a line, and nobody could read the file from there on.
    """
    files = record_files(path, missing_ok=True)
    if not files:
        return
    at, kept = _half_of(files[-1])
    _cut(files[-1], at, path, kept)


def _half_of(file: Path) -> tuple[int, list[bytes]]:
    """Where the last whole piece ends, and whole lines after that."""
    size = file.stat().st_size
    if file.suffix == ".jsonl":
        return _last_break(file, size), []
    piece = next((piece for piece in _pieces(file, 0) if not piece.whole), None)
    return (size, []) if piece is None else (piece.start, [line for line in piece.lines if line.endswith(b"\n")])


def _last_break(file: Path, size: int) -> int:
    with file.open("rb") as opened:
        while size:
            start = max(size - _BLOCK, 0)
            opened.seek(start)
            at = opened.read(size - start).rfind(b"\n")
            if at >= 0:
                return start + at + 1
            size = start
    return 0


def _known(files: Sequence[Path], place: Mapping[str, Any]) -> list[tuple[Path, int]] | None:
    """Files with the bytes that stay of them; None where they are not as they were any more."""
    names = [file.name for file in files]
    if not place.get("file"):  # nothing had been written
        return [(file, 0) for file in files]
    if place["file"] not in names:
        return None
    at = names.index(place["file"])
    if files[at].stat().st_size < place["bytes"]:
        return None
    return [(files[at], place["bytes"]), *((file, 0) for file in files[at + 1 :])]


def _end_of(file: Path, step: int) -> tuple[int, list[bytes]]:
    """Where what comes before a step ends, and lines after that which stay all the same."""
    end, kept = None, list[bytes]()
    for piece in _pieces(file, 0):
        stays = [line for line in piece.lines if _is_before(line, step)]
        if end is None and piece.whole and len(stays) == len(piece.lines):
            continue
        end = piece.start if end is None else end
        kept += stays
    return file.stat().st_size if end is None else end, kept


def _cut(file: Path, at: int, path: Path, kept: Sequence[bytes]) -> int:
    """Shorten a file and write again what stays; returns how many lines went."""
    if file.stat().st_size == at:
        return 0
    lines, whole = 0, True
    for piece in _pieces(file, at):
        lines, whole = lines + len(piece.lines), whole and piece.whole
    if not whole:
        _log.warning("%s: what was being written when the run was killed is dropped", file)
    os.truncate(file, at)
    append_lines(file, kept)
    if not at and not kept and file != path:
        file.unlink()  # of several: the next one begins where this one did
    return lines - len(kept)


def _is_before(line: bytes, step: int) -> bool:
    try:
        record = json.loads(line)
    except ValueError:
        return False  # half a line
    at, mode = record.get("step"), record.get("metadata", {}).get("mode")
    return at is None or at < step + (mode == "eval")


# -------------------------------------------------------------------------------------------------------------- pieces


def _pieces(file: Path, at: int) -> Iterator[_Piece]:
    """The pieces of a file from a place on, in order."""
    if file.suffix == ".jsonl":
        yield from _plain_pieces(file, at)
        return
    new = zlib.decompressobj if file.suffix == ".gz" else import_zstandard(file).ZstdDecompressor().decompressobj
    given = (31,) if file.suffix == ".gz" else ()
    try:
        yield from _packed(file, at, lambda: new(*given))
    except Exception as error:  # of zlib or zstandard
        if type(error).__name__ not in ("error", "ZstdError"):
            raise
        got = f"{file} ({error})"
        raise InvalidInput("records", "path", "a file that can be read to its end", got, "Move it away.") from None


def _plain_pieces(file: Path, at: int) -> Iterator[_Piece]:
    with file.open("rb") as opened:
        opened.seek(at)
        for line in opened:
            yield _Piece(at, [line], line.endswith(b"\n"))
            at += len(line)


def _packed(file: Path, at: int, unpacker: Callable[[], Any]) -> Iterator[_Piece]:
    """Members or frames; of one that was cut short, the whole lines that can be read, and the beginning of the next."""
    unpack, piece, rest = unpacker(), _Piece(at), b""
    with file.open("rb") as opened:
        opened.seek(at)
        while block := opened.read(_BLOCK):
            at += len(block)
            while block:
                *lines, rest = (rest + unpack.decompress(block)).split(b"\n")
                piece.lines += [line + b"\n" for line in lines]
                block = unpack.unused_data
                if unpack.eof:
                    piece.whole = True
                    yield piece
                    unpack, piece, rest = unpacker(), _Piece(at - len(block)), b""
    if piece.start < at:
        piece.lines += [rest] if rest else []
        yield piece
