import asyncio
import signal
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scripted import CRITERION, LOST, Scripted, Slow, group, judge, names, said

import rubrank.judges.step
from rubrank.errors import JudgingFailed
from rubrank.judges.judge import Call, Endpoint, Judge, Judges, Reply
from rubrank.judges.judgments import Judgments
from rubrank.judges.step import judge_groups
from rubrank.rollouts.rollout import Group
from rubrank.rubrics.rubric import Criterion

KIND = Criterion(name="Kind", question="Is it kind?")
MAIN = Judges(judges=(judge(),))


def run(groups: Sequence[Group], asker: Any, judges: Judges = MAIN, criteria: Any = (CRITERION,)) -> Judgments:
    asker_of = asker if callable(asker) else lambda _: asker
    wanted = [np.ones((len(one.rollouts), len(criteria)), dtype=bool) for one in groups]
    return judge_groups(groups, [criteria] * len(groups), wanted, judges, asker_of=asker_of)


def test_questions_are_started_as_others_end() -> None:
    endpoint = Endpoint(base_url="http://localhost:1/v1", model="m", concurrency=50)
    asker = Slow(0.01)
    groups = [group("a", "b", id=f"q{i}") for i in range(400)]
    judgments = run(groups, asker, Judges(judges=(Judge(endpoints=(endpoint,)),)))
    assert judgments.asked == asker.asked == 800
    assert 100 <= asker.most <= 102  # twice the concurrency, and no more than a group above it


@pytest.mark.parametrize("factor", [0, 100])
def test_a_kind_that_counts_wrongly_only_starts_more_or_less_ahead(monkeypatch: Any, factor: int) -> None:
    monkeypatch.setattr(rubrank.judges.step, "count_calls", lambda question, judge: factor)
    asker = Slow(0.0)
    assert run([group("a", "b", id=f"q{i}") for i in range(200)], asker).lost == 0
    assert asker.asked == 400


def test_a_slow_judge_does_not_hold_back_another() -> None:
    judges = Judges(judges=(judge(name="slow", criteria=("Clear",)), judge(name="quick", criteria=("Kind",))))
    answered = 0

    class Quick(Scripted):
        async def ask(self, call: Call) -> Reply:
            nonlocal answered
            answered += 1
            return await super().ask(call)

    class WaitsForAllOthers(Scripted):
        async def ask(self, call: Call) -> Reply:
            async with asyncio.timeout(30.0):
                while answered < 300:
                    await asyncio.sleep(0.01)
            return await super().ask(call)

    askers = {"slow": WaitsForAllOthers(lambda shown: said(1)), "quick": Quick(lambda shown: said(1))}
    groups = [group("a", id=f"q{i}") for i in range(300)]
    assert run(groups, lambda who: askers[who.name], judges, (CRITERION, KIND)).lost == 0


def test_an_error_of_our_own_ends_the_step_as_it_is() -> None:
    def fail(number: int) -> None:
        if number == 5:
            raise OSError("disk full")

    asker = Slow(60.0, fail)
    with pytest.raises(OSError, match="disk full"):
        run([group(*names(8))], asker)
    assert asker.waiting == 0


def test_interrupt_cancels_what_is_under_way() -> None:
    def interrupt(number: int) -> None:
        if number == 4:
            signal.raise_signal(signal.SIGINT)

    asker = Slow(60.0, interrupt)
    with pytest.raises(KeyboardInterrupt):
        run([group(*names(4), id=f"q{i}") for i in range(3)], asker)
    assert asker.waiting == 0
    assert asker.cancelled >= 3


def test_within_a_running_loop() -> None:
    """As in a notebook, or in a reward function that an asynchronous trainer calls."""

    async def trainer() -> Judgments:
        loop = asyncio.get_event_loop()
        judgments = run([group("a", "b")], Slow(0.01))
        assert asyncio.get_event_loop() is loop
        await asyncio.sleep(0)
        return judgments

    assert asyncio.run(trainer()).asked == 2


def test_errors_within_a_running_loop() -> None:
    async def trainer() -> None:
        run([group("a")], Scripted(lambda shown: LOST), Judges(judges=MAIN.judges, most_missing=0.0))

    with pytest.raises(JudgingFailed):
        asyncio.run(trainer())


def test_interrupt_within_a_running_loop() -> None:
    """The signal reaches the caller's thread; what is under way in the other one is cancelled, and waited for."""
    main = threading.main_thread().ident
    assert main is not None

    def interrupt(number: int) -> None:
        if number == 2:
            threading.Timer(0.1, lambda: signal.pthread_kill(main, signal.SIGINT)).start()

    asker = Slow(60.0, interrupt)

    async def notebook() -> None:
        with pytest.raises(KeyboardInterrupt):
            run([group("a", "b")], asker)

    loop = asyncio.new_event_loop()  # asyncio.run would handle the signal itself
    try:
        loop.run_until_complete(notebook())
    finally:
        loop.close()
    assert (asker.asked, asker.cancelled, asker.waiting) == (2, 2, 0)


def test_from_several_threads() -> None:
    results: list[int] = []

    def work() -> None:
        results.append(run([group("a", "b")], Slow(0.01)).asked)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [2] * 4
