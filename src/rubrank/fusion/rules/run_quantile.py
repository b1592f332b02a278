"""Run quantiles: where a score stands among those of the last steps, added up with the weights.

    the last scores of Style are 1, 2, 2, 3, 8     F(1) = 0.1, F(2) = 0.4, F(3) = 0.7, F(8) = 0.9
    this group has 2 and 3                         v = (0.4 − 0.1)/0.8 = 0.375 and (0.7 − 0.1)/0.8 = 0.75

    F = (scores below + ½ scores equal) / all,   v = (F(s) − min F)/(max F − min F),   R = Σ w v / Σ w

Only the order of the scores counts, within a group and between groups: any increasing map of a criterion's scores
leaves every reward as it is. Unlike ranks within the group, scores that are close in the run stay close, and a group
of good rollouts is worth more than a group of bad ones. The two scores of a yes/no criterion become 0 and 1. Ours.

**Stateful**: the scores of the last `steps` batches, the current one included.
Criteria of a single query have too few scores for a distribution. Judged ones share a distribution with all others of
the same domain. Those that a program decides use the scores of the group alone, and so do responses that were compared
instead of scored.
Missing: left out, as in the weighted mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from rubrank.errors import InvalidInput
from rubrank.fusion.result import Fused
from rubrank.fusion.rules import checks
from rubrank.fusion.rules.group_math import average_scores
from rubrank.scores.batch import ScoreBatch

_STATE_VERSION = 1
_JUDGED_KEY = "judged, "  # the start of the keys that criteria of single queries share


@dataclass
class RecentBatches:
    """The scores of the last batches, oldest first: name of the criterion → scores, higher is better."""

    batches: list[dict[str, np.ndarray]] = field(default_factory=list)


@dataclass(frozen=True)
class RunQuantile(checks.CheckedRule):
    """Run quantiles: the weighted mean of quantiles within the run."""

    name: ClassVar[str] = "run-quantile"
    bounded: ClassVar[bool] = True

    steps: int = checks.number(8, low=1)
    memory: RecentBatches = field(
        init=False, repr=False, compare=False, default_factory=RecentBatches
    )

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
        batches = self.memory.batches
        batches.append({key: np.concatenate(scores) for key, scores in batch_scores.items()})
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
            was_seen = any(criterion.name in scores for scores in self.memory.batches)
            if groups > 1 or was_seen:
                keys.append(criterion.name)
            elif batch.has_declared_domains and criterion.verifier is None:
                keys.append(f"{_JUDGED_KEY}{criterion.domain.description}, {criterion.direction}")
            else:
                keys.append(None)
        return keys

    def state(self) -> dict[str, Any]:
        """Return the scores of the last batches as JSON data."""
        batches = []
        for batch_scores in self.memory.batches:
            batches.append({key: scores.tolist() for key, scores in batch_scores.items()})
        return {"rule": self.name, "version": _STATE_VERSION, "batches": batches}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        saved = checks.check_state(self, _STATE_VERSION, state)
        try:
            batches = []
            for batch_scores in saved["batches"]:
                batches.append(
                    {
                        str(key): np.array(scores, float).reshape(-1)
                        for key, scores in batch_scores.items()
                    }
                )
            self.memory.batches = batches
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            allowed = "the scores of the last batches"
            raise InvalidInput(
                self.name,
                "state",
                allowed=allowed,
                got=repr(error),
                remedy="Resume from another checkpoint.",
            ) from None


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
