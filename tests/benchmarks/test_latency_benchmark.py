"""The table of latencies comes out, and what it says about limits holds."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("openai", reason="the official client is measured beside ours: pip install openai")
ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_it_runs(tmp_path):
    out = tmp_path / "out.json"
    command = [sys.executable, str(ROOT / "benchmarks" / "latency.py"), "--quick", "--json", str(out)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    rows = json.loads(out.read_text())
    assert {row["who"] for row in rows} == {"rubrank", "openai", "aiohttp"}
    assert done.stdout.startswith("| calls | before | ideal |")
    seen = next(row["note"] for row in rows if row["what"].startswith("two processes"))
    assert int(re.match(r"\d+", seen).group()) <= 8  # of two processes together, with four places each
    assert all(row["seconds"] > 0 and row["processor"] > 0 for row in rows)
