"""Benchmarks every n steps of a run, on the tiny policy; and what is wrong with a config before anything is loaded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="TRL is not installed: pip install torch==2.13.0 trl==1.16.0")
pytest.importorskip("trl", reason="TRL is not installed: pip install torch==2.13.0 trl==1.16.0")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # their warnings are not ours to mend

from training import tiny  # noqa: E402

from rubrank.errors import InvalidInput, UnknownName  # noqa: E402
from rubrank.evaluation.benchmarks import find_benchmark  # noqa: E402
from rubrank.evaluation.generation import ask_items  # noqa: E402
from rubrank.evaluation.runs import read_runs  # noqa: E402
from rubrank.evaluation.table import report_data  # noqa: E402
from rubrank.records.files import read_records  # noqa: E402
from rubrank.training.job.benchmarks import check_evaluation  # noqa: E402
from rubrank.training.job.plan import make_plan  # noqa: E402
from rubrank.training.job.run import run  # noqa: E402

ITEMS = [
    {"key": 1, "prompt": "Say.", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]},
    {"key": 2, "prompt": "Speak.", "instruction_id_list": ["change_case:english_lowercase"], "kwargs": [{}]},
    {"key": 3, "prompt": "Tell it all.", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]},
]
SHORT = {"stages": [{"steps": 3, "sources": [{"path": "prompts.jsonl"}]}], "held_out": None}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tiny.make(tmp_path_factory.mktemp("tiny"))
    (folder / "data").mkdir()
    (folder / "data" / "ifeval.jsonl").write_text("".join(json.dumps(item) + "\n" for item in ITEMS))
    return folder


@pytest.fixture
def folder(made, tmp_path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "job", ignore=shutil.ignore_patterns("run")))


def test_checkpoints_are_evaluated_and_the_run_goes_on_as_without(folder):
    wanted = {"every": 2, "benchmarks": ["ifeval"], "limit": 2, "data": "data", "max_tokens": 8, "batch": 1}
    done = run(make_plan(tiny.job(folder, **SHORT, evaluate=wanted, report_to=["tensorboard"])))
    files = sorted((folder / "run" / "evaluations").glob("step-*/*.json"))
    assert [file.parent.name for file in files] == ["step-000000", "step-000002", "step-000003"]
    runs = read_runs([folder / "run" / "evaluations"])
    assert [one.sampling["step"] for one in runs] == [0, 2, 3]
    assert all(len(one.scores) == 2 for one in runs)
    logged = [(line["step"], line["benchmark/ifeval"]) for line in done.log if "benchmark/ifeval" in line]
    assert logged == [(one.sampling["step"], 100 * one.metrics["prompt strict"]) for one in runs]
    (curve,) = report_data(runs)["curves"]
    assert [point[:2] for point in curve["points"]] == [list(pair) for pair in logged]
    assert _in_tensorboard(folder) == pytest.approx([value for _, value in logged])
    with_benchmarks = [record.reward for record in read_records(done.records)]
    shutil.rmtree(folder / "run")
    without = run(make_plan(tiny.job(folder, **SHORT)))
    assert [record.reward for record in read_records(without.records)] == with_benchmarks


def _in_tensorboard(folder: Path) -> list[float]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for file in (folder / "run").rglob("events.out.tfevents.*"):
        found = EventAccumulator(str(file))
        found.Reload()
        for name in found.Tags()["scalars"]:
            if name.endswith("benchmark/ifeval"):
                return [one.value for one in found.Scalars(name)]
    return []


@pytest.mark.parametrize(
    ("wanted", "error", "match"),
    [
        ({"benchmarks": ["ifevl"], "data": "data"}, UnknownName, "ifeval"),
        ({"benchmarks": ["ifbench"], "data": "data"}, InvalidInput, "ifbench.jsonl"),
        ({"benchmarks": ["frames"], "data": "data"}, InvalidInput, "evaluate.judges"),
    ],
)
def test_what_is_wrong_is_said_before_a_model_is_loaded(folder, wanted, error, match):
    with pytest.raises(error, match=match):
        check_evaluation(tiny.job(folder, evaluate=wanted))


def test_dialogues_are_asked_turn_by_turn_with_the_models_own_answers():
    items = [
        {"system_id": "s", "turn": turn, "system_prompt": "Be brief.", "prompt": f"q{turn}", "id": f"s-{turn}"}
        for turn in (2, 1)
    ]
    asked = []

    def ask(prompts):
        asked.extend(prompts)
        return [f"<think>hm</think>a{len(asked)}"]

    rows = ask_items(find_benchmark("sysbench"), items, ask)
    assert [row["prompt"] for row in rows] == ["q1", "q2"]
    assert [message["content"] for message in asked[1]][-3:] == ["q1", "a1", "q2"]
