"""Write records during a training run: chosen steps, with or without texts, in a thread if wanted.

    writer = RecordWriter(Recording(Path("records.jsonl.zst"), every=10, rotate=100, background=True))
    writer.write(records, step=20)       hands them to a thread; raises what went wrong with earlier ones
    writer.wait()                        returns when all is on disk, or raises

The records of one call of `write` are a batch, which is written whole or not at all. If that fails, for example because
the disk is full, `InvalidInput` is raised. Then no further batch is written, because the file would have a gap:

    without a thread    the `write` that failed raises, and so does every later call, with one exception: a `write` of
                        the same groups tries again. If it works, the failure is over.
    with a thread       a later `write` or `wait` raises, and so does every call after it. Batches that were handed over
                        in the meantime are lost too, so trying one of them again would not close the gap.
    `reset`             ends the failure in both cases. A resumed run calls it, cuts the file back to the step at which
                        it resumes, and makes the later records again. The service calls it too: it returns no rewards
                        for the failed batch, so no records are missing.

Evaluations are always written. A size limit does not stop a run: records beyond it are written without texts, which
takes a few per cent of the size. The limit is checked before each step, so the step that reaches it is complete.
Reaching it is logged once (the daily limit once a day). The size at the start of a day is kept in a hidden file beside
the records, so that a run that is restarted on the same day gets no new allowance.
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
from typing import Any, TypeAlias

from rubrank._files import atomic_write
from rubrank.errors import InvalidInput
from rubrank.records.files import find_record_files, split_suffix, write_records
from rubrank.records.record import GroupRecord

_log = logging.getLogger("rubrank")
# Suffixes of files that can grow by a batch.
GROWING = (".jsonl", ".jsonl.gz", ".jsonl.zst")
_TEXT_FIELDS = ("prompt", "turns", "responses", "reasoning", "reasons")
_GroupLabel: TypeAlias = tuple[int | None, Any, str]  # step, "train" or "eval", id of the group
_MOST_PENDING_BATCHES = 2  # with a slow disk, more would only fill the memory


@dataclass(frozen=True)
class Recording:
    """Where records go, and how many of them."""

    path: Path
    every: int = 1
    """Only training steps that are multiples of this number."""
    texts: bool = True
    """False leaves out prompts, responses, reasoning and reasons: scores and rewards stay."""
    background: bool = False
    """Write in a thread, beside the next step."""
    rotate: int = 0
    """Steps after which a new file begins, named by its first step: records.000100.jsonl.zst; 0: one file."""
    most_bytes: int | None = None
    """Size of all files of the run; records beyond it have no texts."""
    most_bytes_a_day: int | None = None
    """Size of what is added in a day (UTC); the next day has texts again."""

    def __post_init__(self) -> None:
        if not self.path.name.endswith(GROWING):
            raise InvalidInput(
                "records",
                "path",
                allowed="a .jsonl, .jsonl.gz or .jsonl.zst file",
                got=str(self.path),
                remedy="It grows with every step.",
            )
        lowest_values = {"every": 1, "rotate": 0, "most_bytes": 1, "most_bytes_a_day": 1}
        for name, lowest in lowest_values.items():
            value = getattr(self, name)
            if value is not None and value < lowest:
                raise InvalidInput("records", name, allowed=f"≥ {lowest}", got=str(value))

    def get_file(self, step: int | None) -> Path:
        """Return the file for the records of a step; None: records without a step go to the first file."""
        if not self.rotate or step is None:
            return self.path
        stem, suffix = split_suffix(self.path)
        return self.path.with_name(f"{stem}.{step // self.rotate * self.rotate:06d}{suffix}")


class RecordWriter:
    """Appends batches of records, in order, to the file of the run or to its rotated files."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._thread: ThreadPoolExecutor | None = None
        self._pending: deque[Future[None]] = deque()
        self._day: date | None = None
        """The day (UTC) to which `_size_at_midnight` belongs."""
        self._size_at_midnight = 0
        self._limits_logged: set[str] = set()
        # Both are None unless a batch could not be written.
        self._failure: InvalidInput | None = None
        self._failed_groups: list[_GroupLabel] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"recording": self.recording}  # a thread belongs to its process

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["recording"])  # type: ignore[misc]

    def is_due(self, step: int, train: bool) -> bool:
        """Are records of this step written? Evaluations always are."""
        return not train or step % self.recording.every == 0

    def write(self, records: Iterable[GroupRecord], step: int | None = None) -> None:
        """Append records, or have the thread do so; raises what went wrong with earlier ones."""
        batch = list(records)
        # Without a thread, the batch that failed may be tried again; any other batch would leave a gap before it.
        is_retry = not self.recording.background and _label_groups(batch) == self._failed_groups
        if not is_retry:
            self._raise_failure()
        file = self.recording.get_file(step)
        if not self.recording.background:
            self._append(file, batch)
            return
        # Collect finished batches, whose errors are raised here, and wait if too many are pending.
        while self._pending and (
            self._pending[0].done() or len(self._pending) >= _MOST_PENDING_BATCHES
        ):
            self._wait_for_first()
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "rubrank-records")
        self._pending.append(self._thread.submit(self._append_in_thread, file, batch))

    def wait(self) -> None:
        """Return when everything is on disk; raises the first thing that went wrong."""
        while self._pending:
            self._wait_for_first()
        self._raise_failure()

    def reset(self) -> None:
        """Finish what is pending and forget a failure: the file will be cut back and written again from there."""
        while self._pending:
            with suppress(Exception):  # the records of a failed batch will be made again
                self._pending.popleft().result()
        self._failure = None
        self._failed_groups = None

    def _is_full(self) -> bool:
        """Is a size limit reached? Logs it the first time."""
        recording = self.recording
        if recording.most_bytes is None and recording.most_bytes_a_day is None:
            return False
        size = sum(
            file.stat().st_size for file in find_record_files(recording.path, missing_ok=True)
        )
        today = datetime.now(UTC).date()
        if self._day != today and recording.most_bytes_a_day is not None:
            self._day = today
            self._size_at_midnight = self._load_size_at_midnight(today, size)
        if recording.most_bytes is not None and size >= recording.most_bytes:
            self._log_limit(recording.most_bytes, "the run")
            return True
        if (
            recording.most_bytes_a_day is not None
            and size - self._size_at_midnight >= recording.most_bytes_a_day
        ):
            self._log_limit(recording.most_bytes_a_day, str(today))
            return True
        return False

    def _load_size_at_midnight(self, today: date, size: int) -> int:
        """Return the size of the records at the start of the day, as the first process of the day found it."""
        file = self.recording.path.with_name(f".{self.recording.path.name}.day")
        try:
            noted_day, noted_size = file.read_text("ascii").split()
            if noted_day == today.isoformat():
                return int(noted_size)
        except (OSError, ValueError):  # there is none yet, or it is damaged
            pass
        with suppress(OSError), atomic_write(file) as temporary:
            temporary.write_text(f"{today.isoformat()} {size}", "ascii")
        return size

    def _log_limit(self, limit: int, period: str) -> None:
        """Log once that a limit is reached. period: what it applies to, "the run" or a day."""
        if period not in self._limits_logged:
            self._limits_logged.add(period)
            _log.warning(
                "%s: the limit of %s bytes for %s is reached: further records have no texts",
                self.recording.path,
                f"{limit:,}",
                period,
            )

    def _append_in_thread(self, file: Path, records: list[GroupRecord]) -> None:
        # After a failure nothing more is written, because the records would have a gap.
        if self._failure is None:
            self._append(file, records)

    def _append(self, file: Path, records: list[GroupRecord]) -> None:
        """Write all records of a batch or none, without texts beyond a size limit, and keep whether that failed.

        Raises InvalidInput if the file cannot be written; other errors, such as KeyboardInterrupt, stay what they are.
        """
        size_before = file.stat().st_size if file.exists() else 0
        try:
            # Checked here and not in `write`, which in the background does not know the size of pending batches.
            if not self.recording.texts or self._is_full():
                without_texts = dict.fromkeys(_TEXT_FIELDS)
                records = [record.model_copy(update=without_texts) for record in records]
            write_records(file, records, append=True)
        except BaseException as error:
            with suppress(OSError):
                os.truncate(file, size_before)  # half a line would hide what follows
            if isinstance(error, OSError):
                cause = f"{error.strerror or error}"
                remedy = "Make room or fix the path, then resume."
            else:
                cause = f"{type(error).__name__}: {error}"
                remedy = "Fix the cause of this error, then resume."
            self._failure = InvalidInput(
                "records",
                "path",
                allowed="a writable file",
                got=f"{file}: {cause}",
                remedy=remedy,
            )
            self._failed_groups = _label_groups(records)
            if isinstance(error, OSError):
                raise self._failure from None
            raise
        self._failure = None
        self._failed_groups = None

    def _wait_for_first(self) -> None:
        """Wait for the oldest pending batch; raises what went wrong with it."""
        self._pending.popleft().result()
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


def _label_groups(records: Iterable[GroupRecord]) -> list[_GroupLabel]:
    return [(record.step, record.metadata.get("mode"), record.group) for record in records]
