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

Outcomes are soft if verdicts are uncertain. A distribution over the levels of a criterion is a tuple of (value,
probability) pairs, lowest value first. It comes from a decision model, from the log-probabilities of a judge's verdict,
or from several answers to the same question. Two distributions give the outcome

    o_ij = Σ_{a>b} p_i(a) p_j(b) + ½ Σ_a p_i(a) p_j(a)

which is 1, ½ or 0 if both are certain, ½ if they are equal, and depends on the order of the levels alone:

    >>> sure, torn = ((0.0, 0.0), (1.0, 1.0)), ((0.0, 0.4), (1.0, 0.6))
    >>> soft_outcomes([sure, torn, torn]).round(2)                  # row i, column j: how likely i is better than j
    array([[0.5, 0.7, 0.7],
           [0.3, 0.5, 0.5],
           [0.3, 0.5, 0.5]])

If only scores are known, but also how much they vary when the same response is judged again (σ, from `rubrank judge
audit`), the outcome is Φ((s_i − s_j) / (√2 σ)).

Words: an outcome is one number for two rollouts. `outcomes` and its variants compute a matrix of them from scores or
distributions. Comparisons are the tables of outcomes that a caller passes; checked, they are the cells of a batch.

Letters in names and shapes: N groups, G rollouts of one group, M rollouts of all groups, K criteria, L levels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from rubrank.errors import InvalidInput, UnknownName, only_our_errors
from rubrank.verifiers.distribution import Distribution, make_distribution

if TYPE_CHECKING:
    from rubrank.scores.batch import ScoreBatch

Cells: TypeAlias = "Mapping[tuple[int, int], np.ndarray]"
"""(number of the group, column of the criterion) → its outcomes, of shape (G, G), checked."""
ProbabilityCells: TypeAlias = Mapping[tuple[int, int], tuple[Distribution, ...]]
"""(number of the group, column of the criterion) → a distribution for each rollout of the group."""

ROUNDING = 4.0 * float(np.finfo(float).eps)
"""Relative slack of a margin: 0.8 − 0.5 is a little more than 0.3 by rounding, but a margin of 0.3 must tie them."""
# The outcome of i against j and that of j against i must add up to 1, within this
_SUM_TOLERANCE = 1e-9
_erf = np.frompyfunc(math.erf, 1, 1)


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


# -------------------------------------------------------------------------------------------- from uncertain verdicts


@only_our_errors
def soft_outcomes(distributions: Sequence[Distribution], margin: float = 0.0) -> np.ndarray:
    """Return (G, G) the probability that row is better than column, ties counted half.

    It is NaN where one of the two has no distribution.

    margin: differences of at most this much are ties.
    """
    values = {value for distribution in distributions for value, _ in distribution}
    levels = np.array(sorted(values))
    size = len(distributions)
    if not len(levels):
        return np.full((size, size), np.nan)
    column_of = {value: column for column, value in enumerate(levels.tolist())}
    p_GL = np.zeros((size, len(levels)))
    for i, distribution in enumerate(distributions):
        for value, probability in distribution:
            p_GL[i, column_of[value]] = probability
    # Is the level of the row better than that of the column?
    beats_LL = outcomes(levels[:, None], margin)[:, :, 0] == 1.0
    # Sums of products in one fixed order, not matrix products: those may round equal rows differently, and equal
    # distributions must tie exactly.
    # P(rollout is worse than level):
    below_GL = np.stack([(p_L * beats_LL).sum(-1) for p_L in p_GL])
    # P(column is worse than row):
    wins_GG = np.stack([(p_L * below_GL).sum(-1) for p_L in p_GL])
    # P(win) + ½ P(tie), where P(tie) = 1 − P(win) − P(loss).
    result = 0.5 + 0.5 * (wins_GG - wins_GG.T)
    is_absent = np.array([not distribution for distribution in distributions])
    result[is_absent, :] = np.nan
    result[:, is_absent] = np.nan
    return result


@only_our_errors
def noisy_outcomes(scores: np.ndarray, deviation: float, margin: float = 0.0) -> np.ndarray:
    """Return (G, G) the probability that row is better than column if scores vary from one judging to the next.

    deviation: σ of the variation; 0 gives the plain outcomes. The result is NaN where a score is missing.
    """
    scores_G = np.asarray(scores, dtype=float)
    if not deviation > 0.0:
        return outcomes(scores_G[:, None], margin)[:, :, 0]
    difference = scores_G[:, None] - scores_G[None, :]
    # P(difference > margin) + ½ P(|difference| ≤ margin); Φ(d / (√2 σ)) = ½ (1 + erf(d / (2σ))) without a margin.
    # With a margin it is the mean of Φ for the difference minus the margin and for the difference plus the margin.
    erf_minus = _erf((difference - margin) / (2.0 * deviation)).astype(float)
    erf_plus = _erf((difference + margin) / (2.0 * deviation)).astype(float)
    return 0.5 + 0.25 * (erf_minus + erf_plus)


def find_soft_cells(batch: ScoreBatch, retest: Mapping[str, float]) -> Cells:
    """Return outcomes for the cells (a group and a criterion) whose verdicts are uncertain, to use instead of scores.

    retest: criterion → the retest deviation of its scores; used where there are no distributions. Cells in which every
    outcome is the one that the scores give are left out: they are fitted from the scores.
    """
    uncertain = set(batch.probabilities)
    for k, name in enumerate(batch.names):
        if retest.get(name, 0.0) > 0.0:
            uncertain |= {(g, k) for g in range(batch.N) if (g, k) not in batch.outcomes}
    cells = {}
    for g, k in sorted(uncertain):
        rows = slice(int(batch.starts[g]), int(batch.starts[g + 1]))
        scores_G = batch.oriented_MK[rows, k]
        # Margins and directions have one row for all groups if they are the same in all.
        margin = float(batch.margins_NK[g if len(batch.margins_NK) > 1 else 0, k])
        if (g, k) in batch.probabilities:
            lower_is_better = False
            if batch.lower_NK is not None:
                lower_is_better = bool(batch.lower_NK[g if len(batch.lower_NK) > 1 else 0, k])
            distributions = _make_higher_better(
                batch.probabilities[g, k], scores_G, lower_is_better
            )
            soft_GG = soft_outcomes(distributions, margin)
        else:
            soft_GG = noisy_outcomes(scores_G, retest[batch.names[k]], margin)
        hard_GG = outcomes(scores_G[:, None], margin)[:, :, 0]
        if not np.array_equal(soft_GG, hard_GG, equal_nan=True):
            cells[g, k] = soft_GG
    return cells


def _make_higher_better(
    distributions: Sequence[Distribution], scores_G: np.ndarray, lower_is_better: bool
) -> list[Distribution]:
    """Return distributions in which higher is better; a score without one is certain, and a missing score has none.

    scores_G: already higher = better, unlike the distributions.
    """
    oriented: list[Distribution] = []
    for distribution, score in zip(distributions, scores_G.tolist(), strict=True):
        if math.isnan(score):
            oriented.append(())
        elif not distribution:
            oriented.append(((score, 1.0),))
        elif lower_is_better:
            oriented.append(
                tuple((-value, probability) for value, probability in reversed(distribution))
            )
        else:
            oriented.append(distribution)
    return oriented


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


# ------------------------------------------------------------------------------------------------------ from a caller


def check_comparisons(owner: str, comparisons: Mapping[Any, Any], batch: ScoreBatch) -> Cells:
    """Return observed outcomes by group and column; raises InvalidInput if they are not valid outcomes.

    comparisons: criterion, by its name or column → its tables of outcomes, in one of these shapes:
        (G, G)              if there is only one group
        (N, G, G), a list   one table for each group; None for a group without comparisons
        a mapping           label of a group → its table
        In a table, 1 = row is better than column, 0.5 = tie, NaN = not compared.
    """
    cells: dict[tuple[int, int], np.ndarray] = {}
    for key, tables in comparisons.items():
        k = find_column(owner, key, batch, "outcomes key")
        for g, table in _split_by_group(owner, key, tables, batch):
            label = batch.labels[g]
            size = int(batch.sizes[g])
            cells[g, k] = _check_outcomes(owner, f"{key!r} in group {label!r}", table, size)
            scores_G = batch.scores_MK[batch.starts[g] : batch.starts[g + 1], k]
            if not np.isnan(scores_G).all():
                allowed = f"NaN for criterion {key!r} in group {label!r}, which was compared"
                remedy = "A criterion of a group is scored or compared: drop one of them."
                raise InvalidInput(owner, "scores", allowed, "scores as well", remedy)
    return cells


def find_column(owner: str, key: Any, batch: ScoreBatch, parameter: str) -> int:
    """Return the column of a criterion; raises UnknownName or InvalidInput if there is no such criterion.

    key: the number of the column, or the criterion's name if the criteria have names. parameter: what the key is, for
    the message.
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
    owner: str, key: str | int, tables: Any, batch: ScoreBatch
) -> list[tuple[int, Any]]:
    """Return (group number, table of outcomes) for each group that has one; the tables are not checked yet.

    tables: of one criterion, in a shape that `check_comparisons` lists.
    """
    parameter = f"outcomes of {key!r}"
    if isinstance(tables, Mapping):
        numbers = {label: g for g, label in enumerate(batch.labels)}
        for label in tables:
            if label not in numbers:
                raise UnknownName.of(owner, f"group in {parameter}", label, map(str, numbers))
        return [(numbers[label], table) for label, table in tables.items()]
    if not isinstance(tables, Iterable):
        allowed = "a matrix, a list of matrices, or a mapping by group"
        raise InvalidInput(owner, parameter, allowed, repr(tables)[:80])
    items = list(tables)
    # With one group, the items may be the rows of its table, or there is one item, the table itself.
    if batch.N == 1 and len(items) == batch.sizes[0]:
        are_rows = all(np.ndim(_try_to_convert(item)) == 1 for item in items)
        if are_rows:
            return [(0, tables)]
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


def _check_outcomes(owner: str, where: str, table: Any, size: int) -> np.ndarray:
    """Return the outcomes of a group as an array with NaN on the diagonal; raises InvalidInput if they are wrong."""
    array = _try_to_convert(table)
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


def read_probabilities(
    owner: str, probabilities: Mapping[Any, Any], batch: ScoreBatch
) -> ProbabilityCells:
    """Return distributions by group and column; raises InvalidInput unless there is a valid one for each rollout.

    probabilities: by criterion (its name or column) a list with an entry for each rollout, in the order of the scores:
        {value: probability} or pairs, or None.
    """
    cells: dict[tuple[int, int], tuple[Distribution, ...]] = {}
    for key, entries in probabilities.items():
        k = find_column(owner, key, batch, "probabilities key")
        if not isinstance(entries, Iterable):
            raise InvalidInput(owner, f"probabilities of {key!r}", "a list", repr(entries)[:80])
        listed = list(entries)
        rollouts = len(batch.scores_MK)
        # Beside scores of the shape (N, G, K), the entries may be nested in the same way: one list per group.
        is_stacked = batch.shape is not None and len(batch.shape) == 2
        if is_stacked and len(listed) != rollouts and len(listed) == batch.N:
            listed = [entry for group in listed for entry in group]
        if len(listed) != rollouts:
            allowed = f"one for each of the {rollouts} rollouts"
            where = f"probabilities of {key!r}"
            raise InvalidInput(owner, where, allowed, str(len(listed)), "None without one.")
        if batch.order is not None:
            listed = [listed[row] for row in batch.order]
        parsed = []
        for entry in listed:
            is_absent = entry is None or (isinstance(entry, Sized) and not len(entry))
            parsed.append(() if is_absent else make_distribution(entry, owner))
        for g in range(batch.N):
            distributions = tuple(parsed[int(batch.starts[g]) : int(batch.starts[g + 1])])
            if any(distributions):
                cells[g, k] = distributions
    return cells
