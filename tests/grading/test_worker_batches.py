"""What goes to worker processes and comes back: the same rewards however many there are, nothing lost."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rubrank
from rubrank.fusion.control.attributes import (
    ATTRIBUTES,
    measure_rollouts,
)
from rubrank.grading.plan import GradeOptions, Task, plan_rubric
from rubrank.grading.workers import CHUNK_CHARACTERS, CHUNK_ROLLOUTS, Chunk, make_chunks
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.rubrics.rubric import load_rubric
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


def chunk(rows: int, checks: int) -> Chunk:
    plan = plan_rubric(
        load_rubric([{"name": str(k), "verifier": "WordCount", "params": {"low": 1}} for k in range(checks)]),
        GradeOptions(),
    )
    tasks = tuple(Task(0, row, Rollout(response=str(row)), plan.checks) for row in range(rows))
    return Chunk(tasks, plan.checks)


def cells(chunks):
    return [(task.row, check.column) for one in chunks for task in one.tasks for check in one.checks]


@given(st.integers(1, 5), st.integers(1, 4), st.data())
def test_after_a_report_exactly_the_checks_without_a_verdict_are_left(rows, checks, data):
    whole = chunk(rows, checks)
    done = data.draw(st.integers(1, rows * checks))
    verdicts = [[(1.0, "")] * min(checks, done - row * checks) for row in range(rows) if done > row * checks]
    assert cells(whole.list_remaining(verdicts)) == cells([whole])[done:]


def test_a_chunk_whose_worker_died_is_split_into_single_checks():
    parts = chunk(3, 2).split()
    assert cells(parts) == cells([chunk(3, 2)])
    assert all(len(part.tasks) == len(part.checks) == 1 and part.is_suspect for part in parts)


def test_systems_that_cannot_fork_can_import_the_module():
    code = "import os; del os.fork, os.register_at_fork; import rubrank.grading.workers"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_chunks_have_the_same_checks_and_are_not_too_long():
    first, second = chunk(100, 2), chunk(3, 1)
    chunks = make_chunks([*first.tasks, *second.tasks], workers=1)
    assert all(task.checks == one.checks for one in chunks for task in one.tasks)
    assert cells(chunks) == cells([first, second])
    assert max(len(one.tasks) for one in chunks) <= CHUNK_ROLLOUTS
    long = Task(0, 0, Rollout(response="x" * CHUNK_CHARACTERS), first.checks)
    assert [len(one.tasks) for one in make_chunks([long] * 40, workers=1)] == [2] * 20


def test_what_a_rollout_keeps_to_save_work_stays_here():
    rollout = Rollout(response="<think>so</think>" + "word " * 100, metadata={"a": 1})
    before = len(pickle.dumps(rollout))
    assert rollout.text.words
    found = pickle.loads(packed := pickle.dumps(rollout))
    assert len(packed) == before
    assert found == rollout
    assert (found.thoughts, found.answer) == (rollout.thoughts, rollout.answer)


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
    together = measure_rollouts(rollouts)
    np.testing.assert_array_equal(together, np.concatenate([measure_rollouts([one]) for one in rollouts]))
    assert together[0, :2].tolist() == [7, 7]
    assert measure_rollouts([]).shape == (0, together.shape[1])
