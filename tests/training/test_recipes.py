"""The recipes: what their scripts make and say."""

from __future__ import annotations

import importlib.util
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rubrank.rubrics.public import to_rubric

RECIPE = Path(__file__).parents[2] / "recipes" / "smollm2_ifeval"


def module(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"smollm2_ifeval_{name}", RECIPE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture(scope="module")
def rows() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    make = module("make")
    draws = random.Random(make.SEED)
    return make.rows(make.TRAINED, 8, draws), make.rows(make.HELD_OUT, 4, draws)


def test_subjects_are_trained_on_or_held_out(rows):
    make = module("make")
    assert not set(make.TRAINED) & set(make.HELD_OUT)
    assert not {row["prompt"] for row in rows[0]} & {row["prompt"] for row in rows[1]}
    assert (len(rows[0]), len(rows[1])) == (240, 64)


def test_every_kind_of_constraint_is_in_both_parts(rows):
    kinds = {one.id for one in module("make").CONSTRAINTS}
    for part in rows:
        assert {criterion["name"] for row in part for criterion in row["rubric"]} == kinds | {"Subject"}


def test_no_prompt_comes_twice(rows):
    asked = [row["prompt"] for part in rows for row in part]
    assert len(set(asked)) == len(asked)


def test_constraints_are_asked_and_can_be_met_together(rows):
    asked = {one.id: one.asked for one in module("make").CONSTRAINTS}
    for row in (*rows[0], *rows[1]):
        *kinds, subject = (criterion["name"] for criterion in row["rubric"])
        assert all(asked[kind] in row["prompt"] for kind in kinds)
        assert (len(kinds), subject) == (2, "Subject")
        assert not to_rubric(row["rubric"]).contradictions()


@pytest.mark.parametrize(
    ("subject", "answer", "good"),
    [
        ("libraries", "A library lends.", 1),
        ("volcanoes", "One volcano.", 1),
        ("buses", "The bus!", 1),
        ("shoes", "Shoes.", 1),
        ("the moon", "Moon", 1),
        ("tea", "Teach them.", 0),
        ("chess", "A game.", 0),
    ],
)
def test_the_subject_is_named(subject, answer, good):
    from rubrank.grading.grade import grade
    from rubrank.rollouts.rollout import Group, Rollout

    group = Group(id="a", rubric=[module("make").named(subject)], rollouts=(Rollout(response=answer),))
    assert grade([group]).groups[0].scores.tolist() == [[good]]


@pytest.fixture
def run_folder(tmp_path) -> Path:
    """Two held-out prompts before and after, and a log of six steps."""
    from rubrank.rollouts.rollout import Group, Rollout
    from rubrank.training.engine import RewardEngine

    engine = RewardEngine(
        ["EmptyAnswer", {"name": "count:unique_word_count", "params": {"N": 1}}], records=tmp_path / "records.jsonl"
    )
    asked = [{"name": "punctuation:no_comma"}, {"name": "startend:quotation"}, module("make").named("a")]
    said = {0: (["a, b", '"a"'], ["a, b", "a, b"]), 10: (['"a"', '"a"'], ['"a"', "a, b"])}
    for step, answers in said.items():
        groups = [
            Group(id=f"{step}/{n}", rubric=asked, rollouts=tuple(Rollout(prompt=f"p{n}", response=t) for t in texts))
            for n, texts in enumerate(answers)
        ]
        engine.score(groups, step=step, train=False)
    logged = {"reward": 0.51234567, "completions/mean_length": 9.0, "rubrank/punctuation:no_comma/mean": 0.5, "x": 1.0}
    lines = [{"step": step, **logged} for step in range(6)] + [{"step": 6, "train_runtime": 1.0}]
    (tmp_path / "trainer_state.json").write_text(json.dumps({"log_history": lines}))
    return tmp_path


def test_the_summary_counts_constraints_and_draws_prompts(run_folder):
    found = module("summarise").compare(run_folder)
    shares = found["shares"]
    assert found["prompts"] == 2
    for name in ("constraints", "both constraints", "everything"):
        assert (shares[name]["step 0"]["value"], shares[name]["step 10"]["value"]) == (0.25, 0.75)
    assert shares["Subject"]["step 0"]["value"] == 1.0
    gained = shares["punctuation:no_comma"]["gained"]
    assert (gained["value"], gained["n"]) == (0.5, 4)
    assert gained["low"] <= 0.5 <= gained["high"]


def test_the_summary_writes_what_is_kept(run_folder, tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="pip install 'rubrank[plots]'")
    module("summarise").main(run_folder, tmp_path / "kept")
    kept = tmp_path / "kept"
    assert {path.name for path in kept.iterdir()} == {"results.json", "log.jsonl", "curves.svg", "answers.md"}
    lines = [json.loads(line) for line in (kept / "log.jsonl").read_text().splitlines()]
    assert (len(lines), lines[0]["reward"]) == (6, 0.5123)
    assert "x" not in lines[0]
    assert "step 10: 4 of 4" in (kept / "answers.md").read_text()
    assert "both constraints" in capsys.readouterr().out


@pytest.mark.parametrize(
    "script",
    [
        "tiny_policy/make.py",
        "tiny_agent/make.py",
        "smollm2_ifeval/make.py",
        "smollm2_ifeval/summarise.py",
        "verl/make.py",
        "eight_gpus/memory.py",
    ],
)
def test_a_script_with_the_wrong_arguments_says_how_it_is_used(script):
    command = [sys.executable, str(RECIPE.parent / script), "--no-such-option"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: ")
    assert "Traceback" not in done.stderr
