"""Outcomes that were observed by comparing responses, where there are no scores.

    >>> from rubrank import utilities
    >>> said = [[None, 1, 0.5],          # a judge compared three responses two by two: the first beat the second, tied
    ...         [0, None, 1],            # with the third, and the second beat the third: a contradiction
    ...         [0.5, 0, None]]
    >>> utilities([[float("nan")]] * 3, outcomes={0: said}).ravel().round(2)
    array([ 0.29,  0.  , -0.29])

Such outcomes go into the fit as they are: contradictory, incomplete, with fractions where several answers to the same
question differ. 1 = row is better than column, 0.5 = tie, NaN or None = not compared. A criterion of a group is scored
or compared, not both; `directions` and `margins` are about scores and change nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from rubrank.errors import InvalidInput, UnknownName

if TYPE_CHECKING:
    from rubrank.scores.batch import ScoreBatch

PerGroup: TypeAlias = "ArrayLike | Sequence[ArrayLike | None] | Mapping[Any, ArrayLike]"
"""(G, G) of the only group; (N, G, G), or a list, of all groups in order; or by the group's label."""
Observations: TypeAlias = "Mapping[Any, PerGroup] | None"
"""Of criteria, by name or column."""
Cells: TypeAlias = "Mapping[tuple[int, int], np.ndarray]"
"""(group, column) → (G, G), checked."""

_ROUNDING = 1e-9


def observed_cells(owner: str, given: Observations, batch: ScoreBatch, criteria: Sequence[Any] | None) -> Cells:
    """Everything that was given, by group and column; raises for what cannot be an outcome."""
    cells: dict[tuple[int, int], np.ndarray] = {}
    for key, per_group in (given or {}).items():
        k = _column(owner, key, batch, criteria)
        for g, outcomes in _by_group(owner, key, per_group, batch):
            cells[g, k] = _checked(owner, f"{key!r} in group {batch.labels[g]!r}", outcomes, _size(batch, g))
            if not np.isnan(batch.scores_MK[batch.starts[g] : batch.starts[g + 1], k]).all():
                raise InvalidInput(
                    owner,
                    "scores",
                    f"NaN for criterion {key!r} in group {batch.labels[g]!r}, which was compared",
                    "scores as well",
                    "A criterion of a group is scored or compared: drop one of them.",
                )
    return cells


def wins_of(outcomes: np.ndarray) -> np.ndarray:
    """Outcomes → wins: nothing where no pair was compared."""
    wins = np.nan_to_num(outcomes, nan=0.0)
    np.fill_diagonal(wins, 0.0)
    return wins


def win_rates(outcomes_GG: np.ndarray) -> np.ndarray:
    """(G,): mean outcome against the others compared with; NaN where it was not compared."""
    others = ~np.isnan(outcomes_GG)
    np.fill_diagonal(others, False)
    count = others.sum(1)
    total = np.where(others, outcomes_GG, 0.0).sum(1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def was_compared(outcomes: np.ndarray) -> np.ndarray:
    """(G,): was this rollout compared with another?"""
    compared = ~np.isnan(outcomes)
    np.fill_diagonal(compared, False)
    return compared.any(1)


def marked(scores_MK: np.ndarray, cells: Cells, starts: np.ndarray) -> np.ndarray:
    """The scores, with 0 for those who were compared instead: NaN is left where nothing is known."""
    if not cells:
        return scores_MK
    known = scores_MK.copy()
    for (g, k), outcomes in cells.items():
        known[starts[g] : starts[g + 1], k] = np.where(was_compared(outcomes), 0.0, np.nan)
    return known


def _column(owner: str, key: str | int, batch: ScoreBatch, criteria: Sequence[Any] | None) -> int:
    if criteria is not None and key in criteria:
        return list(criteria).index(key)
    if isinstance(key, int | np.integer) and criteria is None:
        if 0 <= key < batch.K:
            return int(key)
        raise InvalidInput(owner, "outcomes", f"of columns 0 to {batch.K - 1}", f"column {key}", "")
    if criteria is None:
        raise InvalidInput(owner, "outcomes", "by column when the criteria have no names", repr(key), "Pass criteria=.")
    raise UnknownName.of(owner, "outcomes key", key, map(str, criteria))


def _by_group(owner: str, key: str | int, per_group: Any, batch: ScoreBatch) -> list[tuple[int, Any]]:
    """(group, outcomes) of those that have some."""
    if isinstance(per_group, Mapping):
        numbers = {label: g for g, label in enumerate(batch.labels)}
        for label in per_group:
            if label not in numbers:
                raise UnknownName.of(owner, f"group in outcomes of {key!r}", label, map(str, numbers))
        return [(numbers[label], outcomes) for label, outcomes in per_group.items()]
    items = list(per_group)
    is_one = batch.N == 1 and len(items) == _size(batch, 0) and all(np.ndim(_numbers(item)) == 1 for item in items)
    if is_one:
        return [(0, per_group)]
    if len(items) != batch.N:
        raise InvalidInput(
            owner,
            f"outcomes of {key!r}",
            f"one table for each of the {batch.N} groups",
            str(len(items)),
            "Give None for a group without, or a mapping by label.",
        )
    return [(g, outcomes) for g, outcomes in enumerate(items) if outcomes is not None]


def _size(batch: ScoreBatch, g: int) -> int:
    return int(batch.starts[g + 1] - batch.starts[g])


def _numbers(values: Any) -> Any:
    try:
        return np.array(values, dtype=float)
    except (TypeError, ValueError):
        return values


def _checked(owner: str, where: str, outcomes: Any, n: int) -> np.ndarray:
    array = _numbers(outcomes)
    if not isinstance(array, np.ndarray) or array.shape != (n, n):
        got = f"shape {np.shape(array)}" if isinstance(array, np.ndarray) else "something else"
        raise InvalidInput(owner, f"outcomes of {where}", f"numbers of shape ({n}, {n})", got, "Rows against columns.")
    np.fill_diagonal(array, np.nan)
    off = ~(((array >= 0.0) & (array <= 1.0)) | np.isnan(array))
    if off.any():
        raise InvalidInput(
            owner, f"outcomes of {where}", "from 0 to 1, or NaN", f"{array[off][0]:g}", "1 = row beats column."
        )
    total = array + array.T
    lonely = np.isnan(array) != np.isnan(array.T)
    if lonely.any() or (np.abs(total - 1.0) > _ROUNDING).any():
        i, j = np.argwhere(lonely | (np.abs(total - 1.0) > _ROUNDING))[0]
        raise InvalidInput(
            owner,
            f"outcomes of {where}",
            "such that i against j and j against i add up to 1",
            f"{array[i, j]:g} and {array[j, i]:g} for {i} and {j}",
            "Take the mean of contradicting answers first.",
        )
    return array
