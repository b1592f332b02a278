"""A pooled fit over parts of a batch gives the bits of the fit over the whole of it, however it is cut."""

from __future__ import annotations

import math
import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubrank import RLVR2, ScoreBatch, attenuate, utility_model
from rubrank.fusion.adjusting import Known
from rubrank.fusion.model import find_model
from rubrank.fusion.models import controlled, exact
from rubrank.fusion.models.partitioned import LocalParts, Part, PartSummary, fit_parts


def summed(numbers):
    sums = np.zeros((1, 1, exact.DIGITS), np.int64)
    for x in numbers:
        exact.add(sums, 0, 0, float(x))
    return sums


@settings(deadline=None, max_examples=100)
@given(st.lists(st.floats(-1e30, 1e30, allow_subnormal=False), max_size=40), st.randoms())
def test_a_sum_is_exact_in_any_order_and_in_any_parts(numbers, draw):
    numbers = [x for x in numbers if x == 0.0 or abs(x) > 1e-30]
    sums = summed(numbers)
    found, wanted = exact.value(sums, 0, 0), math.fsum(numbers)
    assert abs(found - wanted) <= math.ulp(wanted) if wanted else abs(found) < 2.0**-180
    draw.shuffle(numbers)
    cut = len(numbers) // 3
    again = summed(numbers[:cut]) + summed(numbers[cut:])
    assert exact.value(again, 0, 0) == found


def test_what_is_no_number_makes_the_sum_none():
    for bad in (math.nan, math.inf, -math.inf, 1e300):
        assert math.isnan(exact.value(summed([1.0, bad, 2.0]), 0, 0))
    assert exact.value(summed([1e-300, 5e-324]), 0, 0) == 0.0
    assert exact.value(summed([-3.0, 1.0]), 0, 0) == -2.0


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
    parts = [pickle.loads(pickle.dumps(rule.part(batch))).copied() for batch in batches]
    model = find_model(rule.model)
    summaries = [PartSummary.of(part, model) for part in parts]
    scale, found = fit_parts(LocalParts(parts), summaries, model, float(rule.attribute_prior))
    return Known(scale, batches[0].names, found)


def fields(estimate):
    return {name: getattr(estimate, name).tobytes() for name in estimate.__dataclass_fields__}


def whole_estimate(rule, batch):
    part = rule.part(batch)
    return controlled.estimate(find_model(rule.model), part.observed, part.wanted_NK, part.u_MK)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 39), max_size=5), st.sampled_from(["bradley-terry", "thurstone"]))
def test_the_estimate_has_the_bits_of_the_whole_batch(seed, cuts, model):
    rule = RLVR2(adjust="remove", model=model)
    some = groups(np.random.default_rng(seed), 40)
    known = fitted_apart(rule, parts_of(rule, some, sorted(set(cuts))))
    assert fields(known.estimate) == fields(whole_estimate(rule, batch_of(some)))


def test_the_order_of_groups_changes_no_bit():
    rng = np.random.default_rng(5)
    rule, some = RLVR2(adjust="remove"), groups(rng, 60)
    here = whole_estimate(rule, batch_of(some))
    assert (here.shrunk_KD != 0.0).any()
    there = whole_estimate(rule, batch_of([some[i] for i in rng.permutation(60)]))
    assert fields(here) == fields(there)


@pytest.mark.parametrize("adjust", ["remove", attenuate(0.5), attenuate(0.5, "bernoulli"), ["remove", attenuate(1.0)]])
@pytest.mark.parametrize("span", ["model", "sd"])
def test_parts_are_fused_to_the_same_bits(adjust, span):
    rule, some = RLVR2(adjust=adjust, span=span), groups(np.random.default_rng(3), 50)
    whole = rule(batch_of(some))
    batches = parts_of(rule, some, [7, 8, 31])
    known = fitted_apart(rule, batches)
    apart = RLVR2(adjust=adjust, span=span, known=known)
    assert apart.local
    assert not rule.local
    fused = [apart(batch) for batch in batches]
    assert np.concatenate([one.reward for one in fused]).tobytes() == whole.reward.tobytes()
    for name in ("gamma_NKD", "se_NKD", "shrunk_NKD", "n_NK", "taken_NKD", "contrasts_MD", "values_MK"):
        parts = np.concatenate([getattr(one.control, name) for one in fused])
        assert parts.tobytes() == np.ascontiguousarray(getattr(whole.control, name)).tobytes(), name
    joint = np.concatenate([one.control.fitted_MK for one in fused])
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
def test_the_edges_have_the_same_bits(some):
    rule = RLVR2(adjust="remove")
    known = fitted_apart(rule, parts_of(rule, some, range(1, len(some), 2)))
    assert fields(known.estimate) == fields(whole_estimate(rule, batch_of(some)))


def test_a_model_of_ones_own_is_fitted_from_all_parts_together():
    @utility_model
    class Logistic:
        name = "test-partitioned-logistic"
        fit = staticmethod(find_model("bradley-terry").fit)
        link = staticmethod(find_model("bradley-terry").link)

    rule, some = RLVR2(adjust="remove", model="test-partitioned-logistic"), groups(np.random.default_rng(6), 12)
    known = fitted_apart(rule, parts_of(rule, some, [5]))
    assert fields(known.estimate) == fields(whole_estimate(rule, batch_of(some)))


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
    from rubrank.fusion.models.partitioned import together

    whole = together([rule.part(batch) for batch in batches])
    assert isinstance(whole, Part)
    here = controlled.estimate(find_model("bradley-terry"), whole.observed, whole.wanted_NK, whole.u_MK)
    assert fields(known.estimate) == fields(here)
