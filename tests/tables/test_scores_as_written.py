"""Scores as they were given: integers that doubles merge beside fractions, and score files that were changed."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

import rubrank
from rubrank.errors import BadTable, InvalidInput
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.scores.files import read_scores

EXACT = 2**53


def _list(large: int):
    return [[large, 0.5], [1, 0.5]]


def _tuples(large: int):
    return ((large, 0.5), (1, 0.5))


def _rows(large: int):
    return [np.array([large, 3]), np.array([1.0, 0.5])]


def _polars(large: int):
    return pl.DataFrame({"a": [large, 1], "b": [0.5, 0.5]})


def _pandas(large: int):
    return pytest.importorskip("pandas").DataFrame({"a": [large, 1], "b": [0.5, 0.5]})


def _masked(large: int):
    return np.ma.masked_array([[large, 3], [1, 4]], mask=[[False, True], [False, False]])


def _objects(large: int):
    return np.array([[np.int64(large), 0.5], [1, None]], dtype=object)


CRITERIA = {_polars: "all", _pandas: "all"}
FORMS = [_list, _tuples, _rows, _polars, _pandas, _masked, _objects]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("large", [EXACT + 1, -EXACT - 1])
def test_integers_that_doubles_merge_are_refused_in_whatever_they_come(form, large):
    with pytest.raises(InvalidInput, match=r"integers within ±2\*\*53"):
        rubrank.fuse(form(large), criteria=CRITERIA.get(form))


@pytest.mark.parametrize("form", FORMS)
def test_integers_that_doubles_hold_are_taken(form):
    reward = rubrank.fuse(form(EXACT), criteria=CRITERIA.get(form))
    assert reward[0] > reward[1]


def test_large_numbers_with_fractions_are_taken_as_they_are():
    assert rubrank.fuse([[1e300, 0.5], [1e17, 0.5]]).tolist() == rubrank.fuse([[1.0, 0.5], [0.0, 0.5]]).tolist()


# --------------------------------------------------------------------------------------------------------- score files


@pytest.fixture(scope="module")
def many():
    """So many criteria that there is a row per score."""
    rubric = [{"name": f"W{i}", "verifier": "WordCount", "params": {"low": i % 7 + 1}} for i in range(501)]
    rows = [{"prompt": "q", "response": "word " * n} for n in (3, 7, 1)]
    return rubrank.grade(rows, rubric)


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame[1:],
        lambda frame: frame[:-1],
        lambda frame: frame.sort("score"),
        lambda frame: frame.filter(pl.col("criterion") != "W17"),
        lambda frame: frame.sort("criterion"),
    ],
)
def test_rows_that_are_not_where_they_were_written_are_refused(tmp_path, many, change):
    many.write(tmp_path / "scores.parquet")
    metadata = {"rubrank": pl.read_parquet_metadata(tmp_path / "scores.parquet")["rubrank"]}
    frame = pl.read_parquet(tmp_path / "scores.parquet")
    change(frame).write_parquet(tmp_path / "changed.parquet", metadata=metadata)
    with pytest.raises(BadTable, match="a score table"):
        read_scores(tmp_path / "changed.parquet")
    assert read_scores(tmp_path / "scores.parquet").scores.tolist() == many.scores.tolist()


@pytest.mark.parametrize("number", [-1, 1])
def test_rows_of_a_group_have_one_rubric(tmp_path, number):
    said = tuple(Rollout(response=text) for text in ("x", "x y"))
    words = [{"name": "WordCount", "params": {"low": 2}}]
    own = words, [{"name": "SentenceCount", "params": {"relation": "at least", "count": 2}}]
    table = rubrank.grade([Group(id=id, rollouts=said, rubric=rubric) for id, rubric in zip("ab", own, strict=True)])
    table.write(tmp_path / "scores.jsonl")
    lines = (tmp_path / "scores.jsonl").read_text().splitlines()
    row = json.loads(lines[2]) | {"rubric": number}
    row |= {"scores": {"SentenceCount": 1.0}, "reasons": {"SentenceCount": ""}}
    (tmp_path / "scores.jsonl").write_text("\n".join([*lines[:2], json.dumps(row), *lines[3:]]) + "\n")
    with pytest.raises(BadTable, match="the rubric of group 'a' must be one number"):
        read_scores(tmp_path / "scores.jsonl")
