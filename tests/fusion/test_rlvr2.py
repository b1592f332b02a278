"""RLVR2 is `fuse` with a memory: the same rewards for the same input, whatever its form."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from cases import folded
from ordinal import rlvr2

import rubrank
from rubrank import RLVR2, Gate, Gated, InvalidInput, ScoreBatch, UnknownName, attenuate

NAN = np.nan
NAMES = ["Facts", "Style", "Cost"]
ATTRIBUTES = ["tokens", "headings"]
SCORES_NGK = np.array(
    [
        [[1, 3, 0.20], [0, 5, 0.25], [1, 4, 0.90], [1, 1, NAN]],
        [[0, 2, 0.55], [0, 2, 0.40], [1, 5, 0.70], [0, 4, 0.10]],
        [[1, 1, 0.30], [NAN, 3, 0.35], [0, 3, 0.60], [1, 2, 0.80]],
    ]
)
MEASURED_NGD = np.array(
    [
        [[310, 2], [905, 5], [120, 0], [640, 3]],
        [[210, 0], [150, 1], [990, 6], [480, 0]],
        [[700, 1], [330, 4], [450, 4], [95, 0]],
    ]
)
SCATTERED = ["b", "a", "c", "c", "a", "b", "b", "a", "c", "a", "b", "c"]
PER_GROUP = [[1.0, 2.0, 0.5], [3.0, 1.0, 1.0], [1.0, 1.0, 4.0]]

BY_ARRAY = [
    {},
    {"weights": [2.0, 1.0, 0.5]},
    {"margins": [0.0, 1.0, 0.1]},
    {"margins": 0.05},
    {"directions": ["higher", "higher", "lower"]},
    {"weights": [1, 2, 3], "margins": [0, 1, 0.1], "directions": ["higher", "lower", "lower"]},
    {"span": "unit"},
    {"model": "thurstone"},
    {"model": "borda", "prior": 3.0},
]
BY_NAME = [
    {"weights": {"Facts": 2.0}},
    {"margins": {"Cost": 0.1, "Style": 1}},
    {"directions": {"Cost": "lower"}},
    {"weights": {"Cost": 0.3}, "margins": {"Style": 1}, "directions": {"Style": "lower"}, "span": "unit"},
]
WITH_ATTRIBUTES = [
    {},
    {"adjust": "remove", "pool": "batch"},
    {"adjust": attenuate(0.5)},
    {"adjust": attenuate(0.4, draw="uniform"), "seed": 7},
    {"adjust": attenuate(0.3, draw="fixed"), "pool": "batch", "attribute_prior": 0.5},
    {"adjust": ["remove", attenuate(0.5)], "weights": {"Facts": 3}, "margins": {"Cost": 0.1}},
    {"adjust": [attenuate(0.5), "remove"], "model": "thurstone", "directions": {"Cost": "lower"}, "span": "unit"},
]


def one_group():
    return SCORES_NGK[0], MEASURED_NGD[0], None


def equal_groups():
    return SCORES_NGK, MEASURED_NGD, None


def named_groups():
    return SCORES_NGK, MEASURED_NGD, ["a", "b", "c"]


def scattered():
    order = np.argsort(np.argsort(SCATTERED, kind="stable"), kind="stable")
    return SCORES_NGK.reshape(12, 3)[order], MEASURED_NGD.reshape(12, 2)[order], SCATTERED


FORMS = pytest.mark.parametrize("form", [one_group, equal_groups, named_groups, scattered])


def assert_same(rule, scores, groups, attributes=None, **options):
    result = rule(scores, groups=groups, attributes=attributes)
    expected = rubrank.fuse(scores, groups=groups, attributes=attributes, **options)
    assert result.reward.shape == np.shape(scores)[:-1]
    np.testing.assert_array_equal(result.reward, expected)
    np.testing.assert_array_equal(result.ranking, expected)


@FORMS
@pytest.mark.parametrize("options", BY_ARRAY)
def test_rewards_are_those_of_fuse(form, options):
    scores, _, groups = form()
    assert_same(rlvr2(**options), scores, groups, **options)


@FORMS
@pytest.mark.parametrize("options", BY_NAME)
def test_rewards_are_those_of_fuse_with_options_by_name(form, options):
    scores, _, groups = form()
    assert_same(rlvr2(criteria=NAMES, **options), scores, groups, criteria=NAMES, **options)


@FORMS
@pytest.mark.parametrize("options", WITH_ATTRIBUTES)
def test_rewards_are_those_of_fuse_with_attributes(form, options):
    scores, measured, groups = form()
    options = {"criteria": NAMES, "attribute_names": ATTRIBUTES, **options}
    assert_same(rlvr2(**options), scores, groups, measured, **options)


@FORMS
def test_draws_are_those_of_fuse_without_names_too(form):
    scores, measured, groups = form()
    options = {"adjust": attenuate(0.5, draw="uniform")}
    assert_same(rlvr2(**options), scores, groups, measured, **options)


@pytest.mark.parametrize("form", [equal_groups, named_groups, scattered])
def test_weights_and_margins_may_differ_from_group_to_group(form):
    scores, _, groups = form()
    options = {"weights": PER_GROUP, "margins": np.array(PER_GROUP) / 10}
    assert_same(rlvr2(**options), scores, groups, **options)
    alone = rlvr2(weights=PER_GROUP[1], margins=options["margins"][1])  # groups count by first appearance
    together = rlvr2(**options)(scores, groups=groups)
    np.testing.assert_allclose(together[together.labels[1]].reward, alone(rows_of(scores, groups, 1)).reward)


def rows_of(scores, groups, g):
    if np.ndim(scores) == 3:
        return scores[g]
    label = list(dict.fromkeys(groups))[g]
    return scores[[i for i, other in enumerate(groups) if other == label]]


def test_names_and_arrays_say_the_same():
    by_name = rlvr2(criteria=NAMES, weights={"Cost": 3}, margins={"Style": 1}, directions={"Cost": "lower"})
    by_array = rlvr2(weights=[1, 1, 3], margins=[0, 1, 0], directions=["higher", "higher", "lower"])
    np.testing.assert_array_equal(by_name(SCORES_NGK).reward, by_array(SCORES_NGK).reward)


def test_label_types_of_numpy_and_python_draw_alike():
    scores, measured, labels = scattered()
    numbers = np.array([ord(label) for label in labels])
    rule = rlvr2(criteria=NAMES, adjust=attenuate(0.5, draw="uniform"))
    expected = rule(scores, groups=numbers.tolist(), attributes=measured).taken
    for same in (numbers, list(numbers)):
        np.testing.assert_array_equal(rule(scores, groups=same, attributes=measured).taken, expected)


# ------------------------------------------------------------------------------------------------------------- gate

GATED_NAMES = ["NotEmpty", "Facts", "Clean", "Style", "Cost"]


def with_gate_columns():
    not_empty = np.ones((3, 4))
    not_empty[0, 2] = 0
    clean = np.array([[1, 0.5, 1, 1], [1, 1, 1, 0], [0.2, 1, NAN, 1]])
    facts, style, cost = np.moveaxis(SCORES_NGK, -1, 0)
    return np.stack([not_empty, facts, clean, style, cost], axis=-1)


@folded("gate", [Gate(["NotEmpty"], ["Clean"]), Gate([0], [2]), Gate((), ["Clean", "NotEmpty"])])
@folded(
    ("for_all", "for_fused"),
    [
        ({}, {}),
        ({"weights": [9, 2, 9, 1, 0.5]}, {"weights": [2, 1, 0.5]}),
        ({"weights": {"Cost": 2, "Clean": 9}}, {"weights": {"Cost": 2}}),
        ({"weights": np.arange(1.0, 16).reshape(3, 5)}, {"weights": np.arange(1.0, 16).reshape(3, 5)[:, [1, 3, 4]]}),
        ({"margins": [9, 0, 9, 1, 0.1]}, {"margins": [0, 1, 0.1]}),
        ({"margins": {"NotEmpty": 9, "Style": 1}}, {"margins": {"Style": 1}}),
        ({"margins": 0.1}, {"margins": 0.1}),
        (
            {"directions": ["higher", "higher", "higher", "higher", "lower"]},
            {"directions": ["higher", "higher", "lower"]},
        ),
        ({"directions": {"Clean": "higher", "Cost": "lower"}}, {"directions": {"Cost": "lower"}}),
    ],
)
def test_what_the_gate_reads_is_not_fused(gate, for_all, for_fused):
    if not gate.global_quality:
        gate = replace(gate, missing="fail")
    scores = with_gate_columns()
    result = rlvr2(criteria=GATED_NAMES, gate=gate, **for_all)(scores)
    expected = rubrank.fuse(SCORES_NGK, criteria=NAMES, **for_fused)
    np.testing.assert_array_equal(result.ranking, expected)
    np.testing.assert_array_equal(result.reward, gate(expected, scores, GATED_NAMES).reward)
    assert (result.reward != result.ranking).any()
    assert result.criteria == tuple(NAMES)
    assert {c.name for c in result.batch.gate_criteria} == {"NotEmpty", "Clean"}


@pytest.mark.parametrize("directions", [{"Clean": "lower"}, ["higher", "higher", "lower", "higher", "higher"]])
def test_a_gate_reads_scores_as_they_are(directions):
    rule = rlvr2(criteria=GATED_NAMES, gate=Gate(low_quality=["Clean"]), directions=directions)
    with pytest.raises(
        InvalidInput, match=r"^ScoreBatch: directions must be 'higher' for criteria that the gate reads"
    ):
        rule(with_gate_columns())


def test_draws_do_not_depend_on_the_gate_columns():
    options = {"attribute_names": ATTRIBUTES, "adjust": attenuate(0.5)}
    gated = rlvr2(criteria=GATED_NAMES, gate=Gate(["NotEmpty"], ["Clean"]), **options)
    plain = rlvr2(criteria=NAMES, **options)
    one, other = gated(with_gate_columns(), attributes=MEASURED_NGD), plain(SCORES_NGK, attributes=MEASURED_NGD)
    np.testing.assert_array_equal(one.taken, other.taken)
    np.testing.assert_array_equal(one.ranking, other.ranking)


def test_gate_sees_scattered_rollouts_in_their_own_rows():
    scores = with_gate_columns()
    rule = rlvr2(criteria=GATED_NAMES, gate=Gate(["NotEmpty"], ["Clean"]))
    labels = np.repeat(["a", "b", "c"], 4)
    order = np.random.default_rng(5).permutation(12)
    shuffled = rule(scores.reshape(12, 5)[order], groups=labels[order])
    np.testing.assert_array_equal(shuffled.reward, rule(scores).reward.ravel()[order])


# ------------------------------------------------------------------------------------------------ the object itself


def test_a_rule_cannot_be_changed():
    rule = RLVR2()
    with pytest.raises(FrozenInstanceError):
        rule.prior = 2.0


def test_a_rule_gives_the_same_every_time_and_after_pickling():
    rule = Gated(RLVR2(adjust=attenuate(0.5)))
    scores = np.nan_to_num(SCORES_NGK, nan=0.5)

    def fused(rule, scores):
        options = {"criteria": NAMES, "weights": {"Facts": 2}, "low_quality": ["Cost"]}
        return rule(ScoreBatch.of_arrays(scores, attributes=MEASURED_NGD, **options)).reward

    first = fused(rule, scores)
    fused(rule, 1.0 - np.clip(scores, 0, 1))  # another batch in between leaves nothing behind
    np.testing.assert_array_equal(fused(rule, scores), first)
    np.testing.assert_array_equal(fused(pickle.loads(pickle.dumps(rule)), scores), first)


def test_scores_and_attributes_are_not_written_to():
    scores, measured = SCORES_NGK.copy(), MEASURED_NGD.astype(float)
    before = measured.copy()
    rlvr2(directions=["lower"] * 3, span="unit")(scores, attributes=measured)
    np.testing.assert_array_equal(scores, SCORES_NGK)
    np.testing.assert_array_equal(measured, before)


def test_a_model_of_ones_own():
    class Wins:
        name = "wins"

        def fit(self, wins, ridge):
            return (wins.sum(-1) - wins.sum(-2)) / ridge

    result = rlvr2(model=Wins())([[3, 1], [2, 1], [1, 1]])
    np.testing.assert_allclose(result.reward, [1, 0.5, 0])


@pytest.mark.parametrize("shape", [(0, 2), (0, 4, 2), (3, 0, 2)])
def test_nothing_in_nothing_out(shape):
    result = rlvr2(gate=Gate([0]))(np.zeros(shape))
    assert result.reward.shape == shape[:-1]
    assert list(result) == []


# ---------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("options", "parameter"),
    [({"pool": "all"}, "pool"), ({"span": "wide"}, "span"), ({"prior": 0}, "prior"), ({"seed": "x"}, "seed")],
)
def test_options_are_checked_before_any_score_is_seen(options, parameter):
    with pytest.raises(InvalidInput, match=f"^rlvr2: {parameter} must be"):
        rlvr2(**options)


@folded(
    ("options", "message"),
    [
        ({"criteria": ["a", "b"]}, "criteria must be 3 different names"),
        ({"criteria": ["a", "b", "b"]}, "criteria must be 3 different names"),
        ({"weights": [1, 0, 1]}, "weights must be finite and > 0; got 0.0 for criterion 1"),
        ({"margins": [0, 0, -1]}, "margins must be finite and ≥ 0; got -1.0 for criterion 2"),
        ({"weights": [1, 2]}, r"weights must be of shape \(3,\)"),
        ({"weights": [[1, 2], [1]]}, "weights must be an array of numbers"),
        ({"directions": ["up", "higher", "lower"]}, "directions must be 'higher' or 'lower'"),
        ({"gate": Gate([0], [1, 2])}, "the gate must be on some of the criteria; got all of them"),
    ],
)
def test_errors_name_the_rule_and_the_parameter(options, message):
    with pytest.raises(InvalidInput, match=f"^ScoreBatch: {message}"):
        rlvr2(**options)(SCORES_NGK)


@pytest.mark.parametrize("option", ["weights", "margins", "directions"])
def test_unknown_names_come_with_the_nearest_known_one(option):
    value = "lower" if option == "directions" else 1.0
    with pytest.raises(UnknownName, match=f"^ScoreBatch: {option} key must be .* Did you mean 'Facts'"):
        rlvr2(criteria=NAMES, **{option: {"Fact": value}})(SCORES_NGK)


def test_unknown_gate_criterion():
    with pytest.raises(UnknownName, match=r"ScoreBatch: criterion of the gate must be .* Did you mean 'Style'"):
        rlvr2(criteria=NAMES, gate=Gate(["Stile"]))(SCORES_NGK)


@pytest.mark.parametrize("adjust", ["remove", attenuate(0.5)])
@pytest.mark.parametrize("names", [["tokens"], ["tokens", "headings", "bold"]])
def test_attribute_names_must_be_as_many_as_attributes(adjust, names):
    with pytest.raises(InvalidInput, match="attribute_names"):
        rlvr2(attribute_names=names, adjust=adjust)(SCORES_NGK, attributes=MEASURED_NGD)


def test_a_wrong_retest_is_refused_without_an_advice_that_makes_no_sense():
    with pytest.raises(InvalidInput) as raised:
        RLVR2(retest={"Tone": -1.0})
    assert str(raised.value) == "rlvr2: retest must be finite numbers ≥ 0 by criterion; got {'Tone': -1.0}."
