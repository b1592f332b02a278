"""The benchmark of training runs, prints both rows and writes valid JSON. What it measures is never asserted."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="TRL is not installed: pip install torch==2.13.0 trl==1.16.0")
pytest.importorskip("trl", reason="TRL is not installed: pip install torch==2.13.0 trl==1.16.0")
pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


def test_it_runs_with_a_tiny_policy(tmp_path):
    subprocess.run([sys.executable, "recipes/tiny_policy/make.py", str(tmp_path / "tiny")], cwd=ROOT, check=True)
    command = [sys.executable, "benchmarks/training.py", "--steps", "2", "--tokens", "8"]
    command += ["--policy", str(tmp_path / "tiny" / "policy"), "--json", str(tmp_path / "figures.json")]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "figures.json").read_text())["rows"]
    assert [row["case"] for row in rows] == ["rewards, median", "rewards, longest"]
    assert all(row["ours"] > 0 < row["rivals"] for row in rows)
