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
import time
import weakref
from collections.abc import Iterator
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
from rubrank.tables.frames import read_columnar
from rubrank.viewer.index import Index

if TYPE_CHECKING:
    from rubrank.viewer.sources import GradingFeed

_UNPACK_READ = 1 << 22  # bytes unpacked at once
_LOOK_EVERY = 1.0  # seconds between looks at the files
_RECORDS_PER_LOOK = 256
_TESTED_LINES = 100  # of a file, before it is said to hold no records
_REPORTED_LINES = 20  # that are not records
_CHECKED_BYTES = 256  # before the end of what was read, to see that the file is still the same
# While a request is being answered, reading pauses briefly every 16 records: the page stays quick.
_REQUEST_SECONDS = 0.15
_PAUSE_SECONDS = 0.002
_RECORDS_PER_PAUSE = 16
_TEXT_FIELDS = ("group", "reasons", "prompt", "turns", "responses", "reasoning")


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


def list_texts(line: bytes) -> Iterator[str]:
    """Yield every text of a record that a reader may search for; raises ValueError if the line is not JSON."""
    record = json.loads(line)
    names = [criterion["name"] for criterion in record.get("criteria", ())]
    stack = [names, *(record.get(field) for field in _TEXT_FIELDS)]
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)


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
    """A plain file of lines that may still grow."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.local = path
        """The file with the plain lines."""
        self.size = 0
        """Bytes of `local` that can be read."""
        self.total = 0
        """Bytes of the file itself."""
        self.problem = ""
        """Why it cannot be read on; what was read stays."""
        self.scanned = 0
        """Bytes of `local` that were scanned for lines."""
        self.last_bytes = b""
        """The last scanned bytes."""
        self._inode: int | None = None

    def refresh(self) -> bool:
        """Update `size` and `total`. False: the file was replaced or became shorter, and must be read again."""
        status = self.path.stat()
        is_same = self._inode in (None, status.st_ino) and status.st_size >= self.total
        self._inode = status.st_ino
        self.total = status.st_size
        if is_same:
            self._unpack_more()
        return is_same

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes of the plain lines, fewer at the end."""
        descriptor = os.open(self.local, os.O_RDONLY)
        try:
            return os.pread(descriptor, length, offset)
        finally:
            os.close(descriptor)

    def read_before_scanned(self) -> bytes:
        """Return the last bytes that were scanned; if they have changed, so has the file."""
        start = max(0, self.scanned - _CHECKED_BYTES)
        return self.read(start, self.scanned - start)

    def close(self) -> None:
        """Remove temporary files."""

    def _unpack_more(self) -> None:
        """Update `size` and `problem`; files that are not plain write their lines into `local`."""
        self.size = self.total


class _UnpackedFile(GrowingFile):
    """A compressed file or Parquet, whose lines are written to a temporary file whenever it has changed.

    The temporary file is deleted by close(), at the end of the process, or after a kill by a later process.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        cleanup = ExitStack()
        # Runs once: in close(), or when the process ends.
        self._cleanup = weakref.finalize(self, cleanup.close)
        self.local = Path(cleanup.enter_context(make_folder("view"))) / "lines.jsonl"
        self.local.touch()
        self._unpacked_version = (0, 0)

    def close(self) -> None:
        self._cleanup()

    def _unpack_more(self) -> None:
        status = self.path.stat()
        version = (status.st_size, status.st_mtime_ns)
        if version == self._unpacked_version:
            return
        self._unpacked_version = version
        self.problem = ""
        with self.local.open("wb") as spool:
            try:
                # The last member of the file may still be being written.
                with explain_read_errors(self.path), suppress(EOFError):
                    spool.writelines(_unpack(self.path))
            except InvalidInput as error:
                self.problem = str(error)
            self.size = spool.tell()


def _unpack(path: Path) -> Iterator[bytes]:
    """Yield the plain bytes of a .gz, .zst or Parquet file; raises EOFError if its end is missing."""
    if path.suffix == ".parquet":
        frame = read_columnar(path)
        lines = frame["record"] if "record" in frame.columns else ()  # else not a file of records
        yield from (line.encode() + b"\n" for line in lines)
    else:
        with open_bytes(path) as file:
            yield from iter(lambda: file.read1(_UNPACK_READ), b"")


def open_growing(path: Path) -> GrowingFile:
    """Open a file so that it can be read while it grows; its name tells how it is packed."""
    if path.name.endswith(".jsonl"):
        return GrowingFile(path)
    return _UnpackedFile(path)


def has_records(source: Path) -> bool:
    """Return whether a path names at least one file whose first lines hold a record."""
    for path in find_record_files(source, missing_ok=True):
        if not path.name.endswith(SUFFIXES):
            continue
        with closing(open_growing(path)) as part:
            part.refresh()
            with part.local.open("rb") as file:
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
        self._busy_until = 0.0
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

    def note_request(self) -> None:
        """Read more slowly for a moment, because a request is waiting for its answer."""
        self._busy_until = time.monotonic() + _REQUEST_SECONDS

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
                self._start_over()
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

    def _start_over(self) -> None:
        """Forget everything that was read."""
        for file in self._files:
            file.close()
        self.index = Index()
        self.epoch += 1
        self._files = []
        self._lines = []

    def _refresh_files(self) -> bool:
        """Look at all files, also at new ones; False: one of them was replaced, changed or removed."""
        open_paths = {file.path for file in self._files}
        for path in find_record_files(self.source, missing_ok=True):
            if path not in open_paths:
                self._files.append(open_growing(path))
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
            if file.scanned >= file.size:
                continue
            with file.local.open("rb") as lines:
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
            if count % _RECORDS_PER_PAUSE == 0 and time.monotonic() < self._busy_until:
                time.sleep(_PAUSE_SECONDS)
            line = self.read_line(len(self.index))
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
