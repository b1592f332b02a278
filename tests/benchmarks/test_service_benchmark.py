"""The benchmark of the service runs, and its figures hold what they say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cases import nightly

ROOT = Path(__file__).parents[2]


@nightly()
@pytest.mark.slow
def test_it_runs(tmp_path):
    out = tmp_path / "out.json"
    command = [sys.executable, str(ROOT / "benchmarks" / "service.py"), "--quick", "--json", str(out)]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    found = json.loads(out.read_text())
    assert found["rules"]["same bits"] is True
    assert found["judges"]["failed"] == 0
    assert found["kill"]["of these paid again"] == 0
    assert found["kill"]["calls"] <= found["kill"]["needed"] + found["kill"]["under way at the kill, at most"]
