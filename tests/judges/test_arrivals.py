"""Which pairs may be asked for before a group is complete, and that nothing is asked twice."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import numpy as np
import pytest
from cases import examples
from hypothesis import given
from hypothesis import strategies as st
from judges.scripted import CRITERION, Scripted, judge, said

from rubrank.judges.design import choose_pairs, choose_pairs_among, make_seeded_random
from rubrank.judges.judge import Call, Judges, Reply
from rubrank.judges.kinds.comparisons import Arrivals, Memo
from rubrank.rollouts.rollout import Rollout
from rubrank.rubrics.rubric import Criterion

GATE = Criterion(name="Safe", question="Is it safe?", layer="global_quality")


def connected(edges: list[tuple[int, int]], n: int) -> bool:
    part = list(range(n))
    for i, j in edges:
        part = [part[i] if one == part[j] else one for one in part]
    return len(set(part)) <= 1


@st.composite
def arrivals(draw: st.DrawFn) -> tuple[int, int, list[int], int]:
    """Size, a budget that can connect all, the order of arrival, a seed."""
    size = draw(st.integers(2, 14))
    budget = draw(st.integers(size - 1, size * (size - 1) // 2))
    return size, budget, draw(st.permutations(range(size))), draw(st.integers(0, 99))


@given(arrivals())
@examples(60)
def test_whatever_is_fused_is_connected_and_nothing_asked_ahead_is_lost(given: Any) -> None:
    size, budget, order, seed = given
    design = choose_pairs(size, budget, make_seeded_random(seed))
    for there in range(2, size + 1):
        slots = order[:there]
        found = choose_pairs_among([(slot,) for slot in slots], size, budget, make_seeded_random(seed))
        assert len(found) == len(set(found)) == min(budget, there * (there - 1) // 2)
        assert connected(found, there)
        asked = {(min(i, j), max(i, j)) for i, j in ((slots[i], slots[j]) for i, j in found)}
        assert {pair for pair in design if set(pair) <= set(slots)} <= asked


def test_pairs_that_connect_come_first_where_the_budget_is_tight() -> None:
    """Those in the fewest pairs alone would not do: they may be apart from the others."""
    for seed, size in itertools.product(range(4), (7, 8)):
        for there in itertools.chain(*(itertools.combinations(range(size), k) for k in (size - 2, size - 1))):
            found = choose_pairs_among([(slot,) for slot in there], size, size - 1, make_seeded_random(seed))
            assert connected(found, len(there)), (seed, size, there)


@given(arrivals(), st.lists(st.integers(0, 4), min_size=14, max_size=14))
@examples(60)
def test_answers_that_are_the_same_are_in_the_pairs_of_all_their_places(given: Any, answers: list[int]) -> None:
    size, budget, _, seed = given
    by_answer: dict[int, list[int]] = {}
    for slot in range(size):
        by_answer.setdefault(answers[slot], []).append(slot)
    classes = list(by_answer.values())
    found = choose_pairs_among(classes, size, budget, make_seeded_random(seed))
    of = {slot: i for i, places in enumerate(classes) for slot in places}
    designed = {
        (min(of[i], of[j]), max(of[i], of[j]))
        for i, j in choose_pairs(size, budget, make_seeded_random(seed))
        if of[i] != of[j]
    }
    assert designed <= set(found)
    assert len(found) == len(set(found)) == min(budget, len(classes) * (len(classes) - 1) // 2)
    assert connected(found, len(classes))


@given(st.integers(2, 20), st.integers(1, 60), st.integers(0, 99))
@examples(40)
def test_with_everyone_there_it_is_the_design_itself(size: int, budget: int, seed: int) -> None:
    assert choose_pairs_among([(i,) for i in range(size)], size, budget, make_seeded_random(seed)) == choose_pairs(
        size, budget, make_seeded_random(seed)
    )


def rollout(number: int) -> Rollout:
    return Rollout(prompt="p", response=f"r{number}")


def asked_ahead(order: list[int], size: int | None, *criteria: Criterion, **given: Any) -> list[set[tuple[str, str]]]:
    """Answers of the pairs that each arrival makes possible."""
    judges = Judges(judges=(judge(kind="pairwise", **given),))
    some = Arrivals(judges, "q", criteria or (CRITERION,), size)
    wanted = np.ones(len(criteria) or 1, dtype=bool)
    made = [some.add(slot, rollout(slot), wanted) for slot in order]
    return [{tuple(one.response for one in group.rollouts) for group, _ in found} for found in made]


@given(arrivals())
@examples(30)
def test_the_same_pairs_are_asked_for_in_whatever_order_rollouts_come(given: Any) -> None:
    size, budget, order, seed = given
    found = asked_ahead(list(order), size, pairs=budget, seed=seed)
    designed = choose_pairs(size, budget, make_seeded_random(seed, "q", "Clear"))
    assert set().union(*found) == {(f"r{i}", f"r{j}") for i, j in designed}
    assert sum(map(len, found)) == len(designed)


def test_all_pairs_need_no_size_but_a_design_does() -> None:
    assert asked_ahead([2, 0, 1], None) == [set(), {("r0", "r2")}, {("r0", "r1"), ("r1", "r2")}]
    assert asked_ahead([2, 0, 1], None, pairs=2) == [set(), set(), set()]


def test_a_panel_whose_members_have_designs_of_their_own_waits() -> None:
    same = (judge(name="a", kind="pairwise"), judge(name="b", kind="pairwise"))
    other = (judge(name="a", kind="pairwise", seed=1), judge(name="b", kind="pairwise"))
    assert asked_ahead([0, 1], 2, members=same)[1] == {("r0", "r1")}
    assert asked_ahead([0, 1], 2, members=other)[1] == set()


@pytest.mark.parametrize("kind", ["listwise", "absolute", "batched"])
def test_other_kinds_have_nothing_to_ask_ahead(kind: str) -> None:
    assert not Arrivals(Judges(judges=(judge(kind=kind),)), "q", (CRITERION,), 4).has_early_pairs


def test_a_gate_about_the_whole_group_makes_all_wait() -> None:
    gate = Criterion(name="GroupDiversity", layer="global_quality")
    criteria = (CRITERION, gate)
    judges = Judges(judges=(judge(kind="pairwise"),))
    assert not Arrivals(judges, "q", criteria, 4).has_early_pairs
    assert Arrivals(judges.model_copy(update={"cascade": False}), "q", criteria, 4).has_early_pairs


def test_a_gate_that_a_judge_decides_is_waited_for() -> None:
    judges = Judges(judges=(judge(kind="pairwise", criteria=("Clear",)), judge(name="gates", kind="absolute")))
    some = Arrivals(judges, "q", (CRITERION, GATE), 4)
    assert not some.has_decided_gates(("needs a judge", "needs a judge"))
    assert some.has_decided_gates(("needs a judge", "it is"))
    careless = Arrivals(judges.model_copy(update={"cascade": False}), "q", (CRITERION, GATE), 4)
    assert careless.has_decided_gates(("needs a judge", "needs a judge"))


# ---------------------------------------------------------------------------------------------------------------- memo

CALL = Call(({"role": "user", "content": "zq-r0-qz"},))


def test_the_same_call_is_asked_once_even_while_it_is_under_way() -> None:
    async def main() -> None:
        asker, memo = Scripted(lambda shown: said("A")), Memo()
        judges = Judges(judges=(judge(kind="pairwise"),))
        first, second = (memo.wrap(lambda leaf: asker, judges)(judges.judges[0]) for _ in range(2))
        replies = await asyncio.gather(first.ask(CALL), second.ask(CALL), second.ask(CALL))
        assert len(asker.calls) == 1
        assert replies[0] is replies[1] is replies[2]

    asyncio.run(main())


def test_members_of_a_panel_are_asked_each() -> None:
    async def main() -> None:
        asker, memo = Scripted(lambda shown: said("A")), Memo()
        panel = Judges(judges=(judge(kind="pairwise", members=(judge(name="a", kind="pairwise"),) * 2),))
        members = [one.model_copy() for one in panel.judges[0].members]
        panel = Judges(judges=(panel.judges[0].model_copy(update={"members": tuple(members)}),))
        before = memo.wrap(lambda leaf: asker, panel)
        await asyncio.gather(*(before(leaf).ask(CALL) for leaf in panel.judges[0].members))
        assert len(asker.calls) == 2

    asyncio.run(main())


class Hanging:
    """Never answers the first time."""

    def __init__(self) -> None:
        self.asked = 0
        self.told: list[Reply] = []

    async def ask(self, call: Call) -> Reply:
        self.asked += 1
        if self.asked == 1:
            await asyncio.Event().wait()
        return said("A")

    def unreadable(self, call: Call, reply: Reply) -> None:
        self.told.append(reply)


def test_who_waits_for_a_call_that_was_cancelled_asks_again() -> None:
    async def main() -> None:
        asker, memo, judges = Hanging(), Memo(), Judges(judges=(judge(kind="pairwise"),))
        who = memo.wrap(lambda leaf: asker, judges)(judges.judges[0])
        first = asyncio.create_task(who.ask(CALL))
        await asyncio.sleep(0)
        second = asyncio.create_task(who.ask(CALL))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).text is not None
        assert asker.asked == 2

    asyncio.run(asyncio.wait_for(main(), 10))


def test_what_cannot_be_read_is_told_once() -> None:
    asker, memo, judges = Hanging(), Memo(), Judges(judges=(judge(kind="pairwise"),))
    for _ in range(2):
        memo.wrap(lambda leaf: asker, judges)(judges.judges[0]).unreadable(CALL, Reply("?"))
    assert len(asker.told) == 1
