"""Summarize a run: the figures over all groups that the page's summary shows.

    summary = RunSummary()
    for record in records:
        summary.add(GroupArrays(record, measure_responses(record)))
    summary.summarize()            {"overview": {…}, "criteria": {…}, "conflicts": {…}, "attributes": {…}, …}

The parts, of which each is a `SummaryPart`, are in these files:

    summary.py              counts, what judges cost; gates; how rules differ
    criteria_summary.py     what each criterion did, and which criteria pull against each other
    attribute_summary.py    γ, and how rewards go with length and Markdown
    figures.py              a record as arrays; means with intervals, distributions, counts of reasons
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from rubrank.drafting.lint import lint_counts
from rubrank.records.agreement import compare_rules, rank_rewards
from rubrank.records.findings import Finding, FindingCounts
from rubrank.viewer.attribute_summary import CorrelationSummary, GammaSummary
from rubrank.viewer.criteria_summary import ConflictSummary, CriteriaSummary
from rubrank.viewer.figures import (
    GroupArrays,
    Moments,
    ReasonCounts,
    make_distribution,
    to_plain_numbers,
)
from rubrank.viewer.group_data import count_gated

# Metadata keys that are listed, and values of one key: trainers may write anything, even a value for each rollout.
_MOST_KEYS = 60
_MOST_VALUES = 6
_OVERVIEW_COUNTS = (
    "groups",
    "rollouts",
    "no_signal",
    "scores",
    "missing",
    "stopped",
    "softened",
    "with_texts",
    "with_gate",
)
_GATE_COUNTS = ("rollouts", "groups", "stopped", "softened", "touched")
_JUDGE_KEYS = ("judges", "judging")
"""Metadata keys that trainers write: what judges were asked about a group, and what judging a batch cost."""


class SummaryPart(Protocol):
    """One part of the summary, which keeps sums over the groups that it was given."""

    def add(self, group: GroupArrays) -> None:
        """Add a group."""

    def summarize(self) -> dict[str, Any]:
        """Return plain data for the page; NaN where there is nothing to say."""


class RunSummary:
    """All parts of the summary of one run."""

    def __init__(self) -> None:
        self._parts: dict[str, SummaryPart] = {
            "overview": Overview(),
            "criteria": CriteriaSummary(),
            "conflicts": ConflictSummary(),
            "gamma": GammaSummary(),
            "correlation": CorrelationSummary(),
            "gates": GateSummary(),
            "rules": RuleSummary(),
        }
        self._findings = FindingCounts()

    def add(self, group: GroupArrays) -> None:
        """Add a group."""
        for part in self._parts.values():
            part.add(group)
        self._findings.add(group.record)

    def summarize(self, rubric_findings: Sequence[Finding] = ()) -> dict[str, Any]:
        """Return all parts by name, as numbers that JSON can hold.

        rubric_findings: what `lint` found in the words of the rubric; listed with the findings about scores.
        """
        summary = {name: part.summarize() for name, part in self._parts.items()}
        # The page shows both in one section.
        attributes = {"gamma": summary.pop("gamma"), "correlation": summary.pop("correlation")}
        findings = [*lint_counts(self._findings), *rubric_findings]
        findings.sort(key=lambda finding: -finding.severity)
        listed = [finding.to_dict() for finding in findings]
        plain: dict[str, Any] = to_plain_numbers(
            {**summary, "attributes": attributes, "findings": listed}
        )
        return plain


class Overview:
    """Counts over all groups.

    {"groups": 128, "rollouts": 1024, "steps": 4, "no_signal": 9, "stopped": 31, "judging": {"calls": 812, …}, …}
    """

    def __init__(self) -> None:
        self._counts = Counter(dict.fromkeys(_OVERVIEW_COUNTS, 0))
        self._rules: Counter[str] = Counter()
        self._names: dict[str, None] = {}
        self._steps: set[int] = set()
        self._sizes: Counter[int] = Counter()
        self._rewards = array("d")
        self._agreement = Moments()
        self._error = Moments()
        self._metadata: dict[str, _MetadataValues] = {}
        self._judging = _JudgingSums()

    def add(self, group: GroupArrays) -> None:
        """Add a group."""
        record = group.record
        stopped, softened = count_gated(record)
        self._counts.update(
            groups=1,
            rollouts=record.size,
            no_signal=int(record.no_signal),
            scores=group.missing.size,
            missing=int(group.missing.sum()),
            stopped=stopped,
            softened=softened,
            with_texts=int(record.responses is not None),
            with_gate=int(record.gate is not None),
        )
        self._rules[record.rule] += 1
        self._names.update(dict.fromkeys(group.names))
        if record.step is not None:
            self._steps.add(record.step)
        self._sizes[record.size] += 1
        self._rewards.extend(record.reward)
        if record.agreement is not None:
            self._agreement.add(record.agreement)
            for error in record.error or ():
                self._error.add(error)
        self._judging.add(record.metadata)
        other_metadata = {
            key: value for key, value in record.metadata.items() if key not in _JUDGE_KEYS
        }
        for key, value in _flatten(other_metadata):
            if key in self._metadata or len(self._metadata) < _MOST_KEYS:
                self._metadata.setdefault(key, _MetadataValues()).add(value)

    def summarize(self) -> dict[str, Any]:
        """Return the figures of the summary."""
        rewards = np.frombuffer(self._rewards) if self._rewards else np.zeros(0)
        return {
            **self._counts,
            "criteria": len(self._names),
            "steps": len(self._steps),
            "first_step": min(self._steps, default=None),
            "last_step": max(self._steps, default=None),
            "rules": dict(self._rules.most_common()),
            "sizes": dict(sorted(self._sizes.items())),
            "rewards": make_distribution(rewards, (0.0, 1.0)),
            "agreement": self._agreement.mean,
            "agreement_groups": self._agreement.n,
            "error": self._error.mean,
            "judging": self._judging.summarize(),
            "metadata": [
                values.as_dict(key, self._counts["groups"])
                for key, values in self._metadata.items()
            ],
        }


class _JudgingSums:
    """What judges were asked, and its cost, added up over the records.

    {"asked": 152, "missing": 3, "calls": 149, "hits": 12, "cost": 0.83, "failures": {"timeout after 120 s": 3}, …}

    A record says what was asked about its own group (`metadata["judges"]`); the first record of a batch says what
    judging the whole batch cost (`metadata["judging"]`).
    """

    def __init__(self) -> None:
        self._sums: dict[str, Counter[str]] = {key: Counter() for key in _JUDGE_KEYS}
        self._failures: Counter[str] = Counter()

    def add(self, metadata: Mapping[str, Any]) -> None:
        for key in _JUDGE_KEYS:
            part = metadata.get(key)
            if not isinstance(part, Mapping):
                continue
            self._sums[key].update(
                {str(name): value for name, value in part.items() if _is_number(value)}
            )
            failures = part.get("failures")
            if isinstance(failures, Mapping):
                self._failures.update(
                    {str(why)[:120]: n for why, n in failures.items() if _is_number(n)}
                )

    def summarize(self) -> dict[str, Any] | None:
        """Return the sums; None if no record says anything about judges."""
        if not any(self._sums.values()):
            return None
        # Both count what was asked; the groups' own counts win, because a batch may have been cut into several files.
        return {
            **self._sums["judging"],
            **self._sums["judges"],
            "failures": dict(self._failures.most_common()),
        }


class _MetadataValues:
    """The values of one metadata key."""

    def __init__(self) -> None:
        self._values: Counter[str] = Counter()
        self._numbers = array("d")
        self._count = 0

    def add(self, value: Any) -> None:
        self._count += 1
        if _is_number(value):
            self._numbers.append(float(value))
        text = str(value)[:200]
        # One value more than is listed is kept, so that the page can say that there are others.
        if text in self._values or len(self._values) <= _MOST_VALUES:
            self._values[text] += 1

    def as_dict(self, key: str, groups: int) -> dict[str, Any]:
        """Return the row of a key: a few values with the groups that have them, or the sum and range of numbers."""
        row: dict[str, Any] = {"key": key, "in": self._count, "groups": groups}
        if len(self._values) > 1 and len(self._numbers) == self._count:
            numbers = np.frombuffer(self._numbers)
            row["total"] = float(numbers.sum())
            row["mean"] = float(numbers.mean())
            row["low"] = float(numbers.min())
            row["high"] = float(numbers.max())
        else:
            row["values"] = self._values.most_common(_MOST_VALUES)
            row["more"] = len(self._values) > _MOST_VALUES
        return row


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _flatten(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield ("judge.calls", 3) for {"judge": {"calls": 3}}."""
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


class GateSummary:
    """What each gate criterion did, over the groups that have a gate.

    {"rollouts": 80000, "stopped": 412, "criteria": [{"name": "Truncated", "hard": true, "hit": 300, …}], …}
    """

    def __init__(self) -> None:
        self._counts = Counter(dict.fromkeys(_GATE_COUNTS, 0))
        self._lost = 0.0
        self._criteria: dict[str, dict[str, Any]] = {}

    def add(self, group: GroupArrays) -> None:
        """Add a group."""
        record = group.record
        gated = group.fused.gated
        if record.gate is None or gated is None:
            return
        stopped, softened = count_gated(record)
        touched = int(stopped > 0 or softened > 0)
        self._counts.update(
            rollouts=record.size, groups=1, stopped=stopped, softened=softened, touched=touched
        )
        # A stopped rollout loses its whole reward, another one the share that the factor takes. Rewards that passed
        # are lifted first, so reward minus ranking would be negative for most of them.
        lost = np.where(gated.passed, gated.lifted * (1.0 - gated.factor), group.ranking)
        self._lost += float(lost.sum())
        for k in range(group.ranked_count, len(record.criteria)):
            criterion = record.criteria[k]
            if criterion.layer == "watch":
                continue
            # Which rollouts the criterion hit: a hard gate stopped them, a soft gate lowered their reward.
            is_hard = criterion.layer == "global_quality"
            if is_hard:
                hit = np.array([criterion.name in names for names in record.gate.stopped_by])
            else:
                hit = criterion.normalize_scores(group.scores[:, k]) < 1.0  # False for NaN
            row = self._criteria.setdefault(
                criterion.name,
                {"hard": is_hard, "asked": 0, "hit": 0, "missing": 0, "reasons": ReasonCounts()},
            )
            row["asked"] += record.size
            row["hit"] += int(hit.sum())
            row["missing"] += int(group.missing[:, k].sum())
            if record.reasons:
                for i in np.flatnonzero(hit):
                    row["reasons"].add(record.reasons[i][k])

    def summarize(self) -> dict[str, Any]:
        """Return the counts, as in the class's docstring; all are 0 if no group has a gate."""
        rollouts = self._counts["rollouts"]
        criteria = [
            {"name": name, **row, "reasons": row["reasons"].list_most_common()}
            for name, row in self._criteria.items()
        ]
        return {
            **self._counts,
            "lost": self._lost / rollouts if rollouts else None,
            "criteria": criteria,
        }


class RuleSummary:
    """The same rollouts under several rules: how alike they rank, and who wins.

    {"names": ["rlvr2", "gdpo+"], "groups": 128, "kendall": [[1, 0.83], …], "winner": [[1, 0.9], …], "signs": […],
     "no_signal": [0.05, 0.02], "mean": [0.49, 0.51]}

    A file may hold a group once for each rule, or the other rules beside the first. Compared are the groups that have
    rewards under every rule, with the measures of `rubrank replay`.
    """

    _MEASURES = ("kendall", "winner", "signs")

    def __init__(self) -> None:
        self._rewards: dict[tuple[int | None, str, int], dict[str, np.ndarray]] = {}
        """(step, group, how often it came before) → rule → rewards: a query may come again in a later epoch."""
        self._occurrences: Counter[tuple[int | None, str, str]] = Counter()
        self._names: dict[str, None] = {}

    def add(self, group: GroupArrays) -> None:
        """Keep the rewards of a group."""
        record = group.record
        if not record.size:
            return
        occurrence = self._occurrences[record.step, record.group, record.rule]
        self._occurrences[record.step, record.group, record.rule] += 1
        rewards = self._rewards.setdefault((record.step, record.group, occurrence), {})
        rewards[record.rule] = group.reward
        for rule, reward in record.others.items():
            rewards[rule] = np.array(reward)
        self._names.update(dict.fromkeys(rewards))

    def summarize(self) -> dict[str, Any]:
        """Return the comparison, as in the class's docstring; its lists are empty if there is only one rule."""
        names = list(self._names)
        complete = []
        for rewards in self._rewards.values():
            sizes = {len(reward) for reward in rewards.values()}
            if len(rewards) == len(names) and len(sizes) == 1:
                complete.append(rewards)
        result: dict[str, Any] = {
            "names": names,
            "groups": len(complete),
            "all_groups": len(self._rewards),
        }
        if len(names) < 2 or not complete:
            return {**result, **{measure: [] for measure in (*self._MEASURES, "no_signal", "mean")}}
        sizes_of_groups = [len(rewards[names[0]]) for rewards in complete]
        starts = np.concatenate([[0], np.cumsum(sizes_of_groups)])
        rankings = []
        result["no_signal"] = []
        result["mean"] = []
        for name in names:
            reward = np.concatenate([rewards[name] for rewards in complete])
            ranking = rank_rewards(reward, starts)
            rankings.append(ranking)
            # A ranking holds the groups in blocks of one size, with who beats whom: (groups, size, size).
            groups_with_signal = sum(int(block.any((1, 2)).sum()) for block in ranking.signs)
            result["no_signal"].append(1.0 - groups_with_signal / len(complete))
            result["mean"].append(float(reward.mean()))
        for measure in self._MEASURES:
            result[measure] = compare_rules(rankings, measure).tolist()
        return result
