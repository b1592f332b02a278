"""Two runs on the same items: paired differences with intervals.

    difference = compare(a, b)
    difference.estimate, difference.low, difference.high       +5.9 points [0.4, 11.3]

Items are the independent units: repeats of an item are averaged first, both runs are resampled by the same items, and
metrics that are no means (SSR, F1, an axis mean) are computed anew in every resample. Only items that both runs have
scored count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rubrank.errors import InvalidInput
from rubrank.evaluation.benchmark import ItemScore
from rubrank.evaluation.benchmarks import find_benchmark
from rubrank.evaluation.scoring import EvalRun

_RESAMPLES = 1000


@dataclass(frozen=True)
class Difference:
    """The second run less the first, in points out of 100."""

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
        """Second less first."""
        return self.second - self.first


def compare(first: EvalRun, second: EvalRun, *, resamples: int = _RESAMPLES, seed: int = 0) -> Difference:
    """The difference of the headline metric, with a 95% interval over items."""
    return _difference(_paired(first, second, resamples, seed))


def compare_runs(
    first: Sequence[EvalRun], second: Sequence[EvalRun], *, resamples: int = _RESAMPLES, seed: int = 0
) -> list[Difference]:
    """Every benchmark that both sides have, then the averages of their capabilities, then overall."""
    others = {run.benchmark: run for run in second}
    pairs = [_paired(run, others[run.benchmark], resamples, seed) for run in first if run.benchmark in others]
    if not pairs:
        got = f"{', '.join(r.benchmark for r in first)} and {', '.join(others)}"
        raise InvalidInput("eval compare", "runs", "with a benchmark in common", got, "")
    found = [_difference(pair) for pair in pairs]
    kinds: dict[str, list[_Paired]] = {}
    for pair in pairs:
        kinds.setdefault(pair.capability, []).append(pair)
    if len(pairs) > 1:
        found += [_difference(_averaged(f"= {kind}", some)) for kind, some in kinds.items()]
        found.append(_difference(_averaged("= overall", pairs)))
    return found


def interval(run: EvalRun, *, resamples: int = _RESAMPLES, seed: int = 0) -> tuple[float, float]:
    """The 95% interval of a run's headline metric over items, in points out of 100; NaN where nothing is scored."""
    benchmark = find_benchmark(run.benchmark, **run.settings)
    by_unit = _by_unit(run.scores)
    units = sorted(by_unit)
    if not units:
        return float("nan"), float("nan")
    draws = [
        benchmark.metrics(_drawn(by_unit, drawn))[benchmark.headline] * benchmark.per_cent
        for drawn in _resampled(units, resamples, seed)
    ]
    low, high = np.quantile(np.array(draws), (0.025, 0.975))
    return float(low), float(high)


@dataclass(frozen=True, eq=False)
class _Paired:
    """Two runs on the items that both have, and their difference in every resample."""

    name: str
    metric: str
    capability: str
    first: float
    second: float
    draws: np.ndarray
    items: int


def _paired(first: EvalRun, second: EvalRun, resamples: int, seed: int) -> _Paired:
    if first.benchmark != second.benchmark:
        got = f"{first.benchmark} and {second.benchmark}"
        raise InvalidInput("eval compare", "runs", "of the same benchmark", got, "")
    benchmark = find_benchmark(first.benchmark, **first.settings)
    a, b = _by_unit(first.scores), _by_unit(second.scores)
    units = sorted(set(a) & set(b))
    if not units:
        raise InvalidInput("eval compare", "runs", "with items in common", "none in common", "")

    def value(scores: Sequence[ItemScore]) -> float:
        return benchmark.metrics(scores)[benchmark.headline] * benchmark.per_cent

    draws = [value(_drawn(b, drawn)) - value(_drawn(a, drawn)) for drawn in _resampled(units, resamples, seed)]
    whole = [(unit, 0) for unit in units]
    capability = str(first.settings.get("capability") or benchmark.capability)
    return _Paired(
        benchmark.title,
        benchmark.headline,
        capability,
        value(_drawn(a, whole)),
        value(_drawn(b, whole)),
        np.array(draws),
        len(units),
    )


def _averaged(name: str, pairs: Sequence[_Paired]) -> _Paired:
    """The mean of several benchmarks, which are resampled independently of each other."""
    first, second = float(np.mean([p.first for p in pairs])), float(np.mean([p.second for p in pairs]))
    rng = np.random.default_rng(len(pairs))
    draws = np.mean([rng.permutation(pair.draws) for pair in pairs], axis=0)
    return _Paired(name, "mean", "", first, second, draws, sum(pair.items for pair in pairs))


def _difference(pair: _Paired) -> Difference:
    low, high = np.quantile(pair.draws, (0.025, 0.975))
    return Difference(pair.name, pair.metric, pair.first, pair.second, float(low), float(high), pair.items)


def _resampled(units: Sequence[str], resamples: int, seed: int) -> Iterator[list[tuple[str, int]]]:
    """The units that are drawn each time, numbered."""
    rng = np.random.default_rng(seed)
    for _ in range(resamples):
        yield [(units[i], n) for n, i in enumerate(rng.integers(0, len(units), len(units)).tolist())]


def _drawn(scores: dict[str, list[ItemScore]], drawn: Sequence[tuple[str, int]]) -> list[ItemScore]:
    """The scores of the units drawn; one that is drawn twice counts as two."""
    return [one for unit, n in drawn for one in _renamed(scores[unit], str(n))]


def _by_unit(scores: Sequence[ItemScore]) -> dict[str, list[ItemScore]]:
    """What is resampled together: a dialogue's turns, else an item's repeats."""
    found: dict[str, list[ItemScore]] = {}
    for score in scores:
        if not score.missing:
            found.setdefault(score.labels.get("dialogue") or score.id, []).append(score)
    return found


def _renamed(scores: list[ItemScore], tag: str) -> list[ItemScore]:
    """With ids, and names of dialogues, of their own."""
    found = []
    for score in scores:
        own = {name: f"{label}\0{tag}" for name, label in score.labels.items() if name == "dialogue"}
        found.append(replace(score, id=f"{score.id}\0{tag}", labels={**score.labels, **own}))
    return found
