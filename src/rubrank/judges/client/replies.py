"""Replies on disk, so that none is paid twice, and a ledger of everything that was: SQLite, kept after a kill.

    with Replies("replies.sqlite") as store:
        key = Replies.key(call, judge)
        store.get(key)                        None
        store.put(key, call, reply)           on disk when it returns; in an event loop: await store.keep(…)
        store.get(key)                        Reply(text=…, cached=True), and its usage is nothing

A key is a digest of everything a reply depends on: prompt version, messages, schema, number of the sample, sampling,
whether log-probabilities are wanted, and the models of the judge with their extra parameters; not where they are
served. The ledger has a row for every request that was paid and for every call that failed, with the text and the cost;
only usable replies are answered from.

Rows are written by a thread, all that have come in at once: a commit takes as long for a hundred as for one. In WAL
mode a commit is in the hands of the system when it returns: a process may be killed at any time, and several may use
one file. (Power that fails may take the last commits with it, but never the file.)
"""

from __future__ import annotations

import json
import sqlite3
import threading
import zlib
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rubrank._files import connect
from rubrank.errors import InvalidInput
from rubrank.judges.client.writing import LEDGER, Writer, place_of, row_of
from rubrank.judges.judge import Call, Judge, Reply, Usage

_SIZE = 16
_VERSION = 1
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS ledger (id INTEGER PRIMARY KEY, {LEDGER});
CREATE INDEX IF NOT EXISTS replies ON ledger (key) WHERE failure IS NULL;
CREATE TABLE IF NOT EXISTS hits (
    purpose TEXT, model TEXT, endpoint TEXT, hits INTEGER NOT NULL, PRIMARY KEY (purpose, model, endpoint)
) WITHOUT ROWID;
PRAGMA user_version = {_VERSION};
"""
_FIND = """SELECT text, finish_reason, logprobs, model, endpoint FROM ledger WHERE key = ? AND failure IS NULL
           ORDER BY id LIMIT 1"""


class Keys:
    """The keys of one judge's calls."""

    def __init__(self, judge: Judge) -> None:
        # Two endpoints of the same model are one judge; endpoints of different models are one judge as well, whose
        # answers may come from any of them.
        models = {json.dumps([e.model, _plain(e.extra_body)], sort_keys=True) for e in judge.endpoints}
        parts = [sorted(models), judge.sampling.model_dump(mode="json")]
        self._start = blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=_SIZE)

    def of(self, call: Call) -> bytes:
        """The key of a call."""
        digest = self._start.copy()
        parts = [call.prompt_version, call.messages, call.schema, call.sample, call.logprobs]
        digest.update(json.dumps(parts, sort_keys=True, default=_plain).encode())
        return digest.digest()


def _plain(value: Any) -> Any:
    """Mappings of other kinds, for JSON."""
    return dict(value) if isinstance(value, Mapping) else repr(value)


class Replies:
    """A file of replies; for the threads of one process, and for several processes at once."""

    def __init__(self, path: str | Path, *, read_only: bool = False) -> None:
        self.path = Path(path)
        try:
            self._db = _look_only(self.path) if read_only else _open(self.path)
        except (sqlite3.Error, OSError) as error:
            raise InvalidInput(
                "judges", "cache", "a file that can be written, or a cache of replies", f"{path} ({error})",
                "Choose another file.",
            ) from None  # fmt: skip
        self._lock = threading.Lock()
        self._writer = None if read_only else Writer(lambda: connect(self.path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
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

    def get(self, key: bytes) -> Reply | None:
        """The first usable reply; it costs nothing this time."""
        with self._lock:
            row = self._db.execute(_FIND, (key,)).fetchone()
        if row is None:
            return None
        text, finish, logprobs, model, endpoint = row
        return Reply(
            _decoded(text), attempts=0, model=model, endpoint=endpoint, cached=True, finish_reason=finish,
            logprobs=None if logprobs is None else tuple(json.loads(zlib.decompress(logprobs))),
        )  # fmt: skip

    def put(self, key: bytes, call: Call, reply: Reply, requests: int = 1, *, final: bool = True) -> None:
        """Keep a reply, with the usage of `requests` requests; on disk when this returns."""
        self._writing().write(row_of(key, call, reply, requests, final)).result()

    async def keep(self, key: bytes, call: Call, reply: Reply, requests: int = 1, *, final: bool = True) -> None:
        """The same for an event loop, which goes on meanwhile."""
        await self._writing().written(row_of(key, call, reply, requests, final))

    def count_hit(self, call: Call, reply: Reply) -> None:
        """Somebody was answered from here; written with the next rows, or soon."""
        if self._writer is not None:
            self._writer.hit(place_of(call, reply))

    @property
    def read_only(self) -> bool:
        """Can nothing be kept here?"""
        return self._writer is None

    def _writing(self) -> Writer:
        if self._writer is None:
            raise InvalidInput("judges", "cache", "writable", f"{self.path}, opened to read", "Open it to write.")
        return self._writer

    def rows(self) -> Iterator[tuple[Call, Reply, int, bool]]:
        """The ledger: what it was about, what came (without texts), how many requests, whether that ended the call."""
        fields = "purpose, model, endpoint, failure, input_tokens, output_tokens, cached_tokens, cost, latency"
        for row in self._all(f"SELECT {fields}, requests, final FROM ledger ORDER BY id"):
            purpose, model, endpoint, failure, asked, said, cached, cost, latency, requests, final = row
            usage = Usage(asked, said, cached, cost)
            reply = Reply(None, _decoded(failure), usage, latency, model=model, endpoint=endpoint)
            yield Call((), purpose=purpose), reply, requests, bool(final)

    def hits(self) -> list[tuple[str, str, str, int]]:
        """Purpose, model, endpoint, and how often somebody was answered from here."""
        return self._all("SELECT purpose, model, endpoint, hits FROM hits")

    def _all(self, query: str) -> list[Any]:
        if self._writer is not None:
            self._writer.flush()
        with self._lock:
            return self._db.execute(query).fetchall()

    def __len__(self) -> int:
        return int(self._all("SELECT count(DISTINCT key) FROM ledger WHERE failure IS NULL")[0][0])


def _decoded(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "surrogatepass")


def _open(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    db = connect(path)
    db.execute("BEGIN IMMEDIATE")  # a file that another process is making at this moment is whole, or not there yet
    _check_version(db, (0, _VERSION))
    for statement in filter(str.strip, _SCHEMA.split(";")):
        db.execute(statement)
    db.execute("COMMIT")
    return db


def _look_only(path: Path) -> sqlite3.Connection:
    """For a file in a folder that cannot be written, such as an installed package's; nobody may write to it."""
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
