"""One path from scores to a reward: what the trainer gets is what the record says, from one fit."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from cases import folded

from rubrank import RLVR2, Fused, Gate, Gated, Group, Rollout, ScoreBatch, find_rule, fuse, rule_names
from rubrank.fusion.files import explain_file, fuse_file
from rubrank.options import FuseOptions
from rubrank.records.files import read_records
from rubrank.records.record import records_of, to_fused_group
from rubrank.scores.criterion import CriterionData
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.training.engine import Graded, RewardEngine
from rubrank.verifiers.verifier import TERNARY, UNIT, Domain

NAN = np.nan
GRADE = Domain("continuous", (), 0.0, 10.0)
RULES = [*rule_names(), "rlvr2*focal", "rlvr2*dvao"]
GATES = [
    {},
    {"lift": 0},
    {"lift": 0.5, "floor": 0.1},
    {"missing": "fail"},
    {"missing": "fail", "lift": 0, "shape": "smoothstep", "threshold": 0.7},
]


def table() -> ScoreTable:
    """Queries that ask different things: levels, grades, penalties, a gate that only the first asks for."""
    facts = CriterionData("Facts", weight=2.0, domain=TERNARY, points=2.0)
    grade = CriterionData("Grade", domain=GRADE, margin=0.5)
    slips = CriterionData("Slips", direction="lower", domain=GRADE)
    gate = CriterionData("NotEmpty", layer="global_quality")
    clean = CriterionData("Clean", layer="low_quality", domain=UNIT)
    rng = np.random.default_rng(3)
    first = np.stack([rng.choice([0, 0.5, 1], 5), rng.random(5) * 10, [1, 1, 0, NAN, 1], [1, 0.5, 1, NAN, 0]], 1)
    second = np.stack([rng.random(4) * 10, rng.choice([0, 0.5, 1], 4), rng.random(4) * 10], 1)
    second[1, 0] = NAN
    third = np.stack([rng.random(6) * 10, [0.2, 1, 1, 1, 0.6, 1]], 1)
    return ScoreTable(
        (
            GroupScores("a", (facts, grade, gate, clean), first, (("",) * 4,) * 5),
            GroupScores("b", (slips, facts, replace(grade, direction="lower")), second, (("",) * 3,) * 4),
            GroupScores("c", (grade, clean), third, (("",) * 2,) * 6),
        )
    )


def groups_of(scores: ScoreTable) -> list[Group]:
    return [
        Group(id=g.id, rollouts=tuple(Rollout(prompt="Q", response=f"answer {i}") for i in range(len(g.scores))))
        for g in scores
    ]


def step(rule, scores: ScoreTable, path, **options):
    engine = RewardEngine(rule=rule, records=path, **options)
    return engine.fuse(groups_of(scores), Graded(scores.groups), 0)


# ------------------------------------------------------------------------------------------ property 12 of the method


@pytest.mark.parametrize("name", RULES)
@folded("gate", [None, *GATES])
def test_the_record_has_the_reward_that_the_trainer_got(tmp_path, name, gate):
    rule = find_rule(name) if gate is None else Gated(find_rule(name), Gate(**gate))
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.jsonl"
    rewards = step(rule, table(), path).rewards
    records = list(read_records(path))
    for found, record in zip(rewards, records, strict=True):
        known = [i for i, reward in enumerate(found) if reward == reward]
        assert [found[i] for i in known] == [record.reward[i] for i in known]
        unfolded = to_fused_group(record)
        np.testing.assert_array_equal(unfolded.reward, record.reward)
        assert unfolded.no_signal == bool(np.ptp(record.reward) < 1e-9)


@pytest.fixture
def fits(monkeypatch):
    """How often utilities were fitted."""
    count = Counter()
    original = RLVR2.__call__

    def counted(self, *arguments):
        count["fits"] += 1
        return original(self, *arguments)

    monkeypatch.setattr(RLVR2, "__call__", counted)
    return count


@pytest.mark.parametrize("name", ["rlvr2", "rlvr2+", "rlvr2*focal+"])
def test_a_step_is_fitted_once(tmp_path, fits, name):
    """Rewards, metrics, records and texts of a step: one fit."""
    found = step(name, table(), tmp_path / "r.jsonl", attributes=["answer_length"])
    assert found.metrics["rubrank/groups/agreement"]  # made of the fit
    assert len(list(read_records(tmp_path / "r.jsonl"))) == 3
    assert fits["fits"] == 1


def test_explaining_fits_nothing_again(fits):
    fused = table().fuse()
    assert fits["fits"] == 1
    for group in fused:
        for i in range(len(group.reward)):
            assert group.explain(i)
    assert list(records_of(fused, table()))
    assert fused.agreement is not None
    assert fits["fits"] == 1


# ------------------------------------------------------------------------- defects that came from several paths


def test_a_gate_that_a_query_does_not_ask_for_fails_nobody_anywhere(tmp_path):
    quality, gate = CriterionData("Q", domain=UNIT), CriterionData("NotEmpty", layer="global_quality")
    scores = ScoreTable(
        (
            GroupScores("asks", (quality, gate), np.array([[0.1, 1], [0.9, NAN]]), (("", ""),) * 2),
            GroupScores("does not", (quality,), np.array([[0.9], [0.1]]), (("",),) * 2),
        )
    )
    rewards = step("rlvr2+", scores, tmp_path / "r.jsonl", gate=Gate(missing="fail", lift=0)).rewards
    assert rewards[1] == (1.0, 0.0)
    assert [record.reward for record in read_records(tmp_path / "r.jsonl")] == [rewards[0], (1.0, 0.0)]
    scores.write(tmp_path / "s.jsonl")
    options = FuseOptions(gate={"missing": "fail", "lift": 0})
    assert explain_file(tmp_path / "s.jsonl", "does not", options).reward.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("rule", ["rlvr2", "weighted-mean", "borda+"])
def test_scores_are_shown_as_they_were_given_whatever_the_direction(tmp_path, rule):
    """A criterion that is better higher in one query and lower in the other: 3 is printed as 3 in both."""
    up = CriterionData("Steps", domain=GRADE)
    down = replace(up, direction="lower")
    given = np.array([[3.0], [7.0]])
    scores = ScoreTable(tuple(GroupScores(i, (c,), given, (("",),) * 2) for i, c in (("up", up), ("down", down))))
    fused = find_rule(rule)(scores.batch())
    assert fused.reward[0] < fused.reward[1]
    assert fused.reward[2] > fused.reward[3]
    scores.write(tmp_path / "s.jsonl")
    for label in ("up", "down"):
        assert "Steps: 3; " in fused[label].explain(0)
        read = explain_file(tmp_path / "s.jsonl", label, FuseOptions(rule=rule))
        assert "Steps: 3; " in read.explain(0)
    records = list(records_of(fused, scores))
    assert [record.scores for record in records] == [((3.0,), (7.0,))] * 2
    assert "Steps: 3; " in to_fused_group(records[1]).explain(0)


@pytest.mark.parametrize("name", [*RULES, "gdpo+", "rlvr2+"])
def test_one_definition_of_no_signal(tmp_path, name):
    """Rewards that differ by rounding alone: the result, its groups, metrics and records all say the same."""
    flat = CriterionData("Q", domain=UNIT)
    near = np.array([[0.5], [0.5 + 1e-13], [0.5]]) if "rlvr2" not in name and "borda" not in name else np.ones((3, 1))
    if name in ("copeland", "lexicographic", "rlrr", "run-quantile"):
        near = np.ones((3, 1))
    scores = ScoreTable((GroupScores("flat", (flat,), near, (("",),) * 3),))
    found = step(name, scores, tmp_path / "r.jsonl")
    (record,) = read_records(tmp_path / "r.jsonl")
    fused = find_rule(name)(scores.batch())
    assert (record.no_signal, bool(fused.no_signal[0]), fused["flat"].no_signal) == (True, True, True)
    assert found.metrics["rubrank/groups/no_signal"] == 1.0


@pytest.mark.parametrize("margin", [0.0, 0.5])
def test_a_group_does_not_feel_its_neighbours(margin):
    """Large groups are sorted and small ones looked up, each for itself: alone or together, bit by bit."""
    rng = np.random.default_rng(0)
    sizes = [3, 40, 8, 33, 1, 12, 300]
    scores = np.round(rng.random((sum(sizes), 4)) * 5, 1)
    scores[rng.random(scores.shape) < 0.1] = NAN
    labels = np.repeat(np.arange(len(sizes)), sizes)
    margins_NK = np.zeros((len(sizes), 4))
    margins_NK[2] = margins_NK[5] = margin
    whole = RLVR2()(ScoreBatch.of_arrays(scores, groups=labels, margins=margins_NK))
    for g in range(len(sizes)):
        rows = labels == g
        alone = RLVR2()(ScoreBatch.of_arrays(scores[rows], margins=margins_NK[g]))
        np.testing.assert_array_equal(alone.utilities, whole.utilities[rows])
        np.testing.assert_array_equal(alone.reward, whole.reward[rows])


def test_no_margin_is_made_up():
    fused = table().fuse()
    assert {m for group in fused for m in group.margins.tolist()} <= {0.0, 0.5}


# ----------------------------------------------------------------------------------------------- the same everywhere


@pytest.mark.parametrize("name", [*RULES, "weighted-mean+", "gdpo+", "rlvr2+"])
def test_files_and_tables_give_the_same(tmp_path, name):
    scores = table()
    scores.write(tmp_path / "s.jsonl")
    fuse_file(tmp_path / "s.jsonl", tmp_path / "out.jsonl", FuseOptions(rule=name))
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    rewards = [row["reward"] for row in rows if "reward" in row]
    assert rewards == find_rule(name)(scores.batch()).reward.tolist()


def test_fuse_is_a_batch_a_rule_and_its_reward():
    scores = np.random.default_rng(1).random((3, 5, 4)).round(1)
    options = {"weights": [1, 2, 3, 4], "margins": 0.1, "directions": ["higher", "lower", "higher", "higher"]}
    batch = ScoreBatch.of_arrays(scores, **options)
    for rule in ({}, {"span": "unit"}, {"span": "sd"}, {"prior": 0.1}, {"model": "borda"}, {"scale": "utility"}):
        fused = RLVR2(**rule)(batch)
        assert isinstance(fused, Fused)
        np.testing.assert_array_equal(fuse(scores, **options, **rule), fused.reward)


def test_a_group_of_4096_is_supported_and_a_larger_one_refused():
    with pytest.raises(ValueError, match=r"at most 4,096 rollouts.* got one of 4,097"):
        fuse(np.zeros((4097, 1)))
    assert fuse(np.arange(4096)[:, None] // 64).shape == (4096,)


def test_penalties_are_ranked_without_a_gate_and_gate_with_one():
    quality, clean = CriterionData("Q"), CriterionData("Clean", layer="low_quality", domain=UNIT)
    scores = ScoreTable(
        (GroupScores("x", (quality, clean), np.array([[1, 0.2], [1, 1.0], [0, 1.0]]), (("", ""),) * 3),)
    )
    assert find_rule("rlvr2")(scores.batch()).criteria == ("Q", "Clean")
    assert find_rule("rlvr2")(scores.batch()).reward.tolist() == [0.0, 1.0, 0.0]
    assert find_rule("rlvr2")(scores.batch(penalties="ignore")).reward.tolist() == [1.0, 1.0, 0.0]
    assert find_rule("rlvr2+")(scores.batch()).criteria == ("Q",)
    assert find_rule("rlvr2+")(scores.batch()).reward == pytest.approx([0.6, 1.0, 0.25])


@folded("clean", [1.0, 0.5, NAN])
def test_a_record_explains_a_gate_of_penalties_alone(clean):
    """Without a criterion of global quality, the line about the gate was lost on the way through a record."""
    criteria = CriterionData("Q", domain=UNIT), CriterionData("Clean", layer="low_quality", domain=UNIT)
    scores = ScoreTable((GroupScores("x", criteria, np.array([[0.5, clean], [0.8, 1.0]]), (("", ""),) * 2),))
    fused = find_rule("weighted-mean+")(scores.batch())
    (record,) = records_of(fused, scores)
    assert "gate: " in fused.explain(0)
    assert [to_fused_group(record).explain(i) for i in (0, 1)] == [fused.explain(i) for i in (0, 1)]
