"""Send the calls of a judge: cache, several endpoints, limits, retries, a deadline, and usage.

    with ReplyCache("replies.sqlite") as cache:
        async with Client(judge, cache=cache, deadline=Deadline(600.0)) as client:
            reply = await client.ask(call)         Reply(text='{"verdict": 1}', …), on disk
            reply = await client.ask(call)         the same, from the cache: costs nothing
            client.usage                           Account(calls=1, hits=1, cost=…)

The states of a call, each beside the method of `Client` that it is in:

    ask                 call
                          ├── identical call in flight in this process ──► wait for its reply ──────► hit
                          ▼
    _look_up_or_send    first of its kind in this process
                          ├── reply in the cache ───────────────────────────────────────────────────► hit
                          ├── cache only, or the deadline has passed ───────────────────────────────► failure
                          ├── claimed by another process ──► poll the cache for its reply ──────────► hit
                          ▼
    _send               claimed by this process
                          │  ┌───────────────────────────────────────────────────────────────┐
                          ▼  ▼                                                               │
    _wait_for_endpoint  choose endpoint ── none is ready ──► wait for a circuit breaker ─────┤
                          ▼                                                                  │
    _prepare_retry      request ── retry ──► backoff, unless another endpoint is ready ──────┤
                          │    └── other endpoint ───────────────────────────────────────────┘
                          ▼
    _finish             done, or no attempts, endpoints or money left ──► cache and usage ──────────► Reply

A call that fails returns a `Reply` with the reason, which is in the cache before `ask` returns. The deadline can end a
call in every state. Only two errors are raised, because going on is pointless: InvalidInput if every endpoint refuses
the key, the model or the URL, and JudgeOutage if no endpoint answers any more and the outage policy is not "continue".
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache as cache_result
from importlib.util import find_spec
from typing import Self

from rubrank.errors import JudgeOutage
from rubrank.judges.client.cache import CallKeys, ReplyCache, make_reply_id
from rubrank.judges.client.endpoint import NO_ANSWER, EndpointPool, JudgeEndpoint, choose_endpoint
from rubrank.judges.client.protocol import RequestOutcome, compute_backoff
from rubrank.judges.client.usage import Account
from rubrank.judges.judge import Call, Judge, Judges, Reply, Usage
from rubrank.verifiers.verifier import OUTAGE

DEADLINE_PASSED = "deadline of the step passed"
NOT_CACHED = "not in the cache"
SPENDING_LIMIT = "spending limit reached"
# A request to an overloaded server costs a part of an attempt only: the server will answer when it gets fewer at once.
_OVERLOAD_COST = 0.25
# At most so many calls in flight are "few"; see `_prepare_retry`. So small a load does not overwhelm a server: if it
# goes down nevertheless, these calls may be the cause.
_MAX_FEW_CALLS = 3
# Seconds between looks into the cache for the reply of another process; doubled each time.
_FIRST_POLL_SECONDS = 0.05
_MAX_POLL_SECONDS = 1.0
_MIN_WRITE_SECONDS = 0.2  # for writing a reply that came just before the deadline

_log = logging.getLogger("rubrank.judges")


class Deadline:
    """The end of a step, so many seconds after this object is made. None: no deadline."""

    def __init__(self, seconds: float | None = None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    def remaining(self) -> float | None:
        """Return the seconds left, never below zero; None: no deadline."""
        return None if self._end is None else max(self._end - time.monotonic(), 0.0)


@cache_result
def _missing_packages() -> list[str]:
    return [name for name in ("aiohttp", "aiolimiter") if find_spec(name) is None]


@dataclass
class _CallState:
    """How far a call has come: its requests, what they cost, and where they failed."""

    call: Call
    key: bytes
    attempts_left: float
    """The call is given up at 0."""
    started: float = field(default_factory=time.monotonic)
    reply: Reply = NO_ANSWER
    """Of the last request. Its usage is zero once it has been recorded, so that it is not counted twice."""
    usage: Usage = field(default_factory=Usage)
    """Of all requests."""
    requests: int = 0
    recorded_requests: int = 0
    """Requests that have been counted and are in the cache's ledger, because they were paid for and are retried."""
    failed_at: list[JudgeEndpoint] = field(default_factory=list)
    """Endpoints at which a request failed, once for each failure."""
    refused_by: list[JudgeEndpoint] = field(default_factory=list)
    """Endpoints at which another request is pointless."""

    def note_sent(self, endpoint: JudgeEndpoint) -> None:
        """Note that a request was sent. If the call ends before its outcome is known, this is the reply."""
        self.requests += 1
        self.reply = endpoint.in_flight_reply

    def make_reply(self, failure: str | None = None) -> Reply:
        """Return the reply of the last request, with the latency and id of the call.

        failure: replaces its text and usage.
        """
        reply = self.reply
        if failure is not None:
            reply = replace(reply, text=None, failure=failure, usage=Usage())
        return replace(
            reply,
            latency=time.monotonic() - self.started,
            attempts=self.requests,
            id=make_reply_id(self.key, time.time()),
        )


class Client:
    """Sends the calls of one judge that has endpoints; open it with `async with`, in the event loop that calls it.

    settings: those of all judges of the run: cache only, spending, outages. By default an outage is a failure.
    endpoints: the pool of the event loop, so that all judges share limits and health; by default the client's own.
    check_first: make sure before the first request that some endpoint is usable.
    """

    def __init__(
        self,
        judge: Judge,
        settings: Judges | None = None,
        *,
        cache: ReplyCache | None = None,
        deadline: Deadline | None = None,
        endpoints: EndpointPool | None = None,
        check_first: bool = False,
    ) -> None:
        settings = settings or Judges(judges=(judge,), on_outage="continue")
        if cache is not None and cache.read_only and not settings.cache_only:
            raise judge.make_error(
                "cache",
                allowed="writable, or used with cache_only",
                got=f"{cache.path}, opened to read",
                remedy="Replies would be paid for and lost.",
            )
        if not settings.cache_only and _missing_packages():
            raise judge.make_error(
                "endpoints",
                allowed="used with the packages that judges need",
                got=f"no {_missing_packages()[0]}",
                remedy="Install them: pip install 'rubrank[judge]'.",
            )
        self.judge = judge
        self.usage = Account()
        self._cache = cache
        self._settings = settings
        self._deadline = deadline or Deadline()
        self._pool = endpoints or EndpointPool()
        self._owns_pool = endpoints is None
        self._check_first = check_first
        self._spending = settings.spending
        self._most_cost = (settings.most_cost or math.inf) / settings.processes
        self._keys = CallKeys(judge)
        self._endpoints: list[JudgeEndpoint] = []
        self._first_check: asyncio.Task[None] | None = None
        # An event loop holds only weak references to its tasks: without this set, a write could be collected.
        self._late_writes: set[asyncio.Future[None]] = set()

    async def __aenter__(self) -> Self:
        if not self._settings.cache_only:
            self._endpoints = self._pool.open(self.judge, self._settings.processes)
        return self

    async def __aexit__(self, *_: object) -> None:
        for endpoint in self._endpoints:
            endpoint.state.leave(endpoint)
        self._endpoints = []
        if self._owns_pool:
            await self._pool.close()

    async def check(self, *, one_is_enough: bool = False) -> None:
        """Check the health of every endpoint: InvalidInput if one is down, or refuses the key or the model.

        one_is_enough: raise the error of the first only if none is usable.
        """
        checks = [endpoint.check(self._record_check) for endpoint in self._endpoints]
        results = await asyncio.gather(*checks, return_exceptions=True)
        errors = [error for error in results if error is not None]
        if errors and (not one_is_enough or len(errors) == len(results)):
            raise errors[0]
        for error in errors:
            _log.warning("%s; the other endpoints are used", error)

    def _may_spend(self) -> bool:
        return self._spending.cost < self._most_cost

    async def _record_check(self, call: Call, reply: Reply) -> None:
        """Count and store a completion that a health check has paid for."""
        self._spending.cost += reply.usage.cost
        self.usage.add(call, reply, requests=1)
        if self._cache is not None:
            await self._cache.put_async(self._keys.key(call), call, reply)

    def unreadable(self, call: Call, reply: Reply) -> None:
        """Note in the cache that this reply has no verdict: the next run asks once more."""
        if self._cache is not None:
            self._cache.mark_unreadable(self._keys.key(call), reply)

    # --------------------------------------------------------------------------------------------- before the request

    async def ask(self, call: Call) -> Reply:
        """Return the reply to a call: from the cache, from an identical call in flight, or from an endpoint."""
        state = _CallState(call, self._keys.key(call), self.judge.retry.attempts)
        in_flight = self._pool.in_flight
        # Judges of the same servers share the replies of a cache. Without one, every client sends its own calls.
        owner = self if self._cache is None else self._cache
        flight_key = (id(owner), state.key, self._keys.servers)
        try:
            async with asyncio.timeout(self._deadline.remaining()):
                while flight_key in in_flight:
                    # Shielded, so that cancelling this call does not cancel the one that all others wait for.
                    reply = await asyncio.shield(in_flight[flight_key])
                    if reply is not None:  # None: that call was cancelled or raised; send another
                        # The call that was sent has counted what the reply cost, so it costs nothing here.
                        reply = replace(reply, cached=reply.failure is None, usage=Usage())
                        self.usage.add_hit(call, reply)
                        return reply
                future: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()
                in_flight[flight_key] = future
                answer: Reply | None = None
                try:
                    answer = await self._look_up_or_send(state)
                    return answer
                finally:
                    del in_flight[flight_key]
                    future.set_result(answer)
        except TimeoutError:  # only the deadline: `request` turns its own timeouts into replies
            return await self._finish(state, state.make_reply(DEADLINE_PASSED))

    async def _look_up_or_send(self, state: _CallState) -> Reply:
        """Answer a call from the cache, or send it. With a cache, only one process sends it; the others wait."""
        # Also after the deadline: a look into the cache does not wait, unless another process has locked the file.
        reply = await self._look_up(state)
        if reply is not None:
            return reply
        if self._settings.cache_only or self._deadline.remaining() == 0.0:
            failure = NOT_CACHED if self._settings.cache_only else DEADLINE_PASSED
            reply = Reply(None, failure, attempts=0)
            self.usage.add(state.call, reply, requests=0)
            return reply
        if not self._endpoints:
            raise RuntimeError("the client is closed: use it within `async with Client(…)`")
        cache = self._cache
        if cache is None:
            return await self._finish(state, await self._send(state))
        pause = _FIRST_POLL_SECONDS
        try:
            while not await cache.claim(state.key):
                await asyncio.sleep(pause)
                pause = min(2.0 * pause, _MAX_POLL_SECONDS)
                reply = await self._look_up(state)
                if reply is not None:
                    return reply
            # The reply of another process may have come between the first look and the claim.
            reply = await self._look_up(state)
            if reply is None:
                reply = await self._finish(state, await self._send(state))
        except BaseException:
            cache.release(state.key)
            raise
        if not state.requests:
            # Nothing was sent, so `_finish` has stored no reply that would end the claim.
            cache.release(state.key)
        return reply

    async def _look_up(self, state: _CallState) -> Reply | None:
        """Return the reply in the cache, counted as a hit; None if there is none."""
        if self._cache is None:
            return None
        reply = await self._cache.get_async(state.key, self._keys.servers)
        if reply is not None:
            self._cache.count_hit(state.call, reply)
            self.usage.add_hit(state.call, reply)
        return reply

    async def _finish(self, state: _CallState, reply: Reply) -> Reply:
        """Count and store the final reply of a call; returns it with the usage of all its requests."""
        requests = state.requests - state.recorded_requests
        self.usage.add(state.call, reply, requests)
        if self._cache is not None and state.requests:
            put = self._cache.put_async(state.key, state.call, reply, requests)
            task = asyncio.ensure_future(put)
            # A slow disk must not hold up the step beyond its deadline: the write then goes on in the background.
            remaining = self._deadline.remaining()
            if remaining is not None:
                remaining = max(remaining, _MIN_WRITE_SECONDS)
            await asyncio.wait({task}, timeout=remaining)
            if task.done():
                task.result()
            else:
                self._late_writes.add(task)
                task.add_done_callback(self._late_writes.discard)
        return replace(reply, usage=state.usage)

    # ------------------------------------------------------------------------------------------------------- requests

    async def _send(self, state: _CallState) -> Reply:
        """Send requests until one is answered, or no attempt, endpoint or money is left."""
        if not self._may_spend():
            return state.make_reply(SPENDING_LIMIT)
        has_answered = any(endpoint.state.has_answered for endpoint in self._endpoints)
        if self._check_first and not has_answered:
            if self._first_check is None:
                self._first_check = asyncio.create_task(self.check(one_is_enough=True))
            await asyncio.shield(self._first_check)  # all calls wait for the same check
        while state.attempts_left > 0:
            candidates = [
                endpoint for endpoint in self._endpoints if endpoint not in state.refused_by
            ]
            if not candidates:
                break
            endpoint = choose_endpoint(candidates, state.failed_at)
            if endpoint is None:
                await self._wait_for_endpoint(state, candidates)
                continue
            estimate = 0.0
            if self._most_cost < math.inf:
                estimate = endpoint.estimate_cost(state.call)
            if not await self._spending.reserve(estimate, self._most_cost):
                return state.make_reply(SPENDING_LIMIT)
            cost = 0.0
            try:
                outcome = await endpoint.request(
                    state.call, state.note_sent, may_send=self._may_spend
                )
                if outcome is not None:
                    cost = outcome.reply.usage.cost
            finally:
                self._spending.settle(estimate, cost)
            if outcome is None:
                # The breaker opened, or the money was spent, while the request waited for a slot.
                continue
            state.reply = outcome.reply
            state.usage += outcome.reply.usage
            if outcome.next == "done":
                break
            await self._prepare_retry(state, endpoint, outcome)

        if self._is_lost_to_outage(state.reply):
            # Its usage stays: a server may report an error and charge for it.
            detail = (state.reply.failure or "").removeprefix(f"{OUTAGE}: ")
            state.reply = replace(state.reply, failure=f"{OUTAGE}: {detail}")
        return state.make_reply()

    def _is_lost_to_outage(self, reply: Reply) -> bool:
        """Did the call fail in an outage that does not stop the run, even if its last failure looks different?"""
        if self._settings.on_outage != "continue" or reply.text is not None or not reply.failure:
            return False
        return all(endpoint.breaker.state != "closed" for endpoint in self._endpoints)

    async def _prepare_retry(
        self, state: _CallState, endpoint: JudgeEndpoint, outcome: RequestOutcome
    ) -> None:
        """Charge a failed request, record what it cost, and pause if no other endpoint can be tried.

            outcome                                                     attempts    endpoint for the next request
            the endpoint refuses the call, the key or the model         0           another one only
            every endpoint is down, and the run waits for the end (*)   0           any, once it is ready
            the server is overloaded, but healthy                       ¼           any, preferably another
            other failures                                              1           any, preferably another

        (*) But if few calls are in flight, they may be what brings the server down, and must not be repeated forever:
        they then use up attempts like any others.
        """
        if outcome.next == "other_endpoint":
            state.refused_by.append(endpoint)
            if outcome.misconfigured and all(e.is_misconfigured for e in self._endpoints):
                raise endpoint.explain_refusal(outcome)
        else:
            many_calls = len(self._pool.in_flight) > _MAX_FEW_CALLS
            candidates = [e for e in self._endpoints if e not in state.refused_by]
            is_outage = all(e.state.is_down for e in candidates)
            if is_outage and many_calls and self._settings.on_outage != "continue":
                attempts = 0.0
            elif outcome.overloaded and outcome.healthy:
                attempts = _OVERLOAD_COST
            else:
                attempts = 1.0
            state.attempts_left -= attempts
            state.failed_at.append(endpoint)

        if state.attempts_left <= 0 or len(state.refused_by) == len(self._endpoints):
            return  # there is no retry: `_finish` records the request
        if outcome.reply.usage != Usage():
            # The request was paid for: it is counted and stored now, whatever becomes of the call. `_finish` counts the
            # requests after it.
            paid_reply = replace(state.reply, latency=time.monotonic() - state.started)
            requests = state.requests - state.recorded_requests
            state.recorded_requests = state.requests
            state.reply = replace(paid_reply, usage=Usage())
            self.usage.add(state.call, paid_reply, requests, final=False)
            if self._cache is not None:
                await self._cache.put_async(
                    state.key, state.call, paid_reply, requests, final=False
                )

        if outcome.next == "other_endpoint":
            return
        tried = [*state.refused_by, *state.failed_at]
        if any(e not in tried and e.breaker.is_ready() for e in self._endpoints):
            return
        failures = state.failed_at.count(endpoint)
        pause = compute_backoff(self.judge.retry, failures, outcome.retry_after)
        if self._outlasts_deadline(pause):
            state.attempts_left = 0
        else:
            await asyncio.sleep(pause)

    def _outlasts_deadline(self, seconds: float) -> bool:
        """Would a pause end after the deadline? The call is then given up at once."""
        remaining = self._deadline.remaining()
        return remaining is not None and remaining <= seconds < math.inf

    async def _wait_for_endpoint(
        self, state: _CallState, endpoints: Sequence[JudgeEndpoint]
    ) -> None:
        """Wait until one of these endpoints is ready. The call is given up if that would take too long.

        endpoints: those that have not refused the call; it is an outage if all of them are down. The call is then
        given up under the policy "continue". Under the other policies it waits, until JudgeOutage is raised.
        """
        while not any(endpoint.breaker.is_ready() for endpoint in endpoints):
            last_failure = endpoints[0].state.address.hide_secrets(endpoints[0].state.last_failure)
            if not state.requests:
                state.reply = replace(NO_ANSWER, failure=f"{NO_ANSWER.failure}: {last_failure}")
            wait = min(endpoint.breaker.seconds_until_ready() for endpoint in endpoints)
            if all(endpoint.state.is_down for endpoint in endpoints):
                if self._settings.on_outage == "continue":
                    state.attempts_left = 0
                    state.reply = Reply(None, f"{OUTAGE}: {last_failure}")
                    return
                # An outage begins when the last endpoint goes down.
                down_since = max(endpoint.breaker.down_since or 0.0 for endpoint in endpoints)
                elapsed = time.monotonic() - down_since
                if self._settings.on_outage == "stop" or elapsed >= self._settings.outage_wait:
                    where = ", ".join(sorted({endpoint.where for endpoint in endpoints}))
                    raise JudgeOutage(self.judge.name, where, last_failure, elapsed)
                wait = min(wait, self._settings.outage_wait - elapsed)
            if self._outlasts_deadline(wait):
                state.attempts_left = 0
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(None if wait == math.inf else wait):
                    await self._pool.wait_for_change()
