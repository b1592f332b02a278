"""Bradley–Terry utilities of one very large ordering, without a table of pairs.

Four rollouts, the second and third tied: three classes that start at positions 0, 1 and 3 of the ascending order, whose
members beat the 0, 1 and 3 lowest positions.

    solve_large(start=[0, 1, 3], beaten=[0, 1, 3], n=4, prior=1.0)   ->   [-0.793, 0, 0.793]

Whom a rollout beats is the same for its whole class, so its share of the gradient needs two numbers only:

    W_c − S(u_c) − α u_c = 0        W_c = wins + ½ ties        S(x) = Σ_j n_j σ(x − u_j)

W_c comes from the positions. S is a smooth function of one number x, whatever the number of classes: the line is cut
into panels of width 2, on which σ is a polynomial of degree 19 to rounding error, so each class enters 20 moments of
its panel, panels talk to panels nearby (σ is 0 or 1 for those far away), and each class reads off a polynomial.

Newton's system is solved with a rougher copy of the same: σ' as polynomials of degree 5, up to where it is lost in the
prior, which leaves a banded system of 6 unknowns for each panel. Its row sums and its kernel are roughened alike, so it
stays the Laplacian of a graph with nearly the same weights, and a step errs by a small part of its length at any prior.
A problem with an eighth as many classes gives the start.

What it costs: time and memory proportional to the classes and to the panels that hold any. A total order of n rollouts
spreads over −R .. R with R = (π²n / 4α)^⅓, density α (3/π²) (R² − x²) where that is large: a million rollouts under the
prior 1 fill 134 panels, under the prior 1e-6 a hundred times as many.

Letters: m classes, A panels that hold any, P terms of a polynomial.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from rubrank._jit import jit
from rubrank.errors import SolverError

_WIDTH = 2.0  # of a panel; the poles of σ at ±iπ make the terms of its series shrink like 6.4^-k
_TERMS, _REACH = 20, 19  # of the gradient, the reach in panels: 6.4^-20 and e^-38 are below rounding error
_ROUGH_TERMS, _LOST = 6, 6.0  # of Newton's matrix, which leaves out what is less than e^-6 of the prior
_TOLERANCE = 1e-10  # on the last step; what it leaves is smaller by the error of Newton's matrix
_START_TOLERANCE = 1e-4  # on the last step of a problem that gives a start
_FLOOR = 1e-7  # steps below this that do not shrink any more are rounding errors, which a tiny prior magnifies
_ITERATIONS = 100
_CUTS = 60
_FEW = 1000  # classes that need no smaller problem for a start
_MERGED = 8  # neighbours that become one class of the smaller problem
_MOST_PANELS = 1 << 16  # about 1 GB in the banded system; a million rollouts get there under priors below 1e-8


def solve_large(start: np.ndarray, beaten: np.ndarray, n: int, prior: float) -> np.ndarray:
    """Utilities (m,) of classes in ascending order; class c begins at position start_c and beats the lowest beaten_c.

    Right to 1e-10 of the largest utility, or to what rounding errors leave of that when the prior is tiny (below about
    1e-9 of the rollouts) and divides them. Raises SolverError where no maximum was reached.
    """
    start, beaten = np.asarray(start, np.int64), np.asarray(beaten, np.int64)
    bounds = np.append(start, n)
    unbeaten = bounds[np.searchsorted(beaten, start, side="right")]  # positions that do not beat the class
    ordering = Ordering(np.diff(bounds).astype(float), 0.5 * (beaten + unbeaten), prior)
    return ordering.solve(_TOLERANCE)


@dataclass(frozen=True)
class Panels:
    """Where each class lies: panel `number[at]`, which covers 2·number .. 2·number + 2, at `t` in −1 .. 1."""

    number_A: np.ndarray
    at_m: np.ndarray
    t_m: np.ndarray

    @classmethod
    def of(cls, u_m: np.ndarray) -> Panels:
        """The panels of some utilities; those without any do not exist."""
        scaled = u_m / _WIDTH
        floor = np.floor(scaled)
        low = int(floor.min())
        numbers, at = _ranks(floor.astype(np.int64) - low)
        return cls(numbers + low, at, 2.0 * (scaled - floor) - 1.0)

    def moments(self, weight_m: np.ndarray, terms: int) -> np.ndarray:
        """Σ_c weight_c T_k(t_c) for each panel, (A, terms)."""
        sums = np.zeros((len(self.number_A), terms))
        _add_moments(self.t_m, self.at_m, weight_m, sums)
        return sums

    def read(self, series_AP: np.ndarray) -> np.ndarray:
        """Each panel's Chebyshev series at its classes, (m,)."""
        values = np.empty_like(self.t_m)
        _evaluate(self.t_m, self.at_m, series_AP, values)
        return values

    def pairs(self, shift: int) -> tuple[np.ndarray, np.ndarray]:
        """Indices of all pairs of panels whose numbers differ by `shift`."""
        wanted = self.number_A - shift
        other = np.minimum(np.searchsorted(self.number_A, wanted), len(wanted) - 1)
        here = np.flatnonzero(self.number_A[other] == wanted)
        return here, other[here]

    def convolve(self, moments_AP: np.ndarray, kernel: np.ndarray) -> np.ndarray:
        """The series in x of Σ_j weight_j · kernel(x − u_j), over all panels within reach."""
        series = np.zeros_like(moments_AP)
        reach = len(kernel) // 2
        for shift in range(-reach, reach + 1):
            here, other = self.pairs(shift)
            series[here] += moments_AP[other] @ kernel[shift + reach].T
        return series


@dataclass(frozen=True)
class Ordering:
    """All that the utilities depend on: sizes of the classes, W of a member (its half tie with itself counted), α."""

    size_m: np.ndarray
    wins_m: np.ndarray
    prior: float

    def solve(self, tolerance: float) -> np.ndarray:
        """The utilities, by Newton's method from those of a smaller problem."""
        u = self.centred(self._start())
        panels = Panels.of(u)
        gradient = self.gradient(u, panels)
        moved = before = np.inf
        for _ in range(_ITERATIONS):
            step = self.centred(self.newton_step(panels, gradient))
            u, panels, gradient = self._advance(u, step, gradient)
            moved = np.abs(step).max() / (1.0 + np.abs(u).max())
            if moved <= tolerance or 0.5 * before <= moved <= _FLOOR:
                return u
            before = moved
        raise SolverError(
            f"no maximum after {_ITERATIONS} Newton steps (largest last step {moved:.3g} of the utilities)"
        )

    def centred(self, u: np.ndarray) -> np.ndarray:
        """Σ n u = 0 holds at the maximum: set right at once what rounding errors divided by α would blow up."""
        return u - np.dot(self.size_m, u) / self.size_m.sum()

    def _start(self) -> np.ndarray:
        """0, or the utilities of merged classes read at each class's wins: utilities are a smooth function of those."""
        if len(self.size_m) <= _FEW:
            return np.zeros_like(self.size_m)
        merged = self._merged()
        return np.interp(self.wins_m, merged.wins_m, merged.solve(_START_TOLERANCE))

    def _merged(self) -> Ordering:
        firsts = np.arange(0, len(self.size_m), _MERGED)
        size = np.add.reduceat(self.size_m, firsts)
        return Ordering(size, np.add.reduceat(self.size_m * self.wins_m, firsts) / size, self.prior)

    def gradient(self, u: np.ndarray, panels: Panels) -> np.ndarray:
        """W − S(u) − α u, of one rollout of each class."""
        moments = panels.moments(self.size_m, _TERMS)
        held = moments[:, 0]
        # Full wins over the panels below and half wins in the own one are whole numbers: taken off first, what remains
        # is as small as the rollouts nearby are few, and so is its rounding error.
        expected = np.cumsum(held) - 0.5 * held
        nearby = panels.read(panels.convolve(moments, _kernel(_rest_of_sigmoid, _TERMS, _REACH)))
        return (self.wins_m - expected[panels.at_m]) - nearby - self.prior * u

    def newton_step(self, panels: Panels, gradient: np.ndarray) -> np.ndarray:
        """The step δ with  (Σ_j n_j σ'(u_c − u_j) + α) δ_c − Σ_j n_j σ'(u_c − u_j) δ_j = gradient_c.

        The second sum is a series y in each panel. Put δ = (gradient + y) / (row sum + α) into it, and only y is left:
        y = H (b + M y), with H the kernel, and b and M moments over the classes.
        """
        held = panels.moments(self.size_m, _ROUGH_TERMS)
        kernel = _kernel(_slope, _ROUGH_TERMS, self._rough_reach(held[:, 0].max()))
        curvature = panels.read(panels.convolve(held, kernel)) + self.prior
        k = np.arange(_ROUGH_TERMS)
        moments = panels.moments(self.size_m / curvature, 2 * _ROUGH_TERMS - 1)
        gram = 0.5 * (moments[:, k[:, None] + k] + moments[:, np.abs(k[:, None] - k)])  # T_k T_l = ½ (T_k+l + T_|k−l|)
        right = panels.convolve(panels.moments(self.size_m * gradient / curvature, _ROUGH_TERMS), kernel)
        return (gradient + panels.read(_solve_banded(panels, kernel, gram, right))) / curvature

    def _rough_reach(self, heaviest: float) -> int:
        """Panels after which not even the heaviest one pulls as much as the prior."""
        units = np.log(heaviest / self.prior) + _LOST
        return int(np.clip(np.ceil(units / _WIDTH), 1, _REACH))

    def _advance(self, u: np.ndarray, step: np.ndarray, gradient: np.ndarray) -> tuple[np.ndarray, Panels, np.ndarray]:
        """Go along a step, a shorter way if the objective falls at its end half as steeply as it rises at its start."""
        rise = float(np.dot(self.size_m * gradient, step))
        noise = _FLOOR * (1.0 + np.abs(u).max())  # what the objective says of steps this short is rounding error
        for _ in range(_CUTS):
            ahead = u + step
            panels = Panels.of(ahead)
            new = self.gradient(ahead, panels)
            if np.dot(self.size_m * new, step) >= -0.5 * rise or np.abs(step).max() <= noise:
                return ahead, panels, new
            step, rise = 0.5 * step, 0.5 * rise
        raise SolverError(f"no way up along a Newton step after {_CUTS} halvings")


# ------------------------------------------------------------------------------------------------------ kernels


def _slope(x: np.ndarray, shift: int) -> np.ndarray:
    """σ'(x)."""
    small = np.exp(-np.abs(x))
    return small / (1.0 + small) ** 2


def _rest_of_sigmoid(x: np.ndarray, shift: int) -> np.ndarray:
    """σ(x) less the 0, ½ or 1 that a panel above, the own or one below has been counted with."""
    if shift == 0:
        return 0.5 * np.tanh(0.5 * x)
    small = np.exp(-np.abs(x))
    return -np.sign(shift) * small / (1.0 + small)


@cache
def _kernel(function: Callable[[np.ndarray, int], np.ndarray], terms: int, reach: int) -> np.ndarray:
    """Chebyshev coefficients of function(x − y), x and y in panels −reach .. reach apart, (2·reach + 1, P, P)."""
    angle = np.pi * (np.arange(terms) + 0.5) / terms
    t = np.cos(angle)
    to_series = np.cos(np.outer(np.arange(terms), angle)) * 2.0 / terms
    to_series[0] *= 0.5
    apart = 0.5 * _WIDTH * (t[:, None] - t)
    shifts = range(-reach, reach + 1)
    values = np.stack([function(apart + _WIDTH * shift, shift) for shift in shifts])
    return to_series @ values @ to_series.T


def _ranks(number_m: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different numbers in ascending order, and for each number which of them it is."""
    if number_m.max() > 4 * len(number_m):
        return np.unique(number_m, return_inverse=True)
    held = np.bincount(number_m) > 0  # far faster than sorting where the numbers are not much wider than many
    return np.flatnonzero(held), (np.cumsum(held) - 1)[number_m]


@jit
def _add_moments(t_m: Any, at_m: Any, weight_m: Any, sums_AP: Any) -> None:
    for c in range(t_m.shape[0]):
        row = sums_AP[at_m[c]]
        before, now, twice = weight_m[c], weight_m[c] * t_m[c], 2.0 * t_m[c]
        row[0] += before
        for k in range(1, row.shape[0]):
            row[k] += now
            before, now = now, twice * now - before


@jit
def _evaluate(t_m: Any, at_m: Any, series_AP: Any, values_m: Any) -> None:
    for c in range(t_m.shape[0]):
        row = series_AP[at_m[c]]
        twice = 2.0 * t_m[c]
        later, last = 0.0, 0.0
        for k in range(row.shape[0] - 1, 0, -1):
            later, last = row[k] + twice * later - last, later
        values_m[c] = row[0] + t_m[c] * later - last


# ------------------------------------------------------------------------------------------------ banded system


def _solve_banded(panels: Panels, kernel: np.ndarray, gram_APP: np.ndarray, right_AP: np.ndarray) -> np.ndarray:
    """y of  y − H M y = right, by elimination from block to block; a block is as many panels as the kernel reaches."""
    A, P = right_AP.shape
    below, own, above = _blocks(panels, kernel, gram_APP)
    side = own.shape[1]
    y = np.zeros((len(own), side))
    y.reshape(-1)[: A * P] = right_AP.ravel()
    for b in range(len(own)):
        if b > 0:
            own[b] -= below[b] @ above[b - 1]
            y[b] -= below[b] @ y[b - 1]
        solved = np.linalg.solve(own[b], np.column_stack([above[b], y[b]]))
        above[b], y[b] = solved[:, :side], solved[:, side]
    for b in range(len(own) - 2, -1, -1):
        y[b] -= above[b] @ y[b + 1]
    return y.reshape(-1)[: A * P].reshape(A, P)


def _blocks(panels: Panels, kernel: np.ndarray, gram_APP: np.ndarray) -> np.ndarray:
    """I − H M as blocks below, on and above the diagonal, (3, blocks, side, side)."""
    reach = len(kernel) // 2
    A, P = gram_APP.shape[:2]
    if A > _MOST_PANELS:
        raise SolverError(f"utilities too far apart ({A} panels, at most {_MOST_PANELS}): use a larger prior")
    count = -(-A // reach)
    band = np.zeros((3, count, reach, P, reach, P))
    band[1] = np.eye(reach * P).reshape(reach, P, reach, P)
    for shift in range(-reach, reach + 1):
        here, other = panels.pairs(shift)
        row, column = here // reach, other // reach
        band[column - row + 1, row, here % reach, :, other % reach] -= kernel[shift + reach] @ gram_APP[other]
    return band.reshape(3, count, reach * P, reach * P)
