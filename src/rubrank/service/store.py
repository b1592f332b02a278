"""The state of the service on disk: waiting samples, answers, and the state of rules.

    store = ServiceStore(folder / "service.sqlite")
    store.add_sample(cohort, 0, sample_key, rollout)     returns at once; written together with other rows
    await store.add_answers(cohort, answers)           on disk when it returns: only then are callers answered
    store.find_cohort(key, since)                      the last group with this key, with its samples and answers

After a restart the service continues from here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.rollouts.rollout import Rollout
from rubrank.store import Store, lock_file

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


@dataclass(frozen=True)
class StoredSample:
    """One sample as it is on disk."""

    number: int
    sample_key: bytes
    rollout: Rollout
    answer: Mapping[str, Any] | None


@dataclass(frozen=True)
class StoredCohort:
    """One group of samples as it is on disk."""

    id: int
    key: bytes
    about: Mapping[str, Any]
    """Name, size, step, rubric …"""
    done: float | None
    """When it was scored; None: not scored yet."""
    samples: tuple[StoredSample, ...]


class ServiceStore:
    """One SQLite file, for one process at a time: two processes would use the same numbers for different groups."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._lock = lock_file(path.with_suffix(".lock"))
        except BlockingIOError:
            raise InvalidInput(
                "serve",
                "folder",
                allowed="of one service at a time",
                got=f"{path.parent}, in use",
                remedy="Stop the other one, or give this one a folder of its own.",
            ) from None
        self._store = Store(path, _SCHEMA, name="service")
        self.last_cohort = int(self._store.read("SELECT coalesce(max(id), 0) FROM cohorts")[0][0])

    def close(self) -> None:
        """Write everything that is waiting, and close the file."""
        self._store.close()
        if self._lock is not None:
            self._lock.close()

    # --------------------------------------------------------------------------------------------------- samples

    def add_cohort(self, id: int, key: bytes, about: Mapping[str, Any]) -> None:
        """Store a new group."""
        sql = "INSERT OR REPLACE INTO cohorts (id, key, about, opened, done) VALUES (?, ?, ?, ?, NULL)"
        self._write(sql, (id, key, json.dumps(about, default=str), time.time()))

    def add_sample(self, cohort: int, number: int, sample_key: bytes, rollout: Rollout) -> None:
        """Store a sample that waits for its siblings."""
        text = json.dumps(rollout.model_dump(exclude_unset=True), default=str)
        sql = "INSERT OR REPLACE INTO samples (cohort, number, member, rollout) VALUES (?, ?, ?, ?)"
        self._write(sql, (cohort, number, sample_key, text))

    async def add_answers(self, cohort: int, answers: Mapping[int, Mapping[str, Any]]) -> None:
        """Store the answers to samples, by their numbers, and mark the group as done."""
        for number, answer in answers.items():
            sql = "UPDATE samples SET answer = ? WHERE cohort = ? AND number = ?"
            self._write(sql, (json.dumps(answer), cohort, number))
        values = (time.time(), cohort)
        await self._store.write_async(
            lambda db: db.execute("UPDATE cohorts SET done = ? WHERE id = ?", values)
        )

    def find_cohort(self, key: bytes, since: float) -> StoredCohort | None:
        """Return the last group with this key; None if there is none, or it was done before `since`."""
        rows = self._store.read(
            "SELECT id, key, about, done FROM cohorts WHERE key = ? AND (done IS NULL OR done > ?)"
            " ORDER BY id DESC LIMIT 1",
            (key, since),
        )
        return self._read_cohort(rows[0]) if rows else None

    def find_waiting(self) -> list[StoredCohort]:
        """Return the groups that were not scored when the last process ended."""
        rows = self._store.read(
            "SELECT id, key, about, done FROM cohorts WHERE done IS NULL ORDER BY id"
        )
        return [self._read_cohort(row) for row in rows]

    def _read_cohort(self, row: Sequence[Any]) -> StoredCohort:
        """Return a row of `cohorts` with its samples."""
        id, key, about, done = row
        sql = "SELECT number, member, rollout, answer FROM samples WHERE cohort = ? ORDER BY number"
        samples = []
        for number, sample_key, rollout, answer in self._store.read(sql, (id,)):
            stored_rollout = Rollout.model_validate(json.loads(rollout))
            stored_answer = None if answer is None else json.loads(answer)
            samples.append(StoredSample(number, bytes(sample_key), stored_rollout, stored_answer))
        return StoredCohort(id, bytes(key), json.loads(about), done, tuple(samples))

    # ----------------------------------------------------------------------------------------- requests and state

    def find_answer(self, request_id: str) -> bytes | None:
        """Return the stored answer to a request; None if there is none."""
        rows = self._store.read("SELECT answer FROM requests WHERE id = ?", (_encode(request_id),))
        return bytes(rows[0][0]) if rows else None

    async def add_answer(self, request_id: str, answer: bytes) -> None:
        """Store the answer to a request; everything that was stored before is on disk too when this returns."""
        values = (_encode(request_id), time.time(), answer)
        await self._store.write_async(
            lambda db: db.execute("INSERT OR REPLACE INTO requests VALUES (?, ?, ?)", values)
        )

    def keep_state(self, state: Mapping[str, Any]) -> None:
        """Store the state of the engine: what its rule has learnt."""
        self._write("INSERT OR REPLACE INTO state VALUES ('engine', ?)", (json.dumps(state),))

    def find_state(self) -> dict[str, Any] | None:
        """Return the stored state of the engine; None if there is none."""
        rows = self._store.read("SELECT value FROM state WHERE name = 'engine'")
        return json.loads(rows[0][0]) if rows else None

    def delete_before(self, time: float) -> None:
        """Delete older groups and answers, including groups that were never scored."""
        old = "SELECT id FROM cohorts WHERE coalesce(done, opened) < ?"
        self._write(f"DELETE FROM samples WHERE cohort IN ({old})", (time,))
        self._write("DELETE FROM cohorts WHERE coalesce(done, opened) < ?", (time,))
        self._write("DELETE FROM requests WHERE at < ?", (time,))

    def _write(self, sql: str, values: Sequence[Any]) -> None:
        self._store.write(lambda db: db.execute(sql, values))


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
