"""Rules that rank rollouts without a model: Borda, Copeland and RLRR in their group, run quantiles in the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rubrank.fusion.result import Fused
from rubrank.fusion.rules import checks
from rubrank.fusion.rules.group_math import (
    average_scores,
    count_wins_minus_losses,
    expand_rows,
    mask_weights,
    rank_densely,
    scale_ranks,
    sum_products,
)
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.spread import SPREAD

# The start of the keys that criteria of single queries share in run quantiles.
_JUDGED_KEY = "judged, "


@dataclass(frozen=True)
class Borda(checks.LocalRule):
    """Borda: count how many rollouts a rollout beats on each criterion.

        scores 1, 0.5, 0.5 on one criterion of weight 2      wins + ½ ties = 2, 0.5, 0.5      R = 4, 1, 1

        R = Σ w (wins + ½ ties)          grade A: ordinal, without a model

    Differences of at most a criterion's margin are ties.
    Missing: a pair that cannot be compared counts ½ for both, so that a missing score neither helps nor hurts.
    """

    name: ClassVar[str] = "borda"
    bounded: ClassVar[bool] = False

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Return the weighted wins of each rollout."""
        return self.fuse_values(batch, self.values(batch))

    def values(self, batch: ScoreBatch) -> np.ndarray:
        """Return wins + ½ ties (M, K)."""
        opponents_M = expand_rows(batch.sizes - 1.0, batch)
        # wins + ½ ties = ½ (opponents + wins − losses)
        return np.asarray(0.5 * (opponents_M[:, None] + count_wins_minus_losses(batch)))

    def fuse_values(self, batch: ScoreBatch, values_MK: np.ndarray) -> Fused:
        """Return the weighted sum of such points, which may have been adjusted for attributes."""
        weights = expand_rows(mask_weights(batch, batch.weights_NK), batch)
        return Fused(batch, self.name, sum_products(values_MK, weights))


@dataclass(frozen=True)
class Copeland(checks.LocalRule):
    """Copeland: on each criterion, does a rollout beat more of the group than beat it?

        scores 1, 0.5, 0.2 on one criterion of weight 2      wins − losses = 2, 0, −2      R = 2, 0, −2

        R = Σ w sign(wins − losses)          grade A: ordinal, without a model

    Differences of at most a criterion's margin are ties. Missing: not compared, 0.
    """

    name: ClassVar[str] = "copeland"
    bounded: ClassVar[bool] = False

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Return the weighted majorities of each rollout."""
        return self.fuse_values(batch, self.values(batch))

    def values(self, batch: ScoreBatch) -> np.ndarray:
        """Return sign(wins − losses) (M, K)."""
        return np.sign(count_wins_minus_losses(batch))

    def fuse_values(self, batch: ScoreBatch, values_MK: np.ndarray) -> Fused:
        """Return the weighted sum of such signs, which may have been adjusted for attributes."""
        return Fused(
            batch, self.name, sum_products(values_MK, expand_rows(batch.weights_NK, batch))
        )


@dataclass(frozen=True)
class RLRR(checks.LocalRule):
    """RLRR: the rank in the group instead of the score.

        weighted means 0.9, 0.4, 0.9, 0.1      dense ranks 1, 2, 1, 3      R = (3 − r)/(3 − 1) = 1, 0.5, 1, 0

        R = (r_max − r)/(r_max − 1), 1 = best; a single rank → 0          grade B
        hybrid:  R = rule + scale · tanh(r_max/r − 1)                       scale 0.1

    In the hybrid form "rule" is the weighted mean of the criteria that a program decides, or of all if there are none.
    `tie`: means that differ by at most this much share a rank, so that rounding errors make no ranks.
    Missing: left out of the mean that is ranked.
    """

    name: ClassVar[str] = "rlrr"

    hybrid: bool = checks.flag(False)
    scale: float = checks.number(0.1)
    tie: float = checks.number(SPREAD)

    @property
    def bounded(self) -> bool:
        """Are the values from 0 to 1? Ranks are; the hybrid form goes beyond 1."""
        return not self.hybrid

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Return the rank of each rollout as a share; in the hybrid form, a mean plus a bonus for the rank."""
        mean_M = average_scores(batch.unit_MK, batch.weights_NK, batch)
        ranks_M = rank_densely(mean_M, batch, self.tie)
        if not self.hybrid:
            value_M = scale_ranks(ranks_M, batch, 0.0)
            return Fused(batch, self.name, value_M, details={"rank": ranks_M})
        is_verified_K = np.array([c.verifier is not None for c in batch.criteria], bool)
        if is_verified_K.any():
            mean_M = average_scores(batch.unit_MK, batch.weights_NK * is_verified_K, batch)
        last_M = expand_rows(np.maximum.reduceat(ranks_M, batch.starts[:-1]), batch)
        value_M = mean_M + self.scale * np.tanh(last_M / ranks_M - 1.0)
        return Fused(batch, self.name, value_M, details={"rank": ranks_M})


@dataclass(frozen=True)
class RunQuantile(checks.LearningRule):
    """Run quantiles: where a score stands among those of the last steps, added up with the weights.

        the last scores of Style are 1, 2, 2, 3, 8     F(1) = 0.1, F(2) = 0.4, F(3) = 0.7, F(8) = 0.9
        this group has 2 and 3                         v = (0.4 − 0.1)/0.8 = 0.375 and (0.7 − 0.1)/0.8 = 0.75

        F = (scores below + ½ scores equal) / all,   v = (F(s) − min F)/(max F − min F),   R = Σ w v / Σ w

    Only the order of the scores counts, within a group and between groups: any increasing map of a criterion's scores
    leaves every reward as it is. Unlike ranks within the group, scores that are close in the run stay close, and a
    group of good rollouts is worth more than a group of bad ones. The two scores of a yes/no criterion become 0 and 1.
    Ours.

    **Stateful**: the scores of the last `steps` batches, the current one included. Criteria of a single query have too
    few scores for a distribution. Judged ones share a distribution with all others of the same domain. Those that a
    program decides use the scores of the group alone, and so do responses that were compared instead of scored.
    Missing: left out, as in the weighted mean.
    """

    name: ClassVar[str] = "run-quantile"
    bounded: ClassVar[bool] = True

    steps: int = checks.number(8, low=1)

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Learn from the batch, then return the weighted mean of each rollout's quantiles."""
        return self.fuse_values(batch, self.values(batch))

    def fuse_values(self, batch: ScoreBatch, values_MK: np.ndarray) -> Fused:
        """Return the weighted mean of these quantiles, which may have been adjusted for attributes."""
        mean_M = average_scores(values_MK, batch.weights_NK, batch)
        return Fused(batch, self.name, mean_M, details={"quantile": values_MK})

    def values(self, batch: ScoreBatch) -> np.ndarray:
        """Learn from the batch, then return v (M, K), NaN where a score is missing."""
        scores_MK = batch.oriented_MK
        keys = self._find_keys(batch)
        # Remember the scores of this batch, and forget those of the oldest one.
        batch_scores: dict[str, list[np.ndarray]] = {}
        for k, key in enumerate(keys):
            if key is not None:
                batch_scores.setdefault(key, []).append(scores_MK[~np.isnan(scores_MK[:, k]), k])
        batches = self.memory.setdefault("batches", [])
        batches.append(
            {key: np.concatenate(scores).tolist() for key, scores in batch_scores.items()}
        )
        del batches[: -int(self.steps)]
        sorted_scores_of = {}
        for key in batch_scores:
            recent_scores = [earlier[key] for earlier in batches if key in earlier]
            sorted_scores_of[key] = np.sort(np.concatenate(recent_scores))

        values_MK = np.full(scores_MK.shape, np.nan)
        for k, key in enumerate(keys):
            if key is not None:
                values_MK[:, k] = _find_quantiles(scores_MK[:, k], sorted_scores_of[key])
                continue
            # No distribution of the run: the group's own scores are the distribution.
            for g in np.flatnonzero(batch.scored_NK[:, k]):
                rows = slice(int(batch.starts[g]), int(batch.starts[g + 1]))
                group_scores = scores_MK[rows, k]
                values_MK[rows, k] = _find_quantiles(group_scores, _sort_known(group_scores))
        for g, k in batch.outcomes:
            rows = slice(int(batch.starts[g]), int(batch.starts[g + 1]))
            win_rates = batch.unit_MK[rows, k]
            values_MK[rows, k] = _find_quantiles(win_rates, _sort_known(win_rates))
        return values_MK

    def _find_keys(self, batch: ScoreBatch) -> list[str | None]:
        """Return the key of the distribution that each criterion uses.

        The key is the criterion's own name, or the description of its domain; None stands for the group's scores.
        """
        groups_K = batch.scored_NK.sum(0)
        keys: list[str | None] = []
        for criterion, groups in zip(batch.criteria, groups_K.tolist(), strict=True):
            was_seen = any(criterion.name in scores for scores in self.memory.get("batches", ()))
            if groups > 1 or was_seen:
                keys.append(criterion.name)
            elif batch.has_declared_domains and criterion.verifier is None:
                keys.append(f"{_JUDGED_KEY}{criterion.domain.description}, {criterion.direction}")
            else:
                keys.append(None)
        return keys


def _sort_known(scores: np.ndarray) -> np.ndarray:
    """Return the scores that are not NaN in ascending order."""
    return np.sort(scores[~np.isnan(scores)])


def _find_quantiles(scores: np.ndarray, sorted_scores: np.ndarray) -> np.ndarray:
    """Return v of scores within a sorted distribution that contains them; ½ if all of it is equal, NaN for NaN."""
    if not len(sorted_scores):
        return np.full(len(scores), np.nan)
    # 2 · len(sorted_scores) · F, as whole numbers: the lowest and the highest score become exactly 0 and 1.
    scores_below = np.searchsorted(sorted_scores, scores, "left")
    scores_up_to = np.searchsorted(sorted_scores, scores, "right")
    places = scores_below + scores_up_to
    lowest = np.searchsorted(sorted_scores, sorted_scores[0], "right")
    highest = len(sorted_scores) + np.searchsorted(sorted_scores, sorted_scores[-1], "left")
    if highest == lowest:
        values = np.full(len(scores), 0.5)
    else:
        values = (places - lowest) / (highest - lowest)
    return np.where(np.isnan(scores), np.nan, values)
