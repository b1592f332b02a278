"""Scored runs as the report shows them: the capability table, and benchmarks over the steps of training.

    report_data(runs)        {"columns": ["IFEval", "instruction following", "overall"],
                              "rows": [{"model": "a", "points": [41.2, 41.2, 41.2]}], "notes": […],
                              "curves": [{"name": "IFEval, prompt strict", "points": [[0, 12.5, 4.1], …]}]}

A run that `rubrank train` made of a checkpoint says its step; those of one benchmark are a curve, each point with half
of its 95% interval over items.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rubrank.evaluation.benchmarks import benchmark_class
from rubrank.evaluation.comparing import interval
from rubrank.evaluation.scoring import EvalRun
from rubrank.evaluation.table import capability_table, points

_RESAMPLES = 200


def report_data(runs: Sequence[EvalRun]) -> dict[str, Any]:
    """Plain data for `write_report(…, evaluation=…)`."""
    table = capability_table(runs)
    rows = [
        {
            "model": row.model,
            "points": [
                *(row.cells.get(name, math.nan) for name in table.benchmarks),
                *(row.averages.get(kind, math.nan) for kind in table.capabilities),
                row.overall,
            ],
        }
        for row in table.rows
    ]
    titles = [benchmark_class(name).title for name in table.benchmarks]
    notes = [
        f"{row.model}, {benchmark_class(name).title}: {text}" for row in table.rows for name, text in row.notes.items()
    ]
    return {
        "columns": [*titles, *table.capabilities, "overall"],
        "rows": rows,
        "notes": notes,
        "curves": curves(runs),
    }


def curves(runs: Sequence[EvalRun]) -> list[dict[str, Any]]:
    """Benchmarks that were run at two steps or more."""
    found: dict[str, dict[int, EvalRun]] = {}
    for run in runs:
        if isinstance(run.sampling.get("step"), int):
            found.setdefault(run.benchmark, {})[run.sampling["step"]] = run
    return [
        {
            "name": f"{benchmark_class(name).title}, {benchmark_class(name).headline}",
            "points": [[step, points(run), _half(run)] for step, run in sorted(by_step.items())],
        }
        for name, by_step in found.items()
        if len(by_step) > 1
    ]


def _half(run: EvalRun) -> float:
    low, high = interval(run, resamples=_RESAMPLES)
    return (high - low) / 2.0
