"""The comparison of two trees runs and prints its table; here both are this one. What it measures is never asserted."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def compared(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "benchmarks/before_after.py", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, encoding="utf-8", check=False)


@pytest.mark.slow
def test_one_line_a_case():
    done = compared("src", "--quick", "--only", "N = 8")
    assert done.returncode == 0, done.stderr
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("| N = ")]
    assert re.fullmatch(r"\| N = 8 \| \S+ µs \| \S+ µs \| \d+\.\d\d \| ≤ 1\.05 × \| (yes|no) \|", row)


@pytest.mark.slow
def test_a_folder_that_is_no_tree():
    done = compared("docs")
    assert done.returncode == 2
    assert "name the src folder of the older tree" in done.stderr
