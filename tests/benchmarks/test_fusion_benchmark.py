"""The benchmark runs, prints every case and writes valid JSON. What it measures is never asserted."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cases import nightly

pytestmark = [pytest.mark.slow, nightly()]

ROOT = Path(__file__).parents[2]
SECTIONS = (
    "no attributes",
    "1 attribute",
    "11 attributes",
    "larger groups, 1,024 rollouts × 12 mixed criteria",
    "larger groups, 1,024 rollouts × 12 continuous criteria",
    "more of K",
    "more of N",
    "variants, no attributes",
    "variants, 1 attribute per group",
    "a fresh process",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with tiny sizes: what it printed, and its JSON."""
    pytest.importorskip("sklearn")
    file = tmp_path_factory.mktemp("bench") / "figures.json"
    command = [
        sys.executable,
        "benchmarks/fusion.py",
        "--quick",
        "--groups",
        "2",
        "--large",
        "2000",
        "--json",
        str(file),
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "COLUMNS": "400", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(file.read_text(encoding="utf-8"))


def test_every_case_is_printed(run):
    printed, figures = run
    for row in figures["rows"]:
        assert row["section"] in printed
        assert row["case"] in printed
        assert row["rival"] in printed


def test_every_section_has_rows(run):
    sections = {row["section"] for row in run[1]["rows"]}
    assert sections >= set(SECTIONS)


def test_bars_are_judged_on_the_default_tolerance(run):
    bars = {(row["section"], row["rival"]): row["bar"] for row in run[1]["rows"] if row["is_faster"] and row["bar"]}
    rival = "scikit-learn, default tol 1e-4"
    assert bars == {("no attributes", rival): 10_000, ("1 attribute", rival): 700, ("11 attributes", rival): 300}


def test_figures_are_consistent(run):
    for row in run[1]["rows"]:
        assert row["ours"] >= 0
        if row["rivals"] is not None:
            ratio = row["rivals"] / row["ours"] if row["is_faster"] else row["ours"] / row["rivals"]
            assert row["ratio"] == pytest.approx(ratio)
        assert (row["reached"] is None) == (row["bar"] is None)


def test_rivals_did_the_same_job(run):
    assert run[1]["agreement"]
    assert all(difference < 2e-2 for difference in run[1]["agreement"].values())
