"""Newton's method for utilities and attribute coefficients, in plain NumPy.

    maximise  Σ_ij wins_ij · log F(u_i − u_j + γ·z_ij)  −  ½ Σ_i ridge_i u_i²  −  ½ β Σ_d γ_d²

Every model with a link function F is fitted here: once for each shape of ordering, and with attributes wherever the
compiled fit of `likelihood.py` does not apply (another link, very large groups, full steps that did not converge).
A step that does not improve the objective is halved. The objective is strictly concave, so this cannot diverge.

Letters: B groups side by side, n rollouts each, D attributes. The contrasts z_ij are antisymmetric in i and j. Without
attributes (D = 0) every group is a problem of its own; the coefficients of attributes make all groups one problem.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from rubrank.errors import SolverError, only_our_errors

Link = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]
"""x → log F(x), and its first and second derivative."""

_TOLERANCE = 1e-10  # on the last full step; the error after it is of the order of its square
_ITERATIONS = 100
_HALVINGS = 60
_CELLS = 1 << 21  # numbers in one (B, n, n) array: larger batches are cut into pieces of this size


@only_our_errors
def maximise(wins: np.ndarray, ridge: np.ndarray, link: Link) -> np.ndarray:
    """Return the utilities (..., n) of problems without attributes.

    wins (..., n, n): how often i beat j. ridge (..., n): precision of the prior on each utility.
    Raises SolverError if Newton's method does not converge.
    """
    n = wins.shape[-1]
    wins_Bnn = wins.reshape(-1, n, n)
    ridge_Bn = ridge.reshape(-1, n)
    u_Bn = np.empty_like(ridge_Bn)
    problems_at_once = max(1, _CELLS // max(n * n, 1))
    for first in range(0, len(u_Bn), problems_at_once):
        part = slice(first, first + problems_at_once)
        problem = FitProblem(wins_Bnn[part], ridge_Bn[part], link)
        u_Bn[part] = problem.solve()[0]
    return u_Bn.reshape(ridge.shape)


@dataclass(frozen=True)
class FitProblem:
    """B groups with their data."""

    wins_Bnn: np.ndarray
    ridge_Bn: np.ndarray
    link: Link
    z_BnnD: np.ndarray = field(default_factory=lambda: np.zeros((1, 1, 1, 0)))
    attribute_prior: float = 1.0
    offset_Bnn: np.ndarray | float = 0.0
    """Added to u_i − u_j, antisymmetric: what is taken out of the comparison beforehand."""

    def solve(self, start_Bn: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the utilities (B, n) and the coefficients (D,); raises SolverError if there is no maximum in time."""
        u = np.zeros_like(self.ridge_Bn) if start_Bn is None else start_Bn.copy()
        gamma = np.zeros(self.z_BnnD.shape[-1])
        value = self.objective(u, gamma)
        active = np.ones(len(value))
        moved = np.full(1, np.inf)
        for _ in range(_ITERATIONS):
            step_u, step_gamma = self.newton_step(u, gamma)
            # A problem that has converged is left alone: what it gets must not depend on its neighbours.
            step_u = active[:, None] * step_u
            largest_step = self._reduce(np.abs(step_u).max(axis=1, initial=0.0), np.max)
            moved = np.maximum(largest_step, np.abs(step_gamma).max(initial=0.0))

            # The step is halved in each problem until the objective is no worse.
            size = np.ones(len(value))
            slack = 1e-13 * (1.0 + np.abs(value))  # rounding of the objective itself
            for _ in range(_HALVINGS):
                new_u = u + size[:, None] * step_u
                new_gamma = gamma + size[0] * step_gamma
                new_value = self.objective(new_u, new_gamma)
                worse = ~(new_value >= value - slack)
                if not worse.any():
                    break
                size[worse] *= 0.5
            u = new_u
            gamma = new_gamma
            value = new_value

            largest_u = self._reduce(np.abs(u).max(axis=1, initial=0.0), np.max)
            # A problem with NaN has not converged: the comparison is false for it.
            has_converged = moved <= _TOLERANCE * (1.0 + largest_u)
            active = active * ~has_converged
            if not active.any():
                return u, gamma
        raise SolverError(
            f"no maximum after {_ITERATIONS} Newton steps (largest last step {moved.max():.3g})"
        )

    def _reduce(self, numbers_B: np.ndarray, function: Callable[..., np.ndarray]) -> np.ndarray:
        """Reduce a number of each group to one of each problem: (B,) without attributes, (1,) with them."""
        return function(numbers_B, keepdims=True) if self.z_BnnD.shape[-1] else numbers_B

    def argument(self, u: np.ndarray, gamma: np.ndarray) -> np.ndarray:
        """Return u_i − u_j + γ·z_ij and the offset, (B, n, n)."""
        shift_Bnn = np.einsum("bijd,d->bij", self.z_BnnD, gamma)
        return u[:, :, None] - u[:, None, :] + shift_Bnn + self.offset_Bnn

    def objective(self, u: np.ndarray, gamma: np.ndarray) -> np.ndarray:
        """Return the penalised log-likelihood of each problem."""
        likelihood_B = (self.wins_Bnn * self.link(self.argument(u, gamma))[0]).sum((1, 2))
        value_B = likelihood_B - 0.5 * (self.ridge_Bn * u * u).sum(1)
        return self._reduce(value_B, np.sum) - 0.5 * self.attribute_prior * (gamma @ gamma)

    def gradient(self, u: np.ndarray, gamma: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the slopes of the objective in u (B, n), and those of each group's likelihood in γ (B, D)."""
        slope_Bnn = self.wins_Bnn * self.link(self.argument(u, gamma))[1]
        by_u = slope_Bnn.sum(2) - slope_Bnn.sum(1) - self.ridge_Bn * u
        return by_u, np.einsum("bij,bijd->bd", slope_Bnn, self.z_BnnD)

    def hessian(
        self, u: np.ndarray, gamma: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return minus the second derivatives: in u u (B, n, n), u γ (B, n, D), and γ γ (B, D, D) before its prior."""
        weight = -self.wins_Bnn * self.link(self.argument(u, gamma))[2]
        weight = weight + weight.swapaxes(1, 2)
        uu = -weight
        diagonal = np.arange(weight.shape[1])
        uu[:, diagonal, diagonal] += weight.sum(2) + self.ridge_Bn
        weighted = weight[..., None] * self.z_BnnD
        gg = 0.5 * np.einsum("bijd,bije->bde", weighted, self.z_BnnD, optimize=True)
        return uu, weighted.sum(2), gg

    def spread(self, u: np.ndarray, gamma: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return, at the maximum, each group's slope of the likelihood in γ (B, D) and its information (B, D, D)."""
        uu, ug, gg = self.hessian(u, gamma)
        return self.gradient(u, gamma)[1], gg - ug.swapaxes(1, 2) @ np.linalg.solve(uu, ug)

    def newton_step(self, u: np.ndarray, gamma: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the full step: γ from the Schur complement of all u, then u by back-substitution."""
        by_u, by_gamma = self.gradient(u, gamma)
        uu, ug, gg = self.hessian(u, gamma)
        solved = np.linalg.solve(uu, np.concatenate([by_u[:, :, None], ug], axis=2))
        step = solved[:, :, 0]  # H⁻¹ · slope in u
        cross = solved[:, :, 1:]  # H⁻¹ B
        if not len(gamma):
            return step, gamma
        schur = (gg - ug.swapaxes(1, 2) @ cross).sum(0) + self.attribute_prior * np.eye(len(gamma))
        slope_D = by_gamma.sum(0) - self.attribute_prior * gamma
        right = slope_D - np.einsum("bnd,bn->bd", ug, step).sum(0)
        step_gamma = np.linalg.solve(schur, right)
        return step - np.einsum("bnd,d->bn", cross, step_gamma), step_gamma
