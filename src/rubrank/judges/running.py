"""Coroutines run from code that is not asynchronous, and no more at once than an endpoint can use.

    run(main())                       in this thread; where a loop is running already (notebooks), in another

    flow = Flow(limit=512, done=…)
    lot = await flow.admit(calls)     waits while 512 calls are under way
    asker = lot.counting(client)      counts them off as they are answered

A million questions make a million tasks, and each holds its prompts; so they are started as others end. What is
counted are calls, not groups: a group that waits for its last answer does not hold back the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from threading import Event, Thread
from typing import Any, Generic, TypeVar

from rubrank.judges.judge import Asker, Call, Reply

T = TypeVar("T")


class Flow:
    """How many calls of one judge are under way; for one task that admits, and any number that answer."""

    def __init__(self, limit: int, done: Callable[[], None]) -> None:
        self._limit, self.done = limit, done
        self._open = 0
        self._room = asyncio.Event()

    async def admit(self, calls: int) -> Lot:
        """Wait for room; a question goes in as a whole, however many calls it makes."""
        while self._open >= self._limit:
            self._room.clear()
            await self._room.wait()
        self._open += calls
        return Lot(self, calls)

    def release(self, calls: int) -> None:
        """So many are not under way any more."""
        self._open -= calls
        if self._open < self._limit:
            self._room.set()


class Lot:
    """The calls of one question; what it said it would make and did not is given back at its end."""

    def __init__(self, flow: Flow, calls: int) -> None:
        self._flow, self._left = flow, calls

    def counting(self, asker: Asker) -> Asker:
        """The same asker, its answers counted."""
        return _Counting(asker, self)

    def answered(self) -> None:
        """One more."""
        self._left -= 1
        self._flow.release(1)
        self._flow.done()

    def close(self) -> None:
        """The question is done."""
        self._flow.release(self._left)
        self._left = 0


class _Counting:
    def __init__(self, asker: Asker, lot: Lot) -> None:
        self._asker, self._lot = asker, lot

    async def ask(self, call: Call) -> Reply:
        reply = await self._asker.ask(call)
        self._lot.answered()
        return reply


def run(main: Coroutine[Any, Any, T]) -> T:
    """The result, or the first of the errors. An interrupt cancels what is under way, and waits for its end."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_plain(main))
    return _InThread(_plain(main)).result()


async def _plain(main: Coroutine[Any, Any, T]) -> T:
    try:
        return await main
    except BaseExceptionGroup as group:
        raise _first(group) from None


def _first(group: BaseExceptionGroup[Any]) -> BaseException:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


class _InThread(Generic[T]):
    """A loop of its own in a thread of its own; the caller waits, as for any function."""

    def __init__(self, main: Coroutine[Any, Any, T]) -> None:
        self._main = main
        self._value: list[T] = []
        self._error: BaseException | None = None
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)  # and leave this thread's loop alone
        self._loop = self._runner.get_loop()
        self._ended = Event()  # an interrupted Thread.join takes the thread for dead (before Python 3.13)

    def result(self) -> T:
        Thread(target=self._work, name="rubrank-judging").start()
        try:
            self._ended.wait()
        except BaseException:  # an interrupt reaches the caller, not the thread
            with suppress(RuntimeError):  # it may have ended just now
                self._loop.call_soon_threadsafe(self._cancel)
            self._ended.wait()
            raise
        if self._error is not None:
            raise self._error
        return self._value[0]

    def _cancel(self) -> None:
        for task in asyncio.all_tasks(self._loop):
            task.cancel()

    def _work(self) -> None:
        try:
            with self._runner:
                self._value.append(self._runner.run(self._main))
        except BaseException as error:
            self._error = error
        finally:
            self._ended.set()
