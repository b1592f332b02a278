"""Summarize how strongly wins and rewards depend on attributes of the responses, such as length and Markdown.

γ is the influence of an attribute on the wins of one criterion: γ > 0 means that of two responses which are equally
good otherwise, the one with more of the attribute wins. γ̂ is its estimate. Control takes this influence, or a part of
it, out of the scores. γ̂ is estimated in each group separately, or pooled over a batch or a run. Then all groups of the
batch or run have the same γ̂ in their records.

`GammaSummary` shows γ̂, `CorrelationSummary` how rewards depend on attributes, controlled or not.

Shapes: G rollouts in a group, K criteria that are ranked, D attributes.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rubrank.fusion.control.estimate import student_t_975
from rubrank.scores.spread import ROUNDING
from rubrank.viewer.figures import GroupArrays, Moments, compute_column_means

# Criteria whose γ is listed, and points of a curve: as in index.py.
_MOST_CRITERIA = 24
_MOST_POINTS = 240
# The name of all criteria together.
_ALL_CRITERIA = ""


class GammaSummary:
    """γ by attribute, criterion and step.

    {"attributes": ["words"], "criteria": ["", "A", "B"], "points": {"0|0": [[step, γ̂, half width, groups], …]},
     "taken": [0.5], "shares": [["A", 0.75]]}

    `points`: keys are "index of the attribute|index of the criterion"; criterion "" is all of them together, weighted.
        The half width is half of the 95% interval of γ̂, None if it is unknown.
    `taken`: for each attribute, the effect that control took out, on average over criteria and groups.
    `shares`: how much of a criterion's variance within groups control took out, largest first; criteria whose variance
        did not shrink are left out.

    A criterion counts in a group only if it tells rollouts apart there and is controlled.

    Example: one group, the attribute "words", and criteria A and B with weights 3 and 1, which is 0.75 and 0.25 of
    their sum. γ̂ is pooled over 41 groups for A and 21 for B, with standard errors 0.05 and 0.2.

                      A                     B                     all ("")
        γ̂             0.3                   0.1                   0.75·0.3 + 0.25·0.1 = 0.25
        half width    t·se = 2.02·0.05      t·se = 2.09·0.2       0.75·0.101 + 0.25·0.417 = 0.18
        groups        41                    21                    0.75·41 + 0.25·21 = 36
        taken         0.25                  0.75                  mean 0.5

    Control subtracts `taken` times the mean contrast of a rollout, which is −1 and 1 here (the second has more words).
    So A's scores 0 and 1 became 0.25 and 0.75. Their sum of squares around the mean was 0.5 and is 0.125: control took
    out 1 − 0.125/0.5 = 0.75 of A's variance. B's scores 1 and 0 became 1.75 and −0.75, so B is not in `shares`.

    If γ was fitted in each group separately, the point of a step is the mean of γ̂ over its groups, with the half width
    of that mean.
    """

    def __init__(self) -> None:
        self._points: dict[tuple[str, str], dict[int | None, _GammaPoint]] = {}
        """(attribute, criterion) → step → sums over its groups."""
        self._taken: dict[str, Moments] = {}
        """Attribute → the effect that was taken out of each criterion."""
        self._squares_before: dict[str, float] = defaultdict(float)
        """Criterion → sum of squares around the group's mean, before control."""
        self._squares_after: dict[str, float] = defaultdict(float)
        """The same after control."""
        self._group_counts: Counter[str] = Counter()
        """Criterion → in how many groups it counts."""

    def add(self, group: GroupArrays) -> None:
        """Add a group."""
        fused = group.fused
        if fused.gamma is None or not fused.attribute_names:
            return
        is_used = group.has_signal[: group.ranked_count]
        if fused.n is not None:
            is_used = is_used & (fused.n > 0.0)  # 0: the criterion is not controlled
        used = np.flatnonzero(is_used)

        # For a pooled estimate: its half width t·se, NaN if unknown, and the groups behind it. Both stay 0 if each
        # group has its own estimate.
        half_width = np.zeros(fused.gamma.shape)
        groups = np.zeros(fused.gamma.shape)
        if fused.pool in ("batch", "run") and fused.se is not None and fused.n is not None:
            half_width[:] = np.nan
            for k, n in enumerate(fused.n.tolist()):
                groups[k] = n
                if n > 1.0:
                    half_width[k] = student_t_975(n - 1.0) * fused.se[k]

        # A row for each criterion that counts, then one for all of them together. Other criteria are dropped first:
        # their rows may be NaN, which a weight of 0 would not remove from a weighted sum.
        names = [group.names[k] for k in used]
        self._group_counts.update(names)
        rows = np.stack([fused.gamma, half_width, groups])[:, used]
        weights = fused.weights[used]
        if weights.sum() > 0.0:
            # The errors of the criteria may be correlated. A weighted sum of their half widths is an upper bound.
            mean = np.average(rows, axis=1, weights=weights)
            rows = np.concatenate([rows, mean[:, None]], axis=1)
            names.append(_ALL_CRITERIA)
        for k, name in enumerate(names):
            for d, attribute in enumerate(fused.attribute_names):
                by_step = self._points.setdefault((attribute, name), {})
                point = by_step.setdefault(group.record.step, _GammaPoint())
                point.add(*rows[:, k, d].tolist())

        for d, attribute in enumerate(fused.attribute_names):
            moments = self._taken.setdefault(attribute, Moments())
            if fused.taken is not None:
                for k in used:
                    moments.add(float(fused.taken[k, d]))
        if fused.taken is not None and fused.mean_contrasts is not None:
            before, after = _center_values(group, effect=fused.mean_contrasts @ fused.taken.T)
            for k in used:
                self._squares_before[group.names[k]] += float(np.nansum(before[:, k] ** 2))
                self._squares_after[group.names[k]] += float(np.nansum(after[:, k] ** 2))

    def summarize(self) -> dict[str, Any]:
        """Return the points by step of the criteria that most groups have, as in the class's docstring."""
        attributes = list(self._taken)
        criteria = [
            _ALL_CRITERIA,
            *(name for name, _ in self._group_counts.most_common(_MOST_CRITERIA)),
        ]
        points: dict[str, list[Any]] = {}
        for d, attribute in enumerate(attributes):
            for k, criterion in enumerate(criteria):
                curve = self._merge_steps(attribute, criterion)
                points[f"{d}|{k}"] = [[step, *point.as_tuple()] for step, point in curve]
        shares: list[tuple[str, float]] = []
        for name, before in self._squares_before.items():
            after = self._squares_after[name]
            if after < before:
                shares.append((name, 1.0 - after / before))
        shares.sort(key=lambda share: -share[1])
        return {
            "attributes": attributes,
            "criteria": criteria,
            "points": points,
            "taken": [moments.mean for moments in self._taken.values()],
            "shares": [list(share) for share in shares[:_MOST_CRITERIA]],
        }

    def _merge_steps(self, attribute: str, criterion: str) -> list[tuple[int | None, _GammaPoint]]:
        """Return the points of one curve in order; beyond 240 steps, neighbours share a point."""
        by_step = self._points.get((attribute, criterion), {})
        steps = sorted(by_step, key=lambda step: (step is not None, step or 0))  # None comes first
        steps_per_point = max(1, math.ceil(len(steps) / _MOST_POINTS))
        merged = []
        for start in range(0, len(steps), steps_per_point):
            point = _GammaPoint()
            for step in steps[start : start + steps_per_point]:
                point.merge(by_step[step])
            merged.append((steps[start], point))
        return merged


@dataclass
class _GammaPoint:
    """γ̂ of a step, as sums over the groups of the step."""

    gamma: Moments = field(default_factory=Moments)
    half_width: float = 0.0
    """Sum of the half widths of pooled estimates; 0 if each group has its own estimate, NaN if one is unknown."""
    groups: float = 0.0
    """Sum of the groups behind pooled estimates; 0 if each group has its own estimate."""

    def add(self, gamma: float, half_width: float, groups: float) -> None:
        """Add the estimate of a group."""
        self.gamma.add(gamma)
        self.half_width += half_width
        self.groups += groups

    def merge(self, other: _GammaPoint) -> None:
        """Add the sums of another point."""
        self.gamma.merge(other.gamma)
        self.half_width += other.half_width
        self.groups += other.groups

    def as_tuple(self) -> tuple[float | None, float | None, float]:
        """Return γ̂, half of its interval (None if unknown), and the number of groups behind it."""
        n = self.gamma.n
        if self.groups == 0.0:
            return self.gamma.mean, self.gamma.half_width, n
        # A pooled estimate: all n groups of a batch have the same one in their records, so the sums are n times its
        # half width and its number of groups. Its interval does not shrink with n.
        half_width = None if math.isnan(self.half_width) else self.half_width / n
        return self.gamma.mean, half_width, round(self.groups / n, 1)


def _center_values(group: GroupArrays, effect: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (G, K) before and after control, minus the group's mean: utilities, or scores if the rule has none.

    effect: (G, K), what control took out of each score.
    """
    fused = group.fused
    if fused.utilities is not None and fused.values is not None:
        before = fused.utilities
        # After control, the rule may have multiplied utilities by `scale`; without it both are comparable.
        after = fused.values if fused.scale is None else fused.values / fused.scale
    else:
        before = np.empty(effect.shape)
        for k, criterion in enumerate(group.record.ranked):
            before[:, k] = criterion.normalize_scores(group.scores[:, k])
        after = before - effect
    return before - compute_column_means(before), after - compute_column_means(after)


class CorrelationSummary:
    """Spearman's ρ of rewards with attributes within groups, mean over the groups in which both differ.

    {"attributes": [{"name": "words", "measured": true, "mean": 212.4}], "rules": ["rlvr2", "rlvr2 before the gate"],
     "r": [[0.31, 0.30]], "half": [[0.06, 0.06]], "groups": [[120, 120]]}

    It is computed within groups, so that long answers to long questions do not count as a correlation.
    """

    def __init__(self) -> None:
        self._moments: dict[tuple[str, str], Moments] = {}
        self._means: dict[str, Moments] = {}
        self._measured: dict[str, bool] = {}
        self._rules: dict[str, None] = {}

    def add(self, group: GroupArrays) -> None:
        """Add a group."""
        if not group.attributes or len(group.reward) < 2:
            return
        record = group.record
        rewards = {record.rule: group.reward}
        if record.gate is not None:
            rewards[f"{record.rule} before the gate"] = group.ranking
        for rule, reward in record.others.items():
            rewards[rule] = np.array(reward)
        self._rules.update(dict.fromkeys(rewards))
        values = np.column_stack(list(group.attributes.values()))
        correlations = _compute_spearman(values, np.column_stack(list(rewards.values())))
        means = compute_column_means(values).tolist()
        for d, name in enumerate(group.attributes):
            self._measured.setdefault(name, name not in record.attribute_names)
            self._means.setdefault(name, Moments()).add(means[d])
            for r, rule in enumerate(rewards):
                self._moments.setdefault((name, rule), Moments()).add(float(correlations[d, r]))

    def summarize(self) -> dict[str, Any]:
        """Return tables of attributes × rules, as in the class's docstring."""
        rules = list(self._rules)
        names = list(self._measured)
        table = [[self._moments.get((name, rule), Moments()) for rule in rules] for name in names]
        return {
            "attributes": [
                {"name": name, "measured": self._measured[name], "mean": self._means[name].mean}
                for name in names
            ],
            "rules": rules,
            "r": [[moments.mean for moments in row] for row in table],
            "half": [[moments.half_width for moments in row] for row in table],
            "groups": [[moments.n for moments in row] for row in table],
        }


def _compute_spearman(values: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    """Return Spearman's ρ of attributes with rewards, (D, R); NaN if either is the same for all rollouts.

    Rollouts without the attribute are left out. values: (G, D). rewards: (G, R), a column for each rule.
    """
    correlations = np.full((values.shape[1], rewards.shape[1]), np.nan)
    for d in range(values.shape[1]):
        present = ~np.isnan(values[:, d])
        if present.sum() < 2:
            continue
        attribute_ranks = _compute_centered_ranks(values[present, d : d + 1])
        reward_ranks = _compute_centered_ranks(rewards[present])
        # Pearson's correlation of the ranks, whose mean is 0: Σxy / √(Σx² · Σy²). All the same: 0/0 = NaN.
        scale = np.sqrt((attribute_ranks**2).sum(0) * (reward_ranks**2).sum(0))
        with np.errstate(invalid="ignore", divide="ignore"):
            correlations[d] = (attribute_ranks * reward_ranks).sum(0) / scale
    return correlations


def _compute_centered_ranks(values: np.ndarray) -> np.ndarray:
    """Return how many values of its column each value exceeds, minus how many exceed it: 10, 20, 20 → −2, 1, 1.

    This is the rank minus the mean rank, times two. Differences by rounding are ties.
    """
    difference = values[:, None] - values[None]
    signs = np.sign(difference) * (np.abs(difference) > ROUNDING * np.ptp(values, axis=0))
    return np.asarray(signs.sum(1))
