"""Agreement and rank correlation of raters, with bootstrap intervals: kappa, alpha, Kendall's tau, Spearman's rho.

    >>> kappa([1, 2, 3, 3], [1, 2, 3, 2]).value
    0.6363636363636364
    >>> alpha([[1, 2, 3, 3], [1, 2, 3, None]], metric="ordinal").value     # rows are raters; None, NaN = not rated
    1.0
    >>> kendall_within([1, 2, 9, 7], [3, 5, 1, 2], groups=["a", "a", "b", "b"]).value      # mean of 1 and −1
    0.0

**Agreement.** Kappa and alpha are 1 − observed / expected disagreement: 1 is full agreement, 0 is what chance gives,
below 0 is worse than chance. Kappa compares two raters with their own frequencies. Alpha pools the frequencies and
takes any number of raters, with gaps. Both are NaN if nothing varies. A disagreement between a and b costs

    weights=None,        metric="nominal"     1 if they differ
    weights="linear"                          |a − b|
    weights="quadratic", metric="interval"    (a − b)²
                         metric="ordinal"     (number of ratings between them)²

**Correlation.** A reward ranks the responses to one query, so `kendall_within` measures what a trainer sees. Over all
units, a judge is also credited for telling easy queries from hard ones. Both are NaN if one rater ties everything.

**Intervals.** Rollouts of one group answer one query and are not independent, so whole groups (clusters) are drawn:

    groups a a b b c c          draw three of three:  b c b  →  times: a 0, b 2, c 1

Measures with the same clusters and seed see the same draws, so their values can be averaged or subtracted draw by draw.
Tau and rho come from SciPy: pip install 'rubrank[studies]'.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from rubrank._plain import plain
from rubrank.errors import InvalidInput, UnknownName, import_optional, only_our_errors

Weights: TypeAlias = Literal["linear", "quadratic"]
Metric: TypeAlias = Literal["nominal", "ordinal", "interval"]
Clusters: TypeAlias = "ArrayLike | Sequence[Hashable] | None"
Statistic: TypeAlias = Callable[[np.ndarray], Any]
"""A function of `times`, which says how often each cluster was drawn, to a number or an array of numbers."""

LEVEL = 0.95
"""The level of all intervals."""
_WEIGHTS: tuple[Weights, ...] = ("linear", "quadratic")
_METRICS: tuple[Metric, ...] = ("nominal", "ordinal", "interval")


# ---------------------------------------------------------------------------------------------------------- resampling


@dataclass(frozen=True)
class Estimate:
    """A number, its interval (NaN without a bootstrap, or with too little data), and the number of units."""

    value: float
    low: float = math.nan
    high: float = math.nan
    n: int = 0

    def as_dict(self) -> dict[str, float | int | None]:
        """Return the numbers as plain data for JSON, with None instead of NaN."""
        numbers: dict[str, float | int | None] = plain(vars(self))
        return numbers


class Measure(NamedTuple):
    """A statistic of drawn clusters, such as kappa, and the number of units in it."""

    statistic: Statistic
    n: int


class Draws(NamedTuple):
    """The value of a measure for the data, and in every draw (empty: without a bootstrap); n counts units."""

    value: float
    draws: np.ndarray
    n: int


@dataclass(frozen=True, eq=False)
class Resampling:
    """A bootstrap over clusters of rows."""

    cluster_of_row: np.ndarray
    """The number of every row's cluster."""
    clusters: int
    draws: int
    seed: int

    def repeat_rows(self, times: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return these rows, each repeated as often as its cluster was drawn."""
        return np.repeat(rows, times[self.cluster_of_row[rows]].astype(int))

    def sum_by_cluster(self, values: np.ndarray) -> np.ndarray:
        """Return the sum of the values of all rows of each cluster, (clusters,)."""
        return np.bincount(self.cluster_of_row, values, minlength=self.clusters)

    def draw_values(self, statistic: Statistic) -> np.ndarray:
        """Return the statistic in every draw."""
        rng = np.random.default_rng(self.seed)
        values = []
        for _ in range(self.draws):
            drawn = rng.integers(max(1, self.clusters), size=self.clusters)
            times = np.bincount(drawn, minlength=self.clusters).astype(float)
            values.append(statistic(times))
        return np.array(values, dtype=float)

    def measure(self, measure: Measure) -> Draws:
        """Return the statistic of the data and of every draw; a single cluster cannot be drawn differently."""
        value = float(measure.statistic(np.ones(self.clusters)))
        if self.clusters < 2 or math.isnan(value):
            return Draws(value, np.zeros(0), measure.n)
        return Draws(value, self.draw_values(measure.statistic), measure.n)

    def estimate(self, measure: Measure) -> Estimate:
        """Return the statistic of the data, with its percentile interval."""
        return compute_interval(self.measure(measure))


def compute_interval(measured: Draws) -> Estimate:
    """Return the value with the percentiles of the draws in which the statistic is defined.

    There is no interval if it is undefined in most of them.
    """
    value, draws, n = measured
    defined = draws[~np.isnan(draws)]
    if math.isnan(value) or not len(defined) or 2 * len(defined) < len(draws):
        return Estimate(value, n=n)
    low, high = np.quantile(defined, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0])
    return Estimate(value, float(low), float(high), n)


def average_draws(measured: Sequence[Draws]) -> Draws:
    """Return the mean of measures of the same draws, over those that are defined; n is the sum."""
    defined = [item for item in measured if not math.isnan(item.value)]
    if not defined:
        return Draws(math.nan, np.zeros(0), 0)
    draws = np.zeros(0)
    if all(len(item.draws) for item in defined):
        draws = np.mean([item.draws for item in defined], axis=0)
    value = float(np.mean([item.value for item in defined]))
    return Draws(value, draws, sum(item.n for item in defined))


def make_resampling(
    owner: str,
    rows: int,
    clusters: Clusters = None,
    draws: int = 0,
    seed: int = 0,
) -> Resampling:
    """Return a bootstrap over rows: clusters by their labels, or every row by itself."""
    if draws < 0 or seed < 0:
        got = f"{draws} and {seed}"
        raise InvalidInput(owner, "bootstrap and seed", "whole numbers ≥ 0", got)
    if clusters is None:
        return Resampling(np.arange(rows), rows, draws, seed)
    cluster_of_row, count = number_labels(clusters)
    if len(cluster_of_row) != rows:
        raise InvalidInput(
            owner, "clusters", allowed=f"{rows} labels, one per unit", got=str(len(cluster_of_row))
        )
    return Resampling(cluster_of_row, count, draws, seed)


def number_labels(labels: Any) -> tuple[np.ndarray, int]:
    """Number the labels in order of first appearance; returns the number of every row, and how many there are.

    ["b", "a", "b"]  →  [0, 1, 0], 2
    """
    numbers: dict[Hashable, int] = {}
    rows: Iterable[Hashable] = labels.tolist() if isinstance(labels, np.ndarray) else labels
    number_of_row = [numbers.setdefault(label, len(numbers)) for label in rows]
    return np.array(number_of_row, np.int64), len(numbers)


def ratio_measure(parts: np.ndarray, totals: np.ndarray) -> Measure:
    """Return a share: Σ parts / Σ totals, where both are given for every cluster; NaN if the total is 0."""

    def statistic(times: np.ndarray) -> float:
        total = float(times @ totals)
        return float(times @ parts) / total if total > 0.0 else math.nan

    return Measure(statistic, int(totals.sum()))


def make_mean_statistic(values: np.ndarray) -> Statistic:
    """Return the mean over the clusters whose value is not NaN, each as often as it was drawn."""
    defined = ~np.isnan(values)

    def statistic(times: np.ndarray) -> float:
        weights = times[defined]
        return float(weights @ values[defined] / weights.sum()) if weights.any() else math.nan

    return statistic


def wilson(wins: float, n: int) -> Estimate:
    """Return a share with Wilson's interval, which stays within [0, 1] for small n.

    SciPy's `binomtest` has it for whole numbers of wins only; a tie is half a win here.
    """
    if n <= 0:
        return Estimate(math.nan, n=0)
    z = NormalDist().inv_cdf((1.0 + LEVEL) / 2.0)
    share = wins / n
    shrinkage = 1.0 / (1.0 + z * z / n)
    centre = shrinkage * (share + z * z / (2 * n))
    spread = shrinkage * z * math.sqrt(share * (1.0 - share) / n + (z / (2 * n)) ** 2)
    return Estimate(share, max(0.0, centre - spread), min(1.0, centre + spread), n)


# ----------------------------------------------------------------------------------------------------------- agreement


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings as indices into the sorted values."""

    codes: np.ndarray
    """(raters, units): index into `values`; −1 = not rated."""
    values: np.ndarray
    """All different values, sorted; 0, 1, … if the ratings are texts."""

    @property
    def units(self) -> int:
        """The number of units, rated or not."""
        return self.codes.shape[1]


@only_our_errors
def kappa(
    a: Sequence[Any] | np.ndarray,
    b: Sequence[Any] | np.ndarray,
    *,
    weights: Weights | None = None,
    clusters: Clusters = None,
    bootstrap: int = 0,
    seed: int = 0,
) -> Estimate:
    """Return Cohen's kappa of two raters; units that one of them did not rate are left out.

    Ratings are numbers, or texts if `weights` is None.
    """
    if weights is not None and weights not in _WEIGHTS:
        raise UnknownName.of("kappa", "weights", weights, _WEIGHTS)
    ratings = read_ratings("kappa", [a, b], texts=weights is None)
    resampling = make_resampling("kappa", ratings.units, clusters, bootstrap, seed)
    return resampling.estimate(make_kappa_measure(ratings, weights, resampling))


@only_our_errors
def alpha(
    ratings: Sequence[Sequence[Any]] | np.ndarray,
    *,
    metric: Metric = "ordinal",
    clusters: Clusters = None,
    bootstrap: int = 0,
    seed: int = 0,
) -> Estimate:
    """Return Krippendorff's alpha of (raters, units); units with fewer than two ratings are left out.

    Ratings are numbers, or texts if the metric is "nominal".
    """
    if metric not in _METRICS:
        raise UnknownName.of("alpha", "metric", metric, _METRICS)
    coded = read_ratings("alpha", ratings, texts=metric == "nominal")
    resampling = make_resampling("alpha", coded.units, clusters, bootstrap, seed)
    return resampling.estimate(make_alpha_measure(coded, metric, resampling))


def read_ratings(
    owner: str, ratings: Iterable[Sequence[Any] | np.ndarray], *, texts: bool
) -> Ratings:
    """Replace ratings by their numbers among all different values; None and NaN are not rated.

    owner: the function that messages name. texts: whether ratings may be texts.
    Raises InvalidInput if there are fewer than two raters, and for ratings that are not finite numbers.
    """
    cells = _stack_cells(owner, ratings)
    # Only NaN differs from itself; texts and numbers may be mixed, so np.isnan cannot be used.
    missing = (cells == None) | (cells != cells)  # noqa: E711
    present = cells[~missing]
    if texts and any(isinstance(cell, str) for cell in present):
        categories, present_codes = np.unique(present.astype(str), return_inverse=True)
        values = np.arange(len(categories), dtype=float)
    else:
        values, present_codes = np.unique(_read_numbers(owner, present), return_inverse=True)
    codes = np.full(cells.shape, -1, np.int64)
    codes[~missing] = present_codes
    return Ratings(codes, values)


def _stack_cells(owner: str, ratings: Iterable[Sequence[Any] | np.ndarray]) -> np.ndarray:
    """Return the lists of all raters as an array of objects, (raters, units)."""
    rows = [np.asarray(row, dtype=object) for row in ratings]
    shapes = [row.shape for row in rows]
    if len(rows) < 2 or len(set(shapes)) > 1 or rows[0].ndim != 1:
        allowed = "of at least two raters, each a list of one rating per unit"
        raise InvalidInput(owner, "ratings", allowed, f"shapes {shapes}", "None = not rated.")
    return np.stack(rows)


def _read_numbers(owner: str, values: ArrayLike) -> np.ndarray:
    """Return the values as numbers; raises InvalidInput for texts and for infinity."""
    try:
        numbers = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidInput(owner, "ratings", "numbers", str(error)) from None
    if np.isinf(numbers).any():
        raise InvalidInput(owner, "ratings", "finite numbers", "infinity")
    return numbers


def make_kappa_measure(
    ratings: Ratings, weights: Weights | None, resampling: Resampling
) -> Measure:
    """Return kappa of the first two raters: 1 − observed / expected disagreement, as a measure of drawn clusters."""
    both = np.flatnonzero((ratings.codes[:2] >= 0).all(axis=0))
    count = len(ratings.values)
    distance = np.abs(ratings.values[:, None] - ratings.values)
    if weights is None:
        distance = (distance > 0.0).astype(float)
    elif weights == "quadratic":
        distance = distance**2

    def statistic(times: np.ndarray) -> float:
        a, b = ratings.codes[:2, resampling.repeat_rows(times, both)]
        if not len(a):
            return math.nan
        observed = distance[a, b].mean()
        share_a = np.bincount(a, minlength=count) / len(a)
        share_b = np.bincount(b, minlength=count) / len(b)
        expected = share_a @ distance @ share_b
        return float(1.0 - observed / expected) if expected > 0.0 else math.nan

    return Measure(statistic, len(both))


def make_alpha_measure(ratings: Ratings, metric: Metric, resampling: Resampling) -> Measure:
    """Return alpha of all raters: 1 − observed / expected disagreement, as a measure of drawn clusters."""
    usable = np.flatnonzero((ratings.codes >= 0).sum(axis=0) > 1)

    def statistic(times: np.ndarray) -> float:
        codes = ratings.codes[:, resampling.repeat_rows(times, usable)]
        rated = codes >= 0
        frequencies = np.bincount(codes[rated], minlength=len(ratings.values)).astype(float)
        if np.count_nonzero(frequencies) < 2:
            return math.nan
        n = frequencies.sum()
        # Every metric is a squared distance between points: on a line, or (nominal) between unit vectors.
        if metric == "nominal":
            points = np.eye(len(ratings.values))
        elif metric == "interval":
            points = ratings.values[:, None]
        else:
            # The distance of two ordinal values is the number of ratings between them: that of their mean ranks.
            points = (frequencies.cumsum() - frequencies / 2.0)[:, None]
        points = points - frequencies @ points / n  # around their mean
        # The squared distances of all ordered pairs among m points sum to 2 (m Σ|p|² − |Σp|²).
        cells = np.where(rated[:, :, None], points[codes], 0.0)
        ratings_of_unit = rated.sum(axis=0)
        sum_of_squares = (cells**2).sum(axis=(0, 2))
        square_of_sum = (cells.sum(axis=0) ** 2).sum(axis=1)
        half_distances = ratings_of_unit * sum_of_squares - square_of_sum
        # The factor 2 is left out here and in `expected`: their ratio is the same.
        observed = (half_distances / (ratings_of_unit - 1)).sum()
        expected = n * (frequencies @ points**2).sum()
        return float(1.0 - (n - 1.0) * observed / expected)

    return Measure(statistic, len(usable))


# --------------------------------------------------------------------------------------------------------- correlation


@only_our_errors
def kendall(
    a: ArrayLike,
    b: ArrayLike,
    *,
    clusters: Clusters = None,
    bootstrap: int = 0,
    seed: int = 0,
) -> Estimate:
    """Return Kendall's tau-b over all units; units that one of the two did not rate (NaN) are left out."""
    x, y = _read_pair("kendall", a, b)
    resampling = make_resampling("kendall", len(x), clusters, bootstrap, seed)
    return resampling.estimate(make_correlation_measure(x, y, resampling, "kendall"))


@only_our_errors
def kendall_within(
    a: ArrayLike,
    b: ArrayLike,
    *,
    groups: Clusters,
    bootstrap: int = 0,
    seed: int = 0,
) -> Estimate:
    """Return the mean over groups of Kendall's tau-b; n counts the groups in which it is defined."""
    x, y = _read_pair("kendall_within", a, b)
    resampling = make_resampling("kendall_within", len(x), groups, bootstrap, seed)
    return resampling.estimate(make_within_measure(x, y, resampling))


@only_our_errors
def spearman(
    a: ArrayLike,
    b: ArrayLike,
    *,
    clusters: Clusters = None,
    bootstrap: int = 0,
    seed: int = 0,
) -> Estimate:
    """Return Spearman's rho over all units, with mean ranks for ties.

    Units that one of the two did not rate (NaN) are left out.
    """
    x, y = _read_pair("spearman", a, b)
    resampling = make_resampling("spearman", len(x), clusters, bootstrap, seed)
    return resampling.estimate(make_correlation_measure(x, y, resampling, "spearman"))


def _read_pair(owner: str, a: ArrayLike, b: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of two raters, with NaN for None; raises InvalidInput unless there are as many of both."""
    x, y = _read_numbers(owner, _stack_cells(owner, [np.asarray(a), np.asarray(b)]))
    return x, y


def make_correlation_measure(
    x: np.ndarray, y: np.ndarray, resampling: Resampling, method: Literal["kendall", "spearman"]
) -> Measure:
    """Return Kendall's tau-b or Spearman's rho over all units that both have rated."""
    both = np.flatnonzero(~(np.isnan(x) | np.isnan(y)))

    def statistic(times: np.ndarray) -> float:
        rows = resampling.repeat_rows(times, both)
        return _correlate(x[rows], y[rows], method)

    return Measure(statistic, len(both))


def _correlate(x: np.ndarray, y: np.ndarray, method: Literal["kendall", "spearman"]) -> float:
    """Return the correlation; NaN with fewer than two units, or if one of the two ties everything."""
    # SciPy warns about columns in which everything is tied.
    if len(x) < 2 or np.ptp(x) == 0.0 or np.ptp(y) == 0.0:
        return math.nan
    stats = import_optional("scipy.stats", "rank correlation", "'rubrank[studies]'")
    correlation = stats.kendalltau(x, y) if method == "kendall" else stats.spearmanr(x, y)
    return float(correlation.statistic)


def make_within_measure(x: np.ndarray, y: np.ndarray, resampling: Resampling) -> Measure:
    """Return the mean of tau-b over the clusters in which it is defined."""
    taus = compute_cluster_taus(x, y, resampling)
    return Measure(make_mean_statistic(taus), int((~np.isnan(taus)).sum()))


def compute_cluster_taus(x: np.ndarray, y: np.ndarray, resampling: Resampling) -> np.ndarray:
    """Return tau-b in every cluster, over the units that both have rated; NaN if it is undefined."""
    both = ~(np.isnan(x) | np.isnan(y))
    taus = np.full(resampling.clusters, np.nan)
    # The rows sorted by cluster, to be cut where a cluster ends.
    order = np.argsort(resampling.cluster_of_row, kind="stable")
    ends = np.bincount(resampling.cluster_of_row, minlength=resampling.clusters).cumsum()
    for cluster, rows in enumerate(np.split(order, ends[:-1])):
        rated = rows[both[rows]]
        taus[cluster] = _correlate(x[rated], y[rated], "kendall")
    return taus
