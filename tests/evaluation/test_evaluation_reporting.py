"""Scored runs in the report: the capability table and curves over steps."""

import base64
import gzip
import json
import re

import pytest
from typer.testing import CliRunner

from rubrank.cli.app import app
from rubrank.evaluation.benchmark import ItemScore
from rubrank.evaluation.runs import EvalRun, write_run
from rubrank.evaluation.table import bootstrap_interval, report_data


def frames(model, values, **sampling):
    scores = tuple(ItemScore(str(n), {"correct": float(v)}) for n, v in enumerate(values))
    return EvalRun(
        "frames", model, {"context": "oracle"}, scores, {"accuracy": sum(values) / len(values)}, sampling=sampling
    )


def test_table_and_curves_of_checkpoints_by_hand():
    early, late = frames("step 0", [1, 0, 0, 0], step=0), frames("step 20", [1, 1, 1, 0], step=20)
    found = report_data([early, late])
    assert found["columns"] == ["FRAMES", "long context", "overall"]
    assert found["rows"] == [
        {"model": "step 0", "points": [25.0, 25.0, 25.0]},
        {"model": "step 20", "points": [75.0, 75.0, 75.0]},
    ]
    (curve,) = found["curves"]
    assert curve["name"] == "FRAMES, accuracy"
    assert [point[:2] for point in curve["points"]] == [[0, 25.0], [20, 75.0]]
    assert all(point[2] > 0 for point in curve["points"])
    assert "step 0, FRAMES: accuracy, context oracle, step 0, 4 of 4 scored" in found["notes"]


def test_one_step_is_no_curve():
    assert report_data([frames("a", [1, 0], step=3), frames("b", [1, 0])])["curves"] == []


def test_an_interval_covers_the_value_and_is_a_point_where_all_agree():
    low, high = bootstrap_interval(frames("a", [1, 0] * 50))
    assert 38.0 < low < 50.0 < high < 62.0
    assert bootstrap_interval(frames("a", [1] * 10)) == (100.0, 100.0)


def test_the_table_with_intervals(tmp_path):
    write_run(frames("a", [1, 0] * 50), tmp_path / "runs" / "frames.json")
    command = ["eval", "table", str(tmp_path / "runs"), "--intervals"]
    (row,) = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)["rows"]
    low, high = row["intervals"]["frames"]
    assert low < row["points"]["frames"] == 50.0 < high
    printed = CliRunner().invoke(app, [*command, "-o", str(tmp_path / "t.md")])
    assert printed.exit_code == 0, printed.output
    assert f"50.00 [{low:.2f}, {high:.2f}]" in (tmp_path / "t.md").read_text()
    without = CliRunner().invoke(app, ["eval", "table", str(tmp_path / "runs"), "--json"])
    assert json.loads(without.stdout)["rows"][0]["intervals"] == {}


@pytest.fixture
def records(tmp_path):
    scores = tmp_path / "scores.jsonl"
    scores.write_text(
        "".join(json.dumps({"group": "q", "scores": {"A": a, "B": 1 - a}}) + "\n" for a in (0.0, 0.3, 1.0))
    )
    return scores


def read_block(page, name):
    """A block of data that the page embeds; None if it has no such block."""
    packed = re.search(rf'id="data-{name}">([^<]*)<', page.read_text(encoding="utf-8"))
    return None if packed is None else json.loads(gzip.decompress(base64.b64decode(packed[1])))


def test_the_report_shows_the_table(tmp_path, records):
    write_run(frames("<b>a</b>", [1, 0]), tmp_path / "runs" / "frames.json")
    page = tmp_path / "report.html"
    command = ["report", str(records), "--group-column", "group", "-o", str(page)]
    done = CliRunner().invoke(app, [*command, "--eval", str(tmp_path / "runs")])
    assert done.exit_code == 0, done.output
    (row,) = read_block(page, "evaluation")["rows"]
    assert (row["model"], row["points"]) == ("<b>a</b>", [50.0, 50.0, 50.0])
    assert read_block(page, "state")["has_evaluation"]
    assert "<b>a</b>" not in page.read_text(encoding="utf-8")
    without = CliRunner().invoke(app, [*command, "--force"])
    assert without.exit_code == 0, without.output
    assert read_block(page, "evaluation") is None
    assert not read_block(page, "state")["has_evaluation"]


def test_the_report_says_which_file_is_no_run(tmp_path, records):
    (tmp_path / "x.json").write_text("{}")
    command = ["report", str(records), "--group-column", "group", "-o", str(tmp_path / "r.html")]
    done = CliRunner().invoke(app, [*command, "--eval", str(tmp_path / "x.json")])
    assert done.exit_code == 2
    assert "x.json" in done.output
    assert not (tmp_path / "r.html").exists()


def test_one_item_has_no_interval(tmp_path):
    write_run(frames("a", [1]), tmp_path / "frames.json")
    done = CliRunner().invoke(app, ["eval", "table", str(tmp_path / "frames.json"), "--intervals", "--json"])
    assert done.exit_code == 0, done.output
    row = json.loads(done.stdout)["rows"][0]
    assert row["points"] == {"frames": 100.0}
    assert row["intervals"] == {}
