"""How much goes with length and Markdown: in what was fitted, and in the rewards.

    gamma        by attribute and criterion, a point for each step: mean over groups, half of the 95% interval, groups
    correlation  by attribute and rule: see correlation.py

{"gamma": {"attributes": ["length"], "criteria": ["", "Facts"], "points": {"0|0": [[step, mean, half, n], …]}}, …}

Criterion "" is all of them: γ weighted by the criteria's weights. Criteria that tell nobody apart in a group have no γ
there. Where all groups share one γ (a pooled fit), the spread over groups says nothing, and half is null.

Letters: K criteria and then all of them together, D attributes.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeAlias

import numpy as np

from rubrank.records.report.grouped import Grouped
from rubrank.records.report.moments import Moments
from rubrank.records.report.parts.correlation import Correlations
from rubrank.records.report.steps import Bins
from rubrank.records.unfolding import number_table

_SHOWN = 24
ALL = ""
_Key: TypeAlias = tuple[int | None, tuple[str, ...], tuple[str, ...]]  # step, criteria, attributes


class Attributes:
    """γ by step, criterion and attribute, and correlations."""

    def __init__(self) -> None:
        self.sums: dict[_Key, np.ndarray] = {}
        self.kept: dict[str, Moments] = {}
        self.used: Counter[str] = Counter()
        self.correlations = Correlations()

    def add(self, group: Grouped) -> None:
        """Count a group in."""
        self.correlations.add(group)
        record, K, D = group.record, group.K, len(group.record.attribute_names)
        if record.gamma is None or not D:
            return
        gamma, tells = number_table(record.gamma, (K, D)), group.tells[:K]
        weights = np.array(record.weights) * tells
        total = weights.sum()
        every = weights @ gamma / total if total > 0.0 else np.zeros(D)
        counts = np.append(tells, total > 0.0)[:, None] * np.ones(D)
        values = counts * np.vstack([gamma, every])
        key = record.step, group.names[:K], record.attribute_names
        if key not in self.sums:
            self.sums[key] = np.zeros((3, K + 1, D))
        self.sums[key] += (counts, values, values * values)
        self.used.update(name for name, told in zip(group.names, tells.tolist(), strict=False) if told)
        self._keep(group, gamma, tells)

    def result(self, bins: Bins) -> dict[str, Any]:
        """Points by step, of the criteria used most."""
        attributes = list(dict.fromkeys(name for _, _, names in self.sums for name in names))
        criteria = [ALL, *(name for name, _ in self.used.most_common(_SHOWN))]
        merged = self._merged(bins, set(criteria))
        points = {
            f"{d}|{k}": [[step, m.mean, m.half_width, m.n] for step, m in _sorted(merged.get((attribute, name), {}))]
            for d, attribute in enumerate(attributes)
            for k, name in enumerate(criteria)
        }
        kept = [self.kept[name].mean if name in self.kept else None for name in attributes]
        return {
            "gamma": {"attributes": attributes, "criteria": criteria, "points": points, "kept": kept},
            "correlation": self.correlations.result(),
        }

    def _merged(self, bins: Bins, wanted: set[str]) -> dict[tuple[str, str], dict[int | None, Moments]]:
        """(attribute, criterion) → point → moments."""
        found: dict[tuple[str, str], dict[int | None, Moments]] = {}
        for (step, names, attributes), sums in self.sums.items():
            for k, name in enumerate((*names, ALL)):
                for d, attribute in enumerate(attributes if name in wanted else ()):
                    if sums[0, k, d]:
                        by_step = found.setdefault((attribute, name), {})
                        by_step.setdefault(bins.of(step), Moments()).merge(Moments.of(*sums[:, k, d]))
        return found

    def _keep(self, group: Grouped, gamma: np.ndarray, tells: np.ndarray) -> None:
        """The share of γ that stayed, over coefficients that are not 0."""
        if group.record.kept is None:
            return
        counted = tells[:, None] & (gamma != 0.0)
        total = np.where(counted, number_table(group.record.kept, gamma.shape), 0.0).sum(0)
        for d, attribute in enumerate(group.record.attribute_names):
            self.kept.setdefault(attribute, Moments()).merge(Moments.of(counted[:, d].sum(), total[d], 0.0))


def _sorted(by_step: dict[int | None, Moments]) -> list[tuple[int | None, Moments]]:
    return sorted(by_step.items(), key=lambda item: (item[0] is not None, item[0] or 0))
