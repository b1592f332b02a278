"""A measured number with its interval, and the resampling that gives it.

    groups a a b b c c          drawn again, three of three:  b c b  →  times a 0, b 2, c 1

Rollouts of one group are answers to one query: they are not independent, so whole groups are drawn, and a statistic is
computed again with every group counted as often as it was drawn. A statistic here is a function

    times (draws, clusters)  →  values (draws,)                 NaN where it is undefined

and its point estimate is its value when everything counts once. Statistics of the same clusters and seed see the same
draws: their values may be averaged or subtracted, draw by draw.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from rubrank.errors import InvalidInput, only_our_errors

Statistic: TypeAlias = Callable[[np.ndarray], np.ndarray]
"""times (draws, clusters) → values (draws, …)"""
Clusters: TypeAlias = "ArrayLike | Sequence[Hashable] | None"

_MOST_CELLS = 4_000_000  # of draws × units held at once: 32 MB


@dataclass(frozen=True)
class Estimate:
    """A number, its interval (NaN if none was asked for, or too little is known), and how many units are in it."""

    value: float
    low: float = math.nan
    high: float = math.nan
    n: int = 0

    def as_dict(self) -> dict[str, float | int | None]:
        """For JSON: None where there is no number."""
        known = {"value": self.value, "low": self.low, "high": self.high}
        return {**{name: None if math.isnan(x) else x for name, x in known.items()}, "n": self.n}


class Measure(NamedTuple):
    """A statistic, how many units are in it, and how many numbers it makes of one draw, so that memory stays low."""

    statistic: Statistic
    n: int
    width: int = 1


class Draws(NamedTuple):
    """What a measure gave: for what was seen, and in every draw."""

    value: float
    draws: np.ndarray
    n: int


@dataclass(frozen=True, eq=False)
class Resampling:
    """What a bootstrap draws from: rows in clusters."""

    of_row: np.ndarray
    """The number of every row's cluster."""
    clusters: int
    draws: int
    seed: int
    level: float = 0.95

    def values(self, measure: Measure) -> np.ndarray:
        """The statistic in every draw."""
        rng = np.random.default_rng(self.seed)
        block = max(1, _MOST_CELLS // max(1, measure.width, self.clusters))
        found = [measure.statistic(np.zeros((0, self.clusters)))]  # for the shape, if there are no draws
        for start in range(0, self.draws, block):
            rows = min(block, self.draws - start)
            drawn = rng.integers(max(1, self.clusters), size=(rows, self.clusters))
            found.append(measure.statistic(_counted(drawn, self.clusters)))
        return np.concatenate(found)

    def measured(self, measure: Measure) -> Draws:
        """The statistic of what was seen and of every draw; one cluster alone cannot be drawn differently."""
        value = float(measure.statistic(np.ones((1, self.clusters)))[0])
        draws = self.values(measure) if self.clusters > 1 and not math.isnan(value) else np.zeros(0)
        return Draws(value, draws, measure.n)

    def estimate(self, measure: Measure) -> Estimate:
        """The statistic of what was seen, with its percentile interval."""
        return interval(self.measured(measure), self.level)


def _counted(drawn: np.ndarray, clusters: int) -> np.ndarray:
    """How often each cluster was drawn."""
    rows = len(drawn)
    flat = (drawn + np.arange(rows)[:, None] * clusters).ravel()
    return np.bincount(flat, minlength=rows * clusters).reshape(rows, clusters).astype(float)


def interval(measured: Draws, level: float = 0.95) -> Estimate:
    """Percentiles of the draws in which the statistic is defined; none if it is undefined in most of them."""
    value, draws, n = measured
    known = draws[~np.isnan(draws)]
    if math.isnan(value) or not len(known) or 2 * len(known) < len(draws):
        return Estimate(value, n=n)
    low, high = np.quantile(known, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return Estimate(value, float(low), float(high), n)


def mean_measured(some: Sequence[Draws]) -> Draws:
    """The mean of measures of the same draws, over those that are defined; n is the sum."""
    known = [one for one in some if not math.isnan(one.value)]
    if not known:
        return Draws(math.nan, np.zeros(0), 0)
    draws = [one.draws for one in known if len(one.draws)]
    together = np.mean(draws, axis=0) if len(draws) == len(known) else np.zeros(0)
    return Draws(float(np.mean([one.value for one in known])), together, sum(one.n for one in known))


def resampling(
    owner: str, rows: int, clusters: Clusters = None, draws: int = 0, seed: int = 0, level: float = 0.95
) -> Resampling:
    """Rows to draw from: clusters by their labels, or every row by itself."""
    if not isinstance(draws, int | np.integer) or isinstance(draws, bool) or draws < 0:
        raise InvalidInput(owner, "bootstrap", "a number of draws, 0 for none", repr(draws), "Use 1000.")
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise InvalidInput(owner, "seed", "an integer ≥ 0", repr(seed), "")
    if not isinstance(level, float) or not 0.0 < level < 1.0:
        raise InvalidInput(owner, "level", "between 0 and 1", repr(level), "Use 0.95.")
    if clusters is None:
        return Resampling(np.arange(rows), rows, int(draws), int(seed), level)
    of_row, count = numbered(clusters)
    if len(of_row) != rows:
        raise InvalidInput(owner, "clusters", f"{rows} labels, one a unit", str(len(of_row)), "")
    return Resampling(of_row, count, int(draws), int(seed), level)


def numbered(labels: Any) -> tuple[np.ndarray, int]:
    """The labels as numbers from 0 in order of first appearance, and how many there are."""
    number: dict[Hashable, int] = {}
    listed: Iterable[Hashable] = labels.tolist() if isinstance(labels, np.ndarray) else labels
    found = [number.setdefault(label, len(number)) for label in listed]
    return np.array(found, np.int64), len(number)


def frequencies(weights_BN: np.ndarray, codes: np.ndarray, count: int) -> np.ndarray:
    """(B, N) weights of units, added up by value: (B, count)."""
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(count), side="right")
    sums = np.concatenate([np.zeros((len(weights_BN), 1)), weights_BN[:, order].cumsum(axis=1)], axis=1)[:, ends]
    return np.diff(sums, axis=1, prepend=0.0)


@only_our_errors
def ratio_measure(some: np.ndarray, of: np.ndarray) -> Measure:
    """Σ some / Σ of over the clusters: a share."""

    def statistic(times: np.ndarray) -> np.ndarray:
        total = times @ of
        return np.where(total > 0.0, (times @ some) / np.maximum(total, 1.0), np.nan)

    return Measure(statistic, int(of.sum()))


def wilson(wins: float, n: int, level: float = 0.95) -> Estimate:
    """A share with Wilson's interval, which stays within [0, 1] and is honest about small n."""
    if n <= 0:
        return Estimate(math.nan, n=0)
    z = NormalDist().inv_cdf((1.0 + level) / 2.0)
    share = wins / n
    centre, spread = share + z * z / (2 * n), z * math.sqrt(share * (1.0 - share) / n + z * z / (4 * n * n))
    scale = 1.0 + z * z / n
    return Estimate(share, max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale), n)
