"""Lift, margins, spans, advantages, agreement, and how rules treat missing scores."""

from __future__ import annotations

import numpy as np
import pytest
from cases import examples, folded
from hypothesis import given
from hypothesis import strategies as st

from rubrank import RLVR2, Gate, Gated, InvalidInput, ScoreBatch, find_rule, fuse, rule_names
from rubrank.fusion.models.model import find_model
from rubrank.fusion.rlvr2 import measure_reference_spread
from rubrank.rubrics.rubric import Rubric
from rubrank.scores.criterion import CriterionData
from rubrank.scores.outcomes import outcomes
from rubrank.training.engine import RewardEngine
from rubrank.training.frameworks.trl import RubricReward
from rubrank.verifiers.verifier import UNIT

NAN = np.nan
NAMES = rule_names()


def gated_batch(rng, sizes, missing=False):
    """Scores from 0 to 1, a hard gate that stops about a third, a soft one."""
    M = sum(sizes)
    scores = rng.random((M, 3)).round(2)
    gates = np.stack([rng.random(M) > 0.35, rng.choice([0.0, 0.5, 1.0], M, p=[0.1, 0.2, 0.7])], 1).astype(float)
    if missing:
        scores[gates[:, 0] < 1] = NAN  # who is stopped is not judged
    hard, soft = (
        CriterionData("NotEmpty", layer="global_quality"),
        CriterionData("Clean", layer="low_quality", domain=UNIT),
    )
    labels = np.repeat(np.arange(len(sizes)), sizes)
    return ScoreBatch.of_arrays(scores, groups=labels, gates=gates, gate_criteria=[hard, soft])


# ------------------------------------------------------------------------------------------------------------ the gate


@folded("missing", [False, True])
@folded("name", NAMES)
def test_the_worst_that_passed_is_above_those_that_did_not(name, missing):
    batch = gated_batch(np.random.default_rng(0), [6, 8, 1, 5, 2, 12], missing)
    fused = find_rule(f"{name}+")(batch)
    passed = fused.gated.passed
    assert passed.any()
    assert (fused.reward_M[~passed] == 0.0).all()
    assert fused.reward_M[passed].min() >= 0.25 * 0.5 - 1e-12
    assert fused.reward_M.max() <= 1.0


@folded("lift", [0.1, 0.25, 0.6])
@folded("name", ["rlvr2", "gdpo", "weighted-mean"])
def test_the_lift_by_its_formula(name, lift):
    batch = gated_batch(np.random.default_rng(1), [6, 8, 5])
    fused = Gated(find_rule(name), Gate(lift=lift))(batch)
    values = find_rule(name)(batch.drop_penalties()).value_M
    for first, end in zip(batch.starts[:-1], batch.starts[1:], strict=True):
        rows = np.arange(first, end)
        clean = rows[fused.gated.passed[rows]]
        share = (values[clean] - values[clean].min()) / np.ptp(values[clean])
        assert fused.reward_M[clean] == pytest.approx(fused.gated.factor[clean] * (lift + (1 - lift) * share))


def test_without_lift_it_is_the_papers():
    batch = gated_batch(np.random.default_rng(2), [6, 8])
    fused = Gated(RLVR2(), Gate(lift=0))(batch)
    expected = np.where(fused.gated.passed, fused.gated.factor * fused.ranking_M, 0.0)
    np.testing.assert_array_equal(fused.reward_M, expected)


def test_all_stopped_has_no_signal():
    batch = ScoreBatch.of_arrays([[1, 0], [0, 0]], criteria=["Q", "Gate"], global_quality=["Gate"])
    fused = Gated(RLVR2())(batch)
    assert fused.reward.tolist() == [0.0, 0.0]
    assert fused.no_signal.tolist() == [True]


# ------------------------------------------------------------------------------------------------------------- margins


@examples(200)
@given(st.integers(-40, 40), st.integers(1, 30), st.sampled_from([0.1, 0.01, 0.3, 0.7]))
def test_exactly_a_margin_apart_is_a_tie(start, steps, unit):
    """In every path: outcomes, the sorted look-up, the fit with attributes, Borda's count."""
    a, margin = start * unit, steps * unit
    b = (start + steps) * unit
    scores = [[a], [b]]
    assert outcomes(scores, margin)[0, 1, 0] == 0.5
    assert fuse(scores, margins=margin).tolist() == [0.5, 0.5]
    assert fuse(scores, margins=margin, attributes=[[1], [9]]).tolist() == [0.5, 0.5]
    borda = find_rule("borda")(ScoreBatch.of_arrays(scores, margins=[margin]))
    assert borda.value_M.tolist() == [0.5, 0.5]


def test_more_than_a_margin_is_a_win():
    assert fuse([[0.5], [0.8001]], margins=0.3).tolist() == [0.0, 1.0]
    assert fuse([[1.0], [np.nextafter(1.0, 2.0)]]).tolist() == [0.0, 1.0]  # without a margin every difference counts


# ------------------------------------------------------------------------------------------------------ span and scale


def test_sd_gives_equal_say():
    rng = np.random.default_rng(0)
    scores = np.stack([rng.permutation(8).astype(float), (np.arange(8) < 1).astype(float)], 1)
    fused = RLVR2(span="sd")(ScoreBatch.of_arrays(scores))
    assert fused.fit.values_MK.std(0) == pytest.approx([1.0, 1.0])
    assert fused.fit.values_MK[:, 1].round(2).tolist() == [2.65] + [-0.38] * 7
    assert RLVR2()(ScoreBatch.of_arrays(scores)).fit.values_MK.std(0)[0] > 2 * 0.9 * 0.33


def test_the_reference_of_a_strict_order():
    assert measure_reference_spread(find_model("bradley-terry"), 1.0, 8).sd == pytest.approx(0.892, abs=5e-4)


def test_advantages_on_the_scale_of_utilities():
    order = np.arange(8.0)
    agree = np.stack([order, order, order], 1)
    clash = np.stack([order, order, -order], 1)
    advantage = fuse(np.stack([agree, clash]), scale="utility")
    assert advantage.mean(1) == pytest.approx([0.0, 0.0])
    assert advantage[0].std() == pytest.approx(np.sqrt(3))  # unanimous: K/√K of one strict order
    assert advantage[1].std() == pytest.approx(1 / np.sqrt(3))
    weighted = fuse(agree, weights=[2, 1, 5], scale="utility")
    u = RLVR2()(ScoreBatch.of_arrays(agree, weights=[2, 1, 5])).fused
    assert weighted == pytest.approx((u - u.mean()) / (0.8915755745655141 * np.sqrt(30)))


def test_advantages_count_what_is_asked():
    scores = [[1.0, NAN], [0.0, NAN], [0.5, NAN]]
    assert fuse(scores, scale="utility") == pytest.approx(fuse([[1.0], [0.0], [0.5]], scale="utility"))


def test_advantages_behind_a_gate():
    batch = ScoreBatch.of_arrays(
        [[3, 1, 1], [2, 1, 0.5], [1, 1, 1], [4, 0, 1]],
        criteria=["Q", "Gate", "Soft"],
        global_quality=["Gate"],
        low_quality=["Soft"],
    )
    found = Gated(RLVR2(scale="utility"))(batch).reward
    assert found.mean() == pytest.approx(0.0, abs=1e-12)
    assert found.argmin() == 3
    assert found[0] > found[1]
    clean = ScoreBatch.of_arrays([[3, 1], [2, 1], [1, 1]], criteria=["Q", "Gate"], global_quality=["Gate"])
    ungated = RLVR2(scale="utility")(clean.drop_penalties()).reward
    assert Gated(RLVR2(scale="utility"))(clean).reward == pytest.approx(ungated)


def test_a_trainer_that_scales_again_is_refused():
    class Arguments:
        scale_rewards = "group"

    reward = RubricReward(["Postscript"], scale="utility")
    with pytest.raises(InvalidInput, match=r"scale_rewards must be off with scale='utility'"):
        reward.attach(Arguments(), None)
    Arguments.scale_rewards = "none"
    reward.attach(Arguments(), None)
    assert RewardEngine(["Postscript"], scale="utility").scale == "utility"
    with pytest.raises(InvalidInput, match="'rlvr2', alone or composed, if `scale` is given"):
        RewardEngine(["Postscript"], "gdpo", scale="utility")


# ------------------------------------------------------------------------------------------------------------ agreement


def by_hand(parts):
    G, K = parts.shape
    rows, columns, mean = parts.mean(1), parts.mean(0), parts.mean()
    between = K * ((rows - mean) ** 2).sum() / (G - 1)
    residual = ((parts - rows[:, None] - columns + mean) ** 2).sum() / ((G - 1) * (K - 1))
    return max(0.0, 1.0 - residual / between)


def test_agreement_and_error():
    scores = np.random.default_rng(4).random((3, 6, 4)).round(1)
    fused = RLVR2()(ScoreBatch.of_arrays(scores, weights=[1, 2, 3, 1]))
    for g, group in enumerate(fused):
        parts = group.weights * group.values
        assert fused.agreement[g] == group.agreement == pytest.approx(by_hand(parts))
        assert fused.error[g] == pytest.approx(np.sqrt(4 * parts.var(1, ddof=1)))
        assert group.error == pytest.approx(fused.error[g])
    order = np.arange(5.0)
    assert RLVR2()(ScoreBatch.of_arrays(np.stack([order, order], 1))).agreement == pytest.approx([1.0])
    assert RLVR2()(ScoreBatch.of_arrays(np.stack([order, -order], 1))).agreement == pytest.approx([0.0])
    constant = np.column_stack([order, order, np.ones(5)])
    assert RLVR2()(ScoreBatch.of_arrays(constant)).agreement == pytest.approx([1.0])  # what ties all changes nothing
    assert np.isnan(RLVR2()(ScoreBatch.of_arrays(order[:, None])).agreement).all()
    assert find_rule("gdpo")(ScoreBatch.of_arrays(scores)).agreement is None


# ---------------------------------------------------------------------------------------------------------------- rules


def test_rule_fusion_does_not_praise_absence():
    hard = CriterionData("Hard", verifier="X")
    soft = CriterionData("Soft", domain=UNIT)
    batch = ScoreBatch.of_arrays([[1, 0.2], [1, 0.4], [1, NAN], [0, NAN]], criteria=[hard, soft])
    assert find_rule("rule-fusion:hard=verified")(batch).reward == pytest.approx([0.2, 0.4, 0.3, 0.0])
    alone = ScoreBatch.of_arrays([[1, NAN], [0, NAN]], criteria=[hard, soft])
    assert find_rule("rule-fusion:hard=verified")(alone).reward.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("more", [{}, {"weight": 2}, {"weight": 2, "margin": 0.1}])
def test_negative_points_mean_lower(more):
    criterion = Rubric.model_validate({"criteria": [{"name": "Invents", "question": "?", "points": -5, **more}]})
    (found,) = criterion.criteria
    assert found.direction == "lower"
    assert found.weight == more.get("weight", 5)


def test_clipped_healthbench_with_missing_scores():
    good, bad = CriterionData("Good", points=5.0), CriterionData("Bad", points=-8.0, direction="lower")
    scores = [[1, 0], [0, 1], [NAN, NAN]]  # 1, −1.6 cut to 0, and nothing
    assert find_rule("healthbench")(ScoreBatch.of_arrays(scores, criteria=[good, bad])).reward.tolist() == [
        1.0,
        0.0,
        0.5,
    ]
    nothing = ScoreBatch.of_arrays([[NAN, NAN]] * 2, criteria=[good, bad])
    assert find_rule("healthbench")(nothing).reward.tolist() == [0.5, 0.5]
