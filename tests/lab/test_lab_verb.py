"""`rubrank lab`, from a checkout and elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import rubrank_lab.task  # noqa: F401 registers verifiers, judge and rule
from cases import Cases
from rubrank_lab import grid
from rubrank_lab.cell import data_of
from rubrank_lab.experiments import cells_of, load_experiments, small
from rubrank_lab.grid import policy_of, time_steps
from rubrank_lab.laboratory import Laboratory
from rubrank_lab.runtime import STEPS, read_steps
from typer.testing import CliRunner

from rubrank.cli.app import app
from rubrank.cli.verbs import lab
from rubrank.training.job.config import load_job
from rubrank.training.job.plan import make_plan

DOCS = Path(__file__).parents[2] / "docs"
RECIPE = Path(__file__).parents[2] / "recipes" / "lab"
EXPERIMENTS = load_experiments(RECIPE)
TRAINED = ("null", "formatting", "group_size")


def test_the_list_has_every_experiment(tmp_path):
    found = CliRunner().invoke(app, ["lab", "list", "--work", str(tmp_path), "--seeds", "2"])
    assert found.exit_code == 0
    for name, one in EXPERIMENTS.items():
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


def test_the_confirming_runs_go_by_name_or_number_and_are_not_repeated(tmp_path):
    """All six are among the kept results."""
    for name in ("smollm2", "10"):
        found = CliRunner().invoke(app, ["lab", "run", name, "--work", str(tmp_path)])
        assert (found.exit_code, found.stdout) == (0, "cells run: 0, failed: 0, left: 0\n")
    found = CliRunner().invoke(app, ["lab", "run", "smolm2", "--work", str(tmp_path)])
    assert "Did you mean 'smollm2'?" in found.stderr


def test_cells_are_not_run_with_a_policy_whose_results_could_not_be_kept(tmp_path):
    (tmp_path / "policy").mkdir()
    (tmp_path / "policy" / "model.safetensors").write_bytes(b"another one")
    found = CliRunner().invoke(app, ["lab", "run", "null", "--seeds", "6", "--work", str(tmp_path)])
    assert found.exit_code == 2
    assert "the policy must be the one of" in found.stderr
    assert not (tmp_path / "cells").exists()


def test_more_seeds_begin_with_the_policy_of_the_kept_cells(tmp_path, monkeypatch):
    begun = []
    monkeypatch.setattr(grid, "run_cell", lambda cell, work, policy, keep: begun.append(policy / "model.safetensors"))
    CliRunner().invoke(app, ["lab", "run", "null", "--seeds", "6", "--work", str(tmp_path)])
    kept = RECIPE / "results" / "policy" / "model.safetensors"
    assert {path.read_bytes() for path in begun} == {kept.read_bytes()}


def test_processes_that_help_end_with_the_one_that_is_interrupted(tmp_path, monkeypatch):
    def interrupted(*given):
        raise KeyboardInterrupt

    started = []

    def start(*given):
        started.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]))
        return started[-1]

    monkeypatch.setattr(lab, "_start_worker", start)
    monkeypatch.setattr(Laboratory, "run", interrupted)
    found = CliRunner().invoke(app, ["lab", "run", "null", "--smoke", "--jobs", "3", "--work", str(tmp_path)])
    assert found.exit_code == 130
    assert [process.wait(timeout=60) != 0 for process in started] == [True, True]


@pytest.mark.parametrize(
    ("missing", "verb"),
    [("matplotlib", ["report", "--no-collect", "-o"]), ("torch", ["run", "null", "--smoke", "--work"])],
)
def test_a_package_that_is_not_installed_is_named(missing, verb, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    found = CliRunner().invoke(app, ["lab", *verb, str(tmp_path / "page.html")])
    assert found.exit_code == 2
    assert found.stderr.count("\n") == 1
    assert f"no {missing}" in found.stderr
    assert "rubrank[trl,plots]" in found.stderr


@pytest.mark.parametrize("more", [[], ["--no-collect"]])
def test_a_report_of_nothing_is_refused(tmp_path, more):
    """A page without a single figure says nothing; an older one stays."""
    recipes, page = tmp_path / "lab", tmp_path / "page.html"
    shutil.copytree(RECIPE, recipes, ignore=shutil.ignore_patterns("results", "__pycache__"))
    page.write_text("older", encoding="utf-8")
    given = ["--work", str(tmp_path / "work"), "--recipes", str(recipes), "-o", str(page), *more]
    found = CliRunner().invoke(app, ["lab", "report", *given])
    assert found.exit_code == 2
    assert "lab report: the results must be of at least one cell; got none in" in found.stderr
    assert found.stderr.count("\n") == 1
    assert page.read_text(encoding="utf-8") == "older"
    assert not (recipes / "results").exists()


@pytest.mark.slow
def test_a_report_from_the_kept_results(tmp_path):
    """The page of the docs is what the results give, and its pictures are there."""
    page, text = tmp_path / "page.html", tmp_path / "lab.md"
    given = ["lab", "report", "--no-collect", "-o", str(page), "--markdown", str(text)]
    found = CliRunner().invoke(app, given)
    assert found.exit_code == 0
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    made = text.read_text(encoding="utf-8")
    assert made.startswith("# The laboratory")
    assert made == (DOCS / "lab.md").read_text(encoding="utf-8"), "rubrank lab report --markdown docs/lab.md"
    drawn = {path.name for path in (tmp_path / "pictures").glob("*.svg")}
    assert len(drawn) >= 4
    assert drawn <= {path.name for path in (DOCS / "pictures").iterdir()}


@pytest.mark.slow
def test_a_small_version_runs(tmp_path):
    """Trunk, branch, attributes, group sizes and yes/no criteria, two steps each, two at a time; once is enough."""
    pytest.importorskip("trl")
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "rubrank",
        "lab",
        "run",
        *TRAINED,
        "--smoke",
    ]  # into out/lab, as by default
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(
        [*command, "--jobs", "2"], cwd=tmp_path, capture_output=True, text=True, env=environment, check=False
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    work = tmp_path / "out" / "lab"
    cells = {cell.key for name in TRAINED for cell in cells_of(EXPERIMENTS[name], smoke=True)}
    assert {path.stem for path in (work / "results").glob("*.parquet")} == cells
    assert f"cells run: {len(cells)}, failed: 0, left: 0" in ran.stdout
    again = CliRunner().invoke(app, ["lab", "run", *TRAINED, "--smoke", "--work", str(work)])
    assert "cells run: 0, failed: 0, left: 0" in again.stdout


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the trainer
def test_the_parts_of_a_step_are_timed(tmp_path):
    """Two steps of one rule; held-out prompts, which are answered before and after, are not in it."""
    pytest.importorskip("trl")
    time_steps([small(EXPERIMENTS["runtime"].arms["GDPO"])], tmp_path)
    (parts,) = read_steps(tmp_path / STEPS.name).values()
    assert 0 < parts["reward"] + parts["rollout"] < parts["total"]
    assert not list((tmp_path / "timed").iterdir())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")  # torch's, while the policy is taught
def test_every_arm_could_be_trained(tmp_path):
    """Rule, gate, attributes, judge, rubrics and batches of each go together; what is trained above is left out."""
    pytest.importorskip("trl")
    checked = {small(cell) for one in EXPERIMENTS.values() for cell in one.arms.values()}
    checked -= {cell for name in TRAINED for cell in cells_of(EXPERIMENTS[name], smoke=True)}
    with Cases() as cases:
        for cell in sorted(checked, key=lambda cell: cell.key):
            with cases(cell.key):
                config = tmp_path / f"{cell.key}.yaml"
                config.write_text(json.dumps(cell.job(data_of(cell, tmp_path), policy_of(cell, tmp_path))))
                assert make_plan(load_job(config)).reward.engine.rule is not None
