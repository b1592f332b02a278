"""The thread that writes rows of the ledger, many in one commit.

    writer = Writer(connect)
    writer.write(row).result()        on disk
    await writer.written(row)         the same, and the event loop goes on meanwhile

Whoever comes while a commit is under way goes into the next. Rows go in as statements of many rows each: SQLite lets go
of the interpreter's lock in every statement, and to get it back from a busy event loop takes milliseconds.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeAlias

from rubrank.errors import InvalidInput
from rubrank.judges.judge import Call, Reply

Row: TypeAlias = tuple[Any, ...]
Waiting: TypeAlias = "Future[None] | asyncio.Future[None]"
Hit: TypeAlias = tuple[str, str, str]

LEDGER = """
    key BLOB NOT NULL, at REAL NOT NULL, purpose TEXT NOT NULL, model TEXT NOT NULL, endpoint TEXT NOT NULL,
    text BLOB, failure BLOB, finish_reason TEXT, logprobs BLOB,
    input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL, cost REAL NOT NULL,
    latency REAL NOT NULL, requests INTEGER NOT NULL, final INTEGER NOT NULL
"""
_COLUMNS = [column.split()[0] for column in LEDGER.split(",")]
_AT_ONCE = (64, 8, 1)  # rows in one statement; few sizes, so that all stay prepared
_COUNT = "INSERT INTO hits VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET hits = hits + excluded.hits"


def row_of(key: bytes, call: Call, reply: Reply, requests: int, final: bool) -> Row:
    """A row of the ledger."""
    usage = reply.usage
    logprobs = None if reply.logprobs is None else zlib.compress(json.dumps(reply.logprobs).encode(), 1)
    return (
        key, time.time(), *place_of(call, reply), _encoded(reply.text), _encoded(reply.failure),
        _whole(reply.finish_reason or "") or None, logprobs, usage.input_tokens, usage.output_tokens,
        usage.cached_tokens, usage.cost, reply.latency, requests, int(final),
    )  # fmt: skip


def place_of(call: Call, reply: Reply) -> Hit:
    """Purpose, model and endpoint."""
    return _whole(call.purpose), _whole(reply.model), _whole(reply.endpoint)


def _whole(text: str) -> str:
    """Without halves of characters, which SQLite does not take."""
    return text.encode("utf-8", "replace").decode()


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogatepass")


class Writer:
    """Of one file; begins with the first row."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._rows: list[tuple[Row, Waiting]] = []
        self._hits: Counter[Hit] = Counter()
        self._wake = threading.Condition()
        self._closing = self._writing = False
        self._thread: threading.Thread | None = None

    def write(self, row: Row) -> Future[None]:
        """Done when it is on disk."""
        done: Future[None] = Future()
        self._add(row, done)
        return done

    async def written(self, row: Row) -> None:
        """Return when it is on disk; if cancelled, it is written all the same."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._add(row, done)
        await done

    def _add(self, row: Row, done: Waiting) -> None:
        with self._wake:
            self._rows.append((row, done))
            self._begin()

    def hit(self, hit: Hit) -> None:
        """Counted soon."""
        with self._wake:
            self._hits[hit] += 1
            self._begin()

    def _begin(self) -> None:
        if self._closing:
            raise RuntimeError("the cache of replies is closed")
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="rubrank-replies", daemon=True)
            self._thread.start()
        self._wake.notify_all()

    def flush(self) -> None:
        """Wait until everything so far is on disk."""
        with self._wake:
            self._wake.wait_for(lambda: not (self._rows or self._hits or self._writing))

    def close(self) -> None:
        """Write what is left, and end."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        db: sqlite3.Connection | None = None
        while self._more():
            rows, hits = self._take()
            error: Exception | None = None
            try:
                db = db or self._connect()
                _commit(db, [row for row, _ in rows], hits)
            except Exception as problem:  # the disk is full, the file is gone: whoever waits must know, whatever it is
                error = InvalidInput("judges", "cache", "a file that can be written", str(problem), "Make room for it.")
            _tell([done for _, done in rows], error)
            with self._wake:
                self._writing = False
                self._wake.notify_all()
        if db is not None:
            db.close()

    def _more(self) -> bool:
        with self._wake:
            self._wake.wait_for(lambda: self._rows or self._hits or self._closing)
            return bool(self._rows or self._hits)

    def _take(self) -> tuple[list[tuple[Row, Waiting]], Counter[Hit]]:
        with self._wake:
            rows, hits = self._rows, self._hits
            self._rows, self._hits, self._writing = [], Counter(), True
            return rows, hits


def _commit(db: sqlite3.Connection, rows: Sequence[Row], hits: Counter[Hit]) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        start = 0
        while start < len(rows):
            size = next(size for size in _AT_ONCE if size <= len(rows) - start)
            values = [value for row in rows[start : start + size] for value in row]
            db.execute(_insert(size), values)
            start += size
        for hit, number in hits.items():
            db.execute(_COUNT, (*hit, number))
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _insert(rows: int) -> str:
    marks = f"({', '.join('?' * len(_COLUMNS))})"
    return f"INSERT INTO ledger ({', '.join(_COLUMNS)}) VALUES {', '.join([marks] * rows)}"


def _tell(waiting: Sequence[Waiting], error: Exception | None) -> None:
    """Wake those who wait; those of one event loop together, since each call into it costs."""
    loops: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for done in waiting:
        if isinstance(done, asyncio.Future):
            loops.setdefault(done.get_loop(), []).append(done)
        else:
            _settle(done, error)
    for loop, futures in loops.items():
        try:
            loop.call_soon_threadsafe(_settle_all, futures, error)
        except RuntimeError:  # the loop has ended, and nobody waits any more
            continue


def _settle_all(waiting: Sequence[Waiting], error: Exception | None) -> None:
    for done in waiting:
        _settle(done, error)


def _settle(done: Waiting, error: Exception | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
