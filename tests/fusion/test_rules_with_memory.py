"""AMRP, POW3R and Chebyshev remember: by hand, through a checkpoint, and for criteria that come and go."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from cases import folded

from rubrank.errors import InvalidInput
from rubrank.fusion.rule import Stateful
from rubrank.fusion.rules import find_rule
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.criterion import CriterionData
from rubrank.verifiers.verifier import UNIT

NAN = np.nan
STATEFUL = ("amrp", "pow3r", "pow3r:memory_of=criterion", "chebyshev")
NAMES = ("rlvr2*amrp", "rlvr2*pow3r", "amrp+", "chebyshev+", "rlvr2*amrp+", *STATEFUL)


def batch_of(seed: int, names=("a", "b", "c"), labels=("q1", "q2")):
    rng = np.random.default_rng(seed)
    criteria = [CriterionData(name, domain=UNIT, category="ab"[k % 2]) for k, name in enumerate(names)]
    scores = rng.random((2, 4, len(names))).round(2)
    scores[rng.random(scores.shape) < 0.1] = NAN
    return ScoreBatch.of_arrays(scores, groups=list(labels), criteria=criteria)


@folded("name", NAMES)
def test_a_reload_goes_on_as_if_nothing_had_happened(name):
    there, again = find_rule(name), find_rule(name)
    for seed in range(3):
        there(batch_of(seed))
    assert isinstance(there, Stateful)
    again.restore(json.loads(json.dumps(there.state())))
    for seed in range(3, 6):
        assert again(batch_of(seed)).reward.tolist() == there(batch_of(seed)).reward.tolist()
    assert again.state() == there.state()


@folded("name", ["amrp", "pow3r", "pow3r:memory_of=criterion", "chebyshev", "rlvr2*amrp"])
def test_memory_matters(name):
    fresh, experienced = find_rule(name), find_rule(name)
    for _ in range(5):
        experienced(ScoreBatch.of_arrays([[[1.0, 0.0], [1.0, 0.3]]], groups=["q"], criteria=["a", "b"]))
    batch = ScoreBatch.of_arrays([[[0.2, 0.5], [0.9, 0.1], [0.5, 0.9], [0.3, 0.2]]], groups=["q"], criteria=["a", "b"])
    assert fresh(batch).value_M != pytest.approx(experienced(batch).value_M, abs=1e-4)


@pytest.mark.parametrize("name", STATEFUL)
def test_two_rules_do_not_share_their_memory(name):
    one, two = find_rule(name), find_rule(name)
    empty = two.state()
    one(batch_of(0))
    assert two.state() == empty != one.state()


@pytest.mark.parametrize("name", STATEFUL)
def test_absent_criteria_keep_their_memory(name):
    rule = find_rule(name)
    rule(batch_of(0))

    def of_c():
        memory = rule.state()["memory"]
        if rule.name == "pow3r":
            return [known["c"] for known in memory[rule.memory_of].values()]
        return memory["c"]

    before = of_c()
    rule(batch_of(1, names=("a", "b")))
    assert of_c() == before
    unasked = batch_of(2)
    unasked.scores_MK[:, 2] = NAN
    rule(unasked)
    assert of_c() == before
    back = batch_of(3)
    back.scores_MK[:, 2] = [1, 0] * 4
    rule(back)
    assert of_c() != before


@folded("name", NAMES)
def test_a_state_of_another_rule_is_refused(name):
    other = find_rule("amrp" if name.startswith(("chebyshev", "pow3r")) else "chebyshev")
    with pytest.raises(InvalidInput, match="Restore each rule from its own state"):
        find_rule(name).restore(other.state())
    state = find_rule(name).state()
    with pytest.raises(InvalidInput, match="version 99"):
        find_rule(name).restore({**state, "version": 99})


def test_amrp_by_hand():
    rule = find_rule("amrp")
    first = rule(ScoreBatch.of_arrays([[0.9, 0.4], [0.9, 0.4]], criteria=["a", "b"]))
    # short 0.1 and 0.6, no spread, no progress: u = 0.15 and 0.65, scaled to a sum of 2
    assert first.weights_NK[0] == pytest.approx([0.375, 1.625])
    assert first.value_M[0] == pytest.approx((0.375 * 0.9 + 1.625 * 0.4) / 2)
    second = rule(ScoreBatch.of_arrays([[0.9, 0.6], [0.9, 0.6]], criteria=["a", "b"]))
    # b: m = 0.4 + 0.1·0.2 = 0.42, v = 0.9·0.1·0.04 = 0.0036, progress 0.02
    u = [0.15, (0.58 + 0.05) * (1 + 0.06 / 0.43) * math.exp(-0.02 / 1.01)]
    assert second.weights_NK[0] == pytest.approx([2 * x / sum(u) for x in u])


def test_amrp_clips():
    rule = find_rule("amrp:low=0.8:high=1.1")
    weights = rule(ScoreBatch.of_arrays([[0.9, 0.4]], weights=[1, 2])).weights_NK[0]
    assert weights == pytest.approx([0.8, 2.2])


def test_pow3r_by_hand():
    rule = find_rule("pow3r:eps=1e-300")
    batch = ScoreBatch.of_arrays([[[1, 0.7], [0, 0.7]]], groups=["q"], criteria=["a", "b"])
    # g = 0.5 and 0, mean 0.25: α̂ = 1.5 and 0.5; α = 1.25 and 0.75
    first = rule(batch)
    assert first.details["alpha"][0] == pytest.approx([1.25, 0.75])
    assert first.value_M == pytest.approx([(1.25 + 0.75 * 0.7) / 2, 0.75 * 0.7 / 2])
    # the next epoch: halfway again
    assert rule(batch).details["alpha"][0] == pytest.approx([1.375, 0.625])
    # another query starts at 1
    other = ScoreBatch.of_arrays([[[1, 0.7], [0, 0.7]]], groups=["q2"], criteria=["a", "b"])
    assert rule(other).details["alpha"][0] == pytest.approx([1.25, 0.75])


def test_pow3r_counts_categories_alike():
    criteria = [CriterionData(n, domain=UNIT, category=c) for n, c in (("a", "x"), ("b", "x"), ("c", "y"))]
    # x: both vary alike, α = 1: mean (1 + 0)/2; y: 0.4
    result = find_rule("pow3r")(ScoreBatch.of_arrays([[1, 0, 0.4], [0, 1, 0.4]], criteria=criteria))
    assert result.value_M == pytest.approx([0.45, 0.45])
    assert result.weights_NK[0] == pytest.approx([0.25, 0.25, 0.5])
    # without a score in y only x counts
    result = find_rule("pow3r")(ScoreBatch.of_arrays([[1, 0, NAN], [0, 1, 0.4]], criteria=criteria))
    assert result.value_M == pytest.approx([0.5, 0.45])


def test_pow3r_clips():
    scores = [[[1, 0.5, 0.5, 0.5], [0, 0.5, 0.5, 0.5]]]
    # g/ḡ = 4 and 0: α̂ = 2.5 → 2, 0.5 → 0.8
    alpha = find_rule("pow3r:low=0.8:rate=1:eps=1e-300")(ScoreBatch.of_arrays(scores)).details["alpha"][0]
    assert alpha == pytest.approx([2.0, 0.8, 0.8, 0.8])


def test_pow3r_of_criteria():
    rule = find_rule("pow3r:memory_of=criterion:eps=1e-300")
    scores = [[[1, 0.7], [0, 0.7]], [[0.7, 1], [0.7, 0]]]
    # α̂ is (1.5, 0.5) in one group and (0.5, 1.5) in the other: 1 on average
    assert rule(ScoreBatch.of_arrays(scores, criteria=["a", "b"])).details["alpha"] == pytest.approx(np.ones((2, 2)))
    assert rule.state()["memory"]["criterion"] == {"": {"a": pytest.approx(1), "b": pytest.approx(1)}}
    # a group that does not ask for b has no say: α̂ of b is 0.5 in the other alone, α = (1 + 0.5)/2
    fresh = find_rule("pow3r:memory_of=criterion:eps=1e-300")
    half = ScoreBatch.of_arrays([[[1, 0.7], [0, 0.7]], [[1, NAN], [0, NAN]]], criteria=["a", "b"])
    assert fresh(half).details["alpha"][0] == pytest.approx([(1 + (1.5 + 1) / 2) / 2, 0.75])


def test_pow3r_remembers_many_queries():
    rule = find_rule("pow3r")
    scores = np.array([[[1, 0.7], [0, 0.7]]])
    first = {}
    for q in range(40):
        first[q] = rule(ScoreBatch.of_arrays(scores, groups=[f"q{q}"])).details["alpha"].tolist()
    assert len(rule.state()["memory"]["query"]) == 40
    assert set(rule.state()["memory"]["query"]["q7"]) == {"criterion 0", "criterion 1"}
    again = rule(ScoreBatch.of_arrays(np.repeat(scores, 2, 0), groups=["q39", "q0"])).details["alpha"]
    assert again[0].tolist() == again[1].tolist() != first[0][0]


def test_chebyshev_by_hand():
    rule = find_rule("chebyshev")
    rule(ScoreBatch.of_arrays([[1.0, 0.6]], criteria=["a", "b"]))
    # utopia 1.05 and 0.65: distances 0.15 and 0.45; the second rollout 0.05 + 0.55 = 0.55 and 0.05
    assert rule(ScoreBatch.of_arrays([[0.9, 0.2], [0.5, 0.6]], criteria=["a", "b"])).value_M == pytest.approx(
        [-0.45, -0.55]
    )
    # a better one moves it for good
    assert rule(ScoreBatch.of_arrays([[0.9, 0.9]], criteria=["a", "b"])).value_M == pytest.approx([-0.15])
    assert rule.state()["memory"] == {"a": 1.0, "b": 0.9}
    assert rule(ScoreBatch.of_arrays([[0.9, NAN]], criteria=["a", "b"], weights=[2, 1])).value_M == pytest.approx(
        [-0.3]
    )
