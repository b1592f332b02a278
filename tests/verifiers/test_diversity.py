"""Criteria about the whole group: locally, group by group, and where rollouts are graded one by one as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubrank import Criterion, Group, Rollout, find_verifier, grade, verifier
from rubrank.training.barrier import ArrivingGroup
from rubrank.training.engine import RewardEngine
from rubrank.training.frameworks.verl.scores import pack_scores, unpack_groups
from rubrank.verifiers.verifier import VERIFIERS, Verdict, missing

ANSWERS = ["one two three", "one two three", "four five six", ""]
WANTED = [0.5, 0.5, 1.0, 0.0]
RUBRIC = {"criteria": ["GroupDiversity", {"name": "WordCount", "params": {"relation": "at least", "count": 1}}]}


def group(*answers: str, id: str = "q") -> Group:
    return Group(id=id, rollouts=tuple(Rollout(prompt="Go.", response=answer) for answer in answers))


def decided(answers: Sequence[str], **params: object) -> list[float | None]:
    found = find_verifier("GroupDiversity")
    return [value for value, _ in found.bind_group(found.check_parameters(params))(group(*answers))]


@pytest.mark.parametrize("workers", [0, 2])
def test_grading_sees_the_group(workers: int, tmp_path) -> None:
    groups = [group(*ANSWERS), group("alone", id="r"), group("a b", "a c", id="s")]
    table = grade(groups, RUBRIC, workers=workers, cache=tmp_path / "verdicts.sqlite")
    assert table["q"].scores[:, 0] == pytest.approx(WANTED)
    assert table["q"].reason(2, "GroupDiversity") == "similarity 0.00 with all of 2 other answers"
    assert np.isnan(table["r"].scores[0, 0])
    assert "no other rollout" in table["r"].reason(0, "GroupDiversity")
    assert table["s"].scores[:, 0].tolist() == [1.0, 1.0]
    assert not np.isnan(table["q"].scores[:, 1]).any()
    again = grade(groups, RUBRIC, workers=workers, cache=tmp_path / "verdicts.sqlite")
    assert np.array_equal(again["q"].scores, table["q"].scores)


def test_rollouts_that_come_one_by_one_are_decided_when_all_are_there() -> None:
    async def streamed(answers: Sequence[str]):
        early = ArrivingGroup(RewardEngine(RUBRIC), "q", None, len(answers))
        for i, rollout in enumerate(group(*answers).rollouts):
            early.add(i, rollout)
        return await early.finish(range(len(answers)))

    graded = asyncio.run(streamed(ANSWERS))
    assert graded.groups[0].scores[:, 0] == pytest.approx(WANTED)
    assert not np.isnan(graded.groups[0].scores[:, 1]).any()
    alone = asyncio.run(streamed(["just one"]))
    assert np.isnan(alone.groups[0].scores[0, 0])


def test_reward_workers_of_verl_see_one_rollout_and_the_trainer_all() -> None:
    engine, whole = RewardEngine(RUBRIC), group(*ANSWERS)
    alone = [Group(id=f"q/{i}", rollouts=(rollout,)) for i, rollout in enumerate(whole.rollouts)]
    texts = [pack_scores(engine.grade([one])) for one in alone]
    graded = unpack_groups([whole], [texts], engine)
    assert graded.groups[0].scores[:, 0] == pytest.approx(WANTED)


def test_whole_groups_in_an_engine() -> None:
    engine = RewardEngine(RUBRIC)
    rewards = engine.score([group(*ANSWERS)], step=0).rewards[0]
    assert rewards[2] == max(rewards)
    assert rewards[3] == min(rewards)


@given(st.lists(st.text(alphabet="ab 西湖.", max_size=12), min_size=2, max_size=6), st.sampled_from(["all", "nearest"]))
def test_order_does_not_matter_and_values_are_shares(answers: list[str], against: str) -> None:
    values = decided(answers, against=against)
    assert values == pytest.approx(decided(answers[::-1], against=against)[::-1])
    assert all(value is None or 0.0 <= value <= 1.0 for value in values)
    doubled = decided([*answers, answers[0]], against="nearest")
    assert doubled[0] is None or doubled[0] == 0.0


def test_long_and_hostile_answers() -> None:
    assert decided(["a " * 50_000, "b " * 50_000]) == [1.0, 1.0]
    assert decided(["\ud800", "\x00\x00", "西" * 100]) is not None
    assert decided(["", "", ""]) == [0.0, 0.0, 0.0]
    assert decided(["x", "", ""]) == [None, 0.0, 0.0]
    assert decided(["one two", "one two three"], n=3) == [1.0, 1.0]


def test_a_verifier_of_ones_own_that_sees_the_group() -> None:
    try:

        @verifier("LongestOfGroup")
        def longest(group: Group, *, least: int = 1) -> list[object]:
            most = max(len(rollout.answer) for rollout in group.rollouts)
            return [missing("too short") if most < least else len(r.answer) == most for r in group.rollouts]

        @verifier("Wrong")
        def wrong(group: Group) -> list[bool]:
            return [True]

        table = grade([group("a", "bb")], {"criteria": ["LongestOfGroup", "Wrong"]}, workers=0)
        assert table["q"].scores[:, 0].tolist() == [0.0, 1.0]
        assert "1 answers for 2 rollouts" in table["q"].reason(0, "Wrong")
        found = find_verifier("LongestOfGroup")
        assert found.verify(Rollout(response="x"), found.check_parameters({"least": 5})) == Verdict(None, "too short")
        assert Criterion(name="LongestOfGroup").decided_by.sees_group
    finally:
        VERIFIERS.pop("LongestOfGroup", None)
        VERIFIERS.pop("Wrong", None)
