"""What the gates did, and why.

    {"rollouts": 1024, "stopped": 31, "softened": 60, "touched": 40, "lost": 0.02,
     "criteria": [{"name": "Truncated", "hard": true, "asked": 1024, "hit": 22, "missing": 0, "reasons": [["…", 22]]}]}

hit: of a hard criterion, rollouts it stopped; of a low-quality one, rollouts it found unclean. touched: groups. lost:
mean reward that the gate took away.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from rubrank.records.report.grouped import Grouped
from rubrank.records.report.reasons import Reasons
from rubrank.scores.criterion import CriterionData


class Gates:
    """Counts over all groups that have a gate."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.lost = 0.0
        self.columns: dict[str, _Gate] = {}

    def add(self, group: Grouped) -> None:
        """Count a group in."""
        record, gate = group.record, group.record.gate
        if gate is None:
            return
        soft = [factor for passed, factor in zip(gate.passed, gate.factor, strict=True) if passed]
        stopped = record.size - len(soft)
        self.counts.update(rollouts=record.size, groups=1, stopped=stopped, softened=sum(f < 1.0 for f in soft))
        self.counts["touched"] += int(stopped > 0 or any(f < 1.0 for f in soft))
        self.lost += float((group.ranking - group.reward).sum())
        for k in range(group.K, len(record.criteria)):
            self._column(record.criteria[k]).add(group, k)

    def result(self) -> dict[str, Any]:
        """None of it where no group has a gate."""
        n = self.counts["rollouts"]
        return {
            **{name: self.counts[name] for name in ("rollouts", "groups", "stopped", "softened", "touched")},
            "lost": self.lost / n if n else None,
            "criteria": [column.row(name) for name, column in self.columns.items()],
        }

    def _column(self, criterion: CriterionData) -> _Gate:
        if criterion.name not in self.columns:
            self.columns[criterion.name] = _Gate(criterion.layer == "global_quality")
        return self.columns[criterion.name]


class _Gate:
    """One criterion of the gate."""

    def __init__(self, hard: bool) -> None:
        self.hard, self.reasons = hard, Reasons()
        self.counts: Counter[str] = Counter()

    def add(self, group: Grouped, k: int) -> None:
        record, criterion = group.record, group.record.criteria[k]
        assert record.gate is not None
        if self.hard:
            hit = np.array([criterion.name in names for names in record.gate.stopped_by], dtype=bool)
        else:
            with np.errstate(invalid="ignore"):
                hit = criterion.cleanness(group.scores[:, k]) < 1.0
        self.counts.update(asked=record.size, hit=int(hit.sum()), missing=int(group.missing[:, k].sum()))
        for i in np.flatnonzero(hit) if record.reasons else ():
            self.reasons.add(record.reasons[i][k])  # type: ignore[index]

    def row(self, name: str) -> dict[str, Any]:
        return {"name": name, "hard": self.hard, **self.counts, "reasons": self.reasons.most_common()}
