"""A record on disk of which requests are in which batch, so that no request is submitted twice after a kill.

    with BatchBook("replies.sqlite.batches") as book:
        number = book.add(token, endpoint, model, file_id, {key: purpose, …})     before the batch is created
        book.set_batch_id(number, batch_id)                                       when it has an id
        book.close_batch(number)                                                  when its replies are in the cache

A batch without an id may exist on the server: the process may have been killed before it wrote the id. So look for it
(`BatchApi.find`) before creating it again. Only one process at a time can open a book; others get InvalidInput.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from rubrank.errors import InvalidInput
from rubrank.store import Store, lock_file

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
class OpenBatch:
    """A batch whose replies are not in the cache yet."""

    number: int
    token: str
    endpoint: str
    model: str
    file: str
    batch_id: str | None
    """None: not known whether it was created."""


class BatchBook:
    """A file of batches."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._lock = lock_file(f"{path}.lock")
        except BlockingIOError:
            allowed = "used by one run at a time for a cache"
            remedy = "Wait for it, or give this run a cache of its own."
            raise InvalidInput("grade", "batch", allowed, f"another uses {path}", remedy) from None
        self._store = Store(self.path, _SCHEMA, name="grade batches")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()
        if self._lock is not None:
            self._lock.close()

    def add(self, token: str, endpoint: str, model: str, file: str, requests: Mapping[bytes, str]) -> int:
        """Record a batch that is about to be created; requests: key → purpose. Returns its number."""

        def insert(db: sqlite3.Connection) -> int:
            values = (token, endpoint, model, file, time.time())
            columns = "token, endpoint, model, file, at"
            cursor = db.execute(f"INSERT INTO batches ({columns}) VALUES (?, ?, ?, ?, ?)", values)
            number = int(cursor.lastrowid or 0)
            rows = [(number, key, purpose) for key, purpose in requests.items()]
            db.executemany("INSERT INTO requests VALUES (?, ?, ?)", rows)
            return number

        number: int = self._store.write(insert).result()
        return number

    def set_batch_id(self, number: int, batch_id: str) -> None:
        """The batch was created."""
        update = "UPDATE batches SET batch = ? WHERE number = ?"
        self._store.write(lambda db: db.execute(update, (batch_id, number))).result()

    def close_batch(self, number: int) -> None:
        """All replies of the batch are in the cache, or will never come."""

        def close(db: sqlite3.Connection) -> None:
            db.execute("UPDATE batches SET done = 1 WHERE number = ?", (number,))
            db.execute("DELETE FROM requests WHERE number = ?", (number,))

        self._store.write(close).result()

    def open_batches(self) -> list[OpenBatch]:
        """All open batches, in the order in which they were added."""
        columns = "number, token, endpoint, model, file, batch"
        rows = self._store.read(f"SELECT {columns} FROM batches WHERE done = 0 ORDER BY number")
        return [OpenBatch(*row) for row in rows]

    def requests(self, number: int) -> dict[bytes, str]:
        """The requests of a batch: key → purpose."""
        return dict(self._store.read("SELECT key, purpose FROM requests WHERE number = ?", (number,)))

    def submitted_keys(self) -> dict[bytes, int]:
        """The requests of all open batches: key → number of the batch."""
        return dict(self._store.read("SELECT key, number FROM requests"))
