"""What goes wrong with rules that add up scores, and what must not go wrong with any of them."""

from __future__ import annotations

import numpy as np
import pytest
from cases import folded

from rubrank.fusion.rules import find_rule, rule_names
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.criterion import CriterionData
from rubrank.verifiers.verifier import UNIT

NAN = np.nan
COMPOSED = ("rlvr2*focal", "rlvr2*sa-mrpo", "rlvr2*dvao", "rlvr2*amrp", "rlvr2*pow3r")
EVERY = (*rule_names(), *COMPOSED)
CENTRED = ("z-score", "gdpo", "sa-mrpo", "dvao", "rvpo")  # z-scores: the mean of the group is 0


def value(name, scores, **given):
    return find_rule(name)(ScoreBatch.of_arrays(scores, **given)).value_M


def test_a_constant_sum_cancels_under_gdpo():
    scores = [[1, 0], [0, 1], [1, 0], [0.25, 0.75]]
    result = find_rule("gdpo")(ScoreBatch.of_arrays(scores))
    assert result.details["pre_norm"] == pytest.approx(np.zeros(4), abs=1e-12)
    assert result.value_M == pytest.approx(np.zeros(4), abs=1e-9)
    assert result.no_signal.all()


def test_one_pass_in_eight_is_amplified_by_gdpo():
    pre_norm = find_rule("gdpo")(ScoreBatch.of_arrays([[1.0]] + [[0.0]] * 7)).details["pre_norm"]
    assert pre_norm.round(2).tolist() == [2.47] + [-0.35] * 7


@folded("name", CENTRED)
def test_jitter_stays_nothing(name):
    """A judge that says 0.7 eight times, with rounding noise of 1e-6: also where the whole batch is nothing else."""
    jitter = 0.7 + 1e-6 * np.array([1, -1, 0, 1, -1, 0, 1, -1]).reshape(8, 1)
    assert abs(value(name, jitter)).max() < 0.02


@pytest.mark.parametrize("name", ["gdpo", "sa-mrpo", "rvpo"])
def test_without_a_floor_jitter_is_seen(name):
    """The floor does it: ε in the denominator alone lets the batch's normalisation blow it up again."""
    jitter = 0.7 + 1e-6 * np.array([1, -1, 0, 1, -1, 0, 1, -1]).reshape(8, 1)
    moved = abs(value(f"{name}:floor=0:eps=1e-12", jitter)).max()
    assert moved > (0.9 if name == "rvpo" else 1.0)


@folded("name", ["gdpo", "z-score", "sa-mrpo", "rvpo", "dvao"])
def test_a_real_difference_beats_jitter(name):
    rng = np.random.default_rng(0)
    real = np.array([1, 0, 1, 0, 1, 0, 1, 0.0])
    scores = np.stack([real, 0.7 + 1e-6 * rng.standard_normal(8)], axis=1)
    values = value(name, scores)
    assert values[real == 1].min() > values[real == 0].max()
    assert np.ptp(values[real == 1]) < 0.02


@folded("name", EVERY)
def test_a_missing_score_does_not_poison_the_group(name):
    rng = np.random.default_rng(1)
    scores = rng.random((2, 4, 3)).round(2)
    scores[:, 0] = 1.0  # one that has it all, for the rule that wants nothing less
    poisoned = scores.copy()
    poisoned[0, 1, 2] = NAN
    whole, with_hole = value(name, scores), value(name, poisoned)
    assert np.isfinite(with_hole).all()
    assert len(set(with_hole[:4].round(9))) > 1  # the group still tells its rollouts apart
    if name not in ("gdpo", "sa-mrpo", "amrp", "chebyshev", "run-quantile", "rlvr2*sa-mrpo", "rlvr2*amrp"):
        assert with_hole[4:] == pytest.approx(whole[4:], abs=1e-9)  # and the other group does not notice


@folded("name", EVERY)
def test_every_rollout_of_a_group_is_gated(name):
    scores = [[[1, 1], [0, 1]], [[1, 1], [0, 0.2]]]
    gates = [[[0], [0]], [[1], [1]]]
    result = find_rule(f"{name}+")(ScoreBatch.of_arrays(scores, gates=gates, gate_criteria=["NotEmpty"]))
    assert result.reward[0].tolist() == [0.0, 0.0]
    assert result.no_signal.tolist() == [True, False]


@folded("name", [name for name in EVERY if name != "all-or-nothing"])
def test_one_criterion(name):
    """Whatever the rule, a single criterion decides: the better score is not worth less."""
    values = value(name, [[0.9], [0.1], [0.5], [0.5]])
    assert values[0] > values[2] > values[1]
    assert values[2] == pytest.approx(values[3])


@folded("name", EVERY)
def test_one_rollout(name):
    result = find_rule(f"{name}+")(ScoreBatch.of_arrays([[0.9, 0.1]]))
    assert result.no_signal.tolist() == [True]
    rule = find_rule(name)
    if not rule.bounded or name.startswith("rlvr2") or name == "lexicographic":
        assert result.reward.tolist() == [0.5]
    if name in CENTRED:
        assert rule(ScoreBatch.of_arrays([[0.9, 0.1]])).value_M.tolist() == [0.0]


def test_criteria_vary_within_a_batch():
    """Two queries with rubrics of two and three criteria, one of them shared."""
    scores = [[1, 0.2, NAN, NAN], [0, 0.8, NAN, NAN], [NAN, 0.5, 1, 0], [NAN, 0.1, 0, 1]]
    given = {"groups": ["q1", "q1", "q2", "q2"], "criteria": ["a", "b", "c", "d"]}
    batch = ScoreBatch.of_arrays(scores, **given)
    assert batch.scored_NK.tolist() == [[True, True, False, False], [False, True, True, True]]
    assert find_rule("weighted-mean")(batch).value_M == pytest.approx([0.6, 0.4, 0.5, 1.1 / 3])
    alone = [ScoreBatch.of_arrays([[1, 0.2], [0, 0.8]]), ScoreBatch.of_arrays([[0.5, 1, 0], [0.1, 0, 1]])]
    for name in ("focal", "z-score", "rlvr2", "borda", "geometric", "log-sigmoid", "rvpo", "pow3r"):
        apart = np.concatenate([find_rule(name)(part).value_M for part in alone])
        assert find_rule(name)(batch).value_M == pytest.approx(apart), name


@pytest.mark.parametrize("name", ["healthbench:clip=false", "gear"])
def test_negative_points_count_against(name):
    criteria = [
        CriterionData("good", points=5.0, domain=UNIT),
        CriterionData("bad", points=-8.0, weight=8.0, direction="lower", domain=UNIT),
    ]
    # 5/5; 5/5 − 8/5; 0; −8/5
    values = value(name, [[1, 0], [1, 1], [0, 0], [0, 1]], criteria=criteria)
    assert values == pytest.approx([1.0, -0.6, 0.0, -1.6])


@folded("name", EVERY)
def test_nothing_at_all(name):
    empty = ScoreBatch.of_arrays(np.zeros((0, 3, 2)))
    result = find_rule(f"{name}+")(empty)
    assert result.reward_M.shape == (0,)
    assert result.no_signal.shape == (0,)
