"""Outcomes of comparisons, as one matrix for each criterion.

    G    rollouts of the group
    P    observations of the same pairs: orders of a pair, passes over a list, members of a panel

    1 = row beats column, 0.5 = tie, 0 = column beats row, NaN = not compared

Matrices are consistent: o(i, j) + o(j, i) = 1. The diagonal is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rubrank.judges.design import find_duplicates
from rubrank.judges.judge import Question


def duplicate_classes(question: Question, column: int) -> list[list[int]]:
    """The rollouts that are compared on a criterion, in classes that a judge cannot tell apart."""
    first_of = find_duplicates(question.group.rollouts)
    classes: dict[int, list[int]] = {}
    for i in np.flatnonzero(question.wanted[:, column]).tolist():
        classes.setdefault(first_of[i], []).append(i)
    return sorted(classes.values())


def distinct_rollouts(question: Question, column: int) -> list[int]:
    """The rollouts that are shown: the first of each class of duplicates."""
    return [duplicates[0] for duplicates in duplicate_classes(question, column)]


def empty_outcomes(size: int) -> np.ndarray:
    """No comparison yet, (G, G)."""
    return np.full((size, size), np.nan)


def spread_to_duplicates(outcomes_GG: np.ndarray, question: Question, column: int) -> np.ndarray:
    """Copy the outcomes of the rollouts that were shown to their duplicates; duplicates tie with each other."""
    first_of = np.arange(len(outcomes_GG))
    for duplicates in duplicate_classes(question, column):
        first_of[duplicates] = duplicates[0]
    spread_GG = outcomes_GG[np.ix_(first_of, first_of)]
    spread_GG[first_of[:, None] == first_of] = 0.5
    absent = ~question.wanted[:, column]
    spread_GG[absent, :] = np.nan
    spread_GG[:, absent] = np.nan
    np.fill_diagonal(spread_GG, np.nan)
    return spread_GG


def mean_outcomes(observed_P: np.ndarray) -> np.ndarray:
    """The mean over the first axis, without NaN; NaN where nothing was observed."""
    count = (~np.isnan(observed_P)).sum(0)
    return np.where(count > 0, np.nansum(observed_P, axis=0) / np.maximum(count, 1), np.nan)


def disagreement(observed_P: Sequence[np.ndarray] | np.ndarray) -> float:
    """The mean distance of two observations of the same value: 0 = always equal, 1 = always at opposite ends.

    A tie against a win counts half. NaN if nothing was observed twice.
    """
    if not len(observed_P):
        return float("nan")
    flat = np.stack([np.ravel(observed) for observed in observed_P])
    first, second = np.triu_indices(len(flat), 1)
    distances = np.abs(flat[first] - flat[second])
    distances = distances[~np.isnan(distances)]
    return float(distances.mean()) if distances.size else float("nan")
