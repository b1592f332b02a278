"""Tables in several files: the rewards are those of one file that holds all rows, whatever the format."""

from __future__ import annotations

import json
from dataclasses import replace

import polars as pl
import pytest
from whole_tables import fuse_file

from rubrank import grade
from rubrank.errors import BadTable
from rubrank.judges.judgments import Provenance
from rubrank.scores.files import has_rubric, load_scores, read_scores

LENGTHS = [
    {"name": f"Words{n}", "verifier": "WordCount", "params": {"relation": "at least", "count": n}} for n in (3, 6)
]


def graded(rubric, groups):
    rows = [
        {"prompt": "Name a lake.", "group": f"q{g}", "response": "word " * ((g + 2 * i) % 9)}
        for g in groups
        for i in range(4)
    ]
    return grade(rows, rubric, workers=0)


HALVES = (graded(["EmptyAnswer", *LENGTHS], range(5)), graded([LENGTHS[1], "EmptyAnswer"], range(5, 9)))
WANTED = [reward for half in HALVES for reward in half.fuse().reward.tolist()]


def rewards(source, output):
    fuse_file(source, output)
    if output.suffix == ".csv":
        return pl.read_csv(output)["reward"].to_list()
    if output.suffix == ".parquet":
        return pl.read_parquet(output)["reward"].to_list()
    lines = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    return [line["reward"] for line in lines if "reward" in line]


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "jsonl.gz"])
def test_score_files_bring_the_rubrics_of_all_of_them(tmp_path, monkeypatch, suffix, long):
    if long:
        monkeypatch.setattr("rubrank.scores.output._MOST_CRITERION_COLUMNS", 0)
    folder = tmp_path / "scores"
    folder.mkdir()
    for i, half in enumerate(HALVES):
        half.write(folder / f"part-{i}.{suffix}")
    assert has_rubric(folder)
    assert rewards(folder, tmp_path / "rewards.jsonl") == WANTED
    assert rewards(str(folder / f"*.{suffix}"), tmp_path / "rewards.parquet") == WANTED


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_a_score_file_identifies_the_responses_that_were_scored(tmp_path, monkeypatch, suffix, long):
    if long:
        monkeypatch.setattr("rubrank.scores.output._MOST_CRITERION_COLUMNS", 0)
    path = tmp_path / f"scores.{suffix}"
    HALVES[0].write(path)
    written = [group.digests for group in HALVES[0]]
    assert all(len(digests) == 4 for digests in written)
    assert [group.digests for group in read_scores(path)] == written


def test_wide_and_long_score_files_together(tmp_path, monkeypatch):
    HALVES[0].write(tmp_path / "a.parquet")
    monkeypatch.setattr("rubrank.scores.output._MOST_CRITERION_COLUMNS", 0)
    HALVES[1].write(tmp_path / "b.parquet")
    assert rewards(str(tmp_path / "*.parquet"), tmp_path / "rewards.jsonl") == WANTED


def test_a_group_may_begin_in_one_file_and_end_in_the_next(tmp_path):
    whole, folder = tmp_path / "scores.jsonl", tmp_path / "cut"
    folder.mkdir()
    HALVES[0].write(whole)
    header, *lines = whole.read_text(encoding="utf-8").splitlines()
    for i, some in enumerate((lines[:6], [], lines[6:])):
        (folder / f"{i}.jsonl").write_text("\n".join([header, *some]) + "\n", encoding="utf-8")
    assert rewards(folder, tmp_path / "rewards.jsonl") == HALVES[0].fuse().reward.tolist()


def test_score_files_beside_another_table_are_refused(tmp_path):
    HALVES[0].write(tmp_path / "a.parquet")
    pl.DataFrame({"group": ["x", "x"], "Words3": [0.0, 1.0]}).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(BadTable, match=r"b\.parquet"):
        fuse_file(tmp_path, tmp_path / "rewards.jsonl")


def test_a_score_file_may_be_compressed_by_zstd(tmp_path):
    zstandard = pytest.importorskip("zstandard", reason="zstandard is not installed")
    HALVES[0].write(tmp_path / "scores.jsonl")
    packed = tmp_path / "packed.jsonl.zst"
    packed.write_bytes(zstandard.compress((tmp_path / "scores.jsonl").read_bytes()))
    assert rewards(packed, tmp_path / "rewards.jsonl") == HALVES[0].fuse().reward.tolist()
    packed.write_bytes(b"no zstd")
    with pytest.raises(BadTable, match=r"packed\.jsonl\.zst"):
        fuse_file(packed)


TABLE = pl.DataFrame(
    {"uid": ["007", "007", "é 8", "é 8", "9"], "Facts": [1.0, None, 0.5, 0.25, 1.0], "Style": [0.0, 1.0, 1.0, 0.5, 0.5]}
)


@pytest.mark.parametrize(("suffix", "separator"), [("csv", ","), ("tsv", "\t")])
def test_csv_files_are_tables_of_numbers(tmp_path, suffix, separator):
    folder = tmp_path / "tables"
    folder.mkdir()
    parts = (TABLE[:1], TABLE[1:3].select("Style", "uid", "Facts"), TABLE[:0], TABLE[3:])
    for i, part in enumerate(parts):
        part.write_csv(folder / f"{i}.{suffix}", separator=separator)
    TABLE.write_csv(tmp_path / "whole.csv")
    one = rewards(tmp_path / "whole.csv", tmp_path / "one.csv")
    assert rewards(folder, tmp_path / "several.csv") == one
    assert (tmp_path / "several.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()


def test_csv_files_without_a_row_are_refused(tmp_path):
    for i in range(2):
        TABLE[:0].write_csv(tmp_path / f"{i}.csv")
    with pytest.raises(BadTable, match="at least one row"):
        fuse_file(tmp_path)


def test_parquet_files_may_have_other_types_and_other_columns(tmp_path):
    folder = tmp_path / "tables"
    folder.mkdir()
    pl.DataFrame({"uid": [1, 1], "Facts": [0, 1], "Style": [0.5, 0.25]}).write_parquet(folder / "a.parquet")
    pl.DataFrame({"Style": [0.5, 0.25], "uid": [2, 2], "Facts": [0.5, 1.0]}).write_parquet(folder / "b.parquet")
    pl.DataFrame({"uid": [3, 3], "Facts": [None, None], "Style": [1, 0]}).write_parquet(folder / "c.parquet")
    pl.DataFrame({"uid": [4, 4], "Style": [0.0, 1.0]}).write_parquet(folder / "d.parquet")
    whole = pl.concat([pl.read_parquet(file) for file in sorted(folder.iterdir())], how="diagonal_relaxed")
    whole.write_parquet(tmp_path / "whole.parquet")
    assert rewards(folder, tmp_path / "several.parquet") == rewards(tmp_path / "whole.parquet", tmp_path / "o.parquet")


@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_a_number_that_only_another_file_defines_is_refused(tmp_path, suffix):
    # The first file has one rubric, number 0; with the second file there are two.
    for i, half in enumerate(HALVES):
        half.write(tmp_path / f"{i}.{suffix}")
    edit_rubric_numbers(tmp_path / f"0.{suffix}", 1)
    with pytest.raises(BadTable, match=r"the rubric of group 'q0' must be one number from 0 to 0; got 1"):
        fuse_file(str(tmp_path / f"*.{suffix}"), tmp_path / "rewards.csv")


def test_a_wrong_number_in_a_wide_file_beside_a_long_one_is_refused(tmp_path, monkeypatch):
    HALVES[0].write(tmp_path / "0.parquet")
    edit_rubric_numbers(tmp_path / "0.parquet", -1)
    monkeypatch.setattr("rubrank.scores.output._MOST_CRITERION_COLUMNS", 0)
    HALVES[1].write(tmp_path / "1.parquet")
    with pytest.raises(BadTable, match=r"from 0 to 0; got -1"):
        fuse_file(str(tmp_path / "*.parquet"), tmp_path / "rewards.csv")


def edit_rubric_numbers(path, number):
    if path.suffix == ".jsonl":
        path.write_text(path.read_text(encoding="utf-8").replace('"rubric": 0', f'"rubric": {number}'))
        return
    metadata = pl.read_parquet_metadata(path)
    frame = pl.read_parquet(path).with_columns(rubric=pl.lit(number, dtype=pl.Int64))
    frame.write_parquet(path, metadata={"rubrank": metadata["rubrank"]})


@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_the_judging_of_all_files_is_added_up(tmp_path, suffix):
    first = Provenance({"Tone": (1.5, 2)}, {"q0": ("a",)}, {"calls": 3, "cost": 0.5, "failures": {"timeout": 1}})
    second = Provenance(
        {"Tone": (1.0, 4), "Facts": (0.0, 1)},
        {"q5": ("b",)},
        {"calls": 4, "cost": 0.25, "failures": {"timeout": 2, "refused": 1}},
    )
    for i, (half, provenance) in enumerate(zip(HALVES, (first, second), strict=True)):
        replace(half, judging=None, read=provenance).write(tmp_path / f"{i}.{suffix}")
    merged = load_scores(str(tmp_path / f"*.{suffix}")).table.provenance
    assert merged == Provenance(
        {"Tone": (2.5, 6), "Facts": (0.0, 1)},
        {"q0": ("a",), "q5": ("b",)},
        {"calls": 7, "cost": 0.75, "failures": {"timeout": 3, "refused": 1}},
    )


def test_the_judging_of_a_file_that_was_cut_counts_once(tmp_path):
    provenance = Provenance({}, {"q0": ("a",)}, {"calls": 3, "failures": {}})
    replace(HALVES[0], judging=None, read=provenance).write(tmp_path / "whole.jsonl")
    header, *lines = (tmp_path / "whole.jsonl").read_text(encoding="utf-8").splitlines()
    (tmp_path / "cut").mkdir()
    for i, part in enumerate((lines[:8], lines[8:])):
        (tmp_path / "cut" / f"{i}.jsonl").write_text("\n".join([header, *part]) + "\n", encoding="utf-8")
    assert load_scores(tmp_path / "cut").table.provenance == provenance
