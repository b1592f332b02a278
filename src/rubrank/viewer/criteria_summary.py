"""Summarize what each criterion did over all groups, and where two criteria pull against each other."""

from __future__ import annotations

from array import array
from collections import Counter
from typing import Any

import numpy as np

from rubrank.scores.criterion import CriterionData
from rubrank.scores.spread import compute_tau_b
from rubrank.studies.replay import share_variance
from rubrank.viewer.figures import (
    GroupArrays,
    Moments,
    ReasonCounts,
    compute_column_means,
    make_distribution,
)

# Criteria that are listed. Where every query brings its own rubric, there are too many to read.
_MOST_ROWS = 2000
# Criteria in the matrix of conflicts: as many as fit on a screen.
_MOST_IN_MATRIX = 24
# Criteria in the regression. With thousands of them there are too few groups for each, and the result means nothing.
_MOST_IN_REGRESSION = 300


class CriteriaSummary:
    """One row per criterion.

    {"name": "Facts", "layer": "quality", "mean": 0.71, "ties": 0.44, "decides": 0.55, "signal": 0.83, "missing": 12,
     "nominal": 0.4, "effective": 0.52, "with_reward": 0.61, "distribution": {…}, …}

    ties           share of the compared pairs that tie
    decides        share of all pairs that it tells apart: neither tied nor missing
    signal         share of groups in which it tells rollouts apart
    nominal        its share of the weights, mean over groups
    effective      its share of the variance of what was added up, mean over groups that have a ranking
    with_reward    Kendall's τ-b with the ranking before the gate, mean over groups in which both have a signal
    """

    def __init__(self) -> None:
        self._rows: dict[str, _CriterionRow] = {}
        self._regression = _RewardRegression()

    def add(self, group: GroupArrays) -> None:
        """Add a group."""
        record = group.record
        pairs = group.compared.shape[1]
        compared = group.compared.sum(1).tolist()
        decided = np.abs(group.signs).sum(1)
        missing = group.missing.sum(0).tolist()
        # τ-b of every criterion with the ranking over the pairs that it compares; NaN if it ties all.
        agreement = group.signs @ group.ranking_signs
        ranked_pairs = group.compared @ np.abs(group.ranking_signs)
        taus = compute_tau_b(agreement, decided, ranked_pairs)
        for k, criterion in enumerate(record.criteria):
            row = self._rows.get(criterion.name)
            if row is None:
                row = _CriterionRow(criterion)
                self._rows[criterion.name] = row
            row.scores.extend(group.scores[:, k].tolist())
            row.counts.update(
                groups=1,
                rollouts=record.size,
                missing=missing[k],
                pairs=pairs,
                compared=compared[k],
                decided=int(decided[k]),
                signal=int(group.has_signal[k]),
                compared_groups=int(criterion.name in record.outcomes),
            )
            row.with_reward.add(float(taus[k]))
            if missing[k] and record.reasons:
                for i in np.flatnonzero(group.missing[:, k]):
                    row.missing_reasons.add(record.reasons[i][k])
        weights = np.array(record.weights)
        total = np.abs(weights).sum()
        effective = record.effective_weights
        for k, name in enumerate(group.names[: group.ranked_count]):
            if total > 0.0:
                self._rows[name].nominal.add(weights[k] / total)
            if effective is not None and any(effective):
                self._rows[name].effective.add(effective[k])
        if effective is None:  # the rule does not report what it added up
            self._regression.add(group)

    def summarize(self) -> dict[str, Any]:
        """Return all rows: ranked criteria first, those of most groups first."""
        shares = self._regression.compute_shares()
        rows = [row.as_dict(shares) for row in self._rows.values()]
        rows.sort(key=lambda row: (row["layer"] != "quality", -row["groups"]))
        return {
            "rows": rows[:_MOST_ROWS],
            "left_out": max(0, len(rows) - _MOST_ROWS),
            "effective_by": "regression" if shares else "parts",
        }


class _CriterionRow:
    """Sums for one criterion."""

    def __init__(self, criterion: CriterionData) -> None:
        self.criterion = criterion
        self.scores = array("d")
        self.counts: Counter[str] = Counter()
        self.nominal = Moments()
        self.effective = Moments()
        self.with_reward = Moments()
        self.missing_reasons = ReasonCounts()

    def as_dict(self, shares: dict[str, float]) -> dict[str, Any]:
        """Return the row of the table. shares: criterion → effective weight by regression, if the rule reports none."""
        scores = np.frombuffer(self.scores)
        present = scores[~np.isnan(scores)]
        counts = self.counts
        tied = counts["compared"] - counts["decided"]
        criterion = self.criterion
        effective = self.effective.mean
        if effective is None:
            effective = shares.get(criterion.name)
        return {
            "name": criterion.name,
            "layer": criterion.layer,
            "decided_by": criterion.verifier or "judge",
            "family": criterion.family,
            "direction": criterion.direction,
            "margin": criterion.margin,
            "groups": counts["groups"],
            "rollouts": counts["rollouts"],
            "mean": present.mean() if len(present) else None,
            "distribution": make_distribution(
                present, (criterion.domain.low, criterion.domain.high)
            ),
            "compared_groups": counts["compared_groups"],
            "missing": counts["missing"],
            "missing_reasons": self.missing_reasons.list_most_common(),
            "ties": tied / counts["compared"] if counts["compared"] else None,
            "decides": counts["decided"] / counts["pairs"] if counts["pairs"] else None,
            "signal": counts["signal"] / counts["groups"],
            "nominal": self.nominal.mean,
            "effective": effective,
            "with_reward": self.with_reward.mean,
        }


class _RewardRegression:
    """Effective weights for rules that report none: how the criteria explain the rewards within groups.

    They are those of `rubrank replay`, by least squares over all groups (`share_variance`). Only sums of products are
    kept.
    """

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        """Criterion → its row and column below."""
        self._products = np.zeros((_MOST_IN_REGRESSION, _MOST_IN_REGRESSION))
        """Sums of score × score for every two criteria."""
        self._with_reward = np.zeros(_MOST_IN_REGRESSION)
        """Sums of score × reward."""
        self._variance = 0.0
        """Sum of reward × reward."""

    def add(self, group: GroupArrays) -> None:
        """Add the products of a group."""
        if not group.record.size:
            return
        at = []
        for name in group.names[: group.ranked_count]:
            at.append(self._places.setdefault(name, len(self._places)))
        if len(self._places) > _MOST_IN_REGRESSION:
            return
        scores = group.scores[:, : group.ranked_count]
        # Around the mean of the group; a missing score counts as that mean.
        scores = np.where(np.isnan(scores), 0.0, scores - compute_column_means(scores))
        reward = group.ranking - group.ranking.mean()
        self._products[np.ix_(at, at)] += scores.T @ scores
        self._with_reward[at] += scores.T @ reward
        self._variance += float(reward @ reward)

    def compute_shares(self) -> dict[str, float]:
        """Return criterion → share; empty without groups, or with too many criteria."""
        size = len(self._places)
        if not 0 < size <= _MOST_IN_REGRESSION or not self._variance > 0.0:
            return {}
        products = self._products[:size, :size]
        shares = share_variance(products, self._with_reward[:size], self._variance)
        return dict(zip(self._places, shares.tolist(), strict=True))


class ConflictSummary:
    """Kendall's τ-b of every two criteria within groups, mean over the groups in which both have a signal.

    {"names": ["Facts", "Brevity"], "tau": [[1, −0.31], [−0.31, 1]], "groups": [[80, 61], [61, 70]], "left_out": 0}
    """

    def __init__(self) -> None:
        self._sums: dict[tuple[str, ...], tuple[np.ndarray, np.ndarray]] = {}
        """Criteria of a group → sum of τ and number of groups, (K, K) each: groups with the same rubric share one."""
        self._group_counts: Counter[str] = Counter()

    def add(self, group: GroupArrays) -> None:
        """Add a group."""
        names = group.names[: group.ranked_count]
        if names not in self._sums:
            shape = (len(names), len(names))
            self._sums[names] = (np.zeros(shape), np.zeros(shape, int))
        # τ-b over the pairs that both criteria compare, (K, K); NaN if one ties everything.
        signs = group.signs[: group.ranked_count]
        compared = group.compared[: group.ranked_count]
        decided = np.abs(signs) @ compared.T  # pairs that k decides and l compares
        tau = compute_tau_b(signs @ signs.T, decided, decided.T)
        total, count = self._sums[names]
        total += np.nan_to_num(tau)
        count += ~np.isnan(tau)
        self._group_counts.update(names)

    def summarize(self) -> dict[str, Any]:
        """Return the matrix of the criteria that most groups have."""
        names = [name for name, _ in self._group_counts.most_common(_MOST_IN_MATRIX)]
        places = {name: k for k, name in enumerate(names)}
        total = np.zeros((len(names), len(names)))
        count = np.zeros((len(names), len(names)), int)
        for set_names, (set_total, set_count) in self._sums.items():
            rows = [k for k, name in enumerate(set_names) if name in places]
            target = [places[set_names[k]] for k in rows]
            total[np.ix_(target, target)] += set_total[np.ix_(rows, rows)]
            count[np.ix_(target, target)] += set_count[np.ix_(rows, rows)]
        tau = np.where(count > 0, total / np.maximum(count, 1), np.nan)
        left_out = len(self._group_counts) - len(names)
        return {"names": names, "tau": tau.tolist(), "groups": count.tolist(), "left_out": left_out}
