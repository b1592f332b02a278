"""Cells of score files as they are written: a text among numbers, whole numbers beyond doubles, ids, stray quotes."""

from __future__ import annotations

import gc
import json
import tempfile
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from whole_tables import fuse_file

from rubrank.errors import BadTable
from rubrank.grading.grade import grade
from rubrank.rollouts.groups import read_groups
from rubrank.scores.files import load_scores, read_scores
from rubrank.tables.columns import Columns

EXACT = 2**53


def rewards(path: Path) -> list[float]:
    output = path.with_name("rewards.jsonl")
    fuse_file(path, output, force=True)
    return [json.loads(line)["reward"] for line in output.read_text().splitlines()]


def written(path: Path, rows) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("at", [0, 99, 100, 150, 199])
def test_a_number_in_quotes_among_numbers_is_refused_wherever_it_stands(tmp_path, nested, at):
    """It used to be seen among the first hundred only; after those the criterion was left out without a word."""
    rows = [{"Facts": i % 3, "Style": (i * 7) % 5} for i in range(200)]
    rows[at]["Facts"] = "0.5"
    kept = [{"uid": f"q{i // 4}", **({"scores": row} if nested else row)} for i, row in enumerate(rows)]
    with pytest.raises(BadTable, match=rf"line {at + 1}, column '(scores\.)?Facts'.*'0.5'"):
        rewards(written(tmp_path / "scores.jsonl", kept))


def test_a_column_of_numbers_in_quotes_is_still_text(tmp_path):
    rows = [{"uid": "q", "answer": str(i), "Facts": i % 2} for i in range(300)]
    plain = [{"uid": "q", "Facts": i % 2} for i in range(300)]
    assert rewards(written(tmp_path / "a.jsonl", rows)) == rewards(written(tmp_path / "b.jsonl", plain))


def _csv(folder: Path, scores) -> Path:
    (folder / "scores.csv").write_text("uid,F\n" + "".join(f"q,{score}\n" for score in scores))
    return folder / "scores.csv"


def _long_csv(folder: Path, scores) -> Path:
    lines = "".join(f"q,{i},F,{score}\n" for i, score in enumerate(scores))
    (folder / "long.csv").write_text("uid,response_id,criterion,score\n" + lines)
    return folder / "long.csv"


def _json(folder: Path, scores) -> Path:
    return written(folder / "scores.jsonl", [{"uid": "q", "scores": {"F": score}} for score in scores])


def _json_with_nan(folder: Path, scores) -> Path:
    return written(folder / "nan.jsonl", [{"uid": "q", "scores": {"F": x, "G": float("nan")}} for x in scores])


def _json_with_fractions(folder: Path, scores) -> Path:
    return _json(folder, [*scores, 0.5])


def _decimals(folder: Path, scores) -> Path:
    column = pl.Series([Decimal(score) for score in scores], dtype=pl.Decimal(38, 0))
    pl.DataFrame({"uid": ["q"] * len(scores), "F": column}).write_parquet(folder / "scores.parquet")
    return folder / "scores.parquet"


FORMS = [_csv, _long_csv, _json, _json_with_nan, _json_with_fractions, _decimals]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("score", [EXACT + 1, -EXACT - 1, 2**63, 2**70, -(2**70)])
def test_whole_numbers_that_doubles_merge_are_refused_in_every_form(tmp_path, form, score):
    with pytest.raises(BadTable, match=r"2\*\*53"):
        rewards(form(tmp_path, [1, score]))


@pytest.mark.parametrize("form", FORMS)
def test_whole_numbers_that_doubles_hold_are_scores_in_every_form(tmp_path, form):
    found = rewards(form(tmp_path, [EXACT - 1, -EXACT, EXACT]))
    assert found[1] < found[0] < found[2]


@pytest.mark.parametrize("form", [_json, _json_with_nan, _csv])
def test_a_whole_number_beyond_all_doubles_is_refused_as_a_cell(tmp_path, form):
    with pytest.raises(BadTable, match="a finite number"):
        rewards(form(tmp_path, [1, 10**400]))


@pytest.mark.parametrize("form", [_csv, _long_csv])
@pytest.mark.parametrize("text", ["1_000", "１２"])
def test_what_only_python_reads_as_a_number_is_refused(tmp_path, form, text):
    with pytest.raises(BadTable, match="a finite number"):
        rewards(form(tmp_path, [1, 2, text]))


@pytest.mark.parametrize("ids", [[7, 7, 8, 8], [2**63 + 5, 2**63 + 5, 2**63 + 6, 2**63 + 6]])
def test_groups_may_be_named_by_unsigned_numbers(tmp_path, ids):
    frame = pl.DataFrame({"uid": pl.Series(ids, dtype=pl.UInt64), "F": [0.0, 1.0, 1.0, 0.0]})
    frame.write_parquet(tmp_path / "scores.parquet")
    assert rewards(tmp_path / "scores.parquet") == [0.0, 1.0, 1.0, 0.0]


def test_unsigned_scores(tmp_path):
    frame = pl.DataFrame({"uid": ["q"] * 3, "F": pl.Series([3, 1, EXACT], dtype=pl.UInt64)})
    frame.write_parquet(tmp_path / "scores.parquet")
    assert rewards(tmp_path / "scores.parquet")[1] == 0.0


def test_groups_named_by_whole_numbers_beyond_64_bits(tmp_path):
    rows = [{"uid": 2**64 + i // 2, "F": i % 2} for i in range(4)]
    assert rewards(written(tmp_path / "scores.jsonl", rows)) == [0.0, 1.0, 0.0, 1.0]


def test_groups_named_by_bytes_are_refused(tmp_path):
    pl.DataFrame({"uid": [b"\xff", b"\xff"], "F": [0.0, 1.0]}).write_parquet(tmp_path / "scores.parquet")
    with pytest.raises(BadTable, match=r"column 'uid' must be a number or a text.*bytes cannot name a group"):
        rewards(tmp_path / "scores.parquet")


def test_a_long_id_written_as_a_text_is_no_number(tmp_path):
    rows = [
        {"uid": "q", "response_id": i, "criterion": "F", "score": i, "trace": f"1234567890123456789{i}"} for i in (0, 1)
    ]
    assert rewards(written(tmp_path / "long.jsonl", rows)) == [0.0, 1.0]  # not refused as a second criterion


def test_rows_that_are_no_lines_are_called_rows(tmp_path):
    rows = [{"uid": "q", "F": 1.0}, {"uid": "q", "F": "good"}, {"uid": "q", "F": 0.0}]
    with pytest.raises(BadTable, match="row 2, column 'F'"):
        load_scores(rows, Columns(criteria=["F"]))
    with pytest.raises(BadTable, match="line 2, column 'F'"):
        load_scores(written(tmp_path / "scores.jsonl", rows), Columns(criteria=["F"]))


# -------------------------------------------------------------------------------------------------------------- quotes


@pytest.mark.parametrize("rows_after", [1, 5000])
def test_a_quote_that_nothing_closes_is_named(tmp_path, rows_after):
    lines = "".join(f"q{i // 4},{i % 3},note {i}\n" for i in range(rows_after))
    (tmp_path / "scores.csv").write_text('uid,F,note\nq,1,5" screen\n' + lines)
    with pytest.raises(BadTable, match=r"line 2 .*Close its quotes"):
        rewards(tmp_path / "scores.csv")


def test_two_quotes_within_cells_do_not_swallow_the_rows_between_them(tmp_path):
    lines = ["q,1,flat", 'q,0,5" screen', "q,1,flat", 'q,2,7" screen', "q,0,flat"]
    (tmp_path / "scores.csv").write_text("uid,F,note\n" + "\n".join(lines) + "\n")
    with pytest.raises(BadTable, match=r"line 3 .*Close its quotes"):
        rewards(tmp_path / "scores.csv")


def test_quotes_within_one_line_are_no_mistake(tmp_path):
    (tmp_path / "scores.csv").write_text('uid,F,note\nq,1,a "flat" one\nq,0,"two ""round"", ones\nmore"\n')
    assert rewards(tmp_path / "scores.csv") == [1.0, 0.0]


# ------------------------------------------------------------------------------------------------------ temporary files


def test_rows_in_memory_leave_no_temporary_files(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    fuse_file([{"uid": "q", "F": 1.0}, {"uid": "q", "F": 0.0}])
    with pytest.raises(BadTable, match="at least one row"):
        fuse_file([])
    gc.collect()
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------------------------- names of files


def test_brackets_in_a_name_are_no_pattern(tmp_path):
    rows = [{"prompt": "q", "response": text} for text in ("a", "a b c")]
    table = grade(rows, [{"name": "WordCount", "params": {"low": 2}}])
    table.write(tmp_path / "scores [1].parquet")
    assert read_scores(tmp_path / "scores [1].parquet").scores.tolist() == table.scores.tolist()
    pl.DataFrame(rows).write_ipc(tmp_path / "rollouts [1].arrow")
    assert len(read_groups(tmp_path / "rollouts [1].arrow")[0].rollouts) == 2
