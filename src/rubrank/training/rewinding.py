"""Records of a run that goes on from a checkpoint: what it makes again is taken away.

    rewind(Path("records.jsonl"), 200)         keeps training before step 200, and evaluations up to it

A run that was killed may have left half a line at the end; it goes too. The file is replaced as a whole, so that a
second kill loses nothing.
"""

from __future__ import annotations

import gzip
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from rubrank._files import zstandard_for


def rewind(path: Path, step: int) -> int:
    """Drop the records from `step` on; returns how many lines went.

    An evaluation at `step` itself was made before the checkpoint, and stays.
    """
    if not path.exists():
        return 0
    dropped, beside = 0, path.with_name(f".{path.name}")
    with _open_new(beside) as new:
        for line in _lines(path):
            if _is_before(line, step):
                new.write(line)
            else:
                dropped += 1
    if dropped:
        os.replace(beside, path)
    else:
        beside.unlink()
    return dropped


def _lines(path: Path) -> Iterator[str]:
    try:
        if path.suffix == ".zst":
            yield from _lines_of_frames(path)
            return
        opener: Any = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rt", encoding="utf-8", errors="surrogatepass") as file:
            yield from file
    except EOFError:  # a compressed file that was cut short
        yield ""


def _lines_of_frames(path: Path) -> Iterator[str]:
    """Lines of a .zst; raises EOFError where its last frame was cut short, which the library's own reader hides."""
    zstandard, rest, frame = zstandard_for(path), b"", None
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            while chunk:
                frame = frame or zstandard.ZstdDecompressor().decompressobj()
                *lines, rest = (rest + frame.decompress(chunk)).split(b"\n")
                yield from (f"{line.decode('utf-8', 'surrogatepass')}\n" for line in lines)
                chunk, frame = (frame.unused_data, None) if frame.eof else (b"", frame)
    if rest or frame is not None:
        raise EOFError


def _is_before(line: str, step: int) -> bool:
    try:
        record = json.loads(line)
    except ValueError:
        return False  # half a line
    at, mode = record.get("step"), record.get("metadata", {}).get("mode")
    return at is None or at < step + (mode == "eval")


def _open_new(path: Path) -> IO[Any]:
    if path.suffix == ".zst":
        packed = zstandard_for(path).ZstdCompressor().stream_writer(path.open("wb"))
        return io.TextIOWrapper(packed, encoding="utf-8", errors="surrogatepass")
    opener: Any = gzip.open if path.suffix == ".gz" else open
    return opener(path, "wt", encoding="utf-8", errors="surrogatepass")
