"""Wins and losses within the group on each criterion, for Borda and Copeland.

    scores 1, 0.5, 0.5, NaN      wins 2, 0, 0, 0      losses 0, 1, 1, 0: a missing score is not compared

Margins and observed outcomes count as in RLVR². All rollouts are compared with the first of their group, then all with
the second, and so on. This takes as many steps as the largest group has rollouts, and no memory for all pairs.
"""

from __future__ import annotations

import numpy as np

from rubrank.fusion.rules.group_math import expand_rows
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.outcomes import least_difference


def wins_minus_losses(batch: ScoreBatch) -> np.ndarray:
    """(M, K): wins minus losses against the rest of the group."""
    scores_MK = batch.oriented_MK
    margin = expand_rows(batch.margins_NK, batch) if batch.margins_NK.any() else None
    balance_MK = np.zeros_like(scores_MK)
    for j in range(int(batch.sizes.max(initial=0))):
        others_NK = scores_MK[batch.starts[:-1] + np.minimum(j, batch.sizes - 1)]
        others_NK[batch.sizes <= j] = np.nan
        others_MK = expand_rows(others_NK, batch)
        difference_MK = scores_MK - others_MK
        least = 0.0 if margin is None else least_difference(scores_MK, others_MK, margin)
        balance_MK += difference_MK > least  # NaN is not above anything
        balance_MK -= difference_MK < -least
    for (g, k), outcome_GG in batch.outcomes.items():
        balance_GG = np.where(np.isnan(outcome_GG), 0.0, 2.0 * outcome_GG - 1.0)
        np.fill_diagonal(balance_GG, 0.0)
        balance_MK[batch.starts[g] : batch.starts[g + 1], k] = balance_GG.sum(1)
    return balance_MK
