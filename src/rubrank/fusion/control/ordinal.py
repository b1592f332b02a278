"""Attribute control in the ordinal fit: a batch and the options of RLVR² → adjusted utilities, and what was taken out.

    pool="batch"    coefficients over all groups of the batch, shrunk; utilities are fitted again without them
    pool="run"      the same, over the steps of a run (`RunningEstimate`)
    pool="group"    as in the paper: coefficients of each group by itself, v = u + (γ − δ)·z̃; δ is taken out of γ

    utilities u ─► estimate ─► γ̂ and its error ─► shrink ─► γ̃ ─► share of each attribute ─► δ ─► refit ─► values
                   │                                             (`adjust`, drawn per group)
                   ├ "batch"           over the groups of this batch
                   ├ "run"             the same, added to the sums of earlier steps
                   ├ batch_estimate    given: this batch is a part of a larger one
                   └ "group"           over one group; nothing is shrunk, and (γ − δ)·z̃ is added instead of a refit

`models/attribute_fit.py` has the mathematics. A single group has too few comparisons to separate length from quality,
so the priors decide; pool="group" exists for comparison with the paper. Rules without an ordinal fit have
`control/linear.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rubrank.fusion.control.adjustment import choose_taken, name_columns, select_criteria
from rubrank.fusion.control.estimate import BatchEstimate
from rubrank.fusion.models.model import find_model
from rubrank.fusion.result import AttributeControl
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.outcomes import Cells, mark_compared

if TYPE_CHECKING:
    from rubrank.fusion.models.attribute_fit import FitData
    from rubrank.fusion.rlvr2 import RLVR2


def control_attributes(
    rule: RLVR2, batch: ScoreBatch, u_MK: np.ndarray, soft: Cells
) -> AttributeControl:
    """Take the influence of attributes out of the utilities u_MK, which are not changed themselves.

    soft: outcomes of uncertain verdicts, which are fitted instead of the order of the scores.
    """
    # Imported here: it loads numba, which `import rubrank` should not.
    from rubrank.fusion.models.attribute_fit import refit

    if rule.pool == "group":
        return _control_groups(rule, batch, u_MK, soft)
    batch_estimate = rule.batch_estimate or estimate_attributes(rule, batch, u_MK, soft)
    influence = batch_estimate.select(name_columns(batch)[0])
    data, controlled_NK = make_fit_data(rule, batch, u_MK, soft, batch_estimate.scale_D)
    taken_NKD = choose_taken(rule, batch, influence.shrunk_KD, controlled_NK)
    values_MK = refit(find_model(rule.model), data, taken_NKD, u_MK)
    return influence.describe(rule.pool, values_MK, taken_NKD, data.average_contrasts())


def estimate_attributes(
    rule: RLVR2, batch: ScoreBatch, u_MK: np.ndarray, soft: Cells
) -> BatchEstimate:
    """Estimate the influence of attributes over the batch, or over the run so far with this batch as its last step."""
    from rubrank.fusion.models.attribute_fit import estimate

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
    from rubrank.fusion.models.attribute_fit import FitData

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
    from rubrank.fusion.models.attribute_fit import estimate, fit_groups

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
    from rubrank.fusion.models.attribute_fit import fit_groups

    data, controlled_NK = make_fit_data(rule, batch, u_MK, soft)
    values_MK = u_MK.copy()
    gamma_NKD = fit_groups(find_model(rule.model), data, controlled_NK, values_MK)
    taken_NKD = choose_taken(rule, batch, gamma_NKD, controlled_NK)
    contrasts_MD = data.average_contrasts()
    kept_MKD = np.repeat(gamma_NKD - taken_NKD, data.sizes, axis=0)
    is_known_MK = ~np.isnan(mark_compared(data.scores_MK, data.outcomes, data.starts))
    # A rollout that was not scored on a criterion stays at 0 there.
    values_MK += np.where(is_known_MK, np.einsum("mkd,md->mk", kept_MKD, contrasts_MD), 0.0)
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
