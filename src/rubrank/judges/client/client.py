"""Ask a judge's model: several endpoints, limits, retries, a deadline, the cache, and an account of it all.

    with Replies("replies.sqlite") as store:
        async with Client(judge, store=store, deadline=Deadline(600.0)) as client:
            reply = await client.ask(call)         Reply(text='{"verdict": 1}', …), on disk
            reply = await client.ask(call)         the same, from the cache: nothing is paid
            client.meter.account()                 Account(calls=1, hits=1, cost=…)

The way of a call: the cache; the same call under way, in this process or in another; an endpoint, chosen
by weight among those that are healthy; its place, rates and connection; the reply. What fails for now is asked again,
elsewhere first, then after a pause; what fails for good at one endpoint is asked at the others. In the end there is a
`Reply`, if only one that says why there is none, and the file has it before `ask` returns.

Two things are raised, since nothing can come of going on: InvalidInput, where every endpoint refuses the key, the model
or the URL, and JudgeOutage, where none answers any more and the policy is not to go on without.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from typing import Self

from rubrank.errors import InvalidInput, JudgeOutage
from rubrank.judges.client.accounting import UsageMeter
from rubrank.judges.client.attempt import Attempt, finished
from rubrank.judges.client.checking import check_endpoint, refusal
from rubrank.judges.client.choosing import EndpointChoice
from rubrank.judges.client.endpoint import NO_ANSWER, JudgeEndpoint
from rubrank.judges.client.endpoints import Endpoints
from rubrank.judges.client.replies import Keys, Replies
from rubrank.judges.client.retrying import RequestOutcome, backoff
from rubrank.judges.judge import AWAY, Call, Judge, OnOutage, Reply, Usage

TOO_LATE = "deadline of the step passed"
NOT_CACHED = "not in the cache"
_OVERLOAD = 0.25  # of a try: a server that is asked too much at once will answer when it is asked less
_FEW = 3  # calls under way
_LOCKED = 0.02  # seconds between looks at a store that is locked
_WATCH = (0.05, 1.0)  # seconds between looks whether another process has the reply: at first, at most
_LAST = 0.2  # seconds for writing a reply that came at the very end

_log = logging.getLogger("rubrank.judges")


class Deadline:
    """When a step must be done; begins to run when it is made."""

    def __init__(self, seconds: float | None = None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    def left(self) -> float | None:
        """Seconds, never below zero; None: no deadline."""
        return None if self._end is None else max(self._end - time.monotonic(), 0.0)


@dataclass(frozen=True)
class Outage:
    """What is done when no endpoint of a judge answers any more; see `Judges.on_outage`."""

    policy: OnOutage = "continue"
    wait: float = 0.0


@cache
def _missing_packages() -> tuple[str, ...]:
    return tuple(name for name in ("aiohttp", "aiolimiter") if find_spec(name) is None)


def _require_packages(judge: Judge) -> None:
    """Those that calling takes; replies from the cache take none."""
    missing = _missing_packages()
    if missing:
        raise InvalidInput(
            f"judge {judge.name!r}",
            "endpoints",
            "asked with the packages that judges need",
            f"no {missing[0]}",
            "Install them: pip install 'rubrank[judge]'.",
        )


class Client:
    """The asker of one judge that has endpoints; open it with `async with`, in the event loop that asks.

    endpoints: those of the event loop, so that all judges share limits and health; by default it has its own.
    processes: how many of a run ask at the same time, each with its part of the limits.
    check_first: make sure before the first request that some endpoint is of use.
    """

    def __init__(
        self,
        judge: Judge,
        *,
        store: Replies | None = None,
        cache_only: bool = False,
        deadline: Deadline | None = None,
        endpoints: Endpoints | None = None,
        processes: int = 1,
        outage: Outage = Outage(),  # noqa: B008 - frozen
        check_first: bool = False,
    ) -> None:
        if not judge.endpoints:
            raise InvalidInput(f"judge {judge.name!r}", "endpoints", "at least one", "none", "Ask its members instead.")
        if cache_only and store is None:
            raise InvalidInput(f"judge {judge.name!r}", "cache_only", "used with a store", "none", "Give the cache.")
        if store is not None and store.read_only and not cache_only:
            raise InvalidInput(
                f"judge {judge.name!r}",
                "store",
                "writable, or used with cache_only",
                f"{store.path}, opened to read",
                "Replies would be paid and lost.",
            )
        if not cache_only:
            _require_packages(judge)
        self.judge, self.meter = judge, UsageMeter()
        self._store, self._cache_only, self._deadline = store, cache_only, deadline or Deadline()
        self._endpoints, self._owned = endpoints or Endpoints(), endpoints is None
        self._processes, self._outage, self._check_first = processes, outage, check_first
        self._keys = Keys(judge)
        self._served: list[JudgeEndpoint] = []
        self._checking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if not self._cache_only:
            self._served = self._endpoints.serve(self.judge, self._processes)
        self._choice = EndpointChoice([(served, served.endpoint.weight) for served in self._served])
        return self

    async def __aexit__(self, *about: object) -> None:
        self._endpoints.leave(self._served)
        self._served = []
        if self._owned:
            await self._endpoints.__aexit__(*about)

    async def check(self) -> None:
        """A health check of every endpoint: InvalidInput if one is away, or refuses the key or the model."""
        await asyncio.gather(*(check_endpoint(served, self.judge, self._paid) for served in self._served))

    async def _paid(self, call: Call, reply: Reply) -> None:
        self.meter.add(call, reply, requests=1)
        if self._store is not None:
            await self._store.keep(self._keys.of(call), call, reply)

    def unreadable(self, call: Call, reply: Reply) -> None:
        """No verdict could be read in this reply: the next run asks once more."""
        if self._store is not None:
            self._store.mark_unreadable(self._keys.of(call), reply)

    # ---------------------------------------------------------------------------------------------------------- cache

    async def ask(self, call: Call) -> Reply:
        """The reply: from the cache, from the same call under way, or from an endpoint."""
        key = self._keys.of(call)
        attempt = Attempt(call, key, self.judge.retry.attempts)
        try:
            async with asyncio.timeout(self._deadline.left()):
                return await self._answer(attempt)
        except TimeoutError:
            return await self._finish(attempt, attempt.end(TOO_LATE))

    async def _answer(self, attempt: Attempt) -> Reply:
        running, place = self._endpoints.running, (id(self if self._store is None else self._store), attempt.key)
        while (other := running.get(place)) is not None:
            reply = await asyncio.shield(other)
            if reply is not None:  # None: that call was cancelled; another must be made
                return self._free(attempt.call, replace(reply, cached=reply.failure is None, usage=Usage()))
        mine = running[place] = asyncio.get_running_loop().create_future()
        reply = None
        try:
            reply = await self._cached(attempt) or await self._first_to_ask(attempt)
            return reply
        finally:
            del running[place]
            mine.set_result(reply)

    async def _cached(self, attempt: Attempt) -> Reply | None:
        """Where no call needs to, or may, be made."""
        if self._store is not None:
            known = await self._known(self._store, attempt)
            if known is not None:
                return known
        if self._cache_only or self._deadline.left() == 0.0:
            reply = Reply(None, NOT_CACHED if self._cache_only else TOO_LATE, attempts=0)
            self.meter.add(attempt.call, reply, requests=0)
            return reply
        if not self._served:
            raise RuntimeError("the client is closed: ask within `async with Client(…)`")
        return None

    async def _known(self, store: Replies, attempt: Attempt) -> Reply | None:
        while True:
            try:
                known = store.get(attempt.key)
                break
            except sqlite3.OperationalError as error:  # locked, by a process that is making or repairing it
                if "locked" not in str(error):
                    raise
                await asyncio.sleep(_LOCKED)
        if known is None:
            return None
        store.count_hit(attempt.call, known)
        return self._free(attempt.call, known)

    def _free(self, call: Call, reply: Reply) -> Reply:
        self.meter.hit(call, reply)
        return reply

    async def _first_to_ask(self, attempt: Attempt) -> Reply:
        store = self._store
        if store is None:
            return await self._finish(attempt, await self._pursue(attempt))
        known = await self._claim(store, attempt)
        if known is not None:
            return known
        try:
            reply = await self._finish(attempt, await self._pursue(attempt))
        except BaseException:
            store.release(attempt.key)
            raise
        if not attempt.requests:  # nobody was asked, and nothing is kept that would end the claim
            store.release(attempt.key)
        return reply

    async def _claim(self, store: Replies, attempt: Attempt) -> Reply | None:
        """Wait while another process asks the same; its reply, or None: it is for this one to ask."""
        pause, most = _WATCH
        while not await store.claim(attempt.key):
            await asyncio.sleep(pause)
            pause = min(2.0 * pause, most)
            known = await self._known(store, attempt)
            if known is not None:
                return known
        known = await self._known(store, attempt)  # it may have come between the first look and the claim
        if known is not None:
            store.release(attempt.key)
        return known

    async def _finish(self, attempt: Attempt, reply: Reply) -> Reply:
        """Into the accounts and onto the disk; the caller gets the cost of all requests."""
        requests = attempt.requests - attempt.noted
        self.meter.add(attempt.call, reply, requests)
        if self._store is not None and attempt.requests:
            await self._keep(self._store, attempt, reply, requests)
        if reply.usage is attempt.usage:
            return reply
        return finished(reply, attempt.usage, reply.latency, reply.attempts, reply.id)

    async def _keep(self, store: Replies, attempt: Attempt, reply: Reply, requests: int) -> None:
        """On disk when this returns, if the deadline allows; else a little later."""
        keeping = store.keep(attempt.key, attempt.call, reply, requests)
        left = self._deadline.left()
        if left is None:
            await keeping
            return
        task = asyncio.ensure_future(keeping)
        await asyncio.wait({task}, timeout=max(left, _LAST))
        if task.done():
            task.result()

    # ---------------------------------------------------------------------------------------------------------- asking

    async def _pursue(self, attempt: Attempt) -> Reply:
        """Until there is an answer, or no try left."""
        if self._check_first and not any(served.shared.answered for served in self._served):
            await self._checked()
        while attempt.tries > 0:
            hopeful = [served for served in self._served if served not in attempt.hopeless]
            if not hopeful:
                break
            served = self._choice.next(hopeful, attempt.failed)
            if served is None:
                await self._wait_for_one(attempt, hopeful)
                continue
            outcome = await served.attempt(attempt.call, attempt.begin)
            if outcome is None:
                continue
            attempt.count(outcome)
            if outcome.next == "done":
                break
            await self._recover(attempt, served, outcome)
        return self._ended(attempt)

    def _ended(self, attempt: Attempt) -> Reply:
        """The reply; one that failed while every endpoint is left alone was lost to an outage."""
        failure = attempt.reply.failure
        away = self._outage.policy == "continue" and all(one.breaker.state != "closed" for one in self._served)
        if failure is None or not away or attempt.reply.text is not None or failure.startswith(AWAY):
            return attempt.end()
        return attempt.end(f"{AWAY}: {failure}")

    async def _checked(self) -> None:
        """Some endpoint is of use; all calls wait for the same check."""
        if self._checking is None:
            self._checking = asyncio.create_task(self._check_all())
        await asyncio.shield(self._checking)

    async def _check_all(self) -> None:
        served = list(self._served)
        found = await asyncio.gather(
            *(check_endpoint(one, self.judge, self._paid) for one in served), return_exceptions=True
        )
        problems = [error for error in found if error is not None]
        if len(problems) == len(served):
            raise problems[0]
        for error in problems:
            _log.warning("%s; the others are asked", error)

    async def _recover(self, attempt: Attempt, served: JudgeEndpoint, outcome: RequestOutcome) -> None:
        """After a request that failed: note what it cost, and pause if there is no other endpoint to ask at once."""
        if outcome.next == "elsewhere":
            attempt.hopeless.append(served)
            self._raise_if_final(served, outcome)
        else:
            attempt.tries -= self._price(outcome)
            attempt.failed.append(served)
        fresh = [other for other in self._served if other not in attempt.hopeless and other not in attempt.failed]
        over = attempt.tries <= 0 or len(attempt.hopeless) == len(self._served)
        if not over and outcome.reply.usage != Usage():
            await self._note(attempt)
        if over or outcome.next == "elsewhere" or any(other.breaker.ready() for other in fresh):
            return
        await self._sleep(attempt, backoff(self.judge.retry, attempt.failed.count(served), outcome.wait))

    def _price(self, outcome: RequestOutcome) -> float:
        """Tries that a failure costs: none where an outage is waited for, and it is found to go on.

        A few calls alone may be what the server cannot bear, and are not tried for ever.
        """
        many = len(self._endpoints.running) > _FEW
        if many and self._outage.policy != "continue" and all(one.shared.is_away for one in self._served):
            return 0.0
        return _OVERLOAD if outcome.overloaded and outcome.healthy else 1.0

    def _raise_if_final(self, served: JudgeEndpoint, outcome: RequestOutcome) -> None:
        if outcome.final and all(one.is_final for one in self._served):
            raise refusal(served, self.judge, outcome.reply.failure or "")

    async def _note(self, attempt: Attempt) -> None:
        """A request was paid and is of no use; it stands in the accounts by itself, before another is made."""
        requests, attempt.noted = attempt.requests - attempt.noted, attempt.requests
        reply = replace(attempt.reply, latency=time.monotonic() - attempt.started)
        attempt.reply = replace(reply, usage=Usage())  # so that it is not counted again, should nothing follow
        self.meter.add(attempt.call, reply, requests, final=False)
        if self._store is not None:
            await self._store.keep(attempt.key, attempt.call, reply, requests, final=False)

    async def _wait_for_one(self, attempt: Attempt, served: Sequence[JudgeEndpoint]) -> None:
        """None of these endpoints is to be asked now: wait until one is, or all are given up."""
        seen: list[int] = []
        while attempt.tries > 0 and not any(one.breaker.ready() for one in served):
            openings = [one.breaker.openings for one in served]
            closed = any(one.breaker.state == "closed" for one in served)  # it asks for patience, and is there
            if self._outage.policy == "continue" and openings != seen and not closed:
                attempt.tries -= 1.0  # waiting for one that fails is a try like any other
            seen = openings
            if not attempt.requests:
                attempt.reply = replace(NO_ANSWER, failure=f"{NO_ANSWER.failure}: {_last_failure(served)}")
            wait = min(one.breaker.ready_in() for one in served)
            if all(one.shared.is_away for one in served):
                left = self._outage_left(served)
                if left <= 0.0:
                    attempt.tries = 0
                    attempt.reply = Reply(None, f"{AWAY}: {_last_failure(served)}")
                    return
                wait = min(wait, left)
            if attempt.tries > 0:
                await self._sleep(attempt, wait, until_news=True)

    def _outage_left(self, served: Sequence[JudgeEndpoint]) -> float:
        """Seconds for which an outage is borne; JudgeOutage where it is to be borne no longer."""
        if self._outage.policy == "continue":
            return 0.0
        gone = time.monotonic() - min(one.breaker.away_since or math.inf for one in served)
        left = self._outage.wait - gone if self._outage.policy == "wait" else 0.0
        if left <= 0.0:
            where = ", ".join(sorted({one.endpoint.where for one in served}))
            raise JudgeOutage(self.judge.name, where, _last_failure(served), gone)
        return left

    async def _sleep(self, attempt: Attempt, seconds: float, *, until_news: bool = False) -> None:
        left = self._deadline.left()
        if left is not None and left <= seconds < math.inf:
            attempt.tries = 0  # nothing will come of it in time
            return
        if not until_news:
            await asyncio.sleep(seconds)
            return
        try:
            async with asyncio.timeout(None if seconds == math.inf else seconds):
                await self._endpoints.news()
        except TimeoutError:
            pass


def _last_failure(served: Sequence[JudgeEndpoint]) -> str:
    return served[0].shared.address.hide(served[0].shared.last_failure)
