"""SQLite files that many threads and processes write at once, and that survive kill -9, forks and damage.

    store = Store("verdicts.sqlite", "CREATE TABLE IF NOT EXISTS verdicts (key BLOB, value REAL)", name="grade")
    store.read("SELECT value FROM verdicts WHERE key = ?", (key,))                [(1.0,)]
    store.write(lambda db: db.execute("INSERT …", row)).result()                  on disk when result() returns
    await store.write_async(lambda db: db.execute("INSERT …", row))               the same inside an event loop
    store.close()

Every store has one connection for reading, and one writer thread with a second connection:

    write(request) ──► queue ──► writer thread: BEGIN IMMEDIATE, all requests that are waiting, COMMIT ──► futures
    read(sql)      ──► reading connection

A hundred requests take one commit, which costs about as much as a commit of a single row. If one of them fails, the
transaction is rolled back and every request is run again in a separate transaction, so that only the bad one fails.

Kill. Files are in WAL mode: when a commit returns, the operating system has the data, and killing the process cannot
lose it. (A power failure may lose the last commits; it never damages the file.)

Forks. SQLite must not carry a connection into a forked process: the child would believe that it holds its parent's
file locks. So a fork waits until no statement or transaction of this process is running, and the child closes its
copies of the connections. A store that was open before the fork opens new ones in the child when it is used there.

Damage. A damaged file is renamed to FILE.damaged and a new one is started; `recover` may copy what is still readable.
A file that was never a SQLite database (somebody's CSV) is not touched: sqlite3.DatabaseError is raised.
"""

from __future__ import annotations

import asyncio
import codecs
import logging
import os
import queue
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self, TypeAlias, TypeVar

T = TypeVar("T")
Request: TypeAlias = Callable[[sqlite3.Connection], Any]
"""Is called with the connection within a transaction of the writer thread."""
Recover: TypeAlias = Callable[[Path, sqlite3.Connection], None]
"""Copies what can still be read from the renamed damaged file into the new one."""

LOCK_TIMEOUT = 60.0
"""Seconds to wait for another process that is writing."""
_LOCK_RETRY = 0.01  # seconds between attempts
_DAMAGE = ("malformed", "not a database", "disk image", "corrupt", "unsupported file format")

_log = logging.getLogger("rubrank")


class Store:
    """One SQLite file; safe for all threads of a process, and for several processes at once.

    schema: statements such as CREATE TABLE IF NOT EXISTS, run when the file is opened.
    name: the component that owns the file, for the log.
    version: the user_version of the file; another version raises sqlite3.DatabaseError. 0: not checked.
    recover: see `Recover`.
    gather: seconds that the writer waits for more requests before it commits.
    read_only: open a file that nobody writes, such as one in an installed package.
    """

    def __init__(
        self,
        path: str | Path,
        schema: str,
        *,
        name: str,
        version: int = 0,
        recover: Recover | None = None,
        gather: float = 0.0,
        read_only: bool = False,
    ) -> None:
        self.path = Path(path)
        self.read_only = read_only
        self._schema = schema
        self._name = name
        self._version = version
        self._recover = recover
        self._gather = gather
        self._closed = False
        self._reset()
        with _registry_lock:
            _stores.add(self)
        self.read("SELECT 1")  # opens the file, so that errors about it are raised here

    def _reset(self) -> None:
        """Set the state of a store without connections: in `__init__`, and in a forked child."""
        # A fork holds both locks. To avoid a deadlock, code that needs both takes the write lock first.
        self._write_lock = threading.Lock()
        self._read_lock = threading.Lock()
        self._reader: sqlite3.Connection | None = None
        self._writer: sqlite3.Connection | None = None
        self._inode = 0
        self._queue: queue.SimpleQueue[tuple[Request, Future[Any]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._thread_lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Commit all waiting requests, and close the file. Nothing more can be written; `read` opens it again."""
        with self._thread_lock:
            self._closed = True
            thread = self._thread
            if thread is not None:
                self._queue.put(None)
        if thread is not None:
            thread.join()
        with self._write_lock, self._read_lock:
            self._close_connections()

    # -------------------------------------------------------------------------------------------------- reading

    def read(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return all rows of a query. Waits while another process is repairing or creating the file."""
        return _retry_while_locked(lambda: self._read_once(sql, values))

    async def read_async(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """Do the same in an event loop, which goes on while the file is locked."""
        deadline = time.monotonic() + LOCK_TIMEOUT
        while True:
            try:
                return self._read_once(sql, values)
            except sqlite3.OperationalError as error:
                if not _is_locked(error) or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(_LOCK_RETRY)

    def _read_once(self, sql: str, values: Sequence[Any]) -> list[Any]:
        """Return all rows of a query; in a new file if this one turns out to be damaged.

        Raises "database is locked" at once if another process is repairing or creating the file. Waiting here would
        block a fork, which needs the lock that is held here, and the event loop of `read_async`.
        """
        try:
            with self._read_lock:
                reader = self._reader
                if reader is None:
                    reader = self._open_or_replace()
                    self._reader = reader
                return reader.execute(sql, values).fetchall()
        except sqlite3.DatabaseError as error:
            if not self._replace_if_damaged(error, reader):
                raise
        with self._read_lock:
            if self._reader is None:  # another thread could not open the new file yet
                self._reader = self._open_or_replace()
            return self._reader.execute(sql, values).fetchall()

    # -------------------------------------------------------------------------------------------------- writing

    def write(self, request: Request) -> Future[Any]:
        """Run a request in the writer thread; the future is done when its transaction is committed.

        Raises RuntimeError if the store is closed or read-only.
        """
        if self.read_only:
            raise RuntimeError(f"{self.path} is open for reading only")
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()  # from here on, cancelling has no effect
        with self._thread_lock:
            if self._closed:
                raise RuntimeError(f"{self.path} is closed")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="rubrank-store", daemon=True)
                self._thread.start()
            self._queue.put((request, future))
        return future

    async def write_async(self, request: Request) -> Any:
        """Do the same in an event loop. If the caller is cancelled, the request is committed nevertheless."""
        return await asyncio.wrap_future(self.write(request))

    def flush(self) -> None:
        """Wait until everything that was submitted so far is committed."""
        if self._thread is not None and not self._closed:
            self.write(lambda db: None).result()

    def _run(self) -> None:
        """Run the writer thread: commit everything that is waiting, again and again."""
        closing = False
        while not closing:
            entries = [self._queue.get()]  # waits; None is put by `close`
            if self._gather and entries[0] is not None:
                time.sleep(self._gather)
            while not self._queue.empty():
                entries.append(self._queue.get())
            closing = None in entries
            self._commit_all([entry for entry in entries if entry is not None])

    def _commit_all(self, entries: list[tuple[Request, Future[Any]]]) -> None:
        """Commit the entries of the queue, and tell every caller the result or the error of its request."""
        requests = [request for request, _ in entries]
        try:
            results = self._commit(requests)
        except Exception:
            # Such as a full disk or a bad value: each caller gets the error of its request.
            for request, future in entries:
                try:
                    future.set_result(self._commit([request])[0])
                except Exception as error:
                    future.set_exception(error)
        else:
            for (_, future), result in zip(entries, results, strict=True):
                future.set_result(result)

    def _commit(self, requests: Sequence[Request]) -> Sequence[Any]:
        """Run the requests in one transaction, in a new file if this one turns out to be damaged."""
        if not requests:
            return ()
        try:
            return _retry_while_locked(lambda: self._commit_once(requests))
        except sqlite3.DatabaseError as error:
            damage = error
            if not _retry_while_locked(lambda: self._replace_if_damaged(damage, self._writer)):
                raise
        return _retry_while_locked(lambda: self._commit_once(requests))

    def _commit_once(self, requests: Sequence[Request]) -> Sequence[Any]:
        """Run the requests in one transaction; raises "database is locked" at once if another process is writing.

        SQLite itself could wait, but then a fork would also have to wait: it needs the lock that is held here.
        """
        with self._write_lock:
            if self._writer is None:
                self._writer = self._open()
            db = self._writer
            db.execute("BEGIN IMMEDIATE")
            try:
                results = [request(db) for request in requests]
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
            return results

    # -------------------------------------------------------------------------------------------------- the file

    def _open_or_replace(self) -> sqlite3.Connection:
        """Open the file; if it is damaged, rename it and open a new one. Raises "database is locked" at once."""
        if self.read_only:
            return self._open_read_only()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            return self._open()
        except sqlite3.DatabaseError as error:
            if not is_damaged(self.path, error):
                raise
            return self._replace_file()

    def _open(self) -> sqlite3.Connection:
        """Open a connection to the file, which is created with permissions for its owner only."""
        with suppress(FileExistsError):
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        # isolation_level=None: Python begins no transactions, only this module does.
        db = sqlite3.connect(self.path, timeout=0.0, isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute("BEGIN IMMEDIATE")  # so that no other process sees half of the tables
            self._check_version(db)
            for statement in self._schema.split(";"):
                if statement.strip():
                    db.execute(statement)
            if self._version:
                db.execute(f"PRAGMA user_version = {self._version}")
            db.execute("COMMIT")
        except BaseException:
            db.close()
            raise
        self._inode = os.stat(self.path).st_ino
        return db

    def _open_read_only(self) -> sqlite3.Connection:
        """Open a file that nobody writes: immutable=1 needs no locks, which a read-only folder could not hold."""
        uri = f"{self.path.resolve().as_uri()}?mode=ro&immutable=1"
        db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
        try:
            self._check_version(db)
        except BaseException:
            db.close()
            raise
        return db

    def _check_version(self, db: sqlite3.Connection) -> None:
        """Raise sqlite3.DatabaseError for a file of another program or version; an empty file is new."""
        if not self._version:
            return
        version = db.execute("PRAGMA user_version").fetchone()[0]
        tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        is_new = version == 0 and not tables and not self.read_only
        if version != self._version and not is_new:
            raise sqlite3.DatabaseError("it belongs to another program or another version")

    def _replace_if_damaged(
        self, error: sqlite3.DatabaseError, failed_connection: sqlite3.Connection | None
    ) -> bool:
        """Replace the file if it is damaged; return whether it was.

        failed_connection: raised the error; None if the file could not even be opened.
        """
        if self.read_only or not is_damaged(self.path, error):
            return False
        with self._write_lock, self._read_lock:
            connections = (self._reader, self._writer)
            if failed_connection is not None and failed_connection not in connections:
                return True  # another thread has replaced the file
            # If the path is another file by now, another process has replaced the damaged one already.
            replaced_elsewhere = os.stat(self.path).st_ino != self._inode
            self._close_connections()
            if failed_connection is None or replaced_elsewhere:
                # The file may be whole by now: only opening it shows whether it must be replaced.
                self._reader = self._open_or_replace()
            else:
                self._reader = self._replace_file()
        return True

    def _replace_file(self) -> sqlite3.Connection:
        """Rename the damaged file, open a new one, and copy into it what can still be read."""
        damaged = Path(f"{self.path}.damaged")
        number = 1
        while damaged.exists():
            number += 1
            damaged = Path(f"{self.path}.damaged-{number}")
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.replace(f"{self.path}{suffix}", f"{damaged}{suffix}")
        message = "%s: %s is damaged; it was renamed to %s, and a new file is started"
        _log.warning(message, self._name, self.path, damaged.name)
        db = _retry_while_locked(self._open)
        if self._recover is not None:
            self._recover(damaged, db)
        return db

    def _close_connections(self) -> None:
        """Close both connections; they are opened again when they are needed."""
        for db in (self._writer, self._reader):
            if db is not None:
                db.close()
        self._writer = None
        self._reader = None


# -------------------------------------------------------------------------------------------------------------- locks


def _is_locked(error: sqlite3.OperationalError) -> bool:
    return "locked" in str(error)


def _retry_while_locked(action: Callable[[], T]) -> T:
    """Retry while another process has locked the file, for up to `LOCK_TIMEOUT` seconds."""
    deadline = time.monotonic() + LOCK_TIMEOUT
    while True:
        try:
            return action()
        except sqlite3.OperationalError as error:
            if not _is_locked(error) or time.monotonic() > deadline:
                raise
        time.sleep(_LOCK_RETRY)


def lock_file(path: str | Path) -> IO[bytes] | None:
    """Keep other processes out until the returned file is closed or this process ends.

    Raises BlockingIOError if another process holds it. None on systems without such locks (Windows).
    """
    try:
        import fcntl
    except ImportError:
        return None
    file = Path(path).open("ab")  # noqa: SIM115 - closing it gives up the lock
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise
    return file


# -------------------------------------------------------------------------------------------------------------- forks

_stores: weakref.WeakSet[Store] = weakref.WeakSet()
_registry_lock = threading.Lock()
_stores_in_fork: list[Store] = []


def _before_fork() -> None:
    """Wait until no connection is in use, and keep them unused while the process is copied."""
    _registry_lock.acquire()
    _stores_in_fork[:] = list(_stores)
    for store in _stores_in_fork:
        store._write_lock.acquire()
        store._read_lock.acquire()


def _after_fork_in_parent() -> None:
    """Let the parent use its connections again."""
    for store in _stores_in_fork:
        store._read_lock.release()
        store._write_lock.release()
    _stores_in_fork.clear()
    _registry_lock.release()


def _after_fork_in_child() -> None:
    """Close the child's copies of the connections, and start again with new locks and an empty queue."""
    for store in _stores_in_fork:
        store._close_connections()
        store._reset()
    _stores_in_fork.clear()
    _registry_lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )


# ------------------------------------------------------------------------------------------------------------- damage


def is_damaged(path: str | Path, error: Exception) -> bool:
    """Return whether the error means that a SQLite file is damaged. False for a text file."""
    says_damaged = any(word in str(error) for word in _DAMAGE)
    if not says_damaged or not isinstance(error, sqlite3.DatabaseError):
        return False
    try:
        with open(path, "rb") as file:
            start = file.read(4096)
    except OSError:
        return False
    if b"\x00" in start:
        return True
    try:
        # Incremental, because a character may be cut off at the end.
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return True
    return False
