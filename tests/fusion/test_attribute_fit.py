"""The pooled estimator against `plain_control.py`, piece by piece; what it must leave alone; where it hands over."""

from __future__ import annotations

import numpy as np
import plain_control as plain
import pytest
from cases import examples, folded
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rubrank import fuse, utilities
from rubrank.fusion.control.estimate import InfluenceEstimate, shrink, student_t_975
from rubrank.fusion.models import BordaCount, BradleyTerry, Thurstone, likelihood
from rubrank.fusion.models.attribute_fit import FitData, estimate, refit

MODELS = pytest.mark.parametrize("model", [BradleyTerry(), Thurstone()], ids=lambda m: m.name)


class Plain(BradleyTerry):
    """The same model under another type, so that `newton.py` fits it."""


def batch(sizes, K=3, D=2, seed=0, missing=0.1, margin=0.0, prior=1.0, attribute_prior=1.0, levels=5, bias=0.8):
    """Judges who see a quality and are taken in by the first attribute."""
    rng = np.random.default_rng(seed)
    M = int(np.sum(sizes))
    attributes = np.round(rng.lognormal(4.0, 0.8, (D, M)))
    attributes[:, rng.random(M) < 0.1] = 0.0
    seen = rng.normal(size=(M, K)) + rng.normal(size=(M, 1)) + bias * np.log1p(attributes[0])[:, None]
    scores = np.floor(levels * stats.rankdata(seen, axis=0) / (M + 1))
    scores[rng.random((M, K)) < missing] = np.nan
    starts = np.concatenate([[0], np.cumsum(sizes)])
    return FitData(scores, starts, np.full((1, K), margin), attributes.T.copy(), prior, attribute_prior, pooled=True)


def with_outcomes(data, k=0, share=0.6, seed=0):
    """The same, with criterion k compared instead of scored in some groups: fractions, gaps and circles."""
    rng, cells, scores = np.random.default_rng(seed), {}, data.scores_MK.copy()
    for g, n in enumerate(data.sizes):
        if rng.random() < share:
            won = rng.choice([0.0, 0.25, 0.5, 1.0, np.nan], (n, n))
            low = np.tril_indices(n, -1)
            won[low] = 1.0 - won.T[low]
            np.fill_diagonal(won, np.nan)
            cells[g, k] = won
            scores[data.starts[g] : data.starts[g + 1], k] = np.nan
    return FitData(
        scores, data.starts, data.margins, data.attributes_MD, data.prior, data.attribute_prior, cells, pooled=True
    )


def unadjusted(model, data):
    """Utilities without attributes, as the look-up gives them."""
    labels = np.repeat(np.arange(len(data.sizes)), data.sizes)
    outcomes = {}
    for (g, k), won in data.outcomes.items():
        outcomes.setdefault(k, {})[g] = won
    return utilities(
        data.scores_MK, groups=labels, margins=data.margins[0], prior=data.prior, model=model, outcomes=outcomes
    )


def seen_by_the_oracle(data):
    """Outcomes by criterion and group, contrasts by group."""
    groups = [slice(a, b) for a, b in zip(data.starts[:-1], data.starts[1:], strict=True)]
    z = plain.batch_contrasts([data.attributes_MD[rows] for rows in groups])
    outcomes = [
        [plain.outcomes_of(data.scores_MK[rows, k], data.margins[0, k]) for rows in groups]
        for k in range(data.scores_MK.shape[1])
    ]
    for (g, k), won in data.outcomes.items():
        pairs = [(i, j) for i in range(len(won)) for j in range(i + 1, len(won))]
        outcomes[k][g] = {(i, j): won[i, j] for i, j in pairs if won[i, j] == won[i, j]}
    return outcomes, z


def assert_as_the_oracle(model, data, tolerance=1e-8):
    u = unadjusted(model, data)
    wanted = data.find_informative(u)
    found, _ = estimate(model, data, wanted, u)
    outcomes, z = seen_by_the_oracle(data)
    delta = np.zeros((len(data.sizes), u.shape[1], data.attributes_MD.shape[1]))
    for k in range(u.shape[1]):
        expected = plain.joint(outcomes[k], z, data.sizes, data.prior, data.attribute_prior, model.name)
        if expected is None:
            assert found.n_K[k] == 0
            continue
        gamma, se, n, information, variance = expected
        np.testing.assert_allclose(found.gamma_KD[k], gamma, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(found.information_KDD[k], information, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(found.variance_KDD[k], variance, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(found.se_KD[k], se, rtol=tolerance, atol=tolerance)
        assert found.n_K[k] == n
        np.testing.assert_allclose(found.shrunk_KD[k], plain.shrunk(gamma, se, n), rtol=1e-6, atol=tolerance)
        delta[:, k] = np.linspace(-1.0, 1.5, delta.shape[2]) * wanted[:, k, None]
    v = refit(model, data, delta, u)
    for g, k in np.ndindex(wanted.shape):
        rows = slice(data.starts[g], data.starts[g + 1])
        expected = plain.refitted(outcomes[k][g], z[g], data.sizes[g], delta[g, k], data.prior, model.name)
        np.testing.assert_allclose(v[rows, k], expected, rtol=0, atol=tolerance * max(1.0, np.abs(expected).max()))
    return found


@MODELS
@pytest.mark.parametrize("n", [2, 3, 5, 8, 9])
def test_any_group_size(n, model):
    assert_as_the_oracle(model, batch([n] * 9, seed=n))


@MODELS
@pytest.mark.parametrize("D", [1, 2, 5, 11])
def test_any_number_of_attributes(D, model):
    assert_as_the_oracle(model, batch([6] * 10, K=2, D=D, seed=D))


@MODELS
def test_ragged_groups_missing_scores_and_margins(model):
    found = assert_as_the_oracle(model, batch([1, 7, 3, 8, 8, 2, 5, 9, 4, 6, 7], K=4, missing=0.4, margin=1.0))
    assert (found.n_K >= 8).any()


@MODELS
@pytest.mark.parametrize(("prior", "attribute_prior"), [(0.1, 3.0), (4.0, 0.01)])
def test_other_priors(model, prior, attribute_prior):
    assert_as_the_oracle(model, batch([5] * 9, prior=prior, attribute_prior=attribute_prior))


@MODELS
@pytest.mark.parametrize("seed", range(3))
def test_outcomes_observed_by_comparing(model, seed):
    data = with_outcomes(batch([6, 4, 6, 6, 5, 6, 3, 6, 6, 6], K=3, seed=seed), seed=seed)
    assert data.outcomes
    assert_as_the_oracle(model, data)


def test_a_circle_of_wins_is_not_silent():
    """Everybody won once: utilities 0, and yet the three said something about who is longer."""
    circle = np.array([[np.nan, 1.0, 0.0], [0.0, np.nan, 1.0], [1.0, 0.0, np.nan]])
    data = batch([3] * 3, K=1)
    data = FitData(
        np.full((9, 1), np.nan), data.starts, data.margins, data.attributes_MD, 1.0, 1.0, {(1, 0): circle}, pooled=True
    )
    assert data.find_informative(np.zeros((9, 1))).tolist() == [[False], [True], [False]]
    assert_as_the_oracle(BradleyTerry(), data)


@examples(25)
@given(st.data())
def test_random_batches(data):
    sizes = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=14))
    seen = batch(
        sizes,
        K=data.draw(st.integers(1, 3)),
        D=data.draw(st.integers(1, 4)),
        seed=data.draw(st.integers(0, 10**6)),
        missing=data.draw(st.sampled_from([0.0, 0.3, 0.8])),
        levels=data.draw(st.sampled_from([2, 3, 10])),
    )
    if seen.sizes.max() > 1:
        assert_as_the_oracle(data.draw(st.sampled_from([BradleyTerry(), Thurstone()])), seen)


# ----------------------------------------------------------------------------------------------- what is left alone


def test_nothing_taken_out_is_the_look_up_bit_for_bit():
    data = batch([8] * 12, seed=1)
    u = unadjusted(BradleyTerry(), data)
    assert refit(BradleyTerry(), data, np.zeros((12, 3, 2)), u) is u
    delta = np.zeros((12, 3, 2))
    delta[4, 1] = 0.5
    v = refit(BradleyTerry(), data, delta, u)
    changed = v != u
    assert changed[32:40, 1].any()
    changed[32:40, 1] = False
    assert not changed.any()


@MODELS
def test_silent_groups_and_rollouts_without_a_score_stay_at_zero(model):
    data = batch([8] * 10, seed=2, missing=0.3)
    data.scores_MK[:8, 0] = 3.0
    u = unadjusted(model, data)
    wanted = data.find_informative(u)
    assert not wanted[0, 0]
    v = refit(model, data, wanted[:, :, None] * np.ones((10, 3, 2)), u)
    assert (v[:8, 0] == 0.0).all()
    assert (v[np.isnan(data.scores_MK)] == 0.0).all()


def test_a_constant_attribute_has_no_coefficient():
    data = batch([6] * 10, D=2)
    data.attributes_MD[:, 1] = 7.0
    u = unadjusted(BradleyTerry(), data)
    found, _ = estimate(BradleyTerry(), data, data.find_informative(u), u)
    assert (found.gamma_KD[:, 1] == 0.0).all()
    assert (found.shrunk_KD[:, 1] == 0.0).all()


def test_contrasts_are_scaled_over_the_batch():
    data = batch([8] * 5, D=1)
    every = np.concatenate([data.contrasts(g)[np.triu_indices(8, 1)] for g in range(5)])
    assert (every**2).mean() == pytest.approx(1.0)
    own = [(data.contrasts(g)[np.triu_indices(8, 1)] ** 2).mean() for g in range(5)]
    assert max(own) > 1.05 > 0.95 > min(own)


# -------------------------------------------------------------------------------------------------------------- garrote


def test_the_garrote_by_hand():
    gamma, se, n = np.array([[1.0], [0.5], [-2.0], [1.0]]), np.array([[0.2], [0.4], [0.5], [0.1]]), [31, 31, 31, 7]
    c = 2.0422724563012373  # t at 97.5%, 30 degrees of freedom
    expected = [1.0 - (0.2 * c) ** 2, 0.0, -2.0 * (1.0 - (0.25 * c) ** 2), 0.0]
    np.testing.assert_allclose(shrink(gamma, se, np.array(n))[:, 0], expected, rtol=1e-12)


def test_without_an_error_nothing_is_taken():
    assert shrink(np.array([[5.0]]), np.array([[np.nan]]), np.array([100])).tolist() == [[0.0]]


@folded("freedom", [1, 2, 3.7, 7, 12.5, 127, 5000])
def test_student(freedom):
    assert student_t_975(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-11)


def test_student_at_the_ends():
    assert student_t_975(0.9) == np.inf
    assert student_t_975(1e12) == pytest.approx(stats.norm.ppf(0.975), rel=1e-9)


# -------------------------------------------------------------------------------------------------- other ways to a fit


def fitted(model, data):
    u = unadjusted(model, data)
    wanted = data.find_informative(u)
    found, joint = estimate(model, data, wanted, u)
    return found, joint, refit(model, data, wanted[:, :, None] * np.array([0.7, -0.3]), u)


def assert_same(ours, theirs):
    for name in ("gamma_KD", "se_KD", "shrunk_KD", "n_K", "information_KDD", "variance_KDD"):
        np.testing.assert_allclose(getattr(ours[0], name), getattr(theirs[0], name), rtol=0, atol=1e-9)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=0, atol=1e-9)
    np.testing.assert_allclose(ours[2], theirs[2], rtol=0, atol=1e-9)


def test_newton_fits_other_models_with_a_link():
    data = with_outcomes(batch([8, 5, 3, 8, 8, 7, 8, 8, 9], seed=3))
    assert_same(fitted(BradleyTerry(), data), fitted(Plain(), data))


def test_newton_takes_over_where_the_compiled_fit_gives_up(monkeypatch):
    data = batch([8, 5, 3, 8, 8, 7, 8, 8, 9], seed=3)
    expected = fitted(BradleyTerry(), data)
    fit_pooled, fit_jobs = likelihood.fit_pooled, likelihood.fit_jobs

    def give_up_one(*args):
        return fit_pooled(*args) and args[3] != 1  # criterion 1 never converges

    def give_up_some(*args):
        before = args[-3].copy()
        fit_jobs(*args)
        args[-1][::2] = True
        for g, k in args[2][::2]:
            rows = slice(data.starts[g], data.starts[g + 1])
            args[-3][rows, k] = before[rows, k]

    monkeypatch.setattr(likelihood, "fit_pooled", give_up_one)
    monkeypatch.setattr(likelihood, "fit_jobs", give_up_some)
    assert_same(fitted(BradleyTerry(), data), expected)


def test_groups_too_large_for_the_compiled_fit():
    data = batch([130, 4, 6], K=1, missing=0.0)
    assert_same(fitted(BradleyTerry(), data), fitted(Plain(), data))


def test_a_model_without_a_link_is_refused():
    data = batch([4] * 3)
    with pytest.raises(ValueError, match="a model with a link"):
        estimate(BordaCount(), data, np.ones((3, 3), bool), np.zeros((12, 3)))


def test_an_empty_batch():
    data = FitData(np.zeros((0, 2)), np.array([0]), np.zeros((1, 2)), np.zeros((0, 1)), 1.0, 1.0, pooled=True)
    found, _ = estimate(BradleyTerry(), data, data.find_informative(np.zeros((0, 2))), np.zeros((0, 2)))
    assert isinstance(found, InfluenceEstimate)
    assert found.n_K.tolist() == [0, 0]


@pytest.mark.parametrize("pool", ["group", "batch"])
def test_another_order_in_memory_compiles_nothing_anew(pool):
    """Kernels are compiled for each order that they are given, which takes half a minute: all are given one."""
    data, kernels = batch([4, 4, 4]), (likelihood.fit_pooled, likelihood.fit_jobs)
    groups, attributes = np.repeat([0, 1, 2], 4), data.attributes_MD
    ragged = np.repeat([0, 1, 2], [5, 4, 3])
    first = fuse(data.scores_MK, groups=groups, attributes=attributes, pool=pool, adjust="remove")
    before = [len(kernel.signatures) for kernel in kernels]
    fortran = np.asfortranarray(data.scores_MK)
    again = fuse(fortran, groups=groups, attributes=attributes, pool=pool, adjust="remove")
    np.testing.assert_allclose(again, first, rtol=0, atol=1e-12)
    fuse(fortran, groups=ragged, attributes=np.asfortranarray(attributes), pool=pool, adjust="remove")
    assert [len(kernel.signatures) for kernel in kernels] == before
