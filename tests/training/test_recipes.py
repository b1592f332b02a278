"""The recipes: what their scripts make and say."""

from __future__ import annotations

import importlib.util
import json
import random
from pathlib import Path
from typing import Any

import pytest

from rubrank.rollouts.adapters import to_rubric

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
    return make.rows(make.TRAINED, 6, draws), make.rows(make.HELD_OUT, 2, draws)


def test_subjects_are_trained_on_or_held_out(rows):
    make = module("make")
    assert not set(make.TRAINED) & set(make.HELD_OUT)
    assert not {row["prompt"] for row in rows[0]} & {row["prompt"] for row in rows[1]}
    assert (len(rows[0]), len(rows[1])) == (180, 32)


def test_every_kind_of_constraint_is_in_both_parts(rows):
    kinds = {one.id for one in module("make").CONSTRAINTS}
    for part in rows:
        assert {kind for row in part for kind in row["instruction_id_list"]} == kinds


def test_constraints_are_asked_and_can_be_met_together(rows):
    asked = {one.id: one.asked for one in module("make").CONSTRAINTS}
    for row in (*rows[0], *rows[1]):
        assert all(asked[kind] in row["prompt"] for kind in row["instruction_id_list"])
        rubric = to_rubric({name: row[name] for name in ("instruction_id_list", "kwargs")})
        assert len(rubric.criteria) == 2
        assert not rubric.contradictions()


def test_the_summary_counts_constraints_and_draws_prompts(tmp_path):
    from rubrank.rollout import Group, Rollout
    from rubrank.trainer import RewardEngine

    engine = RewardEngine(["EmptyAnswer"], records=tmp_path / "records.jsonl")
    asked = {"instruction_id_list": ["punctuation:no_comma", "startend:quotation"], "kwargs": [{}, {}]}
    said = {0: (["a, b", '"a"'], ["a, b", "a, b"]), 10: (['"a"', '"a"'], ['"a"', "a, b"])}
    for step, answers in said.items():
        groups = [
            Group(id=f"{step}/{n}", rubric=asked, rollouts=tuple(Rollout(prompt=f"p{n}", response=t) for t in texts))
            for n, texts in enumerate(answers)
        ]
        engine.score(groups, step=step, train=False)
    found = module("summarise").compare(tmp_path)
    assert (found["steps"], found["prompts"]) == ([0, 10], 2)
    assert (found["all"]["before"]["value"], found["all"]["after"]["value"]) == (0.25, 0.75)
    assert (found["both"]["before"]["value"], found["both"]["after"]["value"]) == (0.25, 0.75)
    gained = found["punctuation:no_comma"]["gained"]
    assert (gained["value"], gained["n"]) == (0.5, 4)
    assert gained["low"] <= 0.5 <= gained["high"]
    json.dumps(found)
