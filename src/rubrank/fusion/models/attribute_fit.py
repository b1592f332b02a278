"""Fits with attributes: how much attributes such as length influence a criterion (γ), and utilities without that.

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

`control_attributes` goes through the steps for a batch and the options of RLVR²:

    utilities u ─► estimate ─► γ̂ and its error ─► shrink ─► γ̃ ─► share of each attribute ─► δ ─► refit ─► values
                   │                                             (`adjust`, drawn per group)
                   ├ pool="batch"      over the groups of this batch
                   ├ pool="run"        the same, added to the sums of earlier steps (`RunningEstimate`)
                   ├ batch_estimate    given: this batch is a part of a larger one
                   └ pool="group"      as in the paper: γ of each group by itself, nothing is shrunk or fitted again;
                                       instead, v = u + (γ − δ)·z̃

A single group has too few comparisons to separate length from quality, so the priors decide; pool="group" exists for
comparison with the paper. Rules without an ordinal fit are controlled by `control/linear.py`.

Bradley–Terry and Thurstone in groups of ordinary size are fitted by the compiled code of `likelihood.py`; other models
with a link, very large groups, and what did not converge there, by `newton.py`.

Suffixes of arrays say what they run over: M rollouts, N groups, K criteria, D attributes, P pairs of a group, n
rollouts of a group, B groups of a fit, J jobs. A job is one (group, criterion) that is fitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from reprlib import repr as brief
from typing import TYPE_CHECKING, cast

import numpy as np

from rubrank.errors import InvalidInput, SolverError
from rubrank.fusion.control.adjustment import choose_taken, name_columns, select_criteria
from rubrank.fusion.control.estimate import BatchEstimate, InfluenceEstimate
from rubrank.fusion.models import likelihood
from rubrank.fusion.models.model import BradleyTerry, LinkModel, Thurstone, UtilityModel, find_model
from rubrank.fusion.models.newton import FitProblem
from rubrank.fusion.result import AttributeControl
from rubrank.fusion.rules.group_math import find_informative
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.outcomes import Cells, count_wins, mark_compared, outcomes

if TYPE_CHECKING:
    from rubrank.fusion.rlvr2 import RLVR2

# The models that the compiled code can fit, and its codes for their links.
_COMPILED_LINKS: Mapping[type, int] = {
    BradleyTerry: likelihood.LOGISTIC,
    Thurstone: likelihood.PROBIT,
}


# ------------------------------------------------------------------------------------------------ control of a batch


def control_attributes(
    rule: RLVR2, batch: ScoreBatch, u_MK: np.ndarray, soft: Cells
) -> AttributeControl:
    """Take the influence of attributes out of the utilities u_MK, which are not changed themselves.

    soft: outcomes of uncertain verdicts, which are fitted instead of the order of the scores.
    """
    if rule.pool == "group":
        return _control_groups(rule, batch, u_MK, soft)
    # Steps 1 to 3: γ̂, its error, γ̃
    batch_estimate = rule.batch_estimate or estimate_attributes(rule, batch, u_MK, soft)
    influence = batch_estimate.select(name_columns(batch)[0])
    # Steps 4 and 5: δ, and the utilities without it
    data, controlled_NK = make_fit_data(rule, batch, u_MK, soft, batch_estimate.scale_D)
    taken_NKD = choose_taken(rule, batch, influence.shrunk_KD, controlled_NK)
    values_MK = refit(find_model(rule.model), data, taken_NKD, u_MK)
    return influence.describe(rule.pool, values_MK, taken_NKD, data.average_contrasts())


def estimate_attributes(
    rule: RLVR2, batch: ScoreBatch, u_MK: np.ndarray, soft: Cells
) -> BatchEstimate:
    """Estimate the influence of attributes over the batch, or over the run so far with this batch as its last step."""
    data, controlled_NK = make_fit_data(rule, batch, u_MK, soft)
    criteria, attributes = name_columns(batch)
    influence, _ = estimate(find_model(rule.model), data, controlled_NK, u_MK)
    if rule.pool == "run":
        # What was learnt before counts too: the estimate of one step has few groups.
        influence = rule.running.learn(influence, criteria, attributes, data.attribute_prior)
    return BatchEstimate(data.scale_D, tuple(criteria), influence)


def make_fit_data(
    rule: RLVR2,
    batch: ScoreBatch,
    u_MK: np.ndarray,
    soft: Cells,
    known_scale_D: np.ndarray | None = None,
) -> tuple[FitData, np.ndarray]:
    """Return the data of a fit, and (N, K): is the criterion controlled, and does it tell rollouts apart?"""
    assert batch.attributes_MD is not None
    data = FitData(
        batch.oriented_MK,
        batch.starts,
        batch.margins_NK,
        np.array(batch.attributes_MD, dtype=float, order="C"),
        float(rule.prior),
        float(rule.attribute_prior),
        {**batch.outcomes, **soft},
        pooled=rule.pool != "group",
        # A copy: arrays from Ray's store are read-only, and numba would compile everything again for those.
        known_scale_D=None if known_scale_D is None else known_scale_D.copy(),
    )
    return data, data.find_informative(u_MK) & select_criteria(rule.adjust_criteria, batch)


def fit_jointly(rule: RLVR2, batch: ScoreBatch, u_MK: np.ndarray, soft: Cells) -> np.ndarray:
    """Return the utilities (M, K) of the joint fit with γ̂; those without attributes where nothing was fitted."""
    data, controlled_NK = make_fit_data(rule, batch, u_MK, soft)
    model = find_model(rule.model)
    if rule.pool != "group":
        return estimate(model, data, controlled_NK, u_MK)[1]
    fitted_MK = u_MK.copy()
    fit_groups(model, data, controlled_NK, fitted_MK)
    return fitted_MK


def _control_groups(
    rule: RLVR2, batch: ScoreBatch, u_MK: np.ndarray, soft: Cells
) -> AttributeControl:
    """Control each group by itself, as in the paper: v = u + (γ − δ)·z̃, with u and γ of the group's joint fit.

    Nothing is shrunk: one group says nothing about the error of its coefficients.
    """
    data, controlled_NK = make_fit_data(rule, batch, u_MK, soft)
    values_MK = u_MK.copy()
    gamma_NKD = fit_groups(find_model(rule.model), data, controlled_NK, values_MK)
    taken_NKD = choose_taken(rule, batch, gamma_NKD, controlled_NK)
    contrasts_MD = data.average_contrasts()
    remaining_MKD = np.repeat(gamma_NKD - taken_NKD, data.sizes, axis=0)
    is_known_MK = ~np.isnan(mark_compared(data.scores_MK, data.outcomes, data.starts))
    # A rollout that was not scored on a criterion stays at 0 there.
    values_MK += np.where(is_known_MK, np.einsum("mkd,md->mk", remaining_MKD, contrasts_MD), 0.0)
    return AttributeControl(
        rule.pool,
        values_MK=values_MK,
        gamma_NKD=gamma_NKD,
        se_NKD=np.full(gamma_NKD.shape, np.nan),
        shrunk_NKD=gamma_NKD,
        n_NK=controlled_NK.astype(int),
        taken_NKD=taken_NKD,
        contrasts_MD=contrasts_MD,
    )


# -------------------------------------------------------------------------------------------------- data and fits


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
    """True: contrasts are scaled over all pairs of the batch; False: over the pairs of their group."""
    known_scale_D: np.ndarray | None = None
    """The scale of contrasts, if it comes from a larger batch that these groups are a part of."""

    @property
    def sizes(self) -> np.ndarray:
        """Rollouts in each group."""
        return np.diff(self.starts)

    @cached_property
    def scale_D(self) -> np.ndarray:
        """What contrasts are multiplied by: one over their root mean square; empty if each group has its own scale."""
        if not self.pooled:
            return np.empty(0)
        if self.known_scale_D is not None:
            return self.known_scale_D
        squares_D = np.zeros(self.attributes_MD.shape[1])
        pairs = likelihood.sum_squared_contrasts(self.attributes_MD, self.starts, squares_D)
        varies_D = squares_D > 0.0  # 0 for a constant attribute
        return np.where(varies_D, np.sqrt(pairs / np.where(varies_D, squares_D, 1.0)), 0.0)

    @cached_property
    def compiled(self) -> likelihood.Data:
        """The data in the form that the compiled code takes."""
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
        informative_NK = find_informative(u_MK, self.starts)
        for (g, k), outcome in self.outcomes.items():
            # A beats B, B beats C, C beats A: all utilities are 0, and the outcomes still tell rollouts apart.
            informative_NK[g, k] = ((outcome < 0.5) | (outcome > 0.5)).any()
        return informative_NK


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


def estimate(
    model: UtilityModel, data: FitData, controlled_NK: np.ndarray, u_MK: np.ndarray
) -> tuple[InfluenceEstimate, np.ndarray]:
    """Do steps 1 to 3. Returns the estimate, and the utilities (M, K) of the joint fit.

    controlled_NK: True for the groups over which the coefficients of each criterion are fitted.
    u_MK: the utilities without attributes, from which the fit starts; they are not changed.
    """
    link_model = check_link(model)
    link = find_compiled_link(model, data.sizes)
    K = u_MK.shape[1]
    D = data.attributes_MD.shape[1]
    fitted_MK = u_MK.copy()
    gamma_KD = np.zeros((K, D))
    information_KDD = np.zeros((K, D, D))
    variance_KDD = np.full((K, D, D), np.nan)
    n_K = controlled_NK.sum(0)
    for k in np.flatnonzero(n_K).tolist():
        groups = np.flatnonzero(controlled_NK[:, k])
        slopes_BD = np.empty((len(groups), D))
        has_converged = link is not None and likelihood.fit_pooled(
            link,
            data.compiled,
            groups,
            k,
            data.prior,
            data.attribute_prior,
            D,
            fitted_MK,
            gamma_KD[k],
            information_KDD[k],
            slopes_BD,
        )
        if not has_converged:
            fitted_MK[:, k] = u_MK[:, k]
            where = f"criterion {k}, pooled over {len(groups)} groups"
            gamma_KD[k], information_KDD[k], slopes_BD = _fit_by_newton(
                link_model, data, groups, k, fitted_MK, where
            )
        if len(groups) > 1:
            around_BD = slopes_BD - slopes_BD.mean(0)
            small_sample_factor = len(groups) / (len(groups) - 1.0)
            variance_KDD[k] = small_sample_factor * around_BD.T @ around_BD
    estimated = InfluenceEstimate.of(
        gamma_KD, information_KDD, variance_KDD, n_K, data.attribute_prior
    )
    return estimated, fitted_MK


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
    jobs = np.argwhere(controlled_NK)
    v_MK = u_MK.copy()
    _fit_jobs(model, data, jobs, v_MK, delta_NKD[jobs[:, 0], jobs[:, 1]], is_offset=True)
    return v_MK


def fit_groups(
    model: UtilityModel, data: FitData, controlled_NK: np.ndarray, u_MK: np.ndarray
) -> np.ndarray:
    """Fit every controlled group and criterion by itself, as in the paper. Returns γ (N, K, D), 0 for the others.

    u_MK holds the utilities without attributes, and is overwritten with those of the fit.
    """
    jobs = np.argwhere(controlled_NK)
    gamma_JD = np.zeros((len(jobs), data.attributes_MD.shape[1]))
    _fit_jobs(model, data, jobs, u_MK, gamma_JD, is_offset=False)
    gamma_NKD = np.zeros((*controlled_NK.shape, gamma_JD.shape[1]))
    gamma_NKD[jobs[:, 0], jobs[:, 1]] = gamma_JD
    return gamma_NKD


def _fit_jobs(
    model: UtilityModel,
    data: FitData,
    jobs: np.ndarray,
    u_MK: np.ndarray,
    gamma_JD: np.ndarray,
    is_offset: bool,
) -> None:
    """Fit the utilities of each job by itself, in place, and its coefficients, unless these are an offset."""
    link_model = check_link(model)
    link = find_compiled_link(model, data.sizes)
    failed = np.ones(len(jobs), bool)
    if link is not None:
        D = 0 if is_offset else gamma_JD.shape[1]
        likelihood.fit_jobs(
            link,
            data.compiled,
            jobs,
            data.prior,
            data.attribute_prior,
            D,
            u_MK,
            gamma_JD,
            failed,
        )
    # Jobs that the compiled code did not fit, or could not.
    for job in np.flatnonzero(failed):
        g, k = jobs[job].tolist()
        offset_D = gamma_JD[job] if is_offset else None
        gamma_D, _, _ = _fit_by_newton(
            link_model, data, [g], k, u_MK, f"group {g}, criterion {k}", offset_D
        )
        if not is_offset:
            gamma_JD[job] = gamma_D


def _fit_by_newton(
    model: LinkModel,
    data: FitData,
    groups: Sequence[int] | np.ndarray,
    k: int,
    u_MK: np.ndarray,
    where: str,
    offset_D: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fit one criterion over some groups with newton.py. Returns γ̂ (D,), I (D, D), and the slopes s_g (B, D).

    u_MK holds the start, and is overwritten. offset_D: δ, if it is taken out and no coefficients are fitted.
    where: what is fitted, for errors.
    Groups are padded to the size of the largest: rollouts that do not exist have no wins, and keep the utility 0.
    """
    B = len(groups)
    n = int(data.sizes[groups].max())
    wins_Bnn = np.zeros((B, n, n))
    z_BnnD = np.zeros((B, n, n, data.attributes_MD.shape[1]))
    u_Bn = np.zeros((B, n))
    for b, g in enumerate(groups):
        size = int(data.sizes[g])
        wins_Bnn[b, :size, :size] = data.wins(g, k)
        z_BnnD[b, :size, :size] = data.contrasts(g)
        u_Bn[b, :size] = u_MK[data.starts[g] : data.starts[g + 1], k]
    offset_Bnn: np.ndarray | float = 0.0
    if offset_D is not None:
        offset_Bnn = z_BnnD @ offset_D
        z_BnnD = z_BnnD[..., :0]
    problem = FitProblem(
        wins_Bnn,
        np.full((B, n), data.prior),
        model.link,
        z_BnnD,
        data.attribute_prior,
        offset_Bnn,
    )
    try:
        u_Bn, gamma_D = problem.solve(u_Bn)
    except SolverError as error:
        raise SolverError(f"{where}: {error}") from None
    for b, g in enumerate(groups):
        u_MK[data.starts[g] : data.starts[g + 1], k] = u_Bn[b, : data.sizes[g]]
    slopes_BD, information_BDD = problem.spread(u_Bn, gamma_D)
    return gamma_D, information_BDD.sum(0), slopes_BD
