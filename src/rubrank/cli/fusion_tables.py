"""Print the tables and the JSON of `rubrank fuse` and `rubrank explain`.

show_summary          fuse without an output: rewards of the first groups, and what each criterion did
list_summary_lines    fuse with an output: a few lines about what was read and written
show_group            explain: scores, utilities and reasons of one group
format_group_json     explain --json: the same as JSON
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rubrank._plain import plain
from rubrank.cli.terminal import print_line, print_table
from rubrank.errors import counted

if TYPE_CHECKING:
    from rubrank.fusion.files import Summary
    from rubrank.fusion.result import FusedGroup

_MOST_CRITERIA = 30  # named in a line or shown in a table
BY_RUBRIC = "using the weights and gates stored in the file"
"""Printed if a score file contains its weights, margins, directions and layers."""


def list_summary_lines(summary: Summary, target: str | None) -> list[str]:
    """Return lines about a file that was fused: how it was read, where the rewards are, and the criteria used.

    target: the file with the rewards; None if they went to standard output.
    """
    lines = _describe_source(summary)
    if target:
        lines.append(f"{_describe_size(summary)} → {target}")
    if summary.graded:
        lines.append(_describe_rubric(summary))
        return lines
    lines.append(f"criteria: {_name_some(summary.criteria)}")
    if summary.left_out:
        lines.append(f"not used: {_name_some(summary.left_out)}")
    return lines


def _name_some(names: Sequence[str]) -> str:
    """Return the names, but not more than fit on a few lines."""
    text = ", ".join(names[:_MOST_CRITERIA])
    if len(names) > _MOST_CRITERIA:
        text += f" and {len(names) - _MOST_CRITERIA:,} more"
    return text


def _describe_source(summary: Summary) -> list[str]:
    """Return a line about how a table was read; none if that is obvious from its suffix."""
    if summary.shape in ("CSV", "TSV", "JSON Lines", "Parquet"):
        return []
    size = f"{counted(summary.rollouts, 'rollout')} in {counted(summary.groups, 'group')}"
    return [f"read {size} ({summary.shape}, by {summary.by})."]


def _describe_rubric(summary: Summary) -> str:
    """Return a line about the rubric that the file contains."""
    if not summary.gates:
        return BY_RUBRIC
    return f"{BY_RUBRIC}; gated by {', '.join(summary.gates)}"


def _describe_size(summary: Summary) -> str:
    """Return a text such as "6 rollouts in 2 groups, 0 without signal"."""
    rollouts = counted(summary.rollouts, "rollout")
    groups = counted(summary.groups, "group")
    return f"{rollouts} in {groups}, {summary.no_signal:,} without signal"


def show_summary(summary: Summary) -> None:
    """Print the rewards of the first groups, then what each criterion did in the whole file."""
    for line in _describe_source(summary):
        print_line(line)

    title = "rewards"
    if len(summary.first) < summary.groups:
        title = f"rewards of the first {len(summary.first)} of {summary.groups:,} groups"
    reward_rows = []
    for group in summary.first:
        rewards = " ".join(f"{reward:.2f}" for reward in group.reward)
        reward_rows.append((str(group.label), "no signal" if group.no_signal else rewards))
    print_table(title, ("group", "rewards, rollout by rollout"), reward_rows, words=2)

    criterion_rows = []
    for k in np.argsort(-summary.deciding, kind="stable").tolist():
        scored = f"{summary.scored[k] / summary.rollouts:.0%}"
        tells_apart = f"{summary.deciding[k] / summary.groups:.0%}"
        criterion_rows.append((summary.criteria[k], scored, tells_apart))
    headings = ("criterion", "scored", "tells apart")
    print_table("criteria", headings, criterion_rows, most=_MOST_CRITERIA)

    mean_reward = summary.reward_sum / summary.rollouts
    print_line(f"{_describe_size(summary)}; mean reward {mean_reward:.3f}")
    if summary.graded:
        print_line(_describe_rubric(summary))
    elif summary.left_out:
        print_line(f"not used: {_name_some(summary.left_out)}")


def show_group(group: FusedGroup, rollout: int | None) -> None:
    """Print a group's scores, utilities and explanations; with `rollout`, only its columns."""
    rollouts = list(range(len(group.reward))) if rollout is None else [rollout]
    _show_scores(group, rollouts)
    _show_utilities(group, rollouts)
    if group.flags:
        print_line(f"note: {'; '.join(group.flags)}")
    for i in rollouts:
        print_line("")
        print_line(group.explain(i))


def _show_scores(group: FusedGroup, rollouts: list[int]) -> None:
    """Print the scores, how many pairs each criterion decides, and the attributes."""
    rows = []
    for k, name in _list_scored_criteria(group):
        cells = ["–" if math.isnan(s) else f"{s:.4g}" for s in group.scores[rollouts, k]]
        label = name if group.higher_is_better[k] else f"{name} ↓"
        outcome = group.outcomes[:, :, k].copy()
        np.fill_diagonal(outcome, np.nan)
        compared_pairs = int((~np.isnan(outcome)).sum()) // 2
        # Above 0.5 and not 1 alone: an outcome is a fraction if several verdicts about a pair differ.
        decided_pairs = int((outcome > 0.5).sum())
        rows.append([label, f"{decided_pairs}/{compared_pairs}", *cells])
    for d, name in enumerate(group.attribute_names):
        assert group.attributes is not None
        rows.append([name, "", *(f"{a:.4g}" for a in group.attributes[rollouts, d])])
    headings = ["criterion", "decided", *map(str, rollouts)]
    print_table(f"group {group.label}: scores by rollout", headings, rows, most=None)


def _list_scored_criteria(group: FusedGroup) -> list[tuple[int, str]]:
    """Return index and name of the criteria on which the group has a score; others belong to other queries."""
    scored = []
    for k, name in enumerate(group.criteria):
        if group.missing[k] < len(group.reward):
            scored.append((k, name))
    return scored


def _show_utilities(group: FusedGroup, rollouts: list[int]) -> None:
    """Print utilities and rewards; rewards alone under a rule that has no utilities."""
    rewards = [["reward", *(f"{r:.2f}" for r in group.reward[rollouts])]]
    if group.gated is not None:
        rewards.insert(0, ["ranking", *(f"{r:.2f}" for r in group.ranking[rollouts])])
    if np.isnan(group.utilities).any():
        print_table("rewards by rollout", ["", *map(str, rollouts)], rewards, most=None, total=1)
        return
    rows = []
    for k, name in _list_scored_criteria(group):
        cells = []
        for i in rollouts:
            is_decided = _is_decided(group, i, k)
            cells.append(_format_signed(group.values[i, k]) if is_decided else "–")
        weight = f"{group.weights[k]:g}"
        share = f"{round(group.effective_weights[k], 2) + 0.0:.0%}"
        rows.append([name, weight, share, *cells])
    rows.append(["weighted sum", "", "", *map(_format_signed, group.fused[rollouts])])
    rows += [[name, "", "", *cells] for name, *cells in rewards]
    headings = ["criterion", "weight", "share", *map(str, rollouts)]
    print_table("utilities by rollout", headings, rows, most=None, total=1)


def _is_decided(group: FusedGroup, rollout: int, criterion: int) -> bool:
    """Return whether the rollout was scored on the criterion, or compared with another one."""
    is_scored = not math.isnan(group.scores[rollout, criterion])
    against_others = np.delete(group.outcomes[rollout, :, criterion], rollout)
    return is_scored or not np.isnan(against_others).all()


def _format_signed(value: float) -> str:
    return f"{round(value, 2) + 0.0:+.2f}"  # adding zero turns -0.00 into +0.00


def format_group_json(group: FusedGroup, rollout: int | None) -> str:
    """Return what `show_group` shows as JSON, with null instead of NaN."""
    criteria = []
    for k, name in enumerate(group.criteria):
        criterion: dict[str, Any] = {
            "name": name,
            "weight": group.weights[k],
            "margin": group.margins[k],
            "higher_is_better": group.higher_is_better[k],
            "effective_weight": group.effective_weights[k],
        }
        if group.gamma is not None and group.n is not None:
            for figure in ("gamma", "se", "shrunk", "taken"):
                values = getattr(group, figure)[k]
                criterion[figure] = dict(zip(group.attribute_names, values, strict=True))
            criterion["groups"] = group.n[k]
            criterion["pool"] = group.pool
        criteria.append(criterion)
    rollouts = range(len(group.reward)) if rollout is None else (rollout,)
    data = {
        "group": group.label,
        "no_signal": group.no_signal,
        "flags": group.flags,
        "criteria": criteria,
        "rollouts": [_describe_rollout(group, i) for i in rollouts],
    }
    return json.dumps(plain(data), ensure_ascii=False)


def _describe_rollout(group: FusedGroup, i: int) -> dict[str, Any]:
    """Return scores, outcomes, utilities and reward of one rollout, and why it got that reward."""
    is_decided = [_is_decided(group, i, k) for k in range(len(group.criteria))]
    utilities = np.where(is_decided, group.utilities[i], np.nan)
    values = np.where(is_decided, group.values[i], np.nan)
    outcomes = {}
    for k, name in enumerate(group.criteria):
        outcomes[name] = _count_outcomes(np.delete(group.outcomes[i, :, k], i))
    data: dict[str, Any] = {
        "rollout": i,
        "scores": dict(zip(group.criteria, group.scores[i], strict=True)),
        "outcomes": outcomes,
        "utilities": dict(zip(group.criteria, utilities, strict=True)),
        "values": dict(zip(group.criteria, values, strict=True)),
        "fused": group.fused[i],
        "ranking": group.ranking[i],
        "reward": group.reward[i],
        "explanation": group.explain(i),
    }
    if group.attributes is not None:
        data["attributes"] = dict(zip(group.attribute_names, group.attributes[i], strict=True))
    if group.gated is not None:
        data["gate"] = {"passed": group.gated.passed[i], "factor": group.gated.factor[i]}
    return data


def _count_outcomes(against_others: np.ndarray) -> dict[str, int]:
    """Return wins, ties and losses; "ahead" and "behind" count fractions, such as 0.7, if there are any."""
    counts = {
        "beats": int((against_others == 1.0).sum()),
        "ties": int((against_others == 0.5).sum()),
        "loses": int((against_others == 0.0).sum()),
    }
    ahead = int(((against_others > 0.5) & (against_others < 1.0)).sum())
    behind = int(((against_others > 0.0) & (against_others < 0.5)).sum())
    if ahead or behind:
        counts |= {"ahead": ahead, "behind": behind}
    return counts
