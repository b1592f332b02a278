"""Do two raters rank alike? Kendall's tau-b, over all units or within groups, and Spearman's rho.

    >>> kendall([1, 2, 3, 4], [1, 2, 4, 3]).value
    0.6666666666666666
    >>> kendall_within([1, 2, 9, 7], [3, 5, 1, 2], groups=["a", "a", "b", "b"]).value      # mean of 1 and −1
    0.0

A reward ranks the responses to one query, so `kendall_within` is the one that says what a trainer would see; over all
units a judge is also credited for telling easy queries from hard ones. Units that one of the two did not rate (NaN) are
left out. NaN: one of them ties everything. With `bootstrap=1000` an interval is added, by drawing units (or whole
`clusters` of them, or the groups) again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from rubrank.errors import InvalidInput, only_our_errors
from rubrank.scores.kendall import tau, tau_b
from rubrank.studies.statistics.resampling import (
    Clusters,
    Estimate,
    Measure,
    Resampling,
    Statistic,
    frequencies,
    resampling,
)

_MOST_PAIRED = 2000  # clusters: up to here all pairs are counted once, by cluster, and a draw only weighs them


@only_our_errors
def kendall(
    a: ArrayLike,
    b: ArrayLike,
    *,
    clusters: Clusters = None,
    bootstrap: int = 0,
    seed: int = 0,
    level: float = 0.95,
) -> Estimate:
    """Kendall's tau-b over all units."""
    x, y = _read("kendall", a, b)
    draw = resampling("kendall", len(x), clusters, bootstrap, seed, level)
    if not draw.draws:
        both = ~(np.isnan(x) | np.isnan(y))
        return Estimate(tau_b(x[both], y[both]), n=int(both.sum()))
    return draw.estimate(kendall_measure(x, y, draw))


@only_our_errors
def kendall_within(
    a: ArrayLike, b: ArrayLike, *, groups: Clusters, bootstrap: int = 0, seed: int = 0, level: float = 0.95
) -> Estimate:
    """The mean of Kendall's tau-b in every group; n counts the groups in which it is defined."""
    x, y = _read("kendall_within", a, b)
    draw = resampling("kendall_within", len(x), groups, bootstrap, seed, level)
    return draw.estimate(within_measure(x, y, draw))


@only_our_errors
def spearman(
    a: ArrayLike,
    b: ArrayLike,
    *,
    clusters: Clusters = None,
    bootstrap: int = 0,
    seed: int = 0,
    level: float = 0.95,
) -> Estimate:
    """Spearman's rho over all units, ties at their mean rank."""
    x, y = _read("spearman", a, b)
    draw = resampling("spearman", len(x), clusters, bootstrap, seed, level)
    return draw.estimate(spearman_measure(x, y, draw))


def _read(owner: str, a: ArrayLike, b: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    found = []
    for name, given in (("a", a), ("b", b)):
        try:
            array = np.asarray(given, dtype=float)
        except (TypeError, ValueError) as error:
            raise InvalidInput(owner, name, "numbers", f"something else ({error})", "NaN = not rated.") from None
        if array.ndim != 1 or np.isinf(array).any():
            got = f"shape {array.shape}" if array.ndim != 1 else "infinity"
            raise InvalidInput(owner, name, "a list of finite numbers", got, "NaN = not rated.")
        found.append(array)
    if len(found[0]) != len(found[1]):
        raise InvalidInput(owner, "b", f"as long as a: {len(found[0])}", str(len(found[1])), "One rating per unit.")
    return found[0], found[1]


# ------------------------------------------------------------------------------------------------------------- Kendall


def kendall_measure(x: np.ndarray, y: np.ndarray, draw: Resampling) -> Measure:
    """tau-b of the units that both have rated."""
    both = ~(np.isnan(x) | np.isnan(y))
    x, y, of_row = x[both], y[both], draw.of_row[both]
    if draw.clusters <= _MOST_PAIRED:
        return Measure(_weighed(x, y, of_row), len(x), draw.clusters)
    return Measure(_repeated(x, y, of_row), len(x), len(x))


def within_measure(x: np.ndarray, y: np.ndarray, draw: Resampling) -> Measure:
    """The mean of tau-b in every cluster, over those for which there is one."""
    each = kendall_each(x, y, draw)
    known = ~np.isnan(each)
    return Measure(weighted_mean(each), int(known.sum()), draw.clusters)


def _weighed(x: np.ndarray, y: np.ndarray, of_row: np.ndarray) -> Statistic:
    """Pairs of units counted by their clusters: in a draw, clusters g and h have times_g · times_h times as many."""
    order = np.argsort(of_row, kind="stable")
    x, y, of_row = x[order], y[order], of_row[order]
    present, starts = np.unique(of_row, return_index=True)
    tables = np.zeros((3, len(present), len(present)))
    for row, (first, last) in enumerate(zip(starts, [*starts[1:], len(x)], strict=True)):
        in_x, in_y = np.sign(x[first:last, None] - x), np.sign(y[first:last, None] - y)
        for table, signs in zip(tables, (in_x * in_y, in_x != 0.0, in_y != 0.0), strict=True):
            table[row] = np.add.reduceat(signs.sum(axis=0, dtype=float), starts)

    def statistic(times: np.ndarray) -> np.ndarray:
        w = times[:, present]
        return tau(*(((w @ table) * w).sum(axis=1) for table in tables))

    return statistic


def _repeated(x: np.ndarray, y: np.ndarray, of_row: np.ndarray) -> Statistic:
    """The same, draw by draw, where all pairs are too many."""

    def statistic(times: np.ndarray) -> np.ndarray:
        counts = times[:, of_row].astype(np.int64)
        return np.array([tau_b(np.repeat(x, count), np.repeat(y, count)) for count in counts])

    return statistic


def kendall_each(x: np.ndarray, y: np.ndarray, draw: Resampling) -> np.ndarray:
    """tau-b of every cluster, from the units that both have rated."""
    both = ~(np.isnan(x) | np.isnan(y))
    order = np.argsort(draw.of_row[both], kind="stable")
    ends = np.bincount(draw.of_row[both], minlength=draw.clusters).cumsum()
    x, y = x[both][order], y[both][order]
    return np.array([tau_b(x[a:b], y[a:b]) for a, b in zip([0, *ends[:-1]], ends, strict=False)])


def weighted_mean(each: np.ndarray) -> Statistic:
    """The mean over clusters for which there is a number."""
    known = ~np.isnan(each)

    def statistic(times: np.ndarray) -> np.ndarray:
        total = times[:, known].sum(axis=1)
        return np.where(total > 0.0, (times[:, known] @ each[known]) / np.maximum(total, 1.0), np.nan)

    return statistic


# ------------------------------------------------------------------------------------------------------------ Spearman


def spearman_measure(x: np.ndarray, y: np.ndarray, draw: Resampling) -> Measure:
    """rho of the units that both have rated."""
    both = ~(np.isnan(x) | np.isnan(y))
    x, y, of_row = x[both], y[both], draw.of_row[both]

    def statistic(times: np.ndarray) -> np.ndarray:
        w = times[:, of_row]
        a, b = _centred_ranks(x, w), _centred_ranks(y, w)
        # Ranks are multiples of a half: a variance below that of one swap is rounding.
        square = (w * a * a).sum(axis=1) * (w * b * b).sum(axis=1)
        return np.where(square > 1e-9, (w * a * b).sum(axis=1) / np.sqrt(np.maximum(square, 1e-9)), np.nan)

    return Measure(statistic, len(x), 2 * len(x))


def _centred_ranks(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Mean ranks (draws, units) of units that count w times, less their mean."""
    values, codes = np.unique(x, return_inverse=True)
    n_v = frequencies(w, codes, len(values))
    ranks = (n_v.cumsum(axis=1) - n_v / 2.0)[:, codes]
    return ranks - (w * ranks).sum(axis=1, keepdims=True) / np.maximum(w.sum(axis=1, keepdims=True), 1.0)
