"""The paper's table: benchmarks in columns, capability averages, overall.

    table = capability_table(runs)
    table.rows[0].cells["ifeval"], table.rows[0].averages["instruction following"], table.rows[0].overall

Every number is in points out of 100. A capability's average is that of its benchmarks that were run; overall is the
mean of all benchmarks that were run. A model without a benchmark has a dash there, and its averages say over how many.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rubrank.errors import InvalidInput
from rubrank.evaluation.benchmark import CAPABILITIES, mean
from rubrank.evaluation.benchmarks import BENCHMARKS, benchmark_class
from rubrank.evaluation.comparing import interval
from rubrank.evaluation.scoring import EvalRun


@dataclass(frozen=True)
class TableRow:
    """One model."""

    model: str
    cells: Mapping[str, float]
    """Benchmark → points; only those that were run."""
    averages: Mapping[str, float]
    overall: float
    notes: Mapping[str, str]
    """Benchmark → what stands beside the number: settings, judge, how many were judged."""
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Benchmark → 95% interval over items, where it was asked for."""


@dataclass(frozen=True)
class CapabilityTable:
    """Models in rows."""

    benchmarks: tuple[str, ...]
    capabilities: tuple[str, ...]
    rows: tuple[TableRow, ...]

    def markdown(self) -> str:
        """As a Markdown table with notes below."""
        names = [benchmark_class(name).title for name in self.benchmarks]
        head = ["model", *names, *(f"*{c}*" for c in self.capabilities), "**overall**"]
        lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
        for row in self.rows:
            cells = [_points(row.cells.get(name, math.nan)) + _between(row, name) for name in self.benchmarks]
            cells += [_points(row.averages.get(c, math.nan)) for c in self.capabilities]
            lines.append(f"| {' | '.join([row.model, *cells, _points(row.overall)])} |")
        lines.append("")
        for row in self.rows:
            lines += [f"- {row.model}, {benchmark_class(name).title}: {note}" for name, note in row.notes.items()]
        return "\n".join(lines) + "\n"

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        return {
            "benchmarks": list(self.benchmarks),
            "rows": [
                {
                    "model": row.model,
                    "points": dict(row.cells),
                    "capabilities": dict(row.averages),
                    "overall": row.overall,
                    "intervals": {name: list(pair) for name, pair in row.intervals.items()},
                    "notes": dict(row.notes),
                }
                for row in self.rows
            ],
        }


def capability_table(runs: Sequence[EvalRun], *, intervals: bool = False) -> CapabilityTable:
    """The table of all runs; a model may have each benchmark once. intervals: of each benchmark, over its items."""
    models: dict[str, dict[str, EvalRun]] = {}
    for run in runs:
        own = models.setdefault(run.model or "model", {})
        if run.benchmark in own:
            got = f"{run.benchmark} of {run.model or 'model'} twice"
            raise InvalidInput(
                "eval table", "runs", "each benchmark once per model", got, "Name the models: `model=NAME`."
            )
        own[run.benchmark] = run
    names = tuple(name for name in BENCHMARKS if any(name in own for own in models.values()))
    rows = tuple(_row(model, own, intervals) for model, own in models.items())
    kinds = tuple(c for c in CAPABILITIES if any(c in row.averages for row in rows))
    return CapabilityTable(names, kinds, rows)


def _row(model: str, runs: Mapping[str, EvalRun], intervals: bool) -> TableRow:
    cells = {name: points(runs[name]) for name in BENCHMARKS if name in runs}
    by_kind: dict[str, list[float]] = {}
    for name, value in cells.items():
        if not math.isnan(value):
            by_kind.setdefault(_capability(runs[name]), []).append(value)
    averages = {kind: mean(values) for kind, values in by_kind.items()}
    overall = mean(value for value in cells.values() if not math.isnan(value))
    between = {name: interval(runs[name]) for name in cells if runs[name].scores} if intervals else {}
    return TableRow(model, cells, averages, overall, {name: note(run) for name, run in runs.items()}, between)


def points(run: EvalRun) -> float:
    """The headline of a run, out of 100."""
    benchmark = benchmark_class(run.benchmark)
    return run.metrics.get(benchmark.headline, math.nan) * benchmark.per_cent


def note(run: EvalRun) -> str:
    """What must be known beside the number."""
    benchmark = benchmark_class(run.benchmark)
    parts = [benchmark.headline, *(f"{name} {value}" for name, value in run.settings.items())]
    if run.judge:
        parts.append(f"judge {run.judge}")
    if not math.isnan(run.reasoning_words):
        parts.append(f"{run.reasoning_words:.0f} words of thinking cut")
    parts += [f"{name.replace('_', ' ')} {value}" for name, value in run.sampling.items() if value is not None]
    return ", ".join([*parts, f"{run.judged} scored", *run.notes])


def _capability(run: EvalRun) -> str:
    return str(run.settings.get("capability") or benchmark_class(run.benchmark).capability)


def _between(row: TableRow, name: str) -> str:
    return " [{:.2f}, {:.2f}]".format(*row.intervals[name]) if name in row.intervals else ""


def _points(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2f}"
