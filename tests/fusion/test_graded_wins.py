"""Graded wins and run quantiles: rules between ordinal and cardinal (docs/method.md)."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubrank import RLVR2, InvalidInput, ScoreBatch, find_rule, fuse, utilities
from rubrank.fusion.options import make_rule
from rubrank.options import RewardOptions
from rubrank.scores.criterion import CriterionData
from rubrank.verifiers.domain import BINARY, UNIT, Domain

NAN = np.nan
TEN = Domain("continuous", (), 1.0, 10.0)
taus = st.floats(0.01, 1.0)
seeds = st.integers(0, 2**32 - 1)


def stretched(values):
    low, high = values.min(-1, keepdims=True), values.max(-1, keepdims=True)
    return np.where(high > low, (values - low) / np.where(high > low, high - low, 1.0), 0.5)


# --------------------------------------------------------------------------------------------------------- graded wins


def test_worked_by_hand():
    """o(0.9, 0.4) = ½ + ½ · clip(0.5/0.5) = 1, o(0.4, 0.2) = 0.7, o(i, i) = ½; u = 2 · mean o − 1."""
    u = utilities([[0.2], [0.4], [0.9]], wins="graded", tau=0.5).ravel()
    assert u == pytest.approx([2 * (0.5 + 0.3 + 0.0) / 3 - 1, 2 * (0.7 + 0.5 + 0.0) / 3 - 1, 2 * (1 + 1 + 0.5) / 3 - 1])


@given(seeds)
def test_tau_one_with_the_declared_width_is_the_weighted_mean(seed):
    rng = np.random.default_rng(seed)
    scores = np.stack([rng.random((5, 6)), rng.uniform(1, 10, (5, 6)), rng.integers(0, 2, (5, 6))], -1)
    criteria = [CriterionData("A", domain=UNIT), CriterionData("B", domain=TEN), CriterionData("C", domain=BINARY)]
    given_weights = {
        "criteria": criteria,
        "weights": rng.uniform(0.5, 2, 3),
        "directions": ["higher", "lower", "higher"],
    }
    batch = ScoreBatch.of_arrays(scores, **given_weights)
    mean = find_rule("weighted-mean")(batch).reward
    graded = find_rule("rlvr2:wins=graded:tau=1")(batch)
    assert graded.reward == pytest.approx(stretched(mean), abs=1e-12)
    around = (mean - mean.mean(1, keepdims=True)) * batch.weights_NK.sum()
    assert graded.fused == pytest.approx(around, abs=1e-12)


@given(seeds)
def test_a_small_tau_is_borda(seed):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 5, (4, 7, 3)) / 4.0
    weights = rng.uniform(0.5, 2, 3)
    borda = stretched(fuse(scores, rule="borda", weights=weights))
    assert fuse(scores, wins="graded", tau=1e-6, weights=weights) == pytest.approx(borda, abs=1e-12)


@given(taus, st.integers(1, 7), st.integers(1, 7))
def test_a_yes_no_criterion_has_a_gap_of_one(tau, passes, fails):
    u = utilities([[1.0]] * passes + [[0.0]] * fails, wins="graded", tau=tau).ravel()
    assert u[0] - u[-1] == pytest.approx(1.0, abs=1e-15)


@given(seeds, st.floats(0.1, 100.0), st.floats(-50.0, 50.0))
def test_over_the_range_of_the_run_the_unit_does_not_matter(seed, factor, shift):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(6, 5, 2))
    plain = fuse(scores, wins="graded", width="run")
    assert fuse(factor * scores + shift, wins="graded", width="run") == pytest.approx(plain, abs=1e-6)


def test_the_range_of_the_run_is_that_of_the_last_384_scores():
    rng = np.random.default_rng(0)
    steps = rng.normal(size=(5, 32, 4, 1)) * np.arange(1, 6)[:, None, None, None]
    rule = RLVR2(wins="graded", width="run", tau=0.5)
    for scores in steps:
        u = rule(ScoreBatch.of_arrays(scores)).utilities
    low, high = np.percentile(steps[2:].ravel(), [5, 95])  # 3 · 128 = 384
    lead = np.clip((steps[4, 0] - steps[4, 0].T) / (0.5 * (high - low)), -1, 1)
    assert u[0, :, 0] == pytest.approx(lead.mean(1), abs=1e-12)
    again = RLVR2(wins="graded", width="run", tau=0.5)
    again.restore(json.loads(json.dumps(rule.state())))
    assert again.remembers
    batch = ScoreBatch.of_arrays(steps[0])
    assert np.array_equal(again(batch).reward, rule(batch).reward)


def test_scores_beyond_an_undeclared_domain_have_the_range_of_the_batch():
    rng = np.random.default_rng(1)
    scores = rng.uniform(0, 100, (8, 5, 1))
    low, high = np.percentile(scores, [5, 95])
    lead = np.clip((scores[0] - scores[0].T) / (0.5 * (high - low)), -1, 1)
    assert utilities(scores, wins="graded")[0, :, 0] == pytest.approx(lead.mean(1), abs=1e-12)
    declared = ScoreBatch.of_arrays(scores, criteria=[CriterionData("A", domain=TEN)])
    with pytest.raises(InvalidInput, match="from 1 to 10"):
        find_rule("rlvr2:wins=graded")(declared)


def test_missing_margins_and_comparisons():
    u = utilities([[0.2], [NAN], [0.9], [0.85]], wins="graded", tau=0.5, margins=[0.1]).ravel()
    assert u[1] == 0.0
    assert u[2] == u[3] == pytest.approx((1.0 + 0 + 0) / 3)  # 0.05 apart is a tie
    compared = np.array([[0.5, 1.0, NAN], [0.0, 0.5, 0.5], [NAN, 0.5, 0.5]])
    u = utilities([[NAN]] * 3, wins="graded", outcomes={0: compared}).ravel()
    assert u == pytest.approx([1 / 2, -1 / 3, 0.0])


def test_what_goes_with_graded_wins():
    for options in ({"model": "borda"}, {"prior": 2.0}, {"tau": 0.0}, {"tau": 1.5}, {"width": "wide"}):
        with pytest.raises(InvalidInput):
            RLVR2(wins="graded", **options)
    with pytest.raises(InvalidInput, match="wins"):
        find_rule("rlvr2:wins=soft")


def test_advantages_of_graded_wins_are_one_for_unanimous_criteria_far_apart():
    scores = [[0.0, 0.0], [1.0, 1.0]]
    assert fuse(scores, wins="graded", scale="utility") == pytest.approx([-np.sqrt(2), np.sqrt(2)])


# ------------------------------------------------------------------------------------------------------- run quantiles


def test_quantiles_worked_by_hand():
    rule = find_rule("run-quantile")
    rule(ScoreBatch.of_arrays([[[1.0], [2.0]], [[2.0], [8.0]]], criteria=["Style"]))
    result = rule(ScoreBatch.of_arrays([[[3.0], [2.0]]], criteria=["Style"]))
    # 1, 2, 2, 2, 3, 8: F = 1/12, 5/12, 9/12, 11/12
    assert result.reward.ravel() == pytest.approx([(9 - 1) / 10, (5 - 1) / 10])


MAPS = (np.exp, lambda s: s**3, lambda s: 5.0 + 0.1 * s, np.tanh)


@pytest.mark.parametrize("mapped", MAPS)
def test_increasing_maps_leave_a_run_of_ten_steps_bit_identical(mapped):
    """Rewards and what they are computed from, with the state saved and restored on the way."""
    rng = np.random.default_rng(0)
    steps = np.round(rng.normal(size=(10, 6, 5, 3)), 1)
    steps[2, 1, 3, 0] = NAN
    plain, other = find_rule("run-quantile+"), find_rule("run-quantile+")
    for number, scores in enumerate(steps):
        names = {"criteria": ["A", "B", "C"], "weights": [1.0, 2.0, 0.5]}
        changed = np.concatenate([mapped(scores[..., :1]), scores[..., 1:2], mapped(scores[..., 2:])], -1)
        expected = plain(ScoreBatch.of_arrays(scores, **names)).reward
        assert np.array_equal(other(ScoreBatch.of_arrays(changed, **names)).reward, expected)
        if number == 4:
            state = json.loads(json.dumps(other.state()))
            other = find_rule("run-quantile+")
            other.restore(state)


def test_the_last_eight_steps_count():
    rule, fresh = find_rule("run-quantile"), find_rule("run-quantile")
    rng = np.random.default_rng(1)
    steps = rng.random((12, 4, 5, 2))
    for scores in steps:
        last = rule(ScoreBatch.of_arrays(scores)).reward
    for scores in steps[4:]:
        expected = fresh(ScoreBatch.of_arrays(scores)).reward
    assert np.array_equal(last, expected)


def test_near_ties_stay_near_and_groups_are_comparable():
    rng = np.random.default_rng(2)
    scores = rng.random((50, 4, 1))
    scores[0, :, 0] = [0.90, 0.91, 0.92, 0.90]
    scores[1, :, 0] = [0.10, 0.11, 0.12, 0.10]
    reward = find_rule("run-quantile")(ScoreBatch.of_arrays(scores)).reward
    assert np.ptp(reward[0]) < 0.1
    assert reward[0].min() > reward[1].max() + 0.5


def test_a_yes_no_criterion_has_a_gap_of_one_in_the_run():
    scores = np.zeros((10, 4, 1))
    scores[0, 0] = 1.0
    reward = find_rule("run-quantile")(ScoreBatch.of_arrays(scores)).reward
    assert reward[0].tolist() == [1.0, 0.0, 0.0, 0.0]


def test_criteria_of_single_queries_share_a_distribution_if_judged():
    """Two queries, each with a judged criterion of its own: 2, 4 and 6, 8 of ten make one distribution."""
    first = CriterionData("Mentions the moon", domain=TEN)
    second = CriterionData("Names the author", domain=TEN)
    program = CriterionData("Words", domain=TEN, verifier="WordCount")
    scores = [[2, NAN, 3], [4, NAN, 5], [NAN, 6, NAN], [NAN, 8, NAN]]
    batch = ScoreBatch.of_arrays(
        scores,
        groups=["a", "a", "b", "b"],
        criteria=[first, second, program],
        group_rubrics=[(first, program), (second,)],
    )
    batch.has_declared_domains = True
    values = find_rule("run-quantile").compute_values(batch)
    assert values[:, 0].tolist()[:2] == [0.0, 1 / 3]
    assert values[:, 1].tolist()[2:] == [2 / 3, 1.0]
    assert values[:, 2].tolist()[:2] == [0.0, 1.0]  # ranks of its group


# ------------------------------------------------------------------------------------------------------ edition: paper


@given(seeds)
def test_the_papers_edition_is_rlvr2_without_a_lift_bit_for_bit(seed):
    rng = np.random.default_rng(seed)
    scores = np.round(rng.random((4, 6, 3)), 1)
    gates = rng.integers(0, 2, (4, 6, 1))
    batch = ScoreBatch.of_arrays(scores, gates=gates, gate_criteria=["NotEmpty"])
    paper = make_rule(RewardOptions(rule="rlvr2+", edition="paper"))
    plain = make_rule(RewardOptions(rule="rlvr2+", gate={"lift": 0}))
    assert np.array_equal(paper(batch).reward, plain(batch).reward)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"span": "unit"}, "span"),
        ({"wins": "graded"}, "wins"),
        ({"rule": "rlvr2:span=sd+"}, "span"),
        ({"gate": {"lift": 0.1}}, "gate.lift"),
        ({"rule": "gdpo+"}, "rule"),
        ({"attributes": ["markup"], "pool": "run"}, "pool"),
    ],
)
def test_the_papers_edition_and_something_else(options, field):
    with pytest.raises(InvalidInput) as error:
        make_rule(RewardOptions(**{"rule": "rlvr2+", "edition": "paper", **options}))
    assert error.value.parameter == field
