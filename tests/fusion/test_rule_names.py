"""Names and expressions: what they stand for, what they refuse, and rules of one's own."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from cases import folded

from rubrank.errors import InvalidInput, UnknownName
from rubrank.fusion import rules
from rubrank.fusion.gate import Gate
from rubrank.fusion.result import Fused
from rubrank.fusion.rule import Reweighting, Rule, Stateful
from rubrank.fusion.rules import ALIASES, find_rule, rule_names
from rubrank.scores.batch import ScoreBatch

DOCUMENT = Path(__file__).parents[2] / "docs" / "rules.md"


def test_all_rules_are_there():
    wanted = """weighted-mean z-score rule-fusion rar-explicit healthbench all-or-nothing gdpo gear focal sa-mrpo dvao
        amrp pow3r rlrr rvpo worst-case mean-variance chebyshev geometric log-sigmoid lexicographic borda copeland
        rlvr2"""
    assert set(rule_names()) >= set(re.split(r"\s+", wanted))


@folded("name", [*rules.RULES, *ALIASES])
def test_a_rule_keeps_the_contract(name):
    rule = find_rule(name)
    assert isinstance(rule, Rule)
    assert isinstance(rule.bounded, bool)
    assert is_dataclass(rule)
    assert type(rule).__dataclass_params__.frozen
    assert all(f.default is not f.default_factory for f in fields(rule)), "every constant has a default"
    assert rule.name == ALIASES.get(name, name).partition(":")[0]


@folded("name", rules.RULES)
def test_a_rule_says_what_it_does(name):
    """An instance worked by hand, the grade, and what becomes of missing scores: in the class or in its module."""
    docs = (inspect.getdoc(type(find_rule(name))), inspect.getmodule(type(find_rule(name))).__doc__)
    doc = next((doc for doc in docs if "grade " in doc or "Ours." in doc), "")
    assert re.search(r"\n\n    \S", doc), "opens with an instance, and has a grade"
    assert "issing" in doc


@folded("name", rules.RULES)
def test_the_table_of_the_docs_has_it(name):
    table = DOCUMENT.read_text(encoding="utf-8").partition("## All rules")[2]
    row = next(line for line in table.splitlines() if line.startswith(f"| `{name}` |"))
    shared = {"sa-mrpo": {"eps", "floor", "batch_norm", "conditions"}}  # "GDPO's"
    constants = {f.name for f in fields(type(find_rule(name))) if f.init} - shared.get(name, set())
    assert {constant for constant in constants if f"`{constant}`" not in row} == set()


def test_who_reweights_and_who_remembers():
    assert {n for n in rule_names() if isinstance(find_rule(n), Reweighting)} == {
        "focal",
        "sa-mrpo",
        "dvao",
        "amrp",
        "pow3r",
    }
    assert {n for n in rule_names() if isinstance(find_rule(n), Stateful)} == {
        "amrp",
        "pow3r",
        "chebyshev",
        "run-quantile",
        "rlvr2",
    }


def test_constants_in_a_name():
    rule = find_rule("focal:gamma=2:eps=0.1")
    assert (rule.gamma, rule.eps, rule.temperature) == (2, 0.1, 1.0)
    assert find_rule(" Focal : gamma = 2 ").gamma == 2
    assert find_rule("gear:method=exact:clip=true") == find_rule("gear", method="exact", clip=True)
    assert find_rule("rvpo:kappa=inf").kappa == np.inf
    assert find_rule("sa_mrpo:floor=1e-6").floor == 1e-6
    assert find_rule("cardinal") == find_rule("weighted-mean")
    assert find_rule("normalised-cardinal:floor=0").floor == 0
    assert find_rule("rlrr-hybrid").hybrid is True
    composed = find_rule("rlvr2:span=unit*focal:gamma=1+", prior=2.0)
    assert composed.rule.ordinal.span == "unit"
    assert composed.rule.ordinal.prior == 2.0
    assert composed.rule.weighing.gamma == 1


def test_names_of_expressions():
    assert [find_rule(x).name for x in ("gdpo", "gdpo+", "rlvr2*focal", "rlvr2*focal+")] == [
        "gdpo",
        "gdpo+",
        "rlvr2*focal",
        "rlvr2*focal+",
    ]
    batch = ScoreBatch.of_arrays([[1, 0], [0, 0.5]])
    assert find_rule("rlvr2*focal+")(batch).rule == "rlvr2*focal+"


def test_a_rule_is_handed_back():
    rule = find_rule("focal")
    assert find_rule(rule) is rule


@folded(
    ("expression", "message"),
    [
        ("gdop", "Did you mean 'gdpo'"),
        ("cardinl", "Did you mean 'cardinal'"),
        ("", "rule must be one of"),
        ("focal:gama=2", "focal: parameter must be one of 'eps', 'gamma', 'temperature'; got 'gama'. Did you mean"),
        ("worst-case:gamma=2", "worst-case: parameters must be none; got 'gamma'"),
        ("amrp:memory=1", "amrp: parameter must be one of"),
        ("focal:gamma", "of the form name=value; got 'gamma'"),
        ("focal:gamma=", "of the form name=value"),
        ("focal:gamma=-1", "focal: gamma must be a number ≥ 0; got -1. Use 3.0."),
        ("focal:gamma=high", "focal: gamma must be a number ≥ 0; got 'high'"),
        ("focal:gamma=nan", "focal: gamma must be a number ≥ 0; got 'nan'"),
        ("focal:temperature=0", "temperature must be a number > 0"),
        ("amrp:rate=2", "rate must be a number above 0 and at most 1; got 2"),
        ("amrp:rate=0", "rate must be a number above 0 and at most 1; got 0"),
        ("pow3r:rate=2", "rate must be a number from 0 to 1; got 2"),
        ("gear:method=fast", "method must be one of 'exact', 'hard', 'recursive'; got 'fast'"),
        ("healthbench:clip=1", "clip must be True or False"),
        ("rlvr2:pool=all", "rlvr2: pool must be one of"),
        ("rlvr2:adjust=removed", r"rlvr2: adjust must be 'remove' or attenuate\(lam\); got 'removed'"),
        ("focal*gdpo", "rule before '*' must be 'rlvr2'; got 'focal'"),
        ("rlvr2*gdpo", "rule after '*' must be one that re-weights"),
        ("rlvr2*", "rule must be one of"),
        ("rlvr2*focal*dvao", "rule must be one of|Did you mean"),
        ("gdpo++", "Did you mean 'gdpo'"),
    ],
)
def test_what_a_name_refuses(expression, message):
    with pytest.raises(InvalidInput, match=message.replace("*", r"\*")):
        find_rule(expression)


def test_an_unknown_name_is_a_lookup_error():
    with pytest.raises(UnknownName):
        find_rule("nothing-like-it")
    with pytest.raises(LookupError):
        find_rule("gdop")


def test_a_gate_needs_a_plus():
    assert find_rule("gdpo+", gate=Gate(floor=0.1)).gate.floor == 0.1
    with pytest.raises(InvalidInput, match=r"Ask for 'gdpo\+'"):
        find_rule("gdpo", gate=Gate(floor=0.1))


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setattr(rules, "RULES", dict(rules.RULES))


@pytest.mark.usefixtures("registry")
def test_a_rule_of_ones_own():
    @rules.rule
    @dataclass(frozen=True)
    class BestCase:
        name: ClassVar[str] = "best-case"
        bounded: ClassVar[bool] = True
        bonus: float = 0.0

        def __call__(self, batch):
            return Fused(batch, self.name, np.nanmax(batch.unit_MK, axis=1) + self.bonus)

        def weights(self, batch):
            return np.ones((1, batch.K))

    batch = ScoreBatch.of_arrays([[1, 0], [0, 0.5]], gates=[[0], [1]], gate_criteria=["NotEmpty"])
    assert find_rule("best-case")(batch).reward.tolist() == [1.0, 0.5]
    assert find_rule("best-case:bonus=0.1+")(batch).reward.tolist() == [0.0, 0.625]
    assert find_rule("rlvr2*best-case")(batch).reward.tolist() == find_rule("rlvr2")(batch).reward.tolist()
    assert "best-case" in rule_names()
    with pytest.raises(UnknownName, match="bonus"):
        find_rule("best-case:bonuss=1")


@pytest.mark.usefixtures("registry")
def test_what_cannot_be_registered():
    class Nameless:
        bounded = True

    class BadName(Nameless):
        name = "a+b"

    class NoCall(Nameless):
        name = "no-call"

    for wrong, message in (
        (Nameless, "name must be a text of small letters, .*; got None"),
        (BadName, r"name must be a text of small letters, .*; got 'a\+b'"),
        (NoCall, "with `bounded` and `__call__"),
        (lambda batch: batch, "class must be a class called with a batch"),
    ):
        with pytest.raises(InvalidInput, match=message):
            rules.rule(wrong)


def test_importing_the_registry_is_light():
    import subprocess
    import sys

    code = "import sys, rubrank.fusion.rules; print([m for m in ('numba', 'torch', 'polars') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
