"""`rubrank lab`, from a checkout and elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from rubrank_lab.experiments import cells_of, load_experiments
from typer.testing import CliRunner

from rubrank.cli.app import app

RECIPE = Path(__file__).parents[2] / "recipes" / "lab"


def test_the_list_has_every_experiment(tmp_path):
    found = CliRunner().invoke(app, ["lab", "list", "--work", str(tmp_path), "--seeds", "2"])
    assert found.exit_code == 0
    for name, one in load_experiments(RECIPE).items():
        assert f" {name} " in found.stdout
        assert f"of {len(cells_of(one, 2)):3} cells" in found.stdout


def test_a_folder_that_is_no_laboratory_is_refused(tmp_path):
    found = CliRunner().invoke(app, ["lab", "list", "--recipes", str(tmp_path)])
    assert found.exit_code == 2
    assert "--recipes must be the folder recipes/lab of a checkout" in found.stderr


def test_an_unknown_experiment_is_refused(tmp_path):
    found = CliRunner().invoke(app, ["lab", "run", "mian", "--work", str(tmp_path)])
    assert found.exit_code == 2
    assert "Did you mean 'main'?" in found.stderr


def test_a_report_from_the_kept_results(tmp_path):
    page, text = tmp_path / "page.html", tmp_path / "lab.md"
    given = ["lab", "report", "--no-collect", "-o", str(page), "--markdown", str(text)]
    found = CliRunner().invoke(app, given)
    assert found.exit_code == 0
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert text.read_text(encoding="utf-8").startswith("# The laboratory")


@pytest.mark.slow
def test_a_small_version_of_everything_runs(tmp_path):
    """All arms of all experiments, two steps each, two at a time; a second call has nothing to do."""
    pytest.importorskip("trl")
    command = [sys.executable, "-W", "ignore", "-m", "rubrank", "lab", "run", "--smoke", "--work", str(tmp_path)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ran = subprocess.run([*command, "--jobs", "2"], capture_output=True, text=True, env=environment, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    cells = {cell.key for one in load_experiments(RECIPE).values() for cell in cells_of(one, smoke=True)}
    assert {path.stem for path in (tmp_path / "results").glob("*.parquet")} == cells
    again = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert "cells run: 0, failed: 0, left: 0" in again.stdout
