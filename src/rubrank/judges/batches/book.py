"""Which requests are in which batch, on disk: what was sent is not sent again, whenever a process is killed.

    with Book("replies.sqlite.batches") as book:
        number = book.add(token, endpoint, model, file_id, {key: purpose, …})     before the batch is made
        book.sent(number, batch_id)                                               when it has an id
        book.close_batch(number)                                                  when its replies are in the store

A batch without an id may have been made: the server is asked (`BatchApi.find`) before it is made again. One process at
a time uses a book; another is told so.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

from rubrank._files import connect
from rubrank.errors import InvalidInput

_SCHEMA = """
CREATE TABLE IF NOT EXISTS batches (
    number INTEGER PRIMARY KEY, token TEXT NOT NULL, endpoint TEXT NOT NULL, model TEXT NOT NULL, file TEXT NOT NULL,
    batch TEXT, at REAL NOT NULL, done INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS requests (
    number INTEGER NOT NULL, key BLOB NOT NULL, purpose TEXT NOT NULL, PRIMARY KEY (number, key)
) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Sent:
    """A batch that is not over."""

    number: int
    token: str
    endpoint: str
    model: str
    file: str
    batch: str | None
    """None: it may have been made, or not."""
    at: float


class Book:
    """A file of batches."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(self.path)
        self._db = connect(self.path)
        self._db.executescript(_SCHEMA)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()
        if self._lock is not None:
            self._lock.close()

    def add(self, token: str, endpoint: str, model: str, file: str, requests: Mapping[bytes, str]) -> int:
        """A batch that is about to be made."""
        self._db.execute("BEGIN IMMEDIATE")
        values = (token, endpoint, model, file, time.time())
        made = self._db.execute("INSERT INTO batches (token, endpoint, model, file, at) VALUES (?, ?, ?, ?, ?)", values)
        number = int(made.lastrowid or 0)
        rows = ((number, key, purpose) for key, purpose in requests.items())
        self._db.executemany("INSERT INTO requests VALUES (?, ?, ?)", rows)
        self._db.execute("COMMIT")
        return number

    def sent(self, number: int, batch: str) -> None:
        """It has an id."""
        self._db.execute("UPDATE batches SET batch = ? WHERE number = ?", (batch, number))

    def close_batch(self, number: int) -> None:
        """Nothing more will come of it."""
        self._db.execute("UPDATE batches SET done = 1 WHERE number = ?", (number,))
        self._db.execute("DELETE FROM requests WHERE number = ?", (number,))

    def open_batches(self) -> list[Sent]:
        """In the order in which they were sent."""
        fields = "number, token, endpoint, model, file, batch, at"
        return [Sent(*row) for row in self._db.execute(f"SELECT {fields} FROM batches WHERE done = 0 ORDER BY number")]

    def requests(self, number: int) -> dict[bytes, str]:
        """Key → purpose."""
        return dict(self._db.execute("SELECT key, purpose FROM requests WHERE number = ?", (number,)))

    def open_keys(self) -> Iterator[tuple[bytes, int]]:
        """Of all requests that are under way, with the number of their batch."""
        return iter(self._db.execute("SELECT key, number FROM requests").fetchall())


def _locked(path: Path) -> IO[bytes] | None:
    """Hold the book for this process, until the file is closed; None where the system has no such locks."""
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    file = Path(f"{path}.lock").open("ab")  # noqa: SIM115 - it is open as long as the book is
    with suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return file
    file.close()
    remedy = "Wait for it, or give this run a cache of its own."
    raise InvalidInput("grade", "--batch", "used by one run at a time for a cache", f"another uses {path}", remedy)
