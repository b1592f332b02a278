"""Records that grow with a run: which steps, with or without texts, written beside the training.

    writer = RecordWriter(Recording(Path("records.jsonl.zst"), every=10, texts=False, background=True))
    writer.write(records, step=20, train=True)       hands them to a thread; raises what went wrong before
    writer.wait()                                    all is on disk, or the error is raised

Evaluations are always written. Records are made where the step is: the thread only writes and compresses them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.records.record import GroupRecord, write_records

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

    def __post_init__(self) -> None:
        if not self.path.name.endswith(GROWING):
            allowed = "a .jsonl, .jsonl.gz or .jsonl.zst file"
            raise InvalidInput("records", "path", allowed, str(self.path), "It grows with every step.")
        if self.every < 1:
            raise InvalidInput("records", "every", "≥ 1", str(self.every), "")


class RecordWriter:
    """Appends batches of records to one file, in order."""

    def __init__(self, to: Recording) -> None:
        self.to = to
        self._thread: ThreadPoolExecutor | None = None
        self._waiting: deque[Future[None]] = deque()

    def __getstate__(self) -> dict[str, Any]:
        return {"to": self.to}  # a thread belongs to its process

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["to"])  # type: ignore[misc]

    def takes(self, step: int, train: bool) -> bool:
        """Are records of this step written?"""
        return not train or step % self.to.every == 0

    def write(self, records: Iterable[GroupRecord]) -> None:
        """Append them, or have the thread do so; raises what went wrong with earlier ones."""
        made = [record if self.to.texts else _without_texts(record) for record in records]
        if not self.to.background:
            write_records(self.to.path, made, append=True)
            return
        while self._waiting and (self._waiting[0].done() or len(self._waiting) >= _MOST_WAITING):
            self._first()
        self._thread = self._thread or ThreadPoolExecutor(1, "rubrank-records")
        self._waiting.append(self._thread.submit(self._append, made))

    def wait(self) -> None:
        """Until everything is on disk; raises the first thing that went wrong."""
        while self._waiting:
            self._first()

    def _append(self, records: list[GroupRecord]) -> None:
        write_records(self.to.path, records, append=True)

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


def _without_texts(record: GroupRecord) -> GroupRecord:
    return record.model_copy(update=dict.fromkeys(_TEXTS))
