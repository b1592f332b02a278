"""Read a run that may still be written: its files, its index, and the thread that keeps both up to date.

    run = LiveRun(Path("records.jsonl"))
    run.start()
    len(run.index), run.count_lines(), run.read_line(17), run.describe()

The thread first scans new bytes for line ends, which is quick, so that every group can be opened; then it reads the
records one by one into the index. It looks for more every second.

    file appears ──► lines found ──► records read into the index ──► waits for more
         ▲                                                              │
         └──────────── file shrank or was replaced: start over ◄────────┘

A last line without a line end counts as soon as it can be parsed. Compressed files and Parquet are unpacked into a
temporary file as they grow.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import ExitStack, closing, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from rubrank._files import explain_read_errors, open_bytes
from rubrank._folders import make_folder
from rubrank.errors import InvalidInput, RubrankError
from rubrank.records.files import SUFFIXES, find_record_files
from rubrank.tables.sources import read_columnar
from rubrank.viewer.index import Index

if TYPE_CHECKING:
    from rubrank.viewer.sources import GradingFeed

# Bytes unpacked at once: a compressed file may be larger than memory.
_UNPACK_READ = 1 << 22
# Seconds between looks at the files: a training step takes far longer.
_LOOK_EVERY = 1.0
# After so many records, the thread looks for new lines again, so that groups can be opened before they are indexed.
_RECORDS_PER_LOOK = 256
# Lines that are tried before a file counts as one without records.
_TESTED_LINES = 100
# Lines that are not records, of those that the page lists.
_REPORTED_LINES = 20
# Bytes before the end of what was read, by which a file that was replaced is recognized.
_CHECKED_BYTES = 256


# -------------------------------------------------------------- the fields of a record that are needed


class LightCriterion(msgspec.Struct):
    """A criterion."""

    name: str
    layer: str = "quality"
    verifier: str | None = None


class LightGate(msgspec.Struct):
    """What the gate did."""

    passed: list[bool]
    factor: list[float]


class LightRecord(msgspec.Struct):
    """The fields of a `GroupRecord` that an index needs, under the same names.

    Decoding skips the rest and checks types on the way: 100,000 records take seconds instead of minutes.
    """

    group: str
    criteria: list[LightCriterion]
    scores: list[list[float | None]]
    weights: list[float]
    reward: list[float]
    no_signal: bool
    rule: str = "rlvr2"
    step: int | None = None
    reasons: list[list[str]] | None = None
    outcomes: dict[str, list[list[float | None]]] = {}
    attribute_names: list[str] = []
    attributes: list[list[float | None]] | None = None
    gate: LightGate | None = None
    agreement: float | None = None
    flags: list[str] = []
    prompt: list[dict[str, Any]] | None = None
    responses: list[str] | None = None
    others: dict[str, list[float]] = {}
    metadata: dict[str, Any] = {}


_RECORD_DECODER = msgspec.json.Decoder(LightRecord)


def decode_record(line: bytes) -> LightRecord:
    """Return the fields of a line; raises ValueError if it is not a record."""
    try:
        return _RECORD_DECODER.decode(line)
    except msgspec.ValidationError:
        raise  # it is JSON, but not a record
    except msgspec.DecodeError:
        # NaN and lone surrogates, which only Python's own parser accepts.
        return msgspec.convert(json.loads(line), LightRecord)


def _is_record(line: bytes) -> bool:
    try:
        decode_record(line)
    except (ValueError, RecursionError):
        return False
    return True


# ------------------------------------------------------------------------------------- files that grow


class GrowingFile:
    """A file of records that may still grow. A packed one is unpacked into a temporary file whenever it has changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = path
        """The file with the plain lines."""
        self.problem = ""
        """Why it cannot be read on; what was read stays."""
        self.scanned = 0
        """Bytes of `lines` that were scanned for line ends."""
        self.last_bytes = b""
        """The last scanned bytes."""
        self._status: os.stat_result | None = None
        # The temporary file is deleted by close(); after a kill, a later process deletes it.
        self._cleanup = ExitStack()
        if not path.name.endswith(".jsonl"):
            self.lines = Path(self._cleanup.enter_context(make_folder("view"))) / "lines.jsonl"
            self.lines.touch()

    def refresh(self) -> bool:
        """Look at the file again. False: it was replaced or became shorter, and must be read from the start."""
        earlier = self._status
        status = self.path.stat()
        self._status = status
        has_changed = True
        if earlier is not None:
            if status.st_ino != earlier.st_ino or status.st_size < earlier.st_size:
                return False
            has_changed = (
                status.st_size > earlier.st_size or status.st_mtime_ns > earlier.st_mtime_ns
            )
        if has_changed and self.lines != self.path:
            self._unpack()
        return True

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes of the plain lines, fewer at the end."""
        with self.lines.open("rb") as file:
            file.seek(offset)
            return file.read(length)

    def read_before_scanned(self) -> bytes:
        """Return the last bytes that were scanned; if they have changed, so has the file."""
        start = max(0, self.scanned - _CHECKED_BYTES)
        return self.read(start, self.scanned - start)

    def close(self) -> None:
        """Remove temporary files."""
        self._cleanup.close()

    def _unpack(self) -> None:
        """Write the lines of a .gz, .zst or Parquet file into `lines`, as far as they can be read."""
        self.problem = ""
        with self.lines.open("wb") as unpacked:
            try:
                # EOFError: the last member of the file is still being written.
                with explain_read_errors(self.path), suppress(EOFError):
                    if self.path.suffix == ".parquet":
                        frame = read_columnar(self.path)
                        # A file without this column holds something else: `has_records` then finds no line.
                        for line in frame["record"] if "record" in frame.columns else ():
                            unpacked.write(line.encode() + b"\n")
                        return
                    with open_bytes(self.path) as packed:
                        while part := packed.read1(_UNPACK_READ):
                            unpacked.write(part)
            except InvalidInput as error:
                self.problem = str(error)


def has_records(source: Path) -> bool:
    """Return whether a path names at least one file whose first lines hold a record."""
    for path in find_record_files(source, missing_ok=True):
        if not path.name.endswith(SUFFIXES):
            continue
        with closing(GrowingFile(path)) as part:
            part.refresh()
            with part.lines.open("rb") as file:
                if any(_is_record(line) for line in islice(file, _TESTED_LINES)):
                    return True
    return False


# --------------------------------------------------------------------------------------------- the run


class LiveRun:
    """One run of `rubrank view`.

    One thread adds to it, and the threads of the server read. The lock guards what must fit together: files, lines, and
    their index.
    """

    def __init__(
        self, source: Path, name: str | None = None, feed: GradingFeed | None = None
    ) -> None:
        """feed: what still writes the records, if that happens in this process."""
        self.source = source
        self.name = name or source.name or str(source)
        self.feed = feed
        self.index = Index()
        self.version = 0
        """Grows with everything new."""
        self.epoch = 0
        """Grows when the run is read again from the start: a group may then have another number."""
        self.problem = ""
        self._files: list[GrowingFile] = []
        self._lines: list[tuple[GrowingFile, int, int]] = []
        """The lines: file, offset, length."""
        self._stopped = threading.Event()
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None

    def count_lines(self) -> int:
        """Count the groups that can be opened; those in the index can also be filtered."""
        return len(self._lines)

    def read_line(self, g: int) -> bytes:
        """Return the bytes of a record; raises IndexError if there is none."""
        with self._lock:
            if not 0 <= g < len(self._lines):
                raise IndexError(g)
            file, offset, length = self._lines[g]
            return file.read(offset, length)

    def describe(self) -> dict[str, Any]:
        """Return how far the run is read, as the page shows it."""
        with self._lock:
            unreadable = self.index.unreadable
            return {
                "groups": len(self._lines),
                "ready": len(self.index),
                "files": len(self._files),
                "unreadable": len(unreadable),
                "unreadable_first": unreadable[:_REPORTED_LINES],
            }

    def start(self) -> None:
        """Begin to read, in a thread that ends with the process."""
        if self.feed is not None:
            self.feed.start()
        self._thread = threading.Thread(
            target=self._keep_reading, name=f"rubrank view {self.name}", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the thread and remove temporary files."""
        if self.feed is not None:
            self.feed.stop()
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(timeout=10)
        for file in self._files:
            file.close()

    def read_everything(self) -> None:
        """Read all that is there, in this thread: for tests and scripts."""
        while self.read_some():
            pass

    def read_some(self) -> bool:
        """Look for new lines and read some of them; False: there was nothing new."""
        with self._lock:
            if not self._refresh_files():
                # A file was replaced: forget everything that was read.
                for file in self._files:
                    file.close()
                self.index = Index()
                self.epoch += 1
                self._files = []
                self._lines = []
                self._refresh_files()
        lines = self._scan_files()
        records = self._read_records()
        if lines or records:
            self.version += 1
        return bool(lines or records)

    def _keep_reading(self) -> None:
        """Read until the run is stopped; a problem is kept for the page, and reading goes on."""
        while not self._stopped.is_set():
            try:
                is_busy = self.read_some()
                self.problem = next((file.problem for file in self._files if file.problem), "")
            except (OSError, RubrankError, ValueError) as error:
                is_busy = False
                self.problem = str(error)
            if not is_busy:
                self._stopped.wait(_LOOK_EVERY)

    def _refresh_files(self) -> bool:
        """Look at all files, also at new ones; False: one of them was replaced, changed or removed."""
        open_paths = {file.path for file in self._files}
        for path in find_record_files(self.source, missing_ok=True):
            if path not in open_paths:
                self._files.append(GrowingFile(path))
        for file in self._files:
            if not file.path.exists() or not file.refresh():
                return False
            if file.read_before_scanned() != file.last_bytes:
                return False
        return True

    def _scan_files(self) -> int:
        """Find the lines in all new bytes; returns how many."""
        before = len(self._lines)
        for file in self._files:
            with file.lines.open("rb") as lines:
                lines.seek(file.scanned)
                for line in lines:
                    if self._stopped.is_set() or not (line.endswith(b"\n") or _is_record(line)):
                        break  # a last line without a line end counts when it is complete
                    if line.strip():
                        self._lines.append((file, file.scanned, len(line.rstrip(b"\n"))))
                    file.scanned += len(line)
            file.last_bytes = file.read_before_scanned()
        return len(self._lines) - before

    def _read_records(self) -> int:
        """Read the next records into the index; returns how many."""
        count = 0
        while (
            len(self.index) < len(self._lines)
            and count < _RECORDS_PER_LOOK
            and not self._stopped.is_set()
        ):
            line = self.read_line(len(self.index))
            # A damaged line is listed on the page and must not stop the thread, which reads all other lines.
            try:
                record = decode_record(line)
                measured = {}
                if record.responses:
                    measured["answer characters"] = np.array(
                        [len(text) for text in record.responses]
                    )
                with self._lock:
                    self.index.add_record(record, measured)
            except (ValueError, RecursionError, OverflowError, TypeError) as error:
                with self._lock:
                    self.index.add_unreadable(str(error)[:200])
            count += 1
        return count
