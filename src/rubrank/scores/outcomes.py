"""Outcomes of comparisons: who beats whom on a criterion, computed from scores or observed by a judge.

    scores 1.0, 0.2, 0.9 with margin 0.15     →     0.5  1    0.5       row i, column j: 1 = i beats j,
                                                    0    0.5  0         0.5 = tie, 0 = i loses,
                                                    0.5  1    0.5       NaN = not compared

A judge that compares responses gives outcomes without scores. The fit takes them as they are: they may be
contradictory or incomplete, and fractions if several answers to the same question differ.

    >>> from rubrank import utilities
    >>> compared = [[None, 1, 0.5],      # three responses, two by two: the first beat the second and tied
    ...             [0, None, 1],        # with the third, and the second beat the third: a contradiction
    ...             [0.5, 0, None]]
    >>> utilities([[float("nan")]] * 3, outcomes={0: compared}).ravel().round(2)
    array([ 0.29,  0.  , -0.29])

A criterion of a group is scored or compared, not both; directions and margins are about scores only.

Letters in names and shapes: N groups, G rollouts of one group, M rollouts of all groups, K criteria.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from rubrank.errors import InvalidInput, UnknownName, only_our_errors

if TYPE_CHECKING:
    from rubrank.scores.batch import ScoreBatch

Cells: TypeAlias = "Mapping[tuple[int, int], np.ndarray]"
"""(number of the group, column of the criterion) → its outcomes, of shape (G, G), checked."""

ROUNDING = 4.0 * float(np.finfo(float).eps)
"""Relative slack of a margin: 0.8 − 0.5 is a little more than 0.3 by rounding, but a margin of 0.3 must tie them."""
# The outcome of i against j and that of j against i must add up to 1, within this
_SUM_TOLERANCE = 1e-9


# --------------------------------------------------------------------------------------------------------- from scores


def compute_tie_width(a: np.ndarray, b: np.ndarray, margins: np.ndarray) -> np.ndarray:
    """Return the difference that two scores must exceed not to tie; 0 without a margin."""
    larger_score = np.maximum(np.abs(a), np.abs(b))
    return np.where(margins > 0.0, margins + ROUNDING * larger_score, 0.0)


@only_our_errors
def outcomes(scores: ArrayLike, margins: ArrayLike = 0.0) -> np.ndarray:
    """Return the outcomes (G, G, K) of one group's scores (G, K); a missing score is not compared.

    margins: one number, or one for each criterion; differences of at most that much are ties.
    """
    scores_GK = np.asarray(scores, dtype=float)
    if scores_GK.ndim != 2 or np.isinf(scores_GK).any():
        allowed = "finite or NaN, of shape (rollouts, criteria)"
        got = f"shape {scores_GK.shape}" if scores_GK.ndim != 2 else "infinity"
        raise InvalidInput("outcomes", "scores", allowed, got, "Pass one group.")
    if not (np.asarray(margins) >= 0.0).all():
        remedy = "Use 0 for 'every difference counts'."
        raise InvalidInput("outcomes", "margins", "≥ 0", repr(margins), remedy)
    # Broadcast to (G, G, K): each rollout, in the rows, against each rollout, in the columns.
    rows = scores_GK[:, None, :]
    columns = scores_GK[None, :, :]
    # A difference that overflows to infinity still exceeds every margin.
    with np.errstate(over="ignore"):
        difference = rows - columns
    tie_width = compute_tie_width(rows, columns, np.asarray(margins, dtype=float))
    wins = difference > tie_width
    losses = difference < -tie_width
    result = 0.5 + 0.5 * wins - 0.5 * losses
    return np.where(np.isnan(difference), np.nan, result)


# ------------------------------------------------------------------------------------------------------------ observed


def count_wins(outcomes_GG: np.ndarray) -> np.ndarray:
    """Return (G, G): how much of a win the row has over the column.

    A tie is half a win for each; 0 for pairs that were not compared, and on the diagonal.
    """
    wins = np.nan_to_num(outcomes_GG, nan=0.0)
    np.fill_diagonal(wins, 0.0)
    return wins


def compute_win_rates(outcomes_GG: np.ndarray) -> np.ndarray:
    """Return (G,) the mean outcome of each rollout over its comparisons; NaN without any."""
    is_compared = _find_compared_pairs(outcomes_GG)
    count = is_compared.sum(1)
    total = np.where(is_compared, outcomes_GG, 0.0).sum(1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def find_compared(outcomes_GG: np.ndarray) -> np.ndarray:
    """Return (G,) whether a rollout was compared with another."""
    return np.asarray(_find_compared_pairs(outcomes_GG).any(1))


def _find_compared_pairs(outcomes_GG: np.ndarray) -> np.ndarray:
    """Return (G, G) whether two rollouts were compared; False on the diagonal."""
    is_compared = ~np.isnan(outcomes_GG)
    np.fill_diagonal(is_compared, False)
    return is_compared


def mark_compared(scores_MK: np.ndarray, cells: Cells, starts: np.ndarray) -> np.ndarray:
    """Return the scores with 0 for rollouts that were compared instead, so that only what is missing is NaN.

    cells: the comparisons. starts: group g is the rows starts[g] to starts[g + 1].
    """
    if not cells:
        return scores_MK
    marked = scores_MK.copy()
    for (g, k), outcomes_GG in cells.items():
        marked[starts[g] : starts[g + 1], k] = np.where(find_compared(outcomes_GG), 0.0, np.nan)
    return marked


def check_comparisons(owner: str, comparisons: Mapping[Any, Any], batch: ScoreBatch) -> Cells:
    """Return observed outcomes by group and column; raises InvalidInput if they are not valid outcomes.

    comparisons: criterion, by its name or column → its outcomes, in one of these shapes:
        (G, G)              if there is only one group
        (N, G, G), a list   one matrix for each group; None for a group without comparisons
        a mapping           label of a group → its matrix
        In a matrix, 1 = row is better than column, 0.5 = tie, NaN = not compared.
    """
    cells: dict[tuple[int, int], np.ndarray] = {}
    for key, all_outcomes in comparisons.items():
        k = find_column(owner, key, batch, "outcomes key")
        for g, outcomes_GG in _split_by_group(owner, key, all_outcomes, batch):
            label = batch.labels[g]
            size = int(batch.sizes[g])
            cells[g, k] = _check_outcomes(owner, f"{key!r} in group {label!r}", outcomes_GG, size)
            scores_G = batch.scores_MK[batch.starts[g] : batch.starts[g + 1], k]
            if not np.isnan(scores_G).all():
                allowed = f"NaN for criterion {key!r} in group {label!r}, which was compared"
                remedy = "A criterion of a group is scored or compared: drop one of them."
                raise InvalidInput(owner, "scores", allowed, "scores as well", remedy)
    return cells


def find_column(owner: str, key: Any, batch: ScoreBatch, parameter: str) -> int:
    """Return the column of a criterion that is given by its name, if the criteria have names, or by its number.

    parameter: what the key is, for the message. Raises UnknownName or InvalidInput if there is no such column.
    """
    if isinstance(key, str) and batch.has_names:
        if key not in batch.names:
            raise UnknownName.of(owner, parameter, key, batch.names)
        return batch.names.index(key)
    if not isinstance(key, int | np.integer) or not 0 <= key < batch.K:
        allowed = f"a column from 0 to {batch.K - 1}, or a name if `criteria` gives names"
        raise InvalidInput(owner, parameter, allowed, repr(key))
    return int(key)


def _split_by_group(
    owner: str, key: str | int, all_outcomes: Any, batch: ScoreBatch
) -> list[tuple[int, Any]]:
    """Return (group number, outcomes) for each group that has some; the outcomes are not checked yet.

    all_outcomes: of one criterion, in a shape that `check_comparisons` lists.
    """
    parameter = f"outcomes of {key!r}"
    if isinstance(all_outcomes, Mapping):
        numbers = {label: g for g, label in enumerate(batch.labels)}
        for label in all_outcomes:
            if label not in numbers:
                raise UnknownName.of(owner, f"group in {parameter}", label, map(str, numbers))
        return [(numbers[label], outcomes_GG) for label, outcomes_GG in all_outcomes.items()]
    if not isinstance(all_outcomes, Iterable):
        allowed = "a matrix, a list of matrices, or a mapping by group"
        raise InvalidInput(owner, parameter, allowed, repr(all_outcomes)[:80])
    items = list(all_outcomes)
    # With one group, the items may be the rows of its matrix, or there is one item, the matrix itself.
    if batch.N == 1 and len(items) == batch.sizes[0]:
        are_rows = all(np.ndim(_try_to_convert(item)) == 1 for item in items)
        if are_rows:
            return [(0, all_outcomes)]
    if len(items) != batch.N:
        allowed = f"one table for each of the {batch.N} groups"
        remedy = "Give None for a group without, or a mapping by label."
        raise InvalidInput(owner, parameter, allowed, str(len(items)), remedy)
    return [(g, item) for g, item in enumerate(items) if item is not None]


def _try_to_convert(values: Any) -> Any:
    """Return a new array of doubles; values that NumPy cannot convert are returned unchanged."""
    try:
        return np.array(values, dtype=float)
    except (TypeError, ValueError):
        return values


def _check_outcomes(owner: str, where: str, outcomes_GG: Any, size: int) -> np.ndarray:
    """Return the outcomes of a group as an array with NaN on the diagonal; raises InvalidInput if they are wrong."""
    array = _try_to_convert(outcomes_GG)
    parameter = f"outcomes of {where}"
    if not isinstance(array, np.ndarray) or array.shape != (size, size):
        got = f"shape {np.shape(array)}" if isinstance(array, np.ndarray) else "something else"
        allowed = f"numbers of shape ({size}, {size})"
        raise InvalidInput(owner, parameter, allowed, got, "Rows against columns.")
    np.fill_diagonal(array, np.nan)
    is_outside = (array < 0.0) | (array > 1.0)  # False for NaN
    if is_outside.any():
        got = f"{array[is_outside][0]:g}"
        raise InvalidInput(owner, parameter, "from 0 to 1, or NaN", got, "1 = row beats column.")
    is_one_sided = np.isnan(array) != np.isnan(array.T)
    is_contradictory = is_one_sided | (np.abs(array + array.T - 1.0) > _SUM_TOLERANCE)
    if is_contradictory.any():
        i, j = np.argwhere(is_contradictory)[0]
        allowed = "such that i against j and j against i add up to 1"
        got = f"{array[i, j]:g} and {array[j, i]:g} for {i} and {j}"
        remedy = "Take the mean of contradicting answers first."
        raise InvalidInput(owner, parameter, allowed, got, remedy)
    return array
