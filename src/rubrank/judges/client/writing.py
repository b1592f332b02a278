"""The thread that writes rows of the ledger and claims, many in one commit.

    writer = ReplyWriter(connect, repair)
    writer.write(row).result()        on disk
    await writer.written(row)         the same, and the event loop goes on meanwhile
    await writer.claim(key)           True: this process is to ask; kept until a row of that key is written

Rows that come while a commit is under way go into the next. Rows go in as statements of many rows each: SQLite lets go
of the interpreter's lock in every statement, and to get it back from a busy event loop takes milliseconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sqlite3
import struct
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from uuid import uuid4

from rubrank._plain import clean
from rubrank.errors import InvalidInput
from rubrank.judges.judge import Call, Reply

Row: TypeAlias = tuple[Any, ...]
Waiting: TypeAlias = "Future[Any] | asyncio.Future[Any]"
Hit: TypeAlias = tuple[str, str, str]

LEDGER = """
    key BLOB NOT NULL, at REAL NOT NULL, purpose TEXT NOT NULL, model TEXT NOT NULL, endpoint TEXT NOT NULL,
    text BLOB, failure BLOB, finish_reason TEXT, logprobs BLOB,
    input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL, cost REAL NOT NULL,
    latency REAL NOT NULL, requests INTEGER NOT NULL, final INTEGER NOT NULL
"""
COLUMNS = [column.split()[0] for column in LEDGER.split(",")]
_AT_ONCE = 256  # rows in one statement: each takes a turn with the interpreter's lock, which a busy loop keeps
_GATHER = 0.004  # seconds in which more may come in: few commits of many rows take the event loop less time
LEASE = 30.0
"""Seconds for which a claim holds if it is not renewed."""
_COUNT = "INSERT INTO hits VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET hits = hits + excluded.hits"


def row_of(key: bytes, call: Call, reply: Reply, requests: int, final: bool) -> Row:
    """A row of the ledger."""
    usage = reply.usage
    logprobs = None if reply.logprobs is None else zlib.compress(json.dumps(reply.logprobs).encode(), 1)
    return (
        key,
        time_of(reply.id),
        *place_of(call, reply),
        _encoded(reply.text),
        _encoded(reply.failure),
        clean(reply.finish_reason or "") or None,
        logprobs,
        usage.input_tokens,
        usage.output_tokens,
        usage.cached_tokens,
        usage.cost,
        reply.latency,
        requests,
        int(final),
    )


def time_of(id: str) -> float:
    """When the reply of this id came; now, if it has none."""
    return float(struct.unpack(">d", bytes.fromhex(id[12:]))[0]) if id else time.time()


def place_of(call: Call, reply: Reply) -> Hit:
    """Purpose, model and endpoint."""
    return clean(call.purpose), clean(reply.model), clean(reply.endpoint)


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogatepass")


@dataclass
class _Work:
    """What is to be written next."""

    rows: list[tuple[Row, Waiting]] = field(default_factory=list)
    claims: list[tuple[bytes, Waiting]] = field(default_factory=list)
    released: list[tuple[bytes, str]] = field(default_factory=list)
    unread: list[tuple[bytes, float]] = field(default_factory=list)
    hits: Counter[Hit] = field(default_factory=Counter)

    def __bool__(self) -> bool:
        return bool(self.rows or self.claims or self.released or self.unread or self.hits)


class ReplyWriter:
    """Of one file; begins with the first row. `repair` is asked about errors: True: the file was made anew."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], repair: Callable[[Exception], bool]) -> None:
        self._connect, self._repair = connect, repair
        self.owner = f"{socket.gethostname()} {os.getpid()} {uuid4().hex[:8]}"
        self._work = _Work()
        self._held: set[bytes] = set()
        self._renewed = 0.0
        self._wake = threading.Condition()
        self._closing = self._writing = self._idle = False
        self._thread: threading.Thread | None = None

    def write(self, row: Row) -> Future[None]:
        """Done when it is on disk."""
        done: Future[None] = Future()
        with self._wake:
            self._work.rows.append((row, done))
            self._begin()
        return done

    async def written(self, row: Row) -> None:
        """Return when it is on disk; if cancelled, it is written all the same."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._wake:
            self._work.rows.append((row, done))
            self._begin()
        await done

    async def claim(self, key: bytes) -> bool:
        """Is the call with this key this process's to ask?"""
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        with self._wake:
            self._work.claims.append((key, done))
            self._begin()
        return await done

    def release(self, key: bytes) -> None:
        """Nothing will be written under this key."""
        with self._wake:
            if not self._closing:
                self._work.released.append((key, self.owner))
                self._begin()

    def end_claim_of_dead(self, key: bytes, owner: str) -> None:
        """Free the claim of a process of this machine that has ended."""
        host, pid, _ = owner.split(" ", 2) if owner.count(" ") == 2 else ("", "0", "")
        if host != socket.gethostname() or owner == self.owner:
            return
        with suppress(PermissionError, ValueError):
            try:
                os.kill(int(pid), 0)
            except ProcessLookupError:
                with self._wake:
                    self._work.released.append((key, owner))
                    self._begin()

    def hit(self, hit: Hit) -> None:
        """Counted soon."""
        with self._wake:
            self._work.hits[hit] += 1
            self._begin()

    def mark(self, key: bytes, at: float) -> None:
        """A reply that could not be read."""
        with self._wake:
            self._work.unread.append((key, at))
            self._begin()

    def _begin(self) -> None:
        if self._closing:
            raise RuntimeError("the cache of replies is closed")
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="rubrank-replies", daemon=True)
            self._thread.start()
        if self._idle:  # it looks by itself when it is done: to wake a thread costs more than a row
            self._idle = False
            self._wake.notify_all()

    def flush(self) -> None:
        """Wait until everything so far is on disk."""
        with self._wake:
            self._wake.wait_for(lambda: not (self._work or self._writing))

    def close(self) -> None:
        """Write what is left, and end."""
        with self._wake:
            if self._held and not self._closing:
                self._work.released += [(key, self.owner) for key in self._held]
            self._closing = True
            self._wake.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        db: sqlite3.Connection | None = None
        while (work := self._next()) is not None:
            error: Exception | None = None
            claimed: set[bytes] = set()
            try:
                db, claimed = self._written(db, work)
            except Exception as problem:  # the disk is full, the file is gone: those who wait must know, whatever it is
                error = InvalidInput("judges", "cache", "a file that can be written", str(problem), "")
                db = None
            _tell([(done, None) for _, done in work.rows], error)
            _tell([(done, key in claimed) for key, done in work.claims], error)
            with self._wake:
                self._writing = False
                self._wake.notify_all()
        if db is not None:
            db.close()

    def _written(self, db: sqlite3.Connection | None, work: _Work) -> tuple[sqlite3.Connection, set[bytes]]:
        """The work done, by way of a new file if this one turns out to be broken."""
        db = db or self._connect()
        try:
            return db, self._commit(db, work)
        except sqlite3.DatabaseError as error:
            db.close()
            if not self._repair(error):
                raise
        db = self._connect()
        return db, self._commit(db, work)

    def _next(self) -> _Work | None:
        """What to do; after a while of nothing the claims, to be renewed; None: the end."""
        with self._wake:
            self._idle = True
            due = self._wake.wait_for(lambda: self._work or self._closing, LEASE / 3 if self._held else None)
            self._idle = False
            if due and not self._work:
                return None
            self._writing = True
        if not self._closing:
            time.sleep(_GATHER)
        with self._wake:
            work, self._work = self._work, _Work()
            return work

    def _commit(self, db: sqlite3.Connection, work: _Work) -> set[bytes]:
        """All of it in one transaction; returns the keys that were claimed."""
        now, rows = time.time(), [row for row, _ in work.rows]
        ended = [row[0] for row in rows if row[-1]]
        db.execute("BEGIN IMMEDIATE")
        try:
            for some in _parts(rows):
                db.execute(_insert(len(some)), [value for row in some for value in row])
            for keys in _parts(ended):
                db.execute(f"DELETE FROM claims WHERE key IN ({', '.join('?' * len(keys))})", keys)
            for key, owner in work.released:
                db.execute("DELETE FROM claims WHERE key = ? AND owner = ?", (key, owner))
            if self._held and now > self._renewed + LEASE / 3:
                db.execute("UPDATE claims SET until = ? WHERE owner = ?", (now + LEASE, self.owner))
                self._renewed = now
            claimed = {key for some in _parts(work.claims) for key in self._claim(db, [key for key, _ in some], now)}
            for marked in work.unread:
                db.execute("INSERT OR IGNORE INTO unread VALUES (?, ?)", marked)
            for hit, number in work.hits.items():
                db.execute(_COUNT, (*hit, number))
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        self._held = (self._held | claimed) - {*ended, *(key for key, _ in work.released)}
        return claimed

    def _claim(self, db: sqlite3.Connection, keys: Sequence[bytes], now: float) -> list[bytes]:
        given = [value for key in dict.fromkeys(keys) for value in (key, self.owner, now + LEASE)]
        taken = db.execute(
            f"INSERT INTO claims VALUES {', '.join(['(?, ?, ?)'] * (len(given) // 3))} ON CONFLICT DO UPDATE SET"
            " owner = excluded.owner, until = excluded.until WHERE claims.until < ? OR claims.owner = excluded.owner"
            " RETURNING key",
            [*given, now],
        )
        return [bytes(key) for (key,) in taken.fetchall()]


def _parts(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """As many as go into one statement."""
    for start in range(0, len(items), _AT_ONCE):
        yield items[start : start + _AT_ONCE]


def _insert(rows: int) -> str:
    marks = f"({', '.join('?' * len(COLUMNS))})"
    return f"INSERT INTO ledger ({', '.join(COLUMNS)}) VALUES {', '.join([marks] * rows)}"


def _tell(waiting: Sequence[tuple[Waiting, Any]], error: Exception | None) -> None:
    """Wake those who wait; those of one event loop together, since each call into it costs."""
    loops: dict[asyncio.AbstractEventLoop, list[tuple[Waiting, Any]]] = {}
    for done, value in waiting:
        if isinstance(done, asyncio.Future):
            loops.setdefault(done.get_loop(), []).append((done, value))
        else:
            _settle(done, value, error)
    for loop, futures in loops.items():
        with suppress(RuntimeError):  # the loop has ended, and nothing waits any more
            loop.call_soon_threadsafe(_settle_all, futures, error)


def _settle_all(waiting: Sequence[tuple[Waiting, Any]], error: Exception | None) -> None:
    for done, value in waiting:
        _settle(done, value, error)


def _settle(done: Waiting, value: Any, error: Exception | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(value)
    else:
        done.set_exception(error)
