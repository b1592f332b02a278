"""Experiments → cells → a grid that can be stopped and continued."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
import rubrank_lab.grid as grid
from rubrank_lab import results
from rubrank_lab.cell import Cell, checkpoint_of, data_of, result_of
from rubrank_lab.experiments import ORDER, cells_of, choose, load_experiments

from rubrank.errors import InvalidInput
from rubrank.training.job.config import parse_config

RECIPE = Path(__file__).parents[2] / "recipes" / "lab"
EXPERIMENTS = load_experiments(RECIPE)


def test_every_experiment_of_the_plan_is_there():
    assert tuple(EXPERIMENTS) == ORDER
    assert sorted(one.number for one in EXPERIMENTS.values() if one.number) == [str(n) for n in range(1, 10)]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_arm_is_a_config_that_train_reads(name, tmp_path):
    for cell in EXPERIMENTS[name].arms.values():
        job = parse_config(cell.job(tmp_path, tmp_path / "policy"))
        assert job.rule == cell.rule
        assert job.training.prompts_per_batch * job.training.num_generations == cell.rollouts


def test_arms_that_experiments_share_are_the_same_cell():
    shared = EXPERIMENTS["main"].arms["RLVR²+"]
    assert shared == EXPERIMENTS["thinking"].arms["off"] == EXPERIMENTS["group_size"].arms["G = 8"]
    assert shared != replace(shared, seed=1)


def test_a_branch_leaves_the_run_without_control():
    branch = EXPERIMENTS["thinking"].arms["λ = 0.5"]
    assert branch.trunk == EXPERIMENTS["main"].arms["RLVR²+"]
    assert branch.branch_step == round(0.7 * branch.steps)


def test_cells_come_seed_by_seed():
    cells = cells_of(EXPERIMENTS["null"], seeds=3)
    assert [cell.seed for cell in cells] == [0, 0, 1, 1, 2, 2]


def test_experiments_go_by_name_or_number():
    assert [one.name for one in choose(EXPERIMENTS, ["5", "null", "group_size"])] == ["group_size", "null"]
    assert len(choose(EXPERIMENTS, [])) == len(EXPERIMENTS)
    with pytest.raises(InvalidInput, match=r"'nul'.*Did you mean 'null'"):
        choose(EXPERIMENTS, ["nul"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("title: [", "an experiment: title, arms"),
        ("- title", "an experiment: title, arms"),
        ("title: t", "an experiment: title, arms"),
        ("title: t\narms: {a: 3}\nreference: a", "an experiment: title, arms"),
        ("title: t\narms: {a: {rull: rlvr2}}\nreference: a", "'rull'"),
        ("title: t\narms: {a: {rule: rlvr2}}\nreference: b", "reference"),
        ("title: t\narms: {a: {rule: rlvr2}}\nreference: a\nseeds: 3", "'seeds'"),
        ("title: t\narms: {a: {group: 7}}\nreference: a", "48 in groups of 7"),
    ],
)
def test_a_config_with_a_mistake_is_refused(text, said, tmp_path):
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "1_x.yaml").write_text(text)
    with pytest.raises(InvalidInput, match=said):
        load_experiments(tmp_path)


# ------------------------------------------------------------------------------------------------------------- running


@pytest.fixture
def ran(monkeypatch):
    """Cells are not trained; which were asked for is noted."""
    keys: list[str] = []

    def run_cell(cell, work, policy, keep=False):
        keys.append(cell.key)
        if cell.rule == "gear":
            raise ValueError("no such thing")
        if keep:
            checkpoint_of(cell, work).mkdir(parents=True)
        assert work.is_absolute()  # else configs would look for their files beside themselves
        result_of(cell, work).parent.mkdir(exist_ok=True)
        pl.DataFrame({"metric": ["thinking"], "value": [9.0]}).write_parquet(result_of(cell, work))

    monkeypatch.setattr(grid, "run_cell", run_cell)
    monkeypatch.setattr(grid, "policy_of", lambda cell, work: work / "policy")
    return keys


MAIN, BRANCH = Cell(rule="rlvr2+"), Cell(branch=0.7, attributes=({"name": "reasoning_length"},))


def test_what_is_finished_is_not_repeated(ran, tmp_path):
    cells = [Cell(rule="gdpo"), Cell(rule="focal"), Cell(rule="gdpo")]
    assert grid.run_grid(cells, tmp_path) == grid.Ran(2, 0, 0)
    assert grid.run_grid([*cells, Cell(rule="rlvr2")], tmp_path) == grid.Ran(1, 0, 0)
    assert len(ran) == 3
    assert grid.run_grid([Cell(rule="copeland")], tmp_path, frozenset({Cell(rule="copeland").key})).finished == 0


def test_a_trunk_is_run_before_its_branches_and_again_only_if_one_needs_it(ran, tmp_path):
    grid.run_grid([BRANCH, MAIN], tmp_path)
    assert ran == [MAIN.key, BRANCH.key]
    checkpoint_of(MAIN, tmp_path).rmdir()
    grid.run_grid([BRANCH, MAIN], tmp_path)
    assert len(ran) == 2
    grid.run_grid([replace(BRANCH, pool="group")], tmp_path)
    assert ran[2:] == [MAIN.key, replace(BRANCH, pool="group").key]


def test_one_that_fails_is_written_down_and_the_others_go_on(ran, tmp_path):
    broken = Cell(rule="gear")
    assert grid.run_grid([broken, MAIN], tmp_path) == grid.Ran(1, 1, 0)
    assert "no such thing" in (tmp_path / "failed" / f"{broken.key}.txt").read_text()


def test_a_complaint_is_gone_when_the_cell_succeeds(ran, tmp_path):
    complaint = tmp_path / "failed" / f"{MAIN.key}.txt"
    complaint.parent.mkdir(parents=True)
    complaint.write_text("what went wrong before")
    assert grid.run_grid([MAIN], tmp_path) == grid.Ran(1, 0, 0)
    assert not complaint.exists()


HOLDER = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from rubrank_lab.files import locked
with locked(Path(sys.argv[2]), wait=False) as ours:
    print(ours, flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
def test_a_cell_that_another_process_runs_is_left_to_it_until_that_is_killed(ran, tmp_path):
    claim = tmp_path / "claims" / MAIN.key
    command = [sys.executable, "-c", HOLDER, str(RECIPE), str(claim)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout.readline().strip() == "True"
            assert grid.run_grid([MAIN], tmp_path) == grid.Ran(0, 0, 1)
            assert ran == []
        finally:
            other.kill()
    assert grid.run_grid([MAIN], tmp_path) == grid.Ran(1, 0, 0)


@pytest.mark.parametrize(
    "left_behind", ["", "1", str(os.getpid()), "no number"], ids=["empty", "another", "ours", "no number"]
)
def test_a_claim_that_nobody_holds_is_void_whatever_it_says(left_behind, ran, tmp_path):
    """A process that was killed may have written nothing yet, and its number may be another one's by now."""
    claim = tmp_path / "claims" / MAIN.key
    claim.parent.mkdir(parents=True)
    claim.write_text(left_behind)
    assert grid.run_grid([MAIN], tmp_path) == grid.Ran(1, 0, 0)


def test_a_work_folder_may_be_named_from_where_one_stands(ran, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert grid.run_grid([MAIN], Path("out/lab")) == grid.Ran(1, 0, 0)
    assert grid.is_finished(MAIN, tmp_path / "out" / "lab")


@pytest.mark.parametrize("content", [b"", b"junk", b"PAR1 and no more"])
def test_a_damaged_result_is_none_and_the_cell_is_run_again(content, ran, tmp_path):
    result_of(MAIN, tmp_path).parent.mkdir()
    result_of(MAIN, tmp_path).write_bytes(content)
    assert results.collect(tmp_path, tmp_path / "recipes", {MAIN.key}) == 0
    assert grid.run_grid([MAIN], tmp_path) == grid.Ran(1, 0, 0)


def test_no_cell_is_begun_when_time_is_up(ran, tmp_path):
    assert grid.run_grid([MAIN], tmp_path, until=0.0) == grid.Ran(0, 0, 1)


def test_data_of_other_scales_are_other_files(tmp_path):
    usual, scaled = (data_of(Cell(density=scale), tmp_path) for scale in ({}, {"times": 10, "plus": 5}))
    assert usual != scaled
    rubric = json.loads(json.loads((scaled / "prompts.jsonl").read_text().splitlines()[0])["rubric"])
    density = [c for c in rubric["criteria"] if not isinstance(c, str) and c["name"] == "Density"]
    assert [c["domain"] for c in density] in ([], [{"low": 5, "high": 15}])
