"""The whole run in a few numbers, and what its metadata say.

{"groups": 128, "rollouts": 1024, "steps": 4, "no_signal": 9, "stopped": 31, "judging": {"calls": 812, …}, …}
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rubrank.records.report.distribution import distribution
from rubrank.records.report.grouped import Grouped
from rubrank.records.report.moments import Moments
from rubrank.records.report.parts.judging import JUDGING, Judging

_MOST_KEYS = 60
_MOST_VALUES = 6  # of one key, before its values are summed up instead of listed


class Overview:
    """Counts over all groups."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.rules: Counter[str] = Counter()
        self.names: dict[str, None] = {}
        self.steps: set[int] = set()
        self.sizes: Counter[int] = Counter()
        self.rewards = array("d")
        self.agreement, self.error = Moments(), Moments()
        self.metadata: dict[str, _Usage] = {}
        self.judging = Judging()

    def add(self, group: Grouped) -> None:
        """Count a group in."""
        record, gate = group.record, group.record.gate
        self.counts.update(
            groups=1,
            rollouts=record.size,
            no_signal=int(record.no_signal),
            scores=group.missing.size,
            missing=int(group.missing.sum()),
            with_texts=int(record.responses is not None),
            with_gate=int(bool(gate)),
            stopped=0 if gate is None else record.size - sum(gate.passed),
            softened=0 if gate is None else sum(p and f < 1.0 for p, f in zip(gate.passed, gate.factor, strict=True)),
        )
        self.rules[record.rule] += 1
        self.names.update(dict.fromkeys(group.names))
        if record.step is not None:
            self.steps.add(record.step)
        self.sizes[record.size] += 1
        self.rewards.extend(record.reward)
        if record.agreement is not None:
            self.agreement.add(record.agreement)
            for error in record.error or ():
                self.error.add(error)
        self._hear(record.metadata)

    def result(self) -> dict[str, Any]:
        """The numbers of the summary."""
        rewards = np.frombuffer(self.rewards) if self.rewards else np.zeros(0)
        return {
            **{name: self.counts[name] for name in ("groups", "rollouts", "no_signal", "scores", "missing", "stopped")},
            **{name: self.counts[name] for name in ("softened", "with_texts", "with_gate")},
            "criteria": len(self.names),
            "steps": len(self.steps),
            "first_step": min(self.steps, default=None),
            "last_step": max(self.steps, default=None),
            "rules": dict(self.rules.most_common()),
            "sizes": dict(sorted(self.sizes.items())),
            "rewards": distribution(rewards, (0.0, 1.0)),
            "agreement": self.agreement.mean,
            "agreement_groups": self.agreement.n,
            "error": self.error.mean,
            "judging": self.judging.result(),
            "metadata": [said.row(key, self.counts["groups"]) for key, said in self.metadata.items()],
        }

    def _hear(self, metadata: Mapping[str, Any]) -> None:
        self.judging.add(metadata)
        for key, value in _flat({key: value for key, value in metadata.items() if key not in JUDGING}):
            if key not in self.metadata and len(self.metadata) >= _MOST_KEYS:
                continue
            self.metadata.setdefault(key, _Usage()).add(value)


class _Usage:
    """What the records say under one key."""

    def __init__(self) -> None:
        self.values: Counter[str] = Counter()
        self.numbers = array("d")
        self.count = 0

    def add(self, value: Any) -> None:
        self.count += 1
        if isinstance(value, int | float) and not isinstance(value, bool):
            self.numbers.append(float(value))
        if len(self.values) <= _MOST_VALUES:
            self.values[str(value)[:200]] += 1

    def row(self, key: str, groups: int) -> dict[str, Any]:
        """One value, a few with the groups that say so, or the sum and spread of numbers."""
        row: dict[str, Any] = {"key": key, "in": self.count, "groups": groups}
        if len(self.values) > 1 and len(self.numbers) == self.count:
            numbers = np.frombuffer(self.numbers)
            ends = {"low": float(numbers.min()), "high": float(numbers.max())}
            return {**row, "total": float(numbers.sum()), "mean": float(numbers.mean()), **ends}
        return {**row, "values": self.values.most_common(_MOST_VALUES), "more": len(self.values) > _MOST_VALUES}


def _flat(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """{"judge": {"calls": 3}} → ("judge.calls", 3)."""
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
