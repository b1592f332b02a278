"""`rubrank/score`: what can be compared over steps, by source, stage, category and tier."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rubrank import Gate, RewardEngine, read_records
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.training import metrics

LONG = {"name": "Long", "verifier": "WordCount", "params": {"low": 3}}
MOON = {"name": "Moon", "verifier": "Keyword", "params": {"keywords": ["moon"]}}


def group(id: str, *texts: str, rubric=None, **metadata) -> Group:
    rollouts = tuple(Rollout(prompt=id, response=text, metadata=metadata) for text in texts)
    return Group(id=id, rollouts=rollouts, rubric=rubric)


def test_the_score_is_the_gated_weighted_mean():
    engine = RewardEngine(["EmptyAnswer", {**LONG, "weight": 3.0}, MOON])
    step = engine.score([group("a", "the moon pulls", "one two three", "moon", "")], 0)
    assert step.metrics["rubrank/score"] == pytest.approx((1.0 + 0.75 + 0.25 + 0.0) / 4)


def test_the_score_does_not_depend_on_the_rule_or_the_company():
    groups = [group("a", "the moon pulls", "moon"), group("b", "x", "one two three", "moon")]
    rubric = ["EmptyAnswer", LONG, MOON]
    found = [
        RewardEngine(rubric, rule).score(groups, 0).metrics["rubrank/score"]
        for rule in ("rlvr2+", "gdpo+", "weighted-mean", "borda+")
    ]
    assert found == pytest.approx([(1.0 + 0.5 + 0.0 + 0.5 + 0.5) / 5] * 4)


def test_the_soft_gate_takes_its_factor_and_lifts_nobody():
    soft = {"name": "Soft", "verifier": "WordCount", "params": {"low": 2}, "layer": "low_quality"}
    step = RewardEngine([soft, MOON], gate=Gate(floor=0.5)).score([group("a", "a moon", "moon", "x")], 0)
    assert step.metrics["rubrank/score"] == pytest.approx((1.0 + 0.5 + 0.0) / 3)


def test_lower_is_better_on_its_own_scale():
    bad = {"name": "Bad", "verifier": "Keyword", "params": {"keywords": ["moon"]}, "points": -4}
    step = RewardEngine([bad]).score([group("a", "moon", "sun")], 0)
    assert step.metrics["rubrank/score"] == 0.5


def test_rollouts_about_which_nothing_is_known_are_left_out():
    engine, groups = RewardEngine(["EmptyAnswer", MOON]), [group("a", "moon", "sun", "moon")]
    graded = engine.grade(groups)
    graded.groups[0].scores[1, 1] = np.nan
    assert engine.fuse(groups, graded, 0).metrics["rubrank/score"] == 1.0
    graded.groups[0].scores[1, 0] = 0.0  # stopped: that much is known
    assert engine.fuse(groups, graded, 0).metrics["rubrank/score"] == pytest.approx(2 / 3)


def test_no_names_of_questions_however_many_steps():
    engine = RewardEngine(["EmptyAnswer"])
    names = set()
    for step in range(6):
        own = [{**LONG, "name": f"Question {step}.{k}?"} for k in range(5)]
        names |= set(engine.score([group(str(step), "a b c", "a", rubric=own)], step).metrics)
    assert not any("Question" in name for name in names)
    assert {"rubrank/score", "rubrank/score/own", "rubrank/own/ties", "rubrank/own/missing"} <= names
    assert "rubrank/score/shared" not in names  # a gate is not ranked by


def test_categories_and_tiers():
    rubric = [{**LONG, "category": "Essential", "tier": 1}, {**MOON, "category": "Optional", "tier": 2}]
    found = RewardEngine().score([group("a", "one two three", "moon", "x", rubric=rubric)], 0).metrics
    assert found["rubrank/score/category/Essential"] == found["rubrank/score/tier/1"] == pytest.approx(1 / 3)
    assert found["rubrank/score/category/Optional"] == found["rubrank/score/tier/2"] == pytest.approx(1 / 3)


def test_a_category_is_the_querys_own():
    """Two queries may call the same criterion by different categories."""
    first, second = [{**MOON, "category": "A"}], [{**MOON, "category": "B"}]
    found = RewardEngine().score([group("a", "moon", "moon", rubric=first), group("b", "x", "x", rubric=second)], 0)
    assert (found.metrics["rubrank/score/category/A"], found.metrics["rubrank/score/category/B"]) == (1.0, 0.0)


@pytest.mark.parametrize("key", ["rubrank_source", "data_source", "source"])
def test_sources_and_stages(key, tmp_path):
    engine = RewardEngine([MOON], records=tmp_path / "records.jsonl")
    groups = [group("a", "moon", "sun", **{key: "chat"}, stage="first"), group("b", "moon", "moon", **{key: "web"})]
    found = engine.score(groups, 3).metrics
    assert found["rubrank/score/source/chat"] == found["rubrank/score/stage/first"] == 0.5
    assert found["rubrank/score/source/web"] == 1.0
    told = [record.metadata for record in read_records(tmp_path / "records.jsonl")]
    assert told == [{"mode": "train", "source": "chat", "stage": "first"}, {"mode": "train", "source": "web"}]


def test_stage_0_has_a_line_as_stage_1_has():
    groups = [group("a", "moon", "sun", stage=0), group("b", "moon", "moon", stage=1)]
    found = RewardEngine([MOON]).score(groups, 0).metrics
    assert (found["rubrank/score/stage/0"], found["rubrank/score/stage/1"]) == (0.5, 1.0)


def test_what_is_no_name_is_no_source():
    found = RewardEngine([MOON]).score([group("a", "moon", "sun", source={"url": "x"}, stage=None)], 0).metrics
    assert not any("source" in name or "stage" in name for name in found)


def test_there_is_an_end_of_sources(monkeypatch):
    monkeypatch.setattr(metrics, "MOST_LINES", 2)
    engine = RewardEngine([MOON])
    names: set[str] = set()
    for n in range(5):
        names |= set(engine.score([group("a", "moon", "sun", source=f"s{n}")], n).metrics)
    assert {name for name in names if "/source/" in name} == {
        f"rubrank/score/source/{name}" for name in ("s0", "s1", "others")
    }
    resumed = RewardEngine([MOON])
    resumed.load_state_dict(json.loads(json.dumps(engine.state_dict())))
    assert "rubrank/score/source/others" in resumed.score([group("a", "moon", source="s4")], 5).metrics


def test_evaluations_have_the_same_line():
    engine = RewardEngine([MOON, LONG])
    one = [group("a", "moon", "the moon pulls")]
    assert engine.score(one, 0, train=False).metrics["rubrank/score"] == engine.score(one, 0).metrics["rubrank/score"]
