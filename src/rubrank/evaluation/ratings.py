"""Bradley–Terry ratings of models from games, with or without attributes of the answers (style control).

    >>> fit_ratings([("a", "b", 1.0), ("b", "c", 1.0), ("a", "c", 1.0)], prior=1.0).strength["a"] > 0
    True

    maximise  Σ w [ o log σ(e) + (1 − o) log σ(−e) ] − (α/2)|u|² − (β/2)|γ|²,    e = u_i − u_j + γᵀz

One game is (i, j, outcome for i), and z are the attributes of i's answer against j's. Fusion fits the same model to the
scores of a criterion; here models take the place of rollouts, and each has one rating u over all prompts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rubrank.errors import InvalidInput, SolverError

_ITERATIONS = 100
_TOLERANCE = 1e-10
_SMALLEST_STEP = 1e-8  # share of a Newton step: below, rounding decides whether the objective rises


@dataclass(frozen=True)
class ModelRatings:
    """Strength of each model (a log-odds scale around 0), and the coefficients of the attributes."""

    strength: Mapping[str, float]
    gamma: tuple[float, ...] = ()

    def win_rate(self, i: str, j: str) -> float:
        """Return the chance that i beats j, attributes being equal."""
        return 1.0 / (1.0 + math.exp(self.strength[j] - self.strength[i]))


def fit_ratings(
    games: Sequence[tuple[str, str, float]],
    *,
    weights: Sequence[float] | None = None,
    contrasts: np.ndarray | None = None,
    prior: float = 0.1,
    attribute_prior: float = 1e-3,
) -> ModelRatings:
    """Fit the ratings that maximise the objective above, by Newton's method.

    games: (i, j, outcome for i), where 1 is a win of i, 0.5 a tie. weights: how many games each of them counts as.
    contrasts: (games, D), attributes of i's answer against j's. prior, attribute_prior: α and β.
    Raises SolverError if the fit does not converge.
    """
    if not games:
        raise InvalidInput(owner="ratings", parameter="games", allowed="at least one", got="none")
    names = sorted({name for i, j, _ in games for name in (i, j)})
    column_of = {name: k for k, name in enumerate(names)}
    n = len(names)
    D = 0 if contrasts is None else contrasts.shape[1]
    # One row per game, so that X @ (u, γ) is e: 1 for the first model, -1 for the second, then the attributes.
    X = np.zeros((len(games), n + D))
    rows = np.arange(len(games))
    X[rows, [column_of[i] for i, _, _ in games]] += 1.0
    X[rows, [column_of[j] for _, j, _ in games]] -= 1.0
    if contrasts is not None:
        X[:, n:] = contrasts
    outcome = np.array([result for _, _, result in games], dtype=float)
    weight = np.ones(len(games)) if weights is None else np.asarray(weights, dtype=float)
    ridge = np.concatenate([np.full(n, prior), np.full(D, attribute_prior)])
    theta = _fit_newton(X, outcome, weight, ridge)
    return ModelRatings(
        dict(zip(names, theta[:n].tolist(), strict=True)), tuple(theta[n:].tolist())
    )


def _compute_objective(
    eta: np.ndarray, outcome: np.ndarray, weight: np.ndarray, theta: np.ndarray, ridge: np.ndarray
) -> float:
    """Return the penalised log-likelihood; eta = X theta."""
    return float(weight @ (outcome * eta - np.logaddexp(0.0, eta)) - 0.5 * ridge @ theta**2)


def _fit_newton(
    X: np.ndarray, outcome: np.ndarray, weight: np.ndarray, ridge: np.ndarray
) -> np.ndarray:
    """Return the parameters at the maximum: Newton steps, each halved until the objective does not fall."""
    theta = np.zeros(X.shape[1])
    value = _compute_objective(X @ theta, outcome, weight, theta, ridge)
    for _ in range(_ITERATIONS):
        chance = 1.0 / (1.0 + np.exp(-(X @ theta)))
        gradient = X.T @ (weight * (outcome - chance)) - ridge * theta
        hessian = (X * (weight * chance * (1.0 - chance))[:, None]).T @ X + np.diag(ridge)
        step = np.linalg.solve(hessian, gradient)
        size = 1.0
        while size > _SMALLEST_STEP:
            candidate = theta + size * step
            candidate_value = _compute_objective(X @ candidate, outcome, weight, candidate, ridge)
            if candidate_value >= value:
                break
            size /= 2.0
        theta = candidate
        value = candidate_value
        if np.abs(size * step).max() < _TOLERANCE:
            return theta
    raise SolverError("ratings did not converge")
