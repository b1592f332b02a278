"""What the command line shows: tables for people on the terminal, the same as JSON for machines.

Nothing is computed here. Tables go to standard output, the progress bar to standard error, and only if that is a
terminal and the work lasts.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from rubrank._plain import plain

if TYPE_CHECKING:
    from rubrank.fusion.result import FusedGroup
    from rubrank.fusion.stream.files import Summary

_ROLLOUTS = 12  # columns of rollouts that fit on a screen; JSON has all of them
_CRITERIA = 30
BY_RUBRIC = "by the rubric in the file"
"""What is said where a score file brought its weights, margins, directions and layers."""
_PATIENCE = 0.7  # seconds before a progress bar is worth its place


class Bar(AbstractContextManager["Bar"]):
    """A progress bar for `fuse_file`, called with what is being done and how far it is."""

    def __init__(self, quiet: bool = False) -> None:
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._wanted = sys.stderr.isatty() and not quiet
        self._since = time.monotonic()

    def __call__(self, doing: str, share: float) -> None:
        """Show how far it is, once it has taken a while."""
        if self._bar is None and self._wanted and time.monotonic() - self._since > _PATIENCE:
            columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(doing, total=1.0)
            self._bar.start()
        if self._bar is not None:
            self._bar.update(self._task, description=doing, completed=share)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def summary_lines(summary: Summary, target: str | None) -> list[str]:
    """About a file that was written, and the rubric that it was fused by."""
    return [*_read(summary), *([f"{_counts(summary)} → {target}"] if target else []), *_by_rubric(summary)]


_PLAIN = ("CSV", "TSV", "JSON Lines", "Parquet")


def _read(summary: Summary) -> list[str]:
    """How a table was read, where that is not plain."""
    if summary.shape in _PLAIN:
        return []
    return [f"read {summary.rollouts:,} rollouts in {summary.groups:,} groups ({summary.shape}, by {summary.by})."]


def _by_rubric(summary: Summary) -> list[str]:
    if not summary.graded:
        return []
    return [f"{BY_RUBRIC}; gated by {', '.join(summary.gates)}" if summary.gates else BY_RUBRIC]


def show_summary(summary: Summary) -> None:
    """The rewards of the first groups, then what each criterion did in the whole file."""
    console = Console()
    for line in _read(summary):
        console.print(escape(line), highlight=False, soft_wrap=True)
    console.print(_first_rewards(summary))
    console.print(_criteria(summary))
    mean = summary.reward_sum / summary.rollouts
    console.print(f"{_counts(summary)}; mean reward {mean:.3f}", highlight=False, soft_wrap=True)
    for line in _by_rubric(summary):
        console.print(escape(line), highlight=False, soft_wrap=True)
    if summary.left_out:
        names = escape(", ".join(summary.left_out))
        console.print(f"not fused, as their names are bookkeeping: {names}", highlight=False, soft_wrap=True)


def _counts(summary: Summary) -> str:
    groups, flat = f"{summary.groups:,} group{'s' * (summary.groups != 1)}", summary.no_signal
    return f"{summary.rollouts:,} rollouts in {groups}, {flat:,} without signal"


def _first_rewards(summary: Summary) -> Table:
    shown = len(summary.first)
    title = "rewards" if shown == summary.groups else f"rewards of the first {shown} of {summary.groups:,} groups"
    table = _table(title, ["group"], ["rewards, rollout by rollout"])
    for group in summary.first:
        rewards = " ".join(f"[bold]{r:.2f}[/]" if r == max(group.reward) > 0 else f"{r:.2f}" for r in group.reward)
        table.add_row(escape(str(group.label)), "[dim]no signal[/]" if group.no_signal else rewards)
    return table


def _criteria(summary: Summary) -> Table:
    table = _table("criteria", ["criterion"], [], ["scored", "tells apart"])
    for k in np.argsort(-summary.deciding, kind="stable")[:_CRITERIA]:
        scored, deciding = summary.scored[k] / summary.rollouts, summary.deciding[k] / summary.groups
        table.add_row(escape(summary.criteria[k]), f"{scored:.0%}", f"{deciding:.0%}")
    if len(summary.criteria) > _CRITERIA:
        table.add_row(f"[dim]and {len(summary.criteria) - _CRITERIA:,} more[/]", "", "")
    return table


def show_group(group: FusedGroup, rollout: int | None) -> None:
    """A group's scores, what became of them, and why, in words."""
    console = Console()
    shown = _shown(group, rollout)
    console.print(_scores(group, shown))
    console.print(_utilities(group, shown))
    if len(shown) < len(group.reward):
        console.print(f"{len(shown)} of {len(group.reward)} rollouts; --json has all", style="dim", highlight=False)
    if group.flags:
        console.print(f"note: {escape('; '.join(group.flags))}", highlight=False, soft_wrap=True)
    for i in range(len(group.reward)) if rollout is None else (rollout,):
        console.print()
        console.print(group.explain(i), highlight=False, markup=False, soft_wrap=True)


def _shown(group: FusedGroup, rollout: int | None) -> list[int]:
    shown = list(range(min(len(group.reward), _ROLLOUTS)))
    return shown if rollout is None or rollout in shown else [*shown[:-1], rollout]


def _scores(group: FusedGroup, shown: Sequence[int]) -> Table:
    table = _table(f"group {group.label}: scores", ["criterion"], [], [*map(str, shown), "pairs decided"])
    for k, name in _asked(group):
        cells = ["–" if math.isnan(s) else f"{s:g}" for s in group.scores[shown, k]]
        outcome = group.outcomes[:, :, k]
        pairs = int((~np.isnan(outcome)).sum() - (~np.isnan(np.diagonal(outcome))).sum()) // 2
        table.add_row(escape(name) + ("" if group.higher_is_better[k] else " ↓"), *cells, f"{_wins(outcome)}/{pairs}")
    for d, name in enumerate(group.attribute_names):
        assert group.attributes is not None
        table.add_row(f"[dim]{escape(name)}[/]", *(f"[dim]{a:g}[/]" for a in group.attributes[shown, d]), "")
    return table


def _asked(group: FusedGroup) -> list[tuple[int, str]]:
    """Number and name of the criteria on which the group has a score; the others are other queries'."""
    return [(k, name) for k, name in enumerate(group.criteria) if group.missing[k] < len(group.reward)]


def _wins(outcome: np.ndarray) -> int:
    return int((outcome == 1.0).sum())


def _utilities(group: FusedGroup, shown: Sequence[int]) -> Table:
    table = _table("utilities", ["criterion"], [], ["weight", "share", *map(str, shown)])
    for k, name in _asked(group):
        cells = ["–" if math.isnan(group.scores[i, k]) else _signed(group.values[i, k]) for i in shown]
        table.add_row(escape(name), f"{group.weights[k]:g}", f"{group.effective_weights[k]:.0%}", *cells)
    table.add_section()
    table.add_row("weighted sum", "", "", *map(_signed, group.fused[shown]))
    if group.gated is not None:
        table.add_row("ranking", "", "", *(f"{r:.2f}" for r in group.ranking[shown]))
    table.add_row("[bold]reward[/]", "", "", *(f"[bold]{r:.2f}[/]" for r in group.reward[shown]))
    return table


def _signed(value: float) -> str:
    return f"{round(value, 2) + 0.0:+.2f}"  # adding zero turns -0.00 into +0.00


def _table(title: str, left: Sequence[str], wide: Sequence[str], right: Sequence[str] = ()) -> Table:
    table = Table(title=escape(title), title_justify="left", box=box.SIMPLE_HEAD, title_style="bold", pad_edge=False)
    for name in (*left, *wide):
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def group_as_json(group: FusedGroup, rollout: int | None) -> str:
    """What `show_group` shows, for machines; null where there is no number."""
    names = group.criteria
    found: dict[str, Any] = {
        "group": group.label,
        "no_signal": group.no_signal,
        "flags": group.flags,
        "criteria": [
            {
                "name": name,
                "weight": group.weights[k],
                "margin": group.margins[k],
                "higher_is_better": group.higher_is_better[k],
                "effective_weight": group.effective_weights[k],
                **_coefficients(group, k),
            }
            for k, name in enumerate(names)
        ],
        "rollouts": [_rollout(group, i) for i in (range(len(group.reward)) if rollout is None else (rollout,))],
    }
    return json.dumps(plain(found), ensure_ascii=False)


def _coefficients(group: FusedGroup, k: int) -> dict[str, Any]:
    if group.gamma is None or group.n is None:
        return {}
    found = {name: getattr(group, name)[k] for name in ("gamma", "se", "shrunk", "taken")}
    return {
        **{name: dict(zip(group.attribute_names, values, strict=True)) for name, values in found.items()},
        "groups": group.n[k],
        "pool": group.pool,
    }


def _rollout(group: FusedGroup, i: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "rollout": i,
        "scores": dict(zip(group.criteria, group.scores[i], strict=True)),
        "outcomes": {name: _against(group.outcomes[i, :, k], i) for k, name in enumerate(group.criteria)},
        "utilities": dict(zip(group.criteria, group.utilities[i], strict=True)),
        "values": dict(zip(group.criteria, group.values[i], strict=True)),
        "fused": group.fused[i],
        "ranking": group.ranking[i],
        "reward": group.reward[i],
        "explanation": group.explain(i),
    }
    if group.attributes is not None:
        found["attributes"] = dict(zip(group.attribute_names, group.attributes[i], strict=True))
    if group.gated is not None:
        found["gate"] = {"passed": group.gated.passed[i], "factor": group.gated.factor[i]}
    return found


def _against(outcome: np.ndarray, i: int) -> dict[str, int]:
    others = np.delete(outcome, i)
    return {word: int((others == o).sum()) for word, o in (("beats", 1.0), ("ties", 0.5), ("loses", 0.0))}
