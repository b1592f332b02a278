"""Who belongs together when callers leave, come late, or send another text under the same name. Without HTTP."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from rubrank import InvalidInput, Rollout
from rubrank.service.cohorts import Cohorts, GroupWork, SampleAnswer, ServiceSample
from rubrank.service.store import ServiceStore


def sample(text, *, name=None, size=4, rubric=None, key=b"key"):
    rollout = Rollout(prompt="p", response=text)
    member = text if name is None else name
    return ServiceSample(key, member.encode(), name is not None, rollout, size, "0/g", rubric)


@asynccontextmanager
async def gathered(tmp_path, deadline=0.1):
    store = ServiceStore(tmp_path / "service.sqlite")
    counts = Counter()
    cohorts = Cohorts(store, deadline=deadline, keep=60.0, on_event=lambda name: counts.update([name]))
    cohorts.counts = counts
    yield cohorts
    cohorts.close(RuntimeError("the end"))
    store.close()


async def caller(cohorts, one, before=None):
    """What a caller of the service does: enter, be judged, wait, and score the group if asked to."""
    found = await cohorts.add_sample(one)
    if isinstance(found, SampleAnswer):
        return found
    if before is not None:
        await before.wait()
    work = await cohorts.wait_for_siblings(found, None)
    if isinstance(work, SampleAnswer):
        return work
    number = len(work.group.rollouts)
    late = work.late
    answers = [
        SampleAnswer(float(i), float(i), work.group.id, number, work.size, {}, {}, late=late) for i in range(number)
    ]
    await cohorts.publish_answers(work.caller_id, answers)
    return answers[found.number]


def run(main, seconds=10):
    return asyncio.run(asyncio.wait_for(main(), seconds))


def test_two_late_ones_at_the_same_time_are_both_scored_within_the_whole_group(tmp_path):
    async def main():
        async with gathered(tmp_path) as cohorts:
            await asyncio.gather(caller(cohorts, sample("a")), caller(cohorts, sample("b")))
            judged = asyncio.Event()
            late = [asyncio.create_task(caller(cohorts, sample(text), judged)) for text in "cd"]
            await asyncio.sleep(0.05)
            judged.set()
            return await asyncio.gather(*late)

    found = run(main)
    assert [(one.reward, one.samples, one.late) for one in found] == [(2.0, 4, True), (3.0, 4, True)]


def test_one_that_comes_while_its_group_is_scored_is_scored_after_it(tmp_path):
    async def main():
        async with gathered(tmp_path) as cohorts:
            tickets = [await cohorts.add_sample(sample(text, size=3)) for text in "ab"]
            waiting = [asyncio.create_task(cohorts.wait_for_siblings(ticket, None)) for ticket in tickets]
            await asyncio.sleep(0.3)
            work = next(task.result() for task in waiting if task.done())
            assert isinstance(work, GroupWork)
            late = asyncio.create_task(caller(cohorts, sample("c", size=3)))
            await asyncio.sleep(0.05)
            await cohorts.publish_answers(work.caller_id, [SampleAnswer(0.0, 0.0, "g", 2, 3, {}, {})] * 2)
            return await late

    assert run(main).samples == 3


def test_samples_whose_callers_are_gone_hold_nobody_up(tmp_path):
    """A trainer dies amid a step, and the next one samples other texts for the same prompt."""

    async def main():
        async with gathered(tmp_path, deadline=0.2) as cohorts:
            await cohorts.remove_caller(await cohorts.add_sample(sample("old")))
            await asyncio.sleep(0.4)
            return await asyncio.gather(*(caller(cohorts, sample(text)) for text in "abc"))

    assert [one.samples for one in run(main)] == [4, 4, 4]


def test_nor_do_they_if_the_deadline_passes_again(tmp_path):
    async def main():
        async with gathered(tmp_path, deadline=0.2) as cohorts:
            await cohorts.remove_caller(await cohorts.add_sample(sample("old")))
            await asyncio.sleep(0.4)
            return await caller(cohorts, sample("a"))

    found = run(main)
    assert found.samples == 2
    assert not found.late


def test_late_ones_are_scored_when_all_others_have_left(tmp_path):
    async def main():
        async with gathered(tmp_path, deadline=0.1) as cohorts:
            first = await cohorts.add_sample(sample("a"))  # it is being judged when the deadline passes
            await asyncio.sleep(0.2)
            late = asyncio.create_task(caller(cohorts, sample("b")))
            await asyncio.sleep(0.05)
            await cohorts.remove_caller(first)
            return await late

    assert run(main).samples == 2


def test_late_ones_hear_of_a_scoring_that_failed(tmp_path):
    async def main():
        async with gathered(tmp_path, deadline=0.1) as cohorts:
            ticket = await cohorts.add_sample(sample("a"))
            work = await cohorts.wait_for_siblings(ticket, None)
            late = asyncio.create_task(caller(cohorts, sample("b")))
            await asyncio.sleep(0.05)
            await cohorts.report_failure(work.caller_id, RuntimeError("judges fail"))
            with pytest.raises(RuntimeError, match="judges fail"):
                await late

    run(main)


def test_groups_are_counted_when_they_are_scored(tmp_path):
    async def main():
        async with gathered(tmp_path, deadline=0.1) as cohorts:
            await cohorts.remove_caller(await cohorts.add_sample(sample("old", size=2)))
            await asyncio.sleep(0.2)
            await caller(cohorts, sample("a", size=2))
            return dict(cohorts.counts)

    counts = run(main)
    assert (counts.get("complete", 0), counts.get("short", 0)) == (1, 0)


async def named(cohorts, texts, size=None):
    every = [sample(text, name=str(i), size=size or len(texts)) for i, text in enumerate(texts)]
    return await asyncio.gather(*(caller(cohorts, one) for one in every))


def test_another_text_under_a_name_that_was_answered_is_a_new_group(tmp_path):
    async def main():
        async with gathered(tmp_path) as cohorts:
            first = await named(cohorts, ["a", "b", "c"])
            again = await named(cohorts, ["a", "b", "c"])
            second = await named(cohorts, ["x", "y", "z"])
            return first, again, second

    first, again, second = run(main)
    assert [one.repeated for one in first] == [False] * 3
    assert all(one.repeated for one in again)
    assert [(one.samples, one.repeated) for one in second] == [(3, False)] * 3


def test_after_a_restart_names_are_known_by_their_texts(tmp_path):
    async def main():
        async with gathered(tmp_path) as cohorts:
            await named(cohorts, ["a", "b"])
        async with gathered(tmp_path) as cohorts:
            return await named(cohorts, ["a", "b"]), await named(cohorts, ["x", "y"])

    again, second = run(main)
    assert [one.repeated for one in again] == [True, True]
    assert [(one.samples, one.repeated) for one in second] == [(2, False)] * 2


def test_two_texts_under_one_name_at_the_same_time_are_refused(tmp_path):
    async def main():
        async with gathered(tmp_path) as cohorts:
            await cohorts.add_sample(sample("a", name="0"))
            with pytest.raises(InvalidInput, match="sample_id"):
                await cohorts.add_sample(sample("b", name="0"))

    run(main)


def test_a_name_whose_caller_is_gone_may_be_used_again(tmp_path):
    async def main():
        async with gathered(tmp_path) as cohorts:
            await cohorts.remove_caller(await cohorts.add_sample(sample("old", name="0", size=2)))
            return await named(cohorts, ["a", "b"])

    assert [one.samples for one in run(main)] == [2, 2]


def test_siblings_have_the_same_rubric(tmp_path):
    async def main():
        async with gathered(tmp_path) as cohorts:
            await cohorts.add_sample(sample("a", rubric=["EmptyAnswer"]))
            with pytest.raises(InvalidInput, match="rubric"):
                await cohorts.add_sample(sample("b", rubric=["Refusal"]))

    run(main)


def test_siblings_have_the_same_prompt(tmp_path):
    """Two trainers that number their groups alike must not have their samples ranked against each other."""

    async def main():
        async with gathered(tmp_path) as cohorts:
            await cohorts.add_sample(sample("a", name="0"))
            other = replace(sample("b", name="1"), rollout=Rollout(prompt="another", response="b"))
            with pytest.raises(InvalidInput, match="prompt"):
                await cohorts.add_sample(other)

    run(main)


def test_an_answer_for_one_prompt_is_not_given_for_another(tmp_path):
    """Two trainers that number groups and samples alike, whose policies write the same text."""

    async def main():
        async with gathered(tmp_path) as cohorts:
            first = await caller(cohorts, sample("Yes.", name="0", size=1))
            other = replace(sample("Yes.", name="0", size=1), rollout=Rollout(prompt="another", response="Yes."))
            second = await caller(cohorts, other)
            again = await caller(cohorts, other)
            return first, second, again

    first, second, again = run(main)
    assert not second.repeated
    assert first.group != second.group
    assert again.repeated
    assert again.group == second.group


async def scored_pair(cohorts):
    """A group of three that was scored with the two samples that came in time."""
    await asyncio.gather(caller(cohorts, sample("a", size=3)), caller(cohorts, sample("b", size=3)))


def test_a_late_sample_that_calls_again_unanswered_stays_in_its_group(tmp_path):
    async def main():
        async with gathered(tmp_path) as cohorts:
            await scored_pair(cohorts)
            await cohorts.remove_caller(await cohorts.add_sample(sample("c", size=3)))
            return await caller(cohorts, sample("c", size=3))

    found = run(main)
    assert (found.reward, found.samples, found.late) == (2.0, 3, True)


def test_a_late_sample_is_answered_although_its_caller_left_while_scoring(tmp_path):
    async def main():
        async with gathered(tmp_path) as cohorts:
            await scored_pair(cohorts)
            ticket = await cohorts.add_sample(sample("c", size=3))
            work = await cohorts.wait_for_siblings(ticket, None)
            await cohorts.remove_caller(ticket)
            await cohorts.publish_answers(work.caller_id, [SampleAnswer(7.0, 7.0, "g", 3, 3, {}, {})] * 3)
            assert cohorts.waiting == 0
            return await cohorts.add_sample(sample("c", size=3))

    found = run(main)
    assert (found.reward, found.repeated) == (7.0, True)


def test_a_late_sample_that_calls_again_while_its_group_is_scored_is_answered(tmp_path):
    async def main():
        async with gathered(tmp_path) as cohorts:
            tickets = [await cohorts.add_sample(sample(text, size=3)) for text in "ab"]
            waiting = [asyncio.create_task(cohorts.wait_for_siblings(ticket, None)) for ticket in tickets]
            await asyncio.sleep(0.3)
            work = next(task.result() for task in waiting if task.done())
            await cohorts.remove_caller(await cohorts.add_sample(sample("c", size=3)))
            again = asyncio.create_task(caller(cohorts, sample("c", size=3)))
            await asyncio.sleep(0.05)
            await cohorts.publish_answers(work.caller_id, [SampleAnswer(0.0, 0.0, "g", 2, 3, {}, {})] * 2)
            return await again

    found = run(main)
    assert (found.reward, found.samples, found.late) == (2.0, 3, True)


def test_two_calls_of_one_late_sample_get_one_answer(tmp_path):
    async def main():
        async with gathered(tmp_path) as cohorts:
            await scored_pair(cohorts)
            judged = asyncio.Event()
            calls = [asyncio.create_task(caller(cohorts, sample("c", name="third", size=3), judged)) for _ in range(2)]
            await asyncio.sleep(0.05)
            judged.set()
            return await asyncio.gather(*calls), cohorts.waiting

    found, waiting = run(main)
    assert [(one.reward, one.samples, one.late) for one in found] == [(2.0, 3, True)] * 2
    assert waiting == 0
