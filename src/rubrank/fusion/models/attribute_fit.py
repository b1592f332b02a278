"""Fits with attributes: how much attributes such as length sway a criterion (γ), and utilities without that influence.

For one criterion, the model says that rollout i beats j with probability F(e), e = u_i − u_j + γ·z_ij:

    u       utilities of the rollouts
    z_ij    contrasts: how much more of each attribute i has than j, scaled
    γ       coefficients of the attributes, the same for all groups ("pooled"), or one for each group
    o       outcomes: 1 if i beat j, ½ for a tie, 0 if it lost

The pooled fit, over the n groups in which the criterion tells rollouts apart:

    1  joint fit   (u, γ̂) = argmax Σ_g Σ_{i<j} [o log F(e) + (1−o) log F(−e)] − (α/2)Σu² − (β/2)|γ|²
    2  its error   V = n/(n−1) Σ_g (s_g − s̄)(s_g − s̄)ᵀ,   se_d = √[(I+βE)⁻¹ V (I+βE)⁻¹]_dd
    3  shrunk      γ̃_d = γ̂_d · max(0, 1 − (c·se_d/γ̂_d)²),   c = t_{.975, n−1};   0 if n < 8
    4  taken out   δ, computed from γ̃ by `control/adjustment.py`
    5  refit       v_g = argmax_u of the likelihood with e = u_i − u_j + δ·z_ij; nothing is added back

α and β are the precisions of the priors of u and γ; I is the information about γ, s_g the slope of group g's likelihood
in γ, and E the unit matrix. Pairs of one group are not independent, groups are. So the error is computed from the
spread of the slopes s_g over groups. Step 3 (`control/estimate.py`) leaves in the verdict what chance may explain. If
δ = 0, nothing is fitted again.

`estimate` does steps 1 to 3, `refit` step 5. `fit_groups` is the fit of the paper, with a γ for every group.
Bradley–Terry and Thurstone in groups of ordinary size are fitted by the compiled code of `likelihood.py`; other models
with a link, very large groups, and what did not converge there, by `newton.py`.

A batch can be cut into parts that no process holds together (a table on Ray). Each pass of step 1 needs only sums from
a part, so γ goes out to the parts and sums come back: `Part`, `run_pass` and `fit_parts`.

Suffixes of arrays say what they run over: M rollouts, N groups, K criteria, D attributes, P pairs of a group, n
rollouts of a group, B groups of a fit, J jobs. A job is one (group, criterion) that is fitted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from reprlib import repr as brief
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from rubrank.errors import InvalidInput, SolverError
from rubrank.fusion.control.estimate import InfluenceEstimate
from rubrank.fusion.models import likelihood
from rubrank.fusion.models.model import BradleyTerry, LinkModel, Thurstone, UtilityModel
from rubrank.fusion.models.newton import FitProblem
from rubrank.scores.outcomes import count_wins, outcomes

# The models that the compiled code can fit, and its codes for their links.
_COMPILED_LINKS: Mapping[type, int] = {
    BradleyTerry: likelihood.LOGISTIC,
    Thurstone: likelihood.PROBIT,
}
# Numbers that a pooled fit keeps between passes (4 MB); larger fits take a few criteria at a time.
_MOST_VALUES = 1 << 19


@dataclass(frozen=True, eq=False)
class FitData:
    """The data of a fit with attributes; group g is rows starts[g] .. starts[g + 1]."""

    scores_MK: np.ndarray
    starts: np.ndarray
    margins: np.ndarray
    """(1, K) or (N, K): score differences of at most this much are ties."""
    attributes_MD: np.ndarray
    prior: float
    """α, the precision of the prior of utilities."""
    attribute_prior: float
    """β, the precision of the prior of coefficients."""
    outcomes: Mapping[tuple[int, int], np.ndarray] = field(default_factory=dict)
    """(group, criterion) → (n, n), for responses that were compared instead of scored."""
    pooled: bool = False
    """True: contrasts are scaled over all pairs of the batch; False: over those of their group."""
    known_scale_D: np.ndarray | None = None
    """The scale of contrasts, if it comes from a larger batch that these groups are a part of."""

    @property
    def sizes(self) -> np.ndarray:
        """Rollouts in each group."""
        return np.diff(self.starts)

    @cached_property
    def scale_D(self) -> np.ndarray:
        """What contrasts are multiplied by; empty if each group has its own scale."""
        if not self.pooled:
            return np.empty(0)
        if self.known_scale_D is not None:
            return self.known_scale_D
        return compute_contrast_scale(*self.square_contrasts())

    def square_contrasts(self) -> tuple[np.ndarray, int]:
        """Return the sums (D,) of the squares of all contrasts, before scaling, and the number of pairs."""
        squares_D = np.zeros(self.attributes_MD.shape[1])
        pairs = likelihood.sum_squared_contrasts(self.attributes_MD, self.starts, squares_D)
        return squares_D, int(pairs)

    def compiled(self) -> likelihood.Data:
        """Return the data in the form that the compiled code takes."""
        # The outcomes of all compared cells, one after another, and where those of each cell begin (-1: not compared).
        offset_NK = np.empty((0, 0), np.int64)
        packed_outcomes = [np.empty(0)]
        if self.outcomes:
            offset_NK = np.full((len(self.starts) - 1, self.scores_MK.shape[1]), -1, np.int64)
        offset = 0
        for (g, k), outcome in self.outcomes.items():
            j, i = np.tril_indices(len(outcome), -1)  # all pairs with i < j
            offset_NK[g, k] = offset
            packed_outcomes.append(outcome[i, j])
            offset += len(i)
        # One order in memory: numba would compile everything again for another one.
        return likelihood.Data(
            np.ascontiguousarray(self.scores_MK),
            self.starts,
            np.ascontiguousarray(self.margins),
            np.ascontiguousarray(self.attributes_MD),
            self.scale_D,
            offset_NK,
            np.concatenate(packed_outcomes),
        )

    def select_criteria(self, columns: slice) -> FitData:
        """Return the data of some criteria. Contrasts do not depend on criteria, and keep their scale."""
        selected_outcomes = {
            (g, k - columns.start): outcome
            for (g, k), outcome in self.outcomes.items()
            if columns.start <= k < columns.stop
        }
        return replace(
            self,
            scores_MK=self.scores_MK[:, columns],
            margins=self.margins[:, columns],
            outcomes=selected_outcomes,
            known_scale_D=self.scale_D,
        )

    def contrasts(self, g: int) -> np.ndarray:
        """Return z_ij of one group, (n, n, D)."""
        n = int(self.sizes[g])
        D = self.attributes_MD.shape[1]
        z_PD = np.empty((n * (n - 1) // 2, D))
        likelihood.load_contrasts(self.attributes_MD, self.scale_D, int(self.starts[g]), n, z_PD)
        z_nnD = np.zeros((n, n, D))
        j, i = np.tril_indices(n, -1)
        z_nnD[i, j] = z_PD
        z_nnD[j, i] = -z_PD
        return z_nnD

    def average_contrasts(self) -> np.ndarray:
        """Return z̃ (M, D): the mean contrast of each rollout with its group, itself included."""
        mean_MD = np.empty(self.attributes_MD.shape)
        likelihood.average_contrasts(self.attributes_MD, self.scale_D, self.starts, mean_MD)
        return mean_MD

    def wins(self, g: int, k: int) -> np.ndarray:
        """Return wins_ij of one group on one criterion, (n, n): 1 if i beat j, ½ for a tie."""
        if (g, k) in self.outcomes:
            return count_wins(self.outcomes[g, k])
        rows = slice(self.starts[g], self.starts[g + 1])
        margin = self.margins[g if len(self.margins) > 1 else 0, k]
        return count_wins(outcomes(self.scores_MK[rows, k : k + 1], margin)[:, :, 0])

    def find_informative(self, u_MK: np.ndarray) -> np.ndarray:
        """Return (N, K): does the criterion tell rollouts of the group apart? u_MK: utilities without attributes."""
        if len(self.starts) == 1:  # no groups
            return np.zeros((0, u_MK.shape[1]), bool)
        # With scores, the utilities of a group are all 0 exactly if all its rollouts tie.
        informative_NK = np.maximum.reduceat(u_MK != 0.0, self.starts[:-1], axis=0)
        for (g, k), outcome in self.outcomes.items():
            # A beats B, B beats C, C beats A: all utilities are 0, and the outcomes still tell rollouts apart.
            informative_NK[g, k] = ((outcome < 0.5) | (outcome > 0.5)).any()
        return informative_NK


def compute_contrast_scale(squares_D: np.ndarray, pairs: int) -> np.ndarray:
    """Return one over the root mean square of each attribute's contrasts, (D,); 0 for a constant attribute."""
    varies = squares_D > 0.0
    return np.where(varies, np.sqrt(pairs / np.where(varies, squares_D, 1.0)), 0.0)


def check_link(model: UtilityModel) -> LinkModel:
    """Return the model if it can adjust for attributes; raises InvalidInput if it has no link, or a wrong one."""
    if not hasattr(model, "link"):  # isinstance with a protocol would take as long as fifty fits
        raise InvalidInput(
            "attribute adjustment",
            "model",
            allowed="a model with a link, such as 'bradley-terry' or 'thurstone'",
            got=repr(model.name),
            remedy="Use such a model, or leave the attributes out.",
        )
    link_model = cast(LinkModel, model)
    if type(model) in _COMPILED_LINKS:
        return link_model
    # A user's model: its link is tried once.
    x = np.array([[-1.0, 0.0, 2.0]])
    derivatives = link_model.link(x)
    try:
        is_valid = len(derivatives) == 3 and all(
            np.shape(y) == x.shape and np.isfinite(y).all() for y in derivatives
        )
    except TypeError:
        is_valid = False
    if not is_valid:
        allowed = "log F(x) and its first and second derivative, finite and of the shape of x"
        raise InvalidInput(
            f"utility model {model.name!r}",
            "link(x)",
            allowed=allowed,
            got=brief(derivatives),
            remedy="See `rubrank help models`.",
        )
    return link_model


def find_compiled_link(model: UtilityModel, sizes: np.ndarray) -> int | None:
    """Return the code of the model's link in `likelihood.py`; None if `newton.py` must do the fit."""
    if sizes.max(initial=0) > likelihood.LARGEST_GROUP:
        return None
    return _COMPILED_LINKS.get(type(model))


# -------------------------------------------------------------------------------------------------- pooled coefficients


@dataclass(eq=False)
class Part:
    """Some groups of a batch, and the state of their fit."""

    data: FitData
    controlled_NK: np.ndarray
    """True for the groups over which the coefficients of each criterion are fitted."""
    u_MK: np.ndarray
    """Utilities without attributes."""
    fitted_MK: np.ndarray | None = None
    """Utilities of the joint fit so far; None before the first pass."""
    solved: np.ndarray | None = None
    """From the last pass, for the next step of the utilities: one row (1 + D) for each rollout of each job. The step of
    a rollout's utility is its first number minus the others times the step of γ, which is known only after all parts
    have returned their sums."""

    def copy(self) -> Part:
        """Return a copy with writable arrays: numba would compile everything again for the read-only ones of Ray."""
        arrays = {
            name: np.array(getattr(self.data, name))
            for name in ("scores_MK", "starts", "margins", "attributes_MD")
        }
        data = replace(self.data, **cast(Any, arrays))
        fitted_MK = None if self.fitted_MK is None else np.array(self.fitted_MK)
        solved = None if self.solved is None else np.array(self.solved)
        return Part(data, np.array(self.controlled_NK), np.array(self.u_MK), fitted_MK, solved)


@dataclass(frozen=True, eq=False)
class PartSummary:
    """What `fit_parts` must know about every part before the first pass."""

    squares_D: np.ndarray
    """Sums of the squares of its contrasts."""
    pairs: int
    groups_K: np.ndarray
    """For each criterion, the number of groups in which it tells rollouts apart."""
    link: int | None
    """The code of the link in `likelihood.py`; None if the compiled passes cannot fit this part."""

    @classmethod
    def of(cls, part: Part, model: UtilityModel) -> PartSummary:
        """Summarise one part."""
        squares_D, pairs = part.data.square_contrasts()
        return cls(
            squares_D,
            pairs,
            part.controlled_NK.sum(0),
            find_compiled_link(check_link(model), part.data.sizes),
        )


class PassSums(NamedTuple):
    """What one pass over a part returns; all but `moved_K` are added up over the parts."""

    moved_K: np.ndarray
    """The longest step that a utility took."""
    right_KD: np.ndarray
    """The right-hand side of the system for the step of γ, before its prior."""
    information_KDD: np.ndarray
    """I of step 2: the matrix of that system, before its prior."""
    slope_KD: np.ndarray
    """Σ_g s_g, the slopes of the likelihood in γ."""
    square_KDD: np.ndarray
    """Σ_g s_g s_gᵀ."""


class Parts(Protocol):
    """The parts of a batch, in this process or on a cluster."""

    def map(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Call function(part, *arguments) for every part. What it changes in a part stays with the part."""
        ...

    def gather(self) -> list[Part]:
        """Return all parts, in this process."""
        ...


@dataclass(frozen=True, eq=False)
class LocalParts:
    """Parts in this process."""

    parts: Sequence[Part]

    def map(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Call function(part, *arguments) for one part after another."""
        return [function(part, *arguments) for part in self.parts]

    def gather(self) -> list[Part]:
        """Return all parts; they are in this process already."""
        return list(self.parts)


def run_pass(
    part: Part,
    link: int,
    scale_D: np.ndarray,
    gamma_KD: np.ndarray,
    step_KD: np.ndarray,
    active_K: np.ndarray,
) -> PassSums:
    """Take the step of the utilities that belongs to the last step of γ, and sum over the groups at the new point.

    The first pass takes no step. Changes `part.fitted_MK` and `part.solved`.
    link: its code in `likelihood.py`. gamma_KD: γ after its last step, which is step_KD.
    active_K: the criteria that have not converged; others stay where they are.
    """
    K, D = gamma_KD.shape
    jobs = np.argwhere(part.controlled_NK)
    moved_K = np.zeros(K)
    if part.fitted_MK is None or part.solved is None:
        part.fitted_MK = part.u_MK.copy()
        part.solved = np.empty((int(part.data.sizes[jobs[:, 0]].sum()), 1 + D))
    else:
        likelihood.advance_utilities(
            part.data.starts, jobs, part.solved, step_KD, active_K, part.fitted_MK, moved_K
        )
    sums = PassSums(
        moved_K=moved_K,
        right_KD=np.zeros((K, D)),
        information_KDD=np.zeros((K, D, D)),
        slope_KD=np.zeros((K, D)),
        square_KDD=np.zeros((K, D, D)),
    )
    # Fills `part.solved` and the arrays of `sums`.
    data = replace(part.data, known_scale_D=scale_D)
    likelihood.sum_over_groups(
        link,
        data.compiled(),
        jobs,
        data.prior,
        part.fitted_MK,
        gamma_KD,
        part.solved,
        sums.right_KD,
        sums.information_KDD,
        sums.slope_KD,
        sums.square_KDD,
    )
    return sums


def fit_parts(
    parts: Parts, summaries: Sequence[PartSummary], model: UtilityModel, attribute_prior: float
) -> tuple[np.ndarray, InfluenceEstimate]:
    """Do steps 1 to 3 over all parts of a batch. Returns the scale of contrasts (D,), and the estimate."""
    squares_D = np.sum([summary.squares_D for summary in summaries], axis=0)
    scale_D = compute_contrast_scale(squares_D, sum(summary.pairs for summary in summaries))
    n_K = np.sum([summary.groups_K for summary in summaries], axis=0)
    links = {summary.link for summary in summaries}
    # If one part needs newton.py, because of a very large group, all parts do: they share γ.
    link = links.pop() if len(links) == 1 else None
    gamma_KD, information_KDD, variance_KDD = _fit_pooled(
        parts, check_link(model), link, scale_D, n_K, attribute_prior
    )
    estimated = InfluenceEstimate.of(gamma_KD, information_KDD, variance_KDD, n_K, attribute_prior)
    return scale_D, estimated


def estimate(
    model: UtilityModel,
    data: FitData,
    controlled_NK: np.ndarray,
    u_MK: np.ndarray,
    fitted_MK: np.ndarray | None = None,
) -> InfluenceEstimate:
    """Do steps 1 to 3 for a batch in this process, a few criteria at a time.

    controlled_NK: True for the groups over which the coefficients of each criterion are fitted.
    u_MK: the utilities without attributes, from which the fit starts; they are not changed.
    fitted_MK: if given, filled with the utilities of the joint fit.
    """
    link_model = check_link(model)
    link = find_compiled_link(model, data.sizes)
    n_K = controlled_NK.sum(0)
    M, K = u_MK.shape
    D = data.attributes_MD.shape[1]
    criteria_at_once = max(1, _MOST_VALUES // max(1, M * (D + 1)))
    fits = []
    for first in range(0, max(K, 1), criteria_at_once):
        columns = slice(first, min(first + criteria_at_once, K))
        part = Part(
            data.select_criteria(columns), controlled_NK[:, columns], u_MK[:, columns].copy()
        )
        fit = _fit_pooled(
            LocalParts([part]),
            link_model,
            link,
            data.scale_D,
            n_K[columns],
            data.attribute_prior,
            first_criterion=first,
        )
        fits.append(fit)
        if fitted_MK is not None:
            fitted_MK[:, columns] = part.u_MK if part.fitted_MK is None else part.fitted_MK
    gamma_KD, information_KDD, variance_KDD = (
        np.concatenate(arrays) for arrays in zip(*fits, strict=True)
    )
    return InfluenceEstimate.of(gamma_KD, information_KDD, variance_KDD, n_K, data.attribute_prior)


def _fit_pooled(
    parts: Parts,
    model: LinkModel,
    link: int | None,
    scale_D: np.ndarray,
    n_K: np.ndarray,
    attribute_prior: float,
    first_criterion: int = 0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return γ̂ (K, D), I and V (K, D, D), found by Newton steps over all groups of a criterion.

    One pass over the parts returns the sums for the step of γ; the next pass takes the step of the utilities that
    belongs to it. Criteria that do not converge with full steps, and models without a compiled link, are fitted by
    newton.py, which halves its steps.

    n_K: the groups over which each criterion is fitted. first_criterion: the number of the first one, for errors.
    """
    K = len(n_K)
    D = len(scale_D)
    gamma_KD = np.zeros((K, D))
    information_KDD = np.zeros((K, D, D))
    variance_KDD = np.full((K, D, D), np.nan)
    active_K = n_K > 0  # the criteria that have not converged
    if link is not None and active_K.any():
        step_KD = np.zeros((K, D))
        moved_K = np.full(K, np.inf)
        # The first pass takes no step, and the last one takes the sums at the maximum: hence one pass more than steps.
        for _ in range(likelihood.ITERATIONS + 1):
            results = parts.map(
                run_pass, link, scale_D, gamma_KD.copy(), step_KD.copy(), active_K.copy()
            )
            # (The sum of moved_K has no meaning, and is not used.)
            sums = PassSums(*(np.sum(arrays, axis=0) for arrays in zip(*results, strict=True)))
            # A criterion has converged if neither γ (moved_K from below) nor any utility took a long step.
            moved_K = np.maximum.reduce([moved_K, *(result.moved_K for result in results)])
            active_K = active_K & ~(moved_K < likelihood.TOLERANCE)  # NaN has not converged
            if not active_K.any():
                break
            # The Newton step of γ. The utilities are already eliminated from this system (a Schur complement).
            schur_KDD = sums.information_KDD + attribute_prior * np.eye(D)
            right_KD = sums.right_KD - attribute_prior * gamma_KD
            step_KD = np.linalg.solve(schur_KDD, right_KD[:, :, None])[:, :, 0] * active_K[:, None]
            gamma_KD += step_KD
            moved_K = np.abs(step_KD).max(axis=1, initial=0.0)
        # V of step 2: Σ (s_g − s̄)(s_g − s̄)ᵀ = Σ s_g s_gᵀ − (Σ s_g)(Σ s_g)ᵀ/n.
        information_KDD = sums.information_KDD
        for k in np.flatnonzero(n_K > 1):
            n = float(n_K[k])
            around_mean_DD = sums.square_KDD[k] - np.outer(sums.slope_KD[k], sums.slope_KD[k]) / n
            variance_KDD[k] = n / (n - 1.0) * around_mean_DD
    if active_K.any():
        whole = _join_parts(parts.gather(), scale_D)
        for k in np.flatnonzero(active_K):
            gamma_KD[k], information_KDD[k], variance_KDD[k] = _fit_by_newton(
                model, whole, int(k), f"criterion {first_criterion + k}"
            )
    return gamma_KD, information_KDD, variance_KDD


def _join_parts(parts: Sequence[Part], scale_D: np.ndarray) -> Part:
    """Return all parts as one, in their order; a single part is returned itself."""
    if len(parts) == 1:
        # Not a copy: the caller reads the fitted utilities from it.
        parts[0].data = replace(parts[0].data, known_scale_D=scale_D)
        return parts[0]
    starts = [np.zeros(1, np.int64)]
    joined_outcomes: dict[tuple[int, int], np.ndarray] = {}
    margins = []
    rows_before = 0
    groups_before = 0
    for part in parts:
        data = part.data
        N = len(data.starts) - 1
        starts.append(data.starts[1:] + rows_before)
        for (g, k), outcome in data.outcomes.items():
            joined_outcomes[g + groups_before, k] = outcome
        margins.append(np.broadcast_to(data.margins, (N, part.u_MK.shape[1])))
        rows_before += int(data.starts[-1])
        groups_before += N
    joined = replace(
        parts[0].data,
        scores_MK=np.concatenate([part.data.scores_MK for part in parts]),
        starts=np.concatenate(starts),
        margins=np.concatenate(margins),
        attributes_MD=np.concatenate([part.data.attributes_MD for part in parts]),
        outcomes=joined_outcomes,
        known_scale_D=scale_D,
    )
    controlled_NK = np.concatenate([part.controlled_NK for part in parts])
    return Part(joined, controlled_NK, np.concatenate([part.u_MK for part in parts]))


def _fit_by_newton(
    model: LinkModel, part: Part, k: int, name: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return γ̂ (D,), I and V (D, D) of one criterion; fills the column of `part.fitted_MK`.

    Groups are padded to the size of the largest: rollouts that do not exist have no wins, and keep the utility 0.
    name: of the criterion, for errors.
    """
    data = part.data
    if part.fitted_MK is None:
        part.fitted_MK = part.u_MK.copy()
    groups = np.flatnonzero(part.controlled_NK[:, k]).tolist()
    B = len(groups)
    n = int(data.sizes[groups].max())
    wins_Bnn = np.zeros((B, n, n))
    z_BnnD = np.zeros((B, n, n, data.attributes_MD.shape[1]))
    start_Bn = np.zeros((B, n))
    for b, g in enumerate(groups):
        size = int(data.sizes[g])
        wins_Bnn[b, :size, :size] = data.wins(g, k)
        z_BnnD[b, :size, :size] = data.contrasts(g)
        start_Bn[b, :size] = part.u_MK[data.starts[g] : data.starts[g + 1], k]
    ridge_Bn = np.full((B, n), data.prior)
    problem = FitProblem(wins_Bnn, z_BnnD, ridge_Bn, data.attribute_prior, model.link, pooled=True)
    u_Bn, gamma_1D = _solve(problem, start_Bn, f"{name}, pooled over {B} groups")
    for b, g in enumerate(groups):
        part.fitted_MK[data.starts[g] : data.starts[g + 1], k] = u_Bn[b, : data.sizes[g]]
    slopes_BD, information_BDD = problem.spread(u_Bn, gamma_1D)
    centred_BD = slopes_BD - slopes_BD.mean(0)
    small_sample_factor = B / (B - 1.0) if B > 1 else np.nan
    variance_DD = small_sample_factor * centred_BD.T @ centred_BD
    return gamma_1D[0], information_BDD.sum(0), variance_DD


# ----------------------------------------------------------------------------------------------- fits of single groups


def refit(
    model: UtilityModel, data: FitData, delta_NKD: np.ndarray, u_MK: np.ndarray
) -> np.ndarray:
    """Do step 5: return v (M, K), the utilities with δ taken out; u_MK itself if δ is 0 everywhere.

    delta_NKD: δ, which must be 0 where a criterion does not tell the rollouts of a group apart.
    u_MK: the utilities without attributes, from which the fit starts.
    """
    controlled_NK = delta_NKD.any(2)
    if not controlled_NK.any():
        return u_MK
    link_model = check_link(model)
    v_MK = u_MK.copy()
    jobs = np.argwhere(controlled_NK)
    delta_JD = delta_NKD[jobs[:, 0], jobs[:, 1]]
    failed = np.ones(len(jobs), bool)
    link = find_compiled_link(model, data.sizes)
    if link is not None:
        likelihood.refit_jobs(link, data.compiled(), jobs, delta_JD, data.prior, v_MK, failed)
    # Jobs that the compiled code did not fit, or could not.
    for job in np.flatnonzero(failed):
        g, k = jobs[job].tolist()
        rows = slice(data.starts[g], data.starts[g + 1])
        # δ·z is a constant offset here. There are no coefficients to fit (D = 0), so their prior does not matter.
        problem = FitProblem(
            data.wins(g, k)[None],
            np.zeros((1, 1, 1, 0)),
            np.full((1, int(data.sizes[g])), data.prior),
            1.0,
            link_model.link,
            pooled=False,
            offset_Bnn=(data.contrasts(g) @ delta_JD[job])[None],
        )
        u_1n, _ = _solve(problem, v_MK[None, rows, k], f"group {g}, criterion {k}, refit")
        v_MK[rows, k] = u_1n[0]
    return v_MK


def fit_groups(
    model: UtilityModel, data: FitData, controlled_NK: np.ndarray, u_MK: np.ndarray
) -> np.ndarray:
    """Fit every controlled group and criterion by itself, as in the paper. Returns γ (N, K, D), 0 for the others.

    u_MK holds the utilities without attributes, and is overwritten with those of the fit.
    """
    link_model = check_link(model)
    D = data.attributes_MD.shape[1]
    jobs = np.argwhere(controlled_NK)
    gamma_JD = np.zeros((len(jobs), D))
    failed = np.ones(len(jobs), bool)
    link = find_compiled_link(model, data.sizes)
    if link is not None:
        likelihood.fit_jobs(
            link, data.compiled(), jobs, data.prior, data.attribute_prior, u_MK, gamma_JD, failed
        )
    for job in np.flatnonzero(failed):
        g, k = jobs[job].tolist()
        rows = slice(data.starts[g], data.starts[g + 1])
        problem = FitProblem(
            data.wins(g, k)[None],
            data.contrasts(g)[None],
            np.full((1, int(data.sizes[g])), data.prior),
            data.attribute_prior,
            link_model.link,
            pooled=False,
        )
        u_1n, gamma_1D = _solve(problem, u_MK[None, rows, k], f"group {g}, criterion {k}")
        u_MK[rows, k] = u_1n[0]
        gamma_JD[job] = gamma_1D[0]
    gamma_NKD = np.zeros((*controlled_NK.shape, D))
    gamma_NKD[jobs[:, 0], jobs[:, 1]] = gamma_JD
    return gamma_NKD


def _solve(problem: FitProblem, start_Bn: np.ndarray, where: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the utilities and coefficients of a problem; SolverError says which fit failed (`where`)."""
    try:
        return problem.solve(start_Bn)
    except SolverError as error:
        raise SolverError(f"{where}: {error}") from None
