"""Samples that come one at a time, too late, twice, or never."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest
from judged import judges_at

from rubrank.errors import InvalidInput
from rubrank.judges.client.usage import Account
from rubrank.judges.judge import Judgment
from rubrank.judges.judgments import Judgments
from rubrank.records.files import read_records
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.scores.table import GroupScores
from rubrank.training.barrier import Barrier, merge_rollouts
from rubrank.training.engine import Graded, RewardEngine, StepRewards

RUBRIC = [{"name": "WordCount", "params": {"low": 3}}, {"name": "Keyword", "params": {"keywords": ["moon"]}}]
SAID = ["the moon is far", "moon", "the sea is wide", "x"]


def rollout(text: str) -> Rollout:
    return Rollout(prompt="p", response=text)


def expected(*said: str) -> list[float]:
    group = Group(id="g", rollouts=tuple(map(rollout, said)))
    return RewardEngine(RUBRIC).score([group], 0).flat()


def run(main: Any) -> Any:
    return asyncio.run(asyncio.wait_for(main, 30))


async def send(barrier: Barrier, key: str, said: list[str], **given: Any) -> list[float]:
    calls = [barrier.reward(key, rollout(text), step=0, member=i, **given) for i, text in enumerate(said)]
    return list(await asyncio.gather(*calls))


def test_a_group_is_scored_when_it_is_complete():
    async def main() -> None:
        barrier = Barrier(RewardEngine(RUBRIC), 4)
        found = await asyncio.gather(send(barrier, "a", SAID), send(barrier, "b", SAID[::-1]))
        assert found[0] == pytest.approx(expected(*SAID))
        assert found[1] == pytest.approx(expected(*SAID)[::-1])
        assert barrier.counts == {"complete": 2}

    run(main())


def test_nobody_is_answered_before():
    async def main() -> None:
        barrier = Barrier(RewardEngine(RUBRIC), 2)
        first = asyncio.create_task(barrier.reward("a", rollout("moon"), step=0))
        await asyncio.sleep(0.05)
        assert not first.done()
        assert await barrier.reward("a", rollout("x"), step=0) == 0.0
        assert await first == 1.0

    run(main())


def test_lost_siblings_do_not_hold_up_the_others():
    async def main() -> None:
        barrier = Barrier(RewardEngine(RUBRIC), 4, timeout=0.05)
        assert await send(barrier, "a", SAID[:3]) == pytest.approx(expected(*SAID[:3]))
        assert barrier.counts == {"short": 1}

    run(main())


def test_a_late_one_is_scored_within_the_whole_group(tmp_path):
    async def main() -> None:
        engine = RewardEngine(RUBRIC, "amrp", records=tmp_path / "records.jsonl")
        barrier = Barrier(engine, 4, timeout=0.05)
        early = await send(barrier, "a", SAID[:3])
        learnt = engine.state_dict()
        late = await barrier.reward("a", rollout(SAID[3]), step=0, member=3)
        assert engine.state_dict() == learnt
        assert await send(barrier, "a", SAID[:3]) == early  # repeated calls: what was handed out stays
        assert late == 0.0
        assert barrier.counts == {"short": 1, "late": 1, "repeated": 3}
        assert len(list(read_records(engine.records))) == 1

    run(main())


def test_a_late_one_has_the_reward_that_it_would_have_had():
    async def main() -> None:
        barrier = Barrier(RewardEngine(RUBRIC), 4, timeout=0.05)
        await send(barrier, "a", SAID[1:])
        late = await barrier.reward("a", rollout(SAID[0]), step=0, member="late")
        assert late == pytest.approx(expected(*SAID)[0])

    run(main())


def test_repeated_calls_are_counted_once():
    async def main() -> None:
        barrier = Barrier(RewardEngine(RUBRIC), 2)
        calls = [
            barrier.reward("a", rollout(text), step=0, member=m) for text, m in (("moon", 0), ("moon", 0), ("x", 1))
        ]
        assert await asyncio.gather(*calls) == [1.0, 1.0, 0.0]
        assert barrier.counts == {"complete": 1, "repeated": 1}

    run(main())


def test_calls_without_a_name_are_all_different():
    async def main() -> None:
        barrier = Barrier(RewardEngine(RUBRIC), 2)
        same = [barrier.reward("a", rollout("moon"), step=0) for _ in range(2)]
        assert await asyncio.gather(*same) == [0.5, 0.5]

    run(main())


def test_another_number_in_validation():
    async def main() -> None:
        engine = RewardEngine(RUBRIC, "amrp")
        barrier = Barrier(engine, 8)
        assert len(await send(barrier, "val", SAID[:2], size=2, train=False)) == 2
        untaught = RewardEngine(RUBRIC, "amrp").state_dict()
        assert engine.state_dict()["memory"] == untaught["memory"]  # nothing was learnt
        waiting = asyncio.create_task(barrier.reward("a", rollout("x"), step=0))
        await asyncio.sleep(0)
        with pytest.raises(InvalidInput, match="8 for all samples of a group; got 2"):
            await barrier.reward("a", rollout("y"), step=0, size=2)
        waiting.cancel()

    run(main())


def test_a_key_that_comes_back_begins_a_new_group():
    async def main() -> None:
        barrier = Barrier(RewardEngine(RUBRIC), 2)
        for said, rewards in ((["moon", "x"], [1.0, 0.0]), (["x", "moon"], [0.0, 1.0])):
            calls = [barrier.reward("a", rollout(text), step=0) for text in said]
            assert await asyncio.gather(*calls) == rewards
        assert barrier.counts == {"complete": 2}

    run(main())


def test_groups_are_forgotten_in_the_end():
    async def main() -> None:
        barrier = Barrier(RewardEngine(RUBRIC), 2, keep=0.01)
        assert await send(barrier, "a", ["moon", "x"]) == [1.0, 0.0]
        await asyncio.sleep(0.05)
        assert await send(barrier, "a", ["x", "moon"]) == [0.0, 1.0]  # the same members, and no repetition

    run(main())


def test_a_failure_reaches_all_and_the_group_may_be_tried_again():
    class Failing(RewardEngine):
        fails = True

        def fuse(self, *args: Any, **given: Any) -> StepRewards:
            if self.fails:
                raise OSError("disk full")
            return super().fuse(*args, **given)

    async def main() -> None:
        engine = Failing(RUBRIC)
        barrier = Barrier(engine, 2)
        calls = [barrier.reward("a", rollout(text), step=0, member=text) for text in ("moon", "x")]
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert [str(error) for error in found] == ["disk full"] * 2
        engine.fails = False
        calls = [barrier.reward("a", rollout(text), step=0, member=text) for text in ("moon", "x")]
        assert await asyncio.gather(*calls) == [1.0, 0.0]

    run(main())


def test_the_failure_of_a_late_one_does_not_reach_those_that_were_on_time():
    may_go_on = threading.Event()

    class FailingLate(RewardEngine):
        def fuse(self, *args: Any, write: bool = True, **given: Any) -> StepRewards:
            if not write:
                raise OSError("disk full")
            assert may_go_on.wait(20)
            return super().fuse(*args, write=write, **given)

    async def main() -> None:
        barrier = Barrier(FailingLate(RUBRIC), 4, timeout=0.05)
        on_time = asyncio.create_task(send(barrier, "a", SAID[:3]))
        while not barrier.counts["short"]:
            await asyncio.sleep(0.01)
        try:
            with pytest.raises(OSError, match="disk full"):
                await barrier.reward("a", rollout(SAID[3]), step=0, member=3)
            assert not on_time.done()
        finally:
            may_go_on.set()
        assert await on_time == pytest.approx(expected(*SAID[:3]))

    run(main())


def test_cancelled_grading_ends_the_waiting():
    class Cancelled(RewardEngine):
        cancels = True

        async def ask(self, *args: Any, **given: Any) -> Graded:
            if self.cancels:
                raise asyncio.CancelledError
            return await super().ask(*args, **given)

    async def main() -> None:
        engine = Cancelled(RUBRIC)
        barrier = Barrier(engine, 2)
        calls = [asyncio.create_task(barrier.reward("a", rollout(text), step=0, member=text)) for text in ("moon", "x")]
        await asyncio.wait(calls, timeout=5)
        assert [call.cancelled() for call in calls] == [True, True]
        engine.cancels = False
        calls = [asyncio.create_task(barrier.reward("a", rollout(text), step=0, member=text)) for text in ("moon", "x")]
        assert await asyncio.gather(*calls) == [1.0, 0.0]

    run(main())


def test_who_gives_up_waiting_does_not_take_the_others_along():
    async def main() -> None:
        barrier = Barrier(RewardEngine(RUBRIC), 2)
        first = asyncio.create_task(barrier.reward("a", rollout("moon"), step=0))
        await asyncio.sleep(0)
        first.cancel()
        assert await barrier.reward("a", rollout("x"), step=0) == 0.0
        assert barrier.counts == {"complete": 1}

    run(main())


def test_groups_bring_rubrics_and_are_reported():
    async def main() -> None:
        seen: list[StepRewards] = []
        barrier = Barrier(RewardEngine(), 2, report=seen.append)
        own = [{"name": "Short", "verifier": "WordCount", "params": {"high": 1}}]
        assert await send(barrier, "a", ["one two", "one"], rubric=own) == [0.0, 1.0]
        assert [step.metrics["rubrank/score/own"] for step in seen] == [0.5]

    run(main())


@pytest.mark.parametrize("given", [{"size": 0}, {"timeout": 0}, {"keep": -1}])
def test_what_a_barrier_needs(given):
    with pytest.raises(InvalidInput, match="must be > 0"):
        Barrier(RewardEngine(RUBRIC), **{"size": 2, **given})


def test_another_response_under_a_known_name_never_gets_the_old_reward():
    async def main() -> None:
        barrier = Barrier(RewardEngine(RUBRIC), 2)
        assert await send(barrier, "a", ["the moon is far", "x"]) == [1.0, 0.0]
        assert await send(barrier, "a", ["x", "the moon is far"]) == [0.0, 1.0]  # the query comes back in a later step
        assert barrier.counts == {"complete": 2}
        first = asyncio.create_task(barrier.reward("b", rollout("moon"), step=0, member=0))
        await asyncio.sleep(0.01)
        with pytest.raises(InvalidInput, match="member 0 of 'b' must be the only one"):
            await barrier.reward("b", rollout("sea"), step=0, member=0)
        assert await barrier.reward("b", rollout("x"), step=0, member=1) == 0.0
        assert await first == 1.0

    run(main())


def test_the_disagreement_of_a_panel_is_the_mean_over_the_rollouts():
    """Judges that score single rollouts are asked about each by itself, and the last one does not stand for all."""
    engine = RewardEngine([{"name": "Tone", "description": "Is it kind?"}], judges=judges_at("http://localhost:9"))
    (criterion,) = engine.decide([Group(id="g", rollouts=(rollout("moon"),))]).groups[0].criteria
    parts = []
    for distance in (0.5, 0.0, 0.25):
        scores = GroupScores("g", (criterion,), np.array([[1.0]]), (("kind",),))
        judgment = Judgment(asked=1, disagreement={"Tone": distance})
        parts.append(Graded((scores,), Judgments((judgment,), Account(), ("g",))))
    group = Group(id="g", rollouts=tuple(map(rollout, SAID[:3])))
    graded = run(merge_rollouts(engine, group, parts))
    assert graded.judging is not None
    assert graded.judging.disagreement == {"Tone": pytest.approx(0.25)}
    assert graded.judging.asked == 3
