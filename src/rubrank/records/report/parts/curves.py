"""Rewards, criteria and attributes over the steps of training.

{"steps": [0, 10], "curves": [{"name": "mean reward", "kind": "run", "points": [[0, 0.48, 0.01], [10, 0.5, 0.01]]}, …]}

A point is (step, mean over groups, half of its 95% interval). A reward that is relative to its group has the same mean
at every step: progress shows in the criteria.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from rubrank.records.report.grouped import Grouped, column_means
from rubrank.records.report.moments import Moments
from rubrank.records.report.steps import Bins

_SHOWN = 24


class Curves:
    """Means by step of everything that may change in training."""

    def __init__(self) -> None:
        self.moments: dict[tuple[int, str, str], Moments] = {}
        self.used: Counter[tuple[str, str]] = Counter()

    def add(self, group: Grouped) -> None:
        """Count a group in; one without a step, or of an evaluation, belongs to no curve of the training."""
        record = group.record
        if record.step is None or not record.size or record.metadata.get("mode") == "eval":
            return
        self._add(record.step, "run", "mean reward", group.reward.mean())
        self._add(record.step, "run", "groups without signal", float(record.no_signal))
        if record.agreement is not None:
            self._add(record.step, "run", "agreement of the criteria", record.agreement)
        if record.gate is not None:
            self._add(record.step, "run", "stopped by a gate", 1.0 - sum(record.gate.passed) / record.size)
        for name, mean in zip(group.names, column_means(group.scores).tolist(), strict=True):
            self._add(record.step, "criterion", name, mean)
        names, values = group.measures
        for name, mean in zip(names, column_means(values).tolist(), strict=True):
            self._add(record.step, "attribute", name, mean)

    def result(self, bins: Bins) -> dict[str, Any]:
        """The run's curves, then those of the criteria and attributes that most groups have."""
        merged: dict[tuple[str, str], dict[int | None, Moments]] = {}
        for (step, kind, name), moments in self.moments.items():
            merged.setdefault((kind, name), {}).setdefault(bins.of(step), Moments()).merge(moments)
        kinds: Counter[str] = Counter()
        curves = []
        for (kind, name), _ in self.used.most_common():
            kinds[kind] += 1
            if kinds[kind] <= _SHOWN:
                points = [[step, m.mean, m.half_width] for step, m in sorted(merged[kind, name].items())]
                curves.append({"kind": kind, "name": name, "points": points})
        steps = sorted({step for by in merged.values() for step in by})  # type: ignore[type-var]
        return {"steps": steps, "width": bins.width, "curves": curves}

    def _add(self, step: int, kind: str, name: str, x: float) -> None:
        if x != x:
            return
        key = step, kind, name
        if key not in self.moments:
            self.moments[key] = Moments()
        self.moments[key].add(x)
        self.used[kind, name] += 1
