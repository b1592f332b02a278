"""Limits of an endpoint that several processes share: never more than there is, and nothing idle for long."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st
from judges.server import MODEL, Server
from judges.test_runtime import Crowd

from rubrank import Judge, RewardEngine
from rubrank.judges.client.limits import Demand, LimitShares
from rubrank.judges.client.runtime import close_runtime, runtime
from rubrank.judges.judge import Judges
from rubrank.rollouts.rollout import Group
from rubrank.training.rollouts import rollout_of

NAME = "endpoint"


def report(shares, owner, wanted, taken=0, ceiling=64):
    return shares.report(owner, {NAME: Demand(ceiling, wanted, taken)})[NAME]


def test_one_alone_has_it_all():
    assert report(LimitShares(), "a", 100) == 64
    assert report(LimitShares(), "a", 0) == 64


def test_another_gets_its_part_when_it_is_given_up():
    now = [0.0]
    shares = LimitShares(clock=lambda: now[0])
    assert report(shares, "a", 100) == 64
    assert report(shares, "b", 100) == 0  # all is held
    assert report(shares, "a", 100, taken=64) == 32  # is to shrink, but its calls are still under way
    assert report(shares, "b", 100) == 0
    assert report(shares, "a", 100, taken=32) == 32
    assert report(shares, "b", 100) == 32


def test_it_goes_by_what_is_needed():
    shares = LimitShares()
    report(shares, "a", 1)
    report(shares, "b", 1000)
    for _ in range(3):
        few, many = report(shares, "a", 1), report(shares, "b", 1000, taken=10)
    assert few == 1
    assert many == 63


def test_who_is_not_heard_of_holds_nothing():
    now = [0.0]
    shares = LimitShares(clock=lambda: now[0])
    report(shares, "a", 100)
    now[0] = 2.9
    assert report(shares, "b", 100) == 0
    now[0] = 3.2
    assert report(shares, "b", 100) == 64


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 200)), max_size=60), st.integers(5, 100))
def test_never_more_than_there_is(steps, ceiling):
    """Whatever each wants, in any order: the places that may be in use at the same time are at most the ceiling."""
    shares = LimitShares(clock=lambda: 0.0)
    granted, taken = dict.fromkeys(range(5), 0), dict.fromkeys(range(5), 0)
    for owner, wanted in steps:
        granted[owner] = report(shares, str(owner), wanted, taken[owner], ceiling)
        taken[owner] = min(wanted, max(granted[owner], 0))
        assert sum(max(granted[i], taken[i]) for i in range(5)) <= ceiling


def test_a_process_keeps_to_its_part():
    """The runtime asks, holds nothing before it is told, and opens more places as it is given them."""
    close_runtime()
    crowd = Crowd(0.05)

    async def shares(process, demands):
        return dict.fromkeys(demands, 2)

    with Server(crowd) as server:
        endpoint = {"base_url": server.url, "model": MODEL, "concurrency": 64}
        judges = Judges(judges=(Judge.model_validate({"endpoints": [endpoint]}),))
        runtime().share_limits(shares, "me", every=0.05)
        engine = RewardEngine([{"name": "CoreIntentMatch"}], judges=judges)
        rollouts = tuple(rollout_of("p", f"text {i}") for i in range(12))
        asyncio.run(engine.score_async([Group(id="g", rollouts=rollouts)], 0))
        assert len(server.completions) == 12
    assert crowd.most == 2
    close_runtime()


def test_a_process_whose_own_ceiling_rises_gets_it_at_once():
    shares = LimitShares()
    granted = [shares.report("a", {NAME: Demand(ceiling, 100, 0)})[NAME] for ceiling in (4, 64)]
    assert granted == [4, 64]
