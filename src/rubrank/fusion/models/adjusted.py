"""Utilities and attribute coefficients of a whole batch: which solver fits what.

Bradley–Terry in groups of ordinary size is fitted by the compiled code of `fit.py`. Any other model with a link, very
large groups, outcomes that were observed by comparing, and the rare lane that did not converge there are fitted by
`newton.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from rubrank.errors import InvalidInput, SolverError
from rubrank.fusion.model import LinkModel, UtilityModel
from rubrank.fusion.models import fit
from rubrank.fusion.models.bradley_terry import BradleyTerry
from rubrank.fusion.models.newton import Problem
from rubrank.scores.observed import wins_of
from rubrank.scores.outcomes import outcomes


@dataclass(frozen=True, eq=False)
class Observed:
    """What a fit with attributes needs to know; group g is rows starts[g] .. starts[g + 1]."""

    scores_MK: np.ndarray
    starts: np.ndarray
    margins: np.ndarray
    attributes_DM: np.ndarray
    prior: float
    attribute_prior: float
    outcomes: Mapping[tuple[int, int], np.ndarray] = field(default_factory=dict)
    """(group, criterion) → (n, n), where responses were compared instead of scored."""

    @property
    def sizes(self) -> np.ndarray:
        """Rollouts in each group."""
        return np.diff(self.starts)

    def contrasts(self, g: int) -> np.ndarray:
        """z_ij of one group in full, (n, n, D)."""
        first, n = int(self.starts[g]), int(self.sizes[g])
        packed = np.zeros((len(self.attributes_DM), n * (n - 1) // 2))
        fit.contrasts(self.attributes_DM, first, n, packed)
        z = np.zeros((n, n, len(packed)))
        j, i = np.tril_indices(n, -1)
        z[i, j] = packed.T
        z[j, i] = -packed.T
        return z

    def wins(self, g: int, k: int) -> np.ndarray:
        """wins_ij of one group on one criterion, (n, n)."""
        if (int(g), int(k)) in self.outcomes:
            return wins_of(self.outcomes[int(g), int(k)])
        rows = slice(self.starts[g], self.starts[g + 1])
        margin = self.margins[g if len(self.margins) > 1 else 0, k]
        won = outcomes(self.scores_MK[rows, k : k + 1], margin)[:, :, 0]
        return wins_of(won)

    def scored(self, jobs: np.ndarray) -> np.ndarray | slice:
        """Which of the jobs (group, criterion) are about scores."""
        if not self.outcomes:
            return slice(None)
        return np.array([(int(g), int(k)) not in self.outcomes for g, k in jobs], bool)


def fit_adjusted(model: UtilityModel, observed: Observed, pool: str, u_MK: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fit in place, starting from the utilities without attributes.

    Returns the coefficients γ (N, K, D), and which criteria tell the rollouts of which group apart (N, K). A criterion
    that ties a whole group says nothing about it, with attributes as without: it is left at 0 there, and in a pooled
    fit it does not count.
    """
    link_model = _check(model)
    N, K = len(observed.starts) - 1, u_MK.shape[1]
    gamma_NKD = np.zeros((N, K, len(observed.attributes_DM)))
    if N == 0:
        return gamma_NKD, np.zeros((N, K), bool)
    informative_NK = np.maximum.reduceat(u_MK != 0.0, observed.starts[:-1], axis=0)
    jobs = _jobs(observed, informative_NK)
    if pool == "batch":
        _fit_pooled(link_model, observed, jobs, u_MK, gamma_NKD)
    else:
        _fit_groups(link_model, observed, jobs, u_MK, gamma_NKD)
    return gamma_NKD, informative_NK


def _jobs(observed: Observed, informative_NK: np.ndarray) -> np.ndarray:
    """(group, criterion) of every fit, sorted by the size of the group."""
    jobs = np.argwhere(informative_NK)
    sizes = observed.sizes
    if sizes.min() == sizes.max():
        return jobs
    return jobs[np.argsort(sizes[jobs[:, 0]], kind="stable")]


def _check(model: UtilityModel) -> LinkModel:
    if not hasattr(model, "link"):  # isinstance with a protocol would cost as much as fifty fits
        raise InvalidInput(
            "attribute adjustment",
            "model",
            "a model with a link, such as 'bradley-terry' or 'thurstone'",
            repr(model.name),
            "Use such a model, or leave the attributes out.",
        )
    return cast(LinkModel, model)


def _compiled(model: LinkModel, observed: Observed) -> bool:
    return type(model) is BradleyTerry and int(observed.sizes.max()) <= fit.LARGEST_GROUP


def _data(observed: Observed) -> tuple[np.ndarray, ...]:
    return observed.scores_MK, observed.starts, observed.margins, observed.attributes_DM


def _fit_groups(
    model: LinkModel, observed: Observed, jobs: np.ndarray, u_MK: np.ndarray, gamma_NKD: np.ndarray
) -> None:
    left = np.ones(len(jobs), bool)
    if _compiled(model, observed):
        scored = observed.scored(jobs)
        some, undone = jobs[scored], left[scored]
        fit.fit_groups(*_data(observed), some, observed.prior, observed.attribute_prior, u_MK, gamma_NKD, undone)
        left[scored] = undone
    for g, k in jobs[left]:
        rows = slice(observed.starts[g], observed.starts[g + 1])
        problem = Problem(
            observed.wins(g, k)[None],
            observed.contrasts(g)[None],
            np.full((1, int(observed.sizes[g])), observed.prior),
            observed.attribute_prior,
            model.link,
            pooled=False,
        )
        try:
            u, gamma = problem.solve(u_MK[None, rows, k])
        except SolverError as error:
            raise SolverError(f"group {g}, criterion {k}: {error}") from None
        u_MK[rows, k], gamma_NKD[g, k] = u[0], gamma[0]


def _fit_pooled(
    model: LinkModel, observed: Observed, jobs: np.ndarray, u_MK: np.ndarray, gamma_NKD: np.ndarray
) -> None:
    gamma_KD = np.zeros(gamma_NKD.shape[1:])
    left_K = np.zeros(len(gamma_KD), bool)
    left_K[jobs[:, 1]] = True
    if _compiled(model, observed):
        compared = sorted({k for _, k in observed.outcomes})  # a criterion compared anywhere has its γ from newton
        some = jobs[~np.isin(jobs[:, 1], compared)] if compared else jobs
        start_MK = u_MK.copy()
        fit.fit_pooled(*_data(observed), some, observed.prior, observed.attribute_prior, u_MK, gamma_KD, left_K)
        left_K[[k for k in compared if (jobs[:, 1] == k).any()]] = True
        u_MK[:, left_K] = start_MK[:, left_K]
    for k in np.flatnonzero(left_K):
        gamma_KD[k] = _pooled_by_newton(model, observed, jobs[jobs[:, 1] == k, 0], int(k), u_MK)
    gamma_NKD[:] = gamma_KD


def _pooled_by_newton(model: LinkModel, observed: Observed, groups: np.ndarray, k: int, u_MK: np.ndarray) -> np.ndarray:
    """One criterion over all groups that it says something about; smaller groups are padded with nobody."""
    n = int(observed.sizes[groups].max())
    wins = np.zeros((len(groups), n, n))
    z = np.zeros((len(groups), n, n, len(observed.attributes_DM)))
    start = np.zeros((len(groups), n))
    for b, g in enumerate(groups):
        size = int(observed.sizes[g])
        wins[b, :size, :size] = observed.wins(g, k)
        z[b, :size, :size] = observed.contrasts(g)
        start[b, :size] = u_MK[observed.starts[g] : observed.starts[g + 1], k]
    ridge = np.full((len(groups), n), observed.prior)
    problem = Problem(wins, z, ridge, observed.attribute_prior, model.link, pooled=True)
    try:
        u, gamma = problem.solve(start)
    except SolverError as error:
        raise SolverError(f"criterion {k}, pooled over {len(groups)} groups: {error}") from None
    for b, g in enumerate(groups):
        u_MK[observed.starts[g] : observed.starts[g + 1], k] = u[b, : int(observed.sizes[g])]
    return gamma[0]
