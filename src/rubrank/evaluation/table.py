"""The paper's table of benchmarks with means over capabilities, for the terminal and for the report.

    table = capability_table(runs)
    table.rows[0].cells["ifeval"], table.rows[0].averages["instruction following"], table.rows[0].overall

Numbers are points out of 100. The mean of a capability covers those of its benchmarks that were run, and overall covers
all benchmarks that were run. A benchmark that a model was not run on is a dash.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.evaluation.benchmark import CAPABILITIES, mean
from rubrank.evaluation.benchmarks import BENCHMARKS, benchmark_class
from rubrank.evaluation.comparison import bootstrap_interval
from rubrank.evaluation.runs import EvalRun

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
