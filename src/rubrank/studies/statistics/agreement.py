"""Do two raters, or many, say the same? Cohen's kappa and Krippendorff's alpha.

    >>> kappa([1, 2, 3, 3], [1, 2, 3, 2]).value
    0.6363636363636364
    >>> alpha([[1, 2, 3, 3], [1, 2, 3, None]], metric="ordinal").value     # rows are raters; None, NaN = not rated
    1.0

Both are 1 − observed / expected disagreement: 1 is full agreement, 0 what chance gives with the same frequencies, below
0 is worse than chance. Kappa keeps each rater's own frequencies and knows two raters; alpha pools them, and takes any
number of raters and gaps. NaN: nothing varies, so nothing can be told.

What counts as a disagreement between a and b:

    weights=None,        metric="nominal"     1 if they differ
    weights="linear"                          |a − b|
    weights="quadratic", metric="interval"    (a − b)²
                         metric="ordinal"     (how many ratings lie between them)²

Distances are those of the values, not of their places in a list: 1 and 5 are four apart even if no rater said 3. With
`bootstrap=1000` an interval is added, by drawing units (or whole `clusters` of them) again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from rubrank.errors import InvalidInput, UnknownName, only_our_errors
from rubrank.studies.statistics.resampling import Clusters, Estimate, Measure, frequencies, resampling

Weights: TypeAlias = Literal["linear", "quadratic"]
Metric: TypeAlias = Literal["nominal", "ordinal", "interval"]

_WEIGHTS: tuple[Weights, ...] = ("linear", "quadratic")
_METRICS: tuple[Metric, ...] = ("nominal", "ordinal", "interval")


@only_our_errors
def kappa(
    a: Sequence[Any] | np.ndarray,
    b: Sequence[Any] | np.ndarray,
    *,
    weights: Weights | None = None,
    clusters: Clusters = None,
    bootstrap: int = 0,
    seed: int = 0,
    level: float = 0.95,
) -> Estimate:
    """Cohen's kappa of two raters; units that one of them did not rate are left out.

    Ratings are numbers, or texts if `weights` is None.
    """
    if weights is not None and weights not in _WEIGHTS:
        raise UnknownName.of("kappa", "weights", weights, _WEIGHTS)
    rated = read_ratings("kappa", [a, b], texts=weights is None)
    draw = resampling("kappa", rated.units, clusters, bootstrap, seed, level)
    return draw.estimate(kappa_measure(rated, weights, draw.of_row))


@only_our_errors
def alpha(
    ratings: Sequence[Sequence[Any]] | np.ndarray,
    *,
    metric: Metric = "ordinal",
    clusters: Clusters = None,
    bootstrap: int = 0,
    seed: int = 0,
    level: float = 0.95,
) -> Estimate:
    """Krippendorff's alpha of (raters, units); units with fewer than two ratings say nothing and are left out.

    Ratings are numbers, or texts if the metric is "nominal".
    """
    if metric not in _METRICS:
        raise UnknownName.of("alpha", "metric", metric, _METRICS)
    rated = read_ratings("alpha", ratings, texts=metric == "nominal")
    draw = resampling("alpha", rated.units, clusters, bootstrap, seed, level)
    return draw.estimate(alpha_measure(rated, metric, draw.of_row))


# ------------------------------------------------------------------------------------------------------------- ratings


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings as numbers of their values."""

    codes: np.ndarray
    """(raters, units): place in `values`, −1 = not rated."""
    values: np.ndarray
    """All that were given, in order; their numbers if they are texts."""

    @property
    def units(self) -> int:
        """How many there are, rated or not."""
        return self.codes.shape[1]


def read_ratings(owner: str, ratings: Iterable[Sequence[Any] | np.ndarray], *, texts: bool) -> Ratings:
    """Check and number them; None and NaN are not rated."""
    rows = [np.asarray(row, dtype=object) for row in ratings]
    shapes = {row.shape for row in rows}
    if len(rows) < 2 or len(shapes) != 1 or any(row.ndim != 1 for row in rows):
        got = f"{len(rows)} of shapes {sorted(shapes)}" if rows else "none"
        raise InvalidInput(
            owner, "ratings", "of at least two raters, each a list of one rating per unit", got, "None = not rated."
        )
    cells = np.stack(rows)
    missing = np.array([x is None or x != x for x in cells.flat], bool).reshape(cells.shape)
    known = cells[~missing]
    if texts and any(isinstance(x, str) for x in known):
        names, codes = np.unique(known.astype(str), return_inverse=True)
        values = np.arange(len(names), dtype=float)
    else:
        values, codes = np.unique(_floats(owner, known, texts), return_inverse=True)
    all_codes = np.full(cells.shape, -1, np.int64)
    all_codes[~missing] = codes
    return Ratings(all_codes, values)


def _floats(owner: str, known: np.ndarray, texts: bool) -> np.ndarray:
    remedy = "Use None where there is no rating." if texts else "Texts have no distances: ask for the nominal one."
    try:
        found = known.astype(float)
    except (TypeError, ValueError):
        strange = next(x for x in known if not isinstance(x, int | float | np.number))
        raise InvalidInput(owner, "ratings", "numbers", repr(strange), remedy) from None
    if any(isinstance(x, str) for x in known):
        raise InvalidInput(owner, "ratings", "numbers", repr(next(x for x in known if isinstance(x, str))), remedy)
    if np.isinf(found).any():
        raise InvalidInput(owner, "ratings", "finite", "infinity", "Use None where there is no rating.")
    return found


# -------------------------------------------------------------------------------------------------------- coefficients


def _ratio(observed: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """1 − observed / expected; NaN where nothing could disagree."""
    good = expected > 0.0
    return np.where(good, 1.0 - observed / np.where(good, expected, 1.0), np.nan)


def kappa_measure(rated: Ratings, weights: Weights | None, of_row: np.ndarray) -> Measure:
    """Kappa of the first two raters; `of_row` is the cluster of every unit."""
    both = (rated.codes >= 0).all(axis=0)
    (x, y), values, of_row = rated.codes[:2, both], rated.values, of_row[both]
    near = values - values.mean() if len(values) else values
    difference = near[x] - near[y]
    cost = {None: (difference != 0.0) * 1.0, "linear": np.abs(difference), "quadratic": difference**2}[weights]

    def statistic(times: np.ndarray) -> np.ndarray:
        w = times[:, of_row]
        total = w.sum(axis=1)
        p, q = frequencies(w, x, len(values)), frequencies(w, y, len(values))
        return _ratio((w @ cost) * total, _expected(p, q, near, weights))

    return Measure(statistic, len(x), len(x) + len(values))


def _expected(p: np.ndarray, q: np.ndarray, values: np.ndarray, weights: Weights | None) -> np.ndarray:
    """Σ p_a q_b · cost(a, b), without making a table of all a and b."""
    if weights is None:
        return p.sum(axis=1) * q.sum(axis=1) - (p * q).sum(axis=1)
    if weights == "quadratic":
        return (p @ values**2) * q.sum(axis=1) + (q @ values**2) * p.sum(axis=1) - 2 * (p @ values) * (q @ values)
    below_p, below_q = p.cumsum(axis=1)[:, :-1], q.cumsum(axis=1)[:, :-1]
    above_p, above_q = p.sum(axis=1)[:, None] - below_p, q.sum(axis=1)[:, None] - below_q
    return (below_p * above_q + below_q * above_p) @ np.diff(values)


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Every two ratings of a unit, in both orders: their values, and 1 / (ratings of the unit − 1)."""

    units: np.ndarray
    a: np.ndarray
    b: np.ndarray
    weight: np.ndarray


def _pairs(codes: np.ndarray) -> _Pairs:
    raters = len(codes)
    rated = (codes >= 0).sum(axis=0)
    parts = []
    for i in range(raters):
        for j in range(raters):
            units = np.flatnonzero((codes[i] >= 0) & (codes[j] >= 0)) if i != j else np.zeros(0, np.int64)
            parts.append(np.stack([units, codes[i, units], codes[j, units]]))
    units, a, b = np.concatenate(parts, axis=1)
    return _Pairs(units, a, b, 1.0 / np.maximum(rated[units] - 1, 1))


def alpha_measure(rated: Ratings, metric: Metric, of_row: np.ndarray) -> Measure:
    """Alpha of all raters; `of_row` is the cluster of every unit."""
    pairs, values = _pairs(rated.codes), rated.values
    of_pair = of_row[pairs.units]

    def statistic(times: np.ndarray) -> np.ndarray:
        w = times[:, of_pair] * pairs.weight
        n_v = frequencies(w, pairs.a, len(values))
        n = n_v.sum(axis=1)
        if metric == "nominal":
            observed, expected = w @ (pairs.a != pairs.b), n * n - (n_v * n_v).sum(axis=1)
        else:
            scale = np.broadcast_to(values, n_v.shape) if metric == "interval" else n_v.cumsum(axis=1) - n_v / 2.0
            scale = scale - (scale * n_v).sum(axis=1, keepdims=True) / np.maximum(n, 1.0)[:, None]
            observed = (w * (scale[:, pairs.a] - scale[:, pairs.b]) ** 2).sum(axis=1)
            expected = 2.0 * n * (n_v * scale**2).sum(axis=1)
        # Rounding must not turn "nothing varies" into a number.
        expected = np.where((n_v > 1e-9).sum(axis=1) > 1, expected, 0.0)
        return _ratio((n - 1.0) * observed, expected)

    return Measure(statistic, len(np.unique(pairs.units)), len(pairs.units) + len(values))
