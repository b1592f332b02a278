"""What a fusion tells about its groups: every field, against numbers worked by hand."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from cases import folded
from ordinal import rlvr2

import rubrank
from rubrank import Fused, Gate, InvalidInput, ScoreBatch, attenuate
from rubrank.fusion.group import FusedGroup

NAN = np.nan
BORDA = {"model": "borda"}  # (wins − losses) / 2: utilities that can be worked out by hand


def hand_group() -> FusedGroup:
    """A orders the rollouts 0 > 1 > 2; B is passed by 0 and 2. Utilities 1, 0, −1 and ½, −1, ½."""
    return rlvr2(criteria=["A", "B"], weights=[2, 1], **BORDA)([[9, 1], [8, 0], [3, 1]])[0]


def measured_batch(**options) -> Fused:
    """Two groups of four, two criteria, two attributes; one score is missing."""
    scores = [[[1, 4], [0, 3], [1, NAN], [0, 1]], [[2, 1], [2, 5], [1, 4], [0, 4]]]
    measured = [[[90, 1], [20, 0], [60, 3], [0, 0]], [[10, 2], [30, 2], [30, 2], [5, 2]]]
    rule = rlvr2(criteria=["A", "B"], attribute_names=["tokens", "headings"], **options)
    return rule(scores, attributes=measured)


# ---------------------------------------------------------------------------------------------- fields by hand


def test_utilities_fused_ranking_and_reward():
    group = hand_group()
    np.testing.assert_allclose(group.utilities, [[1, 0.5], [0, -1], [-1, 0.5]])
    np.testing.assert_array_equal(group.values, group.utilities)
    np.testing.assert_allclose(group.fused, [2.5, -1, -1.5])
    np.testing.assert_allclose(group.ranking, [1, 0.125, 0])
    np.testing.assert_array_equal(group.reward, group.ranking)
    assert not group.no_signal
    assert group.flags == ()


def test_weights_of_a_rule_may_be_lists():
    batch = ScoreBatch.of_arrays([[1, 3], [0, 5]], criteria=["A", "B"], domains={"B": (1, 5)})
    result = Fused(batch, "mine", [1, 0], [[2, 1]])
    np.testing.assert_array_equal(result.group(0).weights, [2, 1])
    with pytest.raises(InvalidInput, match=r"^rule 'mine': weights_NK must be"):
        Fused(batch, "mine", [1, 0], [["much", "little"]])


def test_effective_weights_are_shares_of_the_variance():
    group = hand_group()
    np.testing.assert_allclose(group.effective_weights, [8 / 9.5, 1.5 / 9.5])


def test_effective_weight_of_a_criterion_that_pulls_the_other_way_is_negative():
    group = rlvr2(weights=[3, 1])([[1, 0], [0, 1]])[0]
    np.testing.assert_allclose(group.effective_weights, [1.5, -0.5])


@pytest.mark.parametrize("options", [{}, {"span": "unit"}, {"adjust": attenuate(0.5, draw="fixed")}, {"pool": "batch"}])
def test_effective_weights_add_up_to_one(options):
    for group in measured_batch(weights=[2, 0.5], **options):
        parts = group.weights * group.values
        fused = parts.sum(1)
        np.testing.assert_allclose(fused, group.fused, atol=1e-12)
        covariance = [np.cov(part, fused)[0, 1] for part in parts.T]
        np.testing.assert_allclose(group.effective_weights, covariance / np.var(fused, ddof=1), atol=1e-12)
        assert group.effective_weights.sum() == pytest.approx(1.0)


def test_outcomes_know_margins_and_directions():
    group = rlvr2(margins=[1, 0], directions=["higher", "lower"])([[3, 2], [2, 5], [1, NAN]])[0]
    np.testing.assert_array_equal(group.outcomes[:, :, 0], [[0.5, 0.5, 1], [0.5, 0.5, 0.5], [0, 0.5, 0.5]])
    np.testing.assert_array_equal(group.outcomes[:, :, 1], [[0.5, 1, NAN], [0, 0.5, NAN], [NAN, NAN, NAN]])
    np.testing.assert_array_equal(group.scores, [[3, 2], [2, 5], [1, NAN]])  # as given, not flipped
    np.testing.assert_array_equal(group.higher_is_better, [True, False])
    np.testing.assert_array_equal(group.margins, [1, 0])


def test_missing_scores_are_counted_and_have_utility_zero():
    group = rlvr2(criteria=["A", "B", "C"])([[1, NAN, NAN], [0, 3, NAN], [NAN, 1, NAN]])[0]
    np.testing.assert_array_equal(group.missing, [1, 1, 3])
    np.testing.assert_array_equal(group.utilities[[2, 0], [0, 1]], [0, 0])
    np.testing.assert_array_equal(group.utilities[:, 2], [0, 0, 0])
    np.testing.assert_array_equal(group.constant, [False, False, True])
    assert group.flags == ("missing: A (1)", "missing: B (1)")  # C was not asked of this group


def test_unit_span_scales_values_not_utilities():
    scores = [[5, 1, 7], [4, 0, 7], [3, 1, 7], [2, 0, 7]]
    model, unit = rlvr2(weights=[1, 2, 3])(scores)[0], rlvr2(weights=[1, 2, 3], span="unit")(scores)[0]
    np.testing.assert_array_equal(unit.utilities, model.utilities)
    np.testing.assert_allclose(np.ptp(unit.values, axis=0), [1, 1, 0])
    np.testing.assert_allclose(unit.fused, unit.values @ [1, 2, 3])


def test_weights_and_margins_of_the_right_group():
    scores = np.arange(12.0).reshape(2, 3, 2)
    result = rlvr2(weights=[[1, 2], [3, 4]], margins=[[0, 5], [1, 0]])(scores)
    np.testing.assert_array_equal([group.weights for group in result], [[1, 2], [3, 4]])
    np.testing.assert_array_equal([group.margins for group in result], [[0, 5], [1, 0]])


def test_arrays_of_the_batch_have_the_shape_of_the_scores():
    result = measured_batch()
    assert (result.reward.shape, result.ranking.shape, result.fused.shape) == ((2, 4), (2, 4), (2, 4))
    assert (result.utilities.shape, result.gamma.shape, result.taken.shape) == ((2, 4, 2), (2, 2, 2), (2, 2, 2))
    assert (len(result), result.labels, result.criteria) == (2, (0, 1), ("A", "B"))
    for g, group in enumerate(result):
        for name in ("reward", "ranking", "fused", "utilities", "gamma", "se", "shrunk", "n", "taken"):
            np.testing.assert_array_equal(getattr(group, name), getattr(result, name)[g])


def test_one_group_has_no_axis_of_groups():
    result = rlvr2()([[1, 2], [2, 1], [3, 1]], attributes=[[1], [2], [3]])
    assert (result.reward.shape, result.utilities.shape, result.gamma.shape) == ((3,), (3, 2), (2, 1))
    assert (result.taken.shape, result.no_signal.shape, len(result)) == ((2, 1), (1,), 1)


def test_shapes_of_a_group():
    rule = rlvr2(gate=Gate([1], [2]))
    group = rule(np.ones((5, 4, 4)), attributes=np.ones((5, 4, 3)))[3]
    shapes = {name: getattr(group, name).shape for name in ("scores", "utilities", "values")}
    assert shapes == dict.fromkeys(shapes, (4, 2))
    assert (group.fused.shape, group.ranking.shape, group.reward.shape) == ((4,), (4,), (4,))
    assert (group.attributes.shape, group.mean_contrasts.shape) == ((4, 3), (4, 3))
    assert (group.gamma.shape, group.taken.shape) == ((2, 3), (2, 3))
    assert (group.outcomes.shape, group.missing.shape, group.constant.shape) == ((4, 4, 2), (2,), (2,))
    assert (group.weights.shape, group.margins.shape, group.higher_is_better.shape) == ((2,), (2,), (2,))
    assert (group.gated.reward.shape, group.gated.stopped_by.shape) == ((4,), (4, 1))


def test_without_attributes_and_gate_their_fields_are_none():
    group = hand_group()
    assert (group.attributes, group.mean_contrasts, group.gamma, group.taken) == (None, None, None, None)
    assert (group.attribute_names, group.gate, group.gated) == ((), None, None)
    result = rlvr2()([[1], [2]])
    assert (result.gamma, result.taken, result.se, result.shrunk, result.n) == (None,) * 5


# -------------------------------------------------------------------------------------------------- attributes


def naive_mean_contrasts(attribute: np.ndarray) -> np.ndarray:
    G = len(attribute)
    z = np.array([[(a - b) / (a + b) if a + b else 0.0 for b in attribute] for a in attribute])
    scale = np.sqrt((z**2).sum() / (G * (G - 1)))
    return z.sum(1) / G / scale if scale else np.zeros(G)


def test_mean_contrasts_by_the_definition():
    for group in measured_batch(pool="group"):
        for d in range(2):
            np.testing.assert_allclose(group.mean_contrasts[:, d], naive_mean_contrasts(group.attributes[:, d]))


def test_a_constant_attribute_explains_nothing():
    second = measured_batch(pool="group")[1]
    np.testing.assert_array_equal(second.mean_contrasts[:, 1], np.zeros(4))
    np.testing.assert_allclose(second.gamma[:, 1], 0, atol=1e-12)


def test_remove_takes_all_of_it():
    for group in measured_batch(pool="group"):
        np.testing.assert_array_equal(group.taken, group.gamma)
        assert not np.array_equal(group.values, group.utilities)


@pytest.mark.parametrize("draw", ["bernoulli", "uniform", "fixed"])
def test_what_is_not_positive_is_left_alone(draw):
    """By the paper's letter, where few groups are enough for a coefficient."""
    for group in measured_batch(pool="group", adjust=[attenuate(0.5, draw=draw), "remove"], seed=3):
        assert (group.taken[:, 0][group.gamma[:, 0] <= 0] == 0.0).all()
        np.testing.assert_array_equal(group.taken[:, 1], group.gamma[:, 1])


def test_pooled_coefficients_are_the_same_in_every_group():
    first, second = measured_batch(pool="batch")
    np.testing.assert_array_equal(first.gamma, second.gamma)
    assert first.gamma.any()


@folded("pool", ["group", "batch"])
@folded("adjust", ["remove", attenuate(0.0), attenuate(0.5, draw="fixed")])
def test_ties_stay_ties_whatever_is_kept(pool, adjust):
    """A criterion that ties a whole group says nothing about it, so no attribute can explain any of it."""
    scores = np.array([[[3, 1], [2, 2], [1, 0], [0, 1]], [[5, 1], [5, 1], [5, 1], [5, 1]]])
    measured = [[[90], [60], [20], [10]], [[80], [10], [50], [70]]]
    tied = rlvr2(pool=pool, adjust=adjust)(scores, attributes=measured)[1]
    np.testing.assert_array_equal(tied.values, np.zeros((4, 2)))
    np.testing.assert_array_equal(tied.reward, [0.5] * 4)
    assert tied.no_signal


def test_attributes_and_rules_without_names_are_numbered():
    group = rlvr2()([[1], [2]], attributes=[[1, 2], [3, 4]])[0]
    assert group.attribute_names == ("attribute 0", "attribute 1")
    assert group.criteria == ("criterion 0",)


# --------------------------------------------------------------------------------------------------- no signal


def test_a_constant_group_has_no_signal():
    group = rlvr2(criteria=["A", "B"])(np.ones((4, 2)))[0]
    np.testing.assert_array_equal(group.reward, [0.5] * 4)
    np.testing.assert_array_equal(group.effective_weights, [0, 0])
    assert group.no_signal
    assert group.flags == ("no signal", "constant: A", "constant: B")


def test_a_group_of_one_has_no_signal():
    group = rlvr2(criteria=["A", "B"])([[1, NAN]], attributes=[[7]])[0]
    np.testing.assert_array_equal(group.reward, [0.5])
    np.testing.assert_array_equal(group.mean_contrasts, [[0]])
    assert group.no_signal
    assert group.flags == ("no signal", "constant: A")


def test_criteria_that_cancel_leave_no_signal():
    group = rlvr2()([[2, 0, 1], [0, 1, 2], [1, 2, 0]])[0]  # a circle: everyone is first, second and third once
    np.testing.assert_array_equal(group.reward, [0.5] * 3)
    np.testing.assert_array_equal(group.effective_weights, [0] * 3)
    assert group.flags == ("no signal",)
    assert group.utilities.any(0).all()


def test_rollouts_gated_to_the_same_value_have_no_signal():
    result = rlvr2(gate=Gate([1]))([[1, 0], [2, 0], [3, 0]])
    np.testing.assert_array_equal(result.reward, [0, 0, 0])
    assert result.ranking.max() == 1.0
    assert result[0].no_signal
    assert result[0].flags == ("no signal",)


def test_a_gate_can_tell_rollouts_apart_that_the_criteria_cannot():
    group = rlvr2(criteria=["A", "NotEmpty"], gate=Gate(["NotEmpty"]))([[1, 1], [1, 0], [1, 1]])[0]
    np.testing.assert_array_equal(group.ranking, [0.5] * 3)
    np.testing.assert_array_equal(group.reward, [0.5, 0, 0.5])
    assert not group.no_signal
    assert group.flags == ("constant: A",)


def test_no_signal_is_told_for_each_group():
    scores = [[[1, 1], [0, 1]], [[1, 1], [1, 1]], [[1, 0], [0, 0]], [[1, 1], [1, 0]]]
    plain = rlvr2()(np.array(scores)[:, :, :1])
    np.testing.assert_array_equal(plain.no_signal, [False, True, False, True])
    gated = rlvr2(gate=Gate([1]))(scores)
    np.testing.assert_array_equal(gated.no_signal, [False, True, True, False])
    np.testing.assert_array_equal([group.no_signal for group in gated], gated.no_signal)


# ------------------------------------------------------------------------------------------------------ groups

ROWS = np.array([[3, 1], [1, 0], [2, 5], [2, 0], [9, 9], [1, 1], [3, 0]])
LABELS = ["b", "a", "b", "c", "a", "b", "b"]
MEMBERS = {"b": [0, 2, 5, 6], "a": [1, 4], "c": [3]}


@pytest.mark.parametrize(
    "labels",
    [LABELS, np.array(LABELS), [ord(x) for x in LABELS], np.array([ord(x) for x in LABELS]), [(x, 1) for x in LABELS]],
    ids=["str", "array of str", "int", "array of int", "tuple"],
)
def test_scattered_groups_of_different_sizes(labels):
    result = rlvr2()(ROWS, groups=labels)
    plain = labels.tolist() if isinstance(labels, np.ndarray) else labels
    assert result.labels == tuple(dict.fromkeys(plain))  # in order of first appearance
    assert [group.label for group in result] == list(result.labels)
    for label, rows in zip(result.labels, MEMBERS.values(), strict=True):
        group = result[label]
        np.testing.assert_array_equal(group.scores, ROWS[rows])
        np.testing.assert_array_equal(group.reward, result.reward[rows])
        np.testing.assert_array_equal(group.utilities, result.utilities[rows])
        np.testing.assert_array_equal(group.reward, rubrank.fuse(ROWS[rows]))


def test_attributes_and_gate_of_scattered_groups():
    attributes = np.arange(1.0, 8)[:, None]
    scores = np.column_stack([ROWS, [1, 1, 0, 1, 1, 1, 1]])
    result = rlvr2(gate=Gate([2]))(scores, groups=LABELS, attributes=attributes)
    for label, rows in MEMBERS.items():
        np.testing.assert_array_equal(result[label].attributes, attributes[rows])
        np.testing.assert_array_equal(result[label].gated.passed, scores[rows, 2] == 1)
    np.testing.assert_array_equal(result["c"].reward, [0.5])
    assert result["c"].no_signal


def test_labels_of_equal_groups():
    result = rlvr2()(ROWS[:6].reshape(3, 2, 2), groups=["x", "y", "z"])
    assert result.labels == ("x", "y", "z")
    np.testing.assert_array_equal(result["y"].scores, ROWS[2:4])
    np.testing.assert_array_equal(result["y"].reward, result.reward[1])


@pytest.mark.parametrize("label", [3, -1, "0", None])
def test_unknown_label(label):
    result = rlvr2()(ROWS[:6].reshape(3, 2, 2))
    with pytest.raises(InvalidInput, match=r"^Fused: label must be the label of one of its 3 groups, such as 0"):
        result[label]


# ----------------------------------------------------------------------------------------------------- explain


def test_explain_one_group_by_row():
    result = rlvr2()(ROWS)
    for i in range(len(ROWS)):
        assert result.explain(i) == result[0].explain(i)
    assert result.explain(4).startswith("rollout 4 of group 0: reward 1.00, 1st of 7")


def test_explain_equal_groups_by_pair():
    result = rlvr2()(ROWS[:6].reshape(3, 2, 2), groups=["x", "y", "z"])
    for g, label in enumerate(result.labels):
        for i in range(2):
            assert result.explain((g, i)) == result[label].explain(i)
    assert result.explain((2, 0)).startswith("rollout 0 of group z: reward 1.00, 1st of 2")


def test_explain_scattered_groups_by_row():
    result = rlvr2()(ROWS, groups=LABELS)
    for label, rows in MEMBERS.items():
        for i, row in enumerate(rows):
            assert result.explain(row) == result[label].explain(i)
            assert result.explain(row).startswith(f"rollout {i} of group {label}: reward {result.reward[row]:.2f}")


@folded("groups", [None, LABELS])
@folded("index", [7, -1, (0, 1), 1.5])
def test_wrong_row(groups, index):
    result = rlvr2()(ROWS, groups=groups)
    with pytest.raises(InvalidInput, match=r"^explain: rollout must be a row from 0 to 6; got"):
        result.explain(index)


@folded("index", [0, -1, (3, 0), (0, 2), (-1, 0), (0,), (0, 0, 0), (0.5, 1)])
def test_wrong_pair(index):
    result = rlvr2()(ROWS[:6].reshape(3, 2, 2))
    with pytest.raises(InvalidInput, match=r"^explain: rollout must be a pair \(group, rollout\)"):
        result.explain(index)


@pytest.mark.parametrize("index", [2, -1])
def test_wrong_rollout_of_a_group(index):
    with pytest.raises(InvalidInput, match=r"^explain: rollout must be a number from 0 to 1; got"):
        rlvr2()(ROWS[:2])[0].explain(index)


# ------------------------------------------------------------------------------------------------- the objects


def test_values_that_are_no_numbers_are_refused_even_without_rollouts():
    batch = rubrank.ScoreBatch.of_arrays(np.zeros((0, 2)), groups=[])
    assert Fused(batch, "made", []).reward.shape == (0,)
    with pytest.raises(InvalidInput, match="a number for each of the 0 rollouts; got 'high'"):
        Fused(batch, "made", "high")


def test_results_cannot_be_changed():
    result = rlvr2()(ROWS)
    with pytest.raises(FrozenInstanceError):
        result.names = ()
    with pytest.raises(FrozenInstanceError):
        result[0].reward = np.zeros(7)


def test_results_survive_pickling():
    result = rlvr2(gate=Gate([1], maximum=0.5))(ROWS / 9, groups=LABELS, attributes=ROWS[:, :1])
    copied = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(copied.reward, result.reward)
    assert [copied.explain(i) for i in range(7)] == [result.explain(i) for i in range(7)]


def test_groups_do_not_look_through_the_outcomes_of_all_others():
    class Looked(dict[Any, Any]):
        times = 0

        def items(self) -> Any:
            Looked.times += 1
            return super().items()

    won = np.array([[np.nan, 1.0], [0.0, np.nan]])
    cells = np.full((5, 2, 2), np.nan)
    batch = rubrank.ScoreBatch.of_arrays(cells, outcomes={0: [won] * 5, 1: [None, won, None, None, won]})
    fused = rubrank.RLVR2()(batch)
    batch.outcomes = Looked(batch.outcomes)
    assert [sorted(group.compared) for group in fused] == [[0], [0, 1], [0], [0], [0, 1]]
    assert Looked.times <= 1
