"""The pooled fit of a batch that no process holds as a whole: passes over its parts, and the same bits.

    parts = [Part.of(observed, wanted_NK, u_MK) for …]             whole groups each, cut and ordered in any way
    found = fit_parts(LocalParts(parts), model)                     what `controlled.estimate` finds for all of them

Every pass of `pooled.py` needs of a part only sums, which are exact (`exact.py`): where the parts are, how many there
are and who adds the sums up changes no bit. A part keeps its groups' utilities from pass to pass; γ goes out to the
parts, sums come back. `Passes` says how: in this process, or as tasks of a cluster (`stream/pooling.py`).
What the compiled passes cannot fit (other links, groups of more than 128 rollouts, the rare criterion that did not
converge) is fitted from all parts brought together here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from rubrank.fusion.estimate import InfluenceEstimate
from rubrank.fusion.model import UtilityModel
from rubrank.fusion.models import exact, pooled
from rubrank.fusion.models.adjusted import Observed, compiled_link, link_model, scales_of
from rubrank.fusion.models.algebra import rows
from rubrank.fusion.models.blocks import largest_size
from rubrank.fusion.models.controlled import estimate
from rubrank.fusion.models.fit import ITERATIONS, TOLERANCE


@dataclass(eq=False)
class Part:
    """Some groups of a batch, and how far their fit is."""

    observed: Observed
    wanted_NK: np.ndarray
    u_MK: np.ndarray
    """Utilities without attributes."""
    fitted_MK: np.ndarray = field(default_factory=lambda: np.empty(0))
    solved: np.ndarray = field(default_factory=lambda: np.empty(0))

    def copied(self) -> Part:
        """The same with arrays that can be written: read-only ones are another type to compile for."""
        seen = self.observed
        arrays: dict[str, Any] = {
            name: np.array(getattr(seen, name)) for name in ("scores_MK", "starts", "margins", "attributes_DM")
        }
        observed = replace(seen, **arrays)
        if "scale_D" in seen.__dict__:
            observed.scaled(np.array(seen.scale_D))
        rest = (self.wanted_NK, self.u_MK, self.fitted_MK, self.solved)
        return Part(observed, *(np.array(array) for array in rest))

    def begin(self, scale_D: np.ndarray) -> np.ndarray:
        """Settle the scale of contrasts; returns which criteria say anything here."""
        self.observed.scaled(scale_D)
        self.fitted_MK = self.u_MK.copy()
        return np.asarray(self.wanted_NK.any(0))

    def step(
        self, link: int, gamma_KD: np.ndarray, step_KD: np.ndarray, active_K: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Take the step of the utilities that goes with the last one of γ; how far they moved, and the next sums."""
        jobs, data, (K, D) = self.observed.jobs(self.wanted_NK), self.observed.data, gamma_KD.shape
        moved_K, starts = np.zeros(K), self.observed.starts
        if len(self.solved):
            held = rows(len(self.solved))  # aligned, and of the type that was compiled for
            held[:] = self.solved
            pooled.advance_utilities(starts, jobs, held, step_KD, active_K, self.fitted_MK, moved_K)
        self.solved = rows(pooled.rows_of_solved(starts, jobs, D))
        sums = np.empty((K, D + D * (D + 1) // 2, exact.DIGITS), np.int64)
        work, prior = pooled.working(largest_size(starts), D), self.observed.prior
        pooled.step_sums(link, data, jobs, prior, self.fitted_MK, gamma_KD, work, self.solved, sums)
        return moved_K, sums

    def spread(self, link: int, gamma_KD: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What the error of γ needs: sums, and numbers of groups."""
        jobs, data, (K, D) = self.observed.jobs(self.wanted_NK), self.observed.data, gamma_KD.shape
        sums, count_K = np.empty((K, D + D * (D + 1), exact.DIGITS), np.int64), np.zeros(K, np.int64)
        work, prior = pooled.working(largest_size(self.observed.starts), D), self.observed.prior
        pooled.spread_sums(link, data, jobs, prior, self.fitted_MK, gamma_KD, work, sums, count_K)
        return sums, count_K


class Passes(Protocol):
    """The parts of a batch, wherever they are."""

    def each(self, pass_: str, *given: Any) -> list[Any]:
        """Call this method of every part; what it changes stays with the part."""
        ...

    def gathered(self) -> list[Part]:
        """All of them, here."""
        ...


@dataclass(frozen=True, eq=False)
class LocalParts:
    """Parts in this process."""

    parts: Sequence[Part]

    def each(self, pass_: str, *given: Any) -> list[Any]:
        """One after another."""
        return [getattr(part, pass_)(*given) for part in self.parts]

    def gathered(self) -> list[Part]:
        """They are here."""
        return list(self.parts)


@dataclass(frozen=True)
class PartSummary:
    """What is known about a part before the first pass."""

    squares: np.ndarray
    """Sums of the squares of its contrasts."""
    pairs: int
    groups_K: np.ndarray
    """For each criterion: the groups about which it says anything."""
    link: int | None
    """Of the compiled passes; None: they cannot fit this part."""

    @classmethod
    def of(cls, part: Part, model: UtilityModel) -> PartSummary:
        """Of one part."""
        squares, pairs = part.observed.square_sums()
        return cls(squares, pairs, part.wanted_NK.sum(0), compiled_link(link_model(model), part.observed))


def fit_parts(
    passes: Passes, summaries: Sequence[PartSummary], model: UtilityModel, attribute_prior: float
) -> tuple[np.ndarray, InfluenceEstimate]:
    """The scale of contrasts, and the estimate over all parts."""
    scale_D = scales_of(_added([one.squares for one in summaries]), sum(one.pairs for one in summaries))
    links = {one.link for one in summaries}
    active_K = np.logical_or.reduce(passes.each("begin", scale_D))
    link = links.pop() if len(links) == 1 else None
    found = None if link is None else _compiled(passes, link, active_K, len(scale_D), attribute_prior)
    if found is None:
        whole = together(passes.gathered())
        return scale_D, estimate(model, whole.observed.scaled(scale_D), whole.wanted_NK, whole.u_MK)
    n_K = np.add.reduce([one.groups_K for one in summaries])
    return scale_D, InfluenceEstimate.of(*found, n_K, attribute_prior)


def _compiled(
    passes: Passes, link: int, active_K: np.ndarray, D: int, attribute_prior: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """γ̂, I and V; None where a criterion did not converge. The steps are those of `pooled.fit_pooled`."""
    K = len(active_K)
    gamma_KD, step_KD, moved_K = np.zeros((K, D)), np.zeros((K, D)), np.zeros(K)
    active_K = np.array(active_K, np.bool_)
    sums = _added([sums for _, sums in passes.each("step", link, gamma_KD, step_KD, active_K)])
    for _ in range(ITERATIONS):
        if not active_K.any():
            break
        pooled.advance_coefficients(attribute_prior, sums, active_K, step_KD, gamma_KD, moved_K)
        found = passes.each("step", link, gamma_KD.copy(), step_KD.copy(), active_K.copy())
        moved_K = np.maximum.reduce([moved_K, *(moved for moved, _ in found)])  # NaN wins
        sums = _added([sums for _, sums in found])
        active_K &= ~(moved_K < TOLERANCE)
    if active_K.any():
        return None
    return (gamma_KD, *_spread(passes, link, gamma_KD))


def _spread(passes: Passes, link: int, gamma_KD: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """I and V in full."""
    (K, D), found = gamma_KD.shape, passes.each("spread", link, gamma_KD)
    information, variance = np.zeros((2, K, D * (D + 1) // 2))
    count_K = np.add.reduce([count for _, count in found])
    pooled.spread(_added([sums for sums, _ in found]), count_K, D, information, variance)
    row, column = np.tril_indices(D)
    full = np.zeros((2, K, D, D))
    for square, packed in zip(full, (information, variance), strict=True):
        square[:, row, column] = packed
        square[:, column, row] = packed
    return full[0], full[1]


def _added(sums: Sequence[np.ndarray]) -> np.ndarray:
    return np.ascontiguousarray(np.add.reduce(list(sums)))


def together(parts: Sequence[Part]) -> Part:
    """One part of several, in their order."""
    first = parts[0].observed
    starts, at, groups = [np.zeros(1, first.starts.dtype)], 0, 0
    cells: dict[tuple[int, int], np.ndarray] = {}
    for part in parts:
        seen = part.observed
        starts.append(seen.starts[1:] + at)
        cells |= {(g + groups, k): won for (g, k), won in seen.outcomes.items()}
        at, groups = at + int(seen.starts[-1]), groups + len(seen.starts) - 1
    margins = [np.broadcast_to(p.observed.margins, (len(p.observed.starts) - 1, p.u_MK.shape[1])) for p in parts]
    observed = replace(
        first,
        scores_MK=np.concatenate([part.observed.scores_MK for part in parts]),
        starts=np.concatenate(starts),
        margins=np.ascontiguousarray(np.concatenate(margins)),
        attributes_DM=np.ascontiguousarray(np.concatenate([part.observed.attributes_DM for part in parts], 1)),
        outcomes=cells,
    )
    wanted_NK = np.concatenate([part.wanted_NK for part in parts])
    return Part(observed, wanted_NK, np.concatenate([part.u_MK for part in parts]))
