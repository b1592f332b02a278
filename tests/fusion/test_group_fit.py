"""The compiled fit against `newton.py`, which other tests of this folder hold against scipy and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from cases import folded, thinned

from rubrank import utilities
from rubrank.fusion.models import BradleyTerry, likelihood
from rubrank.fusion.models.attribute_fit import FitData

POOLS = pytest.mark.parametrize("pool", ["group", "batch"])


class Plain(BradleyTerry):
    """The same model under another type, so that `newton.py` fits it."""


def observed(sizes, K=3, D=1, seed=0, missing=0.1, margin=0.0, prior=1.0, attribute_prior=1.0):
    rng = np.random.default_rng(seed)
    M = int(np.sum(sizes))
    scores = rng.integers(0, 5, (M, K)).astype(float)
    scores[rng.random((M, K)) < missing] = np.nan
    starts = np.concatenate([[0], np.cumsum(sizes)])
    attributes_MD = np.round(rng.lognormal(4.0, 0.8, (D, M))).T.copy()
    return FitData(scores, starts, np.full((1, K), margin), attributes_MD, prior, attribute_prior)


def fitted(model, data, pool):
    """Utilities (M, K) and γ (N, K, D)."""
    return utilities(
        data.scores_MK,
        groups=np.repeat(np.arange(len(data.sizes)), data.sizes),
        attributes=data.attributes_MD,
        margins=data.margins[0],
        prior=data.prior,
        attribute_prior=data.attribute_prior,
        pool=pool,
        model=model,
    )


def assert_same(data, pool, tolerance=1e-9):
    compiled, reference = fitted(BradleyTerry(), data, pool), fitted(Plain(), data, pool)
    for ours, theirs in zip(compiled, reference, strict=True):
        scale = max(1.0, float(np.abs(theirs).max(initial=0.0)))
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * scale)
    return compiled


@pytest.mark.slow
@POOLS
@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 9, 16, 25, 40])
def test_any_group_size(n, pool):
    assert_same(observed([n] * 3, D=2, seed=n), pool)


@pytest.mark.slow
@POOLS
@pytest.mark.parametrize("D", range(13))
def test_any_number_of_attributes(D, pool):
    assert_same(observed([6] * 4, D=D, seed=D), pool)


@pytest.mark.slow
@POOLS
@pytest.mark.parametrize("prior", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("attribute_prior", [1e-3, 1.0, 1e3])
def test_weak_and_strong_priors(prior, attribute_prior, pool):
    data = observed([8] * 6 + [3], D=2, prior=prior, attribute_prior=attribute_prior)
    assert_same(data, pool)


@pytest.mark.slow
@POOLS
@pytest.mark.parametrize("margin", [0.0, 1.0, 2.5])
@pytest.mark.parametrize("missing", [0.0, 0.3, 0.9])
def test_margins_and_missing_scores(margin, missing, pool):
    assert_same(observed([5, 9, 2, 9, 1, 12], K=4, D=3, margin=margin, missing=missing), pool)


@POOLS
@pytest.mark.parametrize("seed", thinned(range(6), every=6))
def test_random_ragged_batches(seed, pool):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 20, rng.integers(1, 25))
    assert_same(observed(sizes, K=int(rng.integers(1, 6)), D=int(rng.integers(1, 5)), seed=seed), pool)


@folded("jobs", range(1, 18))
def test_a_fit_does_not_depend_on_its_neighbours(jobs):
    data = observed([7] * jobs, K=1, missing=0.0, seed=3)
    u, gamma = assert_same(data, "group")
    for g in range(jobs):
        rows = slice(7 * g, 7 * (g + 1))
        alone = utilities(data.scores_MK[rows], attributes=data.attributes_MD[rows], pool="group")
        np.testing.assert_allclose(alone.utilities, u[rows], rtol=0, atol=1e-12)
        np.testing.assert_allclose(alone.gamma, gamma[g], rtol=0, atol=1e-12)


def test_margins_of_each_group():
    data = observed([6] * 5, K=2, missing=0.0)
    margins = np.random.default_rng(0).integers(0, 3, (5, 2)).astype(float)
    attributes = data.attributes_MD.reshape(5, 6, 1)
    scores = data.scores_MK.reshape(5, 6, 2)
    together = utilities(scores, attributes=attributes, margins=margins, pool="group")
    for g in range(5):
        alone = utilities(scores[g], attributes=attributes[g], margins=margins[g], pool="group")
        np.testing.assert_allclose(together.utilities[g], alone.utilities, rtol=0, atol=1e-12)


def test_groups_too_large_for_the_compiled_fit():
    data = observed([likelihood.LARGEST_GROUP + 1, 4], K=2, missing=0.0)
    for ours, theirs in zip(fitted(BradleyTerry(), data, "group"), fitted(Plain(), data, "group"), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


# ------------------------------------------------------------------------------------------------- when it gives up


def failing(compiled, fails):
    """The compiled fit, reporting failure where fails(i) and leaving what its contract says: the start."""

    def wrapper(*args):
        *_, u_MK, gamma, failed = args
        start_u, start_gamma = u_MK.copy(), gamma.copy()
        compiled(*args)
        wrapper.calls += 1
        for i in range(len(failed)):
            if fails(i):
                failed[i] = True
        if failed.all():
            u_MK[:], gamma[:] = start_u, start_gamma

    wrapper.calls = 0
    return wrapper


@pytest.mark.parametrize("fails", [lambda i: True, lambda i: i % 3 == 0], ids=["all", "some"])
def test_newton_takes_over_in_groups(monkeypatch, fails):
    data = observed([5, 8, 8, 3], K=3, D=2)
    expected = fitted(BradleyTerry(), data, "group")
    wrapper = failing(likelihood.fit_jobs, fails)
    monkeypatch.setattr(likelihood, "fit_jobs", wrapper)
    solved = count_solves(monkeypatch)
    for ours, theirs in zip(fitted(BradleyTerry(), data, "group"), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)
    assert wrapper.calls
    assert solved


def count_solves(monkeypatch):
    from rubrank.fusion.models.newton import FitProblem

    solved, solve = [], FitProblem.solve

    def counting(self, start=None):
        solved.append(len(self.wins_Bnn))
        return solve(self, start)

    monkeypatch.setattr(FitProblem, "solve", counting)
    return solved


# ------------------------------------------------------------------------------------------------------- contrasts


def test_contrasts():
    """z = (a_i − a_j)/(a_i + a_j) over its root mean square; two zeros do not differ."""
    data = FitData(
        np.zeros((4, 1)), np.array([0, 4]), np.zeros((1, 1)), np.array([[0.0], [0.0], [1.0], [3.0]]), 1.0, 1.0
    )
    z = data.contrasts(0)[:, :, 0]
    raw = np.array([[0, 0, -1, -1], [0, 0, -1, -1], [1, 1, 0, -0.5], [1, 1, 0.5, 0]])
    np.testing.assert_allclose(z, raw / np.sqrt((raw[np.triu_indices(4, 1)] ** 2).mean()))
    assert np.array_equal(z, -z.T)


def test_mean_contrasts():
    """z̃: over all of the group, the rollout itself too."""
    data = observed([1, 2, 7], D=2)
    mean = data.average_contrasts()
    assert not mean[0].any()
    for g in (1, 2):
        rows = slice(data.starts[g], data.starts[g + 1])
        np.testing.assert_allclose(mean[rows], data.contrasts(g).sum(1) / data.sizes[g], atol=1e-14)
