"""No more calls under way than an endpoint can use.

    throttle = Throttle(limit=512, done=…)
    batch = await throttle.admit(calls)     waits while 512 calls are under way
    asker = batch.counting(client)          counts them off as they are answered

A million questions make a million tasks, and each holds its prompts; so they are started as others end. What is
counted are calls, not groups: a group that waits for its last answer does not hold back the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rubrank.judges.asking import report_unreadable
from rubrank.judges.judge import Asker, Call, Reply


class Throttle:
    """How many calls of one judge are under way; for one task that admits, and any number that answer."""

    def __init__(self, limit: int, done: Callable[[], None]) -> None:
        self._limit, self.done = limit, done
        self._open = 0
        self._room = asyncio.Event()

    async def admit(self, calls: int) -> AdmittedCalls:
        """Wait for room; a question goes in as a whole, however many calls it makes."""
        while self._open >= self._limit:
            self._room.clear()
            await self._room.wait()
        self._open += calls
        return AdmittedCalls(self, calls)

    def release(self, calls: int) -> None:
        """So many are not under way any more."""
        self._open -= calls
        if self._open < self._limit:
            self._room.set()


class AdmittedCalls:
    """The calls of one question; what it said it would make and did not is given back at its end."""

    def __init__(self, throttle: Throttle, calls: int) -> None:
        self._throttle, self._left = throttle, calls
        self.replies: list[str] = []
        """Ids of those that came."""

    def counting(self, asker: Asker) -> Asker:
        """The same asker, its answers counted."""
        return _Counting(asker, self)

    def answered(self, reply: Reply) -> None:
        """One more."""
        if reply.id:
            self.replies.append(reply.id)
        self._left -= 1
        self._throttle.release(1)
        self._throttle.done()

    def close(self) -> None:
        """The question is done."""
        self._throttle.release(self._left)
        self._left = 0


class _Counting:
    def __init__(self, asker: Asker, batch: AdmittedCalls) -> None:
        self._asker, self._batch = asker, batch

    async def ask(self, call: Call) -> Reply:
        reply = await self._asker.ask(call)
        self._batch.answered(reply)
        return reply

    def unreadable(self, call: Call, reply: Reply) -> None:
        report_unreadable(self._asker, call, reply)
