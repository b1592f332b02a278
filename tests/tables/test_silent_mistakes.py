"""Tables that used to give wrong rewards without a word are refused in one line."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner
from whole_tables import fuse_file

import rubrank
from rubrank import RLVR2, FuseOptions, ScoreBatch
from rubrank.cli.app import app
from rubrank.errors import BadTable
from rubrank.records.files import write_records
from rubrank.records.record import records_of
from rubrank.scores.files import load_scores
from rubrank.tables.columns import Columns


def table(path, header, *rows):
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


_NAMES = """temperature latency_ms cost year gpu total mean score final_score top_p max_new_tokens price_usd created_at
    Unnamed:0 __index_level_0__ worker port difficulty confidence n_votes loss kl entropy age"""


@pytest.mark.parametrize("name", _NAMES.split())
def test_a_column_of_numbers_is_a_criterion_only_if_something_says_so(tmp_path, name):
    columns = {"uid": ["q", "q"], "Facts": [1, 0], name: [3.5, 7.0], "note": ["a", "b"]}
    frame = pl.DataFrame(columns)
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    frame.write_ndjson(tmp_path / "t.jsonl")
    sources = [tmp_path / "t.csv", tmp_path / "t.parquet", tmp_path / "t.jsonl", frame, frame.to_dicts()]
    options = FuseOptions(weight={"Facts": 2})
    for source in sources:
        message = f"the criteria must be named.* got 'Facts', '{name}'.* `criteria=Facts,{name}`.*`criteria=all`"
        with pytest.raises(BadTable, match=message):
            rubrank.fuse_file(source)
        with pytest.raises(BadTable, match=message):
            rubrank.fuse_file(source, None, options)  # Facts is named by its weight, the other is not
        with pytest.raises(BadTable, match=message):
            load_scores(source)
        assert rubrank.fuse_file(source, criteria=["Facts"]).criteria == ("Facts",)
        summary = rubrank.fuse_file(source, criteria="all")
        assert (summary.criteria, summary.left_out) == (("Facts", name), ("note",))


def test_options_that_name_all_columns_declare_them(tmp_path):
    path = table(tmp_path / "t.csv", "uid,Facts,Errors,tokens", "q,1,0,5", "q,0,1,6")
    options = FuseOptions(weight={"Facts": 2}, lower=["Errors"])
    assert rubrank.fuse_file(path, None, options).criteria == ("Facts", "Errors")


def test_tables_that_declare_their_criteria_need_no_names(tmp_path):
    rows = [{"uid": "q", "scores": {"Facts": i, "year": 1990 + i}, "temperature": 0.5} for i in range(2)]
    assert rubrank.fuse_file(rows).criteria == ("Facts", "year")
    path = table(tmp_path / "t.csv", "uid,response_id,criterion,score", "q,a,Facts,1", "q,b,Facts,0")
    assert rubrank.fuse_file(path).criteria == ("Facts",)


@pytest.mark.parametrize(
    "verb",
    ["fuse", "explain --group q", "record -o r.jsonl", "report", "replay", "robustness", "bench fusion", "judge audit"],
)
def test_every_verb_asks_for_the_criteria(tmp_path, monkeypatch, verb):
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "t.csv", "uid,Facts,temperature", "q,1,0.5", "q,0,0.7")
    words = verb.split()
    place = 2 if words[0] in ("bench", "judge") else 1
    line = [*words[:place], "t.csv", *words[place:]]
    refused = CliRunner().invoke(app, line)
    assert refused.exit_code == 2
    assert "got 'Facts', 'temperature'" in refused.stderr
    assert "--criteria Facts,temperature; for all of these use --criteria all" in refused.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["t.csv"]
    empty = CliRunner().invoke(app, [*line, "--criteria", " ,"])
    assert empty.exit_code == 2
    assert "--criteria must be names, as a,b,c" in empty.stderr
    done = CliRunner().invoke(app, [*line, "--criteria", "Facts"])
    assert done.exit_code == 0, done.output


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


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_one_id_with_two_prompts_is_refused(tmp_path, suffix):
    frame = pl.DataFrame({"uid": ["q", "q", "q"], "prompt": ["p", None, "r"], "Facts": [1, 0, 1]})
    path = tmp_path / f"t.{suffix}"
    {"csv": frame.write_csv, "jsonl": frame.write_ndjson, "parquet": frame.write_parquet}[suffix](path)
    with pytest.raises(BadTable, match=r"(row|line) 3, the prompt of group 'q' .* got another than (row|line) 1 has"):
        fuse_file(path)
    assert fuse_file(frame[:2]).rollouts == 2
