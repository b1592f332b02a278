"""Graded wins: how far a rollout is ahead counts, up to a limit. No model is fitted.

    o(i, j) = ½ + ½ · clip((s_i − s_j) / (τW), −1, 1)        u_i = 2 · mean_j o(i, j) − 1, itself included

    four rollouts, one of which passes (0 or 1)     u = 0.75, −0.25, −0.25, −0.25: a gap of 1 for every τ
    scores 0.2, 0.4, 0.9, W = 1, τ = 0.5            u = −0.47, −0.2, 0.67
    the same, τ = 1                                 u = −0.3, −0.1, 0.4: the scores around their mean
    the same, τ = 0.01                              u = −0.67, 0, 0.67: Borda, only who is better counts

W is the width of the criterion's domain. With width="run" it is the range from 5% to 95% of the last 384 scores of the
run; for plain arrays without a declared domain, the same range of the batch. The result then does not change with the
unit of the scores.

Letters at the end of a name are the axes of an array: M rollouts, N groups, K criteria, G rollouts of one group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rubrank._choices import Width
from rubrank.fusion.rules.group_math import expand_rows, iterate_differences
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.criterion import SLACK
from rubrank.verifiers.domain import UNIT

MOST_RECENT = 384
"""Scores of a criterion that the range of a run is taken from."""
_RANGE = (5.0, 95.0)  # percentiles: one outlier must not set the width


class StrictOrder:
    """The utilities of a group in which each rollout beats all those below it: the unit of scale="utility"."""

    name = "graded"
    weighted = True

    def fit(self, wins: np.ndarray, ridge: np.ndarray) -> np.ndarray:
        """Return (wins − losses) / rollouts."""
        return np.asarray((wins.sum(-1) - wins.sum(-2)) / wins.shape[-1])


STRICT_ORDER = StrictOrder()


@dataclass(eq=False, slots=True)
class RecentScores:
    """The last scores of each criterion of a run."""

    scores: dict[str, np.ndarray] = field(default_factory=dict)

    def add(self, name: str, scores: np.ndarray) -> np.ndarray:
        """Add the scores of a step, and return the last `MOST_RECENT`."""
        previous = self.scores.get(name, np.zeros(0))
        self.scores[name] = np.concatenate([previous, scores])[-MOST_RECENT:]
        return self.scores[name]

    def state(self) -> dict[str, list[float]]:
        """Return the scores as JSON data."""
        return {name: scores.tolist() for name, scores in self.scores.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.scores = {name: np.array(scores, float) for name, scores in state.items()}


def measure_widths(batch: ScoreBatch, width: Width, recent: RecentScores) -> np.ndarray:
    """Return W, (N, K) or (1, K). With width="run", the scores of the batch are added to `recent` first."""
    if width == "run":
        widths_K = []
        for k, name in enumerate(batch.names):
            scores = batch.oriented_MK[:, k]
            widths_K.append(_measure_range(recent.add(name, scores[~np.isnan(scores)])))
        return np.array([widths_K])
    domain_NK = batch.collect_per_group(
        lambda criterion: criterion.domain.high - criterion.domain.low
    )
    domain_NK = domain_NK.astype(float)
    if batch.has_declared_domains:
        return domain_NK
    # Criteria of plain arrays have the domain from 0 to 1 by default. Scores outside it show that none was declared.
    is_outside_MK = (batch.scores_MK < -SLACK) | (batch.scores_MK > 1.0 + SLACK)
    has_default_domain_K = np.array([criterion.domain is UNIT for criterion in batch.criteria])
    is_undeclared_K = has_default_domain_K & is_outside_MK.any(0)
    if is_undeclared_K.any():
        domain_NK = domain_NK.copy()
        for k in np.flatnonzero(is_undeclared_K):
            scores = batch.scores_MK[:, k]
            domain_NK[:, k] = _measure_range(scores[~np.isnan(scores)])
    batch.select_criteria(np.flatnonzero(~is_undeclared_K).tolist()).check_domains()
    return domain_NK


def _measure_range(scores: np.ndarray) -> float:
    """Return the range from 5% to 95% of the scores; 0 without any."""
    if not len(scores):
        return 0.0
    low, high = np.percentile(scores, _RANGE)
    return float(high - low)


def grade_wins(batch: ScoreBatch, tau: float, width_NK: np.ndarray) -> np.ndarray:
    """Return u (M, K), 0 for a rollout without a score. Differences up to the criterion's margin are ties."""
    limit_MK = expand_rows(tau * width_NK, batch)
    lead_MK = np.zeros(batch.oriented_MK.shape)
    count_MK = np.zeros(batch.oriented_MK.shape)
    for difference_MK in iterate_differences(batch):
        is_compared_MK = ~np.isnan(difference_MK)
        # A width of 0 means that nearly all scores are equal: then any difference counts fully.
        share_MK = np.sign(difference_MK)
        np.divide(difference_MK, limit_MK, out=share_MK, where=limit_MK > 0.0)
        lead_MK += np.where(is_compared_MK, np.clip(share_MK, -1.0, 1.0), 0.0)
        count_MK += is_compared_MK
    u_MK = lead_MK / np.maximum(count_MK, 1.0)
    # Rollouts that a judge compared have no scores. Their outcomes are shares of a win already, so τ does not apply.
    for (g, k), outcomes_GG in batch.outcomes.items():
        lead_GG = 2.0 * outcomes_GG - 1.0
        np.fill_diagonal(lead_GG, 0.0)
        is_compared_GG = ~np.isnan(lead_GG)
        rows = slice(batch.starts[g], batch.starts[g + 1])
        u_MK[rows, k] = np.where(is_compared_GG, lead_GG, 0.0).sum(1) / is_compared_GG.sum(1)
    return u_MK
