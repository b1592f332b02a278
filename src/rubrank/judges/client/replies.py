"""Replies on disk, so that none is paid twice, and a ledger of everything that was: SQLite, kept after a kill.

    with Replies("replies.sqlite") as store:
        key = Replies.key(call, judge)
        store.get(key)                        None
        store.put(key, call, reply)           on disk when it returns; in an event loop: await store.keep(…)
        store.get(key)                        Reply(text=…, cached=True), and its usage is nothing

A key is a digest of everything a reply depends on: prompt version, messages, schema, number of the sample, sampling,
whether log-probabilities are wanted, and the models of the judge with their extra parameters and what `structured` says
of them; not where they are served. The ledger has a row for every request that was paid and for every call that failed,
with the text and the cost. Usable replies are answered from, and refusals, which would come again at the same cost. A
reply in which no verdict could be read is asked for once more by the next run, and then stands.

Before a call is asked it is *claimed*, for a short time that is renewed: the same call in another process waits
for the reply instead. Claims of processes that have ended are free at once on the same machine, else after the lease.

Rows are written by a thread, all that have come in at once: a commit takes as long for a hundred as for one. In WAL
mode a commit is in the hands of the system when it returns: a process may be killed at any time, and several may use
one file. (Power that fails may take the last commits with it, but never the file.) A damaged file is set aside, what
can still be read of it is taken over, and a new one begun.
"""

from __future__ import annotations

import json
import sqlite3
import struct
import threading
import zlib
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

from rubrank._files import connect, is_damaged, set_aside
from rubrank.errors import InvalidInput
from rubrank.judges.client.writing import COLUMNS, LEDGER, ReplyWriter, place_of, row_of, time_of
from rubrank.judges.judge import Call, Judge, Reply, Usage

_SIZE = 16
_VERSION = 1
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS ledger (id INTEGER PRIMARY KEY, {LEDGER});
CREATE INDEX IF NOT EXISTS by_key ON ledger (key);
CREATE TABLE IF NOT EXISTS hits (
    purpose TEXT, model TEXT, endpoint TEXT, hits INTEGER NOT NULL, PRIMARY KEY (purpose, model, endpoint)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS claims (key BLOB PRIMARY KEY, owner TEXT NOT NULL, until REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS unread (key BLOB, at REAL, PRIMARY KEY (key, at)) WITHOUT ROWID;
PRAGMA user_version = {_VERSION};
"""
_USABLE = "(failure IS NULL OR substr(failure, 1, 7) = CAST('refused' AS BLOB))"
_FIELDS = "text, failure, finish_reason, logprobs, model, endpoint, at"
_LOOK = f"SELECT {_FIELDS}, 0 FROM ledger WHERE key = ? AND {_USABLE} ORDER BY id"
_FIND = f"""SELECT {_FIELDS}, EXISTS (SELECT 1 FROM unread WHERE unread.key = ledger.key AND unread.at = ledger.at)
            FROM ledger WHERE key = ? AND {_USABLE} ORDER BY id"""
_OWNER = "SELECT owner, until FROM claims WHERE key = ?"
_AGAIN = 2  # replies without a verdict after which the question is not asked once more
_SALVAGED = 500  # rows at a time


FOLDER = ".rubrank"
"""Of a project, for what is kept from run to run."""
_MARKS = (FOLDER, ".git", "pyproject.toml")  # of the folder of a project


def project_store(start: Path | None = None) -> Path:
    """The file of replies of the project that a folder (by default the current one) belongs to, whatever a run writes.

    The project is the nearest folder above with a `.rubrank`, a `.git` or a `pyproject.toml`; else the folder itself.
    """
    here = (start or Path.cwd()).resolve()
    project = next((folder for folder in (here, *here.parents) if any((folder / m).exists() for m in _MARKS)), here)
    folder = project / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")
    return folder / "replies.sqlite"


class Keys:
    """The keys of one judge's calls."""

    def __init__(self, judge: Judge) -> None:
        # Two endpoints of the same model are one judge; endpoints of different models are one judge as well, whose
        # answers may come from any of them.
        models = {json.dumps([e.model, _mapping_or_repr(e.extra_body)], sort_keys=True) for e in judge.endpoints}
        parts = [sorted(models), judge.sampling.model_dump(mode="json")]
        self._start = blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=_SIZE)
        self._forms = sorted({f"{e.model} {e.structured}" for e in judge.endpoints if e.structured != "auto"})

    def of(self, call: Call) -> bytes:
        """The key of a call."""
        digest = self._start.copy()
        parts: list[Any] = [call.prompt_version, call.messages, call.schema, call.sample, call.logprobs]
        if call.schema is not None and self._forms:  # how a server is held to it
            parts.append(self._forms)
        digest.update(json.dumps(parts, sort_keys=True, default=_mapping_or_repr).encode())
        return digest.digest()


def _mapping_or_repr(value: Any) -> Any:
    """Mappings of other kinds, for JSON."""
    return dict(value) if isinstance(value, Mapping) else repr(value)


def reply_id(key: bytes, at: float) -> str:
    """Of the reply to a call at a time; the time can be read back from it."""
    return key[:6].hex() + struct.pack(">d", at).hex()


class Replies:
    """A file of replies; for the threads of one process, and for several processes at once."""

    def __init__(self, path: str | Path, *, read_only: bool = False) -> None:
        self.path = Path(path)
        self._read_only = read_only
        self._lock = threading.RLock()
        try:
            self._db = self._opened()
        except (sqlite3.Error, OSError) as error:
            raise InvalidInput(
                "judges",
                "cache",
                "a file that can be written, or a cache of replies",
                f"{path} ({error})",
                "",
            ) from None
        self._writer = None if read_only else ReplyWriter(lambda: connect(self.path), self._repair)

    def _opened(self) -> sqlite3.Connection:
        if self._read_only:
            return _look_only(self.path)
        try:
            return _open(self.path)
        except sqlite3.Error as error:
            if not is_damaged(self.path, error):
                raise
            return self._rebuilt()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Write what is left, and let go of the file."""
        if self._writer is not None:
            self._writer.close()
        self._db.close()

    @staticmethod
    def key(call: Call, judge: Judge) -> bytes:
        """The digest of everything a reply depends on."""
        return Keys(judge).of(call)

    # ------------------------------------------------------------------------------------------------------- reading

    def get(self, key: bytes) -> Reply | None:
        """The first usable reply, which costs nothing this time; raises sqlite3.OperationalError while it is locked."""
        with self._lock:
            try:
                rows = self._db.execute(_LOOK if self._read_only else _FIND, (key,)).fetchall()
            except sqlite3.DatabaseError as error:
                if not self._repair(error):
                    raise
                return self.get(key)
        return _chosen(key, rows)

    def rows(self) -> Iterator[tuple[Call, Reply, int, bool]]:
        """The ledger: what it was about, what came (without texts), how many requests, whether that ended the call."""
        fields = "purpose, model, endpoint, failure, input_tokens, output_tokens, cached_tokens, cost, latency"
        for row in self._all(f"SELECT {fields}, requests, final FROM ledger ORDER BY id"):
            purpose, model, endpoint, failure, asked, said, cached, cost, latency, requests, final = row
            usage = Usage(asked, said, cached, cost)
            reply = Reply(None, _decoded(failure), usage, latency, model=model, endpoint=endpoint)
            yield Call((), purpose=purpose), reply, requests, bool(final)

    def hits(self) -> list[tuple[str, str, str, int]]:
        """Purpose, model, endpoint, and how often it was answered from here."""
        return self._all("SELECT purpose, model, endpoint, hits FROM hits")

    def _all(self, query: str) -> list[Any]:
        if self._writer is not None:
            self._writer.flush()
        with self._lock:
            return self._db.execute(query).fetchall()

    def __len__(self) -> int:
        return int(self._all("SELECT count(DISTINCT key) FROM ledger WHERE failure IS NULL")[0][0])

    # ------------------------------------------------------------------------------------------------------- writing

    def put(self, key: bytes, call: Call, reply: Reply, requests: int = 1, *, final: bool = True) -> None:
        """Keep a reply, with the usage of `requests` requests; on disk when this returns."""
        self._writing().write(row_of(key, call, reply, requests, final)).result()

    async def keep(self, key: bytes, call: Call, reply: Reply, requests: int = 1, *, final: bool = True) -> None:
        """The same for an event loop, which goes on meanwhile."""
        await self._writing().written(row_of(key, call, reply, requests, final))

    def count_hit(self, call: Call, reply: Reply) -> None:
        """Count a cache hit; written with the next rows, or soon."""
        if self._writer is not None:
            self._writer.hit(place_of(call, reply))

    def mark_unreadable(self, key: bytes, reply: Reply) -> None:
        """No verdict could be read in this reply; written with the next rows, or soon."""
        if self._writer is not None and reply.id:
            self._writer.mark(key, time_of(reply.id))

    async def claim(self, key: bytes) -> bool:
        """May this process ask? If so, others wait for what it keeps, or until it `release`s the key."""
        writer = self._writing()
        if await writer.claim(key):
            return True
        with self._lock:
            found = self._db.execute(_OWNER, (key,)).fetchone()
        if found is not None:
            writer.end_claim_of_dead(key, found[0])
        return False

    def release(self, key: bytes) -> None:
        """The call is not asked any more."""
        self._writing().release(key)

    @property
    def read_only(self) -> bool:
        """Can nothing be kept here?"""
        return self._writer is None

    def _writing(self) -> ReplyWriter:
        if self._writer is None:
            raise InvalidInput("judges", "cache", "writable", f"{self.path}, opened to read", "")
        return self._writer

    # -------------------------------------------------------------------------------------------------------- damage

    def _repair(self, error: Exception) -> bool:
        """Begin anew after an error of a broken file; False: it is another error."""
        with self._lock:
            if self._read_only or not is_damaged(self.path, error):
                return False
            try:
                self._db.execute("SELECT count(*) FROM ledger WHERE key = x'00'").fetchone()
                self._db.execute("SELECT max(id) FROM ledger").fetchone()
            except sqlite3.Error:
                self._db.close()
                self._db = self._rebuilt()
            return True

    def _rebuilt(self) -> sqlite3.Connection:
        aside = set_aside(self.path, "judges")
        db = _open(self.path)
        _salvage(aside, db)
        return db


def _chosen(key: bytes, rows: list[Any]) -> Reply | None:
    """The first reply that could be read; else the last of those that could not, once there are two."""
    replies = [row for row in rows if row[1] is None] or rows
    readable = [row for row in replies if not row[-1]]
    if not readable and len(replies) < _AGAIN:
        return None
    text, failure, finish, logprobs, model, endpoint, at, _ = readable[0] if readable else replies[-1]
    return Reply(
        _decoded(text),
        _decoded(failure),
        attempts=0,
        model=model,
        endpoint=endpoint,
        cached=True,
        finish_reason=finish,
        id=reply_id(key, at),
        logprobs=None if logprobs is None else tuple(json.loads(zlib.decompress(logprobs))),
    )


def _decoded(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "surrogatepass")


def _open(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    db = connect(path)
    try:
        db.execute("BEGIN IMMEDIATE")  # a file that another process is making at this moment is whole, or not there yet
        _check_version(db, (0, _VERSION))
        for statement in filter(str.strip, _SCHEMA.split(";")):
            db.execute(statement)
        db.execute("COMMIT")
        db.execute("PRAGMA busy_timeout = 0")  # readers belong to an event loop, which does not stand still
    except BaseException:
        db.close()
        raise
    return db


def _look_only(path: Path) -> sqlite3.Connection:
    """For a file in a folder that cannot be written, such as an installed package's; it must not be written to."""
    uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
    db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    _check_version(db, (_VERSION,))
    return db


def _check_version(db: sqlite3.Connection, known: tuple[int, ...]) -> None:
    found = db.execute("PRAGMA user_version").fetchone()[0]
    strangers = found == 0 and db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if found not in known or strangers:
        db.close()
        raise sqlite3.DatabaseError("not a cache of replies, or one of another version")


def _salvage(aside: Path, db: sqlite3.Connection) -> None:
    """Take over what can be read of a broken file: it was paid."""
    marks, names = ", ".join("?" * len(COLUMNS)), ", ".join(COLUMNS)
    try:
        old = sqlite3.connect(f"{aside.resolve().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error:
        return
    rows = []
    try:
        for row in old.execute(f"SELECT {names} FROM ledger"):
            rows.append(row)
            if len(rows) == _SALVAGED:
                db.executemany(f"INSERT INTO ledger ({names}) VALUES ({marks})", rows)
                rows = []
    except sqlite3.Error:
        pass  # as far as it goes
    finally:
        old.close()
        db.executemany(f"INSERT INTO ledger ({names}) VALUES ({marks})", rows)
