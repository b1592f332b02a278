"""What may be passed, and what is said about what may not: one clear error each."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from cases import folded

from rubrank import InvalidInput, RubrankError, ScoreBatch, UnknownName, attenuate, fuse, utilities
from rubrank.errors import BadTable, SolverError
from rubrank.scores.outcomes import outcomes

SCORES = np.array([[1.0, 0.2, 7.0], [1.0, 0.9, 3.0], [0.0, 0.5, 5.0], [0.0, 0.6, 2.0]])
CUBE = np.stack([SCORES, SCORES[::-1], SCORES[:, ::-1]])
LENGTHS = np.array([[10.0], [20.0], [30.0], [15.0]])
NAMES = ["correct", "clear", "kind"]

# --------------------------------------------------------------------------------------------------------- input forms


def test_one_group_many_groups_and_labelled_rows_are_one():
    apart = np.stack([fuse(group) for group in CUBE])
    assert fuse(SCORES).shape == (4,)
    assert np.array_equal(fuse(CUBE), apart)
    assert np.array_equal(fuse(CUBE, groups=["a", "b", "c"]), apart)
    assert np.array_equal(fuse(CUBE.reshape(12, 3), groups=np.repeat([7, 3, 5], 4)), apart.ravel())
    assert np.array_equal(fuse(CUBE.reshape(12, 3), groups=list("aaaabbbbcccc")), apart.ravel())


def test_utilities_have_the_shape_of_the_scores():
    assert utilities(SCORES).shape == (4, 3)
    assert utilities(CUBE).shape == (3, 4, 3)
    assert utilities(CUBE.reshape(12, 3), groups=np.arange(12) % 3).shape == (12, 3)


def test_gamma_has_a_row_for_each_group_in_order_of_appearance():
    attributes = np.random.default_rng(0).lognormal(size=(3, 4, 2))
    assert utilities(SCORES, attributes=attributes[0]).gamma.shape == (3, 2)
    cube = utilities(CUBE, attributes=attributes).gamma
    assert cube.shape == (3, 3, 2)
    order = np.r_[8:12, 0:8]
    rows = utilities(
        CUBE.reshape(12, 3)[order], groups=np.repeat([0, 1, 2], 4)[order], attributes=attributes.reshape(12, 2)[order]
    )
    np.testing.assert_allclose(rows.gamma, cube[[2, 0, 1]])


@pytest.mark.parametrize(
    "labels", [[2, 0, 2, 0], ["b", "a", "b", "a"], [("q", 1), "a", ("q", 1), "a"], np.array([2.5, 0, 2.5, 0])]
)
def test_rows_in_any_order_with_any_hashable_label(labels):
    rewards = fuse(SCORES, groups=labels)
    assert np.array_equal(rewards[[0, 2]], fuse(SCORES[[0, 2]]))
    assert np.array_equal(rewards[[1, 3]], fuse(SCORES[[1, 3]]))


@folded(
    ("scores", "options", "shape"),
    [
        (np.zeros((0, 3)), {}, (0,)),
        (np.zeros((0, 3)), {"groups": []}, (0,)),
        (np.zeros((0, 8, 3)), {}, (0, 8)),
        (np.zeros((2, 0, 3)), {}, (2, 0)),
        (np.zeros((0, 3)), {"attributes": np.zeros((0, 2))}, (0,)),
    ],
)
def test_nothing_in_nothing_out(scores, options, shape):
    assert fuse(scores, **options).shape == shape


def test_no_attributes_is_not_an_adjustment():
    assert np.array_equal(fuse(SCORES, attributes=np.zeros((4, 0))), fuse(SCORES))
    fitted = utilities(CUBE, attributes=np.zeros((3, 4, 0)))
    assert fitted.gamma.shape == (3, 3, 0)


def test_none_is_a_missing_score():
    expected = fuse([[1.0, np.nan], [2.0, 1.0], [0.5, 2.0]])
    assert np.array_equal(fuse([[1.0, None], [2.0, 1.0], [0.5, 2.0]]), expected)


def test_weights_in_every_form():
    expected = fuse(CUBE, weights=[3.0, 1.0, 2.0])
    assert np.array_equal(fuse(CUBE, weights={"correct": 3.0, "kind": 2}, criteria=NAMES), expected)
    assert np.array_equal(fuse(CUBE, weights=np.tile([3.0, 1.0, 2.0], (3, 1))), expected)
    np.testing.assert_allclose(fuse(CUBE, weights=[30, 10, 20]), expected, atol=1e-12)
    assert np.array_equal(fuse(CUBE, weights=1.0), fuse(CUBE))
    assert not np.array_equal(fuse(CUBE, weights=[1.0, 1.0, 9.0]), expected)


def test_weights_and_margins_of_each_group_follow_its_first_appearance():
    weights, margins = np.random.default_rng(0).uniform(0.5, 2.0, (2, 3, 3))
    expected = np.stack([fuse(CUBE[g], weights=weights[g], margins=margins[g]) for g in range(3)])
    assert np.array_equal(fuse(CUBE, weights=weights, margins=margins), expected)
    order = np.array([8, 0, 4, 9, 5, 1, 10, 11, 2, 3, 6, 7])  # group 2 appears first, then 0, then 1
    rows, labels = CUBE.reshape(12, 3)[order], np.repeat([0, 1, 2], 4)[order]
    first = [2, 0, 1]
    assert np.array_equal(
        fuse(rows, groups=labels, weights=weights[first], margins=margins[first]), expected.ravel()[order]
    )


def test_directions_in_every_form():
    expected = fuse(SCORES * [1, -1, 1])
    assert np.array_equal(fuse(SCORES, directions=["higher", "lower", "higher"]), expected)
    assert np.array_equal(fuse(SCORES, directions={"clear": "lower"}, criteria=NAMES), expected)
    assert np.array_equal(fuse(SCORES, directions=["lower"] * 3), fuse(-SCORES))


def test_unit_span():
    """Every criterion that says something has the same spread, so a yes/no counts as much as a grade."""
    scores = np.array([[1, 1], [1, 2], [0, 3], [0, 4]])
    u = utilities(scores)
    expected = (u / np.ptp(u, axis=0)).sum(1)
    np.testing.assert_allclose(fuse(scores, span="unit"), (expected - expected.min()) / np.ptp(expected), atol=1e-12)


def test_arguments_are_left_alone():
    scores, weights, margins, lengths = (
        CUBE.copy(),
        np.array([1.0, 2.0, 3.0]),
        np.array([0.0, 0.1, 0.0]),
        np.ones((3, 4, 1)),
    )
    fuse(scores, weights=weights, margins=margins, attributes=lengths, span="unit", directions=["lower"] * 3)
    assert np.array_equal(scores, CUBE)
    assert weights.tolist() == [1.0, 2.0, 3.0]
    assert margins.tolist() == [0.0, 0.1, 0.0]
    assert (lengths == 1.0).all()


# ------------------------------------------------------------------------------------------------------------ bad input

INFINITE = np.where(np.eye(4, 3, -2) > 0, np.inf, SCORES)

BAD = {
    # what is wrong: (scores, options, parameter, allowed, got)
    "a vector of scores": ([1, 2, 3], {}, "scores", "of shape (rollouts, criteria)", "shape (3,)"),
    "a number": (3.0, {}, "scores", "of shape (rollouts, criteria)", "shape ()"),
    "four axes": (np.zeros((1, 1, 1, 1)), {}, "scores", "of shape (rollouts, criteria)", "shape (1, 1, 1, 1)"),
    "no criteria": (np.zeros((3, 0)), {}, "scores", "at least one criterion", "shape (3, 0)"),
    "ragged rows": ([[1, 2], [3]], {}, "scores", "an array of numbers", "something else"),
    "words": ([["good", "bad"]], {}, "scores", "an array of numbers", "something else"),
    "complex scores": (SCORES + 1j, {}, "scores", "numbers", "complex"),
    "integers beyond 2**53": ([[2**60], [2**60 + 1]], {}, "scores", "integers within ±2**53", "larger"),
    "an infinite score": (INFINITE, {}, "scores", "finite, or NaN", "inf at row 2, column 0"),
    "an infinite score in a cube": ([SCORES, INFINITE], {}, "scores", "finite", "inf at group 1, rollout 2, column 0"),
    "a negative infinity": (-INFINITE, {"margins": 1}, "scores", "finite, or NaN", "-inf at row 2, column 0"),
    "a weight of 0": (SCORES, {"weights": [1, 0, 1]}, "weights", "> 0", "0.0 for criterion 1"),
    "a negative weight": (CUBE, {"weights": np.eye(3) - 0.5}, "weights", "> 0", "-0.5 for criterion 1 of group 0"),
    "a weight of NaN": (SCORES, {"weights": [1, 1, np.nan]}, "weights", "finite", "nan for criterion 2"),
    "an infinite weight": (SCORES, {"weights": [np.inf, 1, 1]}, "weights", "finite", "inf for criterion 0"),
    "too few weights": (SCORES, {"weights": [1, 1]}, "weights", "of shape (3,)", "shape (2,)"),
    "weights of other groups": (CUBE, {"weights": np.ones((2, 3))}, "weights", "or (3, 3)", "shape (2, 3)"),
    "weights that are words": (SCORES, {"weights": ["a", "b", "c"]}, "weights", "numbers", "something else"),
    "weights by name without names": (SCORES, {"weights": {"clear": 1}}, "weights", "an array", "a mapping"),
    "a negative margin": (SCORES, {"margins": [0, -0.5, 0]}, "margins", "≥ 0", "-0.5 for criterion 1"),
    "a margin of NaN": (SCORES, {"margins": np.nan}, "margins", "≥ 0", "nan for criterion 0"),
    "an infinite margin": (SCORES, {"margins": np.inf}, "margins", "finite", "inf for criterion 0"),
    "too many margins": (SCORES, {"margins": [0, 0, 0, 0]}, "margins", "of shape (3,)", "shape (4,)"),
    "labels of another length": (SCORES, {"groups": [1, 1, 2]}, "groups", "4 labels", "3"),
    "labels of another length, cube": (CUBE, {"groups": [1, 2]}, "groups", "3 labels", "2"),
    "the same label twice in a cube": (CUBE, {"groups": ["a", "b", "a"]}, "groups", "a different label", "'a' twice"),
    "no label": (SCORES, {"groups": ["a", None, "a", "a"]}, "groups", "every rollout", "None at 1"),
    "a label of NaN": (SCORES, {"groups": [1.0, 1.0, np.nan, 1.0]}, "groups", "every rollout", "nan at 2"),
    "labels in two axes": (SCORES, {"groups": np.zeros((4, 1))}, "groups", "every rollout", "[0.0] at 0"),
    "labels that cannot be hashed": (SCORES, {"groups": [{}, {}, {}, {}]}, "groups", "", "{}"),
    "one number as labels": (SCORES, {"groups": 5}, "groups", "", "5"),
    "a negative attribute": (SCORES, {"attributes": LENGTHS - 15}, "attributes", "≥ 0", "-5.0 at row 0, column 0"),
    "a missing attribute": (SCORES, {"attributes": LENGTHS * np.nan}, "attributes", "finite", "nan at row 0"),
    "attributes without an axis": (SCORES, {"attributes": LENGTHS[:, 0]}, "attributes", "shape (4, D)", "shape (4,)"),
    "attributes of other rollouts": (SCORES, {"attributes": LENGTHS[:3]}, "attributes", "shape (4, D)", "shape (3, 1)"),
    "a model without a link": (SCORES, {"attributes": LENGTHS, "model": "borda"}, "model", "a link", "'borda'"),
    "an unknown rule": (SCORES, {"attributes": LENGTHS, "adjust": "drop"}, "adjust", "attenuate(lam)", "'drop'"),
    "a number as a rule": (SCORES, {"attributes": LENGTHS, "adjust": 0.5}, "adjust", "attenuate(lam)", "0.5"),
    "two rules for one": (SCORES, {"attributes": LENGTHS, "adjust": ["remove"] * 2}, "adjust", "one rule", "2"),
    "names of other attributes": (
        SCORES,
        {"attributes": LENGTHS, "adjust": attenuate(0.5), "attribute_names": ["length", "headings"]},
        "attribute_names",
        "1",
        "2",
    ),
    "a prior of 0": (SCORES, {"prior": 0}, "prior", "from 1e-09 to 1e+12", "0"),
    "a prior that is no number": (SCORES, {"prior": "1"}, "prior", "a number", "'1'"),
    "an infinite attribute prior": (
        SCORES,
        {"attribute_prior": np.inf},
        "attribute_prior",
        "from 1e-09 to 1e+12",
        "inf",
    ),
    "a seed that is no integer": (SCORES, {"seed": 1.5}, "seed", "a whole number", "1.5"),
    "two criteria of one name": (SCORES, {"criteria": ["a", "b", "a"]}, "criteria", "3 different names", "2 of them"),
    "too few names": (SCORES, {"criteria": ["a", "b"]}, "criteria", "3 different names", "2"),
    "directions for other criteria": (SCORES, {"directions": ["lower"]}, "directions", "each of the 3", "['lower']"),
    "a direction that is none": (SCORES, {"directions": ["up", "lower", "lower"]}, "directions", "'higher'", "'up'"),
    "a number as a model": (SCORES, {"model": 5}, "model", "a utility model", "5"),
}

UNKNOWN = {
    "model": (SCORES, {"model": "bradley-tery"}, "model", "'bradley-terry'", "'bradley-tery'", "bradley-terry"),
    "pool": (SCORES, {"pool": "batches"}, "pool", "'batch', 'group', 'run'", "'batches'", "batch"),
    "span": (SCORES, {"span": "units"}, "span", "'model', 'sd', 'unit'", "'units'", "unit"),
    "weight": (SCORES, {"weights": {"corect": 2}, "criteria": NAMES}, "weights key", "'clear'", "'corect'", "correct"),
    "margin": (SCORES, {"margins": {"kin": 2}, "criteria": NAMES}, "margins key", "'clear'", "'kin'", "kind"),
    "direction": (
        SCORES,
        {"directions": {"claer": "lower"}, "criteria": NAMES},
        "directions key",
        "'kind'",
        "'claer'",
        "clear",
    ),
}


def check(error, parameter, allowed, got):
    assert error.parameter == parameter
    assert allowed in error.allowed
    assert got in error.got
    assert error.owner
    message = str(error)
    assert "\n" not in message
    assert all(part in message for part in (error.owner, error.parameter, error.allowed, error.got, error.remedy))
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == message
    assert (again.owner, again.remedy) == (error.owner, error.remedy)


@folded("wrong", BAD)
def test_bad_input(wrong):
    scores, options, parameter, allowed, got = BAD[wrong]
    with pytest.raises(InvalidInput) as raised:
        fuse(scores, **options)
    check(raised.value, parameter, allowed, got)
    assert isinstance(raised.value, ValueError)


@folded("wrong", UNKNOWN)
def test_unknown_names_come_with_the_nearest_known(wrong):
    scores, options, parameter, allowed, got, near = UNKNOWN[wrong]
    with pytest.raises(UnknownName) as raised:
        fuse(scores, **options)
    check(raised.value, parameter, allowed, got)
    assert raised.value.remedy == f"Did you mean {near!r}?"
    assert isinstance(raised.value, LookupError)


def test_nothing_is_near_a_strange_name():
    with pytest.raises(UnknownName, match=r"got 'xyz'\.$"):
        fuse(SCORES, model="xyz")


@pytest.mark.parametrize(("function", "owner"), [(fuse, "fuse"), (utilities, "utilities")])
def test_errors_name_the_function_that_was_called(function, owner):
    for scores, options in ((SCORES, {"margins": -1}), (SCORES, {"groups": [1]}), (SCORES, {"piror": 1})):
        with pytest.raises(InvalidInput) as raised:
            function(scores, **options)
        assert raised.value.owner == owner


def test_a_fit_after_an_error_is_not_disturbed():
    large = np.random.default_rng(0).normal(size=(20, 2))
    expected = fuse(large)
    bad = large.copy()
    bad[19, 1] = np.inf
    with pytest.raises(InvalidInput):
        fuse(bad)
    assert np.array_equal(fuse(large), expected)


# ------------------------------------------------------------------------------------------------ errors, outcomes


@pytest.mark.parametrize("kind", [InvalidInput, UnknownName, BadTable])
def test_errors_survive_pickling(kind):
    error = kind("fuse", "weights", "> 0", "-1", "Leave it out.")
    check(error, "weights", "> 0", "-1")
    assert str(error) == "fuse: weights must be > 0; got -1. Leave it out."


def test_solver_errors_survive_pickling():
    error = pickle.loads(pickle.dumps(SolverError("no maximum")))
    assert isinstance(error, RubrankError)
    assert isinstance(error, ArithmeticError)
    assert str(error) == "no maximum"


def test_outcomes():
    """The example at the top of comparison.py, and a missing score."""
    won = outcomes([[1.0], [0.2], [0.9], [np.nan]], 0.15)[:, :, 0]
    nan = np.nan
    expected = [[0.5, 1, 0.5, nan], [0, 0.5, 0, nan], [0.5, 1, 0.5, nan], [nan, nan, nan, nan]]
    assert np.array_equal(won, expected, equal_nan=True)


def test_outcomes_with_a_margin_for_each_criterion_and_huge_scores():
    scores = np.array([[1.0, 1.7e308], [0.0, -1.7e308]])
    won = outcomes(scores, [1.0, 1.0])
    assert won[0, 1].tolist() == [0.5, 1.0]
    assert won[1, 0].tolist() == [0.5, 0.0]


def test_names_are_made_once_for_all_groups():
    batch = ScoreBatch.of_arrays([[1.0, 0.5], [0.0, 1.0]], criteria=["A", "B"])
    assert batch.names is batch.names
    assert batch.select_criteria([1]).names == ("B",)
