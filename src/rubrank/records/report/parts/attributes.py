"""How much goes with length and Markdown: in what was fitted, and in the rewards.

    gamma        by attribute and criterion, a point for each step: γ̂, half of its 95% interval, groups
    correlation  by attribute and rule: see correlation.py

{"gamma": {"attributes": ["length"], "criteria": ["", "Facts"], "points": {"0|0": [[step, γ̂, half, n], …]}}, …}

A pooled estimate (over a batch, or a run) has a standard error of its own: half is t·se, and n the groups behind it.
Fitted in every group by itself, γ is a mean over groups with the interval of that mean. Criterion "" is all of them: γ
and half weighted by the criteria's weights, which makes half an upper bound. Criteria that tell no rollouts apart in a
group, or are not controlled there, do not count there.

Letters: K criteria and then all of them together, D attributes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from rubrank.fusion.control.student_t import student_t_975
from rubrank.records.record import GroupRecord
from rubrank.records.report.grouped import Grouped
from rubrank.records.report.moments import Moments
from rubrank.records.report.parts.correlation import Correlations
from rubrank.records.report.steps import Bins
from rubrank.records.unfolding import number_table

_SHOWN = 24
ALL = ""
_Key: TypeAlias = tuple[int | None, tuple[str, ...], tuple[str, ...]]  # step, criteria, attributes


class AttributesPart:
    """γ by step, criterion and attribute, and correlations."""

    def __init__(self) -> None:
        self.sums: dict[_Key, np.ndarray] = {}
        self.taken: dict[str, Moments] = {}
        self.used: Counter[str] = Counter()
        self.correlations = Correlations()

    def add(self, group: Grouped) -> None:
        """Count a group in."""
        self.correlations.add(group)
        record, K, D = group.record, group.K, len(group.record.attribute_names)
        if record.gamma is None or not D:
            return
        controlled = np.ones(K, bool) if record.n is None else np.array(record.n) > 0.0
        gamma, tells = number_table(record.gamma, (K, D)), group.tells[:K] & controlled
        weights = np.array(record.weights) * tells
        total = weights.sum()
        counts = np.append(tells, total > 0.0)[:, None] * np.ones(D)
        values = counts * _with_all(gamma, weights, total)
        half, groups = (counts * _with_all(of, weights, total) for of in _pooled(record, K, D))
        key = record.step, group.names[:K], record.attribute_names
        if key not in self.sums:
            self.sums[key] = np.zeros((5, K + 1, D))
        self.sums[key] += (counts, values, values * values, half, groups)
        self.used.update(name for name, told in zip(group.names, tells.tolist(), strict=False) if told)
        self._take(group, gamma, tells)

    def result(self, bins: Bins) -> dict[str, Any]:
        """Points by step, of the criteria used most."""
        attributes = list(dict.fromkeys(name for _, _, names in self.sums for name in names))
        criteria = [ALL, *(name for name, _ in self.used.most_common(_SHOWN))]
        merged = self._merged(bins, set(criteria))
        points = {
            f"{d}|{k}": [[step, *m.point] for step, m in _sorted(merged.get((attribute, name), {}))]
            for d, attribute in enumerate(attributes)
            for k, name in enumerate(criteria)
        }
        taken = [self.taken[name].mean if name in self.taken else None for name in attributes]
        return {
            "gamma": {"attributes": attributes, "criteria": criteria, "points": points, "taken": taken},
            "correlation": self.correlations.result(),
        }

    def _merged(self, bins: Bins, wanted: set[str]) -> dict[tuple[str, str], dict[int | None, _Point]]:
        """(attribute, criterion) → step → point."""
        found: dict[tuple[str, str], dict[int | None, _Point]] = {}
        for (step, names, attributes), sums in self.sums.items():
            for k, name in enumerate((*names, ALL)):
                for d, attribute in enumerate(attributes if name in wanted else ()):
                    if sums[0, k, d]:
                        by_step = found.setdefault((attribute, name), {})
                        by_step.setdefault(bins.of(step), _Point()).add(sums[:, k, d])
        return found

    def _take(self, group: Grouped, gamma: np.ndarray, tells: np.ndarray) -> None:
        """What was taken out, over what tells rollouts apart."""
        if group.record.taken is None:
            return
        total = np.where(tells[:, None], number_table(group.record.taken, gamma.shape), 0.0).sum(0)
        for d, attribute in enumerate(group.record.attribute_names):
            self.taken.setdefault(attribute, Moments()).merge(Moments.of(tells.sum(), total[d], 0.0))


@dataclass
class _Point:
    """γ̂ of a step, as sums over its groups."""

    moments: Moments = field(default_factory=Moments)
    half: float = 0.0
    groups: float = 0.0

    def add(self, sums: np.ndarray) -> None:
        self.moments.merge(Moments.of(*sums[:3]))
        self.half, self.groups = self.half + sums[3], self.groups + sums[4]

    @property
    def point(self) -> tuple[float | None, float | None, float]:
        """γ̂, half of its interval, and the groups behind it."""
        own, n = self.moments, self.moments.n
        if self.groups > 0.0:
            return own.mean, float(self.half / n) if np.isfinite(self.half) else None, round(float(self.groups / n), 1)
        return own.mean, own.half_width, n


def _pooled(record: GroupRecord, K: int, D: int) -> tuple[np.ndarray, np.ndarray]:
    """(K, D): half of a pooled estimate's interval, and the groups behind it; 0 where each group has its own."""
    if record.pool in (None, "group") or record.se is None or record.n is None:
        return np.zeros((K, D)), np.zeros((K, D))
    n = np.array(record.n)[:, None] * np.ones(D)
    points = np.array([student_t_975(x - 1.0) if x > 1.0 else np.inf for x in record.n])[:, None]
    se = number_table(record.se, (K, D))
    return np.where(n > 1.0, points * np.nan_to_num(se, nan=np.inf), np.inf), n


def _with_all(of: np.ndarray, weights: np.ndarray, total: float) -> np.ndarray:
    """(K + 1, D): and a last row for all criteria, by weight."""
    known = np.where(weights[:, None] > 0.0, of, 0.0)
    return np.vstack([known, weights @ known / total if total > 0.0 else 0.0 * known.sum(0)])


def _sorted(by_step: dict[int | None, _Point]) -> list[tuple[int | None, _Point]]:
    return sorted(by_step.items(), key=lambda item: (item[0] is not None, item[0] or 0))
