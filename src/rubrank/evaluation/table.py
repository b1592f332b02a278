"""Tables of scored runs: the paper's table of benchmarks, differences between runs, and 95% intervals.

    table = capability_table(runs)
    table.rows[0].cells["ifeval"], table.rows[0].averages["instruction following"], table.rows[0].overall

    difference = compare(a, b)
    difference.estimate, difference.interval       +5.9 points [0.4, 11.3]

Numbers are points out of 100. The mean of a capability covers those of its benchmarks that were run, and overall covers
all benchmarks that were run. A benchmark that a model was not run on is a dash.

Intervals are bootstrapped over items: repeats of an item (and turns of a dialogue) are drawn together, and two runs are
resampled with the same items. The metric is computed anew in every resample, because some metrics are not means (SSR,
F1, a mean over axes). Only items that both runs have scored count in a difference.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rubrank.errors import InvalidInput
from rubrank.evaluation.benchmark import CAPABILITIES, Benchmark, ItemScore, mean
from rubrank.evaluation.benchmarks import BENCHMARKS, benchmark_class, find_benchmark
from rubrank.evaluation.runs import EvalRun

_RESAMPLES = 1000
_CURVE_RESAMPLES = 200  # a curve has many points, and its bars need no third digit


@dataclass(frozen=True)
class TableRow:
    """The numbers of one model."""

    model: str
    cells: Mapping[str, float]
    """Benchmark → points; only those that were run."""
    averages: Mapping[str, float]
    """Capability → mean points."""
    overall: float
    notes: Mapping[str, str]
    """Benchmark → how the number was made: settings, judge, how many were judged."""
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Benchmark → 95% interval over items, if requested; none for a benchmark with a single item."""


@dataclass(frozen=True)
class CapabilityTable:
    """The table: one row for each model, one column for each benchmark and capability."""

    benchmarks: tuple[str, ...]
    capabilities: tuple[str, ...]
    rows: tuple[TableRow, ...]

    @property
    def titles(self) -> list[str]:
        """The titles of the columns: benchmarks, capabilities, and the overall mean."""
        names = [benchmark_class(name).title for name in self.benchmarks]
        return [*names, *self.capabilities, "overall"]

    def list_points(self, row: TableRow) -> list[float]:
        """Return the numbers of a row in the order of the columns; NaN where there is none."""
        numbers = {**row.cells, **row.averages, "overall": row.overall}
        columns = (*self.benchmarks, *self.capabilities, "overall")
        return [numbers.get(column, math.nan) for column in columns]

    def list_intervals(self, row: TableRow) -> list[list[float] | None]:
        """Return the intervals of a row in the order of the columns; None where there is none."""
        columns = (*self.benchmarks, *self.capabilities, "overall")
        return [list(row.intervals[name]) if name in row.intervals else None for name in columns]

    def markdown(self) -> str:
        """Return the table in Markdown, with notes below."""
        head = ["model", *self.titles]
        lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
        for row in self.rows:
            cells = [row.model]
            columns = zip(self.list_points(row), self.list_intervals(row), strict=True)
            for value, interval in columns:
                cell = "–" if math.isnan(value) else f"{value:.2f}"
                if interval is not None:
                    cell += " [{:.2f}, {:.2f}]".format(*interval)
                cells.append(cell)
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join([*lines, "", *(f"- {note}" for note in self.notes())]) + "\n"

    def notes(self) -> list[str]:
        """Return one line for every number: model, benchmark, and how the number was made."""
        return [
            f"{row.model}, {benchmark_class(name).title}: {note}"
            for row in self.rows
            for name, note in row.notes.items()
        ]

    def to_dict(self) -> dict[str, object]:
        """Return the table as plain data for JSON."""
        rows = [
            {
                "model": row.model,
                "points": row.cells,
                "capabilities": row.averages,
                "overall": row.overall,
                "intervals": row.intervals,
                "notes": row.notes,
            }
            for row in self.rows
        ]
        return {"benchmarks": list(self.benchmarks), "rows": rows}


def capability_table(runs: Sequence[EvalRun], *, intervals: bool = False) -> CapabilityTable:
    """Make the table of all runs; a model may have each benchmark once. intervals: add 95% intervals over items."""
    runs_by_model: dict[str, dict[str, EvalRun]] = {}
    for run in runs:
        model = run.model or "model"
        model_runs = runs_by_model.setdefault(model, {})
        if run.benchmark in model_runs:
            raise InvalidInput(
                owner="eval table",
                parameter="runs",
                allowed="each benchmark once per model",
                got=f"{run.benchmark} of {model} twice",
                remedy="Name the models: `model=NAME`.",
            )
        model_runs[run.benchmark] = run
    rows = [_make_row(model, model_runs, intervals) for model, model_runs in runs_by_model.items()]
    # Columns are in the order of the paper's table.
    present_benchmarks = {run.benchmark for run in runs}
    present_capabilities = {capability for row in rows for capability in row.averages}
    return CapabilityTable(
        benchmarks=tuple(name for name in BENCHMARKS if name in present_benchmarks),
        capabilities=tuple(name for name in CAPABILITIES if name in present_capabilities),
        rows=tuple(rows),
    )


def _make_row(model: str, runs: Mapping[str, EvalRun], intervals: bool) -> TableRow:
    """Make the row of a model. runs: its run of each benchmark."""
    cells = {name: points(runs[name]) for name in BENCHMARKS if name in runs}
    by_capability: dict[str, list[float]] = {}
    for name, value in cells.items():
        if not math.isnan(value):
            # AA-LCR has a setting for it, because the paper's text and table differ.
            capability = runs[name].settings.get("capability") or benchmark_class(name).capability
            by_capability.setdefault(str(capability), []).append(value)
    bounds: dict[str, tuple[float, float]] = {}
    if intervals:
        for name in cells:
            low, high = bootstrap_interval(runs[name])
            if not math.isnan(low):
                bounds[name] = (low, high)
    return TableRow(
        model=model,
        cells=cells,
        averages={capability: mean(values) for capability, values in by_capability.items()},
        overall=mean(value for value in cells.values() if not math.isnan(value)),
        notes={name: _describe_run(run) for name, run in runs.items()},
        intervals=bounds,
    )


def points(run: EvalRun) -> float:
    """Return the headline metric of a run in points out of 100; NaN if it has none."""
    benchmark = benchmark_class(run.benchmark)
    return run.metrics.get(benchmark.headline, math.nan) * benchmark.points_factor


def _describe_run(run: EvalRun) -> str:
    """Describe how a number was made: metric, settings, judge, sampling, how many outputs were scored."""
    benchmark = benchmark_class(run.benchmark)
    parts = [benchmark.headline]
    parts += [f"{name} {value}" for name, value in run.settings.items()]
    if run.judge:
        parts.append(f"judge {run.judge}")
    if not math.isnan(run.reasoning_words):
        parts.append(f"{run.reasoning_words:.0f} words of thinking cut")
    parts += [
        f"{name.replace('_', ' ')} {value}"
        for name, value in run.sampling.items()
        if value is not None
    ]
    return ", ".join([*parts, f"{run.judged} scored", *run.notes])


# ------------------------------------------------------------------------------------------ differences and intervals


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


# -------------------------------------------------------------------------------------------------------------- report


def report_data(runs: Sequence[EvalRun]) -> dict[str, Any]:
    """Return the table and the curves as plain data for `write_report(…, evaluation=…)`:

    {"columns": ["IFEval", "instruction following", "overall"],
     "rows": [{"model": "a", "points": [41.2, 41.2, 41.2]}], "notes": […],
     "intervals": [[[38.0, 44.4], None, None]],          of each row; averages over benchmarks have none
     "curves": [{"name": "IFEval, prompt strict", "points": [[0, 12.5, 4.1], …]}]}
    """
    table = capability_table(runs, intervals=True)
    return {
        "columns": table.titles,
        "rows": [{"model": row.model, "points": table.list_points(row)} for row in table.rows],
        "intervals": [table.list_intervals(row) for row in table.rows],
        "notes": table.notes(),
        "curves": _make_training_curves(runs),
    }


def _make_training_curves(runs: Sequence[EvalRun]) -> list[dict[str, Any]]:
    """Return the curves of benchmarks that were run at two or more training steps.

    A point is [step, points out of 100, half of the 95% interval].
    """
    by_benchmark: dict[str, dict[int, EvalRun]] = {}
    for run in runs:
        if isinstance(run.sampling.get("step"), int):
            by_benchmark.setdefault(run.benchmark, {})[run.sampling["step"]] = run
    curves = []
    for name, by_step in by_benchmark.items():
        if len(by_step) < 2:
            continue
        curve = []
        for step, run in sorted(by_step.items()):
            low, high = bootstrap_interval(run, resamples=_CURVE_RESAMPLES)
            curve.append([step, points(run), (high - low) / 2.0])
        curves.append(
            {
                "name": f"{benchmark_class(name).title}, {benchmark_class(name).headline}",
                "points": curve,
            }
        )
    return curves
