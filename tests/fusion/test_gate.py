"""The gate: reward = 0 if stopped, else factor · reward; worked by hand, and its properties."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from cases import folded
from hypothesis import given, settings
from hypothesis import strategies as st

from rubrank import Gate, InvalidInput, UnknownName
from rubrank.fusion.gate import GateResult

NAN = np.nan
NAMES = ["NotEmpty", "Language", "NoTemplate", "NoRepeats"]


def soft(mean: float, **options) -> float:
    """The factor for one low-quality score."""
    return float(Gate(low_quality=[0], **options)([1.0], [[mean]]).factor[0])


# ------------------------------------------------------------------------------------------------------- by hand


def test_hard_gate():
    gated = Gate(["NotEmpty", "Language"])([0.9, 0.8, 0.7, 0.6], [[1, 1], [0, 1], [1, 0.99], [0, 0]], NAMES[:2])
    np.testing.assert_array_equal(gated.reward, [0.9, 0, 0, 0])
    np.testing.assert_array_equal(gated.passed, [True, False, False, False])
    np.testing.assert_array_equal(gated.stopped_by, [[False, False], [True, False], [False, True], [True, True]])
    np.testing.assert_array_equal(gated.factor, [1, 1, 1, 1])
    assert np.isnan(gated.low_quality).all()


@folded(
    ("mean", "options", "factor"),
    [
        (1.0, {}, 1.0),
        (0.0, {}, 0.5),
        (0.5, {}, 0.75),
        (0.4, {"floor": 0.2}, 0.2 + 0.8 * 0.4),
        (0.25, {"threshold": 0.5}, 0.75),
        (0.5, {"threshold": 0.5}, 1.0),
        (0.9, {"threshold": 0.5}, 1.0),
        (0.3, {"threshold": 0.6, "floor": 0.0}, 0.5),
        (0.0, {"floor": 0.0}, 0.0),
        (0.0, {"floor": 1.0}, 1.0),
        (0.7, {"floor": 1.0}, 1.0),
        (0.5, {"shape": "smoothstep"}, 0.75),
        (0.25, {"shape": "smoothstep", "floor": 0.0}, 3 / 16 - 2 / 64),
        (0.25, {"shape": "smoothstep", "floor": 0.5}, 0.5 + 0.5 * (3 / 16 - 2 / 64)),
        (0.2, {"shape": "smoothstep", "floor": 0.0, "threshold": 0.8}, 3 / 16 - 2 / 64),
        (0.8, {"shape": "smoothstep", "threshold": 0.8}, 1.0),
    ],
)
def test_soft_gate(mean, options, factor):
    assert soft(mean, **options) == pytest.approx(factor, abs=1e-15)


def test_soft_gate_takes_the_mean_of_its_criteria():
    gated = Gate(low_quality=["NoTemplate", "NoRepeats"])([0.8, 0.8], [[1, 1, 1, 0], [1, 1, 0.5, 0.3]], NAMES)
    np.testing.assert_allclose(gated.low_quality, [0.5, 0.4])
    np.testing.assert_allclose(gated.factor, [0.75, 0.7])
    np.testing.assert_allclose(gated.reward, [0.6, 0.56])


def test_both_gates_together():
    gate = Gate(["NotEmpty"], ["NoRepeats"], floor=0.0)
    gated = gate([1, 1, 0.5], [[1, 1, 1, 0.5], [0, 1, 1, 0.5], [1, 0, 0, 1]], NAMES)
    np.testing.assert_array_equal(gated.reward, [0.5, 0, 0.5])
    np.testing.assert_array_equal(gated.factor, [0.5, 0.5, 1])


@folded("shape", ["linear", "smoothstep"])
@folded("threshold", [0.3, 0.7, 1.0])
@folded("floor", [0.0, 0.5, 1.0])
def test_soft_gate_is_continuous_at_its_threshold(shape, threshold, floor):
    below = np.nextafter(threshold, 0.0)
    options = {"shape": shape, "threshold": threshold, "floor": floor}
    assert soft(threshold, **options) == 1.0
    assert soft(below, **options) == pytest.approx(1.0, abs=1e-14)


def test_missing_scores_pass_and_are_counted():
    gate = Gate(["NotEmpty", "Language"], ["NoTemplate", "NoRepeats"])
    gated = gate([0.8] * 4, [[NAN, 1, 1, 1], [1, 1, NAN, 0.5], [NAN, 0, NAN, NAN], [1, 1, 1, 1]], NAMES)
    np.testing.assert_allclose(gated.reward, [0.8, 0.6, 0, 0.8])
    np.testing.assert_array_equal(gated.missing, [1, 1, 3, 0])
    np.testing.assert_array_equal(gated.low_quality, [1, 0.5, NAN, 1])
    np.testing.assert_array_equal(gated.stopped_by[2], [False, True])


def test_missing_scores_fail_when_asked():
    gate = Gate(["NotEmpty", "Language"], ["NoTemplate", "NoRepeats"], missing="fail")
    gated = gate([0.8] * 3, [[NAN, 1, 1, 1], [1, 1, NAN, 1], [1, 1, NAN, NAN]], NAMES)
    np.testing.assert_allclose(gated.reward, [0, 0.8 * 0.75, 0.4])
    np.testing.assert_array_equal(gated.missing, [1, 1, 2])
    np.testing.assert_array_equal(gated.stopped_by[0], [True, False])
    np.testing.assert_array_equal(gated.low_quality, [1, 0.5, 0])


def test_what_was_never_asked_for_does_not_fail():
    gate = Gate(["NotEmpty", "Language"], ["NoTemplate", "NoRepeats"], missing="fail")
    scores = [[NAN, 1, NAN, 1], [NAN, 1, NAN, 0], [NAN, 0, NAN, NAN]]
    asked = np.array([[False, True, False, True]] * 2 + [[True] * 4])
    gated = gate([0.8] * 3, scores, NAMES, asked)
    np.testing.assert_allclose(gated.reward, [0.8, 0.4, 0])
    np.testing.assert_array_equal(gated.missing, [0, 0, 3])
    np.testing.assert_array_equal(gated.stopped_by, [[False, False], [False, False], [True, True]])
    np.testing.assert_array_equal(gated.low_quality, [1, 0, 0])


@pytest.mark.parametrize(
    ("maximum", "passed"),
    [(1.0, [True, True]), (5, [False, False]), ({"Grade": 5}, [True, False]), ({"NotEmpty": 2}, [False, False])],
)
def test_maximum_for_all_and_by_name(maximum, passed):
    gate = Gate(["NotEmpty", "Grade"], maximum=maximum)
    np.testing.assert_array_equal(gate([1, 1], [[1, 5], [1, 4]], ["NotEmpty", "Grade"]).passed, passed)


def test_maximum_by_column_number():
    np.testing.assert_array_equal(Gate([1], maximum={1: 5})([1, 1], [[1, 5], [1, 4]]).passed, [True, False])


def test_names_and_numbers_say_the_same():
    scores, rewards = [[1, 0, 0.5, 1], [1, 1, 0.25, 0]], [0.5, 1]
    by_name = Gate(["Language"], ["NoTemplate", "NoRepeats"])(rewards, scores, NAMES)
    for gate in (Gate([1], [2, 3]), Gate((1,), (2, "NoRepeats"))):
        np.testing.assert_array_equal(gate(rewards, scores, NAMES).reward, by_name.reward)
    np.testing.assert_array_equal(Gate([1], [2, 3])(rewards, scores).reward, by_name.reward)


def test_shapes_follow_the_rewards():
    scores = np.random.default_rng(0).random((2, 3, 4))
    rewards = np.random.default_rng(1).random((2, 3))
    gate = Gate([0], [1, 2], maximum=0.4)
    together = gate(rewards, scores)
    assert {name: getattr(together, name).shape for name in GateResult.__dataclass_fields__} == {
        "reward": (2, 3),
        "passed": (2, 3),
        "factor": (2, 3),
        "low_quality": (2, 3),
        "stopped_by": (2, 3, 1),
        "missing": (2, 3),
        "lifted": (2, 3),
    }
    for g in range(2):
        alone = gate(rewards[g], scores[g])
        assert alone.reward.shape == (3,)
        np.testing.assert_array_equal(alone.reward, together.reward[g])


def test_a_gate_on_nothing_changes_nothing():
    gated = Gate()([0.3, 0.0, 1.0], np.zeros((3, 2)))
    np.testing.assert_array_equal(gated.reward, [0.3, 0, 1])
    assert gated.stopped_by.shape == (3, 0)


def test_after_any_rule():
    scores = np.array([[1, 1, 0.2, 0.9], [1, 0.5, 0.9, 0.8], [0, 1, 1, 1]])
    mean = scores[:, 2:] @ [0.75, 0.25]
    gated = Gate(["NotEmpty"], ["Clean"])(mean, scores, ["NotEmpty", "Clean", "Facts", "Style"])
    np.testing.assert_allclose(gated.reward, [0.375, 0.75 * 0.875, 0])


def test_rewards_and_scores_are_not_written_to():
    rewards, scores = np.array([1.0, 0.5]), np.array([[0.0, NAN], [1.0, 0.5]])
    Gate([0], [1], missing="fail")(rewards, scores)
    np.testing.assert_array_equal(rewards, [1, 0.5])
    np.testing.assert_array_equal(scores, [[0, NAN], [1, 0.5]])


def test_a_gate_cannot_be_changed_and_survives_pickling():
    gate = Gate(["NotEmpty"], ["NoRepeats"], floor=0.25)
    with pytest.raises(FrozenInstanceError):
        gate.floor = 0.0
    assert pickle.loads(pickle.dumps(gate)) == gate


# ---------------------------------------------------------------------------------------------------- properties

unit = st.floats(0.0, 1.0)
gates = st.builds(
    Gate,
    global_quality=st.just([0]),
    low_quality=st.just([1, 2]),
    threshold=st.floats(0.01, 1.0),
    floor=unit,
    shape=st.sampled_from(["linear", "smoothstep"]),
    missing=st.sampled_from(["pass", "fail"]),
)
rollouts = st.lists(
    st.tuples(unit, st.sampled_from([0.0, 1.0, NAN]), st.one_of(unit, st.just(NAN)), st.one_of(unit, st.just(NAN))),
    min_size=1,
    max_size=8,
)


@settings(deadline=None, derandomize=True)
@given(gates, rollouts)
def test_never_raises_a_reward(gate, rows):
    reward, *scores = np.array(rows).T
    gated = gate(reward, np.stack(scores, axis=-1))
    assert ((gate.floor <= gated.factor) & (gated.factor <= 1.0)).all()
    assert ((gated.reward >= 0.0) & (gated.reward <= reward)).all()
    np.testing.assert_array_equal(gated.reward[~gated.passed], np.zeros((~gated.passed).sum()))
    np.testing.assert_array_equal(gated.passed, ~gated.stopped_by.any(-1))


@settings(deadline=None, derandomize=True)
@given(gates, rollouts)
def test_leaves_the_clean_ones_as_they_are(gate, rows):
    reward, *scores = np.array(rows).T
    gated = gate(reward, np.stack(scores, axis=-1))
    clean = gated.passed & (gated.low_quality >= gate.threshold)
    np.testing.assert_array_equal(gated.reward[clean], reward[clean])


@settings(deadline=None, derandomize=True)
@given(gates, st.lists(unit, min_size=2, max_size=20))
def test_factor_rises_with_the_low_quality_mean(gate, means):
    scores = np.sort(means)[:, None] * [0.0, 1.0, 1.0] + [1.0, 0.0, 0.0]
    gated = gate(np.ones(len(means)), scores)
    assert (np.diff(gated.factor) >= -1e-15).all()
    assert gated.factor[0] == pytest.approx(soft(min(means), **options_of(gate)))


def options_of(gate: Gate) -> dict:
    return {name: getattr(gate, name) for name in ("threshold", "floor", "shape")}


# -------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("parameter", ["global_quality", "low_quality"])
def test_a_string_is_not_a_list(parameter):
    with pytest.raises(InvalidInput, match=rf"^Gate: {parameter} must be a list of criteria; got 'NotEmpty'"):
        Gate(**{parameter: "NotEmpty"})


@pytest.mark.parametrize("threshold", [0.0, -0.1, 1.1, NAN])
def test_threshold_out_of_range(threshold):
    with pytest.raises(InvalidInput, match=r"^Gate: threshold must be a number above 0 and at most 1"):
        Gate(threshold=threshold)


@pytest.mark.parametrize("floor", [-0.1, 1.1, NAN])
def test_floor_out_of_range(floor):
    with pytest.raises(InvalidInput, match=r"^Gate: floor must be a number from 0 to 1"):
        Gate(floor=floor)


@pytest.mark.parametrize("option", [{"shape": "linaer"}, {"missing": "pas"}])
def test_unknown_words_come_with_the_nearest_known_one(option):
    with pytest.raises(UnknownName, match=r"Did you mean '(linear|pass)'"):
        Gate(**option)


def test_unknown_name():
    with pytest.raises(UnknownName, match=r"^Gate: criterion must be one of '0'; got 'NotEmpty'"):
        Gate(["NotEmpty"])([1], [[1]])
    with pytest.raises(UnknownName, match=r"^Gate: criterion must be .*'NoRepeats'.*Did you mean 'NotEmpty'"):
        Gate(["NotEmty"])([1], [[1, 1, 1, 1]], NAMES)


def test_a_maximum_for_a_criterion_that_the_gate_does_not_read():
    with pytest.raises(UnknownName, match=r"^Gate: maximum .* Did you mean 'Grade'"):
        Gate(["Grade"], maximum={"Grad": 5})


def test_a_score_on_a_criterion_outside_the_rubric_is_ignored():
    gate = Gate(["NotEmpty"], ["NoTemplate"], floor=0.5, missing="fail")
    asked = np.array([[False, False], [True, True]])
    gated = gate([1, 1], [[0, 0], [1, 0]], ["NotEmpty", "NoTemplate"], asked)
    np.testing.assert_array_equal(gated.reward, [1, 0.5])
    np.testing.assert_array_equal(gated.passed, [True, True])


@pytest.mark.parametrize("column", [2, -1, 100])
def test_column_out_of_range(column):
    with pytest.raises(InvalidInput, match=rf"^Gate: criterion must be one of '0', '1'; got {column}"):
        Gate(low_quality=[column])([1], [[1, 1]])


def test_negative_rewards():
    with pytest.raises(InvalidInput, match=r"^Gate: rewards must be numbers ≥ 0.*got -0.5"):
        Gate([0])([1, -0.5], [[1], [1]])
    with pytest.raises(InvalidInput, match="got nan"):
        Gate([0])([1, np.nan], [[1], [1]])


@pytest.mark.parametrize("bad", [-0.01, 1.5, np.inf])
def test_low_quality_outside_the_unit_interval(bad):
    with pytest.raises(InvalidInput, match=r"^Gate: low-quality criterion 'NoRepeats' must be in \[0, 1\], 1 = clean"):
        Gate(low_quality=["NoTemplate", "NoRepeats"])([1, 1], [[1, 1, 1, 1], [1, 1, 1, bad]], NAMES)


@pytest.mark.parametrize(("rewards", "scores"), [([1, 1], [[1], [1], [1]]), ([1], [1]), (1.0, 1.0), ([[1]], [[1]])])
def test_shapes_that_do_not_fit(rewards, scores):
    with pytest.raises(InvalidInput, match=r"^Gate: scores must be of shape"):
        Gate()(rewards, scores)
