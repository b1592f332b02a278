"""The verb view: one clear line where there is nothing to look at; an address, and a quiet end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rubrank.cli.app import app
from rubrank.evaluation.benchmark import ItemScore
from rubrank.evaluation.runs import EvalRun, write_run
from rubrank.records.files import write_records
from rubrank.records.record import GroupRecord
from rubrank.scores.criterion import CriterionData

RECORD = GroupRecord(
    group="q",
    criteria=(CriterionData("A"),),
    scores=((0.0,), (1.0,)),
    weights=(1.0,),
    ranking=(0.0, 1.0),
    reward=(0.0, 1.0),
    no_signal=False,
)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["no.jsonl"], "no such file"),
        (["notes.txt"], "must be records, scores, rollouts"),
        (["empty"], "which has neither records nor scored runs"),
        (["r.jsonl", "no.jsonl"], "no such file"),
        (["r.jsonl", "--host", "203.0.113.1"], "an address that is free"),
        (["r.jsonl", "--rule=gdpo"], "--rule must be given with scores or rollouts; got records"),
        (["drafts.jsonl", "--rule=gdpo"], "--rule must be given with scores or rollouts; got drafted rubrics"),
        (["frames.json", "--rule=gdpo"], "--rule must be given with scores or rollouts; got a scored run"),
    ],
)
def test_what_cannot_be_shown_is_one_line(tmp_path: Path, given: list[str], said: str) -> None:
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "empty").mkdir()
    write_records(tmp_path / "r.jsonl", [RECORD])
    (tmp_path / "drafts.jsonl").write_text(json.dumps({"prompt": "Why?", "rubric": {}, "draft": {"items": []}}) + "\n")
    scored = EvalRun("frames", "a", {"context": "oracle"}, (ItemScore("1", {"correct": 1.0}),), {"accuracy": 1.0})
    write_run(scored, tmp_path / "frames.json")
    paths = [part if part.startswith("-") or part[0].isdigit() else str(tmp_path / part) for part in given]
    ran = CliRunner().invoke(app, ["view", *paths])
    assert ran.exit_code == 2
    assert said in " ".join(ran.output.split())
    assert "Traceback" not in ran.output


@pytest.mark.slow
def test_it_serves_until_ctrl_c(tmp_path: Path) -> None:
    write_records(tmp_path / "r.jsonl", [RECORD])
    command = [sys.executable, "-m", "rubrank", "view", str(tmp_path / "r.jsonl"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{address}api/state", timeout=60) as answer:
            assert json.loads(answer.read())["runs"][0]["name"] == "r.jsonl"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert "Traceback" not in errors
    assert process.returncode in (0, 130)
