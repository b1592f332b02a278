"""What a fit with attributes sees of a batch, and the paper's own fit: a coefficient for every group (`pool="group"`).

Bradley–Terry and Thurstone in groups of ordinary size are fitted by the compiled code of `fit.py`. Any other model with
a link, very large groups, and the rare lane that did not converge there are fitted by `newton.py`. The pooled fits are
in `controlled.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from reprlib import repr as brief
from typing import Any, cast

import numpy as np

from rubrank.errors import InvalidInput, SolverError
from rubrank.fusion.model import LinkModel, UtilityModel
from rubrank.fusion.models import blocks, exact, fit
from rubrank.fusion.models.bradley_terry import BradleyTerry
from rubrank.fusion.models.newton import FitProblem
from rubrank.fusion.models.thurstone import Thurstone
from rubrank.scores.observed import wins_of
from rubrank.scores.outcomes import outcomes

_LINKS: Mapping[type, int] = {BradleyTerry: blocks.LOGISTIC, Thurstone: blocks.PROBIT}


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
    pooled: bool = False
    """Contrasts are scaled over all pairs of the batch, else over those of their group."""

    def __getstate__(self) -> dict[str, Any]:
        """Without what is only another form of the rest."""
        return {name: value for name, value in self.__dict__.items() if name != "data"}

    @property
    def sizes(self) -> np.ndarray:
        """Rollouts in each group."""
        return np.diff(self.starts)

    @cached_property
    def scale_D(self) -> np.ndarray:
        """What contrasts are multiplied by; empty: each group has its own scale."""
        if not self.pooled:
            return np.empty(0)
        return scales_of(*self.square_sums())

    def square_sums(self) -> tuple[np.ndarray, int]:
        """The squares of all contrasts as exact sums (1, D), and the number of pairs."""
        sums = np.zeros((1, len(self.attributes_DM), exact.DIGITS), np.int64)
        return sums, int(blocks.square_sums(self.attributes_DM, self.starts, sums))

    @cached_property
    def data(self) -> tuple[np.ndarray, ...]:
        """The same as compiled code takes it; see `blocks.py`. It is compiled for one order in memory only."""
        scores_MK = np.ascontiguousarray(self.scores_MK)
        return (scores_MK, self.starts, self.margins, self.attributes_DM, self.scale_D, *self._cells())

    def _cells(self) -> tuple[np.ndarray, np.ndarray]:
        """Where the outcomes of a cell begin (N, K), and the outcomes of all pairs of all cells one after another."""
        if not self.outcomes:
            return np.empty((0, 0), np.int64), np.empty(0)
        cell_NK = np.full((len(self.starts) - 1, self.scores_MK.shape[1]), -1, np.int64)
        packed, at = [], 0
        for (g, k), outcome in self.outcomes.items():
            j, i = np.tril_indices(len(outcome), -1)
            cell_NK[g, k] = at
            packed.append(outcome[i, j])
            at += len(i)
        return cell_NK, np.concatenate(packed)

    def columns(self, some: slice) -> Observed:
        """The same of some criteria alone; contrasts, which do not depend on criteria, keep their scale."""
        if some == slice(0, self.scores_MK.shape[1]):
            return self
        cells = {(g, k - some.start): won for (g, k), won in self.outcomes.items() if some.start <= k < some.stop}
        scores_MK, margins = (np.ascontiguousarray(array[:, some]) for array in (self.scores_MK, self.margins))
        part = replace(self, scores_MK=scores_MK, margins=margins, outcomes=cells)
        return part.scaled(self.scale_D)

    def scaled(self, scale_D: np.ndarray) -> Observed:
        """The same with contrasts multiplied by these numbers: those of the batch that this is a part of."""
        self.__dict__["scale_D"] = scale_D
        return self

    def contrasts(self, g: int) -> np.ndarray:
        """z_ij of one group in full, (n, n, D)."""
        first, n = int(self.starts[g]), int(self.sizes[g])
        packed = np.zeros((len(self.attributes_DM), n * (n - 1) // 2))
        blocks.contrasts(self.attributes_DM, self.scale_D, first, n, packed)
        z = np.zeros((n, n, len(packed)))
        j, i = np.tril_indices(n, -1)
        z[i, j] = packed.T
        z[j, i] = -packed.T
        return z

    def mean_contrasts(self) -> np.ndarray:
        """z̃: each rollout's mean contrast with its group, itself counted, (M, D)."""
        mean_MD = np.empty(self.attributes_DM.shape[::-1])
        blocks.mean_contrasts(self.attributes_DM, self.scale_D, self.starts, mean_MD)
        return mean_MD

    def wins(self, g: int, k: int) -> np.ndarray:
        """wins_ij of one group on one criterion, (n, n)."""
        if (int(g), int(k)) in self.outcomes:
            return wins_of(self.outcomes[int(g), int(k)])
        rows = slice(self.starts[g], self.starts[g + 1])
        margin = self.margins[g if len(self.margins) > 1 else 0, k]
        won = outcomes(self.scores_MK[rows, k : k + 1], margin)[:, :, 0]
        return wins_of(won)

    def informative(self, u_MK: np.ndarray) -> np.ndarray:
        """(N, K): does the criterion say anything about the group, given the utilities without attributes?"""
        if len(self.starts) == 1:
            return np.zeros((0, u_MK.shape[1]), bool)
        telling = np.maximum.reduceat(u_MK != 0.0, self.starts[:-1], axis=0)
        for (g, k), outcome in self.outcomes.items():  # a circle of wins has utilities of 0, and is not silent
            telling[g, k] = ((outcome < 0.5) | (outcome > 0.5)).any()
        return telling

    def jobs(self, wanted_NK: np.ndarray) -> np.ndarray:
        """(group, criterion) of every fit that is wanted, sorted by the size of the group."""
        jobs = np.ascontiguousarray(np.argwhere(wanted_NK))
        sizes = self.sizes
        if not len(sizes) or sizes.min() == sizes.max():
            return jobs
        return jobs[np.argsort(sizes[jobs[:, 0]], kind="stable")]


def scales_of(sums: np.ndarray, pairs: int) -> np.ndarray:
    """What contrasts are multiplied by, from the sums of their squares."""
    scale_D = np.empty(sums.shape[1])
    blocks.scales(sums, pairs, scale_D)
    return scale_D


def link_model(model: UtilityModel) -> LinkModel:
    """The model, if it can adjust for attributes; raises if not."""
    if not hasattr(model, "link"):  # isinstance with a protocol would cost as much as fifty fits
        raise InvalidInput(
            "attribute adjustment",
            "model",
            "a model with a link, such as 'bradley-terry' or 'thurstone'",
            repr(model.name),
            "Use such a model, or leave the attributes out.",
        )
    checked = cast(LinkModel, model)
    if type(model) not in _LINKS:
        _check_link(checked)
    return checked


def _check_link(model: LinkModel) -> None:
    """Refuse a link that does not give what Newton's method needs, before the first step."""
    x = np.array([[-1.0, 0.0, 2.0]])
    found = model.link(x)
    try:
        whole = len(found) == 3 and all(np.shape(part) == x.shape and np.isfinite(part).all() for part in found)
    except TypeError:
        whole = False
    if not whole:
        allowed = "log F(x) and its first and second derivative, finite and of the shape of x"
        raise InvalidInput(f"utility model {model.name!r}", "link(x)", allowed, brief(found), "See docs/models.md.")


def compiled_link(model: LinkModel, observed: Observed) -> int | None:
    """The number of the model's link in compiled code; None where `newton.py` has to fit."""
    if int(observed.sizes.max(initial=0)) > blocks.LARGEST_GROUP:
        return None
    return _LINKS.get(type(model))


def fit_adjusted(model: UtilityModel, observed: Observed, wanted_NK: np.ndarray, u_MK: np.ndarray) -> np.ndarray:
    """A fit for each group and criterion that is wanted, in place, from the utilities without attributes; γ (N, K, D).

    A criterion that ties a whole group says nothing about it, with attributes as without: it should not be wanted, and
    is left at 0 there.
    """
    checked = link_model(model)
    gamma_NKD = np.zeros((*wanted_NK.shape, len(observed.attributes_DM)))
    jobs, link = observed.jobs(wanted_NK), compiled_link(checked, observed)
    left = np.ones(len(jobs), bool)
    if link is not None:
        priors = (observed.prior, observed.attribute_prior)
        fit.fit_groups(link, observed.data, jobs, *priors, u_MK, gamma_NKD, left)
    for g, k in jobs[left]:
        _fit_group(checked, observed, int(g), int(k), u_MK, gamma_NKD)
    return gamma_NKD


def _fit_group(model: LinkModel, observed: Observed, g: int, k: int, u_MK: np.ndarray, gamma_NKD: np.ndarray) -> None:
    rows = slice(observed.starts[g], observed.starts[g + 1])
    problem = FitProblem(
        observed.wins(g, k)[None],
        observed.contrasts(g)[None],
        np.full((1, int(observed.sizes[g])), observed.prior),
        observed.attribute_prior,
        model.link,
        pooled=False,
    )
    u, gamma = solved(problem, u_MK[None, rows, k], f"group {g}, criterion {k}")
    u_MK[rows, k], gamma_NKD[g, k] = u[0], gamma[0]


def solved(problem: FitProblem, start_Bn: np.ndarray, where: str) -> Any:
    """What `newton.py` finds; its error says where."""
    try:
        return problem.solve(start_Bn)
    except SolverError as error:
        raise SolverError(f"{where}: {error}") from None
