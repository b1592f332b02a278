"""The worked page is what its script writes, and the script for users with a model runs with scripted ones."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("aiohttp", reason="pip install 'rubrank[judge]'")
ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"


def test_the_page_is_what_the_script_writes(tmp_path):
    page = tmp_path / "page.md"
    command = [sys.executable, str(ROOT / "benchmarks" / "drafting_example.py"), str(page)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    written = page.read_text(encoding="utf-8")
    assert written == (ROOT / "docs" / "drafting_example.md").read_text(encoding="utf-8")
    assert "No real model was run" in written


@pytest.mark.slow
@pytest.mark.skipif(not DATA.exists(), reason="the data is not here")
def test_the_script_for_users_with_a_model():
    script = str(ROOT / "benchmarks" / "drafting_with_models.py")
    command = [sys.executable, script, "--scripted", "--limit", "3", "--data", str(DATA)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    for words in ("scripted models", "HealthBench", "WritingBench", "coverage", "precision", "accuracy", "cost"):
        assert words in done.stdout
    without = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=100, cwd=ROOT)
    assert without.returncode == 2
    assert "--writers and --judges are needed" in without.stderr
