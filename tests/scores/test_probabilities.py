"""Distributions of verdicts, and the outcomes of comparing them."""

from __future__ import annotations

import json
import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rubrank
from rubrank.errors import InvalidInput, UnknownName
from rubrank.fusion.rlvr2 import RLVR2
from rubrank.records.files import read_records, write_records
from rubrank.records.record import records_of, to_fused_group, to_score_table
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.criterion import CriterionData
from rubrank.scores.files import read_scores
from rubrank.scores.outcomes import noisy_outcomes, outcomes, soft_outcomes
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.verifiers.distribution import make_distribution, mean_of, mix_distributions, most_probable, sureness
from rubrank.verifiers.domain import TERNARY, UNIT

LEVELS = (0.0, 0.5, 1.0)


def certain(value: float) -> tuple[tuple[float, float], ...]:
    return tuple((level, float(level == value)) for level in LEVELS)


@st.composite
def distributions(draw: st.DrawFn) -> tuple[tuple[float, float], ...]:
    weights = [draw(st.integers(0, 20)) for _ in LEVELS]
    weights[draw(st.integers(0, 2))] += 1
    return tuple((level, weight / sum(weights)) for level, weight in zip(LEVELS, weights, strict=True))


def by_the_formula(p: tuple[tuple[float, float], ...], q: tuple[tuple[float, float], ...]) -> float:
    above = math.fsum(x * y for a, x in p for b, y in q if a > b)
    return above + 0.5 * math.fsum(x * y for a, x in p for b, y in q if a == b)


def test_an_outcome_worked_out_by_hand():
    first = ((0.0, 0.1), (0.5, 0.2), (1.0, 0.7))
    second = ((0.0, 0.5), (0.5, 0.3), (1.0, 0.2))
    # 0.2·0.5 + 0.7·0.8 = 0.66 of beating it, 0.1·0.5 + 0.2·0.3 + 0.7·0.2 = 0.25 of a tie
    assert soft_outcomes([first, second])[0, 1] == pytest.approx(0.66 + 0.125)


@given(st.lists(distributions(), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_outcomes_follow_the_formula_and_add_up_to_one(several):
    soft = soft_outcomes(several)
    for i, p in enumerate(several):
        for j, q in enumerate(several):
            assert soft[i, j] == pytest.approx(by_the_formula(p, q), abs=1e-12)
    assert np.allclose(soft + soft.T, 1.0, atol=1e-15)


@given(st.lists(st.sampled_from(LEVELS), min_size=1, max_size=8), st.sampled_from([0.0, 0.5, 0.7]))
@settings(max_examples=60, deadline=None)
def test_certain_distributions_give_the_hard_outcomes_bit_for_bit(values, margin):
    hard = outcomes(np.array(values)[:, None], margin)[:, :, 0]
    assert np.array_equal(soft_outcomes([certain(value) for value in values], margin), hard)


@given(distributions(), st.integers(2, 5), st.lists(distributions(), max_size=4))
@settings(max_examples=60, deadline=None)
def test_equal_distributions_tie_exactly(distribution, times, others):
    soft = soft_outcomes([distribution, *others, *[distribution] * (times - 1)])
    equal = [0, *range(1 + len(others), len(soft))]
    assert (soft[np.ix_(equal, equal)] == 0.5).all()


@given(st.lists(distributions(), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_monotone_relabelling_of_levels_changes_nothing(several):
    new_name = {0.0: -3.0, 0.5: 1.0, 1.0: 100.0}
    relabelled = [tuple((new_name[value], p) for value, p in distribution) for distribution in several]
    assert np.array_equal(soft_outcomes(several), soft_outcomes(relabelled))


def test_without_a_distribution_there_is_no_outcome():
    soft = soft_outcomes([certain(1.0), (), certain(0.0)])
    assert np.isnan(soft[1]).all()
    assert np.isnan(soft[:, 1]).all()
    assert soft[0, 2] == 1.0


def test_noisy_scores_are_compared_by_the_normal_distribution():
    scores = np.array([0.2, 0.5, 0.9, np.nan])
    noisy = noisy_outcomes(scores, 0.3)
    normal = NormalDist(0.0, math.sqrt(2.0) * 0.3)
    for i in range(3):
        for j in range(3):
            assert noisy[i, j] == pytest.approx(normal.cdf(scores[i] - scores[j]), abs=1e-12)
    assert np.isnan(noisy[3]).all()
    assert np.array_equal(noisy_outcomes(scores, 0.0), outcomes(scores[:, None])[:, :, 0], equal_nan=True)
    assert np.allclose(noisy_outcomes(scores[:3], 1e-9), outcomes(scores[:3, None])[:, :, 0])
    with_margin = noisy_outcomes(scores, 0.3, margin=0.1)
    expected = 0.5 * (normal.cdf(0.3 - 0.1) + normal.cdf(0.3 + 0.1))
    assert with_margin[1, 0] == pytest.approx(expected, abs=1e-12)


def test_distributions_are_checked_and_scaled():
    assert make_distribution({1: 0.495, 0: 0.495}) == ((0.0, 0.5), (1.0, 0.5))
    for wrong in ({0: 0.5, 1: 0.9}, {0: -0.1, 1: 1.1}, {"a": 1.0}, [(0, 0.5), (0, 0.5)], {float("nan"): 1.0}, [3]):
        with pytest.raises(InvalidInput):
            make_distribution(wrong)


def test_what_a_distribution_says():
    distribution = ((0.0, 0.4), (0.5, 0.4), (1.0, 0.2))
    assert mean_of(distribution) == pytest.approx(0.4)
    assert most_probable(distribution, higher_is_better=True) == 0.0
    assert most_probable(distribution, higher_is_better=False) == 0.5
    assert sureness(distribution) == 0.0
    assert sureness(((1.0, 1.0),)) == 1.0
    assert mix_distributions([((0.0, 1.0),), ((1.0, 1.0),), ((1.0, 1.0),)]) == ((0.0, 1 / 3), (1.0, 2 / 3))


# --------------------------------------------------------------------------------------------------------- in the fit


def test_soft_rewards_of_certain_verdicts_are_the_hard_ones_bit_for_bit():
    values = [[1.0, 0.5], [0.5, 0.0], [0.5, 1.0], [0.0, 0.5]]
    sure = {k: [certain(row[k]) for row in values] for k in range(2)}
    hard = rubrank.fuse(values)
    assert np.array_equal(rubrank.fuse(values, outcomes="soft", probabilities=sure), hard)
    assert np.array_equal(rubrank.fuse(values, outcomes="soft"), hard)
    assert np.array_equal(rubrank.fuse(values, probabilities=sure), hard)


def test_a_soft_fit_is_the_fit_of_the_fractional_outcomes():
    scores = [[1.0], [1.0], [0.0]]
    torn = [{0: 0.05, 1: 0.95}, {0: 0.45, 1: 0.55}, {0: 0.6, 1: 0.4}]
    soft = rubrank.utilities(scores, outcomes="soft", probabilities={0: torn})
    fractions = soft_outcomes([make_distribution(p) for p in torn])
    observed = rubrank.utilities([[float("nan")]] * 3, outcomes={0: fractions})
    assert np.allclose(soft, observed)
    assert soft[0, 0] > soft[1, 0] > soft[2, 0]
    hard = rubrank.utilities(scores)
    assert hard[0, 0] == hard[1, 0]


def test_lower_is_better_turns_the_outcomes_round():
    torn = {0: [{0: 0.9, 1: 0.1}, {0: 0.3, 1: 0.7}]}
    higher = rubrank.utilities([[0.0], [1.0]], outcomes="soft", probabilities=torn)
    lower = rubrank.utilities([[0.0], [1.0]], outcomes="soft", probabilities=torn, directions=["lower"])
    assert np.allclose(higher, -lower)
    assert lower[0, 0] > 0.0


def test_distributions_follow_rows_in_any_order():
    torn = [{0: 0.1, 1: 0.9}, {0: 0.8, 1: 0.2}, {0: 0.4, 1: 0.6}, None]
    scores = [[1.0], [0.0], [1.0], [0.0]]
    one = rubrank.fuse(scores, groups=["a", "a", "b", "b"], outcomes="soft", probabilities={0: torn})
    order = [2, 0, 3, 1]
    other = rubrank.fuse(
        [scores[i] for i in order],
        groups=["b", "a", "b", "a"],
        outcomes="soft",
        probabilities={0: [torn[i] for i in order]},
    )
    assert np.allclose(other, one[order])
    cube = rubrank.fuse([scores[:2], scores[2:]], outcomes="soft", probabilities={0: [torn[:2], torn[2:]]})
    assert np.allclose(cube.ravel(), one)


def test_a_missing_score_is_not_compared_and_a_score_without_distribution_is_certain():
    batch = ScoreBatch.of_arrays([[1.0], [float("nan")], [0.0]], probabilities={0: [None, None, {0: 0.6, 1: 0.4}]})
    result = RLVR2(outcomes="soft")(batch)
    soft = result.group(0).outcomes[:, :, 0]
    assert soft[0, 2] == pytest.approx(0.6 + 0.5 * 0.4)
    assert np.isnan(soft[1]).all()


def test_retest_deviations_make_soft_outcomes_of_scores():
    scores = np.array([[0.1], [0.4], [0.9]])
    batch = ScoreBatch.of_arrays(scores, criteria=["Tone"])
    group = RLVR2(outcomes="soft", retest={"Tone": 0.2})(batch).group(0)
    assert np.allclose(group.outcomes[:, :, 0], noisy_outcomes(scores[:, 0], 0.2))
    assert np.array_equal(RLVR2(outcomes="hard", retest={"Tone": 0.2})(batch).reward, RLVR2()(batch).reward)
    assert np.array_equal(RLVR2(outcomes="soft", retest={"Other": 0.2})(batch).reward, RLVR2()(batch).reward)
    with pytest.raises(InvalidInput):
        RLVR2(outcomes="soft", retest={"Tone": -1.0})
    with pytest.raises(InvalidInput):
        RLVR2(outcomes="fuzzy")


def test_attributes_are_controlled_with_soft_outcomes_too():
    rng = np.random.default_rng(5)
    scores = rng.integers(0, 2, (4, 6, 1)).astype(float)
    lengths = rng.uniform(1.0, 9.0, (4, 6, 1))
    sure = {0: [[certain(float(x)) for x in group[:, 0]] for group in scores]}
    torn = {0: [[{0: 0.5 - 0.3 * (x - 0.5), 1: 0.5 + 0.3 * (x - 0.5)} for x in group[:, 0]] for group in scores]}
    hard = rubrank.utilities(scores, attributes=lengths)
    certainly = rubrank.utilities(scores, attributes=lengths, outcomes="soft", probabilities=sure)
    weakly = rubrank.utilities(scores, attributes=lengths, outcomes="soft", probabilities=torn)
    assert np.array_equal(certainly.gamma, hard.gamma)
    assert np.abs(weakly.gamma).max() < np.abs(hard.gamma).max()


def test_wrong_probabilities_are_refused():
    with pytest.raises(InvalidInput, match="one for each of the 2 rollouts"):
        rubrank.fuse([[1.0], [0.0]], outcomes="soft", probabilities={0: [{0: 0.1, 1: 0.9}]})
    with pytest.raises(InvalidInput, match=r"pairs of .*value.* probabilit"):
        rubrank.fuse([[1.0], [0.0]], outcomes="soft", probabilities={0: [0.3, 0.7]})
    with pytest.raises(InvalidInput, match="a column from 0 to 0"):
        rubrank.fuse([[1.0], [0.0]], outcomes="soft", probabilities={1: [None, None]})
    with pytest.raises(UnknownName):
        rubrank.fuse([[1.0], [0.0]], criteria=["Tone"], outcomes="soft", probabilities={"Tune": [None, None]})


# ------------------------------------------------------------------------------------------------------------ in files


def make_table() -> ScoreTable:
    criteria = (CriterionData("Tone", domain=TERNARY), CriterionData("Length", domain=UNIT, verifier="WordCount"))
    torn = ((0.0, 0.1), (0.5, 0.3), (1.0, 0.6))
    first = GroupScores(
        "a", criteria, np.array([[1.0, 0.3], [0.5, 0.3]]), (("", ""),) * 2, probabilities={"Tone": (torn, ())}
    )
    second = GroupScores("b", criteria, np.array([[0.0, 0.3], [0.5, 0.7]]), (("", ""),) * 2)
    return ScoreTable((first, second))


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".parquet"])
def test_probabilities_survive_score_files(tmp_path, suffix):
    table = make_table()
    path = tmp_path / f"scores{suffix}"
    table.write(path)
    again = read_scores(path)
    assert again["a"].probabilities == {"Tone": (((0.0, 0.1), (0.5, 0.3), (1.0, 0.6)), ())}
    assert again["b"].probabilities == {}
    assert np.array_equal(again.fuse(outcomes="soft").reward, table.fuse(outcomes="soft").reward)


def test_probabilities_survive_a_file_with_one_row_per_score(tmp_path):
    table = make_table().change_criteria({"Tone": {"name": "rollout"}})
    groups = [
        GroupScores(g.id, g.criteria, g.scores, g.reasons, {}, {"rollout": tuple(g.probabilities.get("Tone", ()))})
        if g.probabilities
        else g
        for g in table.groups
    ]
    ScoreTable(tuple(groups)).write(tmp_path / "long.parquet")
    again = read_scores(tmp_path / "long.parquet")
    assert again["a"].probabilities["rollout"][0][2] == (1.0, 0.6)


def test_probabilities_survive_records_and_explain_what_was_fitted(tmp_path):
    table = make_table()
    fused = RLVR2(outcomes="soft")(table.batch())
    write_records(tmp_path / "records.jsonl", records_of(fused, table))
    first, second = read_records(tmp_path / "records.jsonl")
    assert first.probabilities == table["a"].probabilities
    assert first.soft_outcomes["Tone"][0][1] == pytest.approx(0.6 + 0.5 * 0.3)
    assert second.soft_outcomes == {}
    assert np.allclose(to_fused_group(first).outcomes, fused.group(0).outcomes)
    assert to_score_table([first])["a"].probabilities == table["a"].probabilities


def test_a_damaged_file_is_named(tmp_path):
    table = make_table()
    table.write(tmp_path / "scores.jsonl")
    lines = (tmp_path / "scores.jsonl").read_text().splitlines()
    row = json.loads(lines[1])
    row["probabilities"] = '{"Tone": [[0, 0.4], [1, 0.1]]}'
    (tmp_path / "scores.jsonl").write_text("\n".join([lines[0], json.dumps(row), *lines[2:]]))
    with pytest.raises(InvalidInput, match=r"pairs of .*value.* probabilit"):
        read_scores(tmp_path / "scores.jsonl")


@pytest.mark.parametrize("column", ["probabilities", "outcomes"])
def test_criteria_that_the_file_does_not_have_are_refused(tmp_path, column):
    path = tmp_path / "scores.jsonl"
    make_table().write(path)
    header, *lines = path.read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    for row in rows:
        row[column] = json.dumps({"Tome": [[0, 0.4], [1, 0.6]] if column == "probabilities" else [0.5, 0.5]})
    path.write_text("\n".join([header, *map(json.dumps, rows)]))
    with pytest.raises(InvalidInput, match=f"{column} must be one of .*got 'Tome'. Did you mean 'Tone'"):
        read_scores(path)


@pytest.mark.parametrize("text", ["{", '{"Tone": [1]}', '{"Tone": "a"}', "7"])
def test_damaged_outcomes_are_named(tmp_path, text):
    path = tmp_path / "scores.jsonl"
    make_table().write(path)
    header, *lines = path.read_text().splitlines()
    path.write_text("\n".join([header, *(json.dumps({**json.loads(line), "outcomes": text}) for line in lines)]))
    with pytest.raises(InvalidInput, match="outcomes must be in every row of a group"):
        read_scores(path)
