"""Limits of calls. Each class is about one reason why a call waits, or is not sent at all:

    ConcurrencyLimit    the endpoint has as many requests in flight as it can take
    RateLimits          the requests or tokens of this minute are used up
    Breaker             the endpoint has failed too often, or has asked to wait
    Spending            the money of the run is used up
    LimitShares         other processes use the same endpoint

Every process has a ConcurrencyLimit, RateLimits and a Breaker for each endpoint, and a Spending for each run.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    # In the extra `judge`, which is not needed to answer from the cache.
    from aiolimiter import AsyncLimiter

# -------------------------------------------------------------------------------------------------------- concurrency

_DECREASE_FACTOR = 0.5
_INCREASE_SHARE = 1 / 16  # of the ceiling; added after as many answers as there are slots


class ConcurrencyLimit:
    """The number of requests in flight at an endpoint: as many as it can take, but never more than the ceiling.

        slots = ConcurrencyLimit(ceiling=256)
        await slots.acquire()              waits while all slots are in use
        slots.note_overload(started)       a 429 or a timeout: half as many slots from now on
        slots.note_success()               a few more after every round of answers
        slots.release()

    Additive increase, multiplicative decrease, as in TCP. Belongs to one event loop.
    """

    def __init__(self, ceiling: int) -> None:
        self.ceiling = ceiling
        self.limit = float(ceiling)
        self.in_use = 0
        self._successes = 0
        self._is_lowered = False
        """Whether an overload lowered the limit, and it has not recovered yet."""
        self._decreased_at = 0.0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def demand(self) -> int:
        """Slots that are in use or waited for."""
        return self.in_use + len(self._waiting)

    def set_ceiling(self, ceiling: int) -> None:
        """Change the ceiling; a limit that was lowered because of overload stays low."""
        self.ceiling = ceiling
        if self._is_lowered:
            # At least one slot: after a ceiling of 0, a limit of 0 would never see the answers that let it rise.
            self.limit = min(max(self.limit, 1.0), float(ceiling))
        else:
            self.limit = float(ceiling)
        self._wake()

    async def acquire(self) -> None:
        """Wait for a slot; first come, first served."""
        if self.in_use < int(self.limit) and not self._waiting:
            self.in_use += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self.release()  # the slot was granted and the call cancelled in the same turn of the event loop
            else:
                with suppress(ValueError):  # `_wake` has removed it
                    self._waiting.remove(turn)
            raise

    def release(self) -> None:
        """Give a slot back."""
        self.in_use -= 1
        self._wake()

    def note_success(self) -> None:
        """Count an answered request; after a round of answers the limit rises."""
        if self.limit >= self.ceiling:
            return
        self._successes += 1
        if self._successes >= self.limit:
            self._successes = 0
            self.limit = min(
                self.limit + max(1.0, _INCREASE_SHARE * self.ceiling), float(self.ceiling)
            )
            self._is_lowered = self.limit < self.ceiling
            self._wake()

    def note_overload(self, started: float) -> None:
        """Lower the limit: a request that was sent at `started` (time.monotonic) overloaded the server.

        Requests that were sent before the last decrease report the same overload, and do not count again.
        """
        if started < self._decreased_at:
            return
        self._decreased_at = time.monotonic()
        self._successes = 0
        self._is_lowered = True
        # Halve the slots in use if they are fewer than the limit: halving a limit that is not reached would change
        # nothing.
        slots_before = min(self.limit, float(max(self.in_use, 1)))
        decreased = max(1.0, _DECREASE_FACTOR * slots_before)
        # The ceiling is 0 if other processes have all slots.
        self.limit = min(decreased, float(self.ceiling))

    def _wake(self) -> None:
        """Grant free slots to the calls that wait, in their order."""
        while self._waiting and self.in_use < int(self.limit):
            turn = self._waiting.popleft()
            if not turn.done():
                self.in_use += 1
                turn.set_result(None)


# -------------------------------------------------------------------------------------------------------------- rates

_SECONDS_PER_MINUTE = 60.0
_TOKEN_BURST_SECONDS = 5.0  # tokens of this many seconds may be sent at once


class RateLimits:
    """Requests and tokens per minute; calls wait here instead of being rejected by the server.

        rates = RateLimits(requests_per_minute=600, tokens_per_minute=100_000)
        await rates.admit(1500)            waits for its turn; 1500 tokens are an estimate
        rates.settle(1500, used=900)       the 600 that were not used are credited to the next calls

    Both are leaky buckets (aiolimiter) that hold a few seconds of the rate: a bucket that holds a whole minute would
    let through twice the limit in the first minute. The difference between estimated and used tokens is carried over
    to the next calls, so that the sum is right.
    """

    def __init__(
        self, requests_per_minute: float = math.inf, tokens_per_minute: float = math.inf
    ) -> None:
        self._requests: AsyncLimiter | None = None
        self._tokens: AsyncLimiter | None = None
        if requests_per_minute < math.inf:
            # One second of the rate may go at once. A bucket lets through fewer than burst + rate requests in any
            # minute. This rate makes that sum the limit + 1, so that no minute has more than the limit.
            burst = max(1.0, requests_per_minute / _SECONDS_PER_MINUTE)
            self._requests = _make_bucket(burst, requests_per_minute - burst + 1.0)
        if tokens_per_minute < math.inf:
            burst = tokens_per_minute * _TOKEN_BURST_SECONDS / _SECONDS_PER_MINUTE
            self._tokens = _make_bucket(burst, tokens_per_minute - burst)
        self._turn = asyncio.Lock()
        self._carried = 0.0  # tokens that the next calls are charged in addition; negative: credit

    async def admit(self, estimate: float) -> None:
        """Wait until a call of about this many tokens may be sent."""
        if self._requests is not None:
            await self._requests.acquire()
        if self._tokens is None:
            return
        # One call at a time, so that each sees what the calls before it carried over.
        async with self._turn:
            due = estimate + self._carried
            # A credit that is larger than this call is left for the next.
            self._carried = min(due, 0.0)
            try:
                while due > 0.0:  # in parts, because aiolimiter rejects more than the bucket holds
                    part = min(due, self._tokens.max_rate)
                    await self._tokens.acquire(part)
                    due -= part
            except BaseException:
                # Cancelled: what was charged already is credited to the next calls.
                self._carried += due - estimate
                raise

    def settle(self, estimate: float, used: int | None) -> None:
        """Correct a charge by the tokens that the call really used; None: the server does not report them."""
        if used is not None:
            self._carried += used - estimate


def _make_bucket(burst: float, per_minute: float) -> AsyncLimiter:
    """Return a leaky bucket that holds `burst` units and lets `per_minute` of them through."""
    from aiolimiter import AsyncLimiter

    return AsyncLimiter(burst, burst * _SECONDS_PER_MINUTE / per_minute)


# ---------------------------------------------------------------------------------------------------- circuit breaker

BreakerState: TypeAlias = Literal["closed", "open", "half-open"]


class Breaker:
    """The circuit breaker of one endpoint.

              8 failures in a row              20 s later, for one request
    closed ────────────────────────► open ────────────────────────────────► half-open
      ▲                                ▲            trial fails                 │ │
      │                                └────────────────────────────────────────┘ │
      └───────────────────────────────────────────────────────────────────────────┘ trial succeeds

    A server that is rate-limited but reachable (Retry-After) is not failing: requests are held back, the breaker stays
    closed.

    on_change: called when calls that wait for the endpoint should look again.
    """

    def __init__(
        self,
        failures: int,
        pause: float,
        on_change: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.state: BreakerState = "closed"
        self.consecutive_openings = 0
        """Without an answer in between."""
        self.down_since: float | None = None
        """When it opened for the first time since the last answer."""
        self._max_failures = failures
        self._pause = pause
        self._on_change = on_change
        self._clock = clock
        self._consecutive_failures = 0
        self._not_before = 0.0  # nothing is sent before this time of the clock

    def configure(self, failures: int, pause: float) -> None:
        """Change the failures after which it opens, and the seconds for which it stays open."""
        self._max_failures = failures
        self._pause = pause

    def is_ready(self) -> bool:
        """Can a request be sent now?"""
        return self.seconds_until_ready() <= 0.0

    def seconds_until_ready(self) -> float:
        """Return the seconds until a request may be sent; infinite while a trial is in flight."""
        if self.state == "half-open":
            return math.inf
        return max(0.0, self._not_before - self._clock())

    def start_request(self) -> bool:
        """Note that a request is sent; True if it is the trial of an open breaker."""
        if self.state != "open":
            return False
        self.state = "half-open"
        return True

    def hold(self, seconds: float) -> None:
        """Send nothing for this many seconds."""
        self._not_before = max(self._not_before, self._clock() + seconds)

    def record_success(self) -> None:
        """Close the breaker: the endpoint answered, if only with an error about the call."""
        self._consecutive_failures = 0
        self.consecutive_openings = 0
        self.down_since = None
        if self.state != "closed":
            self.state = "closed"
            self._not_before = 0.0
            self._on_change()

    def record_failure(self) -> None:
        """Count a failure: the endpoint did not answer, or reported an error of the server."""
        self._consecutive_failures += 1
        trial_failed = self.state == "half-open"
        too_many = self.state == "closed" and self._consecutive_failures >= self._max_failures
        if trial_failed or too_many:
            self.state = "open"
            self.consecutive_openings += 1
            if self.down_since is None:
                self.down_since = self._clock()
            self.hold(self._pause)
            self._on_change()

    def cancel_trial(self) -> None:
        """Let another request try, because the trial was cancelled."""
        if self.state == "half-open":
            self.state = "open"
            self._on_change()


# -------------------------------------------------------------------------------------------------------------- money


@dataclass
class Spending:
    """What the calls of some judges have cost so far in this process, and what those in flight may still cost.

    Near the limit fewer calls are sent at a time: a call is sent beside others only if all of them together stay
    within the limit, even if every reply is as long as allowed. So at most one call exceeds it.
    Nothing is compared: judges with the same settings are equal, however much they have spent.
    """

    cost: float = field(default=0.0, compare=False)
    reserved: float = field(default=0.0, compare=False)
    """Estimated cost of the calls in flight."""
    in_flight: int = field(default=0, compare=False)
    _settled: asyncio.Event = field(default_factory=asyncio.Event, repr=False, compare=False)
    """Set when a call ends; those that wait then have a new one."""

    async def reserve(self, estimate: float, most_cost: float) -> bool:
        """Wait until a call of this estimated cost may be sent; False if the limit `most_cost` is reached."""
        while self.cost < most_cost:
            if not self.in_flight or self.cost + self.reserved + estimate <= most_cost:
                self.in_flight += 1
                self.reserved += estimate
                return True
            await self._settled.wait()
        return False

    def settle(self, estimate: float, cost: float) -> None:
        """Replace the estimate of a call that has ended by its cost."""
        self.in_flight -= 1
        self.reserved -= estimate
        if not self.in_flight:
            self.reserved = 0.0  # without the rounding errors of many additions
        self.cost += cost
        self._settled.set()
        self._settled = asyncio.Event()


# ------------------------------------------------------------------------------------------------------------- shares

LEASE = 3.0
"""Seconds without a report after which a process is considered dead."""


@dataclass(frozen=True)
class Demand:
    """What one process needs of one endpoint."""

    ceiling: int
    """Slots that the endpoint has for all processes."""
    wanted: int
    """Calls that are in flight or waiting."""
    in_use: int
    """Calls that are in flight."""


Report: TypeAlias = Callable[[str, Mapping[str, Demand]], Awaitable[Mapping[str, int]]]
"""Process, demand by endpoint → slots by endpoint."""


@dataclass
class _Holder:
    """A process that holds slots of an endpoint."""

    demand: Demand
    granted: int
    reported_at: float


class LimitShares:
    """Divides the slots of endpoints among processes on any number of machines, in proportion to their demand.

        shares = LimitShares()                                          in one place, such as a Ray actor
        shares.report("replica-1", {"http://…": Demand(64, 80, 10)})    {"http://…": 64}: slots that it may use
        shares.report("replica-2", {"http://…": Demand(64, 10, 0)})     {"http://…": 0}: none is free yet
        shares.report("replica-1", {"http://…": Demand(64, 80, 10)})    {"http://…": 56}: 80 of 90 calls
        shares.report("replica-2", {"http://…": Demand(64, 10, 0)})     {"http://…": 7}: 10 of 90 calls

    The processes together never hold more slots than the endpoint has: a process that must give some up does so when
    its calls end, and only then are they granted to another. The slots of a process are freed `lease` seconds after
    its last report.
    """

    def __init__(self, lease: float = LEASE, clock: Callable[[], float] = time.monotonic) -> None:
        self._lease = lease
        self._clock = clock
        self._holders: dict[str, dict[str, _Holder]] = {}

    def report(self, process: str, demands: Mapping[str, Demand]) -> dict[str, int]:
        """Take the demand of a process by endpoint; returns the slots that it may use from now on."""
        now = self._clock()
        grants = {}
        for endpoint, demand in demands.items():
            holders = self._holders.setdefault(endpoint, {})
            for name, holder in list(holders.items()):
                if name == process or holder.reported_at < now - self._lease:
                    del holders[name]
            other_holders = list(holders.values())
            # If the processes are configured with different ceilings, the lowest holds for all.
            ceiling = min([demand.ceiling, *(holder.demand.ceiling for holder in other_holders)])
            # An idle process counts as one call, so that it has a slot when it needs one.
            calls = max(demand.wanted, 1)
            other_calls = sum(max(holder.demand.wanted, 1) for holder in other_holders)
            fair_share = max(1, int(ceiling * calls / (other_calls + calls)))
            # Slots that another process still uses are not free, even if it was granted fewer since.
            free = ceiling - sum(
                max(holder.granted, holder.demand.in_use) for holder in other_holders
            )
            granted = max(min(fair_share, free), 0)
            holders[process] = _Holder(demand, granted, now)
            grants[endpoint] = granted
        return grants


class LimitsActor:
    """`LimitShares` as a Ray actor: `ray.remote(LimitsActor).remote()`. This module does not import Ray."""

    def __init__(self) -> None:
        self._shares = LimitShares()

    async def report(self, process: str, demands: Mapping[str, Demand]) -> dict[str, int]:
        """Report the demand of a process; see `LimitShares.report`."""
        return self._shares.report(process, demands)
