"""The runs with a real model: what is taken from their records, and what the page says of them."""

from __future__ import annotations

import random
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from rubrank_lab import confirming, grid, smollm2
from rubrank_lab.claims import CONFIRMING, decided
from rubrank_lab.document import Table

import rubrank

RECIPE = Path(__file__).parents[2] / "recipes" / "lab"
CRITERIA = ["EmptyAnswer", "SoftLength", "punctuation:no_comma", "startend:quotation", "count:unique_word_count"]


def run(folder: Path, rule: str, seed: int, met: float) -> None:
    """A finished run of four steps; held-out prompts before it and after, where constraints are met more often."""
    chance = random.Random(f"{rule} {seed}")
    records = []
    for mode, step, share in (("eval", 0, 0.2), *(("train", at, 0.3) for at in range(4)), ("eval", 4, met)):
        scores = [[1, chance.random(), *(int(chance.random() < share) for _ in range(2)), 1] for _ in range(200)]
        batch = rubrank.ScoreBatch.of_arrays([scores], criteria=CRITERIA)
        for record in rubrank.records_of(rubrank.find_rule("weighted-mean")(batch)):
            criteria = [
                replace(one, layer="global_quality") if one.name == "EmptyAnswer" else one for one in record.criteria
            ]
            changed = {"step": step, "metadata": {"mode": mode}, "criteria": tuple(criteria)}
            records.append(record.model_copy(update=changed | {"responses": ("two words",) * 200}))
    (folder / f"{rule}-s{seed}" / "model").mkdir(parents=True)
    rubrank.write_records(folder / f"{rule}-s{seed}" / "records.jsonl", records)


@pytest.fixture(scope="module")
def rows(tmp_path_factory) -> list[confirming.Row]:
    """Three seeds of both rules, RLVR²+ better by 0.3; and a run that was not finished."""
    work, folder = tmp_path_factory.mktemp("runs"), tmp_path_factory.mktemp("recipes")
    for seed in range(3):
        run(work, "rlvr2+", seed, met=0.8)
        run(work, "rule-fusion", seed, met=0.5)
    (work / "gdpo-s0").mkdir()
    confirming.collect(work, folder)
    once = confirming.read(folder)
    confirming.collect(work, folder)
    assert confirming.read(folder) == once
    return once


def test_what_is_taken_from_the_records_of_a_run(rows):
    assert {row.rule for row in rows} == {"rlvr2+", "rule-fusion"}
    last = {row.metric: row.value for row in rows if (row.rule, row.seed, row.bin) == ("rlvr2+", 1, 8)}
    assert last["constraints"] == pytest.approx(0.8, abs=0.07)
    assert last["both"] == pytest.approx(0.64, abs=0.1)
    assert (last["gates"], last["words"], last["count:unique_word_count"]) == (1.0, 2.0, 1.0)
    assert sorted({row.bin for row in rows if row.phase == "train"}) == [0, 2, 4, 6]


def test_rules_are_compared_seed_by_seed(rows):
    gap = confirming.against(rows)
    assert (gap.n, gap.higher) == (3, 3)
    assert gap.mean == pytest.approx(0.3, abs=0.1)
    (one,) = decided({}, [(CONFIRMING, gap)])
    assert one.verdict.startswith("agrees")
    fewer = [row for row in rows if row.rule == "rlvr2+" or row.seed == 0]
    assert decided({}, [(CONFIRMING, confirming.against(fewer))]) == []


@pytest.mark.slow
def test_the_section_has_both_rules(rows):
    tables = [part for part in confirming.section(rows) if isinstance(part, Table)]
    assert [line[:2] for line in tables[0].rows] == [["before training", "3"], ["Rule-Fusion", "3"], ["RLVR²+", "3"]]
    assert "nan" not in str(tables)
    one = [row for row in rows if row.rule == "rlvr2+"]
    assert len([part for part in confirming.section(one) if isinstance(part, Table)]) == 1


def test_kept_runs_stay_where_others_are_collected(rows, tmp_path):
    run(tmp_path / "runs", "rlvr2+", 0, met=0.1)
    kept = [row for row in rows if row.rule == "rule-fusion"]
    for more in (1, 2):
        run(tmp_path / "first", "rule-fusion", more, met=0.5)
    confirming.collect(tmp_path / "first", tmp_path)
    confirming.collect(tmp_path / "runs", tmp_path)
    found = confirming.read(tmp_path)
    assert {(row.rule, row.seed) for row in found} == {("rlvr2+", 0), ("rule-fusion", 1), ("rule-fusion", 2)}
    assert [row for row in found if row.rule == "rule-fusion"] == [row for row in kept if row.seed > 0]


def test_a_run_is_a_job_of_its_own(tmp_path):
    (one, *others) = smollm2.runs_of(tmp_path)
    assert len(others) == 5
    one.parent.mkdir()
    job = yaml.safe_load(smollm2.config_of(RECIPE, one).read_text(encoding="utf-8"))
    assert (job["rule"], job["seed"], job["output"]) == ("rule-fusion", 0, "rule-fusion-s0")
    graded = {"SoftLength", "DistinctN"}
    assert graded <= {one["name"] for one in job["rubric"] if isinstance(one, dict)}


def test_what_is_finished_is_not_run_again(tmp_path, monkeypatch):
    """Nor what another process has; a run that fails is counted."""
    started = []

    def start(command, check):
        started.append(Path(command[-2]).stem)
        return subprocess.CompletedProcess(command, returncode=1)

    monkeypatch.setattr(smollm2.subprocess, "run", start)
    runs = smollm2.runs_of(tmp_path)
    for done in runs[:3]:
        (done / "model").mkdir(parents=True)
    (tmp_path / smollm2.NAME / "policy").mkdir()
    with grid.claimed(tmp_path, f"{smollm2.NAME}-{runs[3].name}") as ours:
        assert ours
        assert smollm2.confirm(RECIPE, tmp_path) == grid.Ran(0, 2, 1)
    assert started == [run.name for run in runs[4:]]


def test_nothing_is_said_where_nothing_was_run(tmp_path):
    assert confirming.section(confirming.read(tmp_path)) == []
