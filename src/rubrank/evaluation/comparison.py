"""Bootstrap intervals of one run, and of the paired difference of two runs on the same items.

    difference = compare(a, b)
    difference.estimate, difference.interval       +5.9 points [0.4, 11.3]

The independent units are items: repeats of an item (and turns of a dialogue) are drawn together, and both runs are
resampled with the same items. The metric is computed anew in every resample, because some metrics are not means (SSR,
F1, a mean over axes). Only items that both runs have scored count.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rubrank.errors import InvalidInput
from rubrank.evaluation.benchmark import Benchmark, ItemScore
from rubrank.evaluation.benchmarks import find_benchmark
from rubrank.evaluation.runs import EvalRun

_RESAMPLES = 1000


@dataclass(frozen=True, eq=False)
class Difference:
    """The second run minus the first, in points out of 100, on the items that both have."""

    name: str
    """The benchmark, or the capability."""
    metric: str
    first: float
    second: float
    items: int
    capability: str = field(repr=False)
    resampled: np.ndarray = field(repr=False)
    """The difference in every resample; NaN if a run has no headline metric."""

    @property
    def estimate(self) -> float:
        """Second minus first."""
        return self.second - self.first

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% interval of the difference; NaN for a single item."""
        return _compute_interval(self.resampled, self.items)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain data for JSON."""
        low, high = self.interval
        return {
            "name": self.name,
            "metric": self.metric,
            "first": self.first,
            "second": self.second,
            "low": low,
            "high": high,
            "items": self.items,
            "estimate": self.estimate,
        }


def _compute_interval(values: Sequence[float] | np.ndarray, items: int) -> tuple[float, float]:
    """Return the 95% interval of resampled values. A single item cannot be drawn differently, and has none."""
    if items < 2:
        return math.nan, math.nan
    low, high = np.quantile(values, (0.025, 0.975)).tolist()
    return low, high


def compare_runs(
    first: Sequence[EvalRun],
    second: Sequence[EvalRun],
    *,
    resamples: int = _RESAMPLES,
    seed: int = 0,
) -> list[Difference]:
    """Compare every benchmark that both sides have, then the means over each capability, then the overall mean."""
    second_by_name = {run.benchmark: run for run in second}
    differences = [
        compare(run, second_by_name[run.benchmark], resamples=resamples, seed=seed)
        for run in first
        if run.benchmark in second_by_name
    ]
    if not differences:
        got = f"{', '.join(run.benchmark for run in first)} and {', '.join(second_by_name)}"
        raise InvalidInput("eval compare", "runs", "with a benchmark in common", got)
    defined = [item for item in differences if not np.isnan(item.resampled).any()]
    if len(defined) > 1:
        for capability in dict.fromkeys(item.capability for item in defined):
            members = [item for item in defined if item.capability == capability]
            differences.append(_average_differences(f"= {capability}", members))
        differences.append(_average_differences("= overall", defined))
    return differences


def bootstrap_interval(run: EvalRun, *, resamples: int = _RESAMPLES) -> tuple[float, float]:
    """Return the 95% interval of a run's headline over items, in points out of 100; NaN with fewer than two items."""
    benchmark = find_benchmark(run.benchmark, **run.settings)
    scores_by_unit = _group_by_unit(run.scores)
    units = sorted(scores_by_unit)
    points = [
        _compute_points(benchmark, scores_by_unit, draw)
        for draw in _draw_units(units, resamples, seed=0)
    ]
    return _compute_interval(points, len(units))


def compare(
    first: EvalRun, second: EvalRun, *, resamples: int = _RESAMPLES, seed: int = 0
) -> Difference:
    """Compare the headline metric of two runs of a benchmark on their common items.

    Raises InvalidInput without such items, or for different benchmarks.
    """
    benchmark = find_benchmark(first.benchmark, **first.settings)
    first_scores = _group_by_unit(first.scores)
    second_scores = _group_by_unit(second.scores)
    units = sorted(set(first_scores) & set(second_scores))
    if first.benchmark != second.benchmark or not units:
        got = f"{first.benchmark} and {second.benchmark}, {len(units)} items in common"
        raise InvalidInput(
            "eval compare", "runs", "of the same benchmark, with items in common", got
        )
    differences = [
        _compute_points(benchmark, second_scores, draw)
        - _compute_points(benchmark, first_scores, draw)
        for draw in _draw_units(units, resamples, seed)
    ]
    return Difference(
        name=benchmark.title,
        metric=benchmark.headline,
        first=_compute_points(benchmark, first_scores, units),
        second=_compute_points(benchmark, second_scores, units),
        items=len(units),
        capability=str(first.settings.get("capability") or benchmark.capability),
        resampled=np.array(differences),
    )


def _average_differences(name: str, members: Sequence[Difference]) -> Difference:
    """Average the differences of several benchmarks."""
    # All were resampled with one seed; shuffling makes the draws of different benchmarks independent.
    rng = np.random.default_rng(len(members))
    shuffled = [rng.permutation(member.resampled) for member in members]
    return Difference(
        name=name,
        metric="mean",
        first=float(np.mean([member.first for member in members])),
        second=float(np.mean([member.second for member in members])),
        items=sum(member.items for member in members),
        capability="",
        resampled=np.mean(shuffled, axis=0),
    )


def _group_by_unit(scores: Sequence[ItemScore]) -> dict[str, list[ItemScore]]:
    """Group the scores that are drawn together: the turns of a dialogue, or the repeats of an item."""
    by_unit: dict[str, list[ItemScore]] = {}
    for score in scores:
        if not score.missing:
            by_unit.setdefault(score.labels.get("dialogue") or score.id, []).append(score)
    return by_unit


def _draw_units(units: Sequence[str], resamples: int, seed: int) -> Iterator[list[str]]:
    """Yield one draw for each resample: as many units as there are, drawn with replacement."""
    rng = np.random.default_rng(seed)
    for _ in range(resamples):
        yield [units[i] for i in rng.integers(0, len(units), len(units)).tolist()]


def _compute_points(
    benchmark: Benchmark, scores_by_unit: dict[str, list[ItemScore]], draw: Sequence[str]
) -> float:
    """Compute the headline metric of the drawn units, in points; a unit that is drawn twice counts twice."""
    scores = []
    for number, unit in enumerate(draw):
        for score in scores_by_unit[unit]:
            # A number in the names keeps metrics from merging the two copies into one item or one dialogue.
            labels = dict(score.labels)
            if "dialogue" in labels:
                labels["dialogue"] += f"\0{number}"
            scores.append(replace(score, id=f"{score.id}\0{number}", labels=labels))
    # Comparisons of EQ-Bench give ratings of several models, and no headline of one.
    headline = benchmark.metrics(scores).get(benchmark.headline, float("nan"))
    return headline * benchmark.points_factor
