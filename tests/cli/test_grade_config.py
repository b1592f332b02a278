"""`rubrank grade --config`: the same options from a file, and the command line wins."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import folded
from typer.testing import CliRunner

import rubrank
from rubrank.cli.app import app

RUBRIC = "criteria:\n  - {name: WordCount, params: {low: 2}}\n  - Postscript\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("r.jsonl").write_text('{"uid": "q", "prompt": "Tell.", "said": "One two."}\n')
    Path("rubric.yaml").write_text(RUBRIC)
    return tmp_path


def run(config, *line):
    Path("grading.toml").write_text(config)
    return CliRunner().invoke(app, ["grade", "r.jsonl", "--config", "grading.toml", *line])


@pytest.mark.usefixtures("folder")
def test_a_file_and_the_command_line_that_wins():
    config = 'rubric = "rubric.yaml"\nworkers = 0\ncache = "none"\ngroup-column = "uid"\noutput = "a.jsonl"\n'
    config += 'mode = "loose"\ntimeout = "none"\nmost-missing = 0.5\n[column]\nresponse = "said"\n'
    done = run(config)
    assert done.exit_code == 0, done.output
    assert "(JSON Lines, by uid)" in done.stderr
    assert rubrank.read_scores("a.jsonl").groups[0].scores.tolist() == [[1.0, 0.0]]
    assert run(config).exit_code == 2  # a.jsonl is there, and the file does not say --force
    other = run(config, "-o", "b.jsonl", "--rubric", "gates")
    assert other.exit_code == 0, other.output
    assert "WordCount" not in rubrank.read_scores("b.jsonl").criteria


@folded(
    ("config", "said"),
    [
        ("worker = 1", "grading.toml: key must be one of 'address', "),
        ('workers = "many"', "grade: --workers must be a whole number; got 'many'"),
        ("workers = -1", "grade: --workers must be ≥ 0; got -1"),
        ('mode = "sloppy"', "grade: --mode must be one of 'strict', 'loose'; got 'sloppy'"),
        ("column = 3", "grade: --column must be FIELD=COLUMN; got '3'"),
        ("rubric = [", "grading.toml: the file must be valid TOML"),
        (
            'rubric = "nope.yaml"\n[column]\nresponse = "said"',
            "nope.yaml: the file must be a file that can be read; got no such file",
        ),
        ("most-missing = 2", "grade: --most-missing must be a share from 0 to 1; got 2.0"),
        ("timeout = -1", "grade: --timeout must be seconds > 0"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_is_wrong_in_a_file_is_one_line(config, said):
    done = run(config)
    assert (done.exit_code, done.stderr.count("rubrank: ")) == (2, 1)
    assert done.stderr.splitlines()[-1].startswith(f"rubrank: {said}")
    assert not Path("scores.parquet").exists()


@folded("name", ["none.toml", "r.jsonl", "."])
@pytest.mark.usefixtures("folder")
def test_a_file_that_cannot_be_read_is_one_line(name):
    done = CliRunner().invoke(app, ["grade", "r.jsonl", "--config", name])
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith(f"rubrank: {name}: ")
