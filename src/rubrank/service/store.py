"""What the service keeps on disk for a restart: waiting samples, answers, and the state of the reward engine.

    store = ServiceStore(folder / "service.sqlite")
    store.add_cohort(7, group_key, about)                 a cohort: a group whose samples come one at a time
    store.add_sample(7, 0, sample_key, rollout)           returns at once; written together with other rows
    await store.add_sample_answers(7, {0: answer, …})     on disk when it returns: only then are callers answered
    store.find_cohort(group_key, since)                   the last cohort with this key, with its samples and answers

A request with a whole group needs no cohort. Only its answer is stored, under its request id, for a repeated request.

Rows are written in the order of the calls. So when an `await` returns, everything added before is on disk, too.
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

# cohorts: `opened` and `done` are times in seconds since 1970; `done` is NULL until the cohort is scored.
# samples: `number` counts the samples of a cohort from 0; `member` is `StoredSample.sample_key`; `answer` is NULL until
# the sample is scored.
# requests: answers to requests with a whole group; `at` is when they were stored, in seconds since 1970.
# state: one row, "engine".
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
    """Place in the cohort, from 0."""
    sample_key: bytes
    """Identifies the sample if its call is repeated."""
    rollout: Rollout
    answer: Mapping[str, Any] | None
    """None: not scored yet."""


@dataclass(frozen=True)
class StoredCohort:
    """One cohort as it is on disk."""

    id: int
    key: bytes
    """Identifies the group in calls. Several cohorts may have the same key, one after the other."""
    about: Mapping[str, Any]
    """The group's name, size, step, rubric …"""
    done: float | None
    """When it was scored, in seconds since 1970; None: not scored yet."""
    samples: tuple[StoredSample, ...]


class ServiceStore:
    """One SQLite file, for one process at a time: two processes would give the same id to different cohorts."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._lock = lock_file(path.with_suffix(".lock"))
        except BlockingIOError:
            raise InvalidInput(
                owner="serve",
                parameter="folder",
                allowed="used by one service at a time",
                got=f"{path.parent}, in use",
                remedy="Stop the other service, or set another folder.",
            ) from None
        self._store = Store(path, _SCHEMA, name="service")
        self.last_cohort_id = int(
            self._store.read("SELECT coalesce(max(id), 0) FROM cohorts")[0][0]
        )

    def close(self) -> None:
        """Write everything that is waiting, and close the file."""
        self._store.close()
        if self._lock is not None:  # None on systems without file locks
            self._lock.close()

    # --------------------------------------------------------------------------------------------------- cohorts

    def add_cohort(self, id: int, key: bytes, about: Mapping[str, Any]) -> None:
        """Store a new cohort, which has no samples yet."""
        sql = "INSERT OR REPLACE INTO cohorts (id, key, about, opened, done) VALUES (?, ?, ?, ?, NULL)"
        self._write(sql, (id, key, json.dumps(about, default=str), time.time()))

    def add_sample(self, cohort: int, number: int, sample_key: bytes, rollout: Rollout) -> None:
        """Store a sample that waits for the other samples of its cohort."""
        text = json.dumps(rollout.model_dump(exclude_unset=True), default=str)
        sql = "INSERT OR REPLACE INTO samples (cohort, number, member, rollout) VALUES (?, ?, ?, ?)"
        self._write(sql, (cohort, number, sample_key, text))

    async def add_sample_answers(
        self, cohort: int, answers: Mapping[int, Mapping[str, Any]]
    ) -> None:
        """Store the answers to samples, by their numbers, and mark the cohort as done; on disk when this returns."""
        for number, answer in answers.items():
            sql = "UPDATE samples SET answer = ? WHERE cohort = ? AND number = ?"
            self._write(sql, (json.dumps(answer), cohort, number))
        values = (time.time(), cohort)
        await self._store.write_async(
            lambda db: db.execute("UPDATE cohorts SET done = ? WHERE id = ?", values)
        )

    def find_cohort(self, key: bytes, since: float) -> StoredCohort | None:
        """Return the last cohort with this key; None if there is none, or it was done before `since`."""
        rows = self._store.read(
            "SELECT id, key, about, done FROM cohorts WHERE key = ? AND (done IS NULL OR done > ?)"
            " ORDER BY id DESC LIMIT 1",
            (key, since),
        )
        return self._read_cohort(rows[0]) if rows else None

    def find_waiting(self) -> list[StoredCohort]:
        """Return the cohorts that were not scored when the last process ended."""
        rows = self._store.read(
            "SELECT id, key, about, done FROM cohorts WHERE done IS NULL ORDER BY id"
        )
        return [self._read_cohort(row) for row in rows]

    def _read_cohort(self, row: Sequence[Any]) -> StoredCohort:
        """Return the cohort of a row of `cohorts`, with its samples."""
        id, key, about, done = row
        sql = "SELECT number, member, rollout, answer FROM samples WHERE cohort = ? ORDER BY number"
        samples = []
        for number, sample_key, rollout, answer in self._store.read(sql, (id,)):
            stored_rollout = Rollout.model_validate(json.loads(rollout))
            stored_answer = None if answer is None else json.loads(answer)
            samples.append(StoredSample(number, bytes(sample_key), stored_rollout, stored_answer))
        return StoredCohort(id, bytes(key), json.loads(about), done, tuple(samples))

    # ----------------------------------------------------------------------------------------- requests and state

    def find_request_answer(self, request_id: str) -> bytes | None:
        """Return the stored answer to a request with a whole group; None if there is none."""
        rows = self._store.read(
            "SELECT answer FROM requests WHERE id = ?", (_encode_id(request_id),)
        )
        return bytes(rows[0][0]) if rows else None

    async def add_request_answer(self, request_id: str, answer: bytes) -> None:
        """Store the answer to a request with a whole group; on disk when this returns."""
        values = (_encode_id(request_id), time.time(), answer)
        await self._store.write_async(
            lambda db: db.execute("INSERT OR REPLACE INTO requests VALUES (?, ?, ?)", values)
        )

    def save_engine_state(self, state: Mapping[str, Any]) -> None:
        """Store the state of the reward engine: what its rule has learnt."""
        self._write("INSERT OR REPLACE INTO state VALUES ('engine', ?)", (json.dumps(state),))

    def load_engine_state(self) -> dict[str, Any] | None:
        """Return the stored state of the reward engine; None if there is none."""
        rows = self._store.read("SELECT value FROM state WHERE name = 'engine'")
        return json.loads(rows[0][0]) if rows else None

    def delete_before(self, cutoff: float) -> None:
        """Delete cohorts and answers that are older than `cutoff`, including cohorts that were never scored."""
        is_old = "coalesce(done, opened) < ?"
        self._write(
            f"DELETE FROM samples WHERE cohort IN (SELECT id FROM cohorts WHERE {is_old})",
            (cutoff,),
        )
        self._write(f"DELETE FROM cohorts WHERE {is_old}", (cutoff,))
        self._write("DELETE FROM requests WHERE at < ?", (cutoff,))

    def _write(self, sql: str, values: Sequence[Any]) -> None:
        """Submit a statement without waiting until it is on disk."""
        self._store.write(lambda db: db.execute(sql, values))


def _encode_id(text: str) -> bytes:
    # An id is any text that a JSON request can hold, and JSON can hold a lone surrogate, which plain UTF-8 refuses.
    return text.encode("utf-8", "surrogatepass")
