"""Published verdicts and scores, reproduced."""

import csv
import gzip
import json
from pathlib import Path

import pytest
from cases import spread

from rubrank import Rollout, find_verifier
from rubrank.evaluation.benchmarks import find_benchmark
from rubrank.evaluation.benchmarks.checked_answers import extract_mmlu_choice
from rubrank.evaluation.benchmarks.helmet import (
    compute_ruler_recall,
    compute_string_metrics,
    find_answer,
    parse_ranking,
)
from rubrank.evaluation.benchmarks.open_ended import count_pluses
from rubrank.evaluation.runs import score_rows
from rubrank.evaluation.table import compare

DATA = Path(__file__).parents[3] / "shared" / "data" / "eval"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="needs ../shared/data/eval")


def rows(name):
    with gzip.open(DATA / name, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def scored(name, benchmark, **settings):
    return score_rows(rows(name), find_benchmark(benchmark, **settings))


@pytest.mark.parametrize("model", ["gpt4o", "qwen2_7b"])
def test_sysbench(model):
    wanted = json.loads((DATA / "sysbench" / "expected.json").read_text())[model]
    run = scored(f"sysbench/{model}.jsonl.gz", "sysbench")
    assert {name: run.metrics[name] for name in ("CSR", "ISR", "SSR")} == {
        name: wanted[name] for name in ("CSR", "ISR", "SSR")
    }
    assert sum(score.values["constraints"] for score in run.scores) == wanted["constraints"]


def test_sysbench_verdicts_that_are_neither_yes_nor_no_are_missing_in_the_fixed_reading():
    run = scored("sysbench/gpt4o.jsonl.gz", "sysbench", compat="fixed")
    assert run.judged == "2496 of 2500"


@pytest.mark.parametrize("path", sorted((DATA / "multichallenge").glob("[rv]*.jsonl.gz")), ids=lambda p: p.name[:20])
def test_multichallenge(path):
    found = rows(path)
    totals = [row.get("summary") or row.get("published_scores") for row in found]
    published = next(one for one in totals if one)
    run = score_rows(found, find_benchmark("multichallenge"))
    assert run.metrics["overall"] == pytest.approx(published["overall_score"], abs=1e-9)
    assert {axis: run.metrics[axis] for axis in published["axis_scores"]} == pytest.approx(published["axis_scores"])


@pytest.mark.parametrize(("name", "f1"), [("gpt-4o-mini-2024-07-18", 8.1), ("claude-3-5-haiku-20241022", 9.3)])
def test_simpleqa(name, f1):
    run = scored(f"simpleqa/czech_{name}.jsonl.gz", "simpleqa")
    assert round(100 * run.metrics["F1"], 1) == f1
    assert run.judged == "4326 of 4326"


@pytest.mark.parametrize("path", sorted((DATA / "aa_lcr").glob("run*.jsonl.gz")), ids=lambda p: p.name[:20])
def test_aa_lcr(path):
    found = rows(path)
    published = float(found[0]["accuracy"].rstrip("%"))
    assert 100 * score_rows(found, find_benchmark("aa-lcr")).metrics["accuracy"] == pytest.approx(published)


def test_advancedif_lists_of_another_length_are_missing():
    found = rows("advancedif/verdicts.jsonl.gz")
    run = score_rows(found, find_benchmark("advancedif"))
    wrong = sum(len(next(iter(row["verdicts"].values()))[0]) != len(row["rubrics"]) for row in found)
    assert wrong > 0
    assert sum(bool(score.missing) for score in run.scores) == wrong


@pytest.mark.parametrize(("name", "share"), [("jamba-1.5-large_1500", 1.0), ("Meta-Llama-3_1-8B-Instruct_1500", 0.94)])
def test_mmlu_pro_extraction(name, share):
    found = rows(f"mmlu_pro/{name}.jsonl.gz")
    assert sum(extract_mmlu_choice(row["model_outputs"]) == row["pred"] for row in found) / len(found) >= share


@pytest.mark.parametrize("task", ["path_traversal", "tom_tracking", "countdown", "html_to_tsv"])
def test_longproc_row_by_row(task):
    found = rows(f"longproc/{task}_0.5k_verdicts.jsonl.gz")
    names = {"accuracy": "accuracy", "partial_accuracy": "partial", "extraction_rate": "extraction"}
    names |= {name: name for name in ("f1", "precision", "recall")}
    for row, score in zip(found, score_rows(found, find_benchmark("longproc")).scores, strict=True):
        ours = {name: score.values[names[name]] for name in row["metrics"]}
        assert ours == row["metrics"], f"{task} {row['index']}/{row['mutation']}"


@pytest.mark.slow
def test_longproc_programs():
    found = spread(list(rows("longproc/pseudo_to_code_0.5k_verdicts.jsonl.gz")))
    run = score_rows(found, find_benchmark("longproc"))
    if run.missing:
        pytest.skip(f"no programs can be run here: {next(iter(run.missing))}")
    assert [s.values["accuracy"] for s in run.scores] == [row["metrics"]["accuracy"] for row in found]
    assert [s.values["extraction"] for s in run.scores] == [row["metrics"]["extraction_rate"] for row in found]


def test_helmet_metrics_row_by_row():
    for row in rows("helmet/substring_em_f1_rouge.jsonl.gz"):
        golds = [gold for one in row["answer"] for gold in (one if isinstance(one, list) else [one])]
        ours = compute_string_metrics(row["output"], golds)
        assert ours == pytest.approx({name: row["metrics"][name] for name in ours}), row["output"]
        assert find_answer(row["output"]) == row["parsed_output"]
        assert compute_ruler_recall(row["output"], golds) == row["ruler_recall"]


def test_helmet_rankings():
    for row in rows("helmet/parse_rankings.jsonl.gz"):
        assert parse_ranking(row["output"]) == row["ranking_scores"]


@pytest.mark.slow
def test_gpqa_paired_difference():
    with gzip.open(DATA / "gpqa" / "gpqa_diamond_scores_2models_5epochs.csv.gz", "rt") as file:
        table = list(csv.DictReader(file))
    better, worse = sorted({row["model_id"] for row in table})
    first, second = (
        score_rows([r for r in table if r["model_id"] == name], find_benchmark("gpqa")) for name in (worse, better)
    )
    found = compare(first, second)
    assert found.estimate == pytest.approx(5.9, abs=0.05)
    assert found.interval == pytest.approx((0.4, 11.3), abs=0.5)


def test_eqbench_pluses_and_ratings():
    from scipy.stats import spearmanr

    found = rows("eqbench3/pairwise_comparisons_2025-04-29.jsonl.gz")
    read = [(row, count_pluses(row)) for row in found]
    valid = [(row, one) for row, one in read if one is not None]
    assert len(valid) == 6362
    assert all(one == (row["plus_for_test"], row["plus_for_other"]) for row, one in valid)
    published = json.loads((DATA / "eqbench3" / "ratings_half.json").read_text())
    metrics = score_rows(found, find_benchmark("eqbench3")).metrics
    names = [name for name in published if f"rating/{name}" in metrics]
    ours, theirs = [metrics[f"rating/{name}"] for name in names], [published[name]["elo"] for name in names]
    assert spearmanr(ours, theirs).statistic >= 0.99


@pytest.mark.parametrize("mode", ["strict", "loose"])
def test_ifbench_as_published(mode):
    found = rows("../ifbench/sample_verdicts.jsonl.gz")
    run = score_rows(found, find_benchmark("ifbench"))
    pairs = [
        (score.values[f"prompt {mode}"], float(all(row[mode])))
        for row, score in zip(found, run.scores, strict=True)
        if not score.missing
    ]
    assert sum(ours == theirs for ours, theirs in pairs) / len(pairs) >= 0.98


def test_the_option_that_the_authors_of_mmlu_pro_read():
    """docs/answers.md: 1,483 of 1,489."""
    match = find_verifier("GroundTruthMatch")
    found = [row for row in rows("mmlu_pro/jamba-1.5-large_1500.jsonl.gz") if row["pred"]]
    same = [
        match.verify(
            Rollout(prompt=row["question"], response=row["model_outputs"]),
            match.check_parameters({"truth": row["pred"], "mode": "choice"}),
        ).value
        for row in found
    ]
    assert (len(same), sum(same)) == (1489, 1483)
