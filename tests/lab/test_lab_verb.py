"""`rubrank lab`: cells as files, the page, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest
import yaml
from rubrank_lab import cells
from typer.testing import CliRunner

from rubrank.cli.app import app

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "recipes" / "lab"
RUN = CliRunner()


@pytest.fixture
def recipe(tmp_path):
    """A laboratory with two arms, two seeds and no results."""
    folder = tmp_path / "recipes" / "lab"
    shutil.copytree(RECIPE, folder, ignore=shutil.ignore_patterns("results", "__pycache__"))
    arms = {
        name: {"rule": rule, "attributes": []}
        for name, rule in {"weighted mean+": "weighted-mean+", "RLVR²+ (paper)": "rlvr2+"}.items()
    }
    (folder / "arms.yaml").write_text(yaml.safe_dump({"seeds": {"facts": 2}, "arms": arms}), encoding="utf-8")
    return folder


def test_cells_are_run_once_collected_and_reported(recipe, tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("scipy")
    options = ["--work", str(tmp_path / "work"), "--recipes", str(recipe)]
    done = RUN.invoke(app, ["lab", "run", "--steps", "2", *options])
    assert (done.exit_code, done.stdout) == (0, "cells run by this process: 4\n"), done.output
    again = RUN.invoke(app, ["lab", "run", "--steps", "2", *options])
    assert again.stdout == "cells run by this process: 0\n"
    listed = RUN.invoke(app, ["lab", "list", *options]).stdout.splitlines()
    assert [line.split()[1:5] for line in listed] == [["2", "of", "2", "seeds"]] * 2
    page = tmp_path / "lab.md"
    report = RUN.invoke(app, ["lab", "report", "--markdown", str(page), *options])
    assert report.stdout == f"4 new cells\n{page}\n", report.output
    assert "| RLVR²+ (paper) | 2 |" in page.read_text(encoding="utf-8")
    shutil.rmtree(tmp_path / "work")  # collected cells are not run again
    assert RUN.invoke(app, ["lab", "run", *options]).stdout == "cells run by this process: 0\n"


def test_a_cell_does_not_count_after_its_arm_was_changed(recipe, tmp_path):
    plan = cells.load_plan(recipe)
    path = cells.result_path(plan, "facts", "weighted mean+", 0, tmp_path)
    path.parent.mkdir(parents=True)
    pl.DataFrame({"phase": ["held_out"]}).write_parquet(path)
    assert cells.list_missing(plan, "facts", 0, tmp_path) == ["RLVR²+ (paper)"]
    changed = cells.Plan(recipe, plan.seeds, {**plan.arms, "weighted mean+": {"rule": "weighted-mean"}})
    assert cells.list_missing(changed, "facts", 0, tmp_path) == list(plan.arms)


def test_a_seed_that_another_process_has_is_left_to_it(tmp_path):
    with cells.claim(tmp_path / "seed-0.lock") as is_ours, cells.claim(tmp_path / "seed-0.lock") as is_ours_too:
        assert (is_ours, is_ours_too) == (True, False)
    with cells.claim(tmp_path / "seed-0.lock") as is_ours:
        assert is_ours


def test_unknown_families_arms_and_worlds_are_named(tmp_path):
    for arguments, hint in (
        (["run", "fact"], "Did you mean 'facts'?"),
        (["run", "facts", "--arm", "GEAR"], "Did you mean 'GEAR+'?"),
        (["tunnel", "--world", "honset"], "Did you mean 'honest'?"),
    ):
        done = RUN.invoke(app, ["lab", *arguments, "--recipes", str(RECIPE)])
        assert done.exit_code == 2
        assert hint in done.stderr


def test_a_folder_that_is_no_laboratory_is_refused(tmp_path):
    done = RUN.invoke(app, ["lab", "list", "--recipes", str(tmp_path)])
    assert done.exit_code == 2
    assert "--recipes must be the folder recipes/lab of a checkout" in done.stderr


def test_a_damaged_plan_is_named(recipe):
    (recipe / "arms.yaml").write_text("seeds: [", encoding="utf-8")
    done = RUN.invoke(app, ["lab", "list", "--recipes", str(recipe)])
    assert done.exit_code == 2
    assert "arms.yaml" in done.stderr


def test_one_world_is_written_to_a_file_and_printed(tmp_path):
    target = tmp_path / "one.parquet"
    arguments = ["lab", "tunnel", "--seeds", "2", "--world", "yes/no only", "--recipes", str(RECIPE)]
    refused = RUN.invoke(app, arguments)
    assert refused.exit_code == 2
    assert "--output" in refused.stderr
    done = RUN.invoke(app, [*arguments, "-o", str(target)])
    assert done.exit_code == 0, done.output
    gains = pl.read_parquet(target)
    assert gains["arm"].n_unique() == len(done.stdout.splitlines())
    assert done.stdout.splitlines()[0].startswith("100.0% 100.0%")


def test_the_page_in_docs_is_that_of_the_results(tmp_path):
    pytest.importorskip("scipy")
    page = tmp_path / "lab.md"
    done = RUN.invoke(app, ["lab", "report", "--no-collect", "--markdown", str(page), "--recipes", str(RECIPE)])
    assert done.exit_code == 0, done.output
    expected = (ROOT / "docs" / "lab.md").read_text(encoding="utf-8")
    assert page.read_text(encoding="utf-8") == expected, "rubrank lab report --no-collect"
