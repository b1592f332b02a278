"""The benchmark of training runs, prints both rows and writes valid JSON. What it measures is never asserted."""

import json
import runpy
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="TRL is not installed: pip install torch==2.13.0 trl==1.16.0")
pytest.importorskip("trl", reason="TRL is not installed: pip install torch==2.13.0 trl==1.16.0")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # their warnings are not ours to mend
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_it_runs_with_a_tiny_policy(tmp_path, monkeypatch, capsys):
    from training import tiny

    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    main = runpy.run_path(str(BENCHMARKS / "training.py"))["main"]
    policy = tiny.make(tmp_path / "tiny") / "policy"
    config = policy / "config.json"
    config.write_text(
        json.dumps(json.loads(config.read_text()) | {"max_position_embeddings": 512})
    )  # rotary: any number
    figures = tmp_path / "figures.json"
    main(["--steps", "2", "--tokens", "8", "--policy", str(policy), "--json", str(figures)])
    assert "rewards, longest" in capsys.readouterr().out
    rows = json.loads(figures.read_text())["rows"]
    assert [row["case"] for row in rows] == ["rewards, median", "rewards, longest"]
    assert all(row["ours"] > 0 < row["rivals"] for row in rows)
