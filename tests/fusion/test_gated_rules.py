"""X+ is the rule and then the gate; rlvr2*focal is the fusion with Focal's weights."""

from __future__ import annotations

import numpy as np
import pytest
from cases import folded
from ordinal import rlvr2

from rubrank import Gate, UnknownName, attenuate, fuse
from rubrank.fusion.gate import Gated
from rubrank.fusion.result import Fused
from rubrank.fusion.rlvr2 import make_positive
from rubrank.fusion.rules import find_rule, rule_names
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.criterion import CriterionData
from rubrank.scores.outcomes import outcomes
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
    return ScoreBatch.of_arrays(scores, gates=gates, gate_criteria=GATES)


def test_the_maximum_of_a_gate_of_the_batch_is_given_by_name():
    batch = ScoreBatch.of_arrays([[0.9], [0.8], [0.7]], gates=[[0.5, 1], [0.4, 1], [1, 1]], gate_criteria=GATES)
    result = Gated(find_rule("weighted-mean"), Gate(maximum={"NotEmpty": 0.5}))(batch)
    assert result.reward == pytest.approx([1.0, 0.0, 0.25])
    with pytest.raises(UnknownName, match=r"^Gate: maximum .* Did you mean 'NotEmpty'"):
        Gated(find_rule("weighted-mean"), Gate(maximum={"NotEmty": 0.5}))(batch)


def test_by_hand():
    batch = ScoreBatch.of_arrays([[0.9], [0.8], [0.7]], gates=[[1, 1], [0, 1], [1, 0]], gate_criteria=GATES)
    result = find_rule("weighted-mean+")(batch)
    assert result.reward == pytest.approx([1.0, 0.0, 0.25 * 0.5])  # 0.9 and 0.7 passed: stretched, and lifted to 0.25
    paper = find_rule("weighted-mean+", gate=Gate(lift=0))(batch)
    assert paper.reward == pytest.approx([0.9, 0.0, 0.35])
    assert result.value_M == pytest.approx([0.9, 0.8, 0.7])
    assert result.gated.passed.tolist() == [True, False, True]
    assert find_rule("weighted-mean+", gate=Gate(floor=0.1, lift=0))(batch).reward == pytest.approx([0.9, 0, 0.07])


def test_values_below_zero_are_stretched_first():
    """The second has the lowest advantage; halved as it is, it would overtake the others."""
    batch = ScoreBatch.of_arrays([[0.9], [0.1], [0.2]], gates=[[1, 1], [1, 0], [1, 1]], gate_criteria=GATES)
    result = find_rule("gdpo+", gate=Gate(lift=0))(batch)
    assert result.value_M.min() < 0
    assert result.details["stretched"] == pytest.approx([1, 0, 0.125])
    assert "pre_norm" in result.details
    assert result.reward == pytest.approx([1, 0, 0.125])


@folded("name", [*rule_names(), *(f"rlvr2*{inner}" for inner in WEIGHING)])
def test_a_gate_only_takes_away(name):
    clean = find_rule(f"{name}+", gate=Gate(lift=0))(gated_batch(CLEAN)).reward_M
    dirty = find_rule(f"{name}+", gate=Gate(lift=0))(gated_batch()).reward_M
    factor = np.ones(15)
    factor[[0, 7, 14]] = (0.0, 0.75, 0.5)  # stopped; half clean; a missing hard gate does not stop, the soft one halves
    assert dirty == pytest.approx(factor * clean)
    rule = find_rule(name)
    ungated = rule(gated_batch(CLEAN)).reward_M
    if rule.bounded:
        assert clean == pytest.approx(ungated)
    else:
        for g in range(3):
            part = ungated[g * 5 : g * 5 + 5]
            assert clean[g * 5 : g * 5 + 5] == pytest.approx((part - part.min()) / np.ptp(part))


@pytest.mark.parametrize("name", ["gdpo+", "weighted-mean+", "rlvr2+"])
def test_without_gate_criteria_nobody_is_stopped(name):
    with_clean_gates = find_rule(name, gate=Gate(lift=0))(gated_batch(CLEAN)).reward
    assert find_rule(name)(ScoreBatch.of_arrays(SCORES)).reward == pytest.approx(with_clean_gates)


def test_rlvr2_plus_is_rlvr2_with_a_gate():
    columns = np.concatenate([SCORES, DIRTY], axis=2)
    names = ["a", "b", "c", "d", "NotEmpty", "Template"]
    gate = Gate(global_quality=["NotEmpty"], low_quality=["Template"])
    batch = ScoreBatch.of_arrays(SCORES, criteria=names[:4], gates=DIRTY, gate_criteria=GATES)
    result = find_rule("rlvr2+")(batch)
    direct = rlvr2(criteria=names, gate=gate, lift=0.25)(columns)
    assert result.reward.tolist() == direct.reward.tolist()
    assert "stopped by NotEmpty" in result.explain((0, 0))
    assert result.labels == (0, 1, 2)


def test_what_is_behind_it_is_kept():
    result = find_rule("rlvr2")(ScoreBatch.of_arrays(SCORES, weights=[1, 2, 3, 4]))
    assert result.ranking.ravel().tolist() == result.value_M.tolist()
    assert result.utilities.shape == (3, 5, 4)


def test_rlvr2_takes_scores_as_they_come():
    """Directions and margins of the criteria; a domain means nothing to an ordering."""
    criteria = [
        CriterionData("a", direction="lower", margin=0.1, domain=UNIT),
        CriterionData("b", domain=Domain("continuous", (), -5.0, 5.0), weight=2.0),
    ]
    scores = SCORES[..., :2]
    batch = ScoreBatch.of_arrays(scores, criteria=criteria)
    options = {"weights": [1, 2], "margins": [0.1, 0], "directions": ["lower", "higher"]}
    assert find_rule("rlvr2")(batch).value_M.tolist() == fuse(scores, **options).ravel().tolist()
    assert find_rule("rlvr2")(batch).ranking.tolist() == fuse(scores, **options).tolist()


@pytest.mark.parametrize("adjust", ["remove", attenuate(0.5)])
def test_attributes_count_only_if_asked_for(adjust):
    tokens = RNG.integers(50, 900, (3, 5, 1)).astype(float)
    given = {"groups": ["q1", "q2", "q3"], "criteria": list("abcd")}
    batch = ScoreBatch.of_arrays(SCORES, attributes=tokens, attribute_names=["tokens"], **given)
    assert find_rule("rlvr2")(batch).value_M.tolist() == fuse(SCORES).ravel().tolist()
    direct = fuse(SCORES, attributes=tokens, adjust=adjust, attribute_names=["tokens"], **given).ravel()
    result = find_rule("rlvr2", adjust=adjust)(batch)
    assert result.value_M.tolist() == direct.tolist()
    assert result.gamma.shape == (3, 4, 1)


@pytest.mark.parametrize("name", ["rlvr2", "rlvr2+", "rlvr2*focal"])
def test_observed_outcomes_reach_the_fusion(name):
    """What scores say about one criterion of one group, told as outcomes, gives the same rewards."""
    scores = SCORES.copy()
    observed = outcomes(SCORES[1])[..., 2]
    scores[1, :, 2] = NAN
    told = find_rule(name)(ScoreBatch.of_arrays(scores, outcomes={2: [None, observed, None]}))
    if "focal" not in name:  # whose pace reads a win rate in place of the score
        assert told.reward == pytest.approx(fuse(SCORES), abs=1e-9)
    untold = find_rule(name)(ScoreBatch.of_arrays(scores)).reward
    assert told.reward[0] == pytest.approx(untold[0])
    assert told.reward[1] != pytest.approx(untold[1], abs=1e-6)
    kept = told[1].outcomes[..., 2]
    assert np.nan_to_num(kept, nan=0.5).tolist() == observed.tolist()  # nobody meets himself


def test_groups_of_different_sizes():
    scores, labels = SCORES.reshape(15, 4), ["x"] * 2 + ["y"] * 9 + ["z"] * 4
    batch = ScoreBatch.of_arrays(scores, groups=labels)
    assert find_rule("rlvr2")(batch).value_M.tolist() == fuse(scores, groups=labels).tolist()
    assert find_rule("rlvr2")(batch)["y"].reward.shape == (9,)


@folded("inner", WEIGHING)
def test_a_composition_is_the_fusion_with_these_weights(inner):
    batch = ScoreBatch.of_arrays(SCORES, weights=[1, 2, 3, 4])
    weights = np.broadcast_to(find_rule(inner).weights(batch), (3, 4))
    result = find_rule(f"rlvr2*{inner}")(batch)
    assert result.value_M == pytest.approx(fuse(SCORES, weights=weights).ravel(), abs=1e-9)
    assert result.ranking.ravel().tolist() == result.value_M.tolist()


def test_a_weight_of_nothing_moves_nothing():
    """What is constant in a group has weight 0 under DVAO, and a group in which all is constant has no weights."""
    scores = np.array([[[1, 0.5], [0, 0.5]], [[0.3, 0.3], [0.3, 0.3]]])
    batch = ScoreBatch.of_arrays(scores, weights=[1, 5])
    assert find_rule("dvao").weights(batch).tolist() == [[1.0, 0.0], [0.0, 0.0]]
    assert make_positive(find_rule("dvao").weights(batch), batch).tolist() == [[1.0, 1e-9], [1.0, 5.0]]
    result = find_rule("rlvr2*dvao")(batch)
    assert result.value_M == pytest.approx([1, 0, 0.5, 0.5])
    assert result.no_signal.tolist() == [False, True]


def test_a_bounded_rule_that_rounds_below_0_is_gated_as_0():
    class Rounding:
        name = "rounding"
        bounded = True

        def __call__(self, batch):
            return Fused(batch, self.name, np.array([-1e-12, 0.5, 1.0]))

    batch = ScoreBatch.of_arrays([[0.0], [0.5], [1.0]], gates=[[1, 1], [1, 1], [0, 1]], gate_criteria=GATES)
    result = Gated(Rounding(), Gate(lift=0))(batch)
    assert result.reward.tolist() == [0.0, 0.5, 0.0]


def test_a_gated_rule_is_bounded_unless_it_gives_advantages():
    assert find_rule("gdpo+").bounded
    assert find_rule("rlrr+").bounded  # its constant `scale` is a number, not the scale of RLVR²
    assert not find_rule("rlvr2+", scale="utility").bounded
