"""Print the tables and the JSON of `rubrank fuse` and `rubrank explain`.

show_summary          fuse without an output: rewards of the first groups, and what each criterion did
describe_summary      the same in a few lines: what was read and written
show_group            explain: scores, utilities and reasons of one group
describe_group        explain --json: the same as plain data
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rubrank.cli.terminal import print_line, print_table
from rubrank.errors import counted

if TYPE_CHECKING:
    from rubrank.fusion.files import Summary
    from rubrank.fusion.group import FusedGroup

_MOST_CRITERIA = 30  # named in a line or shown in a table
BY_RUBRIC = "using the weights and gates stored in the file"
"""Printed if a score file contains its weights, margins, directions and layers."""


def describe_summary(summary: Summary, result: str, name_criteria: bool = True) -> list[str]:
    """Return lines about a file that was fused: how it was read, its size, and the criteria used.

    result: what the line about its size ends with, such as " → rewards.jsonl"; without one there is no such line.
    """
    size = f"{counted(summary.rollouts, 'rollout')} in {counted(summary.groups, 'group')}"
    lines = []
    if summary.shape not in ("CSV", "TSV", "JSON Lines", "Parquet"):  # not obvious from the suffix
        lines.append(f"read {size} ({summary.shape}, by {summary.by}).")
    if result:
        lines.append(f"{size}, {summary.no_signal:,} without signal{result}")
    if summary.graded:
        gates = f"; gated by {', '.join(summary.gates)}" if summary.gates else ""
        return [*lines, BY_RUBRIC + gates]
    if name_criteria:
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


def show_summary(summary: Summary) -> None:
    """Print the rewards of the first groups, then what each criterion did in the whole file."""
    title = "rewards"
    if len(summary.first) < summary.groups:
        title = f"rewards of the first {len(summary.first)} of {summary.groups:,} groups"
    reward_rows = []
    for group in summary.first:
        rewards = " ".join(f"{reward:.2f}" for reward in group.reward)
        reward_rows.append((str(group.label), "no signal" if group.no_signal else rewards))
    print_table(title, ("group", "rewards, rollout by rollout"), reward_rows, words=2)

    shares = np.stack([summary.scored / summary.rollouts, summary.deciding / summary.groups], 1)
    order = np.argsort(-summary.deciding, kind="stable")
    rows = [(summary.criteria[k], *shares[k]) for k in order]
    headings = ("criterion", "scored", "tells apart")
    print_table("criteria", headings, rows, form=".0%", most=_MOST_CRITERIA)

    result = f"; mean reward {summary.reward_sum / summary.rollouts:.3f}"
    for line in describe_summary(summary, result, name_criteria=False):  # the table names them
        print_line(line)


def show_group(group: FusedGroup, rollout: int | None) -> None:
    """Print a group's scores, utilities and explanations; with `rollout`, only its columns."""
    rollouts = list(range(len(group.reward))) if rollout is None else [rollout]
    # Criteria without any score in this group belong to other queries.
    scored = [k for k in range(len(group.criteria)) if group.missing[k] < len(group.reward)]
    _show_scores(group, rollouts, scored)
    _show_utilities(group, rollouts, scored)
    if group.flags:
        print_line(f"note: {'; '.join(group.flags)}")
    for i in rollouts:
        print_line("")
        print_line(group.explain(i))


def _show_scores(group: FusedGroup, rollouts: list[int], criteria: list[int]) -> None:
    """Print the scores, how many pairs each criterion decides, and the attributes."""
    rows: list[list[Any]] = []
    for k in criteria:
        outcome = group.outcomes[:, :, k].copy()
        np.fill_diagonal(outcome, np.nan)
        compared_pairs = int((~np.isnan(outcome)).sum()) // 2
        # Above 0.5 and not 1 alone: an outcome is a fraction if several verdicts about a pair differ.
        decided_pairs = int((outcome > 0.5).sum())
        label = group.criteria[k] if group.higher_is_better[k] else f"{group.criteria[k]} ↓"
        rows.append([label, f"{decided_pairs}/{compared_pairs}", *group.scores[rollouts, k]])
    for d, name in enumerate(group.attribute_names):
        assert group.attributes is not None
        rows.append([name, "", *group.attributes[rollouts, d]])
    headings = ["criterion", "decided", *map(str, rollouts)]
    title = f"group {group.label}: scores by rollout"
    print_table(title, headings, rows, form=".4g", most=None)


def _show_utilities(group: FusedGroup, rollouts: list[int], criteria: list[int]) -> None:
    """Print utilities and rewards; rewards alone under a rule that has no utilities."""
    rows: list[list[Any]] = []
    title = "rewards by rollout"
    if group.values is not None and group.fused is not None and group.effective_weights is not None:
        title = "utilities by rollout"
        for k in criteria:
            values = [group.values[i, k] if _is_decided(group, i, k) else None for i in rollouts]
            share = f"{round(group.effective_weights[k], 2) + 0.0:.0%}"  # + 0.0: never -0%
            rows.append([group.criteria[k], f"{group.weights[k]:g}", share, *values])
        rows.append(["weighted sum", "", "", *group.fused[rollouts]])
    if group.gated is not None:
        rows.append(["ranking", "", "", *(f"{r:.2f}" for r in group.ranking[rollouts])])
    rows.append(["reward", "", "", *(f"{r:.2f}" for r in group.reward[rollouts])])
    headings = ["criterion", "weight", "share", *map(str, rollouts)]
    print_table(title, headings, rows, form="+.2f", most=None, total=1)


def _is_decided(group: FusedGroup, rollout: int, criterion: int) -> bool:
    """Return whether the rollout was scored on the criterion, or compared with another one."""
    is_scored = not math.isnan(group.scores[rollout, criterion])
    against_others = np.delete(group.outcomes[rollout, :, criterion], rollout)
    return is_scored or not np.isnan(against_others).all()


def describe_group(group: FusedGroup, rollout: int | None) -> dict[str, Any]:
    """Return what `show_group` shows as plain data."""
    criteria = []
    for k, name in enumerate(group.criteria):
        criterion: dict[str, Any] = {
            "name": name,
            "weight": group.weights[k],
            "margin": group.margins[k],
            "higher_is_better": group.higher_is_better[k],
            "effective_weight": None,
        }
        if group.effective_weights is not None:
            criterion["effective_weight"] = group.effective_weights[k]
        if group.gamma is not None and group.n is not None:
            for figure in ("gamma", "se", "shrunk", "taken"):
                values = getattr(group, figure)[k]
                criterion[figure] = dict(zip(group.attribute_names, values, strict=True))
            criterion["groups"] = group.n[k]
            criterion["pool"] = group.pool
        criteria.append(criterion)
    rollouts = range(len(group.reward)) if rollout is None else (rollout,)
    return {
        "group": group.label,
        "no_signal": group.no_signal,
        "flags": group.flags,
        "criteria": criteria,
        "rollouts": [_describe_rollout(group, i) for i in rollouts],
    }


def _describe_rollout(group: FusedGroup, i: int) -> dict[str, Any]:
    """Return scores, outcomes, utilities and reward of one rollout, and why it got that reward."""
    data: dict[str, Any] = {"rollout": i}
    for figure in ("scores", "outcomes", "utilities", "values"):
        data[figure] = {}
    for k, name in enumerate(group.criteria):
        data["scores"][name] = group.scores[i, k]
        data["outcomes"][name] = _count_outcomes(np.delete(group.outcomes[i, :, k], i))
        for figure in ("utilities", "values"):
            numbers = getattr(group, figure)  # None under a rule without utilities
            is_known = numbers is not None and _is_decided(group, i, k)
            data[figure][name] = numbers[i, k] if is_known else None
    data["fused"] = None if group.fused is None else group.fused[i]
    data["ranking"] = group.ranking[i]
    data["reward"] = group.reward[i]
    data["explanation"] = group.explain(i)
    if group.attributes is not None:
        data["attributes"] = dict(zip(group.attribute_names, group.attributes[i], strict=True))
    if group.gated is not None:
        data["gate"] = {"passed": group.gated.passed[i], "factor": group.gated.factor[i]}
    return data


def _count_outcomes(against_others: np.ndarray) -> dict[str, int]:
    """Return wins, ties and losses; "ahead" and "behind" count fractions, such as 0.7, if there are any."""
    counts = Counter(beats=0, ties=0, loses=0)
    names = {1.0: "beats", 0.5: "ties", 0.0: "loses"}
    for outcome in against_others[~np.isnan(against_others)].tolist():
        name_of_fraction = "ahead" if outcome > 0.5 else "behind"
        counts[names.get(outcome, name_of_fraction)] += 1
    return dict(counts)
