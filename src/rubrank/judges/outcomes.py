"""What was seen in comparisons, as one matrix for each criterion.

    G    rollouts of the group
    P    observations of the same thing: orders of a pair, passes over a list, members of a panel

    1 = row beats column, 0.5 = tie, 0 = column beats row, NaN = not compared

Every matrix fits itself: o(i, j) + o(j, i) = 1. The diagonal is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rubrank.judges.design import alike
from rubrank.judges.judge import Question


def contestants(question: Question, column: int) -> list[int]:
    """The rollouts to be compared on a criterion, one for each different answer."""
    return sorted(set(_stand_ins(question, column)[question.wanted[:, column]].tolist()))


def classes(question: Question, column: int) -> list[list[int]]:
    """Of each of the contestants those that take part and say the same, itself among them."""
    stand_in, among = _stand_ins(question, column), np.flatnonzero(question.wanted[:, column]).tolist()
    return [[i for i in among if stand_in[i] == one] for one in contestants(question, column)]


def _stand_ins(question: Question, column: int) -> np.ndarray:
    """For every rollout the one that is shown for it, (G,): of those that say the same, the first that takes part."""
    first = alike(question.group.rollouts)
    shown_for: dict[int, int] = {}
    for i in np.flatnonzero(question.wanted[:, column]).tolist():
        shown_for.setdefault(first[i], i)
    return np.array([shown_for.get(first[i], i) for i in range(len(first))], dtype=int)


def nothing_seen(size: int) -> np.ndarray:
    """No comparison yet, (G, G)."""
    return np.full((size, size), np.nan)


def shared(outcomes_GG: np.ndarray, question: Question, column: int) -> np.ndarray:
    """The outcomes of those that were shown, for all that say the same; these tie among themselves."""
    stand_in, absent = _stand_ins(question, column), ~question.wanted[:, column]
    all_GG = outcomes_GG[np.ix_(stand_in, stand_in)]
    all_GG[stand_in[:, None] == stand_in] = 0.5
    np.fill_diagonal(all_GG, np.nan)
    all_GG[absent, :] = np.nan
    all_GG[:, absent] = np.nan
    return all_GG


def mean_seen(observed_P: np.ndarray) -> np.ndarray:
    """The mean over the first axis of what was seen; NaN where nothing was."""
    seen = (~np.isnan(observed_P)).sum(0)
    return np.where(seen > 0, np.nansum(observed_P, axis=0) / np.maximum(seen, 1), np.nan)


def disagreement(observed_P: Sequence[np.ndarray] | np.ndarray) -> float:
    """How far two observations of the same thing are apart, on average: 0 = never, 1 = always at opposite ends.

    A tie against a win counts half. NaN where nothing was seen twice.
    """
    observed = np.stack([np.ravel(one) for one in observed_P]) if len(observed_P) else np.empty((0, 0))
    one, other = np.triu_indices(len(observed), 1)
    apart = np.abs(observed[one] - observed[other])
    seen = apart[~np.isnan(apart)]
    return float(seen.mean()) if seen.size else float("nan")
