"""The verb record, and the report that it is for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import rubrank
from rubrank.cli.app import app
from rubrank.records.files import read_records
from rubrank.scores.files import read_scores


def run(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def graded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [("q", "a b c"), ("q", "a"), ("q", ""), ("r", "a b"), ("r", "a b c d")]
    lines = [json.dumps({"prompt": "Say.", "group": group, "response": text}) for group, text in rows]
    Path("rollouts.jsonl").write_text("\n".join(lines) + "\n")
    Path("rubric.yaml").write_text("criteria: [{name: WordCount, params: {low: 2}}, EmptyAnswer]\n")
    assert run("grade", "rollouts.jsonl", "--rubric", "rubric.yaml", "-o", "s.parquet").exit_code == 0
    return tmp_path


@pytest.mark.parametrize("rule", ["rlvr2+", "gdpo+", "rlvr2*focal"])
def test_records_hold_the_rewards_of_the_rule(graded: Path, rule: str) -> None:
    options = ("--rule", rule, "--others", "weighted-mean,borda", "--rollouts", "rollouts.jsonl")
    result = run("record", "s.parquet", "-o", "r.jsonl", *options)
    assert result.exit_code == 0, result.output
    first, second = read_records("r.jsonl")
    assert (first.rule, second.responses) == (rule, ("a b", "a b c d"))
    assert set(first.others) == {"weighted-mean", "borda"}
    if rule == "rlvr2+":
        assert [*first.reward, *second.reward] == read_scores("s.parquet").fuse().reward.tolist()
    assert run("report", "r.jsonl", "-o", "r.html").exit_code == 0


def test_without_texts(graded: Path) -> None:
    run("record", "s.parquet", "-o", "r.parquet")
    assert [record.responses for record in read_records("r.parquet")] == [None, None]


def test_other_rollouts_are_refused(graded: Path) -> None:
    Path("few.jsonl").write_text(Path("rollouts.jsonl").read_text().splitlines()[0] + "\n")
    result = run("record", "s.parquet", "-o", "r.jsonl", "--rollouts", "few.jsonl")
    assert result.exit_code == 2
    assert "Give the file that was graded" in result.stderr
    assert not Path("r.jsonl").exists()


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@pytest.mark.parametrize("changed", [["b c", "a", "d e f"], ["a", "b c", "d e f, edited"]])
def test_texts_in_another_order_or_edited_since_are_refused(tmp_path, suffix, changed):
    def write(name, responses):
        path = tmp_path / name
        path.write_text(json.dumps({"id": "q", "prompt": "p", "responses": responses}) + "\n")
        return str(path)

    graded = write("r.jsonl", ["a", "b c", "d e f"])
    scores = tmp_path / f"s.{suffix}"
    rubrank.grade(graded, [{"name": "WordCount", "params": {"low": 2}}], workers=0).write(scores)
    line = ["record", str(scores), "-o", str(tmp_path / "records.jsonl"), "--rollouts"]
    refused = CliRunner().invoke(app, [*line, write("changed.jsonl", changed)])
    assert refused.exit_code == 2
    assert "of group 'q' must be the one that was scored; got another text" in refused.stderr
    assert not (tmp_path / "records.jsonl").exists()
    assert CliRunner().invoke(app, [*line, graded]).exit_code == 0


def test_a_report_of_scores_shows_the_texts_of_their_rollouts(tmp_path):
    rollouts = tmp_path / "r.jsonl"
    row = {"id": "q", "prompt": "p", "responses": ["a needle", "b", "c d e"]}
    rollouts.write_text(json.dumps(row) + "\n")
    scores = tmp_path / "s.parquet"
    rubrank.grade(rollouts, [{"name": "WordCount", "params": {"low": 2}}], workers=0).write(scores)
    for name, flags in (("without.html", []), ("with.html", ["--rollouts", str(rollouts)])):
        done = CliRunner().invoke(app, ["report", str(scores), "-o", str(tmp_path / name), *flags])
        assert done.exit_code == 0, done.output
    records = tmp_path / "records.jsonl"
    line = ["record", str(scores), "--rollouts", str(rollouts), "-o", str(records)]
    assert CliRunner().invoke(app, line).exit_code == 0
    done = CliRunner().invoke(app, ["report", str(records), "-o", str(tmp_path / "two.html"), "--title", "t"])
    assert done.exit_code == 0
    sizes = {name: (tmp_path / name).stat().st_size for name in ("without.html", "with.html", "two.html")}
    assert sizes["with.html"] > sizes["without.html"]
    refused = CliRunner().invoke(
        app, ["report", str(records), "-o", str(tmp_path / "x.html"), "--rollouts", str(rollouts)]
    )
    assert refused.exit_code == 2
    assert "--rollouts must be given with scores or rollouts; got records" in refused.stderr


def test_a_report_of_scores_reads_named_columns_of_their_rollouts(tmp_path):
    rollouts = tmp_path / "r.jsonl"
    rollouts.write_text(json.dumps({"id": "q", "asked": "a needle", "responses": ["a b", "c"]}) + "\n")
    (tmp_path / "rubric.yaml").write_text("criteria:\n- {name: WordCount, params: {low: 2}}\n")
    scores = tmp_path / "s.csv"
    scores.write_text("query,A\nq,1\nq,0\n")
    line = ["report", str(scores), "--rollouts", str(rollouts), "--rubric", str(tmp_path / "rubric.yaml")]
    line += ["--weight", "A=1", "--group-column", "query", "-o"]
    # The column of the groups is that of the scores; the rollouts have another.
    done = CliRunner().invoke(app, [*line, str(tmp_path / "one.html")])
    assert done.exit_code == 0, done.output
    rubrank.grade(rollouts, str(tmp_path / "rubric.yaml"), workers=0).write(tmp_path / "s.parquet")
    line = ["report", str(tmp_path / "s.parquet"), "--rubric", str(tmp_path / "rubric.yaml")]
    sizes = []
    for flags in ([], ["--set", "column.prompt=asked"]):
        page = tmp_path / f"{len(sizes)}.html"
        done = CliRunner().invoke(app, [*line, "--rollouts", str(rollouts), *flags, "-o", str(page)])
        assert done.exit_code == 0, done.output
        sizes.append(page.stat().st_size)
    assert sizes[1] > sizes[0]  # the prompt is shown


def test_an_unknown_rule_names_the_option_that_has_it(tmp_path: Path) -> None:
    (tmp_path / "scores.csv").write_text("group,A\nq,1\nq,0\n")
    line = [
        "record",
        str(tmp_path / "scores.csv"),
        "--criteria",
        "A",
        "-o",
        str(tmp_path / "r.jsonl"),
        "--others",
        "foo",
    ]
    refused = CliRunner().invoke(app, line)
    assert refused.exit_code == 2
    assert "rubrank: record: --others must be" in refused.stderr
