"""Rules that rank rollouts without a model: Borda, Copeland and RLRR in their group, run quantiles in the run.

Every class documents its rule in the same way: what it does, an example with numbers, the formula, how well the formula
is documented elsewhere ("grade"; docs/rules.md explains the letters; "ours" is a rule of this project), and what
happens to missing scores.

Borda, Copeland and run quantiles work in two steps (`AddsValues` in rule.py):

    compute_values(batch)            one number for each rollout and criterion: points, signs, quantiles
    fuse_values(batch, values_MK)    the weighted sum or mean of these numbers: the value R of each rollout

Calling the rule does both. Attribute control steps in between: it takes the influence of length and the like out of the
numbers before they are added up.

In the formulas, w is the weight of a criterion and R the value of a rollout. Letters at the end of a name are the axes
of an array: M rollouts of the batch, N groups, K criteria.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rubrank.fusion.result import Fused
from rubrank.fusion.rule import LearningRule, LocalRule, flag_field, number_field
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


@dataclass(frozen=True)
class Borda(LocalRule):
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
        return self.fuse_values(batch, self.compute_values(batch))

    def compute_values(self, batch: ScoreBatch) -> np.ndarray:
        """Return wins + ½ ties (M, K)."""
        opponents_M = expand_rows(batch.sizes - 1.0, batch)
        # wins + ½ ties = ½ (opponents + wins − losses)
        return np.asarray(0.5 * (opponents_M[:, None] + count_wins_minus_losses(batch)))

    def fuse_values(self, batch: ScoreBatch, values_MK: np.ndarray) -> Fused:
        """Return the weighted sum of such points, which may have been adjusted for attributes."""
        # A criterion without any score in the group gives each of its rollouts ½ per opponent. The mask sets its weight
        # to 0: R would otherwise rise with the number of criteria of other queries' rubrics in the batch.
        weights = expand_rows(mask_weights(batch, batch.weights_NK), batch)
        return Fused(batch, self.name, sum_products(values_MK, weights))


@dataclass(frozen=True)
class Copeland(LocalRule):
    """Copeland: on each criterion, does a rollout beat more of the group than beat it?

        scores 1, 0.5, 0.2 on one criterion of weight 2      wins − losses = 2, 0, −2      R = 2, 0, −2

        R = Σ w sign(wins − losses)          grade A: ordinal, without a model

    Differences of at most a criterion's margin are ties. Missing: not compared, 0.
    """

    name: ClassVar[str] = "copeland"
    bounded: ClassVar[bool] = False

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Return the weighted majorities of each rollout."""
        return self.fuse_values(batch, self.compute_values(batch))

    def compute_values(self, batch: ScoreBatch) -> np.ndarray:
        """Return sign(wins − losses) (M, K)."""
        return np.sign(count_wins_minus_losses(batch))

    def fuse_values(self, batch: ScoreBatch, values_MK: np.ndarray) -> Fused:
        """Return the weighted sum of such signs, which may have been adjusted for attributes."""
        # Unlike Borda's, these weights need no mask: the signs of a criterion without scores are 0.
        weights = expand_rows(batch.weights_NK, batch)
        return Fused(batch, self.name, sum_products(values_MK, weights))


@dataclass(frozen=True)
class RLRR(LocalRule):
    """RLRR: the rank in the group instead of the score.

        weighted means 0.9, 0.4, 0.9, 0.1      dense ranks 1, 2, 1, 3      R = (3 − r)/(3 − 1) = 1, 0.5, 1, 0

        R = (r_max − r)/(r_max − 1)                                         grade B
        hybrid:  R = mean + scale · tanh(r_max/r − 1)                       scale 0.1

    r is the dense rank, 1 for the best, and r_max that of the worst rollout of the group. R is 1 for the best and 0 for
    the worst; 0 for all if they share one rank.
    In the hybrid form the mean is that of the criteria that a program decides, or of all criteria if there are none.
    `tie`: means that differ by at most this much share a rank, so that rounding errors make no ranks.
    Missing: left out of the mean that is ranked.
    """

    name: ClassVar[str] = "rlrr"

    hybrid: bool = flag_field(False)
    scale: float = number_field(0.1)
    tie: float = number_field(SPREAD)

    @property
    def bounded(self) -> bool:
        """Are the values from 0 to 1? Ranks are; the hybrid form goes beyond 1."""
        return not self.hybrid

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Return the rank of each rollout as a share; in the hybrid form, a mean plus a bonus for the rank."""
        mean_M = average_scores(batch.unit_MK, batch.weights_NK, batch)
        ranks_M = rank_densely(mean_M, batch, self.tie)
        if self.hybrid:
            is_verified_K = np.array([c.verifier is not None for c in batch.criteria], bool)
            if is_verified_K.any():
                mean_M = average_scores(batch.unit_MK, batch.weights_NK * is_verified_K, batch)
            worst_rank_M = expand_rows(np.maximum.reduceat(ranks_M, batch.starts[:-1]), batch)
            value_M = mean_M + self.scale * np.tanh(worst_rank_M / ranks_M - 1.0)
        else:
            value_M = scale_ranks(ranks_M, batch, single=0.0)
        return Fused(batch, self.name, value_M, details={"rank": ranks_M})


@dataclass(frozen=True)
class RunQuantile(LearningRule):
    """Run quantiles: where a score stands among those of the last steps, added up with the weights.

        the last scores of Style are 1, 2, 2, 3, 8     F(1) = 0.1, F(2) = 0.4, F(3) = 0.7, F(8) = 0.9
        this group has 2 and 3                         v = (0.4 − 0.1)/0.8 = 0.375 and (0.7 − 0.1)/0.8 = 0.75

        F = (scores below + ½ scores equal) / all,   v = (F(s) − min F)/(max F − min F),   R = Σ w v / Σ w

    Only the order of the scores counts, within a group and between groups: any increasing map of a criterion's scores
    leaves every reward as it is. Unlike ranks within the group, scores that are close in the run stay close, and a
    group of good rollouts is worth more than a group of bad ones. The two scores of a yes/no criterion become 0 and 1.
    Ours.

    **Stateful**: remembers the scores of the last `steps` batches, the current one included. A criterion of a single
    query has too few scores for a distribution of its own: a judged one shares a distribution with all others of the
    same domain, and one that a program decides is compared within its group alone. So are responses that were compared
    instead of scored.
    Missing: left out, as in the weighted mean.

    `memory` has one entry, "batches": for each of the last batches, key of a distribution (`_choose_keys`) → scores,
    higher is better.
    """

    name: ClassVar[str] = "run-quantile"
    bounded: ClassVar[bool] = True

    steps: int = number_field(8, low=1)

    def __call__(self, batch: ScoreBatch) -> Fused:
        """Learn from the batch, then return the weighted mean of each rollout's quantiles."""
        return self.fuse_values(batch, self.compute_values(batch))

    def compute_values(self, batch: ScoreBatch) -> np.ndarray:
        """Learn from the batch, then return v (M, K), NaN where a score is missing.

        Every call adds the batch to the memory, so call it once for each batch.
        """
        scores_MK = batch.oriented_MK
        keys = self._choose_keys(batch)
        distributions = self._learn_distributions(scores_MK, keys)
        values_MK = np.full(scores_MK.shape, np.nan)
        # Cells (group, criterion) whose numbers are compared within the group alone
        single_cells = []
        for k, key in enumerate(keys):
            if key is not None:
                values_MK[:, k] = _find_quantiles(scores_MK[:, k], distributions[key])
            else:
                single_cells += [(g, k, scores_MK) for g in np.flatnonzero(batch.scored_NK[:, k])]
        # Where responses were compared there are no scores, only win rates, which have no meaning in another group.
        single_cells += [(g, k, batch.unit_MK) for g, k in batch.outcomes]
        for g, k, numbers_MK in single_cells:
            rows = slice(int(batch.starts[g]), int(batch.starts[g + 1]))
            numbers = numbers_MK[rows, k]
            values_MK[rows, k] = _find_quantiles(numbers, np.sort(numbers[~np.isnan(numbers)]))
        return values_MK

    def fuse_values(self, batch: ScoreBatch, values_MK: np.ndarray) -> Fused:
        """Return the weighted mean of these quantiles, which may have been adjusted for attributes."""
        mean_M = average_scores(values_MK, batch.weights_NK, batch)
        return Fused(batch, self.name, mean_M, details={"quantile": values_MK})

    def _choose_keys(self, batch: ScoreBatch) -> list[str | None]:
        """Return, for each criterion, the key of the distribution that its scores belong to.

        "Style"                      its own: several groups of this batch have scores on it, or earlier batches did
        "judged, 1 to 5, higher"     shared by the judged criteria of single queries that have this domain and direction
        None                         no distribution: the scores of the group alone are used
        """
        remembered = self.memory.get("batches", ())
        groups_with_scores_K = batch.scored_NK.sum(0)
        keys: list[str | None] = []
        for criterion, groups in zip(batch.criteria, groups_with_scores_K.tolist(), strict=True):
            if groups > 1 or any(criterion.name in scores_of for scores_of in remembered):
                keys.append(criterion.name)
            elif batch.has_declared_domains and criterion.verifier is None:
                # Only declared domains say that scores of two criteria are on the same scale.
                keys.append(f"judged, {criterion.domain.description}, {criterion.direction}")
            else:
                keys.append(None)
        return keys

    def _learn_distributions(
        self, scores_MK: np.ndarray, keys: list[str | None]
    ) -> dict[str, np.ndarray]:
        """Remember the scores of a batch and forget the oldest batch; return key → sorted scores of the last ones."""
        columns_of: dict[str, list[np.ndarray]] = {}
        for k, key in enumerate(keys):
            if key is not None:
                columns_of.setdefault(key, []).append(scores_MK[~np.isnan(scores_MK[:, k]), k])
        batches = self.memory.setdefault("batches", [])
        batches.append(
            {key: np.concatenate(columns).tolist() for key, columns in columns_of.items()}
        )
        del batches[: -int(self.steps)]
        distributions = {}
        for key in columns_of:
            recent_scores = [scores_of[key] for scores_of in batches if key in scores_of]
            distributions[key] = np.sort(np.concatenate(recent_scores))
        return distributions


def _find_quantiles(scores: np.ndarray, sorted_scores: np.ndarray) -> np.ndarray:
    """Return v = (F(s) − min F)/(max F − min F) of scores within a distribution, given as its scores in order.

    The distribution contains the scores. v is ½ if all of it is equal, and NaN for a score of NaN.

        sorted scores 1, 2, 2, 3, 8      score 2: 1 is below, 3 are at most 2, so 2nF = 1 + 3 = 4 (F = 0.4, n = 5)
                                         lowest 2nF = 0 + 1 = 1, highest 2nF = 4 + 5 = 9, v = (4 − 1)/(9 − 1) = 0.375
    """
    n = len(sorted_scores)
    if not n:
        return np.full(len(scores), np.nan)
    # F = (below + ½ equal)/n, so 2nF = below + (below + equal) is a whole number. 2n cancels out of v, and without
    # rounding the lowest and the highest score become exactly 0 and 1.
    below = np.searchsorted(sorted_scores, scores, "left")
    at_most = np.searchsorted(sorted_scores, scores, "right")
    lowest = np.searchsorted(sorted_scores, sorted_scores[0], "right")  # none is below
    highest = np.searchsorted(sorted_scores, sorted_scores[-1], "left") + n  # all are at most that
    if highest == lowest:
        values = np.full(len(scores), 0.5)
    else:
        values = (below + at_most - lowest) / (highest - lowest)
    return np.where(np.isnan(scores), np.nan, values)
