"""What goes to worker processes and comes back: the same rewards however many there are, nothing lost."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rubrank
from rubrank.fusion.attributes import ATTRIBUTES
from rubrank.fusion.attributes.common import COMMON, common_rows, keep_places, worker_rows
from rubrank.grading.batches import TaskBatch, Under, singly, without
from rubrank.grading.serving import WorkerReply
from rubrank.grading.shared import Shared, shared_file
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.training.engine import RewardEngine

RUBRIC = [
    {"name": "WordCount", "params": {"low": 3, "high": 40}},
    {"name": "SentenceCount", "params": {"relation": "at least", "count": 2}},
    {"name": "BulletCount", "params": {"relation": "at least", "count": 1}},
    {"name": "Keyword", "params": {"keywords": ["moon"]}},
    {"name": "detectable_format:title"},
    "EmptyAnswer",
    "ThinkLeak",
    "RepeatSegment",
]
SAID = [
    "<think>The **moon** pulls. So does the sun.</think>The moon pulls the water. It rises.",
    "- moon\n- sun\n\n# Tides\n\nThe `moon` pulls, and the sun too.",
    "",
    "<think>I was cut off while",
    "月亮吸引海水。潮水上涨。<<潮汐>>",
    "The moon. " * 60,
    "broken \ud800 text of the moon",
]


def batch(rows: int, checks: int) -> TaskBatch:
    """Items are their numbers in a list of their own, so that each is one object."""
    rollouts = tuple(Rollout(response=str(i)) for i in range(rows))
    return TaskBatch(tuple([i] for i in range(rows)), rollouts, (("WordCount", {}),) * checks, tuple(range(checks)))


def cells(batches):
    return [(one[0], number) for some in batches for one in some.items for number in some.numbers]


def test_memory_grows_with_its_messages_and_is_given_back():
    file = shared_file()
    mine, theirs = Shared(file), Shared(os.dup(file))
    for message in (b"a", b"b" * 3_000_000, b"c" * 70_000_000, b"d", b"e" * 5_000_000):
        size = mine.put(message)
        with theirs.get(size) as found:
            assert found == message
        assert os.fstat(file).st_size < max(65 << 20, 2 * size)
    mine.close()
    theirs.close()


@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 5), st.integers(0, 4), st.data())
def test_what_has_no_verdict_is_left(rows, checks, together, begun, data):
    """Some rollouts are done, of the next ones the first checks: all others are left, each once."""
    sent = [batch(rows, checks), batch(2, 1)]
    under, some, begun = Under(sent), sent[0].items[:together], min(begun, checks - 1)
    if begun:
        found = under.take(WorkerReply(0, 0, 0, [[(1.0, "")] * len(some)] * begun))
        assert found.size == len(some) * begun
    known = {(one[0], k) for one in some for k in range(begun)}
    left = under.left()
    assert cells(left) == [cell for cell in cells(sent[:1]) if cell not in known] + cells(sent[1:])
    assert sorted(cells(singly(left))) == sorted(cells(left))
    at = data.draw(st.sampled_from([(one, k) for some in left for one in some.items for k in some.numbers]))
    blamed, others = without(left, *at)
    assert blamed is not None
    assert cells([blamed]) == [(at[0][0], at[1])]
    assert sorted([*cells([blamed]), *cells(others)]) == sorted(cells(left))
    assert without(others, *at) == (None, others)


def test_a_place_that_is_no_check():
    under = Under([batch(2, 3)])
    assert under.at((0, 1, 2)) is not None
    assert under.at((0, 1, (1 << 64) - 1)) is under.at((0, 2, 0)) is under.at((1, 0, 0)) is None


def test_what_a_rollout_keeps_to_save_work_stays_here():
    rollout = Rollout(response="<think>so</think>" + "word " * 100, metadata={"a": 1})
    before = len(pickle.dumps(rollout))
    assert rollout.text.words
    found = pickle.loads(packed := pickle.dumps(rollout))
    assert len(packed) == before
    assert found == rollout
    assert (found.thoughts, found.answer) == (rollout.thoughts, rollout.answer)


@given(st.lists(st.lists(st.tuples(st.none() | st.floats(0, 1), st.text()), min_size=3, max_size=3), min_size=1))
def test_a_reply_comes_as_it_was_sent(columns):
    reply = WorkerReply(1, 2, 3, columns, "measured")
    assert WorkerReply.unpacked(pickle.loads(pickle.dumps(reply.packed()))) == reply


@given(st.lists(st.sampled_from(["<think>", "</think>", "<reasoning>", "</reasoning>", "so", " ", "\n", "月"])))
def test_where_the_parts_stand(pieces):
    there, here = Rollout(response="".join(pieces)), Rollout(response="".join(pieces))
    keep_places([here], worker_rows([there])[:, COMMON:])
    kept = "_parts" in here.__dict__
    assert (here.thoughts, here.answer) == (there.thoughts, there.answer)
    assert kept or len({there.thoughts, there.answer} - {""}) > 0


def test_parts_that_stand_in_the_response_need_not_be_looked_for():
    known = [("so", "It is."), ("", "It is."), ("", "")]
    said = ["<think>so</think>\n\nIt is.", "It is.", ""]
    rollouts = [Rollout(response=text) for text in said]
    keep_places(rollouts, worker_rows([Rollout(response=text) for text in said])[:, COMMON:])
    assert [rollout.__dict__["_parts"] for rollout in rollouts] == known
    own = Rollout(response="so. It is.", reasoning="so")
    keep_places([own], worker_rows([own])[:, COMMON:])
    assert (own.thoughts, own.answer) == ("so", "so. It is.")


def scored(workers: int | None, folder: Path) -> tuple[object, ...]:
    """Everything that a step gives, but for what it took; two steps, so that something is learnt."""
    groups = [
        Group(id=f"0/{g}", rollouts=tuple(Rollout(prompt=f"Tides? {g}", response=text) for text in SAID[g:] + SAID[:g]))
        for g in range(5)
    ]
    records = folder / f"{workers}.jsonl"
    attributes = ("markdown", "reasoning_length", "answer_length", "batches-test shouts")
    engine = RewardEngine(RUBRIC, "rlvr2+", attributes=attributes, workers=workers, records=records)
    steps = [engine.score(groups, step) for step in range(2)]
    taken = ("rubrank/seconds", "rubrank/share_of_step")
    metrics = [{name: x for name, x in step.metrics.items() if name not in taken} for step in steps]
    return repr([step.rewards for step in steps]), metrics, [step.columns for step in steps], records.read_text()


@pytest.mark.slow
def test_rewards_metrics_and_records_are_the_same_bits_whatever_the_number_of_workers(tmp_path):
    rubrank.attribute("batches-test shouts")(lambda text: sum(map(str.isupper, text)))
    try:
        here, *there = [scored(workers, tmp_path) for workers in (0, 1, 2)]
    finally:
        del ATTRIBUTES["batches-test shouts"]
    assert there == [here, here]


def test_rows_are_the_same_together_and_alone():
    rollouts = [Rollout(response=text) for text in SAID]
    together = common_rows(rollouts)
    np.testing.assert_array_equal(together, np.concatenate([common_rows([one]) for one in rollouts]))
    assert together[0, :2].tolist() == [7, 7]
    assert common_rows([]).shape == (0, together.shape[1])
