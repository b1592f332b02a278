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

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rubrank.fusion.control.adjustment import draw_shares, expand_adjustments
from rubrank.fusion.control.estimate import BatchEstimate, InfluenceEstimate
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

    data, controlled_NK = make_fit_data(rule, batch, u_MK, soft)
    criteria, attributes = name_columns(batch)
    adjustments = expand_adjustments(rule.name, rule.adjust, len(attributes))
    share_NKD, is_two_sided_D = draw_shares(
        adjustments, rule.seed, batch.labels, criteria, attributes
    )
    if rule.pool == "group":
        return _control_groups(rule, data, controlled_NK, share_NKD, is_two_sided_D, u_MK)
    if rule.batch_estimate is None:
        influence = _estimate_pooled(rule, data, controlled_NK, criteria, attributes, u_MK)
    else:
        influence = rule.batch_estimate.select(criteria)
    taken_NKD = choose_taken(influence, controlled_NK, share_NKD, is_two_sided_D)
    return AttributeControl(
        rule.pool,
        values_MK=refit(find_model(rule.model), data, taken_NKD, u_MK),
        gamma_NKD=np.broadcast_to(influence.gamma_KD, taken_NKD.shape),
        se_NKD=np.broadcast_to(influence.se_KD, taken_NKD.shape),
        shrunk_NKD=np.broadcast_to(influence.shrunk_KD, taken_NKD.shape),
        n_NK=np.broadcast_to(influence.n_K, controlled_NK.shape),
        taken_NKD=taken_NKD,
        contrasts_MD=data.average_contrasts(),
    )


def estimate_attributes(
    rule: RLVR2, batch: ScoreBatch, u_MK: np.ndarray, soft: Cells
) -> BatchEstimate:
    """Return the influence of attributes, for fusing parts of a larger batch that has the same groups."""
    data, controlled_NK = make_fit_data(rule, batch, u_MK, soft)
    criteria, attributes = name_columns(batch)
    influence = _estimate_pooled(rule, data, controlled_NK, criteria, attributes, u_MK)
    return BatchEstimate(data.scale_D, tuple(criteria), influence)


def make_fit_data(
    rule: RLVR2, batch: ScoreBatch, u_MK: np.ndarray, soft: Cells
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
        known_scale_D=None if rule.batch_estimate is None else rule.batch_estimate.scale_D.copy(),
    )
    return data, data.find_informative(u_MK) & select_criteria(rule.adjust_criteria, batch)


def name_columns(batch: ScoreBatch) -> tuple[Sequence[Hashable], Sequence[Hashable]]:
    """Return the names of the criteria and of the attributes; numbers if they have no names.

    Random draws depend on these names, and a running estimate stores its sums under them.
    """
    assert batch.attributes_MD is not None
    criteria: Sequence[Hashable] = batch.names if batch.has_names else range(batch.K)
    return criteria, batch.attribute_names or range(batch.attributes_MD.shape[1])


def select_criteria(
    adjust_criteria: Sequence[str | int] | str | None, batch: ScoreBatch
) -> np.ndarray:
    """Return (N, K) or (1, K): is the criterion controlled? Those that are named, else those that no program decides.

    Programs have no bias towards length or headings. Plain arrays do not say who decided, so all their criteria are
    controlled.
    """
    if adjust_criteria is None:
        return np.asarray(
            batch.collect_per_group(lambda criterion: criterion.verifier is None), bool
        )
    if adjust_criteria == "all":
        return np.ones((1, batch.K), bool)
    names = batch.names if batch.has_names else tuple(str(k) for k in range(batch.K))
    selected = {str(name) for name in adjust_criteria}
    return np.array([[name in selected for name in names]], bool)


def choose_taken(
    influence: InfluenceEstimate,
    controlled_NK: np.ndarray,
    share_NKD: np.ndarray,
    is_two_sided_D: np.ndarray,
) -> np.ndarray:
    """Return δ (N, K, D): the share of the shrunk coefficient γ̃, 0 where a criterion is not controlled."""
    # `attenuate` takes out a liking of an attribute only, `remove` a dislike as well.
    liking_KD = np.maximum(influence.shrunk_KD, 0.0)
    removable_KD = np.where(is_two_sided_D, influence.shrunk_KD, liking_KD)
    return np.where(controlled_NK[:, :, None], share_NKD * removable_KD, 0.0)


def _estimate_pooled(
    rule: RLVR2,
    data: FitData,
    controlled_NK: np.ndarray,
    criteria: Sequence[Hashable],
    attributes: Sequence[Hashable],
    u_MK: np.ndarray,
) -> InfluenceEstimate:
    """Estimate the influence over the batch, or over the run so far with this batch as its last step."""
    from rubrank.fusion.models.attribute_fit import estimate

    influence, _ = estimate(find_model(rule.model), data, controlled_NK, u_MK)
    if rule.pool == "run":
        # What was learnt before counts too: the estimate of one step has few groups.
        influence = rule.running.learn(influence, criteria, attributes, data.attribute_prior)
    return influence


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
    rule: RLVR2,
    data: FitData,
    controlled_NK: np.ndarray,
    share_NKD: np.ndarray,
    is_two_sided_D: np.ndarray,
    u_MK: np.ndarray,
) -> AttributeControl:
    """Control each group by itself, as in the paper: v = u + (γ − δ)·z̃, with u and γ of the group's joint fit.

    Nothing is shrunk: one group says nothing about the error of its coefficients.
    """
    from rubrank.fusion.models.attribute_fit import fit_groups

    fitted_MK = u_MK.copy()
    gamma_NKD = fit_groups(find_model(rule.model), data, controlled_NK, fitted_MK)
    taken_NKD = np.where(is_two_sided_D | (gamma_NKD > 0.0), share_NKD * gamma_NKD, 0.0)
    contrasts_MD = data.average_contrasts()
    values_MK = fitted_MK
    kept_NKD = gamma_NKD - taken_NKD
    if kept_NKD.any():
        kept_MKD = np.repeat(kept_NKD, data.sizes, axis=0)
        is_known_MK = ~np.isnan(mark_compared(data.scores_MK, data.outcomes, data.starts))
        # A rollout that was not scored on a criterion stays at 0 there.
        kept_MK = np.einsum("mkd,md->mk", kept_MKD, contrasts_MD)
        values_MK = fitted_MK + np.where(is_known_MK, kept_MK, 0.0)
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
