"""The one place of a process that asks judges: an event loop in a thread, its endpoints, and the files of replies.

    runtime().run(main())               the result, for code that is not asynchronous
    await runtime().awaited(main())     the same in an event loop of the caller's, which goes on meanwhile
    runtime().endpoints                 limits, breakers and connections, shared by all judges
    runtime().store(path)               a file of replies, open while it is used

Every step, group and trainer of a process comes here, so that the limits of an endpoint hold for all of them together,
connections stay open from step to step, and what one has learnt about a server the others know. A forked process makes
its own.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, RLock, Thread, current_thread
from typing import Any, TypeVar

from rubrank.judges.client.endpoints import Endpoints
from rubrank.judges.client.replies import Replies
from rubrank.judges.client.sharing import LEASE, Report

T = TypeVar("T")
_log = logging.getLogger("rubrank.judges")

_LAST = 5.0  # seconds for the end of a process


_LOOK_UP = 0.1


class _RuntimeJob:
    """One coroutine in the runtime's loop, and a thread that waits for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, main: Coroutine[Any, Any, Any]) -> None:
        self._loop, self._main = loop, main
        self._task: asyncio.Task[Any] | None = None
        self._ended = Event()  # an interrupted Thread.join takes the thread for dead (before Python 3.13)

    def _start(self) -> None:
        self._task = self._loop.create_task(_by_itself(self._main))
        self._task.add_done_callback(lambda _: self._ended.set())

    def result(self) -> Any:
        """What it gave. An interrupt cancels it, and waits for its end."""
        try:
            self._loop.call_soon_threadsafe(self._start)
            # A signal that another thread was given does not wake this one: it looks up now and then.
            while not self._ended.wait(_LOOK_UP):
                pass
        except BaseException:
            self.cancel()
            self._ended.wait()
            with suppress(BaseException):
                self._found().result()  # looked at, so that asyncio does not warn of it later
            raise
        return self._found().result()

    def _found(self) -> asyncio.Task[Any]:
        assert self._task is not None
        return self._task

    def cancel(self) -> None:
        """End it early."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is None:  # interrupted before it began
            self._main.close()
            self._ended.set()
        else:
            self._task.cancel()


async def _by_itself(main: Coroutine[Any, Any, T]) -> T:
    """The result, or the first of the errors."""
    try:
        return await main
    except BaseExceptionGroup as group:
        raise _first(group) from None


def _first(group: BaseExceptionGroup[Any]) -> BaseException:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


class Runtime:
    """Of one process; `runtime()` gives it."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._stores: dict[tuple[str, bool], tuple[Replies, int]] = {}
        self._names: dict[str, str] = {}
        self._lock = RLock()
        self._thread = Thread(target=self._loop.run_forever, name="rubrank-judging", daemon=True)
        self._thread.start()
        self.endpoints = Endpoints()

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """The result; the caller waits, as for any function."""
        if current_thread() is self._thread:  # it would wait for itself
            main.close()
            raise RuntimeError("judges cannot be waited for where they are asked: await what is asynchronous instead")
        result: T = _RuntimeJob(self._loop, main).result()
        return result

    async def awaited(self, main: Coroutine[Any, Any, T]) -> T:
        """The result, for another event loop; if that is cancelled, so is the work."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_by_itself(main), self._loop))

    def share_limits(self, report: Report, owner: str, every: float = LEASE / 10) -> None:
        """Share the limits of all endpoints with other processes, from now on; see `sharing.py`."""
        self.endpoints.uses()  # what is opened from here on holds nothing until it is told
        asyncio.run_coroutine_threadsafe(self._sharing(report, owner, every), self._loop)

    async def _sharing(self, report: Report, owner: str, every: float) -> None:
        last = time.monotonic()
        while True:
            uses = self.endpoints.uses()
            if uses:
                try:
                    self.endpoints.hold(await report(owner, uses))
                    last = time.monotonic()
                except Exception as error:
                    if time.monotonic() - last > LEASE:  # another process may hold it by now
                        _log.warning("limits are no longer shared: %s", error)
                        self.endpoints.hold(dict.fromkeys(uses, 1))
                        last = time.monotonic()
            await asyncio.sleep(every)

    @contextmanager
    def store(self, path: str | Path, *, read_only: bool = False) -> Iterator[Replies]:
        """A file of replies: opened by the first who asks for it, closed by the last who lets go."""
        name = self._take(path, read_only)
        try:
            yield self._stores[name][0]
        finally:
            self._let_go(name)

    def hold(self, path: str | Path) -> None:
        """Keep a file of replies open until the process ends: training comes back to it at every step."""
        self._take(path, False)

    def _take(self, path: str | Path, read_only: bool) -> tuple[str, bool]:
        """Its real name. Links are followed once for as long as it is open: that takes longer than a call should."""
        with self._lock:
            given = os.path.abspath(path)
            name = (self._names.get(given) or os.path.realpath(given), read_only)
            store, users = self._stores.get(name) or (Replies(path, read_only=read_only), 0)
            self._stores[name] = (store, users + 1)
            self._names[given] = name[0]
        return name

    def _let_go(self, name: tuple[str, bool]) -> None:
        with self._lock:
            store, users = self._stores[name]
            if users > 1:
                self._stores[name] = (store, users - 1)
                return
            del self._stores[name]
            if (name[0], not name[1]) not in self._stores:
                self._names = {given: real for given, real in self._names.items() if real != name[0]}
            store.close()

    def close(self) -> None:
        """End what is under way, and let go of everything."""
        if self.pid != os.getpid() or not self._thread.is_alive():
            return
        with suppress(Exception):
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(_LAST)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_LAST)
        if not self._thread.is_alive():
            self._loop.close()
        for store, _ in self._stores.values():
            store.close()
        self._stores = {}

    async def _end(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self.endpoints.__aexit__(None, None, None)


_lock = RLock()
_found: Runtime | None = None


def runtime() -> Runtime:
    """The runtime of this process; made when it is first asked for."""
    global _found
    with _lock:
        if _found is None or _found.pid != os.getpid():
            _found = Runtime()
        return _found


def close_runtime() -> None:
    """End the runtime of this process; the next one who asks makes another."""
    global _found
    with _lock:
        if _found is not None:
            _found.close()
        _found = None


def _forget() -> None:
    """In a forked child: the threads are the parent's."""
    global _found, _lock
    _found, _lock = None, RLock()


atexit.register(close_runtime)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
