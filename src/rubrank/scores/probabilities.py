"""How sure a verdict is: probabilities over the levels of a criterion, and the outcomes of comparing two of them.

    >>> sure, torn = ((0.0, 0.0), (1.0, 1.0)), ((0.0, 0.4), (1.0, 0.6))
    >>> soft_outcomes([sure, torn, torn]).round(2)                  # row i, column j: how likely i is better than j
    array([[0.5, 0.7, 0.7],
           [0.3, 0.5, 0.5],
           [0.3, 0.5, 0.5]])

A distribution is a tuple of (value, probability) pairs, lowest value first. It comes from a decision model, from the
log-probabilities of a judge's verdict, or from several answers to the same question. Two distributions on the same
criterion give the outcome

    o_ij = Σ_{a>b} p_i(a) p_j(b) + ½ Σ_a p_i(a) p_j(a)

which is 1, ½ or 0 if both are certain, ½ if they are equal, and depends on the order of the levels alone. If only
scores are known, but also how much they vary when the same response is judged again (σ, from `rubrank judge audit`),
the outcome is Φ((s_i − s_j) / (√2 σ)).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rubrank.errors import InvalidInput, only_our_errors
from rubrank.scores.outcomes import Cells, find_column, outcomes
from rubrank.verifiers.distribution import Distribution, make_distribution

if TYPE_CHECKING:
    from rubrank.scores.batch import ScoreBatch

ProbabilityCells: TypeAlias = Mapping[tuple[int, int], tuple[Distribution, ...]]
"""(group, column) → a distribution for each rollout of the group."""

_erf = np.frompyfunc(math.erf, 1, 1)


# ----------------------------------------------------------------------------------------------------------- outcomes


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
    # below_GL: P(rollout is worse than level); wins_GG: P(column is worse than row).
    below_GL = np.stack([(p_L * beats_LL).sum(-1) for p_L in p_GL])
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


# ------------------------------------------------------------------------------------------------------ from a caller


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
