"""Attributes controlled over a whole table on Ray: the rewards are those of the local path, but for rounding."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner
from whole_tables import fuse_file

import rubrank.fusion
from rubrank import InvalidInput
from rubrank.cli.app import app
from rubrank.grading.grade import grade
from rubrank.options import FuseOptions
from rubrank.scores.table import ScoreTable
from rubrank.tables.columns import Columns

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"), pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster():
    ray = pytest.importorskip("ray", reason="ray is not installed")
    pytest.importorskip("ray.data", reason="Ray Data is not installed")
    if not ray.is_initialized():
        ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=128 << 20)
    yield ray
    ray.shutdown()


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr("rubrank.fusion.cluster.ROWS_PER_TASK", 100)


def table(seed=0, N=120):
    """Groups of several sizes; a judge that likes length; missing scores, silent groups, a gate."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, N)
    uid, M = np.repeat(np.arange(N), sizes), int(sizes.sum())
    tokens, heads = rng.lognormal(5, 0.6, M).round(3), rng.integers(0, 5, M)
    facts = np.where(rng.random(M) < 0.1, np.nan, np.round(np.log(tokens) * 1.5 + rng.normal(size=M)))
    style = np.where(uid % 7 == 0, 1.0, rng.normal(size=M))
    clean = (rng.random(M) < 0.9).astype(float)
    frame = {"uid": uid, "Facts": facts, "Style": style, "Clean": clean, "tokens": tokens, "heads": heads}
    return pl.DataFrame(frame).with_columns(pl.col("Facts").fill_nan(None))


def read(path):
    readers = {".csv": pl.read_csv, ".parquet": pl.read_parquet}
    if path.suffix in readers:
        return readers[path.suffix](path).to_dicts()
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def assert_close(one, other):
    """The same rows; numbers may differ by rounding."""
    rows, others = read(one), read(other)
    assert [list(row) for row in rows] == [list(row) for row in others]
    for row, expected in zip(rows, others, strict=True):
        for name, value in expected.items():
            if isinstance(value, float):
                assert row[name] == pytest.approx(value, abs=1e-12)
            else:
                assert row[name] == value


def written(frame, path):
    {"csv": frame.write_csv, "parquet": frame.write_parquet, "jsonl": frame.write_ndjson}[path.suffix[1:]](path)
    return path


OPTIONS = FuseOptions(attributes=("tokens=attenuate:0.7:bernoulli", "heads"), global_quality=("Clean",))


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_the_file_is_the_local_one(cluster, tmp_path, suffix):
    source = written(table(), tmp_path / f"scores.{suffix}")
    found = []
    for engine in ("local", "ray"):
        output = tmp_path / f"{engine}.{suffix}"
        found.append(fuse_file(source, output, OPTIONS, utilities=True, engine=engine))
    assert_close(tmp_path / f"ray.{suffix}", tmp_path / f"local.{suffix}")
    assert found[0].reward_sum == pytest.approx(found[1].reward_sum)  # a figure for people, summed chunk by chunk
    plain = fuse_file(source, None, FuseOptions(global_quality=("Clean",)))
    assert plain.reward_sum != found[0].reward_sum  # something was taken out


def test_coefficients_and_explanations_are_the_local_ones(cluster, tmp_path):
    source = written(table(3), tmp_path / "scores.parquet")
    kept = {}
    for engine in ("local", "ray"):
        kept[engine] = {group.label: group for group in fuse_file(source, None, OPTIONS, engine=engine).first}
    assert list(kept["local"]) == list(kept["ray"])
    for label, here in kept["local"].items():
        there = kept["ray"][label]
        assert [str(here.explain(i)) for i in range(len(here.reward))] == [
            str(there.explain(i)) for i in range(len(there.reward))
        ]


@pytest.mark.parametrize("wide", [False, True])
def test_groups_with_criteria_of_their_own(cluster, tmp_path, monkeypatch, wide):
    if wide:
        for module in ("tables.table", "tables.layout", "tables.output", "fusion.files"):
            monkeypatch.setattr(f"rubrank.{module}.MOST_CRITERION_COLUMNS", 10)
    rng = np.random.default_rng(2)
    rows = []
    for g in range(60):
        lengths = rng.integers(50, 800, 4)
        for n in lengths:
            scores = {"Facts": float(round(np.log(n) + rng.normal(0, 0.3)))}
            scores |= {f"own {g % 40}": float(rng.integers(0, 3))} if g % 3 else {}
            rows.append({"uid": f"q{g}", "scores": scores, "attributes": {"tokens": int(n)}})
    source = tmp_path / "wide.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for engine in ("local", "ray"):
        fuse_file(
            source, tmp_path / f"{engine}.jsonl", FuseOptions(attributes=("tokens",)), utilities=True, engine=engine
        )
    assert_close(tmp_path / "ray.jsonl", tmp_path / "local.jsonl")


def test_a_score_file_brings_its_rubrics(cluster, tmp_path):
    counts = [
        {"name": f"Words{n}", "verifier": "WordCount", "params": {"relation": "at least", "count": n}} for n in (5, 9)
    ]
    rows = [
        {"prompt": "p", "group": f"q{g}", "response": "word " * n, "rubric": [*counts[: 1 + g % 2], "EmptyAnswer"]}
        for g in range(40)
        for n in (1 + g % 5, 6, 12, 0 if g % 4 else 7)
    ]
    path = tmp_path / "scores.jsonl"
    grade(rows, workers=0).write(path)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for i, line in enumerate(lines):
        if "scores" in line:
            line["attributes"] = {"tokens": 5 + (i * 37) % 91}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    options = FuseOptions(attributes=("tokens",), adjust_criteria=("all",))
    for engine in ("local", "ray"):
        fuse_file(path, tmp_path / f"{engine}.jsonl", options, utilities=True, engine=engine)
    assert_close(tmp_path / "ray.jsonl", tmp_path / "local.jsonl")


def test_batches_of_a_column_stay_whole(cluster, tmp_path):
    frame = table(4).with_columns((pl.col("uid") // 30).alias("step"))
    source = written(frame, tmp_path / "scores.parquet")
    for engine in ("local", "ray"):
        fuse_file(source, tmp_path / f"{engine}.parquet", OPTIONS, columns=Columns(batch="step"), engine=engine)
    assert_close(tmp_path / "ray.parquet", tmp_path / "local.parquet")


def test_what_learns_more_is_refused(cluster, tmp_path):
    source = written(table(5), tmp_path / "scores.jsonl")
    flags = ["--criteria", "all", "--attributes", "tokens", "--engine", "ray", "--set", "pool=run"]
    found = CliRunner().invoke(app, ["fuse", str(source), *flags])
    assert found.exit_code != 0
    assert "Traceback" not in found.output


def test_a_dataset_gets_the_rewards_of_the_local_path(cluster):
    rng = np.random.default_rng(1)
    rows = [
        {"uid": f"q{g}", "response": " ".join(["word"] * int(n)), "Short": float(n < 60), "Facts": float(n // 20)}
        for g in range(30)
        for n in rng.integers(5, 120, 5)
    ]
    rows = [{**row, "number": i, "words": len(row["response"].split())} for i, row in enumerate(rows)]
    rubric = [{"name": name, "question": "Is it so?"} for name in ("Short", "Facts")]
    scored = cluster.data.from_items(rows)
    there = rubrank.fusion.on_ray(scored, rubric, attributes=["words"], adjust_criteria="all").take_all()
    there = [row["reward"] for row in sorted(there, key=lambda row: row["number"])]
    groups = grade([{k: row[k] for k in ("uid", "response")} | {"prompt": row["uid"]} for row in rows], rubric)
    filled, at = [], 0
    for group in groups.groups:
        for i in range(len(group.scores)):
            group.scores[i] = rows[at]["Short"], rows[at]["Facts"]
            at += 1
        filled.append(group)
    words = np.array([[row["words"]] for row in rows], float)
    here = ScoreTable(tuple(filled)).fuse(attributes=words, adjust="remove", adjust_criteria="all")
    assert there == pytest.approx(here.reward.tolist(), abs=1e-12)
    with pytest.raises(InvalidInput, match="adjust"):
        rubrank.fusion.on_ray(scored, rubric, adjust="remove")
    with pytest.raises(InvalidInput, match="words2"):
        rubrank.fusion.on_ray(scored, rubric, attributes=["words2"])
