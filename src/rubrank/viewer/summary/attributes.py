"""Summarize how strongly wins and rewards depend on attributes of the responses, such as length and Markdown.

γ is the influence of an attribute on the wins of one criterion: γ > 0 means that of two responses which are equally
good otherwise, the one with more of the attribute wins. Control takes (a part of) this influence out of the scores.

Shapes: G rollouts in a group, K criteria that are ranked, D attributes.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rubrank.fusion.control.estimate import student_t_975
from rubrank.records.record import GroupRecord, to_array
from rubrank.scores.spread import ROUNDING
from rubrank.viewer.summary.figures import Moments
from rubrank.viewer.summary.group_arrays import GroupArrays, compute_column_means

_MOST_CRITERIA = 24  # that are listed
_MOST_POINTS = 240  # of a curve
_ALL_CRITERIA = ""  # the name of all criteria together


class GammaSummary:
    """γ by attribute, criterion and step.

    {"attributes": ["length"], "criteria": ["", "Facts"], "points": {"0|0": [[step, γ̂, half width, groups], …]},
     "taken": [0.12], "shares": [["Facts", 0.31]]}

    `points`: keys are "index of the attribute|index of the criterion".
    `taken`: for each attribute, the effect that control took out, on average over criteria and groups.
    `shares`: how much of a criterion's variance within groups control took out, largest first.
    Criterion "" is all of them together, weighted. A pooled estimate (over a batch or a run) has its own standard
    error, and the half width is t·se. If γ was fitted in each group separately, the half width is that of the mean over
    groups. A criterion counts in a group only if it tells rollouts apart there and is controlled.
    """

    def __init__(self) -> None:
        self._points: dict[tuple[str, str, int | None], _GammaPoint] = {}
        """(attribute, criterion, step) → sums."""
        self._attributes: dict[str, None] = {}
        self._taken: dict[str, Moments] = {}
        """Attribute → the effect that was taken out of each criterion."""
        self._squares: dict[str, np.ndarray] = {}
        """Criterion → sums of squares around the group's mean, before and after control."""
        self._used: Counter[str] = Counter()
        """Criterion → in how many groups it counts."""

    def add(self, group: GroupArrays) -> None:
        """Add a group."""
        record = group.record
        if record.gamma is None or not record.attribute_names:
            return
        shape = (group.ranked, len(record.attribute_names))  # (K, D)
        self._attributes.update(dict.fromkeys(record.attribute_names))
        # record.n: for each criterion, the groups behind its estimate; 0 if it is not controlled. Records may lack it.
        if record.n is None:
            is_controlled = np.ones(group.ranked, bool)
        else:
            is_controlled = np.array(record.n) > 0.0
        used = group.has_signal[: group.ranked] & is_controlled
        gamma = np.where(used[:, None], to_array(record.gamma, shape), 0.0)
        half_width, groups = _compute_pooled_intervals(record, shape)
        for k in np.flatnonzero(used):
            self._used[group.names[k]] += 1
            self._add_point(record, group.names[k], gamma[k], half_width[k], groups[k])
        weights = np.array(record.weights) * used
        if weights.sum() > 0.0:
            share = weights / weights.sum()
            # Half widths add up like γ itself, which makes the common one an upper bound.
            self._add_point(
                record,
                _ALL_CRITERIA,
                gamma=share @ gamma,
                half_width=share[used] @ half_width[used],
                groups=share[used] @ groups[used],
            )
        if record.taken is None:
            return
        # (D,): sums over the criteria; `Moments` makes means of them.
        taken = np.where(used[:, None], to_array(record.taken, shape), 0.0).sum(0)
        for d, attribute in enumerate(record.attribute_names):
            moments = self._taken.setdefault(attribute, Moments())
            moments.merge(Moments(int(used.sum()), float(taken[d])))
        if record.mean_contrasts is not None:
            before, after = _center_values(group, shape)
            for k in np.flatnonzero(used):
                squares = self._squares.setdefault(group.names[k], np.zeros(2))
                squares += np.nansum(before[:, k] ** 2), np.nansum(after[:, k] ** 2)

    def summarize(self) -> dict[str, Any]:
        """Return the points by step of the criteria that most groups have, as in the class's docstring."""
        attributes = list(self._attributes)
        criteria = [_ALL_CRITERIA, *(name for name, _ in self._used.most_common(_MOST_CRITERIA))]
        points: dict[str, list[Any]] = {}
        for d, attribute in enumerate(attributes):
            for k, criterion in enumerate(criteria):
                curve = self._merge_steps(attribute, criterion)
                points[f"{d}|{k}"] = [[step, *point.as_tuple()] for step, point in curve]
        taken_means = [
            self._taken[name].mean if name in self._taken else None for name in attributes
        ]
        shares = [
            (name, 1.0 - after / before)
            for name, (before, after) in self._squares.items()
            if after < before
        ]
        shares.sort(key=lambda share: -share[1])
        return {
            "attributes": attributes,
            "criteria": criteria,
            "points": points,
            "taken": taken_means,
            "shares": [list(share) for share in shares[:_MOST_CRITERIA]],
        }

    def _merge_steps(self, attribute: str, criterion: str) -> list[tuple[int | None, _GammaPoint]]:
        """Return the points of one curve in order; beyond 240 steps, neighbours share a point."""
        by_step = {
            step: point
            for (name, of_criterion, step), point in self._points.items()
            if (name, of_criterion) == (attribute, criterion)
        }
        steps = sorted(by_step, key=lambda step: (step is not None, step or 0))  # None comes first
        steps_per_point = max(1, math.ceil(len(steps) / _MOST_POINTS))
        merged = []
        for start in range(0, len(steps), steps_per_point):
            point = _GammaPoint()
            for step in steps[start : start + steps_per_point]:
                point.merge(by_step[step])
            merged.append((steps[start], point))
        return merged

    def _add_point(
        self,
        record: GroupRecord,
        criterion: str,
        gamma: np.ndarray,
        half_width: np.ndarray,
        groups: np.ndarray,
    ) -> None:
        """Add a group to the points of one criterion, one for each attribute; the arrays are (D,)."""
        for d, attribute in enumerate(record.attribute_names):
            point = self._points.setdefault((attribute, criterion, record.step), _GammaPoint())
            point.gamma.add(float(gamma[d]))
            point.half_width += float(half_width[d])
            point.groups += float(groups[d])


@dataclass
class _GammaPoint:
    """γ̂ of a step, as sums over its groups."""

    gamma: Moments = field(default_factory=Moments)
    half_width: float = 0.0
    """Of pooled estimates; 0 if each group has its own."""
    groups: float = 0.0
    """Groups behind pooled estimates; 0 if each group has its own."""

    def merge(self, other: _GammaPoint) -> None:
        """Add the sums of another point."""
        self.gamma.merge(other.gamma)
        self.half_width += other.half_width
        self.groups += other.groups

    def as_tuple(self) -> tuple[float | None, float | None, float]:
        """Return γ̂, half of its interval, and the number of groups behind it."""
        n = self.gamma.n
        if self.groups > 0.0:
            # All groups of a batch report the same pooled estimate: its interval does not shrink with their number.
            half_width = self.half_width / n if np.isfinite(self.half_width) else None
            return self.gamma.mean, half_width, round(self.groups / n, 1)
        return self.gamma.mean, self.gamma.half_width, n


def _center_values(group: GroupArrays, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return (G, K) before and after control, minus the group's mean: utilities, or scores if the rule has none."""
    record = group.record
    if record.utilities is not None and record.values is not None:
        before = to_array(record.utilities, (record.size, group.ranked))
        after = to_array(record.values, before.shape) / np.array(record.scale or 1.0)
    else:
        columns = group.scores[:, : group.ranked].T
        normalized = []
        for criterion, column in zip(record.ranked, columns, strict=True):
            normalized.append(criterion.normalize_scores(column))
        before = np.array(normalized).T
        assert record.mean_contrasts is not None
        assert record.taken is not None
        contrasts = to_array(record.mean_contrasts, (record.size, shape[1]))
        after = before - contrasts @ to_array(record.taken, shape).T
    return before - compute_column_means(before), after - compute_column_means(after)


def _compute_pooled_intervals(
    record: GroupRecord, shape: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the half width of pooled estimates and the groups behind them, (K, D) each.

    Both are 0 if each group has its own estimate. The half width is infinite with fewer than two groups.
    """
    if record.pool in (None, "group") or record.se is None or record.n is None:
        return np.zeros(shape), np.zeros(shape)
    quantile = np.array([student_t_975(n - 1.0) if n > 1.0 else np.inf for n in record.n])
    se = np.nan_to_num(to_array(record.se, shape), nan=np.inf)
    groups = np.array(record.n)[:, None] * np.ones(shape[1])
    return np.where(groups > 1.0, quantile[:, None] * se, np.inf), groups


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
        rewards = _list_rewards(group)
        self._rules.update(dict.fromkeys(rewards))
        values = np.column_stack(list(group.attributes.values()))
        correlations = _compute_spearman(values, np.column_stack(list(rewards.values())))
        means = compute_column_means(values).tolist()
        for d, name in enumerate(group.attributes):
            self._measured.setdefault(name, name not in group.record.attribute_names)
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


def _list_rewards(group: GroupArrays) -> dict[str, np.ndarray]:
    """Return rule → rewards of the group: its own rule, the ranking before the gate, and other rules."""
    record = group.record
    rewards = {record.rule: group.reward}
    if record.gate is not None:
        rewards[f"{record.rule} before the gate"] = group.ranking
    for rule, reward in record.others.items():
        rewards[rule] = np.array(reward)
    return rewards


def _compute_spearman(values: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    """Return Spearman's ρ of attributes with rewards, (D, R); NaN if either is the same for all rollouts.

    Rollouts without the attribute are left out.
    """
    correlations = np.full((values.shape[1], rewards.shape[1]), np.nan)
    for d in range(values.shape[1]):
        present = ~np.isnan(values[:, d])
        if present.sum() < 2:
            continue
        attribute_ranks = _compute_centered_ranks(values[present, d : d + 1])
        reward_ranks = _compute_centered_ranks(rewards[present])
        lengths = np.sqrt((attribute_ranks**2).sum(0) * (reward_ranks**2).sum(0))
        with np.errstate(invalid="ignore", divide="ignore"):
            correlations[d] = (attribute_ranks * reward_ranks).sum(0) / lengths
    return correlations


def _compute_centered_ranks(values: np.ndarray) -> np.ndarray:
    """Return how many values each one beats minus how many beat it; differences by rounding are ties."""
    difference = values[:, None] - values[None]
    signs = np.sign(difference) * (np.abs(difference) > ROUNDING * np.ptp(values, axis=0))
    return np.asarray(signs.sum(1))
