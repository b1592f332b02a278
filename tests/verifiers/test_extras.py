"""Packages behind extras: who needs one says so before grading begins, and how to install it."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from rubrank import Rollout, find_verifier, grade
from rubrank.errors import InvalidInput
from rubrank.training.engine import RewardEngine

ROOT = Path(__file__).parents[2]
MATH = {"name": "Right", "verifier": "GroundTruthMatch", "params": {"truth": "x+1", "mode": "math"}}
SQL = {"name": "SqlMatch", "params": {"expected": "SELECT 1"}}
NEAR = {"name": "EmbeddingSimilarity", "params": {"model": "m", "references": "x"}}


@pytest.mark.parametrize(
    ("criterion", "package", "extra"),
    [(MATH, "math_verify", "math"), (SQL, "sqlglot", "sql"), (NEAR, "model2vec", "embeddings")],
)
def test_what_is_not_installed_is_told_before_anything_is_graded(criterion, package, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InvalidInput) as error:
        grade([{"prompt": "p", "response": "r"}], {"criteria": ["EmptyAnswer", criterion]}, workers=0)
    assert f"pip install 'rubrank[{extra}]'" in str(error.value)
    assert repr(criterion["name"]) in str(error.value)


def test_a_trainer_says_it_before_the_first_step(monkeypatch):
    monkeypatch.setitem(sys.modules, "math_verify", None)
    with pytest.raises(InvalidInput, match=r"rubrank\[math\]"):
        RewardEngine({"criteria": [MATH]}).check_rubric(None)


def test_other_modes_need_nothing(monkeypatch):
    monkeypatch.setitem(sys.modules, "math_verify", None)
    plain = {"name": "GroundTruthMatch", "params": {"truth": "42", "mode": "numeric"}}
    assert grade([{"prompt": "p", "response": "42"}], {"criteria": [plain]}, workers=0).scores[0, 0] == 1
    match = find_verifier("GroundTruthMatch")
    same = match.verify(Rollout(response="\\boxed{x+1}"), match.check_parameters({"truth": "x+1", "mode": "math"}))
    assert same.value == 1, "the same text needs no mathematics"


def test_the_core_has_no_heavy_packages():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    core = {name.partition(">")[0] for name in project["dependencies"]}
    heavy = {
        "math-verify",
        "sympy",
        "sqlglot",
        "pint",
        "model2vec",
        "torch",
        "transformers",
        "inspect-ai",
        "matplotlib",
    }
    assert not core & heavy
    extras = {name.partition(">")[0] for extra in project["optional-dependencies"].values() for name in extra}
    assert {"math-verify", "sqlglot", "pint", "model2vec"} <= extras
