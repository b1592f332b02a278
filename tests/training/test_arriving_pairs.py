"""Judges that compare two, asked as rollouts come: the same rewards and calls as for a group that came whole."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from judges.scripted import shown_in
from judges.server import Answer, Server

import rubrank.judges.client.runtime as askers
from rubrank.judges.judge import Call, Endpoint, Judge, Judges, Reply, Usage
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.training.barrier import ArrivingGroup, Barrier
from rubrank.training.engine import Graded, RewardEngine, StepRewards

RUBRIC = ["EmptyAnswer", {"name": "Clear", "question": "Is it clear?"}]
NAMES = [f"r{i}" for i in range(8)]


class Better:
    """r0 is best, then r1 …; notes which answers each call showed."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, ...]] = []
        self.delay = 0.0

    async def ask(self, call: Call) -> Reply:
        shown = tuple(shown_in(call))
        self.shown.append(shown)
        await asyncio.sleep(self.delay)
        return Reply(verdict(shown), usage=Usage(100, 20, 0, 0.01))

    def take(self) -> list[tuple[str, ...]]:
        taken, self.shown = self.shown, []
        return taken


def verdict(shown: Sequence[str]) -> str:
    if len(shown) == 1:
        return json.dumps({"reasoning": "so", "finding": "holds", "verdict": 1})
    if len(shown) > 2:
        ranks = {str(i): 1 + sorted(shown).index(one) for i, one in enumerate(shown, 1)}
        return json.dumps({"reasoning": "so", "finding": [1], "verdict": ranks})
    best = "A" if shown[0] < shown[1] else "B"
    return json.dumps({"reasoning": "so", "finding": f"{best} is better", "verdict": best})


@pytest.fixture
def asker(monkeypatch: pytest.MonkeyPatch) -> Better:
    """Answers for all judges."""
    better, opened = Better(), askers.open_clients

    async def scripted(judges: Any, asking: Any, stack: Any, given: Any) -> Any:
        return await opened(judges, asking, stack, lambda leaf: better)

    monkeypatch.setattr(askers, "open_clients", scripted)
    return better


def judged(
    kind: str = "pairwise", url: str = "http://localhost:1/v1", cache: str | None = None, **given: Any
) -> Judges:
    judge = Judge(kind=kind, endpoints=(Endpoint(base_url=url, model="test-model"),), **given)
    return Judges(judges=(judge,), cache=cache)


def said(text: str) -> Rollout:
    return Rollout(prompt="Say something.", response=f"zq-{text}-qz" if text else "")


def whole(engine: RewardEngine, texts: Sequence[str]) -> list[float]:
    return engine.score([Group(id="q", rollouts=tuple(map(said, texts)))], 0).flat()


async def one_by_one(engine: RewardEngine, texts: Sequence[str], order: Sequence[int], size: int) -> list[float]:
    """The rewards of those that came, in the order of their places."""
    early = ArrivingGroup(engine, "q", None, size=size)
    for member in order:
        early.add(member, said(texts[member]))
        await asyncio.sleep(0)
    members = early.sort_members(order)
    graded = await early.finish(members)
    engine.check_judgments(graded)
    group = Group(id="q", rollouts=tuple(said(texts[member]) for member in sorted(order)))
    return engine.fuse([group], graded, 0).flat()


def run(main: Any) -> Any:
    return asyncio.run(asyncio.wait_for(main, 30))


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[str], list[int], dict[str, Any]]:
    """Answers, some of them the same or empty (which a gate stops); the order of arrival; a judge."""
    size = draw(st.integers(2, 6))
    texts = draw(st.lists(st.sampled_from([*NAMES[:5], ""]), min_size=size, max_size=size))
    budget = draw(st.one_of(st.none(), st.integers(1, 10)))
    return texts, draw(st.permutations(range(size))), {"pairs": budget, "both_orders": draw(st.booleans())}


@given(cases())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_rewards_and_calls_are_those_of_the_whole_group(asker: Better, case: Any) -> None:
    texts, order, given = case
    asker.take()
    engine = RewardEngine(RUBRIC, judges=judged(**given))
    expected, calls = whole(engine, texts), Counter(asker.take())
    found = run(one_by_one(engine, texts, order, len(texts)))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert Counter(asker.take()) == calls
    assert max(calls.values(), default=1) == 1


async def until(there: Callable[[], bool]) -> None:
    while not there():
        await asyncio.sleep(0.002)


def test_pairs_are_asked_for_before_the_last_rollout_comes(asker: Better) -> None:
    async def main() -> Graded:
        early = ArrivingGroup(RewardEngine(RUBRIC, judges=judged()), "q", None, size=4)
        for member in (2, 0, 3):
            early.add(member, said(NAMES[member]))
        await until(lambda: len(asker.shown) == 6)
        assert {frozenset(pair) for pair in asker.take()} == {
            frozenset(p) for p in (("r0", "r2"), ("r0", "r3"), ("r2", "r3"))
        }
        early.add(1, said("r1"))
        graded = await early.finish(range(4))
        assert len(asker.shown) == 6
        assert all("r1" in pair for pair in asker.shown)
        return graded

    graded = run(main())
    assert graded.judging is not None
    assert graded.judging.account.calls == 12
    assert graded.judging.account.hits == 0
    assert (graded.judging.asked, graded.judging.lost) == (6, 0)


def test_what_passed_while_siblings_were_generated_is_hidden(asker: Better, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))  # one second passes from each look at the clock to the next
    monkeypatch.setattr("rubrank.training.barrier.time", SimpleNamespace(perf_counter=lambda: next(clock)))

    async def main(waits: bool) -> Graded:
        early = ArrivingGroup(RewardEngine(RUBRIC, judges=judged()), "q", None, size=2)
        early.add(0, said("r0"))
        early.add(1, said("r1"))
        if waits:
            await until(lambda: len(asker.shown) == 2)
        return await early.finish(range(2))

    # Nothing is judged before the group is complete: all of it is waited for.
    graded = run(main(waits=False))
    assert graded.hidden == 0.0
    assert graded.seconds > 0.0
    asker.take()
    # Both rollouts, and the pair of them, are under way before the group is complete.
    graded = run(main(waits=True))
    assert graded.hidden > 0.0


def test_judges_that_rank_lists_wait_for_the_group(asker: Better) -> None:
    async def main() -> None:
        engine = RewardEngine(RUBRIC, judges=judged("listwise"))
        early = ArrivingGroup(engine, "q", None, size=3)
        for member in range(2):
            early.add(member, said(NAMES[member]))
        await asyncio.sleep(0.1)  # long enough to grade both
        assert asker.shown == []
        early.add(2, said("r2"))
        await early.finish(range(3))
        assert [sorted(shown) for shown in asker.shown] == [["r0", "r1", "r2"]]

    run(main())


def test_comparisons_do_not_wait_for_judges_that_score_unless_these_decide_a_gate(asker: Better) -> None:
    who = (Endpoint(base_url="http://localhost:1/v1", model="test-model"),)
    kinds = (
        Judge(name="c", kind="pairwise", criteria=("Clear",), endpoints=who),
        Judge(name="a", kind="absolute", endpoints=who),
    )

    async def first(layer: str) -> list[int]:
        rubric = [*RUBRIC, {"name": "Safe", "question": "Is it safe?", "layer": layer}]
        early = ArrivingGroup(RewardEngine(rubric, judges=Judges(judges=kinds)), "q", None, size=2)
        for member in range(2):
            early.add(member, said(NAMES[member]))
        await early.finish(range(2))
        return [len(shown) for shown in asker.take()]

    asker.delay = 0.02
    assert run(first("global_quality")) == [1, 1, 2, 2]
    assert sorted(run(first("quality"))) == [1, 1, 2, 2]


def test_a_rollout_that_never_comes(asker: Better) -> None:
    told: list[StepRewards] = []

    async def main() -> list[float]:
        engine = RewardEngine(RUBRIC, judges=judged(pairs=7))
        barrier = Barrier(engine, 8, timeout=0.1, report=told.append)
        calls = [barrier.reward("a", said(NAMES[i]), step=0, member=i) for i in (6, 1, 4, 3, 0)]
        rewards = list(await asyncio.gather(*calls))
        assert barrier.counts == {"short": 1}
        return rewards

    rewards = run(main())
    pairs = {frozenset(shown) for shown in asker.shown}
    assert len(asker.shown) == 2 * len(pairs) == 14
    part = {name: {name} for name in ("r0", "r1", "r3", "r4", "r6")}
    for pair in pairs:
        joined = set().union(*(part[name] for name in pair))
        part |= dict.fromkeys(joined, joined)
    assert set(map(len, part.values())) == {5}
    assert sorted(rewards, reverse=True) == [rewards[i] for i in (4, 1, 3, 2, 0)]
    assert told[0].metrics["rubrank/groups/incomplete"] == 1.0


def test_a_late_one_pays_for_its_own_pairs_only(asker: Better) -> None:
    async def main() -> None:
        engine = RewardEngine(RUBRIC, judges=judged())
        expected = (whole(engine, NAMES[:3]), asker.take())[0][1]
        barrier = Barrier(engine, 3, timeout=0.05)
        await asyncio.gather(*(barrier.reward("a", said(NAMES[i]), step=0, member=i) for i in (2, 0)))
        assert len(asker.take()) == 2
        assert await barrier.reward("a", said("r1"), step=0, member=1) == expected
        assert len(asker.shown) == 4
        assert all("r1" in shown for shown in asker.shown)

    run(main())


def test_a_failure_of_a_judge_is_missing_as_in_the_whole_group(asker: Better, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost(call: Call) -> Reply:
        asker.shown.append(tuple(shown_in(call)))
        return Reply(None, "timeout after 1 s") if "r0" in shown_in(call) else Reply(verdict(shown_in(call)))

    monkeypatch.setattr(asker, "ask", lost)

    async def main() -> Graded:
        early = ArrivingGroup(RewardEngine(RUBRIC, judges=judged()), "q", None, size=3)
        for member in range(3):
            early.add(member, said(NAMES[member]))
        return await early.finish(range(3))

    graded = run(main())
    assert len(asker.shown) == len(set(asker.shown)) == 6
    assert graded.judging is not None
    assert (graded.judging.asked, graded.judging.lost) == (3, 2)
    assert np.isnan(graded.groups[0].outcomes["Clear"][0]).all()


@pytest.mark.slow
def test_who_comes_in_another_order_the_next_time_is_not_paid_again(tmp_path: Any) -> None:
    def answer(asked: Any) -> Answer:
        return Answer(verdict(shown_in(Call(tuple(asked.body["messages"])))))

    with Server(answer) as server:
        given = {"url": server.url, "cache": str(tmp_path / "replies.sqlite"), "pairs": 5, "both_orders": False}
        engine, texts = RewardEngine(RUBRIC, judges=judged(**given)), ["r2", "r0", "r2", "r1", "r4"]
        first = run(one_by_one(engine, texts, [4, 2, 0, 1, 3], 5))
        paid = len(server.completions)
        second = run(one_by_one(engine, texts, [0, 3, 1, 2, 4], 5))
        assert second == first == whole(engine, texts)
        assert len(server.completions) == paid == 5


@pytest.mark.parametrize(("kind", "calls"), [("batched", 3), ("pairwise", 6)])  # three pairs, each in both orders
def test_a_late_rollout_adds_only_its_own_calls_to_the_totals_of_the_run(asker: Better, kind: str, calls: int) -> None:
    async def main() -> Any:
        barrier = Barrier(RewardEngine(RUBRIC, judges=judged(kind)), 3, timeout=0.1)
        on_time = [barrier.reward("q", said(NAMES[i]), step=0, member=i) for i in range(2)]
        await asyncio.gather(*on_time)
        return await barrier.score("q", said(NAMES[2]), step=0, member=2)

    late = run(main())
    assert len(asker.take()) == calls
    assert late.metrics["rubrank/judge/total_tokens"] == 120 * calls
    assert late.metrics["rubrank/judge/total_cost"] == pytest.approx(0.01 * calls)
