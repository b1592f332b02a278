"""How much rewards follow attributes within groups.

    {"attributes": [{"name": "words", "measured": true, "mean": 212.4}], "rules": ["rlvr2", "rlvr2 before the gate"],
     "r": [[0.31, 0.30]], "half": [[0.06, 0.06]], "groups": [[120, 120]]}

Spearman's ρ in each group, mean over the groups in which both differ, and half of the 95% interval of that mean: the
measure of `rubrank replay`. Long answers to long questions count for nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rubrank.records.report.grouped import Grouped, column_means
from rubrank.records.report.moments import Moments
from rubrank.scores.spread import ROUNDING

BEFORE_GATE = "{} before the gate"


class Correlations:
    """Moments by attribute and rule."""

    def __init__(self) -> None:
        self.moments: dict[tuple[str, str], Moments] = {}
        self.measured: dict[str, bool] = {}
        self.means: dict[str, Moments] = {}
        self.rules: dict[str, None] = {}

    def add(self, group: Grouped) -> None:
        """Count a group in."""
        names, values = group.measures
        if not names or len(group.reward) < 2:
            return
        rewards = _rewards(group)
        self.rules.update(dict.fromkeys(rewards))
        found = _spearman(values, np.array([*rewards.values()]).T)
        means = column_means(values).tolist()
        for d, name in enumerate(names):
            self.measured.setdefault(name, name not in group.record.attribute_names)
            self.means.setdefault(name, Moments()).add(means[d])
            for r, rule in enumerate(rewards):
                self._of(name, rule).add(float(found[d, r]))

    def result(self) -> dict[str, Any]:
        """Correlations, (attributes, rules)."""
        rules = list(self.rules)
        found = [[self._of(name, rule) for rule in rules] for name in self.measured]
        return {
            "attributes": [
                {"name": name, "measured": here, "mean": self.means[name].mean} for name, here in self.measured.items()
            ],
            "rules": rules,
            "r": [[m.mean for m in row] for row in found],
            "half": [[m.half_width for m in row] for row in found],
            "groups": [[m.n for m in row] for row in found],
        }

    def _of(self, name: str, rule: str) -> Moments:
        key = name, rule
        if key not in self.moments:
            self.moments[key] = Moments()
        return self.moments[key]


def _rewards(group: Grouped) -> dict[str, np.ndarray]:
    record = group.record
    found = {record.rule: group.reward}
    if record.gate is not None:
        found[BEFORE_GATE.format(record.rule)] = group.ranking
    return {**found, **{rule: np.array(reward) for rule, reward in record.others.items()}}


def _spearman(values_GD: np.ndarray, reward_GR: np.ndarray) -> np.ndarray:
    """(D, R); NaN where one of them does not differ. Where an attribute is missing, the others are compared."""
    whole = ~np.isnan(values_GD).any(0)
    found = np.full((values_GD.shape[1], reward_GR.shape[1]), np.nan)
    found[whole] = _cosines(_ranks(values_GD[:, whole]), _ranks(reward_GR))
    for d in np.flatnonzero(~whole):
        known = ~np.isnan(values_GD[:, d])
        if known.sum() > 1:
            found[d] = _cosines(_ranks(values_GD[known, d : d + 1]), _ranks(reward_GR[known]))[0]
    return found


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks around 0, ties shared: beaten minus beaten by. Differences of rounding are ties."""
    difference = values[:, None] - values[None]
    sign = np.sign(difference) * (np.abs(difference) > ROUNDING * np.ptp(values, axis=0))
    return np.asarray(sign.sum(1))


def _cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((a.T @ b) / np.sqrt(np.outer((a * a).sum(0), (b * b).sum(0))))
