"""Queries with criteria of their own: a step is fused in parts, and says the same."""

from __future__ import annotations

import json
import math

import pytest
from scored import group

from rubrank import Gate, find_rule
from rubrank.grading.grade import grade
from rubrank.judges.client.usage import Account
from rubrank.judges.judge import Judgment
from rubrank.judges.judgments import Judgments
from rubrank.training import step_parts
from rubrank.training.engine import Graded, RewardEngine
from rubrank.training.step_parts import split_step

SHARED = ["EmptyAnswer", {"name": "Short", "verifier": "WordCount", "params": {"high": 4}}]
TEXTS = ("a", "a b c", "a c d e f", "", "b b b b b b")
GATE = {"criteria": [{"name": "Asks", "verifier": "EmptyAnswer", "layer": "global_quality"}]}


def own(q: int) -> dict:
    words = "abcdef"[q % 6], "abcdef"[(q + 1) % 6]
    criteria = [{"name": f"q{q} {w}", "verifier": "keywords:existence", "params": {"keywords": [w]}} for w in words]
    criteria.append({"name": f"q{q} gate", "verifier": "WordCount", "params": {"high": 5}, "layer": "global_quality"})
    return {"criteria": criteria}


def step_groups() -> list:
    return [group(f"g{q}", *TEXTS[q % 2 :], rubric=own(q)) for q in range(7)]


def both_ways(monkeypatch, make, groups) -> list:
    found = []
    for most in (5, 10_000):
        monkeypatch.setattr(step_parts, "MOST_COLUMNS", most)
        found.append(make().score(groups, 3))
    return found


@pytest.mark.parametrize("rule", ["rlvr2+", "rlvr2", "borda+", "weighted-mean", "gdpo+", "rlvr2*focal+"])
def test_rewards_metrics_and_texts_are_those_of_one_batch(rule, monkeypatch):
    cut, whole = both_ways(monkeypatch, lambda: RewardEngine(SHARED, rule), step_groups())
    assert cut.flat() == pytest.approx(whole.flat(), abs=1e-12)
    assert cut.columns == whole.columns
    timed = {"rubrank/seconds", "rubrank/share_of_step"}
    assert {k: v for k, v in cut.metrics.items() if k not in timed} == pytest.approx(
        {k: v for k, v in whole.metrics.items() if k not in timed}, abs=1e-12
    )
    assert cut.metrics["rubrank/gate/EmptyAnswer"] > 0 if rule.endswith("+") else True


@pytest.mark.parametrize(
    ("rule", "options"),
    [
        ("rule-fusion", {"hard": ["q0 a"]}),
        ("log-sigmoid", {"reference": {"q0 a": 0.9}}),
        ("gdpo", {"batch_norm": False, "conditions": (("q0 a", "q0 b", 1.0),)}),
        ("weighted-mean+", {"gate": Gate(maximum={"q0 gate": 1.0})}),
    ],
)
def test_a_rule_that_names_a_criterion_of_one_query_gets_the_whole_step(rule, options, monkeypatch):
    cut, whole = both_ways(monkeypatch, lambda: RewardEngine(SHARED, find_rule(rule, **options)), step_groups())
    assert len(cut.results) == 1
    assert cut.flat() == pytest.approx(whole.flat(), abs=1e-12)


def test_attributes_within_groups(monkeypatch):
    def make() -> RewardEngine:
        return RewardEngine(SHARED, "rlvr2+", attributes=["answer_length"], pool="group", adjust_criteria="all")

    cut, whole = both_ways(monkeypatch, make, step_groups())
    assert cut.flat() == pytest.approx(whole.flat(), abs=1e-12)
    assert cut.metrics["rubrank/gamma/answer_length"] == pytest.approx(whole.metrics["rubrank/gamma/answer_length"])


@pytest.mark.parametrize("pool", ["run", "batch"])
@pytest.mark.parametrize(
    "rule", ["rlvr2+", "rlvr2:span=unit", "rlvr2*focal", "rlvr2:wins=graded+", "weighted-mean+", "borda"]
)
def test_attributes_over_groups(rule, pool, monkeypatch):
    """The influence is estimated on the criteria that groups share, before a step is cut; one step is an evaluation."""
    steps = [[group(f"{s}/{q}", *TEXTS[q % 2 :], rubric=own(q + s)) for q in range(14)] for s in range(3)]
    found = []
    for most in (5, 10_000):
        monkeypatch.setattr(step_parts, "MOST_COLUMNS", most)
        engine = RewardEngine(SHARED, rule, attributes=["answer_length"], pool=pool, adjust_criteria="all")
        found.append([engine.score(groups, s, train=s != 1) for s, groups in enumerate(steps)])
    for cut, whole in zip(*found, strict=True):
        assert (len(cut.results) > 1, len(whole.results)) == (True, 1)
        assert cut.flat() == pytest.approx(whole.flat(), abs=1e-9)
        assert cut.metrics["rubrank/gamma/answer_length"] == pytest.approx(whole.metrics["rubrank/gamma/answer_length"])
    plain = RewardEngine(SHARED, rule).score(steps[2], 2)
    assert found[0][2].flat() != pytest.approx(plain.flat(), abs=1e-3)


def test_records_are_those_of_one_batch(tmp_path, monkeypatch):
    found = []
    for most in (5, 10_000):
        monkeypatch.setattr(step_parts, "MOST_COLUMNS", most)
        path = tmp_path / f"{most}.jsonl"
        engine = RewardEngine(SHARED, records=path)
        rewards = engine.score(step_groups(), 3).rewards
        engine.finish_records()
        records = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        assert [tuple(record["reward"]) for record in records] == list(rewards)
        found.append([(r["group"], [c["name"] for c in r["criteria"]], r["scores"], r["responses"]) for r in records])
    assert found[0] == found[1]


def test_a_query_with_gates_alone_is_fused_beside_others(monkeypatch):
    groups = [group("g", *TEXTS, rubric=GATE), *step_groups(), group("h", *TEXTS, rubric=GATE)]
    cut, whole = both_ways(monkeypatch, RewardEngine, groups)
    assert cut.flat() == pytest.approx(whole.flat(), abs=1e-12)
    assert not any(map(math.isnan, cut.flat()))


def test_only_rules_that_see_each_group_by_itself_are_given_parts(monkeypatch):
    def count_parts(rule: str) -> int:
        return len(RewardEngine(SHARED, rule).score(step_groups(), 0).results)

    assert count_parts("rlvr2+") == 1
    monkeypatch.setattr(step_parts, "MOST_COLUMNS", 5)
    assert count_parts("gdpo") == 1
    assert count_parts("rlvr2+") == 7
    assert split_step(grade(step_groups(), SHARED).groups) == [slice(g, g + 1) for g in range(7)]


def test_the_costs_of_judges_are_recorded_once(monkeypatch, tmp_path):
    """Each part has its own groups' judgments; the account of the step is with the first part only."""
    monkeypatch.setattr(step_parts, "MOST_COLUMNS", 5)
    groups = step_groups()
    table = grade(groups, SHARED)
    judging = Judgments(tuple(Judgment() for _ in groups), Account(calls=9), tuple(group.id for group in groups))
    engine = RewardEngine(SHARED, records=tmp_path / "records.jsonl")
    result = engine.fuse(groups, Graded(table.groups, judging), 0)
    assert len(result.results) == 7
    assert result.metrics["rubrank/judge/calls"] == 9
    lines = (tmp_path / "records.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["metadata"]["judging"]["calls"] for line in lines] == [9, 0, 0, 0, 0, 0, 0]
