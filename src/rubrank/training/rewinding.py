"""Records of a run that goes on from a checkpoint: what it makes again is taken away.

    rewind(Path("records.jsonl"), 200)         keeps training before step 200, and evaluations up to it

A run that was killed may have left half a line at the end; it goes too. The file is replaced as a whole, so that a
second kill loses nothing.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any


def rewind(path: Path, step: int) -> int:
    """Drop the records from `step` on; returns how many lines went.

    An evaluation at `step` itself was made before the checkpoint, and stays.
    """
    if not path.exists():
        return 0
    dropped, beside = 0, path.with_name(f".{path.name}")
    with _open(path, "rt") as old, _open(beside, "wt") as new:
        for line in _lines(old):
            if _is_before(line, step):
                new.write(line)
            else:
                dropped += 1
    if dropped:
        os.replace(beside, path)
    else:
        beside.unlink()
    return dropped


def _lines(file: IO[str]) -> Iterator[str]:
    try:
        yield from file
    except EOFError:  # a compressed file that was cut short
        yield ""


def _is_before(line: str, step: int) -> bool:
    try:
        record = json.loads(line)
    except ValueError:
        return False  # half a line
    at, mode = record.get("step"), record.get("metadata", {}).get("mode")
    return at is None or at < step + (mode == "eval")


def _open(path: Path, mode: str) -> IO[Any]:
    opener: Any = gzip.open if path.suffix == ".gz" else open
    return opener(path, mode, encoding="utf-8", errors="surrogatepass")
