"""`rubrank init`: the folder that it makes runs as it is."""

from __future__ import annotations

import shlex
from pathlib import Path

from typer.testing import CliRunner

from rubrank.cli.app import app


def run(*words):
    return CliRunner().invoke(app, list(words))


def test_the_commands_that_it_prints_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = run("init", "mine")
    assert made.exit_code == 0, made.output
    lines = [line.strip() for line in made.stdout.splitlines() if line.startswith("  ")]
    assert lines[0] == "cd mine"
    monkeypatch.chdir(tmp_path / "mine")
    assert run("check", "rubric.yaml").exit_code == 0
    for line in lines[1:]:
        program, *arguments = shlex.split(line)
        assert program == "rubrank"
        done = run(*arguments)
        assert done.exit_code == 0, done.output
    assert Path("report.html").exists()
    fused = run("fuse", "scores.parquet", "--json", "--config", "settings.toml")
    assert fused.exit_code == 0
    # Two to four sentences with the moon are best; the short one lacks a sentence, the last one the moon.
    assert '"reward":1.0' in fused.stdout.splitlines()[0]
    assert '"reward":0.0' in fused.stdout.splitlines()[3] or '"reward":0.25' in fused.stdout.splitlines()[3]


def test_with_the_judged_criterion_the_judge_is_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("init", ".").exit_code == 0
    rubric = Path("rubric.yaml")
    rubric.write_text(rubric.read_text().replace("  # - {name: Correct", "  - {name: Correct"))
    assert run("check", "rubric.yaml").exit_code == 0
    estimate = run("grade", "rollouts.jsonl", "-r", "rubric.yaml", "--judges", "judges.yaml", "--dry-run")
    assert estimate.exit_code == 0, estimate.output
    assert "my-model" in estimate.stdout


def test_nothing_is_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("rubric.yaml").write_text("mine")
    refused = run("init", ".")
    assert refused.exit_code == 2
    assert "nothing is replaced" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["rubric.yaml"]
