"""Batches from plain arrays: shapes, what is read off them, and what is refused."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from cases import folded

from rubrank.errors import InvalidInput
from rubrank.scores.batch import ScoreBatch, compute_win_rates
from rubrank.scores.criterion import CriterionData
from rubrank.verifiers.verifier import TERNARY, UNIT, Domain

NAN = np.nan


def test_three_shapes_are_one_batch():
    scores = np.arange(12).reshape(2, 3, 2) / 11
    stacked = ScoreBatch.of_arrays(scores, groups=["x", "y"])
    rows = ScoreBatch.of_arrays(scores.reshape(6, 2), groups=["x"] * 3 + ["y"] * 3)
    for batch in (stacked, rows):
        assert isinstance(batch, ScoreBatch)
        assert (batch.N, batch.K, batch.labels) == (2, 2, ("x", "y"))
        assert batch.starts.tolist() == [0, 3, 6]
        assert batch.group_of_row.tolist() == [0, 0, 0, 1, 1, 1]
        assert batch.scores_MK.tolist() == scores.reshape(6, 2).tolist()
    assert ScoreBatch.of_arrays(scores[0]).starts.tolist() == [0, 3]
    assert ScoreBatch.of_arrays(scores).names == ("criterion 0", "criterion 1")


def test_weights_and_margins():
    criteria = [CriterionData("a", weight=2.0, margin=0.1), CriterionData("b")]
    scores = np.zeros((2, 3, 2))
    assert ScoreBatch.of_arrays(scores, criteria=criteria).weights_NK.tolist() == [[2.0, 1.0]]
    assert ScoreBatch.of_arrays(scores, criteria=criteria).margins_NK.tolist() == [[0.1, 0.0]]
    assert ScoreBatch.of_arrays(scores, criteria=criteria, weights={"b": 3}).weights_NK.tolist() == [[1.0, 3.0]]
    assert ScoreBatch.of_arrays(scores, weights=[[1, 2], [3, 4]]).weights_NK.tolist() == [[1, 2], [3, 4]]


def test_unit_scores():
    criteria = [
        CriterionData("a", domain=Domain("continuous", (), -1.0, 3.0)),
        CriterionData("b", domain=TERNARY, direction="lower"),
        CriterionData("c", domain=Domain("discrete", tuple(map(float, range(50))), 0.0, 49.0)),
    ]
    unit = ScoreBatch.of_arrays([[1, 0.5, 49], [-1, 0, NAN]], criteria=criteria).unit_MK
    assert unit[0].tolist() == [0.5, 0.5, 1.0]  # 1, not a little below
    assert unit[1, :2].tolist() == [0.0, 1.0]
    assert np.isnan(unit[1, 2])


def test_missing_and_asked():
    batch = ScoreBatch.of_arrays([[[1, NAN], [NAN, NAN]], [[1, 0], [0, 1]]])
    assert not batch.complete
    assert batch.missing_MK.tolist() == [[False, True], [True, True], [False, False], [False, False]]
    assert batch.scored_NK.tolist() == [[True, False], [True, True]]
    assert batch.informative_NK.tolist() == [[False, False], [True, True]]
    assert ScoreBatch.of_arrays([[1, 0]]).complete


def test_compared_instead_of_scored():
    outcomes = {0: [None, np.array([[0.5, 1.0], [0.0, 0.5]])]}
    batch = ScoreBatch.of_arrays([[[NAN, 1], [NAN, 0]], [[NAN, 1], [NAN, 0]]], outcomes=outcomes)
    assert batch.scored_NK.tolist() == [[False, True], [True, True]]
    assert batch.unit_MK[2:, 0].tolist() == [1.0, 0.0]
    assert np.isnan(compute_win_rates(np.array([[0.5, NAN], [NAN, 0.5]]))).all()


def test_reading_each_groups_own_criteria():
    a, b, also_b = CriterionData("a", points=1.0), CriterionData("b", points=2.0), CriterionData("b", points=9.0)
    scores = np.zeros((3, 2, 2))
    shared = ScoreBatch.of_arrays(scores, criteria=[a, b])
    assert shared.collect_per_group(lambda c: c.points).tolist() == [[1.0, 2.0]]
    mine = ScoreBatch.of_arrays(
        scores, criteria=[a, b], group_rubrics=[[a, b], [also_b], [also_b, a, CriterionData("gate")]]
    )
    assert mine.collect_per_group(lambda c: c.points).tolist() == [[1.0, 2.0], [1.0, 9.0], [1.0, 9.0]]


def test_a_score_outside_its_domain_is_reported_with_the_domain_of_its_group():
    wide, narrow = (CriterionData("a", domain=Domain("continuous", low=0, high=high)) for high in (10, 5))
    batch = ScoreBatch.of_arrays([[[7], [8]], [[4], [7]]], criteria=[wide], group_rubrics=[[wide], [narrow]])
    with pytest.raises(InvalidInput, match="scores of 'a' must be from 0 to 5, its domain; got 7"):
        _ = batch.unit_MK


def test_changed_unit_scores_stay_in_parts_and_columns():
    batch = ScoreBatch.of_arrays([[[0, 1], [1, 0]], [[1, 1], [0, 0]]])
    changed = batch.replace_unit_scores(np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6], [0.7, NAN]]))
    assert changed.select_groups(1, 2).unit_MK[0].tolist() == [0.5, 0.6]
    assert changed.select_groups(1, 2).missing_MK.tolist() == [[False, False], [False, True]]
    assert changed.select_criteria([1]).unit_MK[:3, 0].tolist() == [0.2, 0.4, 0.6]
    assert changed.scored_unit_MK.tolist() == batch.unit_MK.tolist()
    assert changed.replace_ranked_scores(np.full((4, 2), 0.5)).unit_MK.tolist() == [[0.5, 0.5]] * 4


def test_a_ranked_score_can_be_taken_away():
    batch = ScoreBatch.of_arrays([[0.0], [0.5], [1.0]])
    changed = batch.replace_ranked_scores(np.array([[0.25], [NAN], [1.0]]))
    np.testing.assert_array_equal(changed.scores_MK, [[0.25], [NAN], [1.0]])


def test_outcomes_stay_unless_a_score_of_the_group_changes():
    outcomes = {0: [[NAN, 1.0], [0.0, NAN]]}
    batch = ScoreBatch.of_arrays([[NAN], [NAN]], outcomes=outcomes)
    same = batch.replace_ranked_scores(np.array([[1.0], [0.0]]))
    assert list(same.outcomes) == [(0, 0)]
    assert np.isnan(same.scores_MK).all()
    changed = batch.replace_ranked_scores(np.array([[0.75], [0.0]]))
    assert not changed.outcomes
    assert changed.scores_MK.ravel().tolist() == [0.75, 0.0]


def test_rows_in_pieces_are_put_together_and_given_back():
    batch = ScoreBatch.of_arrays([[1], [0], [0.5]], groups=["x", "y", "x"])
    assert batch.scores_MK.ravel().tolist() == [1.0, 0.5, 0.0]
    assert batch.restore_rollout_shape(batch.scores_MK).ravel().tolist() == [1.0, 0.0, 0.5]


def test_names_are_enough():
    batch = ScoreBatch.of_arrays([[0.5]], criteria=["Style"], gates=[[1]], gate_criteria=["NotEmpty"])
    assert batch.criteria == (CriterionData("Style", domain=UNIT),)
    assert batch.gate_criteria[0].layer == "global_quality"


@folded(
    ("given", "message"),
    [
        ({"scores": [[1, 2]]}, "scores of 'criterion 1' must be from 0 to 1, its domain; got 2"),
        ({"scores": [[1, np.inf]]}, "must be from 0 to 1"),
        ({"scores": [1, 0]}, "scores must be of shape"),
        ({"scores": [[1, 0]], "criteria": ["a"]}, "criteria must be 2 different names"),
        ({"scores": [[1, 0]], "criteria": ["a", "a"]}, "got 2, 1 of them different"),
        ({"scores": [[1, 0]], "weights": [1, -1]}, "weights must be finite and > 0; got -1.0 for"),
        ({"scores": [[1, 0]], "weights": [1, NAN]}, "weights must be finite"),
        ({"scores": [[1, 0]], "margins": [-1, 0]}, "margins must be finite and ≥ 0"),
        ({"scores": [[1, 0]], "gates": [1]}, r"gates must be of shape \(1, C\)"),
        ({"scores": [[1, 0]], "gates": [[1]], "gate_criteria": ["x", "y"]}, "gate_criteria must be 1 different names"),
        ({"scores": [[1, 0]], "attributes": [[-1]]}, "attributes must be finite numbers ≥ 0"),
        ({"scores": [[1, 0]], "group_rubrics": []}, "group_rubrics must be 1, one per group; got 0"),
    ],
)
def test_what_is_refused(given, message):
    with pytest.raises(InvalidInput, match=message):
        _ = ScoreBatch.of_arrays(**given).unit_MK


# -------------------------------------------------------------------------------------------------- arrays that mislead


def test_a_frame_with_a_group_column_that_is_not_used_is_refused():
    frame = pl.DataFrame({"uid": [1, 1, 2, 2], "Facts": [0.0, 1.0, 1.0, 0.0]})
    with pytest.raises(InvalidInput, match=r"a frame with a column 'uid'\. Pass groups='uid'"):
        ScoreBatch.of_arrays(frame, criteria=["Facts"])
    batch = ScoreBatch.of_arrays(frame.drop("uid"), criteria="all", groups=frame["uid"])
    assert (batch.labels, batch.starts.tolist()) == ((1, 2), [0, 2, 4])


def test_a_polars_column_names_groups_in_any_order():
    labels = pl.Series(["b", "a", "b", "a"])
    batch = ScoreBatch.of_arrays([[1.0], [2.0], [3.0], [4.0]], groups=labels)
    assert batch.labels == ("b", "a")
    assert batch.scores_MK.ravel().tolist() == [1.0, 3.0, 2.0, 4.0]


@pytest.mark.parametrize("labels", [["b", "b", "a"], ["b", "a", "b"], [7, 7, 3], [1.5, 1.5, 0.5], [True, False, False]])
def test_a_polars_column_names_the_same_groups_as_a_list(labels):
    scores = [[0.1], [0.2], [0.3]]
    from_list = ScoreBatch.of_arrays(scores, groups=labels)
    from_column = ScoreBatch.of_arrays(scores, groups=pl.Series(labels))
    assert from_column.labels == from_list.labels
    assert from_column.starts.tolist() == from_list.starts.tolist()
    assert from_column.starts.dtype == from_list.starts.dtype
    assert from_column.scores_MK.tolist() == from_list.scores_MK.tolist()


@pytest.mark.parametrize("groups", [{"a": 0, "b": 1}, {"a", "b"}])
def test_groups_without_an_order_are_refused(groups):
    with pytest.raises(InvalidInput, match="groups must be a list of labels"):
        ScoreBatch.of_arrays([[1.0], [2.0]], groups=groups)


def test_dates_are_no_scores():
    dates = np.array([["2024-01-01"], ["2024-01-02"]], dtype="datetime64[D]")
    with pytest.raises(InvalidInput, match="dates or times"):
        ScoreBatch.of_arrays(dates)
