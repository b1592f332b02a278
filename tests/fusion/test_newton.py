"""Derivatives against finite differences, and the way to the maximum from a bad start."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rubrank.errors import RubrankError, SolverError
from rubrank.fusion.models import BradleyTerry, Thurstone, newton
from rubrank.fusion.models.newton import FitProblem, maximise

LINKS = pytest.mark.parametrize("link", [BradleyTerry().link, Thurstone().link], ids=["logistic", "probit"])
# Without attributes every group is a problem of its own; with them all groups are one.
ATTRIBUTES = pytest.mark.parametrize("D", [0, 2])


def a_problem(link, D=0, B=3, n=5, prior=0.7):
    rng = np.random.default_rng(B + n + D)
    z = rng.normal(size=(B, n, n, D))
    ridge = prior * rng.uniform(0.5, 2.0, (B, n))
    wins = rng.random((B, n, n)) * (1 - np.eye(n))
    return FitProblem(wins, ridge, link, z - z.swapaxes(1, 2), attribute_prior=1.3)


def a_point(problem):
    rng = np.random.default_rng(0)
    B, n = problem.ridge_Bn.shape
    return rng.normal(size=(B, n)), rng.normal(size=problem.z_BnnD.shape[-1])


def gradient(problem, u, gamma):
    """Of the objective: by u (B, n), and by γ (D,)."""
    by_u, slopes = problem.gradient(u, gamma)
    return by_u, slopes.sum(0) - problem.attribute_prior * gamma


def derivative(function, x, step=1e-5):
    """∂function/∂x by central differences, x's axes last."""
    if not x.size:
        return np.zeros((*function(x).shape, 0))
    columns = []
    for at in np.ndindex(x.shape):
        move = np.zeros_like(x)
        move[at] = step
        columns.append((function(x + move) - function(x - move)) / (2 * step))
    return np.stack(columns, axis=-1).reshape(*columns[0].shape, *x.shape)


@pytest.mark.parametrize("link", [BradleyTerry().link, Thurstone().link], ids=["logistic", "probit"])
def test_link_derivatives(link):
    x = np.concatenate([np.linspace(-12, 6, 181), [-37.5, -200.0]])
    value, slope, curvature = link(x)
    step = 1e-5
    np.testing.assert_allclose(slope, (link(x + step)[0] - link(x - step)[0]) / (2 * step), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(curvature, (link(x + step)[1] - link(x - step)[1]) / (2 * step), rtol=1e-6, atol=1e-9)
    assert np.all(value < 0)
    assert np.all(slope > 0)
    assert np.all(curvature <= 0)


@LINKS
@ATTRIBUTES
def test_gradient(link, D):
    problem = a_problem(link, D)
    u, gamma = a_point(problem)
    by_u, by_gamma = gradient(problem, u, gamma)
    np.testing.assert_allclose(by_u, derivative(lambda x: problem.objective(x, gamma).sum(), u), atol=1e-7)
    np.testing.assert_allclose(by_gamma, derivative(lambda x: problem.objective(u, x).sum(), gamma), atol=1e-7)


@LINKS
@ATTRIBUTES
def test_hessian(link, D):
    problem = a_problem(link, D)
    u, gamma = a_point(problem)
    uu, ug, gg = problem.hessian(u, gamma)
    by_uu = -derivative(lambda x: gradient(problem, x, gamma)[0], u)
    by_ug = -derivative(lambda x: gradient(problem, u, x)[0], gamma)
    by_gg = -derivative(lambda x: gradient(problem, u, x)[1], gamma)
    for b in range(len(u)):
        np.testing.assert_allclose(uu[b], by_uu[b, :, b], atol=1e-7)
    np.testing.assert_allclose(ug, by_ug, atol=1e-7)
    np.testing.assert_allclose(gg.sum(0) + problem.attribute_prior * np.eye(D), by_gg, atol=1e-7)


@LINKS
@ATTRIBUTES
def test_newton_step_solves_the_full_system(link, D):
    """The Schur complement against one dense solve with all unknowns side by side."""
    problem = a_problem(link, D)
    u, gamma = a_point(problem)
    step_u, step_gamma = problem.newton_step(u, gamma)
    x = np.concatenate([u.ravel(), gamma.ravel()])

    def flat_gradient(x):
        by_u, by_gamma = gradient(problem, x[: u.size].reshape(u.shape), x[u.size :])
        return np.concatenate([by_u.ravel(), by_gamma])

    expected = np.linalg.solve(-derivative(flat_gradient, x), flat_gradient(x))
    np.testing.assert_allclose(np.concatenate([step_u.ravel(), step_gamma.ravel()]), expected, atol=1e-6)


@LINKS
@ATTRIBUTES
def test_the_gradient_vanishes_at_the_solution(link, D):
    problem = a_problem(link, D)
    by_u, by_gamma = gradient(problem, *problem.solve())
    np.testing.assert_allclose(by_u, 0.0, atol=1e-12)
    np.testing.assert_allclose(by_gamma, 0.0, atol=1e-12)


@LINKS
@ATTRIBUTES
def test_steps_are_halved_from_a_bad_start(link, D):
    """Far up where the likelihood is flat only the prior is felt, and its full step lands where everybody is equal."""
    problem = a_problem(link, D, prior=1e-4)
    order = np.broadcast_to(np.arange(5.0), problem.ridge_Bn.shape)
    problem = replace(problem, wins_Bnn=1.0 * (order[:, :, None] > order[:, None, :]))
    far, gamma = 20.0 * order, np.zeros(D)
    step_u, step_gamma = problem.newton_step(far, gamma)
    full = problem.objective(far + step_u, gamma + step_gamma)
    assert (full < problem.objective(far, gamma)).all(), "the start is not bad enough to need halving"
    for found, expected in zip(problem.solve(far), problem.solve(), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-9)


def test_no_maximum_in_time_is_an_error(monkeypatch):
    monkeypatch.setattr(newton, "_ITERATIONS", 2)
    with pytest.raises(SolverError, match="no maximum after 2 Newton steps") as raised:
        a_problem(BradleyTerry().link).solve()
    assert isinstance(raised.value, RubrankError)
    assert isinstance(raised.value, ArithmeticError)


def test_a_link_that_is_no_likelihood_is_an_error_not_a_guess():
    """A slope without end: the objective is unbounded, and no step is ever small."""

    def runaway(x):
        return np.exp(x), np.exp(x), -np.ones_like(x)

    wins = np.array([[[0.0, 1.0], [0.0, 0.0]]])
    with np.errstate(all="ignore"), pytest.raises(ArithmeticError):
        maximise(wins, np.full((1, 2), 1e-3), runaway)


def test_large_batches_are_cut_into_pieces(monkeypatch):
    problem = a_problem(BradleyTerry().link, B=7)
    whole = maximise(problem.wins_Bnn, problem.ridge_Bn, problem.link)
    monkeypatch.setattr(newton, "_CELLS", 60)
    np.testing.assert_allclose(maximise(problem.wins_Bnn, problem.ridge_Bn, problem.link), whole, atol=1e-12)


@LINKS
def test_a_class_stands_for_its_members(link):
    """Three rollouts that tie among themselves = one row with three times the wins and the ridge."""
    wins = np.array([[0, 0.5, 0.5, 1], [0.5, 0, 0.5, 1], [0.5, 0.5, 0, 1], [0, 0, 0, 0]])
    merged = np.array([[0, 3.0], [0, 0]])
    apart = maximise(wins, np.full(4, 0.8), link)
    together = maximise(merged, np.array([2.4, 0.8]), link)
    np.testing.assert_allclose(apart, together[[0, 0, 0, 1]], atol=1e-12)
