"""Do two raters rank alike? Kendall's tau-b, over all units or within groups, and Spearman's rho.

    >>> kendall([1, 2, 3, 4], [1, 2, 4, 3]).value
    0.6666666666666667
    >>> kendall_within([1, 2, 9, 7], [3, 5, 1, 2], groups=["a", "a", "b", "b"]).value      # mean of 1 and −1
    0.0

A reward ranks the responses to one query, so `kendall_within` is the one that says what a trainer would see; over all
units a judge is also credited for telling easy queries from hard ones. Units that one of the two did not rate (NaN) are
left out. NaN: one of them ties everything. With `bootstrap=1000` an interval is added, by drawing units (or whole
`clusters` of them, or the groups) again.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from rubrank.errors import InvalidInput, only_our_errors
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
        raise InvalidInput(owner, "b", f"as long as a: {len(found[0])}", str(len(found[1])), "One rating a unit.")
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


def tau_b(x: np.ndarray, y: np.ndarray) -> float:
    """Kendall's tau-b in O(n log² n): sort by x, then count the pairs that y has the other way round."""
    n = len(x)
    order = np.lexsort((y, x))
    x, y = x[order], y[order]
    codes = np.unique(y, return_inverse=True)[1]
    pairs = n * (n - 1) // 2
    tied_x, tied_y = _tied(x), _tied(np.sort(y))
    tied_both = _tied(x, y)
    # Within equal x, y is sorted: only pairs that differ in both are ever inverted.
    concordant_less_discordant = pairs - tied_x - tied_y + tied_both - 2 * _inversions(codes)
    spread = math.sqrt(float(pairs - tied_x)) * math.sqrt(float(pairs - tied_y))
    return concordant_less_discordant / spread if spread > 0.0 else math.nan


def _tied(*sorted_columns: np.ndarray) -> int:
    """Pairs of rows that are equal, of rows in which equals stand together."""
    n = len(sorted_columns[0])
    if n == 0:
        return 0
    change = np.zeros(n - 1, bool)
    for column in sorted_columns:
        change |= column[1:] != column[:-1]
    runs = np.diff(np.concatenate([[0], np.flatnonzero(change) + 1, [n]]))
    return int((runs * (runs - 1) // 2).sum())


def _inversions(codes: np.ndarray) -> int:
    """Pairs i < j with codes[i] > codes[j]: a merge sort from the bottom up, every level in one stroke."""
    n, top = len(codes), int(codes.max(initial=0)) + 1
    count, width = 0, 1
    values, place = codes.astype(np.int64), np.arange(n)
    while width < n:
        block = place // (2 * width)
        right = (place // width) % 2 == 1
        keys = block * top + values  # sorted within every half, and by block: so sorted among all left halves
        left_keys, right_keys = keys[~right], keys[right]
        not_above = np.searchsorted(left_keys, right_keys, side="right")
        in_blocks_so_far = np.searchsorted(left_keys, (block[right] + 1) * top, side="left")
        count += int((in_blocks_so_far - not_above).sum())
        values = np.sort(keys) - block * top
        width *= 2
    return count


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
        both, in_x, in_y = (((w @ table) * w).sum(axis=1) for table in tables)
        spread = np.sqrt(in_x) * np.sqrt(in_y)
        return np.where(spread > 0.0, both / np.where(spread > 0.0, spread, 1.0), np.nan)

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
    return np.array([_small_tau(x[a:b], y[a:b]) for a, b in zip([0, *ends[:-1]], ends, strict=False)])


def _small_tau(x: np.ndarray, y: np.ndarray) -> float:
    if len(x) > 64:
        return tau_b(x, y)
    in_x, in_y = np.sign(x[:, None] - x), np.sign(y[:, None] - y)
    spread = math.sqrt(np.count_nonzero(in_x)) * math.sqrt(np.count_nonzero(in_y))
    return float((in_x * in_y).sum()) / spread if spread > 0.0 else math.nan


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
