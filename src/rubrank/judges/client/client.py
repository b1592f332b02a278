"""Ask a judge's model: several endpoints, limits, retries, a deadline, the cache, and an account of it all.

    with Replies("replies.sqlite") as store:
        async with Client(judge, store=store, deadline=Deadline(600.0)) as client:
            reply = await client.ask(call)         Reply(text='{"verdict": 1}', …), on disk
            reply = await client.ask(call)         the same, from the cache: nothing is paid
            client.tally.account()                 Account(calls=1, hits=1, cost=…)

The way of a call: the cache; whoever asks the same at this moment; an endpoint, chosen by weight among those that are
well; its place, rates and connection; the reply. What fails for now is asked again, elsewhere first, then after a
pause; what fails for good at one endpoint is asked at the others. In the end there is a `Reply`, if only one that says
why there is none, and the file has it before `ask` returns. Nothing is raised for a failure of the other side.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from types import TracebackType
from typing import Self

from rubrank.errors import InvalidInput
from rubrank.judges.client.accounting import Tally
from rubrank.judges.client.checking import check_lane
from rubrank.judges.client.choosing import Choice
from rubrank.judges.client.endpoint import Lane
from rubrank.judges.client.replies import Keys, Replies
from rubrank.judges.client.retrying import PATIENCE, Outcome, backoff
from rubrank.judges.judge import Call, Judge, Reply, Usage

TOO_LATE = "deadline of the step passed"
NOT_CACHED = "not in the cache"
_NOBODY = Reply(None, "no endpoint answers")
_NOTHING = Usage()


class Deadline:
    """When a step must be done; begins to run when it is made."""

    def __init__(self, seconds: float | None = None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    def left(self) -> float | None:
        """Seconds, never below zero; None: no deadline."""
        return None if self._end is None else max(self._end - time.monotonic(), 0.0)


def _require_packages(judge: Judge) -> None:
    """Those that calling takes; replies from the cache take none."""
    missing = [name for name in ("openai", "httpx2", "aiolimiter") if find_spec(name) is None]
    if missing:
        raise InvalidInput(
            f"judge {judge.name!r}", "endpoints", "asked with the packages that judges need", f"no {missing[0]}",
            "Install them: pip install 'rubrank[judge]'.",
        )  # fmt: skip


@dataclass
class _Course:
    """How far a call has come."""

    call: Call
    key: bytes
    tries: int
    started: float = field(default_factory=time.monotonic)
    reply: Reply = _NOBODY
    usage: Usage = _NOTHING
    requests: int = 0
    noted: int = 0
    """Requests that the ledger has already."""
    failed: list[Lane] = field(default_factory=list)
    hopeless: list[Lane] = field(default_factory=list)

    def begin(self, lane: Lane) -> None:
        """One more request is under way."""
        self.requests += 1
        self.reply = replace(_NOBODY, model=lane.endpoint.model, endpoint=lane.endpoint.base_url)

    def count(self, outcome: Outcome) -> None:
        """It has ended."""
        spent, usage = outcome.reply.usage, self.usage
        self.reply = outcome.reply
        self.usage = Usage(
            usage.input_tokens + spent.input_tokens, usage.output_tokens + spent.output_tokens,
            usage.cached_tokens + spent.cached_tokens, usage.cost + spent.cost,
        )  # fmt: skip

    def end(self, failure: str | None = None) -> Reply:
        """The reply as the last request left it, or with another reason and nothing of that request."""
        last = self.reply if failure is None else replace(self.reply, text=None, failure=failure, usage=Usage())
        return replace(last, latency=time.monotonic() - self.started, attempts=self.requests)


class Client:
    """The asker of one judge that has endpoints; open it with `async with`, in the event loop that asks."""

    def __init__(
        self, judge: Judge, *, store: Replies | None = None, cache_only: bool = False, deadline: Deadline | None = None
    ) -> None:
        if not judge.endpoints:
            raise InvalidInput(f"judge {judge.name!r}", "endpoints", "at least one", "none", "Ask its members instead.")
        if cache_only and store is None:
            raise InvalidInput(f"judge {judge.name!r}", "cache_only", "used with a store", "none", "Give the cache.")
        if store is not None and store.read_only and not cache_only:
            raise InvalidInput(
                f"judge {judge.name!r}", "store", "writable, or used with cache_only", f"{store.path}, opened to read",
                "Replies would be paid and lost.",
            )  # fmt: skip
        if not cache_only:
            _require_packages(judge)
        self.judge, self.tally = judge, Tally()
        self._store, self._cache_only, self._deadline = store, cache_only, deadline or Deadline()
        self._keys = Keys(judge)
        self._running: dict[bytes, asyncio.Future[Reply | None]] = {}
        self._stack = AsyncExitStack()
        self._lanes: list[Lane] = []

    async def __aenter__(self) -> Self:
        self._news = asyncio.Event()
        if not self._cache_only:
            lanes = [Lane(endpoint, self.judge, self._tell) for endpoint in self.judge.endpoints]
            self._lanes = [await self._stack.enter_async_context(lane) for lane in lanes]
        self._choice = Choice([(lane, lane.endpoint.weight) for lane in self._lanes])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._stack.aclose()
        self._lanes = []

    async def check(self) -> None:
        """Ask every endpoint for a sign of life: InvalidInput if one is away, or refuses the key or the model."""
        await asyncio.gather(*(check_lane(lane, self.judge, self._paid) for lane in self._lanes))

    async def _paid(self, call: Call, reply: Reply) -> None:
        self.tally.add(call, reply, requests=1)
        if self._store is not None:
            await self._store.keep(self._keys.of(call), call, reply)

    async def ask(self, call: Call) -> Reply:
        """The reply: from the cache, from whoever asks the same at this moment, or from an endpoint."""
        key = self._keys.of(call)
        while (running := self._running.get(key)) is not None:
            reply = await asyncio.shield(running)
            if reply is not None:  # None: the one who asked was cancelled; somebody else must
                return self._free(call, replace(reply, cached=reply.failure is None, usage=Usage()))
        reply = self._without_asking(key, call)
        if reply is not None:
            return reply
        return await self._first_to_ask(key, call)

    def _without_asking(self, key: bytes, call: Call) -> Reply | None:
        """Where no call needs to, or may, be made."""
        known = self._store.get(key) if self._store is not None else None
        if known is not None:
            assert self._store is not None
            self._store.count_hit(call, known)
            return self._free(call, known)
        if self._cache_only or self._deadline.left() == 0.0:
            reply = Reply(None, NOT_CACHED if self._cache_only else TOO_LATE, attempts=0)
            self.tally.add(call, reply, requests=0)
            return reply
        if not self._lanes:
            raise RuntimeError("the client is closed: ask within `async with Client(…)`")
        return None

    def _free(self, call: Call, reply: Reply) -> Reply:
        self.tally.hit(call, reply)
        return reply

    async def _first_to_ask(self, key: bytes, call: Call) -> Reply:
        running = self._running[key] = asyncio.get_running_loop().create_future()
        reply = None
        try:
            course = _Course(call, key, self.judge.retry.attempts)
            reply = await self._finish(course, await self._in_time(course))
            return reply
        finally:
            del self._running[key]
            running.set_result(reply)

    async def _finish(self, course: _Course, reply: Reply) -> Reply:
        """Into the accounts and onto the disk; the caller gets the cost of all requests."""
        requests = course.requests - course.noted
        self.tally.add(course.call, reply, requests)
        if self._store is not None and course.requests:
            await self._store.keep(course.key, course.call, reply, requests)
        return replace(reply, usage=course.usage)

    async def _in_time(self, course: _Course) -> Reply:
        try:
            async with asyncio.timeout(self._deadline.left()):
                return await self._pursue(course)
        except TimeoutError:
            return course.end(TOO_LATE)

    async def _pursue(self, course: _Course) -> Reply:
        """Until there is an answer, or no try left."""
        while course.tries > 0:
            hopeful = [lane for lane in self._lanes if lane not in course.hopeless]
            if not hopeful:
                break
            lane = self._choice.next(hopeful, course.failed)
            if lane is None:
                await self._wait_for_one(course, hopeful)
                continue
            outcome = await lane.attempt(course.call, course.begin)
            if outcome is None:
                continue
            course.count(outcome)
            if outcome.next == "done":
                break
            await self._recover(course, lane, outcome)
        return course.end()

    async def _recover(self, course: _Course, lane: Lane, outcome: Outcome) -> None:
        """After a request that failed: note what it cost, and pause if there is nobody else to ask at once."""
        if outcome.next == "elsewhere":
            course.hopeless.append(lane)
        else:
            course.tries -= 1
            course.failed.append(lane)
        fresh = [other for other in self._lanes if other not in course.hopeless and other not in course.failed]
        over = not course.tries or len(course.hopeless) == len(self._lanes)
        if not over and outcome.reply.usage != Usage():
            await self._note(course)
        if over or outcome.next == "elsewhere" or any(other.breaker.ready() for other in fresh):
            return
        await self._sleep(course, backoff(self.judge.retry, course.failed.count(lane), outcome.wait))

    async def _note(self, course: _Course) -> None:
        """A request was paid and is of no use; it stands in the accounts by itself, before another is made."""
        requests, course.noted = course.requests - course.noted, course.requests
        reply = replace(course.reply, latency=time.monotonic() - course.started)
        course.reply = replace(reply, usage=Usage())  # so that it is not counted again, should nothing follow
        self.tally.add(course.call, reply, requests, final=False)
        if self._store is not None:
            await self._store.keep(course.key, course.call, reply, requests, final=False)

    async def _wait_for_one(self, course: _Course, lanes: Sequence[Lane]) -> None:
        """None of these endpoints is to be asked now. Waiting for one that fails is a try like any other."""
        if all(lane.breaker.state != "closed" for lane in lanes):
            course.tries -= 1
        openings = [lane.breaker.openings for lane in lanes]
        while openings == [lane.breaker.openings for lane in lanes]:
            wait = min(lane.breaker.ready_in() for lane in lanes)
            if not course.requests:
                course.reply = replace(_NOBODY, failure=f"{_NOBODY.failure}: {lanes[0].last_failure}")
            if course.tries and self._too_long(wait, lanes):
                course.tries, course.reply = 0, Reply(None, f"rate limited: the server asks for {wait:.0f} s")
            if wait <= 0.0 or not course.tries:
                return
            await self._sleep(course, wait, until_news=True)

    def _too_long(self, wait: float, lanes: Sequence[Lane]) -> bool:
        """Longer than any retry would; unless it is our own pause, which the configuration asks for."""
        held = any(lane.breaker.state == "closed" for lane in lanes)
        return held and max(PATIENCE, self.judge.retry.longest_wait) < wait < math.inf

    async def _sleep(self, course: _Course, seconds: float, *, until_news: bool = False) -> None:
        left = self._deadline.left()
        if left is not None and left <= seconds < math.inf:
            course.tries = 0  # nothing will come of it in time
            return
        if not until_news:
            await asyncio.sleep(seconds)
            return
        try:
            async with asyncio.timeout(None if seconds == math.inf else seconds):
                await self._news.wait()
        except TimeoutError:
            pass

    def _tell(self) -> None:
        """An endpoint opened or closed: whoever waits looks again."""
        self._news.set()
        self._news = asyncio.Event()
