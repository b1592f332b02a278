"""The judge runtime of a process: an event loop in a thread, its endpoints, and the reply caches that are open.

    runtime().run(main())                   the result, for code that is not asynchronous
    await runtime().run_async(main())       the same from another event loop, which goes on meanwhile
    runtime().endpoints                     limits, circuit breakers and connections, shared by all judges
    with runtime().cache(path) as cache:    a reply cache, shared by all who have it open

    async with AsyncExitStack() as stack:                                   in the event loop of the runtime
        clients = await open_clients(judges, active_judges, stack, None)    a client for every judge of a step
        clients.asker_of(judge)                                             the asker of a judge, or of a panel's member
        clients.account()                                                   usage of all of them

All steps, groups and trainers of a process use it, so that the limits of an endpoint hold for all of them together,
connections stay open from step to step, and what was learnt about a server is known to all. A forked process makes its
own runtime.

A caller may bring its own askers (a model in this process, a script in tests). They get the deadline and the usage
meter that a client has by itself; the cache, retries and limits are the client's alone.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import time
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, RLock, Thread, current_thread
from typing import Any, TypeVar

from rubrank.judges.client.cache import ReplyCache
from rubrank.judges.client.client import DEADLINE_PASSED, Client, Deadline
from rubrank.judges.client.endpoint import EndpointPool
from rubrank.judges.client.limits import LEASE, Demand, Report
from rubrank.judges.client.usage import Account
from rubrank.judges.judge import Asker, AskerOf, Call, Judge, Judges, Reply, WrappedAsker

T = TypeVar("T")
_log = logging.getLogger("rubrank.judges")

_CLOSE_SECONDS = 5.0  # longest wait for cancelled tasks to end, and for each step of closing
_SIGNAL_CHECK_SECONDS = 0.1  # between checks for signals


class Runtime:
    """An event loop in a thread of its own, with the endpoints and reply caches that all judges of a process share.

    Do not create one: `runtime()` returns that of the process.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.endpoints = EndpointPool()
        self._caches: dict[tuple[str, bool], tuple[ReplyCache, int]] = {}
        """By real path and read_only: the cache, and how many have it open."""
        self._lock = RLock()
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="rubrank-judges", daemon=True)
        self._thread.start()

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the event loop of the runtime, and wait for its result.

        An interrupt (Ctrl-C) cancels it, and is raised when it has ended, or after `_CLOSE_SECONDS`.
        """
        if current_thread() is self._thread:
            main.close()
            raise RuntimeError("run() would wait for its own event loop: await run_async() instead")
        # `start` and `cancel` run in the thread of the event loop, one after the other; this thread waits for `ended`.
        # An interrupt may come while `start` is being submitted: `cancel` then finds what it has started.
        tasks: list[asyncio.Task[T]] = []
        ended = Event()

        def start() -> None:
            task = self._loop.create_task(_raise_single_error(main))
            task.add_done_callback(lambda _: ended.set())
            tasks.append(task)

        def cancel() -> None:
            for task in tasks:
                task.cancel()

        try:
            self._loop.call_soon_threadsafe(start)
            # Python handles a signal in the main thread, but a wait without a timeout may not notice it.
            while not ended.wait(_SIGNAL_CHECK_SECONDS):
                pass
        except BaseException:
            self._loop.call_soon_threadsafe(cancel)
            ended.wait(_CLOSE_SECONDS)
            raise
        return tasks[0].result()

    async def run_async(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine for a caller in another event loop; if the caller is cancelled, so is the coroutine."""
        return await asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(_raise_single_error(main), self._loop)
        )

    # -------------------------------------------------------------------------------------------------------- limits

    def share_limits(self, report: Report, process: str, every: float = LEASE / 10) -> None:
        """Share the limits of all endpoints with other processes from now on; see `limits.LimitShares`.

        report: sends the demand of this process to the `LimitShares` of all, and returns the slots that it may use.
        process: a name that no other process has. every: seconds between reports.
        """
        # Called for its side effect: endpoints that are opened from now on have no slots until they get a share.
        self.endpoints.demands()
        asyncio.run_coroutine_threadsafe(self._share_limits(report, process, every), self._loop)

    async def _share_limits(self, report: Report, process: str, every: float) -> None:
        """Report the demand of this process again and again, and use the slots that it is granted."""
        last_report = time.monotonic()
        while True:
            demands = self.endpoints.demands()
            if demands:
                try:
                    self.endpoints.set_shares(await report(process, demands))
                    last_report = time.monotonic()
                except Exception as error:
                    # Without reports the lease ends and other processes get these slots: use one slot per endpoint.
                    if time.monotonic() - last_report > LEASE:
                        _log.warning("limits are no longer shared: %s", error)
                        self.endpoints.set_shares(dict.fromkeys(demands, 1))
                        last_report = time.monotonic()
            await asyncio.sleep(every)

    # -------------------------------------------------------------------------------------------------------- caches

    @contextmanager
    def cache(self, path: str | Path, *, read_only: bool = False) -> Iterator[ReplyCache]:
        """Provide a reply cache, which the first user opens and the last one closes."""
        key = (os.path.realpath(path), read_only)
        with self._lock:
            if key not in self._caches:
                self._caches[key] = (ReplyCache(path, read_only=read_only), 0)
            cache, users = self._caches[key]
            self._caches[key] = (cache, users + 1)
        try:
            yield cache
        finally:
            with self._lock:
                cache, users = self._caches.pop(key)
                if users > 1:
                    self._caches[key] = (cache, users - 1)
                else:
                    cache.close()

    def close(self) -> None:
        """Cancel what is running, and close connections and caches.

        Does nothing in a forked child: the thread and the connections are its parent's.
        """
        if self.pid != os.getpid() or not self._thread.is_alive():
            return
        with suppress(Exception):
            asyncio.run_coroutine_threadsafe(self._cancel_all(), self._loop).result(_CLOSE_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()
        for cache, _ in self._caches.values():
            cache.close()
        self._caches = {}

    async def _cancel_all(self) -> None:
        """Cancel all tasks of the event loop, and close the connections."""
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.endpoints.close()


async def _raise_single_error(main: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine; an exception group (from asyncio.TaskGroup) is replaced by its first error."""
    try:
        return await main
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None


def share_limits_through(actor: Any, process: str) -> None:
    """Share the limits of this process's endpoints with all others that report to a Ray actor (`LimitsActor`)."""

    async def report(name: str, demands: Mapping[str, Demand]) -> Mapping[str, int]:
        slots: Mapping[str, int] = await actor.report.remote(name, dict(demands))
        return slots

    runtime().share_limits(report, process)


_lock = RLock()
_runtime: Runtime | None = None


def runtime() -> Runtime:
    """Return the runtime of this process, which is made when it is first needed."""
    global _runtime
    with _lock:
        if _runtime is None or _runtime.pid != os.getpid():
            _runtime = Runtime()
        return _runtime


def close_runtime() -> None:
    """Close the runtime of this process; the next call of `runtime` makes another."""
    global _runtime
    with _lock:
        if _runtime is not None:
            _runtime.close()
        _runtime = None


def _forget_runtime() -> None:
    """Reset a forked child: its parent's threads do not exist here, and one of them may have held the lock."""
    global _runtime, _lock
    _runtime = None
    _lock = RLock()


atexit.register(close_runtime)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_runtime)


# --------------------------------------------------------------------------------------------------- clients of a step


@dataclass(eq=False)
class JudgeClients:
    """The askers of all judges in a step, each with the usage meter that counts its calls."""

    askers: Mapping[int, Client | _TimedAsker]
    """By the id of the judge, not by its settings: two judges may be equal."""

    def asker_of(self, judge: Judge) -> Asker:
        """Return the asker that answers the calls of a judge: a leaf of those that the clients were opened for."""
        return self.askers[id(judge)]

    def account(self) -> Account:
        """Return the usage of all judges so far."""
        return Account.merge([asker.usage for asker in self.askers.values()])


async def open_clients(
    judges: Judges, active_judges: Iterable[Judge], stack: AsyncExitStack, asker_of: AskerOf | None
) -> JudgeClients:
    """Open a client for each judge that sends calls in this step; the stack closes them.

    active_judges: those of `judges` that have questions in this step.
    asker_of: returns the caller's asker for a judge, which is used instead of a client; None: clients are used.
    """
    deadline = Deadline(judges.deadline)
    # A panel or a cascade sends no calls itself; its leaves, the judges that it is made of, do.
    leaves = [leaf for judge in active_judges for leaf in judge.leaves]
    if asker_of is not None:
        return JudgeClients({id(leaf): _TimedAsker(asker_of(leaf), deadline) for leaf in leaves})
    if not leaves:
        return JudgeClients({})  # the cache is not opened
    cache = None
    if judges.cache is not None:
        # A cache that is only read should be opened read-only. But if another run is writing, or was killed, the latest
        # replies are in SQLite's write-ahead log, which only a connection that may write can read.
        has_log = Path(f"{judges.cache}-wal").exists()
        cache = stack.enter_context(
            runtime().cache(judges.cache, read_only=judges.cache_only and not has_log)
        )
    clients = {}
    for leaf in leaves:
        client = Client(
            leaf,
            judges,
            cache=cache,
            deadline=deadline,
            endpoints=runtime().endpoints,
            check_first=True,
        )
        clients[id(leaf)] = await stack.enter_async_context(client)
    return JudgeClients(clients)


def check_judges(judges: Judges) -> None:
    """Check the health of every endpoint; InvalidInput if one is down, or refuses the key or the model."""

    async def check_all() -> None:
        for judge in judges.judges:
            for leaf in judge.leaves:
                async with Client(leaf, endpoints=runtime().endpoints) as client:
                    await client.check()

    runtime().run(check_all())


@dataclass(eq=False)
class _TimedAsker(WrappedAsker):
    """An asker with a deadline and a usage meter."""

    deadline: Deadline
    usage: Account = field(default_factory=Account)

    async def ask(self, call: Call) -> Reply:
        """Return the reply of the other asker, or a failure if the deadline passes first."""
        try:
            async with asyncio.timeout(self.deadline.remaining()):
                reply = await self.asker.ask(call)
        except TimeoutError:
            reply = Reply(None, DEADLINE_PASSED, attempts=0)
        if reply.cached:
            self.usage.add_hit(call, reply)
        else:
            self.usage.add(call, reply, reply.attempts)
        return reply
