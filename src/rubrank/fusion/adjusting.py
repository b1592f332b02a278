"""The one place where attributes enter a fusion: batch and options → values that are weighted and added up, and γ."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rubrank.fusion.adjust import kept_shares, rules_for
from rubrank.fusion.model import find_model
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.observed import marked

if TYPE_CHECKING:
    from rubrank.fusion.rlvr2 import RLVR2


class Adjusted(NamedTuple):
    """What became of the utilities."""

    values_MK: np.ndarray
    gamma_NKD: np.ndarray
    kept_NKD: np.ndarray
    contrasts_MD: np.ndarray


def adjusted(rule: RLVR2, batch: ScoreBatch, u_MK: np.ndarray) -> Adjusted:
    """Fit again with the batch's attributes, from the utilities without them; u_MK is overwritten."""
    assert batch.attributes_MD is not None
    attributes_MD = batch.attributes_MD
    D = attributes_MD.shape[1]
    rules = rules_for(rule.name, rule.adjust, D)
    if not rules:  # attributes were given, but none of them: nothing to fit again
        nothing = np.zeros((batch.N, batch.K, 0))
        return Adjusted(u_MK, nothing, nothing, attributes_MD)
    from rubrank.fusion.models.adjusted import Observed, fit_adjusted
    from rubrank.fusion.models.fit import add_kept, mean_contrasts

    scores_MK, attributes_DM = batch.oriented_MK, np.ascontiguousarray(attributes_MD.T)
    priors = float(rule.prior), float(rule.attribute_prior)
    observed = Observed(scores_MK, batch.starts, batch.margins_NK, attributes_DM, *priors, batch.outcomes)
    gamma, informative_NK = fit_adjusted(find_model(rule.model), observed, rule.pool, u_MK)
    mean_MD = np.empty_like(attributes_MD)
    mean_contrasts(attributes_DM, batch.starts, mean_MD)
    criteria = batch.names if batch.named else range(batch.K)
    kept = kept_shares(rules, gamma, rule.seed, batch.labels, criteria, batch.attribute_names or range(D))
    values_MK = u_MK.copy()
    if kept.any():
        known_MK = marked(scores_MK, batch.outcomes, batch.starts)
        add_kept(kept * gamma * informative_NK[:, :, None], mean_MD, batch.starts, known_MK, values_MK)
    return Adjusted(values_MK, gamma, kept, mean_MD)
