"""Replies on disk, so that no call is paid for twice, and a ledger of every request that was paid for.

    with ReplyCache("replies.sqlite") as cache:
        key = CallKeys(judge).key(call)
        cache.get(key)                            None
        await cache.claim(key)                    True: this process is to send the call
        await cache.put_async(key, call, reply)   on disk when it returns; the claim ends
        cache.get(key)                            Reply(text=…, cached=True), without usage
        cache.get(key, ["http://other/v1"])       None: another server may serve another model under the same name

The file has four tables:

    ledger      one row for every request that was paid for and for every call that failed, with text and cost
    hits        how often calls were answered from here, by purpose, model and endpoint
    claims      calls in flight: key, process, and the end of its lease
    unread      replies in which no verdict could be found

The ledger answers a call with a usable reply, or with a refusal, which would come again at the same cost. If the only
reply has no readable verdict, the next run sends the call once more; after that, the second reply is used.

A claim makes identical calls in several processes wait for one reply. Its lease is renewed while the process lives.
If the process dies, other processes on its machine can take the claim over at once, those on other machines when the
lease ends.

`rubrank.store` describes what happens when a process is killed or forks, and when the file is damaged.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from glob import escape
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from rubrank._plain import replace_surrogates
from rubrank.errors import InvalidInput
from rubrank.judges.judge import Call, Judge, Reply, Usage
from rubrank.store import Store
from rubrank.verifiers.verifier import REFUSED

LEASE = 30.0
"""Seconds for which a claim holds if it is not renewed."""

_KEY_BYTES = 16
_VERSION = 1
_LEDGER_COLUMNS = """
    key BLOB NOT NULL, at REAL NOT NULL, purpose TEXT NOT NULL, model TEXT NOT NULL, endpoint TEXT NOT NULL,
    text BLOB, failure BLOB, finish_reason TEXT, logprobs BLOB,
    input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL, cost REAL NOT NULL,
    latency REAL NOT NULL, requests INTEGER NOT NULL, final INTEGER NOT NULL
"""
_COLUMN_NAMES = ", ".join(column.split()[0] for column in _LEDGER_COLUMNS.split(","))
_ROW_MARKS = f"({', '.join('?' for _ in _LEDGER_COLUMNS.split(','))})"
_INSERT_ROW = f"INSERT INTO ledger ({_COLUMN_NAMES}) VALUES {_ROW_MARKS}"
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS ledger (id INTEGER PRIMARY KEY, {_LEDGER_COLUMNS});
CREATE INDEX IF NOT EXISTS by_key ON ledger (key);
CREATE TABLE IF NOT EXISTS hits (
    purpose TEXT, model TEXT, endpoint TEXT, hits INTEGER NOT NULL, PRIMARY KEY (purpose, model, endpoint)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS claims (key BLOB PRIMARY KEY, owner TEXT NOT NULL, until REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS unread (key BLOB, at REAL, PRIMARY KEY (key, at)) WITHOUT ROWID;
"""
_IS_REFUSED = f"substr(failure, 1, {len(REFUSED)}) = CAST('{REFUSED}' AS BLOB)"
_SELECT_REPLIES = f"""
SELECT text, failure, finish_reason, logprobs, model, endpoint, at, {{is_unreadable}}
FROM ledger WHERE key = ? AND (failure IS NULL OR {_IS_REFUSED}) ORDER BY id
"""
_IS_UNREADABLE = (
    "EXISTS (SELECT 1 FROM unread WHERE unread.key = ledger.key AND unread.at = ledger.at)"
)
# A claim that exists is taken over only if its lease has ended, or if it is this process's own.
_CLAIM = """
INSERT INTO claims VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET owner = excluded.owner, until = excluded.until
WHERE claims.until < ? OR claims.owner = excluded.owner RETURNING key
"""
_COUNT_HIT = "INSERT INTO hits VALUES (?, ?, ?, 1) ON CONFLICT DO UPDATE SET hits = hits + 1"
_MAX_UNREADABLE = 2  # after so many replies without a verdict, the call is not sent again
_GATHER_SECONDS = 0.004  # that the writer waits for more requests before it commits

_PROJECT_FOLDER = ".rubrank"
_PROJECT_MARKS = (_PROJECT_FOLDER, ".git", "pyproject.toml")


def find_default_cache_path(start: Path | None = None) -> Path:
    """Return the path of the reply cache of the project that a folder belongs to, and create its folder.

    The project is the nearest folder above with a `.rubrank`, a `.git` or a `pyproject.toml`; else the folder itself.
    """
    start = (start or Path.cwd()).resolve()
    project = start
    for folder in (start, *start.parents):
        if any((folder / mark).exists() for mark in _PROJECT_MARKS):
            project = folder
            break
    cache_folder = project / _PROJECT_FOLDER
    cache_folder.mkdir(mode=0o700, exist_ok=True)
    ignore_file = cache_folder / ".gitignore"
    if not ignore_file.exists():
        ignore_file.write_text("*\n", encoding="utf-8")
    return cache_folder / "replies.sqlite"


# --------------------------------------------------------------------------------------------------------------- keys


class CallKeys:
    """Keys of the calls of one judge: digests of everything that a reply depends on.

    That is: prompt version, messages, schema, number of the sample, sampling, whether log-probabilities are wanted,
    and the models of the judge with their extra parameters and `structured`. Where they are served is not part of the
    key, so that replicas can be added or removed: the ledger says of each reply which server sent it, and `servers`
    are those whose replies this judge may use.
    """

    def __init__(self, judge: Judge) -> None:
        # Endpoints of different models are one judge, whose answers may come from any of them.
        models = set()
        structured = set()
        servers: list[str] = []
        for endpoint in judge.endpoints:
            servers += (escape(endpoint.where), *endpoint.cached_from)
            models.add(json.dumps([endpoint.model, _to_json(endpoint.extra_body)], sort_keys=True))
            if endpoint.structured != "auto":
                structured.add(f"{endpoint.model} {endpoint.structured}")
        parts = [sorted(models), judge.sampling.model_dump(mode="json")]
        self._judge_digest = blake2b(
            json.dumps(parts, sort_keys=True).encode(), digest_size=_KEY_BYTES
        )
        self._structured = sorted(structured)
        self.servers = tuple(servers)
        """Patterns of URLs, as `fnmatch` reads them."""

    def key(self, call: Call) -> bytes:
        """Return the key of a call."""
        request = (call.messages, call.schema, call.sample, call.logprobs)
        parts: list[Any] = [call.prompt_version, *request]
        if call.schema is not None and self._structured:
            parts.append(self._structured)
        digest = self._judge_digest.copy()
        digest.update(json.dumps(parts, sort_keys=True, default=_to_json).encode())
        return digest.digest()


def _to_json(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else repr(value)


def make_reply_id(key: bytes, at: float) -> str:
    """Return the id of a reply that came at this time; `_read_time` reads the time from it."""
    return key[:6].hex() + struct.pack(">d", at).hex()


def _read_time(reply: Reply) -> float:
    """Return the time at which a reply came, from its id; now if it has none."""
    if not reply.id:
        return time.time()
    return float(struct.unpack(">d", bytes.fromhex(reply.id[12:]))[0])


# -------------------------------------------------------------------------------------------------------------- cache


class ReplyCache:
    """A file of replies; for all threads of a process, and for several processes at once."""

    def __init__(self, path: str | Path, *, read_only: bool = False) -> None:
        self.path = Path(path)
        self.read_only = read_only
        self._owner = f"{socket.gethostname()} {os.getpid()} {uuid4().hex[:8]}"
        self._claimed: set[bytes] = set()
        self._renewal: threading.Timer | None = None
        # With a read-only cache no call can be sent again, so the first reply is used even if it is unreadable.
        self._select = _SELECT_REPLIES.format(is_unreadable="0" if read_only else _IS_UNREADABLE)
        try:
            self._store = Store(
                self.path,
                _SCHEMA,
                name="judges",
                version=_VERSION,
                recover=_recover_ledger,
                gather=_GATHER_SECONDS,
                read_only=read_only,
            )
        except (sqlite3.Error, OSError) as error:
            raise InvalidInput(
                "judges",
                "cache",
                allowed="a new file that can be written, or a cache of replies",
                got=f"{path} ({error})",
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give up all claims, write what is waiting, and close the file."""
        if self._renewal is not None:
            self._renewal.cancel()
        for key in list(self._claimed):
            self.release(key)
        self._store.close()

    # ------------------------------------------------------------------------------------------------------- reading

    def get(self, key: bytes, servers: Sequence[str] | None = None) -> Reply | None:
        """Return the reply to a call, without usage, because it costs nothing this time; None if there is none.

        servers: only replies of these are used (`CallKeys.servers`); None: of any.
        """
        return _choose_reply(key, self._store.read(self._select, (key,)), servers)

    async def get_async(self, key: bytes, servers: Sequence[str] | None = None) -> Reply | None:
        """Return the same as `get`. The event loop goes on while another process has locked the file."""
        return _choose_reply(key, await self._store.read_async(self._select, (key,)), servers)

    def ledger(self) -> Iterator[tuple[Call, Reply, int, bool]]:
        """Yield for every row: the call (its purpose), the reply (without text), number of requests, and `final`."""
        self.flush()
        columns = "purpose, model, endpoint, failure, input_tokens, output_tokens, cached_tokens, cost, latency"
        for row in self._store.read(f"SELECT {columns}, requests, final FROM ledger ORDER BY id"):
            purpose, model, endpoint, failure = row[:4]
            usage = Usage(*row[4:8])
            latency, requests, final = row[8:]
            reply = Reply(
                None,
                failure=_decode(failure),
                usage=usage,
                latency=latency,
                model=model,
                endpoint=endpoint,
            )
            yield Call((), purpose=purpose), reply, requests, bool(final)

    def hits(self) -> list[tuple[str, str, str, int]]:
        """Return (purpose, model, endpoint, number of calls that were answered from here)."""
        self.flush()
        return self._store.read("SELECT purpose, model, endpoint, hits FROM hits")

    def __len__(self) -> int:
        """Return the number of calls that have an answer."""
        self.flush()
        return int(
            self._store.read("SELECT count(DISTINCT key) FROM ledger WHERE failure IS NULL")[0][0]
        )

    # ------------------------------------------------------------------------------------------------------- writing

    def put(
        self, key: bytes, call: Call, reply: Reply, requests: int = 1, *, final: bool = True
    ) -> None:
        """Store a reply; it is on disk when this returns.

        requests: how many requests its usage covers.
        final: the reply ends the call; False for a request that was paid for and is retried.
        """
        with _explain_errors():
            self._store.write(self._make_insert(key, call, reply, requests, final)).result()

    async def put_async(
        self, key: bytes, call: Call, reply: Reply, requests: int = 1, *, final: bool = True
    ) -> None:
        """Store a reply as `put` does, without blocking the event loop."""
        with _explain_errors():
            await self._store.write_async(self._make_insert(key, call, reply, requests, final))

    def count_hit(self, call: Call, reply: Reply) -> None:
        """Count a call that was answered from the cache; returns before the count is on disk."""
        if not self.read_only:
            origin = _make_origin(call, reply)
            self._store.write(lambda db: db.execute(_COUNT_HIT, origin))

    def mark_unreadable(self, key: bytes, reply: Reply) -> None:
        """Record that this reply has no readable verdict; returns before the record is on disk."""
        if not self.read_only and reply.id:
            values = (key, _read_time(reply))
            self._store.write(
                lambda db: db.execute("INSERT OR IGNORE INTO unread VALUES (?, ?)", values)
            )

    def flush(self) -> None:
        """Wait until everything that was submitted so far is on disk."""
        self._store.flush()

    def _make_insert(
        self, key: bytes, call: Call, reply: Reply, requests: int, final: bool
    ) -> Callable[[sqlite3.Connection], None]:
        """Return the function that writes one row of the ledger; raises InvalidInput if the cache is read-only."""
        if self.read_only:
            raise InvalidInput(
                "judges", "cache", allowed="writable", got=f"{self.path}, opened to read"
            )
        if final:
            self._claimed.discard(key)
        logprobs = None
        if reply.logprobs is not None:
            logprobs = zlib.compress(json.dumps(reply.logprobs).encode(), 1)
        row = (
            key,
            _read_time(reply),
            *_make_origin(call, reply),
            _encode(reply.text),
            _encode(reply.failure),
            replace_surrogates(reply.finish_reason or "") or None,
            logprobs,
            reply.usage.input_tokens,
            reply.usage.output_tokens,
            reply.usage.cached_tokens,
            reply.usage.cost,
            reply.latency,
            requests,
            int(final),
        )

        def insert(db: sqlite3.Connection) -> None:
            db.execute(_INSERT_ROW, row)
            if final:
                # In the same transaction, so that no other process sees the one without the other.
                db.execute("DELETE FROM claims WHERE key = ?", (key,))

        return insert

    # -------------------------------------------------------------------------------------------------------- claims

    async def claim(self, key: bytes) -> bool:
        """Claim a call; True if this process is to send it.

        Other processes then wait until this one puts the reply or releases the key.
        """
        now = time.time()

        def claim(db: sqlite3.Connection) -> bool:
            return bool(db.execute(_CLAIM, (key, self._owner, now + LEASE, now)).fetchall())

        with _explain_errors():
            claimed: bool = await self._store.write_async(claim)
        if claimed:
            self._claimed.add(key)
            if self._renewal is None:
                self._schedule_renewal()
            return True
        for (owner,) in await self._store.read_async(
            "SELECT owner FROM claims WHERE key = ?", (key,)
        ):
            if _is_dead(owner):
                self._delete_claim(key, owner)
        return False

    def release(self, key: bytes) -> None:
        """Give up the claim of a call that is not sent, or was given up."""
        self._claimed.discard(key)
        with suppress(RuntimeError):  # the cache is closed, which has released everything
            self._delete_claim(key, self._owner)

    def _delete_claim(self, key: bytes, owner: str) -> None:
        delete = "DELETE FROM claims WHERE key = ? AND owner = ?"
        self._store.write(lambda db: db.execute(delete, (key, owner)))

    def _schedule_renewal(self) -> None:
        """Start the timer after which the leases of all claims are renewed."""
        self._renewal = threading.Timer(LEASE / 3, self._renew_claims)
        self._renewal.daemon = True
        self._renewal.start()

    def _renew_claims(self) -> None:
        """Renew the leases of all claims of this process; called by the timer."""
        self._renewal = None
        if self._claimed:
            with suppress(RuntimeError):  # closed meanwhile
                values = (time.time() + LEASE, self._owner)
                self._store.write(
                    lambda db: db.execute("UPDATE claims SET until = ? WHERE owner = ?", values)
                )
                self._schedule_renewal()


@contextmanager
def _explain_errors() -> Iterator[None]:
    """Raise errors of the writer thread (a full disk, a value that no column can hold) as errors of the cache."""
    try:
        yield
    except (sqlite3.Error, OverflowError, OSError) as error:
        raise InvalidInput(
            "judges", "cache", allowed="a file that can be written", got=str(error)
        ) from None


def _make_origin(call: Call, reply: Reply) -> tuple[str, str, str]:
    """Return purpose, model and endpoint."""
    return (
        replace_surrogates(call.purpose),
        replace_surrogates(reply.model),
        replace_surrogates(reply.endpoint),
    )


def _encode(text: str | None) -> bytes | None:
    """Return the text as a blob, because SQLite's own text type cannot hold lone surrogates."""
    return None if text is None else text.encode("utf-8", "surrogatepass")


def _decode(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "surrogatepass")


def _choose_reply(key: bytes, rows: Sequence[Any], servers: Sequence[str] | None) -> Reply | None:
    """Choose from the rows of `_SELECT_REPLIES`; None if the call must be sent (again).

    Replies are preferred to refusals. Among replies the first readable one is chosen, or the last one if none is
    readable and there are two.
    """
    if servers is not None:
        rows = [row for row in rows if any(fnmatchcase(row[5], pattern) for pattern in servers)]
    candidates = [row for row in rows if row[1] is None]  # no failure
    if not candidates:
        candidates = list(rows)
    readable = [row for row in candidates if not row[-1]]  # not is_unreadable
    if readable:
        chosen = readable[0]
    elif len(candidates) >= _MAX_UNREADABLE:
        chosen = candidates[-1]
    else:
        return None
    text, failure, finish_reason, logprobs, model, endpoint, at, _ = chosen
    return Reply(
        _decode(text),
        _decode(failure),
        attempts=0,
        model=model,
        endpoint=endpoint,
        cached=True,
        finish_reason=finish_reason,
        logprobs=None if logprobs is None else tuple(json.loads(zlib.decompress(logprobs))),
        id=make_reply_id(key, at),
    )


def _is_dead(owner: str) -> bool:
    """Has the process that owns a claim ended? False for processes on other machines, which cannot be checked."""
    host, _, rest = owner.partition(" ")
    if host != socket.gethostname():
        return False
    try:
        os.kill(int(rest.partition(" ")[0]), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, ValueError):
        pass
    return False


def _recover_ledger(damaged: Path, db: sqlite3.Connection) -> None:
    """Copy the rows of a damaged file, as far as they can be read: they were paid for."""
    with suppress(sqlite3.Error):
        old = sqlite3.connect(f"{damaged.resolve().as_uri()}?mode=ro", uri=True)
        db.execute("BEGIN IMMEDIATE")
        try:
            for row in old.execute(f"SELECT {_COLUMN_NAMES} FROM ledger"):
                db.execute(_INSERT_ROW, row)
        finally:
            db.execute("COMMIT")
            old.close()
