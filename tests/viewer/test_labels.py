"""Verdicts accepted and corrected by people: from the page to `rubrank judge audit`."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner
from viewer.viewing import Viewer, served

from rubrank.cli.app import app
from rubrank.errors import InvalidInput, UnknownName
from rubrank.records.files import write_records
from rubrank.records.record import GroupRecord, to_score_table
from rubrank.scores.files import read_scores
from rubrank.viewer.labels import LabelFile

Make = Callable[..., GroupRecord]


def post(viewer: Viewer, label: Any, kind: str = "application/json") -> tuple[int, Any]:
    request = urllib.request.Request(viewer.address + "api/label", json.dumps(label).encode(), {"content-type": kind})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def test_from_the_page_to_the_audit(tmp_path: Path, record_of: Make) -> None:
    records = [record_of({"Facts": [1.0, 0.0, 1.0, 0.0]}, [1.0, 0.0, 1.0, 0.0], group=f"q{n}") for n in range(6)]
    write_records(tmp_path / "records.jsonl", records)
    to_score_table(records).write(tmp_path / "scores.parquet")
    labels = tmp_path / "labels.jsonl"
    with served(tmp_path / "records.jsonl", labels=labels) as viewer:
        assert not labels.exists()  # nothing is written before there is a label
        for g in range(6):
            for i in range(4):
                # People agree with the judge, but for one verdict of the first group.
                score = 0.0 if (g, i) == (0, 2) else records[g].scores[i][0]
                status, answer = post(viewer, {"run": 0, "g": g, "rollout": i, "criterion": "Facts", "score": score})
                assert status == 200
        assert answer["count"] == 24
        assert viewer.ask("group", g=0)["labels"] == {"Facts": [1.0, 0.0, 0.0, 0.0]}
        assert viewer.ask("state")["labels"] == {"path": str(labels), "count": 24}
    result = CliRunner().invoke(
        app,
        ["judge", "audit", str(tmp_path / "scores.parquet"), "--humans", str(labels), "--bootstrap", "100", "--json"],
    )
    assert result.exit_code == 0, result.output
    agreement = json.loads(result.stdout)["agreement"]
    assert agreement
    assert "humans" in json.dumps(agreement)


def test_labels_are_continued_changed_and_removed(tmp_path: Path, record_of: Make) -> None:
    record = record_of({"A": [1.0, 0.0], "B": [0.0, 1.0]}, [1.0, 0.0])
    path = tmp_path / "labels.jsonl"
    LabelFile(path).put(record, group="q", rollout=1, criterion="B", score=0.0)
    labels = LabelFile(path)
    labels.put(record, group="q", rollout=0, criterion="A", score=1.0)
    assert labels.list_group("q", 2) == {"B": [None, 0.0], "A": [1.0, None]}
    labels.put(record, group="q", rollout=1, criterion="B", score=None)
    assert LabelFile(path).count() == 1
    assert read_scores(path)["q"].score(0, "A") == 1.0
    assert labels.list_group("q", 3) == {}  # another group of the same name


@pytest.mark.parametrize(
    ("change", "error"),
    [({"criterion": "C"}, UnknownName), ({"rollout": 2}, InvalidInput), ({"score": 1.5}, InvalidInput)],
)
def test_impossible_labels_are_refused(tmp_path: Path, record_of: Make, change: Any, error: type[Exception]) -> None:
    label = {"group": "q", "rollout": 0, "criterion": "A", "score": 1.0, **change}
    with pytest.raises(error):
        LabelFile(tmp_path / "labels.jsonl").put(record_of({"A": [1.0, 0.0]}, [1.0, 0.0]), **label)
    assert not (tmp_path / "labels.jsonl").exists()


def test_other_files_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "labels.jsonl").write_text('{"prompt": "my data"}\n')
    with pytest.raises(InvalidInput):
        LabelFile(tmp_path / "labels.jsonl")
    with pytest.raises(InvalidInput, match="labels"):
        LabelFile(tmp_path / "labels.txt")


def test_only_json_from_this_page_is_taken(tmp_path: Path, record_of: Make) -> None:
    """A form of another web page can send text, but not JSON."""
    write_records(tmp_path / "r.jsonl", [record_of({"A": [1.0, 0.0]}, [1.0, 0.0])])
    label = {"run": 0, "g": 0, "rollout": 0, "criterion": "A", "score": 1.0}
    with served(tmp_path / "r.jsonl", labels=tmp_path / "labels.jsonl") as viewer:
        assert post(viewer, label, "text/plain")[0] == 415
        assert post(viewer, {**label, "g": 9})[0] == 404
        assert post(viewer, {"g": 0})[0] in (400, 404)
        assert post(viewer, {**label, "score": "x"})[0] == 400
        assert post(viewer, {**label, "run": -1})[0] == 400
        assert post(viewer, {**label, "rollout": None})[0] == 400
        assert post(viewer, [label])[0] == 400
        assert viewer.open("api/label")[0] == 405
    with served(tmp_path / "r.jsonl") as viewer:
        status, answer = post(viewer, label)
        assert (status, "--labels" in answer["error"]) == (400, True)
    assert not (tmp_path / "labels.jsonl").exists()


def test_a_group_of_several_steps_has_the_name_that_the_audit_gives_it(tmp_path: Path, record_of: Make) -> None:
    records = [record_of({"A": [1.0, 0.0]}, [1.0, 0.0], group="q", step=step) for step in (3, 4)]
    write_records(tmp_path / "records.jsonl", records)
    with served(tmp_path / "records.jsonl", labels=tmp_path / "labels.jsonl") as viewer:
        post(viewer, {"run": 0, "g": 1, "rollout": 0, "criterion": "A", "score": 1.0})
        assert viewer.ask("group", g=0)["labels"] == {}
    assert [group.id for group in read_scores(tmp_path / "labels.jsonl")] == ["q (step 4)"]
    humans = ["--humans", str(tmp_path / "labels.jsonl"), "--bootstrap", "100", "--json"]
    result = CliRunner().invoke(app, ["judge", "audit", str(tmp_path / "records.jsonl"), *humans])
    assert result.exit_code == 0, result.output
