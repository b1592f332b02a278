"""Verdicts of verifiers on disk, so that a killed or repeated run computes none of them twice.

    with VerdictCache("verdicts.sqlite") as cache:
        cache.get([key])           {key: (1.0, "3 bullets, at least 2 required")}
        cache.put({key: verdict})  on disk when it returns

A key is a digest of everything a verdict depends on: the verifier's name and version, its parameters, `compat` and
`mode` if the verifier distinguishes them, and what the verifier sees (the answer, or the whole rollout). So entries of
an older version of a verifier are never used. Missing verdicts are not stored: their cause (no package, no sandbox, no
time) may be gone in the next run.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import sqlite3
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel

from rubrank.errors import InvalidInput
from rubrank.rollouts.rollout import Rollout
from rubrank.store import Store
from rubrank.texts.text import Text
from rubrank.verifiers.verifier import Compat, Mode, PlainVerdict, Verifier

_SCHEMA = """
CREATE TABLE IF NOT EXISTS verdicts (key BLOB PRIMARY KEY, value REAL NOT NULL, reason BLOB NOT NULL) WITHOUT ROWID;
"""
_DIGEST_BYTES = 16
_KEYS_PER_QUERY = 500  # old versions of SQLite allow 999

_log = logging.getLogger("rubrank")


class VerdictCache:
    """Verdicts by key in one SQLite file, which several processes may share."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._is_full = False
        try:
            self._store = Store(self.path, _SCHEMA, name="grade")
        except (sqlite3.Error, OSError) as error:
            raise InvalidInput(
                "grade",
                "cache",
                allowed="a new file that can be written, or a cache of `rubrank grade`",
                got=f"{path} ({error})",
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()

    def get(self, keys: Sequence[bytes]) -> dict[bytes, PlainVerdict]:
        """Return the verdicts that are in the cache, by key; keys that are not in it are left out."""
        verdicts: dict[bytes, PlainVerdict] = {}
        for start in range(0, len(keys), _KEYS_PER_QUERY):
            chunk = keys[start : start + _KEYS_PER_QUERY]
            marks = ",".join("?" * len(chunk))
            rows = self._store.read(
                f"SELECT key, value, reason FROM verdicts WHERE key IN ({marks})", chunk
            )
            for key, value, reason in rows:
                verdicts[key] = (value, reason.decode("utf-8", "surrogatepass"))
        return verdicts

    def put(self, verdicts: Mapping[bytes, PlainVerdict]) -> None:
        """Store the verdicts that have a value; on disk when this returns."""
        rows = [
            (key, value, reason.encode("utf-8", "surrogatepass"))
            for key, (value, reason) in verdicts.items()
            if value is not None
        ]
        if not rows or self._is_full:
            return
        try:
            self._store.write(
                lambda db: db.executemany("INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?)", rows)
            ).result()
        except sqlite3.OperationalError as error:
            if "full" not in str(error):
                raise
            # Verdicts can be computed again: a full disk costs time, not the run.
            self._is_full = True
            _log.warning("%s: the disk is full; verdicts are no longer cached", self.path)

    def __len__(self) -> int:
        return int(self._store.read("SELECT count(*) FROM verdicts")[0][0])


# --------------------------------------------------------------------------------------------------------------- keys


def digest_check(verifier: Verifier, params: BaseModel, compat: Compat, mode: Mode) -> bytes:
    """Return a digest of everything that a verdict depends on except the rollout."""
    parts = [
        verifier.name,
        verifier.version,
        params.model_dump(mode="json"),
        compat if verifier.knows_compat else "",
        mode if verifier.knows_loose else "",
    ]
    return _digest(json.dumps(parts, sort_keys=True, default=repr).encode())


def digest_rollout(rollout: Rollout, wants: type) -> bytes:
    """Return a digest of what a verifier sees of a rollout. wants: the annotation of the verifier's first parameter."""
    if wants in (Text, str):
        return _digest(rollout.answer.encode("utf-8", "surrogatepass"))
    # `model_dump` of a rollout leaves out its messages, but a verifier may read them.
    data = [part.model_dump() for part in (rollout, *rollout.messages)]
    try:
        text = json.dumps(data, default=_pickle)
    except (TypeError, ValueError, RecursionError):
        # A rollout that cannot be digested gets a random key, so that its verdicts are never found again.
        return os.urandom(_DIGEST_BYTES)
    return _digest(text.encode())


def make_key(check_digest: bytes, rollout_digest: bytes) -> bytes:
    """Return the key of a verdict."""
    return _digest(check_digest + rollout_digest)


def _pickle(value: Any) -> str:
    """Return a text for a value that JSON cannot hold, such as an array; raises TypeError if it cannot be pickled."""
    try:
        return pickle.dumps(value, protocol=5).hex()
    except Exception as error:
        raise TypeError(str(error)) from None


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_DIGEST_BYTES).digest()
