"""Newton's method for utilities and attribute coefficients, in plain NumPy.

    maximise  Σ_ij wins_ij · log F(u_i − u_j + γ·z_ij)  −  ½ Σ_i ridge_i u_i²  −  ½ β Σ_d γ_d²

Every model with a link function F is fitted here: once for each shape of ordering, and with attributes wherever the
compiled fit of `likelihood.py` does not apply (another link, very large groups, full steps that did not converge).
A step that does not improve the objective is halved. The objective is strictly concave, so this cannot diverge.

Letters: B problems side by side, n rollouts each, D attributes. The contrasts z_ij are antisymmetric in i and j.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
        problem = FitProblem(
            wins_Bnn[part], np.zeros((1, 1, 1, 0)), ridge_Bn[part], 1.0, link, pooled=False
        )
        u_Bn[part] = problem.solve()[0]
    return u_Bn.reshape(ridge.shape)


@dataclass(frozen=True)
class FitProblem:
    """B problems with their data; `pooled` makes one γ of all of them, else each has its own."""

    wins_Bnn: np.ndarray
    z_BnnD: np.ndarray
    ridge_Bn: np.ndarray
    attribute_prior: float
    link: Link
    pooled: bool
    offset_Bnn: np.ndarray | float = 0.0
    """Added to u_i − u_j, antisymmetric: what is taken out of the comparison beforehand."""

    def solve(self, start_Bn: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Utilities (B, n) and coefficients (B, D), or (1, D) when pooled."""
        u = np.zeros_like(self.ridge_Bn) if start_Bn is None else start_Bn.copy()
        gamma = np.zeros((1 if self.pooled else len(u), self.z_BnnD.shape[-1]))
        value = self.objective(u, gamma)
        active = np.ones(len(value))
        moved = np.full(1, np.inf)
        for _ in range(_ITERATIONS):
            step_u, step_gamma = self.newton_step(u, gamma)
            # A problem that has converged is left alone: what it gets must not depend on its neighbours.
            step_u = active[:, None] * step_u
            step_gamma = active[:, None] * step_gamma
            u, gamma, value, moved = self._take_step(u, gamma, step_u, step_gamma, value)
            # A problem with NaN has not converged: the comparison is false for it.
            has_converged = moved <= _TOLERANCE * (1.0 + self._find_largest(u))
            active = active * ~has_converged
            if not active.any():
                return u, gamma
        raise SolverError(
            f"no maximum after {_ITERATIONS} Newton steps (largest last step {moved.max():.3g})"
        )

    def _find_largest(self, u: np.ndarray) -> np.ndarray:
        """The largest magnitude in each problem (B,), or in all of them (1,) when pooled."""
        each = np.abs(u).max(initial=0.0, axis=1)
        return each.max(initial=0.0, keepdims=True) if self.pooled else each

    def argument(self, u: np.ndarray, gamma: np.ndarray) -> np.ndarray:
        """u_i − u_j + γ·z_ij and the offset, (B, n, n)."""
        shift = np.einsum("bijd,bd->bij", *_broadcast_batches(self.z_BnnD, gamma))
        return u[:, :, None] - u[:, None, :] + shift + self.offset_Bnn

    def objective(self, u: np.ndarray, gamma: np.ndarray) -> np.ndarray:
        """The penalised log-likelihood of each problem (B,), or of all together (1,) when pooled."""
        likelihood = (self.wins_Bnn * self.link(self.argument(u, gamma))[0]).sum((1, 2))
        value = likelihood - 0.5 * (self.ridge_Bn * u * u).sum(1)
        return self._sum_if_pooled(value) - 0.5 * self.attribute_prior * (gamma * gamma).sum(1)

    def gradient(self, u: np.ndarray, gamma: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives by u (B, n) and by γ (B or 1, D)."""
        slope = self.wins_Bnn * self.link(self.argument(u, gamma))[1]
        by_u = slope.sum(2) - slope.sum(1) - self.ridge_Bn * u
        return by_u, self._sum_if_pooled(self._slope_in_gamma(slope)) - self.attribute_prior * gamma

    def _slope_in_gamma(self, slope: np.ndarray) -> np.ndarray:
        """(B, D), from the slopes (B, n, n) in the arguments of the link."""
        return np.einsum("bij,bijd->bd", *_broadcast_batches(slope, self.z_BnnD))

    def spread(self, u: np.ndarray, gamma: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """At the maximum, of each problem: its likelihood's slope by γ (B, D), and its information on γ (B, D, D)."""
        uu, ug, gg = self.hessian(u, gamma)
        slopes = self._slope_in_gamma(self.wins_Bnn * self.link(self.argument(u, gamma))[1])
        return slopes, gg - ug.swapaxes(1, 2) @ np.linalg.solve(uu, ug)

    def hessian(
        self, u: np.ndarray, gamma: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Minus the second derivatives: by u u (B, n, n), by u γ (B, n, D), by γ γ (B, D, D) before its prior."""
        weight = -self.wins_Bnn * self.link(self.argument(u, gamma))[2]
        weight = weight + weight.swapaxes(1, 2)
        uu = -weight
        diagonal = np.arange(weight.shape[1])
        uu[:, diagonal, diagonal] += weight.sum(2) + self.ridge_Bn
        weight, z = _broadcast_batches(weight, self.z_BnnD)
        weighted = weight[..., None] * z
        return uu, weighted.sum(2), 0.5 * np.einsum("bijd,bije->bde", weighted, z, optimize=True)

    def newton_step(self, u: np.ndarray, gamma: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The full step: γ from the Schur complement of all u, then u by back-substitution."""
        by_u, by_gamma = self.gradient(u, gamma)
        uu, ug, gg = self.hessian(u, gamma)
        solved = np.linalg.solve(uu, np.concatenate([by_u[:, :, None], ug], axis=2))
        step = solved[:, :, 0]  # H⁻¹ · slope in u
        cross = solved[:, :, 1:]  # H⁻¹ B
        D = gamma.shape[1]
        if D == 0:
            return step, gamma
        schur = self._sum_if_pooled(gg - ug.swapaxes(1, 2) @ cross) + self.attribute_prior * np.eye(
            D
        )
        right = by_gamma - self._sum_if_pooled(np.einsum("bnd,bn->bd", ug, step))
        step_gamma = np.linalg.solve(schur, right[:, :, None])[:, :, 0]
        return step - np.einsum("bnd,bd->bn", *_broadcast_batches(cross, step_gamma)), step_gamma

    def _sum_if_pooled(self, per_problem: np.ndarray) -> np.ndarray:
        """Summed over all problems when pooled, else as they are."""
        return per_problem.sum(0, keepdims=True) if self.pooled else per_problem

    def _take_step(
        self,
        u: np.ndarray,
        gamma: np.ndarray,
        step_u: np.ndarray,
        step_gamma: np.ndarray,
        value: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Take the step, halved in each problem until the objective is no worse; also returns its largest component."""
        size = np.ones(len(value))
        slack = 1e-13 * (1.0 + np.abs(value))  # rounding of the objective itself
        new_u = u
        new_gamma = gamma
        new_value = value
        for _ in range(_HALVINGS):
            new_u = u + size[:, None] * step_u
            new_gamma = gamma + size[:, None] * step_gamma
            new_value = self.objective(new_u, new_gamma)
            worse = ~(new_value >= value - slack)
            if not worse.any():
                break
            size[worse] *= 0.5
        largest = np.maximum(
            self._find_largest(step_u), np.abs(step_gamma).max(initial=0.0, axis=1)
        )
        return new_u, new_gamma, new_value, largest


def _broadcast_batches(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both with the longer first axis, without copying."""
    B = max(len(a), len(b))
    return np.broadcast_to(a, (B, *a.shape[1:])), np.broadcast_to(b, (B, *b.shape[1:]))
