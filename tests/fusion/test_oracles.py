"""The same maximum by other people's optimisers (property 6 of docs/method.md §7).

Every fit, with or without attributes, in one group or pooled, is a ridge logistic regression without intercept: one row
for each compared pair, +1 and −1 for its two rollouts, then its contrasts. `Regression` holds that, built here from the
definitions, and each oracle solves it its own way.

Tolerances: 1e-8 where the other side can be driven that far. choix searches along lines by the value of the
loss, whose last bits drown changes of x below the square root of the machine's precision: 1e-7 is what it can reach.
arena-rank's L-BFGS is stopped by the gradient alone and reaches 1e-8.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from cases import folded
from scipy.optimize import minimize, root
from scipy.special import expit, log_expit
from scipy.stats import norm

from rubrank import utilities


@dataclass
class Regression:
    X: np.ndarray
    won: np.ndarray
    penalty: np.ndarray

    @property
    def scaled(self) -> np.ndarray:
        """Columns for which a common ridge of 1 is this penalty; solutions come out times its square root."""
        return self.X / np.sqrt(self.penalty)


def regression(groups, k, prior=1.0, attribute_prior=1.0, margin=0.0) -> Regression:
    """Criterion k of groups [(scores (G, K), attributes (G, D)), …], which share the attributes' coefficients."""
    total, D = sum(len(scores) for scores, _ in groups), groups[0][1].shape[1]
    rows, won, first = [], [], 0
    every = [contrasts(attributes) for _, attributes in groups]
    scales = [scale_of([z]) for z in every] if len(groups) == 1 else [scale_of(every)] * len(groups)
    for (scores, _), raw, scale in zip(groups, every, scales, strict=True):
        z = raw * scale
        for i in range(len(scores)):
            for j in range(i + 1, len(scores)):
                difference = scores[i, k] - scores[j, k]
                if np.isnan(difference):
                    continue
                row = np.zeros(total + D)
                row[first + i], row[first + j], row[total:] = 1.0, -1.0, z[i, j]
                rows.append(row)
                won.append(1.0 if difference > margin else 0.0 if -difference > margin else 0.5)
        first += len(scores)
    return Regression(np.array(rows), np.array(won), np.r_[np.full(total, prior), np.full(D, attribute_prior)])


def contrasts(attributes):
    a, b = attributes[:, None], attributes[None, :]
    return (a - b) / np.where(a + b > 0, a + b, 1.0)


def scale_of(every):
    """One over the root mean square of all pairs: of a group fitted alone, or of all groups that share a γ."""
    pairs = np.concatenate([z[np.triu_indices(len(z), 1)] for z in every])
    rms = np.sqrt((pairs**2).mean(0)) if len(pairs) else np.zeros(every[0].shape[2])
    return 1.0 / np.where(rms > 0, rms, 1.0)


def alone(scores):
    return [(scores, np.zeros((len(scores), 0)))]


# ------------------------------------------------------------------------------------------------------ oracles


def logistic(x):
    return log_expit(x), expit(-x), -expit(x) * expit(-x)


def probit(x):
    slope = np.exp(norm.logpdf(x) - norm.logcdf(x))
    return norm.logcdf(x), slope, -slope * (x + slope)


def by_scipy(problem: Regression, link=logistic) -> np.ndarray:
    X, won, penalty = problem.X, problem.won, problem.penalty

    def loss(w):
        return 0.5 * penalty @ w**2 - won @ link(X @ w)[0] - (1 - won) @ link(-X @ w)[0]

    def gradient(w):
        return penalty * w - X.T @ (won * link(X @ w)[1] - (1 - won) * link(-X @ w)[1])

    def hessian(w):
        curvature = won * link(X @ w)[2] + (1 - won) * link(-X @ w)[2]
        return np.diag(penalty) - X.T @ (curvature[:, None] * X)

    start = minimize(loss, np.zeros(X.shape[1]), jac=gradient, hess=hessian, method="trust-exact").x
    # The loss stops changing in its last bits long before its gradient vanishes: the last digits are a root's.
    found = root(gradient, start, jac=hessian, tol=1e-14).x
    # The loss is at least as curved as its penalty, so this bounds the distance to the minimum.
    assert np.linalg.norm(gradient(found)) / penalty.min() < 1e-9
    return found


def by_sklearn(problem: Regression) -> np.ndarray:
    from sklearn.linear_model import LogisticRegression

    X, won = problem.scaled, problem.won
    rows = np.concatenate([X, X, -X, -X])  # both labels must occur, so every pair is told from both sides
    labels = np.repeat([1, 0, 0, 1], len(X))
    weights = 0.5 * np.concatenate([won, 1 - won, won, 1 - won])
    model = LogisticRegression(C=1.0, fit_intercept=False, solver="newton-cg", tol=1e-11, max_iter=1000)
    return model.fit(rows, labels, sample_weight=weights).coef_[0] / np.sqrt(problem.penalty)


def by_choix(problem: Regression) -> np.ndarray:
    import choix

    wins = []  # everything twice, so that a tie is one win for each
    for row, won in zip(problem.X, problem.won, strict=True):
        i, j = int(np.argmax(row)), int(np.argmin(row))
        wins += [(i, j)] * int(2 * won) + [(j, i)] * int(2 - 2 * won)
    n = problem.X.shape[1]
    return choix.opt_pairwise(n, wins, alpha=float(problem.penalty[0]), tol=1e-12, max_iter=1000)


def by_arena_rank(problem: Regression) -> np.ndarray:
    """Its ratings have no prior but its features have one: everything is a feature, and everyone plays himself.

    It minimises the mean of the loss, so its `reg` is the ridge over the number of pairs.
    """
    import jax.numpy as jnp
    from arena_rank.models.contextual_bradley_terry import ContextualBradleyTerry
    from arena_rank.utils.data_utils import ContextualPairDataset

    pairs, features = problem.X.shape
    model = ContextualBradleyTerry(1, features, reg=1.0 / pairs, ftol=0.0, gtol=1e-13, max_iter=2000)
    nobody = jnp.zeros((pairs, 2), jnp.int32)
    won, X = jnp.asarray(problem.won), jnp.asarray(problem.scaled)
    model.fit(ContextualPairDataset(["anyone"], nobody, won, X, jnp.ones(pairs)))
    return np.asarray(model.params["coeffs"]) / np.sqrt(problem.penalty)


ORACLES = pytest.mark.parametrize(("oracle", "tolerance"), [(by_scipy, 1e-8), (by_sklearn, 1e-8), (by_choix, 1e-7)])
WITH_ATTRIBUTES = pytest.mark.parametrize("oracle", [by_scipy, by_sklearn])


# ------------------------------------------------------------------------------------------------------ the tests


def a_group(G, K=4, D=0, seed=0, missing=0.0):
    rng = np.random.default_rng(seed)
    scores = np.column_stack([rng.integers(0, levels, G) for levels in (2, 4, 6, 50)][:K]).astype(float)
    scores[rng.random(scores.shape) < missing] = np.nan
    return scores, np.round(rng.lognormal(6.0, 0.5, (G, D)))


@ORACLES
@pytest.mark.parametrize("G", [2, 8, 14])
@pytest.mark.parametrize("prior", [0.1, 1.0, 5.0])
def test_without_attributes(oracle, tolerance, G, prior):
    scores, _ = a_group(G, seed=G)
    u = utilities(scores, prior=prior)
    for k in range(scores.shape[1]):
        expected = oracle(regression(alone(scores), k, prior))
        np.testing.assert_allclose(u[:, k], expected, rtol=0, atol=tolerance)


@ORACLES
def test_with_margins_and_missing_scores(oracle, tolerance):
    scores, _ = a_group(9, seed=3, missing=0.2)
    u = utilities(scores, margins=1.5)
    for k in range(scores.shape[1]):
        expected = oracle(regression(alone(scores), k, margin=1.5))
        np.testing.assert_allclose(u[:, k], expected, rtol=0, atol=tolerance)


@WITH_ATTRIBUTES
@pytest.mark.parametrize("D", [1, 3])
@pytest.mark.parametrize(("prior", "attribute_prior"), [(1.0, 1.0), (0.3, 2.0)])
def test_with_attributes(oracle, D, prior, attribute_prior):
    scores, attributes = a_group(8, D=D, seed=D, missing=0.1)
    u, gamma = utilities(scores, attributes=attributes, prior=prior, attribute_prior=attribute_prior)
    for k in range(scores.shape[1]):
        expected = oracle(regression([(scores, attributes)], k, prior, attribute_prior))
        np.testing.assert_allclose(np.r_[u[:, k], gamma[k]], expected, rtol=0, atol=1e-8)


@WITH_ATTRIBUTES
@pytest.mark.parametrize("D", [1, 3])
def test_pooled(oracle, D):
    groups = [a_group(G, K=2, D=D, seed=G) for G in (3, 5, 8, 8)]
    scores, attributes = (np.concatenate(parts) for parts in zip(*groups, strict=True))
    labels = np.repeat(range(len(groups)), [len(group) for group, _ in groups])
    u, gamma = utilities(scores, groups=labels, attributes=attributes, pool="batch", prior=0.5)
    for k in range(2):
        expected = oracle(regression(groups, k, prior=0.5))
        np.testing.assert_allclose(np.r_[u[:, k], gamma[0, k]], expected, rtol=0, atol=1e-8)
        assert (gamma[:, k] == gamma[0, k]).all()


@pytest.mark.slow
def test_arena_rank_without_attributes():
    pytest.importorskip("arena_rank")
    scores, _ = a_group(8, seed=8)
    expected = by_arena_rank(regression(alone(scores), k=2, prior=0.5))
    np.testing.assert_allclose(utilities(scores, prior=0.5)[:, 2], expected, rtol=0, atol=1e-8)


@pytest.mark.slow
def test_arena_rank_with_attributes():
    pytest.importorskip("arena_rank")
    scores, attributes = a_group(8, D=3, seed=5)
    u, gamma = utilities(scores, attributes=attributes, attribute_prior=2.0)
    expected = by_arena_rank(regression([(scores, attributes)], k=2, attribute_prior=2.0))
    np.testing.assert_allclose(np.r_[u[:, 2], gamma[2]], expected, rtol=0, atol=1e-8)


@folded("G, prior", [(2, 0.1), (8, 0.1), (8, 1.0), (14, 5.0)])
def test_thurstone(G, prior):
    scores, _ = a_group(G, seed=G)
    u = utilities(scores, prior=prior, model="thurstone")
    for k in range(scores.shape[1]):
        expected = by_scipy(regression(alone(scores), k, prior), probit)
        np.testing.assert_allclose(u[:, k], expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("pool", ["group", "batch"])
def test_thurstone_with_attributes(pool):
    scores, attributes = a_group(8, D=2, seed=4, missing=0.1)
    u, gamma = utilities(scores, attributes=attributes, model="thurstone", pool=pool)
    for k in range(scores.shape[1]):
        expected = by_scipy(regression([(scores, attributes)], k), probit)
        np.testing.assert_allclose(np.r_[u[:, k], gamma[k]], expected, rtol=0, atol=1e-8)


def test_probit_far_out():
    """The link's three parts against scipy, where Φ itself is long 0."""
    from rubrank.fusion.models import Thurstone

    x = np.concatenate([-np.logspace(-3, 5, 200), np.linspace(-6, 9, 301)])
    value, slope, _ = Thurstone().link(x)
    np.testing.assert_allclose(value, norm.logcdf(x), rtol=1e-12, atol=1e-16)
    near = x > -30  # beyond, the oracle subtracts two large numbers
    np.testing.assert_allclose(slope[near], probit(x[near])[1], rtol=1e-11)


def weak_orders(n):
    """Levels of n rollouts in every weak order, up to the rollouts' names: one column each, (n, 2^(n-1))."""
    bits = (np.arange(1 << (n - 1))[:, None] >> np.arange(n - 1)) & 1
    return np.concatenate([np.zeros((1, len(bits))), bits.T.cumsum(0)])


@folded("margin", [None, 0.5])
@folded("n", range(2, 8))
def test_every_weak_order(n, margin):
    """By look-up (no margin) and by sorting (half a level: the same orderings)."""
    scores = weak_orders(n)
    assert scores.shape[1] == 2 ** (n - 1)
    u = utilities(scores, margins=margin)
    for k in range(1, scores.shape[1]):
        np.testing.assert_allclose(u[:, k], by_scipy(regression(alone(scores), k)), rtol=0, atol=1e-8)
    assert not u[:, 0].any()


def test_every_semiorder_of_five():
    """Catalan's 42: which of the others, sorted, each beats by more than the margin."""
    x = np.sort(np.random.default_rng(0).uniform(0, 5, (20_000, 5)), axis=1)
    beaten = (x[:, :, None] - x[:, None, :] > 1.0).sum(2)
    _, first = np.unique(beaten, axis=0, return_index=True)
    assert len(first) == 42
    scores = x[first].T
    u = utilities(scores, margins=1.0)
    for k in range(42):
        np.testing.assert_allclose(u[:, k], by_scipy(regression(alone(scores), k, margin=1.0)), rtol=0, atol=1e-8)


def test_a_binary_gap_does_not_depend_on_how_many_pass():
    """docs/method.md §2: the gap d between pass and fail solves α·d = G·σ(−d)."""
    G, alpha = 8, 0.7
    u = utilities(np.tril(np.ones((G, G)), -1)[:, :-1], prior=alpha)
    gaps = np.ptp(u, axis=0)
    np.testing.assert_allclose(alpha * gaps, G * expit(-gaps), rtol=1e-10)


def test_a_strong_prior_is_borda():
    """docs/method.md §2: large α → utilities proportional to wins − losses."""
    scores, _ = a_group(8, seed=9)
    np.testing.assert_allclose(
        utilities(scores, prior=1e6), utilities(scores, prior=1e6, model="borda"), rtol=1e-5, atol=1e-20
    )
