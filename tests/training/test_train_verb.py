"""The verb train: plans, errors in one line, a run from the command line, interrupted and resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from cases import nightly
from typer.testing import CliRunner

pytest.importorskip("torch", reason="TRL is not installed: pip install torch==2.13.0 trl==1.16.0")
pytest.importorskip("trl", reason="TRL is not installed: pip install torch==2.13.0 trl==1.16.0")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # their warnings are not ours to mend

from training import tiny  # noqa: E402

from rubrank.cli.app import app  # noqa: E402
from rubrank.records.files import read_records  # noqa: E402

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
from rubrank.cli.app import app
app(["train", *sys.argv[1:]])
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tiny.make(tmp_path_factory.mktemp("tiny"))


def said(*words: str) -> Any:
    return CliRunner().invoke(app, ["train", *words])


def started(*words: str, launcher: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *(launcher or ("-c", PROGRAM)), *words]
    return subprocess.Popen(command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_dry_run_prints_the_plan(folder):
    result = said(str(folder / "config.yaml"), "--dry-run")
    assert result.exit_code == 0
    assert "45 steps, 8 prompts × 8 rollouts a batch" in result.output
    assert not (folder / "run").exists()


def test_a_dry_run_for_machines(folder):
    result = said(str(folder / "config.yaml"), "--dry-run", "--json")
    assert json.loads(result.stdout)["batch"]["rollouts"] == 64


def test_what_is_wrong_is_one_line(folder):
    result = said(str(folder / "none.yaml"))
    assert result.exit_code == 2
    assert result.stderr.startswith("rubrank: ")
    assert result.stderr.count("\n") == 1


def test_ctrl_c_and_resume(folder):
    stages = [{"steps": 300, "sources": [{"path": "prompts.jsonl"}]}]
    job = tiny.job(folder, stages=stages, held_out=None, training__save_steps=1, output="stopped")
    process = started(str(job.file))
    deadline = time.monotonic() + 120
    while not list(job.output.glob("checkpoint-*/trainer_state.json")):
        assert process.poll() is None, process.communicate()[1][-2000:]
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"rubrank: interrupted; continue with: rubrank train {job.file} --resume" in errors
    assert "Traceback" not in errors
    again = said(str(job.file))
    assert again.exit_code == 2
    assert "Use --resume" in again.stderr
    assert "resumes     from" in said(str(job.file), "--resume", "--dry-run").output


@nightly()  # test_trl_processes trains in two processes by day
def test_two_processes_share_the_steps(folder):
    stages = [{"steps": 2, "sources": [{"path": "prompts.jsonl"}]}]
    changes: dict[str, Any] = {"stages": stages, "training__per_device_train_batch_size": 16}
    job = tiny.job(folder, output="two", **changes)
    script = folder / "program.py"
    script.write_text(PROGRAM)
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(script))
    process = started(str(job.file), launcher=launcher)
    output, errors = process.communicate(timeout=200)
    assert process.returncode == 0, errors[-3000:]
    assert "processes: 2, 16 rollouts at a time, 2 times for an update" in output
    assert output.count("2 steps, 8 prompts") == 1  # one of them speaks
    assert "held out: LetterE" in errors
    records = [record for record in read_records(job.output / "records.jsonl") if record.metadata["mode"] == "train"]
    assert [(record.step, record.size) for record in records] == [(step, 8) for step in (0, 1) for _ in range(8)]
