"""Verdicts on disk, so that nothing is decided twice: SQLite, safe for several processes, kept after a kill.

    with VerdictCache("verdicts.sqlite") as cache:
        cache.get([key])           {key: Verdict}
        cache.put({key: verdict})  on disk when it returns

A key is a digest of everything a verdict depends on: the verifier's name and version, its parameters, the reading
(compat, mode) where the verifier has more than one, and what it gets to see: the answer, or the whole rollout. So a
verifier whose version was raised never answers from an old entry. Verdicts that are missing are not kept: what they
lacked (a package, a sandbox, time) may be there the next time.
"""

from __future__ import annotations

import json
import logging
import math
import os
import pickle
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel

from rubrank._files import is_damaged, open_store, set_aside
from rubrank.errors import InvalidInput
from rubrank.rollouts.rollout import Rollout
from rubrank.texts.text import Text
from rubrank.verifiers.verifier import Compat, Mode, Verdict, Verifier

_SIZE = 16
_SCHEMA = """
CREATE TABLE IF NOT EXISTS verdicts (key BLOB PRIMARY KEY, value REAL NOT NULL, reason BLOB NOT NULL) WITHOUT ROWID;
"""

_log = logging.getLogger("rubrank")
_AT_ONCE = 500  # keys in one query; SQLite allows 999 in old versions


def check_digest(verifier: Verifier, params: BaseModel, compat: Compat, mode: Mode) -> bytes:
    """Of everything but the rollout."""
    reading = [compat if verifier.knows_compat else "", mode if verifier.knows_loose else ""]
    parts = [verifier.name, verifier.version, params.model_dump(mode="json"), *reading]
    return _digest(json.dumps(parts, sort_keys=True, default=repr).encode())


def seen_digest(rollout: Rollout, wants: type) -> bytes:
    """Of what a verifier gets to see."""
    if wants in (Text, str):
        return _digest(rollout.answer.encode("utf-8", "surrogatepass"))
    parts = (rollout, *rollout.messages)
    try:
        told = "".join(part.model_dump_json() for part in parts)
    except ValueError:  # lone surrogates, or metadata that JSON does not know
        told = "".join(repr(part.model_dump()) for part in parts)
    return _digest(b"".join((told.encode("utf-8", "surrogatepass"), *_untold(parts))))


def _untold(value: Any) -> Iterator[bytes]:
    """What JSON leaves out or gives another thing's form: infinity as null, the key 1 as "1", bytes as text, arrays."""
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _untold(getattr(value, name))
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from () if type(name) is str else (_pickled(name),)
            yield from _untold(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _untold(inner)
    elif not (value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))):
        yield _pickled(value)


def _pickled(value: Any) -> bytes:
    try:
        return pickle.dumps(value, protocol=5)
    except Exception:  # what cannot be told apart is decided each time
        return os.urandom(_SIZE)


def key(check: bytes, seen: bytes) -> bytes:
    """The key of a verdict."""
    return _digest(check + seen)


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_SIZE).digest()


class VerdictCache:
    """Verdicts by key; for one thread of each process."""

    def __init__(self, path: str | Path) -> None:
        self.path, self._full = Path(path), False
        try:
            self._db = open_store(self.path, _SCHEMA, "grade")
        except (sqlite3.Error, OSError) as error:
            allowed = "a file that can be written, or a cache that grade made"
            raise InvalidInput("grade", "cache", allowed, f"{path} ({error})", "") from None

    def _anew(self, error: sqlite3.DatabaseError) -> None:
        """Begin anew where the file turns out to be damaged; else the error."""
        if not is_damaged(self.path, error):
            raise error
        self._db.close()
        set_aside(self.path, "grade")
        self._db = open_store(self.path, _SCHEMA, "grade")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Verdict]:
        """Those that are known."""
        found: dict[bytes, Verdict] = {}
        for start in range(0, len(keys), _AT_ONCE):
            some = keys[start : start + _AT_ONCE]
            marks = ",".join("?" * len(some))
            try:
                rows = self._db.execute(
                    f"SELECT key, value, reason FROM verdicts WHERE key IN ({marks})", some
                ).fetchall()
            except sqlite3.DatabaseError as error:
                self._anew(error)
                continue
            found |= {key: Verdict(value, reason.decode("utf-8", "surrogatepass")) for key, value, reason in rows}
        return found

    def put(self, verdicts: Mapping[bytes, Verdict]) -> None:
        """Keep those that have a value."""
        rows: list[tuple[Any, ...]] = [
            (key, verdict.value, verdict.reason.encode("utf-8", "surrogatepass"))
            for key, verdict in verdicts.items()
            if verdict.value is not None
        ]
        if not rows or self._full:
            return
        try:
            self._put(rows)
        except sqlite3.DatabaseError as error:
            if not isinstance(error, sqlite3.OperationalError) or "full" not in str(error):
                self._anew(error)
                self._put(rows)
                return
            self._full = True  # verdicts can be had again: a full disk costs time, not the run
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            _log.warning("%s: the disk is full; verdicts are no longer cached", self.path)

    def _put(self, rows: Sequence[tuple[Any, ...]]) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany("INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?)", rows)
        self._db.execute("COMMIT")

    def __len__(self) -> int:
        return int(self._db.execute("SELECT count(*) FROM verdicts").fetchone()[0])
