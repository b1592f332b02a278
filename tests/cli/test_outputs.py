"""One policy for everything that is written: checked first, never the input, --force, complete or as it was."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import polars
import pytest
from typer.testing import CliRunner

from rubrank._files import atomic_write, check_output_path
from rubrank.cli.app import app
from rubrank.errors import InvalidInput
from rubrank.scores.files import read_scores

ROWS = [{"id": "q1", "prompt": "Tell.", "responses": ["One two three.", "One.", "Two, three."]}]
JUDGES = {
    "judges": [
        {
            "name": "main",
            "kind": "absolute",
            "endpoints": [{"base_url": "http://127.0.0.1:9/v1", "model": "m", "price": {"input": 1.0, "output": 10.0}}],
        }
    ]
}


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    Path("rubric.yaml").write_text("criteria:\n  - {name: WordCount, params: {low: 2}}\n  - Postscript\n")
    Path("judged.yaml").write_text("criteria:\n  - {name: Kind, question: 'Kind?'}\n  - Postscript\n")
    Path("judges.json").write_text(json.dumps(JUDGES))
    return tmp_path


def graded():
    done = run("grade", "r.jsonl", "-r", "rubric.yaml", "-o", "s.parquet", "--cache", "none")
    assert done.exit_code == 0, done.output


# ---------------------------------------------------------------------------------------------------------- all verbs

VERBS = {
    "grade": (["grade", "r.jsonl", "-r", "rubric.yaml", "--cache", "none"], "out.parquet"),
    "record": (["record", "s.parquet"], "out.jsonl"),
    "report": (["report", "records.jsonl"], "out.html"),
    "fuse": (["fuse", "s.parquet"], "out.csv"),
}


@pytest.fixture
def made(folder):
    graded()
    assert run("record", "s.parquet", "-o", "records.jsonl").exit_code == 0
    return folder


@pytest.mark.parametrize("verb", VERBS)
def test_what_is_there_is_replaced_with_force_only(made, verb):
    arguments, name = VERBS[verb]
    Path(name).write_text("mine")
    refused = run(*arguments, "-o", name)
    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    assert Path(name).read_text() == "mine"
    done = run(*arguments, "-o", name, "--force")
    assert done.exit_code == 0, done.output
    assert Path(name).read_bytes() != b"mine"


@pytest.mark.parametrize("verb", VERBS)
def test_the_input_is_never_the_output(made, verb):
    arguments, _ = VERBS[verb]
    source = Path(arguments[1])
    before = source.read_bytes()
    for name in (source, made / source, Path("link")):
        if name == Path("link"):
            name = name.with_suffix(source.suffix)
            name.symlink_to(source)
        assert run(*arguments, "-o", name, "--force").exit_code == 2
        assert source.read_bytes() == before


@pytest.mark.parametrize("verb", VERBS)
def test_folders_are_made_and_nothing_else_is_left(made, verb):
    arguments, name = VERBS[verb]
    done = run(*arguments, "-o", Path("a/b") / name)
    assert done.exit_code == 0, done.output
    assert [path.name for path in Path("a/b").iterdir()] == [name]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", ["out.xlsx", "out", ".", "r.jsonl/out.parquet"])
def test_names_that_cannot_be_written_are_refused(made, verb, name):
    arguments, _ = VERBS[verb]
    done = run(*arguments, "-o", name, "--force")
    assert done.exit_code == 2
    assert done.stderr.startswith("rubrank: ")
    assert "Traceback" not in done.output


@pytest.mark.parametrize("verb", ["record", "report", "fuse"])
def test_a_run_that_fails_leaves_the_earlier_file(made, verb):
    arguments, name = VERBS[verb]
    Path(name).write_text("mine")
    source = Path("broken").with_suffix(Path(arguments[1]).suffix)
    source.write_bytes(Path(arguments[1]).read_bytes()[:40])
    assert run(arguments[0], source, "-o", name, "--force").exit_code == 2
    assert Path(name).read_text() == "mine"


# --------------------------------------------------------------------------------------------------------- the helpers


def test_an_error_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("before")

    def fails():
        with atomic_write(path) as partial:
            partial.write_text("half")
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["x.txt"]
    with atomic_write(path) as partial:
        partial.write_text("whole")
    assert path.read_text() == "whole"


def test_a_device_is_written_to_and_stays_one():
    with atomic_write(os.devnull) as partial:
        partial.write_text("x")
    assert not Path(os.devnull).is_file()
    assert check_output_path(os.devnull, (".parquet",)) == Path(os.devnull)


def test_what_a_killed_process_left_is_removed_after_a_day(tmp_path):
    path = tmp_path / "o.parquet"
    half = tmp_path / ".o.parquet.0123abcd.rubrank.tmp"
    half.write_text("half")
    (tmp_path / ".o.parquet.1.tmp").write_text("not ours")
    for is_old in (False, True):
        if is_old:
            os.utime(half, (0, 0))
        with atomic_write(path) as temporary:
            temporary.write_bytes(b"whole")
        assert half.exists() is not is_old  # a young one may be of a process that is alive
    assert sorted(file.name for file in tmp_path.iterdir()) == [".o.parquet.1.tmp", "o.parquet"]


def test_long_names_in_any_script_can_be_written(tmp_path):
    path = tmp_path / ("评" * 80 + ".csv")  # 244 bytes
    with atomic_write(path) as temporary:
        temporary.write_text("x")
    assert path.read_text() == "x"


def test_no_reader_sees_half_a_table(tmp_path):
    """A reader looks as fast as it can while the table is replaced again and again."""
    path = tmp_path / "scores.parquet"
    code = """
import sys, polars
from rubrank._files import atomic_write
for n in range(60):
    with atomic_write(sys.argv[1]) as temporary:
        polars.DataFrame({"n": [n] * 200_000, "text": [str(n)] * 200_000}).write_parquet(temporary)
"""
    with subprocess.Popen([sys.executable, "-c", code, str(path)]) as writer:
        readings = 0
        while writer.poll() is None:
            if path.exists():
                # polars opens a path twice, and the file may be replaced in between.
                table = polars.read_parquet(io.BytesIO(path.read_bytes()))
                assert table.height == 200_000
                assert table["n"].n_unique() == 1
                readings += 1
    assert writer.returncode == 0
    assert readings


def test_a_folder_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="a folder that can be written to"):
        check_output_path(tmp_path / "file" / "x.txt")


def test_a_full_disk_is_seen_first(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 10})())
    with pytest.raises(InvalidInput, match="with room left"):
        check_output_path(tmp_path / "x.txt")


# ---------------------------------------------------------------------------------------------------- nothing is spent


@pytest.mark.parametrize(
    "wrong",
    [
        ("-o", "out.csv"),
        ("-o", "r.jsonl"),
        ("-o", "."),
        ("--timeout", "soon"),
        ("--most-missing", "2"),
        ("--column", "x"),
        ("--column", "response=nowhere"),
        ("--group-column", "nowhere"),
    ],
)
def test_mistakes_come_before_the_first_call(folder, wrong, monkeypatch):
    def never(*_: object, **__: object) -> None:
        raise AssertionError("a judge was asked")

    monkeypatch.setattr("rubrank.grading.judge_table.judge_groups", never)
    done = run("grade", "r.jsonl", "-r", "judged.yaml", "--judges", "judges.json", "--force", *wrong)
    assert done.exit_code == 2
    assert "rubrank: " in done.stderr
    assert not isinstance(done.exception, AssertionError)


def test_a_judged_rubric_without_judges_is_refused(folder):
    done = run("grade", "r.jsonl", "-r", "judged.yaml", "-o", "s.parquet")
    assert done.exit_code == 2
    assert "only a judge can decide 'Kind'" in done.stderr
    assert not Path("s.parquet").exists()
    allowed = run("grade", "r.jsonl", "-r", "judged.yaml", "-o", "s.parquet", "--most-missing", "1")
    assert allowed.exit_code == 0
    assert "missing: 3 of 6 scores (50.0%): 3 × needs a judge" in allowed.stderr


def test_too_much_missing_fails_and_leaves_the_earlier_output(folder):
    Path("s.parquet").write_text("mine")
    rubric = ["rubric.yaml", "--most-missing", "0.1"]
    Path("rubric.yaml").write_text(
        "criteria:\n  - {name: WordCount, params: {low: 2}}\n  - {name: GroundTruthMatch}\n"
    )  # there is no truth
    done = run("grade", "r.jsonl", "-r", *rubric, "-o", "s.parquet", "--force", "--cache", "none")
    assert done.exit_code == 2
    assert "3 of 6 scores are missing (50.0%; --most-missing allows 10.0%)" in done.stderr
    assert Path("s.parquet").read_text() == "mine"
    assert (
        run("grade", "r.jsonl", "-r", "rubric.yaml", "-o", "s.parquet", "--force", "--most-missing", "0.5").exit_code
        == 0
    )


def test_everything_missing_always_fails(folder):
    Path("rubric.yaml").write_text("criteria: [GroundTruthMatch]\n")
    done = run("grade", "r.jsonl", "-r", "rubric.yaml", "-o", "s.parquet", "--most-missing", "1")
    assert done.exit_code == 2
    assert "all of them" in done.stderr
    assert not Path("s.parquet").exists()


def test_what_was_read_and_what_is_missing_is_said(folder):
    done = run("grade", "r.jsonl", "-r", "rubric.yaml", "-o", "s.parquet")
    assert "read 3 rollouts in 1 group (JSON Lines, by id)." in done.stderr
    assert "missing: none of 6 scores" in done.stderr
    assert len(read_scores(Path("s.parquet"))) == 3


# -------------------------------------------------------------------------------------------------------------- dry run


@pytest.mark.parametrize(
    ("kind", "calls"), [("absolute", 3), ("batched", 3), ("listwise", 1), ("pairwise", 6)]
)  # 3 rollouts; all pairs in both orders
def test_a_dry_run_counts_calls_tokens_and_cost(folder, kind, calls):
    Path("judges.json").write_text(json.dumps({"judges": [{**JUDGES["judges"][0], "kind": kind}]}))
    done = run("grade", "r.jsonl", "-r", "judged.yaml", "--judges", "judges.json", "--dry-run", "--json")
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    (judge,) = data["judges"]
    assert (judge["judge"], judge["kind"], judge["model"], judge["calls"]) == ("main", kind, "m", calls)
    assert judge["input_tokens"] > 50 * calls
    assert judge["output_tokens"] == 1024 * calls
    assert judge["cost"] == pytest.approx((judge["input_tokens"] + 10 * judge["output_tokens"]) / 1e6)
    assert (data["rollouts"], data["verdicts"], data["judged"]) == (3, 3, 3)
    assert {path.name for path in folder.iterdir()} == {"r.jsonl", "rubric.yaml", "judged.yaml", "judges.json"}


def test_a_dry_run_for_people(folder):
    done = run("grade", "r.jsonl", "-r", "judged.yaml", "--judges", "judges.json", "--dry-run")
    assert "3 verdicts of programs, at most 3 of judges" in done.stdout
    alone = run("grade", "r.jsonl", "-r", "judged.yaml", "--dry-run")
    assert "no judge decides 'Kind'" in alone.stdout


@pytest.mark.parametrize("line", ["demo", "criteria --json", "fuse scores.csv --criteria all", "--version"])
def test_a_closed_standard_output_ends_the_command_quietly(tmp_path, line):
    (tmp_path / "scores.csv").write_text("group,A\ng,1\ng,0\n")
    command = f"exec {shlex.quote(sys.executable)} -m rubrank {line} >&-"
    result = subprocess.run(command, shell=True, cwd=tmp_path, stderr=subprocess.PIPE, check=False)
    assert (result.returncode, result.stderr) == (1, b"")
    assert [path.name for path in tmp_path.iterdir()] == ["scores.csv"]


def test_a_closed_standard_input_is_one_line(tmp_path):
    command = f"exec {shlex.quote(sys.executable)} -m rubrank fuse - <&-"
    result = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr.startswith("rubrank: standard input: the input must be open; got closed.")
    assert result.stderr.count("\n") == 1
