"""Rates are kept, and guesses of tokens are put right; by a clock that the event loop believes."""

import asyncio
import math
import selectors
from bisect import bisect_left

import pytest
from cases import folded

from rubrank.judges.client.limits import RateLimits


class _Selector(selectors.SelectSelector):
    """Instead of waiting, moves the clock."""

    def __init__(self):
        super().__init__()
        self.now = 0.0

    def select(self, timeout=None):
        self.now += (timeout or 0.0) + 1e-6  # a clock that never stands still, as real ones do not
        return super().select(0)


class Loop(asyncio.SelectorEventLoop):
    """A minute passes in no time."""

    def __init__(self):
        self.clock = _Selector()
        super().__init__(self.clock)

    def time(self):
        return self.clock.now


def run(main):
    with asyncio.Runner(loop_factory=Loop) as runner:
        return runner.run(main)


async def moments(limits, number, guess=0.0, used=None):
    """When each of so many calls was let in."""
    loop, seen = asyncio.get_running_loop(), []

    async def one():
        await limits.admit(guess)
        seen.append(loop.time())
        limits.settle(guess, used)

    await asyncio.gather(*(one() for _ in range(number)))
    return seen


def most_in_a_minute(seen):
    return max(bisect_left(seen, start + 60.0) - i for i, start in enumerate(seen))


@folded("rate", [0.5, 1, 7, 60, 600, 3000])
def test_never_more_requests_in_any_minute(rate):
    seen = run(moments(RateLimits(rate), max(3, int(2.5 * rate))))
    assert most_in_a_minute(seen) <= max(rate, 1) + 1e-6


@pytest.mark.parametrize("rate", [60, 600])
def test_requests_come_near_to_the_rate(rate):
    seen = run(moments(RateLimits(rate), 5 * rate))
    assert seen[-1] == pytest.approx(300.0, rel=0.05)


@pytest.mark.parametrize("guess", [100.0, 1000.0, 5000.0])
def test_tokens_are_those_used_not_those_guessed(guess):
    calls, used, rate = 600, 1000, 60_000
    seen = run(moments(RateLimits(math.inf, rate), calls, guess, used))
    assert seen[-1] == pytest.approx(calls * used / rate * 60.0, rel=0.15)


def test_calls_larger_than_the_bucket():
    seen = run(moments(RateLimits(math.inf, 6000), 20, 3000.0, 3000))
    assert seen[-1] == pytest.approx(20 * 3000 / 5500 * 60.0, rel=0.2)


def test_what_was_turned_away_counts_nothing():
    seen = run(moments(RateLimits(math.inf, 6000), 100, 400.0, 0))
    assert seen[-1] < 60.0


def test_who_gives_up_waiting_is_not_charged():
    async def main():
        limits = RateLimits(math.inf, 6000)
        await limits.admit(500.0)
        waiting = asyncio.create_task(limits.admit(400.0))
        await asyncio.sleep(0.1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await limits.admit(100.0)
        return asyncio.get_running_loop().time()

    assert run(main()) < 2.0


def test_no_limits_no_waits():
    assert run(moments(RateLimits(), 1000, 1e9, 10**9))[-1] < 0.1
