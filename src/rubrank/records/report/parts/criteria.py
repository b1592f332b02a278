"""Each criterion over all groups that ask for it.

{"name": "Facts", "layer": "quality", "mean": 0.71, "ties": 0.44, "apart": 0.55, "signal": 0.83, "missing": 12,
 "nominal": 0.4, "effective": 0.52, "with_reward": 0.61, "distribution": {…}, …}

ties           share of the compared pairs that tie
apart          share of all pairs that it tells apart: neither tied nor missing
signal         share of groups in which it tells rollouts apart
nominal        its share of the weights, mean over groups
effective      its share of the variance of what was added up, mean over groups that have a ranking
with_reward    Kendall's τ-b with the ranking before the gate, mean over groups in which both tell rollouts apart
"""

from __future__ import annotations

from array import array
from collections import Counter
from typing import Any

import numpy as np

from rubrank.records.report.distribution import distribution
from rubrank.records.report.grouped import Grouped
from rubrank.records.report.moments import Moments, tau
from rubrank.records.report.parts.shares import SharesPart
from rubrank.records.report.reasons import Reasons
from rubrank.scores.criterion import CriterionData

_MOST_ROWS = 2000  # where every query brings a rubric of its own, too many to read


class Criteria:
    """All criteria by name."""

    def __init__(self) -> None:
        self.columns: dict[str, _Column] = {}
        self.shares = SharesPart()

    def add(self, group: Grouped) -> None:
        """Count a group in."""
        record = group.record
        pairs, compared = group.known.shape[1], group.known.sum(1).tolist()
        apart, tells = np.abs(group.signs).sum(1).astype(int).tolist(), group.tells.tolist()
        missing, agreement = group.missing.sum(0).tolist(), tau(group.signs, group.known, group.ranking_signs)
        for k, criterion in enumerate(record.criteria):
            column = self.columns.get(criterion.name)
            if column is None:
                column = self.columns[criterion.name] = _Column(criterion)
            column.scores.frombytes(np.ascontiguousarray(group.scores[:, k]).tobytes())
            column.counts.update(
                groups=1,
                rollouts=record.size,
                missing=missing[k],
                pairs=pairs,
                compared=compared[k],
                apart=apart[k],
                signal=int(tells[k]),
                with_outcomes=int(criterion.name in record.outcomes),
            )
            column.with_reward.add(agreement[k])
            if missing[k]:
                column.hear(group, k)
        self._weigh(group)

    def result(self) -> dict[str, Any]:
        """All of them, those ranked by first, most used first."""
        shares = self.shares.result()
        rows = [column.row(name, shares) for name, column in self.columns.items()]
        rows.sort(key=lambda row: (row["layer"] != "quality", -row["groups"]))
        found = {"effective_by": "regression" if shares else "parts", "left_out": max(0, len(rows) - _MOST_ROWS)}
        return {"rows": rows[:_MOST_ROWS], **found}

    def _weigh(self, group: Grouped) -> None:
        weights, effective = np.array(group.record.weights), group.record.effective_weights
        total = np.abs(weights).sum()
        for k, name in enumerate(group.names[: group.K]):
            if total > 0.0:
                self.columns[name].nominal.add(weights[k] / total)
            if effective is not None and any(effective):
                self.columns[name].effective.add(effective[k])
        if effective is None:
            self.shares.add(group)


class _Column:
    """What is known about one criterion."""

    def __init__(self, criterion: CriterionData) -> None:
        self.criterion = criterion
        self.scores = array("d")
        self.counts: Counter[str] = Counter()
        self.nominal, self.effective, self.with_reward = Moments(), Moments(), Moments()
        self.reasons = Reasons()

    def hear(self, group: Grouped, k: int) -> None:
        """Why scores are missing."""
        for i in np.flatnonzero(group.missing[:, k]) if group.record.reasons else ():
            self.reasons.add(group.record.reasons[i][k])  # type: ignore[index]

    def row(self, name: str, shares: dict[str, float]) -> dict[str, Any]:
        scores, n, data = np.frombuffer(self.scores), self.counts, self.criterion
        known = scores[~np.isnan(scores)]
        return {
            "name": name,
            "layer": data.layer,
            "decided_by": data.verifier or "judge",
            "family": data.family,
            "direction": data.direction,
            "margin": data.margin,
            "groups": n["groups"],
            "rollouts": n["rollouts"],
            "mean": known.mean() if len(known) else None,
            "distribution": distribution(known, (data.domain.low, data.domain.high)),
            "compared_groups": n["with_outcomes"],
            "missing": n["missing"],
            "missing_reasons": self.reasons.most_common(),
            "ties": _ratio(n["compared"] - n["apart"], n["compared"]),
            "apart": _ratio(n["apart"], n["pairs"]),
            "signal": _ratio(n["signal"], n["groups"]),
            "nominal": self.nominal.mean,
            "effective": shares.get(name) if self.effective.mean is None else self.effective.mean,
            "with_reward": self.with_reward.mean,
        }


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
