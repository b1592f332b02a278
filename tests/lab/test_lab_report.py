"""Numbers over seeds, and the page that comes from results alone."""

from __future__ import annotations

import math
import random
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml
from rubrank_lab import confirming, results, runtime
from rubrank_lab.brief import in_short
from rubrank_lab.claims import CLAIMS, Claim, decided, verdict
from rubrank_lab.comparing import critical, difference, summary, two_tails
from rubrank_lab.document import Heading, Page, Paragraph, Table
from rubrank_lab.experiments import cells_of, load_experiments
from rubrank_lab.page import make_page
from rubrank_lab.rows import CHALLENGING, JUDGED, SATURATED
from rubrank_lab.sections import CRITERIA
from rubrank_lab.view import View, counted

import rubrank

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "recipes" / "lab"
EXPERIMENTS = load_experiments(RECIPE)
METRICS = {"true_quality": 0.5, "thinking": 9.0, "markers": 2.0, "score_Order": 0.4, "score_NoComma": 0.9}


def test_kept_results_are_of_cells_that_experiments_have():
    known = {cell.key for one in EXPERIMENTS.values() for cell in cells_of(one, 99)}
    assert results.load(RECIPE).cells <= known


def test_claims_name_arms_that_exist():
    for claim in CLAIMS:
        assert {claim.first, claim.second} <= set(EXPERIMENTS[claim.experiment].arms)


# ---------------------------------------------------------------------------------------------------------- statistics


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("t", [0.0, 0.3, 2.0, 9.0])
def test_tails_of_students_t(t, freedom):
    stats = pytest.importorskip("scipy.stats")
    assert two_tails(t, freedom) == pytest.approx(2 * stats.t.sf(t, freedom), abs=1e-12)


def test_a_summary_has_the_interval_of_all_ways_to_draw_the_seeds():
    found = summary([0.0, 0.0, 0.0, 0.0, 1.0])
    assert (found.mean, found.low, found.high) == (pytest.approx(0.2), 0.0, pytest.approx(0.6))
    assert summary([]).said() == "–"
    assert summary([0.5]).said() == "0.500"


def test_differences_are_paired():
    first, second = [0.5, 0.7, 0.9], [0.4, 0.6, 0.81]
    found = difference(first, second)
    assert found.mean == pytest.approx(0.29 / 3)
    assert found.higher == 3
    assert found.p < 0.01 < difference(first, second[::-1]).p
    assert math.isnan(difference([1.0], [0.0]).p)
    assert difference([0.5, 0.6], [0.5, 0.6]).p == 1.0


def test_verdicts():
    better = Claim("a beats b", "main", "a", "b", "true_quality", "higher")
    alike = Claim("a is b", "main", "a", "b", "true_quality", "alike")
    gap = difference([0.61, 0.62, 0.615], [0.50, 0.515, 0.50])
    assert verdict(better, gap, 1) == "agrees, sure"
    assert verdict(better, gap, 10_000) == "agrees"
    assert verdict(better, difference([0.5, 0.515, 0.5], [0.61, 0.62, 0.615]), 1).startswith("disagrees")
    assert verdict(better, difference([0.5, 0.6, 0.55], [0.6, 0.5, 0.55]), 1) == "open"
    assert verdict(better, difference([0.61, 0.62], [0.50, 0.50]), 1) == "open (only 2 seeds)"
    assert verdict(alike, gap, 100) == "disagrees"
    assert verdict(alike, difference([0.5, 0.505, 0.5], [0.5, 0.5, 0.505]), 1) == "agrees (within ±0.03)"
    assert verdict(alike, difference([0.5, 0.6, 0.55], [0.6, 0.5, 0.55]), 1) == "open"


def test_likeness_is_decided_by_t_and_not_by_a_bootstrap_of_few_seeds():
    """0.013 ± 0.024 by t reaches beyond 0.03, though the bootstrap ends at 0.029; it costs nothing all the same."""
    gap = difference([0.002, 0.037, -0.005, 0.0, 0.03], [0.0] * 5)
    assert gap.high < 0.03 < gap.most
    alike, free = (Claim("a is b", "main", "a", "b", "true_quality", d) for d in ("alike", "no lower"))
    assert verdict(alike, gap, 1) == "open"
    assert verdict(free, gap, 1) == "agrees (loses less than 0.03)"
    worse = difference([0.5, 0.505, 0.5, 0.49], [0.6, 0.6, 0.6, 0.6])
    assert verdict(free, worse, 100).startswith("disagrees")
    assert verdict(free, difference([0.6] * 3, [0.5, 0.505, 0.5]), 1).startswith("agrees")


def test_the_interval_of_three_seeds_goes_from_the_least_to_the_greatest():
    """Of 27 equally likely means the lowest has 1/27, more than the 2.5% that are cut off."""
    gap = difference([0.02, -0.15, 0.16], [0.0, 0.0, 0.0])
    assert (gap.low, gap.high) == (-0.15, 0.16)


@pytest.mark.parametrize("seeds", [2, 3, 5, 9])
def test_the_interval_by_t(seeds):
    stats = pytest.importorskip("scipy.stats")
    gaps = np.random.default_rng(seeds).normal(size=seeds)
    found = difference(list(gaps), [0.0] * seeds)
    wanted = stats.t.interval(0.95, seeds - 1, gaps.mean(), stats.sem(gaps))
    assert (found.least, found.most) == pytest.approx(wanted, abs=1e-9)
    assert critical(seeds - 1) == pytest.approx(stats.t.ppf(0.975, seeds - 1), abs=1e-9)


def test_challenging_and_saturated_criteria_are_those_that_scores_before_training_say():
    """All of them, none picked by hand; Density has another scale, NoOpening is a penalty."""
    view = View(EXPERIMENTS["headroom"], results.load(RECIPE))
    verified = [name for name in CRITERIA if name not in (*JUDGED, "Density", "NoOpening")]
    before = {name: view.summary("RLVR²", f"score_{name}", base=True).mean for name in verified}
    assert {name for name, mean in before.items() if mean < 2 / 3} == set(CHALLENGING)
    assert {name for name, mean in before.items() if mean > 0.8} == set(SATURATED)


# ------------------------------------------------------------------------------------------------- a grid made for this


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder of recipes whose cells all have results, drawn by chance; RLVR²+ is better by 0.1."""
    work, folder = tmp_path_factory.mktemp("work"), tmp_path_factory.mktemp("recipes")
    (work / "results").mkdir()
    for name in ("paper.yaml", "preface.txt"):
        (folder / name).write_text((RECIPE / name).read_text(encoding="utf-8"), encoding="utf-8")
    keys = {cell.key: cell for one in EXPERIMENTS.values() for cell in cells_of(one)}
    for key, cell in keys.items():
        chance = random.Random(key)
        better = 0.1 * (cell.rule == "rlvr2+")
        steps = [("eval", 0), ("eval", 32), *(("train", step) for step in range(32))]
        rows = [
            (key, phase, step, metric, value + better + chance.gauss(0.0, 0.005))
            for phase, step in steps
            for metric, value in METRICS.items()
        ]
        pl.DataFrame(rows, schema=["cell", "phase", "step", "metric", "value"], orient="row").write_parquet(
            work / "results" / f"{key}.parquet"
        )
    assert results.collect(work, folder, set(keys)) == len(keys)
    assert results.collect(work, folder, set(keys)) == 0
    return folder


def test_curves_are_kept_in_eight_bins(made):
    kept = results.load(made)
    key = next(iter(kept.cells))
    assert [at for at, _ in kept.curve(key, "thinking")] == list(range(8))
    assert set(kept.final(key)) == set(METRICS)


def test_lines_are_drawn_over_the_same_seeds(made):
    """Those that put most cells into the drawing: 2 arms × 3 seeds before 1 arm × 5, but not 2 × 2."""
    kept, one = results.load(made), EXPERIMENTS["null"]

    def view(seeds: int) -> View:
        lost = [cell.key for cell in cells_of(one) if cell.rule == "rlvr2" and cell.seed >= seeds]
        return View(one, results.Results(kept.table.filter(~pl.col("cell").is_in(lost))))

    arms = list(one.arms)
    assert view(5).curves(arms, "thinking") == [(arm, view(5).curve(arm, "thinking")) for arm in arms]
    assert view(3).curves(arms, "thinking") == [(arm, view(5).curve(arm, "thinking", [0, 1, 2])) for arm in arms]
    assert [arm for arm, _ in view(2).curves(arms, "thinking")] == ["weighted sum"]


def test_a_difference_that_is_there_is_found(made):
    views = {name: View(one, results.load(made)) for name, one in EXPERIMENTS.items()}
    said = {one.claim.said: one.verdict for one in decided(views)}
    assert said["RLVR²+ beats GDPO"] == "agrees, sure"
    assert said["RLVR² beats GDPO"] == "open"
    assert said["G = 4 is as good as G = 8"].startswith("agrees")
    assert said["formatting control costs no quality"].startswith("agrees")
    assert len(said) == len(CLAIMS)


def test_the_page_begins_with_what_is_seen(made):
    """Numbers and names from the results; the page of the docs has the same paragraphs from its own."""
    views = {name: View(one, results.load(made)) for name, one in EXPERIMENTS.items()}
    found = decided(views)
    said = "\n".join(part.text for part in in_short(views, found))
    assert "(RLVR²+). That" in said
    assert f"{len(found)} comparisons were made" in said
    agreed = said.split("**What agrees**")[1].split("**What does")[0]
    assert "RLVR²+ beats GDPO (+0." in agreed
    assert "RLVR² beats GDPO" not in agreed
    assert in_short(views, []) == []


def test_a_control_that_begins_late_is_compared_with_the_time_before(made):
    """In the drawn results nothing changes over a run, so a fall is not seen; where it is put in, it is."""
    kept, one = results.load(made), EXPERIMENTS["formatting"]
    assert verdict(Claim("", "", "", "", "markers", "lower"), View(one, kept).since("from 70%", "markers"), 1) == "open"
    branch = {cell.key for cell in cells_of(one) if cell.branch}
    late = pl.col("cell").is_in(list(branch)) & (pl.col("phase") == "train") & (pl.col("bin") == results.BINS - 1)
    value = pl.when(late & (pl.col("metric") == "markers")).then(pl.col("value") - 1).otherwise(pl.col("value"))
    fallen = View(one, results.Results(kept.table.with_columns(value)))
    assert fallen.since("from 70%", "markers").mean == pytest.approx(-1, abs=0.05)
    assert fallen.since("off", "markers").mean == pytest.approx(0, abs=0.05)


def test_more_seeds_than_five_are_all_taken(made, tmp_path):
    kept, one = results.load(made), EXPERIMENTS["null"]
    arm = one.arms["RLVR²"]
    more = kept.table.filter(pl.col("cell") == replace(arm, seed=4).key)
    more = more.with_columns(pl.lit(replace(arm, seed=6).key).alias("cell"))
    view = View(one, results.Results(pl.concat([kept.table, more])))
    assert view.seeds("RLVR²") == [0, 1, 2, 3, 4, 6]
    assert counted([view]) == "10 of 10 (and 1 with seeds beyond the first 5)"
    assert view.against("RLVR²", "weighted sum", "thinking").n == 5


@pytest.mark.parametrize(
    ("read", "name", "content"),
    [
        (results.load, "cells.parquet", b""),
        (results.load, "cells.parquet", b"PAR1 and no more"),
        (confirming.read, "smollm2.csv", b"junk\n1\n"),
        (confirming.read, "smollm2.csv", b"rule,seed,phase,bin,metric,value\nrlvr2+,0,eval,8,words\n"),
        (runtime.read_times, "fusion.csv", b"rule,milliseconds\nrlvr2,fast\n"),
        (runtime.read_times, "fusion.csv", b"rule\nrlvr2\n"),
    ],
)
def test_a_damaged_file_of_results_is_named(read, name, content, tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / name).write_bytes(content)
    with pytest.raises(rubrank.InvalidInput, match=name):
        read(tmp_path)


@pytest.mark.slow
def test_the_whole_page_can_be_made(made):
    page = make_page(made, EXPERIMENTS)
    text, html = page.markdown("pictures"), page.html()
    assert all(f"{one.title}\n" in text for one in EXPERIMENTS.values())
    assert "Different cells run: 245 of 245.\n" in text
    assert html.count("<svg") == len(page.pictures) >= 4
    assert "nan" not in text.lower()


def test_results_that_nobody_asked_for_are_left_out(tmp_path):
    (tmp_path / "results").mkdir()
    table = pl.DataFrame({"cell": ["x"], "phase": ["eval"], "step": [4], "metric": ["thinking"], "value": [1.0]})
    table.write_parquet(tmp_path / "results" / "x.parquet")
    assert results.collect(tmp_path, tmp_path / "folder", {"y"}) == 0


def test_cells_of_another_policy_are_not_mixed_in(tmp_path):
    work, folder = tmp_path / "work", tmp_path / "folder"
    for name in ("results", "policy"):
        (work / name).mkdir(parents=True)
    weights = work / "policy" / "model.safetensors"
    for key, held in (("x", b"one"), ("y", b"one"), ("z", b"another")):
        weights.write_bytes(held)
        table = pl.DataFrame({"cell": [key], "phase": ["eval"], "step": [4], "metric": ["thinking"], "value": [1.0]})
        table.write_parquet(work / "results" / f"{key}.parquet")
        if held == b"one":
            assert results.collect(work, folder, {"x", "y", "z"}) == 1
        else:
            with pytest.raises(rubrank.InvalidInput, match="the policy"):
                results.collect(work, folder, {"x", "y", "z"})
    assert results.load(folder).cells == {"x", "y"}


def test_a_page_says_the_same_in_both_forms():
    page = Page("T", [Heading("A"), Paragraph("a `b` <c> **d** [e](f.md)"), Table(["x", "y|z"], [["1", "2"]])])
    assert page.markdown("p") == "# T\n\n## A\n\na `b` <c> **d** [e](f.md)\n\n| x | y/z |\n| --- | --- |\n| 1 | 2 |\n"
    assert "<code>b</code> &lt;c&gt; <strong>d</strong> <em>e</em>" in page.html()
    assert "<td>2</td>" in page.html()


def test_bins_hold_means():
    rows = {"cell": ["c"] * 5, "phase": ["train"] * 4 + ["eval"], "step": [0, 1, 2, 3, 16]}
    table = pl.DataFrame({**rows, "metric": ["m"] * 5, "value": np.array([1.0, 3.0, 5.0, 9.0, 7.0])})
    kept = results.Results(results.binned(table))
    assert kept.curve("c", "m") == [(0, 2.0), (1, 7.0)]
    assert kept.final("c") == {"m": 7.0}


def test_fusion_is_timed_on_logged_rollouts(tmp_path):
    chance = random.Random(0)
    scores = [[[chance.random(), float(chance.random() < 0.5)] for _ in range(8)] for _ in range(6)]
    batch = rubrank.ScoreBatch.of_arrays(scores, criteria=["Facts", "Form"])
    rubrank.write_records(tmp_path / "records.jsonl", rubrank.records_of(rubrank.find_rule("rlvr2")(batch)))
    times = runtime.time_fusion(tmp_path / "records.jsonl", ["gdpo", "rlvr2"], calls=2)
    assert set(times) == {"gdpo", "rlvr2"}
    assert all(math.isfinite(value) for value in times.values())
    assert runtime.read_times(tmp_path) == {}
    runtime.write_times(tmp_path, times)
    assert runtime.read_times(tmp_path) == {rule: pytest.approx(value, abs=1e-3) for rule, value in times.items()}


def test_times_of_steps_are_kept_by_rule_and_part(tmp_path):
    times = {"rlvr2": {"rollout": 0.5, "reward": 0.25, "total": 1.0}}
    assert runtime.read_steps(tmp_path / "steps.csv") == {}
    runtime.write_steps(tmp_path / "steps.csv", times)
    assert runtime.read_steps(tmp_path / "steps.csv") == times
    (tmp_path / "steps.csv").write_text("rule,rollout\nrlvr2,1\n")
    with pytest.raises(rubrank.InvalidInput, match="steps"):
        runtime.read_steps(tmp_path / "steps.csv")


def test_every_rule_of_the_table_of_runtimes_has_its_times():
    kept, arms = runtime.Times.of(RECIPE), EXPERIMENTS["runtime"].arms.values()
    for cell in arms:
        parts = kept.steps[cell.rule]
        assert kept.fusion[cell.rule] > 0
        assert 0 < parts["reward"] + parts["rollout"] < parts["total"]


# ----------------------------------------------------------------------------------------------------- the paper itself

PAPER = ROOT.parent / "shared" / "paper" / "rlvr2.tex"
TABLES = {
    "main": "main",
    "formatting": "style-drift",
    "group_size": "group_size",
    "runtime": "cost",
    "scale": "score-robustness",
}
"""Experiment → label of the paper's table."""


@pytest.mark.skipif(not PAPER.is_file(), reason="the paper's source is not there")
def test_tables_of_the_paper_are_named_by_their_numbers():
    text = re.sub(r"\\begin{subtable}.*?\\end{subtable}", "", PAPER.read_text(encoding="utf-8"), flags=re.DOTALL)
    text = re.sub(r"\\begin{figure.*?\\end{figure\*?}", "", text, flags=re.DOTALL)
    for name, label in TABLES.items():
        number = text[: text.index(f"\\label{{tab:{label}}}")].count("\\caption{")  # captions come before labels
        assert EXPERIMENTS[name].paper.split("(")[0].strip() == f"Table {number}"


@pytest.mark.skipif(not PAPER.is_file(), reason="the paper's source is not there")
def test_numbers_beside_ours_are_in_the_paper():
    text = PAPER.read_text(encoding="utf-8")
    printed = {float(number) for number in re.findall(r"(?<![\w.])\d+(?:\.\d+)?", text)}
    paper = yaml.safe_load((RECIPE / "paper.yaml").read_text(encoding="utf-8"))
    numbers = [abs(float(one)) for one in re.findall(r"-?\d+\.\d+|\b\d{4}\b", str(list(paper.values())))]
    assert len(numbers) > 80
    names = {float(name.split("=")[1]) for name in paper["thinking"] if "=" in name}
    assert set(numbers) - names <= printed
