"""The benchmark of grading runs, prints every case and writes valid JSON. What it measures is never asserted."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data" / "m_ifeval" / "en_groups.jsonl.gz"


@pytest.mark.slow
@pytest.mark.skipif(not DATA.exists(), reason="needs ../shared/data")
def test_it_runs(tmp_path):
    command = [sys.executable, "benchmarks/grading.py", "--quick", "--json", str(tmp_path / "figures.json")]
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "figures.json").read_text())["rows"]
    cases = [row["case"] for row in rows]
    assert "10 rule criteria and 11 Markdown attributes" in cases
    assert len(cases) == 14
    assert all(row["ours"] > 0 for row in rows)
