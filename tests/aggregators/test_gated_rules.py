"""X+ is the rule and then the gate; rlvr2*focal is the fusion with Focal's weights."""

from __future__ import annotations

import numpy as np
import pytest

from rubrank import RLVR2, Gate, attenuate, fuse, outcomes
from rubrank.fusion.rules import find_rule, rule_names, score_batch
from rubrank.fusion.rules.ordinal import OrdinalResult, usable
from rubrank.scores.criterion import CriterionData
from rubrank.verifiers.verifier import UNIT, Domain

NAN = np.nan
GATES = [CriterionData("NotEmpty", layer="global_quality"), CriterionData("Template", layer="low_quality", domain=UNIT)]
RNG = np.random.default_rng(5)
SCORES = RNG.random((3, 5, 4)).round(2)
CLEAN = np.ones((3, 5, 2))
DIRTY = CLEAN.copy()
DIRTY[0, 0] = (0, 1)
DIRTY[1, 2] = (1, 0.5)
DIRTY[2, 4] = (NAN, 0)
WEIGHING = ("focal", "sa-mrpo", "dvao", "amrp", "pow3r")


def gated_batch(gates=DIRTY, scores=SCORES):
    return score_batch(scores, gates=gates, gate_criteria=GATES)


def test_by_hand():
    batch = score_batch([[0.9], [0.8], [0.7]], gates=[[1, 1], [0, 1], [1, 0]], gate_criteria=GATES)
    result = find_rule("weighted-mean+")(batch)
    assert result.reward == pytest.approx([0.9, 0.0, 0.35])
    assert result.value_M == pytest.approx([0.9, 0.8, 0.7])
    assert result.gated.passed.tolist() == [True, False, True]
    assert find_rule("weighted-mean+", gate=Gate(floor=0.1))(batch).reward == pytest.approx([0.9, 0, 0.07])


def test_values_below_zero_are_stretched_first():
    """The second has the lowest advantage; halved as it is, it would overtake the others."""
    batch = score_batch([[0.9], [0.1], [0.2]], gates=[[1, 1], [1, 0], [1, 1]], gate_criteria=GATES)
    result = find_rule("gdpo+")(batch)
    assert result.value_M.min() < 0
    assert result.details["stretched"] == pytest.approx([1, 0, 0.125])
    assert "pre_norm" in result.details
    assert result.reward == pytest.approx([1, 0, 0.125])


@pytest.mark.parametrize("name", [*rule_names(), *(f"rlvr2*{inner}" for inner in WEIGHING)])
def test_a_gate_only_takes_away(name):
    clean = find_rule(f"{name}+")(gated_batch(CLEAN)).reward
    dirty = find_rule(f"{name}+")(gated_batch()).reward
    factor = np.ones(15)
    factor[[0, 7, 14]] = (0.0, 0.75, 0.5)  # stopped; half clean; a missing hard gate does not stop, the soft one halves
    assert dirty == pytest.approx(factor * clean)
    rule = find_rule(name)
    ungated = rule(gated_batch(CLEAN)).reward
    if rule.bounded:
        assert clean == pytest.approx(ungated)
    else:
        for g in range(3):
            part = ungated[g * 5 : g * 5 + 5]
            assert clean[g * 5 : g * 5 + 5] == pytest.approx((part - part.min()) / np.ptp(part))


@pytest.mark.parametrize("name", ["gdpo+", "weighted-mean+", "rlvr2+"])
def test_without_gate_criteria_nobody_is_stopped(name):
    with_clean_gates = find_rule(name)(gated_batch(CLEAN)).reward
    assert find_rule(name)(score_batch(SCORES)).reward == pytest.approx(with_clean_gates)


def test_rlvr2_plus_is_rlvr2_with_a_gate():
    columns = np.concatenate([SCORES, DIRTY], axis=2)
    names = ["a", "b", "c", "d", "NotEmpty", "Template"]
    gate = Gate(global_quality=["NotEmpty"], low_quality=["Template"])
    batch = score_batch(SCORES, criteria=names[:4], gates=DIRTY, gate_criteria=GATES)
    result = find_rule("rlvr2+")(batch)
    direct = RLVR2(criteria=names, gate=gate)(columns)
    assert result.reward.tolist() == direct.reward.ravel().tolist()
    assert isinstance(result, OrdinalResult)
    assert result.fused.reward.tolist() == result.reward.tolist()
    assert "stopped by NotEmpty" in result.fused.explain(0)
    assert result.fused.labels == (0, 1, 2)


def test_what_is_behind_it_is_made_when_asked_for():
    result = find_rule("rlvr2")(score_batch(SCORES, weights=[1, 2, 3, 4]))
    assert "fused" not in vars(result)
    assert result.fused.ranking.tolist() == result.value_M.tolist()
    assert result.fused.utilities.shape == (15, 4)
    assert result.fused is result.fused


def test_rlvr2_takes_scores_as_they_come():
    """Directions and margins of the criteria; a domain means nothing to an ordering."""
    criteria = [
        CriterionData("a", direction="lower", margin=0.1, domain=UNIT),
        CriterionData("b", domain=Domain("continuous", (), -5.0, 5.0), weight=2.0),
    ]
    scores = SCORES[..., :2]
    batch = score_batch(scores, criteria=criteria)
    options = {"weights": [1, 2], "margins": [0.1, 0], "directions": ["lower", "higher"]}
    assert find_rule("rlvr2")(batch).value_M.tolist() == fuse(scores, **options).ravel().tolist()
    assert find_rule("rlvr2")(batch).fused.ranking.tolist() == fuse(scores, **options).ravel().tolist()


@pytest.mark.parametrize("adjust", ["remove", attenuate(0.5)])
def test_attributes_count_only_if_asked_for(adjust):
    tokens = RNG.integers(50, 900, (3, 5, 1)).astype(float)
    given = {"groups": ["q1", "q2", "q3"], "criteria": list("abcd")}
    batch = score_batch(SCORES, attributes=tokens, attribute_names=["tokens"], **given)
    assert find_rule("rlvr2")(batch).value_M.tolist() == fuse(SCORES).ravel().tolist()
    direct = fuse(SCORES, attributes=tokens, adjust=adjust, attribute_names=["tokens"], **given).ravel()
    result = find_rule("rlvr2", adjust=adjust)(batch)
    assert result.value_M.tolist() == direct.tolist()
    assert result.fused.gamma.shape == (3, 4, 1)
    assert result.fused.ranking.tolist() == direct.tolist()


@pytest.mark.parametrize("name", ["rlvr2", "rlvr2+", "rlvr2*focal"])
def test_observed_outcomes_reach_the_fusion(name):
    """What scores say about one criterion of one group, told as outcomes, gives the same rewards."""
    scores = SCORES.copy()
    observed = {(1, 2): outcomes(SCORES[1])[..., 2]}
    scores[1, :, 2] = NAN
    told = find_rule(name)(score_batch(scores, outcomes=observed))
    if "focal" not in name:  # whose pace reads a win rate in place of the score
        assert told.reward == pytest.approx(fuse(SCORES).ravel(), abs=1e-9)
    untold = find_rule(name)(score_batch(scores)).reward
    assert told.reward[:5] == pytest.approx(untold[:5])
    assert told.reward[5:10] != pytest.approx(untold[5:10], abs=1e-6)
    assert told.fused.reward.tolist() == told.reward.tolist()
    kept = told.fused[1].outcomes[..., 2]
    assert np.nan_to_num(kept, nan=0.5).tolist() == observed[1, 2].tolist()  # nobody meets himself


def test_groups_of_different_sizes():
    scores, labels = SCORES.reshape(15, 4), ["x"] * 2 + ["y"] * 9 + ["z"] * 4
    batch = score_batch(scores, groups=labels)
    assert find_rule("rlvr2")(batch).value_M.tolist() == fuse(scores, groups=labels).tolist()
    assert find_rule("rlvr2")(batch).fused["y"].reward.shape == (9,)


@pytest.mark.parametrize("inner", WEIGHING)
def test_a_composition_is_the_fusion_with_these_weights(inner):
    batch = score_batch(SCORES, weights=[1, 2, 3, 4])
    weights = np.broadcast_to(find_rule(inner).weights(batch), (3, 4))
    result = find_rule(f"rlvr2*{inner}")(batch)
    assert result.value_M == pytest.approx(fuse(SCORES, weights=weights).ravel(), abs=1e-9)
    assert result.fused.ranking.tolist() == result.value_M.tolist()


def test_a_weight_of_nothing_moves_nothing():
    """What is constant in a group has weight 0 under DVAO, and a group in which all is constant has no weights."""
    scores = np.array([[[1, 0.5], [0, 0.5]], [[0.3, 0.3], [0.3, 0.3]]])
    batch = score_batch(scores, weights=[1, 5])
    assert find_rule("dvao").weights(batch).tolist() == [[1.0, 0.0], [0.0, 0.0]]
    assert usable(find_rule("dvao").weights(batch), batch).tolist() == [[1.0, 1e-9], [1.0, 5.0]]
    result = find_rule("rlvr2*dvao")(batch)
    assert result.value_M == pytest.approx([1, 0, 0.5, 0.5])
    assert result.no_signal.tolist() == [False, True]
