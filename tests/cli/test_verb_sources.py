"""What one verb reads, all of them read; what none can read is one line in each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cases import folded
from typer.testing import CliRunner

from rubrank.cli.app import app

LONG = "prompt_id,response_id,criterion,score\n" + "".join(
    f"{q},{r},{c},{s}\n"
    for q in ("q1", "q2")
    for r, scores in (("a", "13"), ("b", "05"))
    for c, s in zip("FS", scores, strict=True)
)
VERBS = {
    "fuse": ["fuse"],
    "explain": ["explain", "--group", "q1"],
    "replay": ["replay", "--rules", "rlvr2,borda"],
    "robustness": ["robustness", "--rules", "rlvr2"],
    "record": ["record", "-o", "out.jsonl"],
    "report": ["report", "-o", "out.html"],
    "audit": ["judge", "audit", "--bootstrap", "10"],
    "bench": ["bench", "fusion", "--rules", "borda", "--rounds", "1"],
}
OTHERS = {"grade": ["grade", "-r", "gates"], "check": ["check"], "conformance": ["conformance"]}


def run(*arguments, **more):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], **more)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("long.csv").write_text(LONG)
    Path("empty").mkdir()
    return tmp_path


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_reads_a_long_table_and_standard_input(folder, verb):
    done = run(*VERBS[verb], "long.csv")
    assert done.exit_code == 0, done.output
    again = run(*VERBS[verb], "-", *(["--force"] if verb in ("record", "report") else []), input=LONG)
    assert again.exit_code == 0, again.output


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_takes_the_names_of_columns(folder, verb):
    Path("t.csv").write_text(LONG.replace("prompt_id", "q").replace("criterion", "what"))
    given = ["--group-column", "q", "--set", "long=true", "--set", "column.criterion=what"]
    if verb in ("audit", "bench"):
        given = ["--group-column", "q", "--long", "--column", "criterion=what"]
    done = run(*VERBS[verb], "t.csv", *given)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("verb", ["record", "replay", "robustness", "bench", "report"])
def test_what_was_read_is_said(folder, verb):
    assert "read 4 rollouts in 2 groups (long CSV, by prompt_id)." in run(*VERBS[verb], "long.csv").stderr


@pytest.mark.parametrize("verb", [*VERBS, *OTHERS])
@folded("name", ["t.csv", "t.jsonl", "t.json", "t.tsv", "r.yaml"])
def test_what_is_not_utf8_is_one_line(folder, verb, name):
    text = '{"group": "é", "prompt": "é", "response": "é", "F": 1}\n' if ".j" in name else "group\té\nq\t1\n"
    Path(name).write_bytes((text if ".csv" not in name else "group,é\nq,1\n").encode("latin-1"))
    done = run(*(VERBS | OTHERS)[verb], name)
    assert done.exit_code in (1, 2)
    assert "Traceback" not in done.output
    if not name.endswith(".yaml") or verb == "check":
        assert "Save it as UTF-8" in done.output
    assert isinstance(done.exception, SystemExit)


@pytest.mark.parametrize("verb", [*VERBS, *OTHERS])
@folded("name", ["nowhere.csv", "empty", "*.parquet", "x\ty", "", "-"])
def test_what_is_not_there_is_one_line(folder, verb, name):
    done = run(*(VERBS | OTHERS)[verb], name)
    assert done.exit_code in (1, 2)
    assert isinstance(done.exception, SystemExit)
    assert len(done.output.strip().splitlines()) <= 12  # a usage message has a frame


def test_judged_scores_that_are_all_missing_give_no_reward(folder):
    rows = [{"id": "q", "prompt": "p", "responses": ["a", "b"]}]
    Path("r.jsonl").write_text(json.dumps(rows[0]))
    Path("rubric.yaml").write_text("criteria:\n  - {name: Kind, question: 'Kind?'}\n  - EmptyAnswer\n")
    done = run("grade", "r.jsonl", "-r", "rubric.yaml", "-o", "s.parquet", "--most-missing", "1")
    assert done.exit_code == 0, done.output
    fused = run("fuse", "s.parquet")
    assert fused.exit_code == 2
    assert "every score is missing" in fused.stderr
    assert "mean reward" not in fused.output


def test_presets_are_checked_and_graded_with_by_name(folder):
    checked = run("check", "long-context")
    assert checked.exit_code == 0
    assert "long-context: no problems" in checked.output
    responses = ("So \\boxed{0.5}.", "So \\boxed{2}.")
    rows = [{"prompt": "1/4 + 1/4?", "response": response, "answer": "1/2"} for response in responses]
    Path("rollouts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    graded = run("grade", "rollouts.jsonl", "--rubric", "maths", "--most-missing", "1", "-o", "scores.jsonl")
    assert graded.exit_code == 0, graded.output
    lines = [json.loads(line) for line in Path("scores.jsonl").read_text().splitlines()]
    scores = [line["scores"] for line in lines if "scores" in line]
    assert [row["GroundTruthMatch"] for row in scores] == [1, 0]
    assert [row["EmptyAnswer"] for row in scores] == [1, 1]
