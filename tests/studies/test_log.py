"""Scores with what is known about the texts behind them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from rubrank.errors import BadTable, InvalidInput
from rubrank.records.files import write_records
from rubrank.records.record import records_of
from rubrank.rollouts.groups import group_rows
from rubrank.scores.criterion import CriterionData
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.studies.logged import read_logged
from rubrank.verifiers.verifier import UNIT

ROWS = [
    {"id": "a", "prompt": "p", "responses": ["<think>one two</think>three", "# four\n\nfive"]},
    {"id": "b", "prompt": "p", "responses": ["one", "one two three", "one two"]},
]
WORDS = [1, 2, 1, 3, 2]


def table(*ids: str) -> ScoreTable:
    criteria = (CriterionData("A", domain=UNIT),)
    sizes = {"a": 2, "b": 3}
    return ScoreTable(
        tuple(GroupScores(i, criteria, np.linspace(0, 1, sizes[i])[:, None], (("",),) * sizes[i]) for i in ids)
    )


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "rollouts.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    return tmp_path


@pytest.mark.parametrize("name", ["s.parquet", "s.jsonl", "s.jsonl.gz"])
def test_scores_and_rollouts(folder, name) -> None:
    table("b", "a").write(folder / name)  # in another order than the rollouts
    assert read_logged(folder / name).attributes is None
    logged = read_logged(folder / name, folder / "rollouts.jsonl")
    assert logged.attribute_names == ("reasoning_length", "answer_length", "heading")
    assert logged.attributes is not None
    assert logged.attributes[:, 1].tolist() == [*WORDS[2:], *WORDS[:2]]
    assert logged.attributes[:, 0].tolist() == [0, 0, 0, 2, 0]
    assert logged.attributes[4, 2] == pytest.approx(0.5)  # one heading on two lines


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_records_with_texts(folder, suffix) -> None:
    scores = table("a", "b")
    groups = group_rows(ROWS, "rows")
    write_records(folder / f"r.{suffix}", records_of(scores.fuse(), scores, groups=groups))
    logged = read_logged(folder / f"r.{suffix}")
    assert logged.attribute_names == ("reasoning_length", "answer_length", "heading")
    assert logged.attributes is not None
    assert logged.attributes[:, 1].tolist() == WORDS
    np.testing.assert_array_equal(logged.table.scores, scores.scores)


def test_attributes_of_records_come_first(folder) -> None:
    scores, given = table("a", "b"), np.arange(5.0)[:, None] + 1.0
    fused = scores.fuse(attributes=given, attribute_names=["tokens"])
    write_records(folder / "r.jsonl", records_of(fused, scores, groups=group_rows(ROWS, "rows")))
    logged = read_logged(folder / "r.jsonl")
    assert logged.attribute_names == ("tokens",)
    np.testing.assert_array_equal(logged.attributes, given)
    measured = read_logged(folder / "r.jsonl", folder / "rollouts.jsonl")
    assert "answer_length" in measured.attribute_names


def test_rollouts_that_were_logged_under_several_rules_count_once(folder) -> None:
    scores = table("a", "b")
    for rule in ("rlvr2", "gdpo"):
        write_records(folder / "r.jsonl", records_of(replace(scores.fuse(), rule=rule), scores, step=1), append=True)
    assert [group.id for group in read_logged(folder / "r.jsonl").table.groups] == ["a", "b"]


def test_a_query_in_several_steps_is_several_groups(folder) -> None:
    for step, ids in ((1, "ab"), (2, "a")):
        scores = table(*ids)
        write_records(folder / "r.jsonl", records_of(scores.fuse(), scores, step=step), append=True)
    assert [group.id for group in read_logged(folder / "r.jsonl").table.groups] == ["a (step 1)", "b", "a (step 2)"]


def test_what_does_not_belong(folder) -> None:
    with pytest.raises(BadTable, match="no such file"):
        read_logged(folder / "nothing.parquet")
    with pytest.raises(BadTable, match="the criteria must be"):
        read_logged(folder / "rollouts.jsonl")
    table("a").write(folder / "s.jsonl")
    (folder / "other.jsonl").write_text(json.dumps({"id": "a", "prompt": "p", "responses": ["x"]}))
    with pytest.raises(InvalidInput, match="2 rollouts; got 1"):
        read_logged(folder / "s.jsonl", folder / "other.jsonl")
    (folder / "other.jsonl").write_text(json.dumps({"id": "z", "prompt": "p", "responses": ["x", "y"]}))
    with pytest.raises(InvalidInput, match="no such group"):
        read_logged(folder / "s.jsonl", folder / "other.jsonl")
