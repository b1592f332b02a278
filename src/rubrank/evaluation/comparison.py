"""Bootstrap intervals of one run, and of the paired difference of two runs on the same items.

    difference = compare(a, b)
    difference.estimate, difference.low, difference.high       +5.9 points [0.4, 11.3]

The independent units are items: repeats of an item (and turns of a dialogue) are drawn together, and both runs are
resampled with the same items. The metric is computed anew in every resample, because some metrics are not means (SSR,
F1, a mean over axes). Only items that both runs have scored count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rubrank.errors import InvalidInput
from rubrank.evaluation.benchmark import Benchmark, ItemScore
from rubrank.evaluation.benchmarks import find_benchmark
from rubrank.evaluation.runs import EvalRun

_RESAMPLES = 1000
_NO_INTERVAL = (float("nan"), float("nan"))


@dataclass(frozen=True)
class Difference:
    """The second run minus the first, in points out of 100."""

    name: str
    """The benchmark, or the capability."""
    metric: str
    first: float
    second: float
    low: float
    high: float
    items: int

    @property
    def estimate(self) -> float:
        """Second minus first."""
        return self.second - self.first


@dataclass(frozen=True, eq=False)
class _Comparison:
    """Two runs on their common items, and their difference in every resample."""

    name: str
    metric: str
    capability: str
    first: float
    second: float
    differences: np.ndarray
    """One for each resample; NaN if a run has no headline metric."""
    items: int

    def summarise(self) -> Difference:
        """Return the difference with its 95% interval, which is NaN for a single item."""
        low, high = _NO_INTERVAL
        if self.items > 1:
            low, high = np.quantile(self.differences, (0.025, 0.975)).tolist()
        return Difference(
            name=self.name,
            metric=self.metric,
            first=self.first,
            second=self.second,
            low=low,
            high=high,
            items=self.items,
        )


def compare(first: EvalRun, second: EvalRun) -> Difference:
    """Return the difference of the headline metric, with a 95% interval over items."""
    return _compare(first, second, _RESAMPLES, seed=0).summarise()


def compare_runs(
    first: Sequence[EvalRun],
    second: Sequence[EvalRun],
    *,
    resamples: int = _RESAMPLES,
    seed: int = 0,
) -> list[Difference]:
    """Compare every benchmark that both sides have, then the means over each capability, then the overall mean."""
    second_by_name = {run.benchmark: run for run in second}
    comparisons = [
        _compare(run, second_by_name[run.benchmark], resamples, seed)
        for run in first
        if run.benchmark in second_by_name
    ]
    if not comparisons:
        raise InvalidInput(
            owner="eval compare",
            parameter="runs",
            allowed="with a benchmark in common",
            got=f"{', '.join(run.benchmark for run in first)} and {', '.join(second_by_name)}",
        )
    differences = [comparison.summarise() for comparison in comparisons]
    defined = [
        comparison for comparison in comparisons if not np.isnan(comparison.differences).any()
    ]
    if len(defined) > 1:
        by_capability: dict[str, list[_Comparison]] = {}
        for comparison in defined:
            by_capability.setdefault(comparison.capability, []).append(comparison)
        for capability, members in by_capability.items():
            differences.append(_average_comparisons(f"= {capability}", members).summarise())
        differences.append(_average_comparisons("= overall", defined).summarise())
    return differences


def bootstrap_interval(run: EvalRun, *, resamples: int = _RESAMPLES) -> tuple[float, float]:
    """Return the 95% interval of a run's headline over items, in points out of 100; NaN with fewer than two items."""
    benchmark = find_benchmark(run.benchmark, **run.settings)
    scores_by_unit = _group_by_unit(run.scores)
    units = sorted(scores_by_unit)
    # A single item cannot be drawn differently: its "interval" would have no width.
    if len(units) < 2:
        return _NO_INTERVAL
    points = [
        _compute_points(benchmark, scores_by_unit, draw)
        for draw in _draw_units(units, resamples, seed=0)
    ]
    low, high = np.quantile(points, (0.025, 0.975))
    return float(low), float(high)


def _compare(first: EvalRun, second: EvalRun, resamples: int, seed: int) -> _Comparison:
    """Compare two runs on their common items. Raises InvalidInput without such items, or for different benchmarks."""
    if first.benchmark != second.benchmark:
        raise InvalidInput(
            owner="eval compare",
            parameter="runs",
            allowed="of the same benchmark",
            got=f"{first.benchmark} and {second.benchmark}",
        )
    benchmark = find_benchmark(first.benchmark, **first.settings)
    first_scores = _group_by_unit(first.scores)
    second_scores = _group_by_unit(second.scores)
    units = sorted(set(first_scores) & set(second_scores))
    if not units:
        raise InvalidInput(
            owner="eval compare",
            parameter="runs",
            allowed="with items in common",
            got="none in common",
        )
    differences = [
        _compute_points(benchmark, second_scores, draw)
        - _compute_points(benchmark, first_scores, draw)
        for draw in _draw_units(units, resamples, seed)
    ]
    return _Comparison(
        name=benchmark.title,
        metric=benchmark.headline,
        capability=str(first.settings.get("capability") or benchmark.capability),
        first=_compute_points(benchmark, first_scores, units),
        second=_compute_points(benchmark, second_scores, units),
        differences=np.array(differences),
        items=len(units),
    )


def _average_comparisons(name: str, comparisons: Sequence[_Comparison]) -> _Comparison:
    """Average the comparisons of several benchmarks."""
    # All were resampled with one seed; shuffling makes the draws of different benchmarks independent.
    rng = np.random.default_rng(len(comparisons))
    shuffled_differences = [rng.permutation(comparison.differences) for comparison in comparisons]
    return _Comparison(
        name=name,
        metric="mean",
        capability="",
        first=float(np.mean([comparison.first for comparison in comparisons])),
        second=float(np.mean([comparison.second for comparison in comparisons])),
        differences=np.mean(shuffled_differences, axis=0),
        items=sum(comparison.items for comparison in comparisons),
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
