"""What must outlive the process: samples that wait for siblings, answers that were given, and what a rule remembers.

    store = Store(folder / "service.sqlite")
    store.add_sample(cohort, 0, member, rollout)       written soon, together with whatever else comes in
    await store.answer(cohort, answers)                on disk when it returns: only then is a caller answered
    store.find(key, since)                             the last round of a group, with its samples and answers

Rows are written by a thread, all that have come in at once. In WAL mode a commit survives a process that is killed.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from rubrank._files import connect, open_store
from rubrank.errors import InvalidInput
from rubrank.rollouts.rollout import Rollout

_log = logging.getLogger("rubrank.service")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS cohorts (
    id INTEGER PRIMARY KEY, key BLOB NOT NULL, about TEXT NOT NULL, opened REAL NOT NULL, done REAL
);
CREATE INDEX IF NOT EXISTS by_key ON cohorts (key, id);
CREATE INDEX IF NOT EXISTS by_done ON cohorts (done);
CREATE TABLE IF NOT EXISTS samples (
    cohort INTEGER, number INTEGER, member BLOB NOT NULL, rollout TEXT NOT NULL, answer TEXT,
    PRIMARY KEY (cohort, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS requests (id BLOB PRIMARY KEY, at REAL NOT NULL, answer BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_at ON requests (at);
CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
_COHORT = "INSERT OR REPLACE INTO cohorts (id, key, about, opened, done) VALUES (?, ?, ?, ?, NULL)"
_SAMPLE = "INSERT OR REPLACE INTO samples (cohort, number, member, rollout) VALUES (?, ?, ?, ?)"
_ANSWER = "UPDATE samples SET answer = ? WHERE cohort = ? AND number = ?"


@dataclass(frozen=True)
class StoredSample:
    """One sample as it lies on disk."""

    number: int
    member: bytes
    rollout: Rollout
    answer: Mapping[str, Any] | None


@dataclass(frozen=True)
class StoredCohort:
    """One group as it lies on disk."""

    id: int
    key: bytes
    about: Mapping[str, Any]
    """Name, size, step, rubric …"""
    done: float | None
    samples: tuple[StoredSample, ...]


def _locked(path: Path) -> IO[bytes]:
    """A file beside it that is locked while the process lives; two services would number their groups alike."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.with_suffix(".lock").open("ab")
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        remedy = "Stop the other one, or give this one a folder of its own."
        raise InvalidInput("serve", "folder", "of one service at a time", f"{path.parent}, in use", remedy) from None
    return file


class Store:
    """One SQLite file; for one process."""

    def __init__(self, path: Path) -> None:
        self._lock = _locked(path)
        self._db = open_store(path, _SCHEMA, "service")
        self.last_cohort = int(self._db.execute("SELECT coalesce(max(id), 0) FROM cohorts").fetchone()[0])
        self._rows: queue.SimpleQueue[tuple[str, Sequence[Any], Future[None] | None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, args=(path,), name="rubrank-store", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write what has come in."""
        self._rows.put(None)
        self._thread.join()
        self._db.close()
        self._lock.close()

    # -------------------------------------------------------------------------------------------------------- samples

    def add_cohort(self, id: int, key: bytes, about: Mapping[str, Any]) -> None:
        """A group that has begun."""
        self._put(_COHORT, (id, key, json.dumps(about, default=str), time.time()))

    def add_sample(self, cohort: int, number: int, member: bytes, rollout: Rollout) -> None:
        """A sample that waits for its siblings."""
        self._put(_SAMPLE, (cohort, number, member, json.dumps(rollout.model_dump(exclude_unset=True), default=str)))

    async def answer(self, cohort: int, answers: Mapping[int, Mapping[str, Any]]) -> None:
        """What samples were answered, by their numbers."""
        for number, answer in answers.items():
            self._put(_ANSWER, (json.dumps(answer), cohort, number))
        await self._kept("UPDATE cohorts SET done = ? WHERE id = ?", (time.time(), cohort))

    def find(self, key: bytes, since: float) -> StoredCohort | None:
        """The last round of a group, unless it was done before."""
        row = self._db.execute(
            "SELECT id, key, about, done FROM cohorts WHERE key = ? AND (done IS NULL OR done > ?) ORDER BY id DESC",
            (key, since),
        ).fetchone()
        return None if row is None else self._cohort(row)

    def waiting(self) -> list[StoredCohort]:
        """Groups that were not scored when the process ended."""
        rows = self._db.execute("SELECT id, key, about, done FROM cohorts WHERE done IS NULL ORDER BY id").fetchall()
        return [self._cohort(row) for row in rows]

    def rounds(self, key: bytes) -> int:
        """How often a group has come."""
        return int(self._db.execute("SELECT count(*) FROM cohorts WHERE key = ?", (key,)).fetchone()[0])

    def _cohort(self, row: Sequence[Any]) -> StoredCohort:
        sql = "SELECT number, member, rollout, answer FROM samples WHERE cohort = ? ORDER BY number"
        samples = tuple(
            StoredSample(
                number,
                bytes(member),
                Rollout.model_validate(json.loads(rollout)),
                None if answer is None else json.loads(answer),
            )
            for number, member, rollout, answer in self._db.execute(sql, (row[0],))
        )
        return StoredCohort(row[0], bytes(row[1]), json.loads(row[2]), row[3], samples)

    # ----------------------------------------------------------------------------------------- requests, what is learnt

    def request(self, id: str) -> bytes | None:
        """What a request was answered."""
        row = self._db.execute("SELECT answer FROM requests WHERE id = ?", (_name(id),)).fetchone()
        return None if row is None else bytes(row[0])

    async def keep_request(self, id: str, answer: bytes) -> None:
        """Remember it; what the rule had learnt by then was put down before it, and is written with it."""
        await self._kept("INSERT OR REPLACE INTO requests VALUES (?, ?, ?)", (_name(id), time.time(), answer))

    def keep_state(self, state: Mapping[str, Any]) -> None:
        """What a rule has learnt."""
        self._put("INSERT OR REPLACE INTO state VALUES ('engine', ?)", (json.dumps(state),))

    def state(self) -> dict[str, Any] | None:
        """What it had learnt when the process ended."""
        row = self._db.execute("SELECT value FROM state WHERE name = 'engine'").fetchone()
        return None if row is None else json.loads(row[0])

    def prune(self, before: float) -> None:
        """Forget what is older, among it groups that are not asked for any more."""
        old = "SELECT id FROM cohorts WHERE coalesce(done, opened) < ?"
        self._put(f"DELETE FROM samples WHERE cohort IN ({old})", (before,))
        self._put("DELETE FROM cohorts WHERE coalesce(done, opened) < ?", (before,))
        self._put("DELETE FROM requests WHERE at < ?", (before,))

    # -------------------------------------------------------------------------------------------------------- writing

    def _put(self, sql: str, values: Sequence[Any]) -> None:
        self._rows.put((sql, values, None))

    async def _kept(self, sql: str, values: Sequence[Any]) -> None:
        done: Future[None] = Future()
        self._rows.put((sql, values, done))
        await asyncio.wrap_future(done)

    def _write(self, path: Path) -> None:
        db, more = connect(path), True
        while more:
            rows = [self._rows.get()]
            while not self._rows.empty():
                rows.append(self._rows.get())
            more = None not in rows
            self._commit(db, [row for row in rows if row is not None])
        db.close()

    def _commit(self, db: sqlite3.Connection, rows: Sequence[tuple[str, Sequence[Any], Future[None] | None]]) -> None:
        error: Exception | None = None
        try:
            db.execute("BEGIN IMMEDIATE")
            for sql, values, _ in rows:
                db.execute(sql, values)
            db.execute("COMMIT")
        except Exception as found:  # whatever it is, the thread goes on: callers wait for it
            error = found
            if db.in_transaction:
                db.execute("ROLLBACK")
            _log.error("the service could not write down what came in: %s", found)
        for _, _, done in rows:
            if done is not None:
                done.set_result(None) if error is None else done.set_exception(error)


def _name(id: str) -> bytes:
    return id.encode("utf-8", "surrogatepass")
