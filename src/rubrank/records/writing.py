"""Records that grow with a run: which steps, with or without texts, written beside the training.

    writer = RecordWriter(Recording(Path("records.jsonl.zst"), every=10, rotate=100, background=True))
    writer.write(records, step=20)                   hands them to a thread; raises what went wrong before
    writer.wait()                                    all is on disk, or the error is raised

Evaluations are always written. Records are made where the step is: the thread only writes and compresses them.

A budget is no wall: what would go beyond it is written without texts, a few hundredths of the size, and the run goes
on. It is looked at before each step, so that the step in which it is reached is whole. That it was reached is said once
(once a day, where it is the day's).
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.records.files import record_files, split_suffix, write_records
from rubrank.records.record import GroupRecord

_log = logging.getLogger("rubrank")
GROWING = (".jsonl", ".jsonl.gz", ".jsonl.zst")
_TEXTS = ("prompt", "turns", "responses", "reasoning", "reasons")
_MOST_WAITING = 2  # batches: more would only fill the memory of a disk that is too slow


@dataclass(frozen=True)
class Recording:
    """Where records go, and how many of them."""

    path: Path
    every: int = 1
    """Training steps that are multiples of it."""
    texts: bool = True
    """False leaves out prompts, responses, reasoning and reasons: scores and rewards stay."""
    background: bool = False
    """Written by a thread; `wait` says when."""
    rotate: int = 0
    """Steps after which a new file begins, named by its first step: records.000100.jsonl.zst; 0: one file."""
    most_bytes: int | None = None
    """On disk, of the whole run; more is written without texts."""
    most_bytes_a_day: int | None = None
    """The same, for what is added in a day (UTC); the next day has texts again."""

    def __post_init__(self) -> None:
        if not self.path.name.endswith(GROWING):
            allowed = "a .jsonl, .jsonl.gz or .jsonl.zst file"
            raise InvalidInput("records", "path", allowed, str(self.path), "It grows with every step.")
        if self.every < 1:
            raise InvalidInput("records", "every", "≥ 1", str(self.every), "")
        if self.rotate < 0:
            raise InvalidInput("records", "rotate", "≥ 0", str(self.rotate), "0 keeps one file.")
        for name in ("most_bytes", "most_bytes_a_day"):
            if (most := getattr(self, name)) is not None and most < 1:
                raise InvalidInput("records", name, "≥ 1", str(most), "Leave it out for no limit.")

    def file(self, step: int | None) -> Path:
        """To which the records of a step go."""
        if not self.rotate or step is None:
            return self.path
        stem, suffix = split_suffix(self.path)
        return self.path.with_name(f"{stem}.{step // self.rotate * self.rotate:06d}{suffix}")


class RecordWriter:
    """Appends batches of records to one file, in order."""

    def __init__(self, to: Recording) -> None:
        self.to = to
        self._thread: ThreadPoolExecutor | None = None
        self._waiting: deque[Future[None]] = deque()
        self._last: Path | None = None
        self._day: tuple[date, int] | None = None
        self._said: set[Any] = set()
        self._failed = False

    def __getstate__(self) -> dict[str, Any]:
        return {"to": self.to}  # a thread belongs to its process

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["to"])  # type: ignore[misc]

    def takes(self, step: int, train: bool) -> bool:
        """Are records of this step written?"""
        return not train or step % self.to.every == 0

    def write(self, records: Iterable[GroupRecord], step: int | None = None) -> None:
        """Append them, or have the thread do so; raises what went wrong with earlier ones."""
        texts = self.to.texts and self._has_room()
        made = [record if texts else record.model_copy(update=dict.fromkeys(_TEXTS)) for record in records]
        self._last = file = self.to.file(step)
        if not self.to.background:
            _append(file, made)
            return
        while self._waiting and (self._waiting[0].done() or len(self._waiting) >= _MOST_WAITING):
            self._first()
        self._thread = self._thread or ThreadPoolExecutor(1, "rubrank-records")
        self._waiting.append(self._thread.submit(self._append, file, made))

    def wait(self) -> None:
        """Until everything is on disk; raises the first thing that went wrong."""
        while self._waiting:
            self._first()

    def place(self) -> dict[str, Any]:
        """Where the records end, once all are on disk: for `rewind`, which then need not look for it."""
        self.wait()
        files = record_files(self.to.path, missing_ok=True)
        last = self._last if self._last in files else next(reversed(files), None)  # `rewind` may have taken it away
        if last is None:
            return {"file": None, "bytes": 0}
        return {"file": last.name, "bytes": last.stat().st_size}

    def _has_room(self) -> bool:
        """May texts be written? Says it where they may not any more."""
        if self.to.most_bytes is None and self.to.most_bytes_a_day is None:
            return True
        size = sum(file.stat().st_size for file in record_files(self.to.path, missing_ok=True))
        today = datetime.now(UTC).date()
        if self._day is None or self._day[0] != today:
            self._day = today, size
        for most, taken, when in (
            (self.to.most_bytes, size, "run"),
            (self.to.most_bytes_a_day, size - self._day[1], today),
        ):
            if most is not None and taken >= most:
                self._say_full(most, when)
                return False
        return True

    def _say_full(self, most: int, when: Any) -> None:
        if when in self._said:
            return
        self._said.add(when)
        of = "of the run" if when == "run" else f"of {when}"
        what = f"{self.to.path}: the {most:,} bytes {of} are written: further records have no texts"
        _log.warning("%s", what)

    def _append(self, file: Path, records: list[GroupRecord]) -> None:
        if self._failed:  # what waited behind a batch that is not there
            return
        try:
            _append(file, records)
        except BaseException:
            self._failed = True
            raise

    def _first(self) -> None:
        try:
            self._waiting[0].result()
        except OSError as error:
            self._drop()
            got = f"{self.to.path}: {error.strerror or error}"
            raise InvalidInput("records", "path", "a file that can be written", got, "Then resume.") from None
        except BaseException:
            self._drop()
            raise
        self._waiting.popleft()

    def _drop(self) -> None:
        """After an error nothing more is written: a file has no holes."""
        for one in self._waiting:
            one.cancel()
        self._waiting.clear()
        if self._thread is not None:
            self._thread.shutdown()  # one that runs already writes nothing
        self._thread, self._failed = None, False


def _append(file: Path, records: list[GroupRecord]) -> None:
    """All of them or none: what a full disk took of them goes again, since nothing could be read behind half a line."""
    before = file.stat().st_size if file.exists() else 0
    try:
        write_records(file, records, append=True)
    except OSError:
        with suppress(OSError):
            os.truncate(file, before)
        raise
