"""Every shape of scores gives the same rewards, in chunks and in memory."""

from __future__ import annotations

import gzip
import io
import json
import sys
import zipfile
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from cases import thinned
from whole_tables import explain_file, fuse_file, load_scores

from rubrank.errors import BadTable, InvalidInput
from rubrank.options import FuseOptions
from rubrank.tables.columns import Columns

WIDE = pl.DataFrame(
    {
        "prompt_id": ["q1", "q1", "q1", "q2", "q2"],
        "response_id": ["a", "b", "c", "a", "b"],
        "Facts": [1.0, 0.0, 1.0, 0.0, 1.0],
        "Style": [3.0, 5.0, 4.0, None, None],
    }
)
LONG = WIDE.unpivot(index=["prompt_id", "response_id"], variable_name="criterion", value_name="score").drop_nulls()
LONG = LONG.sort("prompt_id", "response_id", maintain_order=True)


def rewards(source, **columns):
    summary = fuse_file(source, columns=Columns(**columns))
    return {str(group.label): np.round(group.reward, 12).tolist() for group in summary.first}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    path = tmp_path_factory.mktemp("wide") / "wide.csv"
    WIDE.write_csv(path)
    return rewards(path)


def saved(frame, path):
    name = path.name
    if ".csv" in name or ".tsv" in name:
        data = frame.write_csv(separator="\t" if ".tsv" in name else ",").encode()
    elif name.endswith(".json"):
        data = json.dumps(frame.to_dicts()).encode()
    else:
        data = frame.write_ndjson().encode()
    if name.endswith(".gz"):
        data = gzip.compress(data)
    if name.endswith(".zst"):
        data = pytest.importorskip("zstandard").compress(data)
    if name.endswith(".parquet"):
        frame.write_parquet(path)
    elif name.endswith(".arrow"):
        frame.write_ipc(path)
    else:
        path.write_bytes(data)
    return path


NAMES = [
    "t.csv",
    "t.tsv",
    "t.jsonl",
    "t.json",
    "t.parquet",
    "t.arrow",
    "t.csv.gz",
    "t.tsv.gz",
    "t.jsonl.gz",
    "t.csv.zst",
]


@pytest.mark.parametrize("name", thinned([*NAMES, "t.jsonl.zst"]))
@pytest.mark.parametrize("shape", ["wide", "long"])
def test_every_format_wide_and_long(tmp_path, expected, name, shape):
    path = saved(WIDE if shape == "wide" else LONG, tmp_path / name)
    assert rewards(path) == expected
    found = load_scores(path)
    assert len(found.table) == 5
    assert ("long" in found.shape) == (shape == "long")
    assert found.table["q2"].names == ("Facts",)


def test_every_table(expected):
    tables = [LONG, LONG.lazy(), LONG.to_pandas(), pa.Table.from_pylist(LONG.to_dicts()), LONG.to_dicts()]
    for table in [*tables, WIDE, pd.DataFrame(WIDE.to_dicts()), WIDE.to_dicts(), WIDE.to_dict(as_series=False)]:
        assert rewards(table) == expected


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.parquet", "t.tsv"])
def test_standard_input(tmp_path, monkeypatch, expected, name):
    data = saved(LONG, tmp_path / name).read_bytes()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    assert rewards("-") == expected
    assert len(load_scores("-").table) == 5  # kept: it can be read once only


def test_a_long_table_is_explained_rollout_by_rollout(tmp_path):
    group = explain_file(saved(LONG, tmp_path / "t.csv"), "q1")
    assert group.criteria == ("Facts", "Style")
    assert len(group.reward) == 3


def test_a_group_is_explained_by_a_rule_that_names_a_criterion_without_scores_in_the_group(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("group,A,B\ng,1,0\ng,0,1\nh,1,\nh,0,\n", "utf-8")
    group = explain_file(path, "h", FuseOptions(rule="rule-fusion:hard=('B',)"))
    assert group.reward.tolist() == [1.0, 0.0]


def test_other_names_of_columns(tmp_path, expected):
    frame = LONG.rename({"prompt_id": "q", "response_id": "who", "criterion": "what", "score": "points"})
    path = saved(frame, tmp_path / "t.csv")
    fields = {"criterion": "what", "score": "points", "response": "who"}
    assert rewards(path, group=["q"], fields=fields) == expected
    with pytest.raises(InvalidInput, match="the criterion of a long table"):
        rewards(path, group=["q"], long=True)


def test_a_table_that_fits_two_readings_names_both(tmp_path, expected):
    frame = LONG.with_columns(Fluency=pl.int_range(pl.len()).cast(pl.Float64))
    for name in ("t.csv", "t.parquet", "t.jsonl"):
        path = saved(frame, tmp_path / name)
        with pytest.raises(
            BadTable, match=r"two readings: long .* and wide .*'Fluency', 'score'.*`long=true`, or `criteria=A,B`"
        ):
            rewards(path)
        assert rewards(path, long=True) == expected
        assert fuse_file(path, columns=Columns(criteria=["Fluency"])).rollouts == len(frame)


def test_two_columns_that_name_groups_differently(tmp_path):
    path = saved(WIDE.with_columns(uid=pl.col("response_id")), tmp_path / "t.csv")
    with pytest.raises(BadTable, match="two readings: by 'uid' and by 'prompt_id'"):
        rewards(path)
    assert len(rewards(path, group=["prompt_id"])) == 2


def test_mistakes_of_long_tables(tmp_path):
    twice = pl.concat([LONG.head(1), LONG])
    with pytest.raises(BadTable, match="a second 'Facts' of response 'a'"):
        rewards(saved(twice, tmp_path / "a.csv"))
    with pytest.raises(BadTable, match="the response of a long table"):
        rewards(saved(LONG.drop("response_id"), tmp_path / "b.csv"))
    with pytest.raises(BadTable, match="column 'criterion'"):
        rewards(saved(LONG.with_columns(criterion=pl.lit(None, pl.String)), tmp_path / "c.jsonl"))
    apart = LONG.sort("response_id", "criterion")
    with pytest.raises(BadTable, match="next to each other"):
        rewards(saved(apart, tmp_path / "d.csv"))


def test_rows_of_a_long_table_may_stand_apart(tmp_path, expected):
    path = saved(LONG.sort("criterion", maintain_order=True), tmp_path / "t.csv")
    summary = fuse_file(path, any_order=True)
    assert {str(group.label): np.round(group.reward, 12).tolist() for group in summary.first} == expected
    assert len(load_scores(path).table) == 5


# ---------------------------------------------------------------------------------------------------------------- steps


def trl(folder, conversational=False):
    """What GRPOTrainer logs: one file a step, a column for each reward function."""
    folder.mkdir(parents=True)
    for step in (10, 20):
        prompts = ["a", "a", "b", "b"]
        said = [[{"role": "user", "content": p}] for p in prompts] if conversational else prompts
        frame = {"step": [step] * 4, "prompt": said, "completion": list("wxyz"), "facts": [0.0, 1, 1, 0]}
        pd.DataFrame({**frame, "style": [1.0, 2, 3, 4], "advantage": [0.0] * 4}).to_parquet(
            folder / f"completions_{step:05}.parquet"
        )


@pytest.mark.parametrize("conversational", [False, True])
def test_the_folder_that_trl_logs_to(tmp_path, conversational):
    trl(tmp_path / "run" / "completions", conversational)
    for source in (tmp_path / "run" / "completions", tmp_path / "run", str(tmp_path / "run/completions/*.parquet")):
        summary = fuse_file(source)
        assert (summary.rollouts, summary.groups, summary.criteria) == (8, 4, ("facts", "style"))
        table = load_scores(source).table
        assert [len(group.scores) for group in table.groups] == [2, 2, 2, 2]


def test_the_same_group_in_two_steps_is_two_groups(tmp_path):
    frame = pl.DataFrame({"step": [1, 1, 2, 2], "group": ["q"] * 4, "Facts": [0.0, 1, 1, 0]})
    path = saved(frame, tmp_path / "t.csv")
    assert rewards(path) == {"1/q": [0.0, 1.0], "2/q": [1.0, 0.0]}
    assert rewards(saved(frame.head(2), tmp_path / "one.csv")) == {"q": [0.0, 1.0]}
    assert len(rewards(path, group=["group"])) == 1


# -------------------------------------------------------------------------------------------------------------- Inspect


def test_a_log_of_inspect(tmp_path):
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", "{}")
        for id in ("q1", "q2"):
            for epoch, grade in ((1, "C"), (2, "I")):
                said = {"role": "assistant", "content": "x"}
                sample = {
                    "id": id,
                    "epoch": epoch,
                    "input": "?",
                    "target": "x",
                    "messages": [said],
                    "output": {"choices": [{"message": said, "stop_reason": "stop"}], "completion": "x"},
                    "scores": {"match": {"value": grade}, "rubric": {"value": {"tone": epoch, "facts": True}}},
                }
                archive.writestr(f"samples/{id}_epoch_{epoch}.json", json.dumps(sample))
    summary = fuse_file(path)
    assert summary.criteria == ("match", "rubric.tone", "rubric.facts")
    assert (summary.rollouts, summary.groups, summary.shape) == (4, 2, "Inspect log")
    table = load_scores(path).table
    assert table["q1"].scores.tolist() == [[1.0, 1.0, 1.0], [0.0, 2.0, 1.0]]


# ------------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.jsonl", "t.csv.gz", "t.json"])
def test_other_encodings_are_one_line(tmp_path, name):
    text = "group\tÄ\nq\t1\n" if "tsv" in name else "group,Ä\nq,1\n" if "csv" in name else '{"group": "Ä", "F": 1}\n'
    data = text.encode("latin-1")
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    for read in (fuse_file, load_scores):
        with pytest.raises(InvalidInput, match="Save it as UTF-8"):
            read(tmp_path / name)


def test_bytes_that_are_not_utf8_are_found_in_the_cells_of_a_csv_too(tmp_path):
    (tmp_path / "t.csv").write_bytes("group,F,note\nq,1,é\nq,0,x\n".encode("latin-1"))
    with pytest.raises(InvalidInput, match="Save it as UTF-8"):
        fuse_file(tmp_path / "t.csv")


def test_a_table_without_any_score_gives_no_rewards(tmp_path):
    rows = [{"group": "q", "scores": {"Facts": None}}, {"group": "q", "scores": {"Facts": None}}]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(BadTable, match=r"every score is missing|at least one"):
        fuse_file(tmp_path / "t.jsonl", tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


def test_a_long_table_may_have_the_same_response_in_two_batches():
    steps = [LONG.with_columns(pl.lit(step).alias("step")) for step in (1, 2)]
    table = load_scores(pl.concat(steps), Columns(batch="step")).table
    assert [group.id for group in table.groups] == ["1/q1", "1/q2", "2/q1", "2/q2"]
    assert table.groups[2].scores.tolist() == table.groups[0].scores.tolist()
    with pytest.raises(BadTable, match="the only score of its response and criterion"):
        load_scores(pl.concat([steps[0], steps[0]]), Columns(batch="step"))
