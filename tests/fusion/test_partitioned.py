"""A pooled fit over parts of a batch agrees with the fit over the whole of it, however it is cut."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubrank import RLVR2, ScoreBatch, attenuate, utility_model
from rubrank.fusion.control.estimate import BatchEstimate
from rubrank.fusion.models.attribute_fit import LocalParts, PartSummary, estimate, fit_parts
from rubrank.fusion.models.model import find_model


def groups(rng, N, K=3, D=2, missing=0.1, sizes=(2, 3, 4, 8)):
    """Groups of several sizes; a judge that likes the first attribute."""
    found = []
    for _ in range(N):
        n = int(rng.choice(sizes))
        attributes = rng.lognormal(5.0, 0.6, (n, D))
        scores = np.round(rng.normal(size=(n, K)) + 1.2 * np.log(attributes[:, :1]))
        scores[rng.random((n, K)) < missing] = np.nan
        scores[:, -1] = 1.0 if rng.random() < 0.3 else scores[:, -1]  # silent in some groups
        found.append((scores, attributes))
    return found


def batch_of(some, first=0):
    labels = np.repeat(np.arange(first, first + len(some)), [len(scores) for scores, _ in some])
    scores, attributes = (np.concatenate(list(column)) for column in zip(*some, strict=True))
    names = [f"c{k}" for k in range(scores.shape[1])]
    return ScoreBatch.of_arrays(scores, groups=labels, criteria=names, attributes=attributes, margins={"c0": 0.5})


def parts_of(rule, some, cuts):
    edges = [0, *cuts, len(some)]
    return [batch_of(some[a:b], a) for a, b in pairwise(edges) if b > a]


def fitted_apart(rule, batches):
    parts = [pickle.loads(pickle.dumps(rule.make_part(batch))).copy() for batch in batches]
    model = find_model(rule.model)
    summaries = [PartSummary.of(part, model) for part in parts]
    scale, found = fit_parts(LocalParts(parts), summaries, model, float(rule.attribute_prior))
    return BatchEstimate(scale, batches[0].names, found)


def whole_estimate(rule, batch):
    part = rule.make_part(batch)
    return estimate(find_model(rule.model), part.data, part.controlled_NK, part.u_MK)


def assert_same_estimate(first, second):
    for name in first.__dataclass_fields__:
        np.testing.assert_allclose(getattr(first, name), getattr(second, name), rtol=1e-10, atol=1e-12, err_msg=name)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 39), max_size=5), st.sampled_from(["bradley-terry", "thurstone"]))
def test_parts_give_the_estimate_of_the_whole_batch(seed, cuts, model):
    rule = RLVR2(adjust="remove", model=model)
    some = groups(np.random.default_rng(seed), 40)
    known = fitted_apart(rule, parts_of(rule, some, sorted(set(cuts))))
    assert_same_estimate(known.estimate, whole_estimate(rule, batch_of(some)))


def test_the_order_of_groups_does_not_matter():
    rng = np.random.default_rng(5)
    rule, some = RLVR2(adjust="remove"), groups(rng, 60)
    here = whole_estimate(rule, batch_of(some))
    assert (here.shrunk_KD != 0.0).any()
    there = whole_estimate(rule, batch_of([some[i] for i in rng.permutation(60)]))
    assert_same_estimate(here, there)


@pytest.mark.parametrize("adjust", ["remove", attenuate(0.5), attenuate(0.5, "bernoulli"), ["remove", attenuate(1.0)]])
@pytest.mark.parametrize("span", ["model", "sd"])
def test_parts_are_fused_to_the_same_rewards(adjust, span):
    rule, some = RLVR2(adjust=adjust, span=span), groups(np.random.default_rng(3), 50)
    whole = rule(batch_of(some))
    batches = parts_of(rule, some, [7, 8, 31])
    known = fitted_apart(rule, batches)
    apart = RLVR2(adjust=adjust, span=span, batch_estimate=known)
    assert apart.local
    assert not rule.local
    fused = [apart(batch) for batch in batches]
    np.testing.assert_allclose(np.concatenate([part.reward for part in fused]), whole.reward, rtol=0, atol=1e-11)
    for name in ("gamma_NKD", "se_NKD", "shrunk_NKD", "n_NK", "taken_NKD", "contrasts_MD", "values_MK"):
        parts = np.concatenate([getattr(part.control, name) for part in fused])
        np.testing.assert_allclose(parts, getattr(whole.control, name), rtol=1e-10, atol=1e-11, err_msg=name)
    joint = np.concatenate([part.control.fitted_MK for part in fused])
    assert np.allclose(joint, whole.control.fitted_MK, atol=1e-6)


@pytest.mark.parametrize(
    "some",
    [
        groups(np.random.default_rng(1), 4, K=1, sizes=(8, 130)),  # one too large for the compiled passes
        groups(np.random.default_rng(2), 12, missing=1.0),
        [(np.ones((4, 3)), np.ones((4, 2)))] * 5,  # silent criteria, constant attributes
        [(np.ones((1, 3)), np.ones((1, 2)))] * 3,
        groups(np.random.default_rng(4), 1),
    ],
    ids=["large groups", "all missing", "no signal", "single rollouts", "one group"],
)
def test_unusual_batches(some):
    rule = RLVR2(adjust="remove")
    known = fitted_apart(rule, parts_of(rule, some, range(1, len(some), 2)))
    assert_same_estimate(known.estimate, whole_estimate(rule, batch_of(some)))


def test_a_model_of_ones_own_is_fitted_from_all_parts_together():
    @utility_model
    class Logistic:
        name = "test-partitioned-logistic"
        fit = staticmethod(find_model("bradley-terry").fit)
        link = staticmethod(find_model("bradley-terry").link)

    rule, some = RLVR2(adjust="remove", model="test-partitioned-logistic"), groups(np.random.default_rng(6), 12)
    known = fitted_apart(rule, parts_of(rule, some, [5]))
    assert_same_estimate(known.estimate, whole_estimate(rule, batch_of(some)))


def test_comparisons_and_own_margins_come_together():
    rng = np.random.default_rng(8)
    won = np.array([[np.nan, 1.0, 0.0], [0.0, np.nan, 1.0], [1.0, 0.0, np.nan]])
    batches = []
    for g in range(10):
        scores, lengths = rng.integers(0, 3, (3, 2)).astype(float), rng.lognormal(size=(3, 1))
        one = {"outcomes": {"a": won}} if g % 2 else {}
        scores[:, 0] = np.nan if g % 2 else scores[:, 0]
        batches.append(
            ScoreBatch.of_arrays(scores, criteria=["a", "b"], attributes=lengths, margins=[0.0, 0.1 * g], **one)
        )
    rule = RLVR2(adjust="remove")
    known = fitted_apart(rule, batches)
    labels = np.repeat(np.arange(10), 3)
    whole = ScoreBatch.of_arrays(
        np.concatenate([batch.scores_MK for batch in batches]),
        groups=labels,
        criteria=["a", "b"],
        attributes=np.concatenate([batch.attributes_MD for batch in batches]),
        margins=np.concatenate([batch.margins_NK for batch in batches]),
        outcomes={"a": dict.fromkeys(range(1, 10, 2), won)},
    )
    assert_same_estimate(known.estimate, whole_estimate(rule, whole))
