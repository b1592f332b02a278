"""A score table in a few numbers for each criterion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rubrank.scores.criterion import CriterionData
from rubrank.scores.outcomes import least_difference, was_compared

if TYPE_CHECKING:
    from rubrank.scores.table import ScoreTable


@dataclass(frozen=True)
class CriterionSummary:
    """One criterion over all groups that ask for it."""

    name: str
    rollouts: int
    """That were asked."""
    mean: float
    """Of the scores; NaN without any."""
    tie_rate: float
    """Share of the pairs within groups that tie; NaN without a pair."""
    missing: int
    groups: int
    """That ask for it."""
    all_tied: int
    """Groups in which it tells no rollouts apart."""


@dataclass
class _ColumnSums:
    rollouts: int = 0
    scored: int = 0
    compared: int = 0
    total: float = 0.0
    pairs: int = 0
    ties: int = 0
    groups: int = 0
    all_tied: int = 0


def summarise(table: ScoreTable) -> tuple[CriterionSummary, ...]:
    """Each criterion over the groups that ask for it."""
    sums = {name: _ColumnSums() for name in table.criteria}
    for group in table:
        for k, criterion in enumerate(group.criteria):
            if criterion.name in group.outcomes:
                _add_compared(sums[criterion.name], group.outcomes[criterion.name])
            else:
                _add(sums[criterion.name], criterion, group.scores[:, k])
    return tuple(_summary(name, found) for name, found in sums.items())


def _add(sums: _ColumnSums, criterion: CriterionData, scores: np.ndarray) -> None:
    known = np.sort(scores[~np.isnan(scores)])
    n = len(known)
    # For each score, how many of the later ones in order are within the margin.
    reached = known + least_difference(known, known + criterion.margin, np.array(criterion.margin))
    near = np.searchsorted(known, reached, side="right") - np.arange(1, n + 1)
    pairs, ties = n * (n - 1) // 2, int(near.sum())
    sums.rollouts += len(scores)
    sums.scored += n
    sums.total += float(known.sum())
    sums.pairs += pairs
    sums.ties += ties
    sums.groups += 1
    sums.all_tied += pairs > 0 and ties == pairs


def _add_compared(sums: _ColumnSums, outcomes: np.ndarray) -> None:
    """Responses that were compared: a mean would say nothing, ties and who was left out do."""
    observed = outcomes[np.triu_indices(len(outcomes), 1)]
    observed = observed[~np.isnan(observed)]
    ties = int((observed == 0.5).sum())
    sums.rollouts += len(outcomes)
    sums.compared += int(was_compared(outcomes).sum())
    sums.pairs += len(observed)
    sums.ties += ties
    sums.groups += 1
    sums.all_tied += 0 < ties == len(observed)


def _summary(name: str, sums: _ColumnSums) -> CriterionSummary:
    mean = sums.total / sums.scored if sums.scored else np.nan
    rate = sums.ties / sums.pairs if sums.pairs else np.nan
    return CriterionSummary(
        name, sums.rollouts, mean, rate, sums.rollouts - sums.scored - sums.compared, sums.groups, sums.all_tied
    )
