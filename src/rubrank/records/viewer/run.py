"""A run: its files, its index, and the thread that keeps both up to date.

    run = ViewedRun(Path("records.jsonl")); run.start()
    run.index.ready, len(run.index), run.line(17), run.progress()

The thread scans new bytes for line ends first, which is quick, so that every group can be opened; then it reads records
one by one for what filters and curves need. It looks for more every second. A last line without an end is a record as
soon as it can be read. A file that shrank, or became another one, makes the run begin anew.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from rubrank.errors import InvalidInput, RubrankError
from rubrank.records.viewer.index import Index
from rubrank.records.viewer.light import decoded
from rubrank.records.viewer.sources import RecordsPart, part_of, paths_of, read_at

_BLOCK = 1 << 24
_MOMENT, _BREATH = 0.15, 0.002  # seconds
_BETWEEN = 16  # records between two breaths, so that many questions do not stop the reading
_PAUSE = 1.0  # seconds between looks at the files
_AT_ONCE = 256  # records that are read before new bytes are looked for
_TRIED = 100  # lines of a file before it is said that there are no records
_MOST_SAID = 20  # lines that are told about because they are no records


def check_records(source: Path) -> None:
    """Raise if none of the first lines is a record: there would be nothing to look at."""
    why = "which is empty"
    for path in paths_of(source):
        with closing(part_of(path)) as part:
            part.advance()
            with part.local.open("rb") as file:
                for line in islice(file, _TRIED):
                    try:
                        decoded(line)
                        return
                    except (ValueError, RecursionError):
                        why = "which holds none" if line.strip() else why
            why = part.problem or why
    remedy = "A run that has just begun has some after its first step."
    raise InvalidInput("view", "RECORDS", "a file or a folder with records", f"{source}, {why}", remedy)


class ViewedRun:
    """One run of `rubrank view`."""

    def __init__(self, source: Path) -> None:
        self.source, self.name = source, source.name or str(source)
        self.version = 0
        """Counts up with everything that is new."""
        self.epoch = 0
        """Counts up when the run begins anew: numbers of groups are then others."""
        self.problem = ""
        self._waited_on = 0.0
        self._stop, self._lock = threading.Event(), threading.RLock()
        self._thread: threading.Thread | None = None
        self._begin()

    def _begin(self) -> None:
        for part in getattr(self, "parts", []):
            part.close()
        self.index, self.parts = Index(), list[RecordsPart]()
        self._scanned: list[int] = []
        self._lasts: list[bytes] = []

    # ------------------------------------------------------------------------------------------------------ reading

    def line(self, g: int) -> bytes:
        """The bytes of a record."""
        with self._lock:
            lines = self.index.lines
            if not 0 <= g < lines.length:
                raise IndexError(g)
            part, offset, length = (int(lines[name][g]) for name in ("part", "offset", "length"))
            return read_at(self.parts[part], offset, length)

    def progress(self) -> dict[str, Any]:
        """What is known so far."""
        with self._lock:
            total, read = sum(part.total for part in self.parts), sum(self._scanned)
            waiting = [part for part in self.parts if not part.done]
            return {
                "groups": len(self.index),
                "ready": self.index.ready,
                "bytes": total,
                "scanned": not waiting and read >= sum(part.size for part in self.parts) - _BLOCK,
                "files": len(self.parts),
                "unreadable": len(self.index.unreadable),
                "unreadable_first": self.index.unreadable[:_MOST_SAID],
            }

    def make_way(self) -> None:
        """A request is waiting for its answer: read more slowly for a moment."""
        self._waited_on = time.monotonic() + _MOMENT

    # ------------------------------------------------------------------------------------------------------- thread

    def start(self) -> None:
        """Begin to read, in a thread that ends with the process."""
        self._thread = threading.Thread(target=self._keep_up, name=f"rubrank view {self.name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and give back temporary files."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=10)
        for part in self.parts:
            part.close()

    def _keep_up(self) -> None:
        while not self._stop.is_set():
            try:
                busy = self.step()
                self.problem = next((part.problem for part in self.parts if part.problem), "")
            except (OSError, RubrankError, ValueError) as error:
                busy, self.problem = False, str(error)
            if not busy:
                self._stop.wait(_PAUSE)

    def step(self, until: Callable[[], bool] = lambda: False) -> bool:
        """Look for what is new, and read some of it; False: there was nothing."""
        with self._lock:
            if not self._look():
                self._begin()
                self.epoch += 1
                self._look()
        found = self._scan()
        read = self._read(until)
        if found or read:
            self.version += 1
        return bool(found or read) or any(not part.done for part in self.parts)

    def _look(self) -> bool:
        """Refresh the parts; False: one is no longer what was read."""
        known = {part.path for part in self.parts}
        for path in paths_of(self.source):
            if path not in known:
                self.parts.append(part_of(path))
                self._scanned.append(0)
                self._lasts.append(b"")
        for p, part in enumerate(self.parts):
            if not part.path.exists() or not part.advance():
                return False
            if self._lasts[p] and part.before(self._scanned[p]) != self._lasts[p]:
                return False
        return True

    def _scan(self) -> int:
        """Find the lines of all new bytes."""
        before = len(self.index)
        for p, part in enumerate(self.parts):
            if self._scanned[p] >= part.size:
                continue
            with part.local.open("rb") as file:
                while not self._stop.is_set() and self._scan_block(p, part, file):
                    pass
            self._lasts[p] = part.before(self._scanned[p])
        return len(self.index) - before

    def _scan_block(self, p: int, part: RecordsPart, file: Any) -> bool:
        """Lines of the next block; False: no line ends in what is left."""
        start = self._scanned[p]
        file.seek(start)
        block = file.read(min(_BLOCK, part.size - start))
        ends = _line_ends(block)
        size = _BLOCK
        while not len(ends) and len(block) < part.size - start:  # one line is longer than a block
            size *= 2
            file.seek(start)
            block = file.read(min(size, part.size - start))
            ends = _line_ends(block)
        if not len(ends):
            return self._last_line(p, start, block)
        starts = np.concatenate([[0], ends[:-1] + 1])
        kept = ends - starts > 1  # not an empty line
        with self._lock:
            lengths = (ends - starts)[kept]
            self.index.lines.extend(part=np.full(len(lengths), p), offset=start + starts[kept], length=lengths)
            self._scanned[p] = start + int(ends[-1]) + 1
        return self._scanned[p] < part.size

    def _last_line(self, p: int, start: int, block: bytes) -> bool:
        """Without a line end: a record if it is whole already."""
        try:
            decoded(block)
        except (ValueError, RecursionError):
            return False
        with self._lock:
            self.index.lines.append(part=p, offset=start, length=len(block))
            self._scanned[p] = start + len(block)
        return False

    def _read(self, until: Callable[[], bool]) -> int:
        """Facts of the next groups."""
        index, count = self.index, 0
        while index.ready < len(index) and count < _AT_ONCE and not self._stop.is_set() and not until():
            if count % _BETWEEN == 0 and time.monotonic() < self._waited_on:
                time.sleep(_BREATH)
            line = self.line(index.ready)
            try:
                record = decoded(line)
                with self._lock:
                    index.add_record(record)
            except (ValueError, RecursionError, OverflowError, TypeError) as error:
                with self._lock:
                    index.add_unreadable(str(error)[:200])
            count += 1
        return count

    def catch_up(self, seconds: float = 60.0) -> None:
        """Read everything that is there, in this thread: for tests and scripts."""
        end = time.monotonic() + seconds
        while self.step() and time.monotonic() < end:
            pass


def _line_ends(block: bytes) -> np.ndarray:
    """Where line ends are; by searching, which for long lines is faster than comparing every byte."""
    found, at = [], block.find(b"\n")
    while at >= 0:
        found.append(at)
        at = block.find(b"\n", at + 1)
    return np.array(found, dtype=np.int64)
