"""Properties 10 and 11 of docs/method.md §7, and what else attribute control promises about rewards."""

from __future__ import annotations

import numpy as np
import pytest
from cases import examples
from hypothesis import given
from hypothesis import strategies as st
from strategies import batch_of, measured, seeds

from rubrank import RLVR2, ScoreBatch, attenuate, fuse

POOLED = ("batch", "run")
DRAWS = ("fixed", "bernoulli", "uniform")


def judged(bias, seed, N=48, G=8, K=2, levels=5, attributes=1):
    """Judges who like length, told in so many levels; attributes beyond the first mean nothing."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=(N, G, 1))
    logs = rng.normal(size=(N, G, attributes))
    seen = quality + bias * logs[..., :1] + 0.7 * rng.normal(size=(N, G, K))
    edges = np.quantile(seen, np.arange(1, levels) / levels)
    return np.digitize(seen, edges).astype(float), np.exp(6.0 + 0.5 * logs)


# ----------------------------------------------------------------------------------------------------- 10: attenuate


@examples(60)
@given(st.data())
def test_attenuate_zero_is_no_attributes_at_all(data):
    """Property 10, bit for bit, whatever is drawn; scores, missing ones, ragged groups."""
    scores, groups = data.draw(batch_of("look-up"))
    attributes = data.draw(measured(len(scores)))
    adjust = attenuate(0.0, data.draw(st.sampled_from(DRAWS)))
    pool = data.draw(st.sampled_from(POOLED))
    plain = fuse(scores, groups=groups)
    assert np.array_equal(fuse(scores, groups=groups, attributes=attributes, adjust=adjust, pool=pool), plain)


@pytest.mark.parametrize("pool", POOLED)
@pytest.mark.parametrize("model", ["bradley-terry", "thurstone"])
def test_attenuate_zero_is_off_where_there_is_a_strong_bias(pool, model):
    scores, attributes = judged(1.5, 0)
    scores[3, 2, 0] = np.nan
    plain = fuse(scores, model=model)
    off = fuse(scores, attributes=attributes, adjust=attenuate(0.0), pool=pool, model=model)
    assert np.array_equal(off, plain)
    assert not np.array_equal(fuse(scores, attributes=attributes, pool=pool, model=model), plain)


@examples(25)
@given(st.floats(-1.5, 1.5), seeds, st.integers(1, 3), st.sampled_from(POOLED))
def test_attenuate_one_is_remove_where_the_coefficient_is_positive(bias, seed, D, pool):
    """Property 10: and nothing at all where it is not."""
    scores, attributes = judged(bias, seed, attributes=D)
    batch = ScoreBatch.of_arrays(scores, attributes=attributes)
    removed = RLVR2(adjust="remove", pool=pool)(batch)
    weakened = RLVR2(adjust=attenuate(1.0, "fixed"), pool=pool)(batch)
    np.testing.assert_allclose(weakened.taken, np.maximum(removed.taken, 0.0), rtol=0, atol=1e-12)
    shrunk = np.broadcast_to(removed.shrunk, removed.taken.shape)
    np.testing.assert_allclose(removed.taken, shrunk * telling(batch), rtol=0, atol=1e-12)
    positive = (removed.shrunk[0] >= 0.0).all(1)
    values = [found.fit.values_MK[:, positive] for found in (removed, weakened)]
    np.testing.assert_allclose(*values, rtol=0, atol=1e-12)


def telling(batch):
    return np.asarray(batch.informative_NK)[:, :, None]


@examples(20)
@given(seeds, st.floats(0.2, 1.5), st.sampled_from([2, 3, 10]), st.sampled_from(["bradley-terry", "thurstone"]))
def test_dependence_on_the_attribute_falls_in_lambda(seed, bias, levels, model):
    """Property 10: z̃ᵀv falls with δ in every group, d(z̃ᵀv)/dδ = −z̃ᵀ(E − αH⁻¹)z̃ ≤ 0."""
    scores, attributes = judged(bias, seed, levels=levels)
    batch = ScoreBatch.of_arrays(scores, attributes=attributes)
    left = []
    for lam in (0.0, 0.25, 0.5, 0.75, 1.0):
        found = RLVR2(adjust=attenuate(lam), model=model)(batch)
        z = found.control.contrasts_MD[:, 0].reshape(48, 8, 1)
        left.append((z * found.fit.values_MK.reshape(48, 8, 2)).sum(1))
    assert (np.diff(left, axis=0) <= 1e-9).all()
    assert (left[-1].sum() < left[0].sum() - 1.0) or not found.taken.any()


def test_ties_stay_ties_between_equals():
    """A yes/no criterion whose verdicts have nothing to do with length does not order equals by it."""
    scores, attributes = judged(0.0, 5, N=128, K=1, levels=2)
    assert np.array_equal(fuse(scores, attributes=attributes, adjust="remove"), fuse(scores))


@examples(15)
@given(seeds, st.sampled_from(["remove", attenuate(0.7), attenuate(0.5, "uniform")]))
def test_order_of_groups_and_of_rollouts_does_not_matter(seed, adjust):
    """Property 2 and draws by name, through the pooled fit."""
    scores, attributes = judged(0.8, seed, N=16)
    labels = [f"q{g}" for g in range(16)]
    plain = fuse(scores, groups=labels, attributes=attributes, adjust=adjust)
    rng = np.random.default_rng(seed)
    groups, rollouts = rng.permutation(16), rng.permutation(8)
    moved = fuse(
        scores[groups][:, rollouts],
        groups=[labels[g] for g in groups],
        attributes=attributes[groups][:, rollouts],
        adjust=adjust,
    )
    np.testing.assert_allclose(moved, plain[groups][:, rollouts], rtol=0, atol=1e-8)


def test_the_unit_of_an_attribute_does_not_matter():
    """Property 9."""
    scores, attributes = judged(0.8, 0)
    np.testing.assert_allclose(
        fuse(scores, attributes=attributes * 4096), fuse(scores, attributes=attributes), atol=1e-12
    )


def test_fewer_than_eight_groups_take_nothing_out():
    scores, attributes = judged(3.0, 1, N=7)
    found = RLVR2(adjust="remove")(ScoreBatch.of_arrays(scores, attributes=attributes))
    assert (found.gamma > 0.5).all()
    assert (found.n == 7).all()
    assert not found.taken.any()
    assert np.array_equal(found.reward, fuse(scores))


# ---------------------------------------------------------------------------------------------------- 11: calibration


@pytest.mark.slow
@pytest.mark.parametrize(("levels", "G"), [(2, 8), (10, 8), (2, 4), (10, 16)])
def test_rejections_under_the_null_are_calibrated(levels, G):
    """Property 11: lengths shuffled within groups, 480 batches of 32 groups: 2 to 8% of γ̂ lie beyond t·se.

    A batch has one criterion, so that rejections are independent; before they are shuffled, lengths do sway the judge.
    """
    from rubrank.fusion.control.estimate import student_t_975

    rng, rejected, batches = np.random.default_rng([levels, G]), 0, 480
    for seed in range(batches):
        scores, attributes = judged(0.5, seed, N=32, G=G, K=1, levels=levels)
        shuffled = rng.permuted(attributes, axis=1)
        found = RLVR2(adjust="remove")(ScoreBatch.of_arrays(scores, attributes=shuffled))
        rejected += int(abs(found.gamma[0, 0, 0]) > student_t_975(found.n[0, 0] - 1.0) * found.se[0, 0, 0])
    assert 0.02 <= rejected / batches <= 0.08
