"""An audit of what `grade` wrote: runs that share replies are refused, positions are counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from judges.server import MODEL, Answer, Asked, Server

from rubrank.errors import InvalidInput
from rubrank.grading.grade import grade
from rubrank.scores.files import read_scores
from rubrank.studies.audit.audit import audit, audit_files

SAID = ["West Lake.", "A lake.", "The Rhine.", "No."]
ROWS = [{"prompt": f"Name lake {q}.", "group": f"q{q}", "response": f"{text} {q}"} for q in range(4) for text in SAID]
RUBRIC = {"criteria": [{"name": "Clear", "question": "Is it clear?"}]}


def first_is_better(asked: Asked) -> Answer:
    return Answer(json.dumps({"reasoning": "It comes first.", "finding": "A is better", "verdict": "A"}))


def graded(server: Server, cache: Path | None, kind: str = "pairwise"):
    judge = {"kind": kind, "endpoints": [{"base_url": server.url, "model": MODEL}]}
    return grade(ROWS, RUBRIC, judges={"judges": [judge], "cache": None if cache is None else str(cache)}, workers=0)


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "jsonl.gz"])
def test_position_bias_is_measured_from_what_grade_wrote(tmp_path, suffix):
    with Server(first_is_better) as server:
        graded(server, None).write(tmp_path / f"ranker.{suffix}")
    found = audit_files([tmp_path / f"ranker.{suffix}"], bootstrap=50)
    (row,) = [one for one in found.position if one.criterion == "Clear"]
    assert row.judge == "ranker"
    assert row.first.value == 1.0  # of all comparisons
    assert row.first.n == 4 * 6 * 2
    assert "position bias" not in {one.what for one in found.unmeasured}


def test_runs_over_one_cache_are_refused(tmp_path):
    with Server(first_is_better) as server:
        one, again = (graded(server, tmp_path / "replies.sqlite") for _ in range(2))
        other = graded(server, tmp_path / "other.sqlite")
    with pytest.raises(InvalidInput, match=r"runs 1 and 2, which share replies in 4 groups, such as 'q0'"):
        audit({"ranker": [one, again]}, bootstrap=50)
    found = audit({"ranker": [one, other]}, bootstrap=50)
    assert found.consistency[0].identical.value == 1.0  # it is that constant
    again.write(tmp_path / "again.parquet")
    one.write(tmp_path / "one.jsonl")
    with pytest.raises(InvalidInput, match="Ask again with another cache"):
        audit_files([f"ranker={tmp_path}/one.jsonl", f"ranker={tmp_path}/again.parquet"])
    audit_files([tmp_path / "one.jsonl", tmp_path / "again.parquet"], bootstrap=50)  # two judges may share a reply


def test_runs_that_share_some_replies_are_refused(tmp_path):
    """The second run was killed in the middle of the first's cache."""
    with Server(first_is_better) as server:
        one = graded(server, tmp_path / "replies.sqlite")
        judge = {"kind": "pairwise", "endpoints": [{"base_url": server.url, "model": MODEL}]}
        rows = [dict(row, prompt=row["prompt"] + "!") if row["group"] != "q2" else row for row in ROWS]
        judges = {"judges": [judge], "cache": str(tmp_path / "replies.sqlite")}
        other = grade(rows, RUBRIC, judges=judges, workers=0)
    with pytest.raises(InvalidInput, match=r"share replies in 1 groups, such as 'q2'"):
        audit({"ranker": [one, other]}, bootstrap=50)


def test_tables_without_judges_say_nothing(tmp_path):
    table = grade(ROWS, ["EmptyAnswer"], workers=0)
    assert table.provenance is None
    table.write(tmp_path / "s.jsonl")
    assert read_scores(tmp_path / "s.jsonl").provenance is None
