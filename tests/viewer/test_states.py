"""What is remarkable about a group, and what judging cost, from grading to the summary."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from grading.test_judged import ROWS, RUBRIC, judges, ranking
from judges.server import Server

from rubrank.grading.grade import grade
from rubrank.records.files import read_records, write_records
from rubrank.records.record import GroupRecord, records_of
from rubrank.scores.criterion import CriterionData
from rubrank.scores.files import read_scores
from rubrank.viewer.figures import GroupArrays
from rubrank.viewer.group_data import State, find_states, make_title
from rubrank.viewer.summary import Overview

Make = Callable[..., GroupRecord]


@pytest.mark.parametrize(
    ("responses", "reward", "wins"),
    [
        (("long one", "short"), [1.0, 0.0], True),
        (("long one", "short"), [0.0, 1.0], False),
        (("same", "size"), [1.0, 0.0], False),
        (("long one", "short"), [0.5, 0.5], False),
        (None, [1.0, 0.0], False),
    ],
)
def test_the_longest_wins(record_of: Make, responses: Any, reward: list[float], wins: bool) -> None:
    record = record_of({"A": [1.0, 0.0]}, reward, responses=responses)
    assert (State.LONGEST_WINS in find_states(record)) is wins


@pytest.mark.parametrize(
    ("more", "failed"),
    [
        ({"metadata": {"judges": {"asked": 2, "missing": 1}}}, True),
        ({"metadata": {"judges": {"asked": 2, "missing": 0}}}, False),
        ({"reasons": (("fine",), ("timeout after 120 s",))}, True),
        ({"reasons": (("fine",), ("needs a judge",))}, False),
        ({"reasons": (("fine",), ("not asked: a gate has stopped it",))}, False),
        ({}, False),
        ({"metadata": {"judges": {"missing": "many"}}, "reasons": (("",), ("",))}, False),
    ],
)
def test_judges_failed_only_where_they_were_asked(record_of: Make, more: dict[str, Any], failed: bool) -> None:
    record = record_of({"A": [1.0, None]}, [1.0, 0.0], **more)
    assert (State.JUDGES_FAILED in find_states(record)) is failed
    program = (CriterionData("A", verifier="WordCount"),)
    if "metadata" not in more:
        record = record_of({"A": [1.0, None]}, [1.0, 0.0], criteria=program, **more)
        assert State.JUDGES_FAILED not in find_states(record)


@pytest.mark.parametrize(("layer", "undecided"), [("global_quality", True), ("low_quality", True), ("watch", False)])
def test_a_watched_criterion_without_a_score_leaves_no_gate_undecided(
    record_of: Make, layer: str, undecided: bool
) -> None:
    criteria = (CriterionData("A"), CriterionData("B", layer=layer))  # type: ignore[arg-type]
    record = record_of({"A": [1.0, 0.0], "B": [1.0, None]}, [1.0, 0.0], criteria=criteria, weights=(1.0,))
    assert (State.GATE_MISSING in find_states(record)) is undecided
    assert State.MISSING not in find_states(record)


def test_titles() -> None:
    said = ({"role": "user", "content": "first"}, {"role": "user", "content": "  last \n one "}, {"role": "assistant"})
    assert make_title(said) == "last one"
    assert make_title(({"role": "system", "content": "x" * 500},)).endswith("…")
    assert make_title(None) == ""


def test_what_judging_took_reaches_records_by_way_of_a_file(tmp_path: Path) -> None:
    with Server(ranking) as server:
        table = grade(ROWS, RUBRIC, judges=judges(server, kind="listwise"), workers=0)
    table.write(tmp_path / "scores.parquet")
    again = read_scores(tmp_path / "scores.parquet")
    for known in (table, again):
        write_records(tmp_path / "records.jsonl", records_of(known.fuse(), known))
        (record,) = read_records(tmp_path / "records.jsonl")
        spent = record.metadata["judging"]
        assert (spent["calls"], spent["hits"], spent["failures"]) == (1, 0, {})
        overview = Overview()
        overview.add(GroupArrays(record))
        said = overview.summarize()
        assert (said["judging"]["calls"], said["judging"]["asked"]) == (1, 1)
        assert said["metadata"] == []


def test_judging_adds_up_and_odd_metadata_is_left_out(record_of: Make) -> None:
    overview = Overview()
    overview.add(GroupArrays(record_of({"A": [1.0]}, [0.5])))
    assert overview.summarize()["judging"] is None
    odd = {"judges": "none", "judging": {"cost": "free", "calls": True, "failures": ["x"]}}
    for n in range(3):
        metadata = {"judges": {"asked": 2, "missing": n}, "judging": {"calls": 4, "failures": {"timeout": n}}}
        overview.add(GroupArrays(record_of({"A": [1.0]}, [0.5], metadata=metadata)))
    overview.add(GroupArrays(record_of({"A": [1.0]}, [0.5], metadata=odd)))
    assert overview.summarize()["judging"] == {"calls": 12, "asked": 6, "missing": 3, "failures": {"timeout": 3}}
