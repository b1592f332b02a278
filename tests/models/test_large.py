from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from rubrank.errors import SolverError
from rubrank.fusion.models import kernels, large
from rubrank.fusion.models.bradley_terry import BradleyTerry
from rubrank.fusion.models.large import Ordering, Panels, solve_large

PRIORS = [0.01, 1.0, 100.0]
Shape = tuple[np.ndarray, np.ndarray, int]


def shape_of(scores: np.ndarray, margin: float = 0.0) -> Shape:
    """Classes as the library finds them: starts, how many each beats, rollouts."""
    x = np.sort(np.asarray(scores, float))
    start, beaten = np.empty(len(x), np.int32), np.empty(len(x), np.int32)
    count = kernels._classes(x, len(x), margin, start, beaten)
    return start[:count].copy(), beaten[:count].copy(), len(x)


def total_order(m: int) -> Shape:
    return np.arange(m), np.arange(m), m


def tied(m: int) -> Shape:
    """m levels, some with one rollout, some with ten."""
    sizes = np.random.default_rng(m).integers(1, 11, m)
    start = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    return start, start, int(sizes.sum())


def lopsided(m: int) -> Shape:
    """m levels, the lowest with a hundred times as many rollouts as all others."""
    start = np.concatenate([[0], 100 * m + np.arange(m - 1)])
    return start, start, 101 * m - 1


def narrow(m: int) -> Shape:
    return shape_of(np.random.default_rng(m).normal(size=m), 0.05)


def wide(m: int) -> Shape:
    return shape_of(np.random.default_rng(m).normal(size=m), 1.0)


def dense(start: np.ndarray, beaten: np.ndarray, n: int, prior: float) -> np.ndarray:
    """The same by the solver with a table of pairs."""
    size = np.diff(np.append(start, n)).astype(float)
    beats = (beaten[:, None] > start).astype(float)
    outcome = (0.5 + 0.5 * (beats - beats.T)) * (1.0 - np.eye(len(start)))
    return BradleyTerry().fit(size[:, None] * size * outcome, prior * size)


def residual(shape: Shape, prior: float, u: np.ndarray, sample: np.ndarray) -> np.ndarray:
    """W − S(u) − α u at some classes, pair by pair, as a share of 1 + W."""
    start, beaten, n = shape
    size = np.diff(np.append(start, n))
    out = []
    for c in sample:
        wins = size[start < beaten[c]].sum()
        losses = size[beaten > start[c]].sum()
        pulls = size * 0.5 * (1.0 + np.tanh(0.5 * (u[c] - u)))
        W = wins + 0.5 * (n - wins - losses)
        out.append((W - pulls.sum() - prior * u[c]) / (1.0 + W))
    return np.array(out)


def check_solution(shape: Shape, prior: float, u: np.ndarray) -> None:
    size = np.diff(np.append(shape[0], shape[2]))
    sample = np.unique(np.linspace(0, len(u) - 1, 50).astype(int))
    assert np.abs(residual(shape, prior, u, sample)).max() < 1e-10
    assert abs(np.dot(size, u)) <= 1e-10 * np.dot(size, np.abs(u))
    assert (np.diff(u) > 0).all()


def test_worked_instance():
    u = solve_large(np.array([0, 1, 3]), np.array([0, 1, 3]), 4, 1.0)
    np.testing.assert_allclose(u, [-0.793, 0, 0.793], atol=5e-4)


def test_two_levels_have_the_gap_of_the_method():
    low, high = solve_large(np.array([0, 3]), np.array([0, 3]), 5, 1.0)
    gap = high - low
    assert gap == pytest.approx(5 / (1 + np.exp(gap)), abs=1e-12)


def test_all_tied_says_nothing():
    assert solve_large(np.array([0]), np.array([0]), 5, 1.0) == [0.0]


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("make", [total_order, tied, lopsided, narrow, wide])
@pytest.mark.parametrize("m", [7, 300, pytest.param(1000, marks=pytest.mark.slow)])
def test_agrees_with_dense_solver(m, make, prior):
    shape = make(m)
    np.testing.assert_allclose(solve_large(*shape, prior), dense(*shape, prior), rtol=0, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("make", [tied, narrow])
def test_agrees_with_dense_solver_from_a_smaller_problem(make):
    shape = make(2000)
    assert len(shape[0]) > large._FEW
    np.testing.assert_allclose(solve_large(*shape, 1.0), dense(*shape, 1.0), rtol=0, atol=1e-8)


@pytest.mark.parametrize("prior", [1e-6, 1e6, 1e12])
@pytest.mark.parametrize("make", [total_order, tied, narrow])
def test_extreme_priors_agree_with_dense_solver(make, prior):
    shape = make(150)
    expected = dense(*shape, prior)
    np.testing.assert_allclose(solve_large(*shape, prior), expected, rtol=0, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("prior", [1e-3, *PRIORS])
@pytest.mark.parametrize("make", [total_order, tied, lopsided, narrow, wide])
def test_is_stationary_centred_and_monotone(make, prior):
    shape = make(5000)
    check_solution(shape, prior, solve_large(*shape, prior))


@pytest.mark.parametrize("prior", PRIORS)
def test_total_order_is_antisymmetric(prior):
    u = solve_large(*total_order(5001), prior)
    np.testing.assert_allclose(u, -u[::-1], rtol=0, atol=1e-9)


def test_reversed_semiorder_has_opposite_utilities():
    x = np.random.default_rng(5).integers(0, 100_000, 3000)
    up, down = solve_large(*shape_of(x, 1000), 1.0), solve_large(*shape_of(-x, 1000), 1.0)
    np.testing.assert_allclose(up, -down[::-1], rtol=0, atol=1e-9)


def test_large_total_order_spreads_as_predicted():
    """R = (π²n / 4α)^⅓, the span that the module's opening states."""
    u = solve_large(*total_order(100_000), 1.0)
    assert u[-1] == pytest.approx((np.pi**2 * 100_000 / 4) ** (1 / 3), rel=0.03)


@pytest.mark.parametrize("make", [total_order, tied, narrow])
def test_very_large_ordering(make):
    shape = make(200_000)
    check_solution(shape, 1.0, solve_large(*shape, 1.0))


def test_memory_is_linear():
    m = 50_000
    solve_large(*total_order(2000), 1.0)  # compiled, kernels made
    tracemalloc.start()
    solve_large(*total_order(m), 1.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * 8 * m  # forty numbers a class; a table of pairs would take 50,000


def test_gradient_is_exact_at_any_point():
    rng = np.random.default_rng(2)
    u, size, wins = np.sort(rng.normal(0, 30, 400)), rng.integers(1, 9, 400).astype(float), rng.uniform(0, 2000, 400)
    expected = wins - (size / (1.0 + np.exp(u - u[:, None]))).sum(1) - 0.3 * u
    np.testing.assert_allclose(Ordering(size, wins, 0.3).gradient(u, Panels.of(u)), expected, rtol=0, atol=1e-11)


def test_newton_step_solves_newtons_system():
    rng = np.random.default_rng(3)
    u, size, gradient = rng.normal(0, 20, 300), rng.integers(1, 9, 300).astype(float), rng.normal(size=300)
    weight = size / (4.0 * np.cosh(0.5 * (u[:, None] - u)) ** 2)
    exact = np.linalg.solve(np.diag(weight.sum(1) + 0.1) - weight, gradient)
    step = Ordering(size, np.zeros(300), 0.1).newton_step(Panels.of(u), gradient)
    assert np.abs(step - exact).max() < 1e-3 * np.abs(exact).max()


def test_no_maximum_is_an_error(monkeypatch):
    monkeypatch.setattr(large, "_ITERATIONS", 2)
    with pytest.raises(SolverError, match="no maximum after 2 Newton steps"):
        solve_large(*total_order(500), 0.01)


def test_too_many_panels_is_an_error(monkeypatch):
    monkeypatch.setattr(large, "_MOST_PANELS", 10)
    with pytest.raises(SolverError, match="use a larger prior"):
        solve_large(*total_order(500), 0.01)
