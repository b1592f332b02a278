"""The benchmark of judging runs, prints every case and writes valid JSON. What it measures is never asserted."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_it_runs(tmp_path):
    command = [sys.executable, "benchmarks/judging.py", "--quick", "--json", str(tmp_path / "figures.json")]
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, check=False
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / "figures.json").read_text())
    cases = [row["case"] for row in figures["rows"] if row["unit"] == "s"]
    assert cases == ["all calls", "the same", "no cache", "replies kept in a file"]
    assert all(row["ours"] > 0 for row in figures["rows"])
    assert set(figures["calls_per_second"]) == {"all calls", "no cache", "replies kept in a file"}
