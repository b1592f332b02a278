"""Attribute control: what of a verdict an attribute explains, how sure that is, and utilities without it.

Over the n groups of a batch about which criterion k says anything, with e = u_i − u_j + γ·z_ij:

    1  joint fit   (u, γ̂) = argmax Σ_g Σ_{i<j} [o log F(e) + (1−o) log F(−e)] − (α/2)Σu² − (β/2)|γ|²
    2  its error   V = n/(n−1) Σ_g (s_g − s̄)(s_g − s̄)ᵀ,   se_d = √[(I+βE)⁻¹ V (I+βE)⁻¹]_dd
    3  shrunk      γ̃_d = γ̂_d · max(0, 1 − (c·se_d/γ̂_d)²),   c = t_{.975, n−1};   0 if n < 8
    4  taken out   δ, made of γ̃ by `adjust.py`
    5  refit       v_g = argmax_u of the likelihood with e = u_i − u_j + δ·z_ij; nothing is added back

Groups are the independent units, not pairs: hence the error from the spread of s_g over groups. What chance may explain
stays in the verdict: hence step 3. Step 1 and the sums of step 2 are compiled in `pooled.py`, step 5 in `offset.py`;
other models with a link, very large groups and what did not converge there go to `newton.py`. Where δ = 0 nothing is
fitted again: v is u, bit for bit.
"""

from __future__ import annotations

import numpy as np

from rubrank.fusion.estimate import InfluenceEstimate
from rubrank.fusion.model import LinkModel, UtilityModel
from rubrank.fusion.models import offset, pooled
from rubrank.fusion.models.adjusted import Observed, compiled_link, link_model, solved
from rubrank.fusion.models.newton import FitProblem

_ROOM = 1 << 19
"""Numbers that a pooled fit keeps from one pass to the next, about (4 MB): criteria are fitted a few at a time where
there are more, which does not change a bit of them."""


def estimate(
    model: UtilityModel,
    observed: Observed,
    wanted_NK: np.ndarray,
    u_MK: np.ndarray,
    fitted_MK: np.ndarray | None = None,
) -> InfluenceEstimate:
    """Steps 1 to 3, from the utilities without attributes, which are left alone.

    wanted_NK: the groups that each criterion's coefficient is fitted over: those about which it says anything.
    fitted_MK: where the utilities of the joint fit go, if they are wanted.
    """
    checked, K = link_model(model), u_MK.shape[1]
    at_once = max(1, _ROOM // max(1, len(u_MK) * (len(observed.attributes_DM) + 1)))
    parts = []
    for first in range(0, max(K, 1), at_once):
        some = slice(first, min(first + at_once, K))
        seen, part_MK = observed.columns(some), u_MK[:, some].copy()
        parts.append(_sums(checked, seen, wanted_NK[:, some], part_MK, first))
        if fitted_MK is not None:
            fitted_MK[:, some] = part_MK
    gamma_KD, information_KDD, variance_KDD = (np.concatenate(found) for found in zip(*parts, strict=True))
    return InfluenceEstimate.of(gamma_KD, information_KDD, variance_KDD, wanted_NK.sum(0), observed.attribute_prior)


def _sums(
    model: LinkModel, observed: Observed, wanted_NK: np.ndarray, u_MK: np.ndarray, first: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """γ̂, I and V of some criteria, the first of which is number `first`; u_MK goes out as those of the joint fit."""
    K, D = u_MK.shape[1], len(observed.attributes_DM)
    gamma_KD, left_K = np.zeros((K, D)), wanted_NK.any(0)
    information_KDD, variance_KDD = np.zeros((K, D, D)), np.full((K, D, D), np.nan)
    jobs, link = observed.jobs(wanted_NK), compiled_link(model, observed)
    if link is not None and len(jobs):
        left_K = _compiled(link, observed, jobs, u_MK, gamma_KD, information_KDD, variance_KDD)
    for k in np.flatnonzero(left_K):
        groups = jobs[jobs[:, 1] == k, 0]
        found = _by_newton(model, observed, groups, int(k), u_MK, f"criterion {first + k}")
        gamma_KD[k], information_KDD[k], variance_KDD[k] = found
    return gamma_KD, information_KDD, variance_KDD


def _compiled(
    link: int,
    observed: Observed,
    jobs: np.ndarray,
    u_MK: np.ndarray,
    gamma_KD: np.ndarray,
    information_KDD: np.ndarray,
    variance_KDD: np.ndarray,
) -> np.ndarray:
    """Fit in place; returns which criteria are left to `newton.py`, with the utilities that they had before."""
    K, D = gamma_KD.shape
    start_MK, failed_K = u_MK.copy(), np.zeros(K, bool)
    information, variance = np.zeros((2, K, D * (D + 1) // 2))
    priors = (observed.prior, observed.attribute_prior)
    pooled.fit_pooled(link, observed.data, jobs, *priors, u_MK, gamma_KD, information, variance, failed_K)
    row, column = np.tril_indices(D)
    for packed, full in ((information, information_KDD), (variance, variance_KDD)):
        full[:, row, column] = packed
        full[:, column, row] = packed
    u_MK[:, failed_K] = start_MK[:, failed_K]
    return failed_K


def _by_newton(
    model: LinkModel, observed: Observed, groups: np.ndarray, k: int, u_MK: np.ndarray, name: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """γ̂, I and V of one criterion; smaller groups are padded."""
    sizes = observed.sizes[groups]
    B, n = len(groups), int(sizes.max())
    wins, z = np.zeros((B, n, n)), np.zeros((B, n, n, len(observed.attributes_DM)))
    start = np.zeros((B, n))
    for b, (g, size) in enumerate(zip(groups, sizes, strict=True)):
        wins[b, :size, :size], z[b, :size, :size] = observed.wins(g, k), observed.contrasts(g)
        start[b, :size] = u_MK[observed.starts[g] : observed.starts[g + 1], k]
    ridge = np.full((B, n), observed.prior)
    problem = FitProblem(wins, z, ridge, observed.attribute_prior, model.link, pooled=True)
    u, gamma = solved(problem, start, f"{name}, pooled over {B} groups")
    for b, (g, size) in enumerate(zip(groups, sizes, strict=True)):
        u_MK[observed.starts[g] : observed.starts[g + 1], k] = u[b, :size]
    slopes, information = problem.spread(u, gamma)
    centred = slopes - slopes.mean(0)
    scale = B / (B - 1.0) if B > 1 else np.nan
    return gamma[0], information.sum(0), scale * centred.T @ centred


def refit(model: UtilityModel, observed: Observed, delta_NKD: np.ndarray, u_MK: np.ndarray) -> np.ndarray:
    """Step 5: v (M, K), from the utilities without attributes u_MK; the same array where nothing is taken out.

    delta_NKD must be 0 where a criterion says nothing about a group.
    """
    wanted_NK = np.asarray(delta_NKD.any(2))
    if not wanted_NK.any():
        return u_MK
    checked = link_model(model)
    v_MK, jobs, link = u_MK.copy(), observed.jobs(wanted_NK), compiled_link(checked, observed)
    delta_JD, left = np.ascontiguousarray(delta_NKD[jobs[:, 0], jobs[:, 1]]), np.ones(len(jobs), bool)
    if link is not None:
        offset.refit(link, observed.data, jobs, delta_JD, observed.prior, v_MK, left)
    for job in np.flatnonzero(left):
        g, k = jobs[job]
        rows = slice(observed.starts[g], observed.starts[g + 1])
        n = int(observed.sizes[g])
        problem = FitProblem(
            observed.wins(g, k)[None],
            np.zeros((1, 1, 1, 0)),
            np.full((1, n), observed.prior),
            1.0,
            checked.link,
            pooled=False,
            offset_Bnn=(observed.contrasts(g) @ delta_JD[job])[None],
        )
        v_MK[rows, k] = solved(problem, v_MK[None, rows, k], f"group {g}, criterion {k}, refit")[0][0]
    return v_MK
