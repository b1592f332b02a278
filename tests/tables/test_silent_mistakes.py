"""Tables that used to give wrong rewards without a word are refused in one line."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rubrank import RLVR2, ScoreBatch, fuse_file
from rubrank.errors import BadTable
from rubrank.records.files import write_records
from rubrank.records.record import records_of
from rubrank.tables.columns import Columns


def table(path, header, *rows):
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("cells", [("8/10", "6/10"), ("70%", "40%"), ("yes", "no"), ("$3", "$4"), ('"0,5"', '"0,7"')])
def test_scores_written_as_text_are_named(tmp_path, cells):
    rows = [f"q,{i},{cell}" for i, cell in enumerate(cells)]
    path = table(tmp_path / "t.csv", "uid,Facts,Style", *rows)
    with pytest.raises(BadTable, match=r"row 1, column 'Style' .*criteria=Facts,Style"):
        fuse_file(path)
    assert fuse_file(path, columns=Columns(criteria=["Facts"])).rollouts == 2


def test_numbers_in_quotes_are_named_and_answers_are_not(tmp_path):
    rows = [{"uid": "q", "Facts": i, "Style": str(i)} for i in range(2)]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(BadTable, match="line 1, column 'Style'"):
        fuse_file(path)
    rows = [{"uid": "q", "Facts": i, "answer": str(i)} for i in range(2)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert fuse_file(path).criteria == ("Facts",)


@pytest.mark.parametrize("other", ["facts", "Facts ", "ＦＡＣＴＳ"])
def test_names_that_differ_only_in_writing_are_refused(tmp_path, other):
    rows = [{"uid": "q", "scores": {"Facts": 1}}, {"uid": "q", "scores": {other: 0}}]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(BadTable, match="the criteria must be of different names"):
        fuse_file(path)
    assert fuse_file(path, columns=Columns(criteria=["Facts", other])).rollouts == 2


def test_a_rollout_that_is_there_twice_is_refused(tmp_path):
    path = table(tmp_path / "t.csv", "uid,rollout,Facts", "q,0,1", "q,1,0", "q,0,1")
    with pytest.raises(BadTable, match=r"row 3 .*a second rollout '0' of group 'q'"):
        fuse_file(path)
    path = table(tmp_path / "t.csv", "uid,answer_id,Facts", "q,7,1", "q,7,0", "r,8,1")
    assert fuse_file(path).rollouts == 3  # the same in all rows of a group: it names the query


@pytest.mark.parametrize("name", ["records.jsonl", "records.parquet"])
def test_records_are_no_scores(tmp_path, name):
    fused = RLVR2()(ScoreBatch.of_arrays(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), criteria=["A", "B"]))
    write_records(tmp_path / name, records_of(fused))
    with pytest.raises(BadTable, match="records of groups that were fused"):
        fuse_file(tmp_path / name)
