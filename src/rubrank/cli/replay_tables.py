"""The tables that replay, robustness and bench fusion print."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rubrank.cli.terminal import MOST_ROWS, histogram, matrix, number, table
from rubrank.errors import counted

if TYPE_CHECKING:
    from rubrank.scores.batch import ScoreBatch
    from rubrank.studies.replay.filters import Filtered
    from rubrank.studies.replay.overhead import Overhead
    from rubrank.studies.replay.replay import Replay, RuleReplay
    from rubrank.studies.replay.robustness import RobustnessRow

_MOST_MAPPED = 180  # rows of 20 criteria × 3 maps × 3 rules


def show_replay(found: Replay, winners: bool) -> None:
    """Everything that a replay found."""
    numbered = [f"{i + 1} {name}" for i, name in enumerate(found.names)]
    _rewards(found)
    for title, values in (
        ("Agreement: Kendall's τ within groups", found.kendall),
        ("Same side of the group's mean", found.signs),
        ("Groups with the same winner", found.same_winner),
    ):
        matrix(title, numbered, found.names, [[number(x) for x in row] for row in values])
    _by_criterion("Weights in effect: share in the variance of the reward", found, lambda rule: rule.effective, True)
    _by_criterion("Influence: 1 − Spearman with and without the criterion", found, lambda rule: rule.influence, False)
    if found.attributes:
        cells = [[number(rule.follows[d], "+.2f") for rule in found.rules] for d in range(len(found.attributes))]
        matrix("The reward follows: Spearman within groups", found.attributes, found.names, cells)
    if winners:
        _who_wins(found)


def _rewards(found: Replay) -> None:
    rows = []
    for i, rule in enumerate(found.rules):
        low, _, middle, _, high = (f"{x:.2f}" for x in rule.quantiles)
        flat = str(int(rule.no_signal.sum()))
        shape = histogram(rule.reward.tolist())
        rows.append([str(i + 1), rule.rule, shape, low, middle, high, flat, f"{rule.seconds * 1e6:,.0f}"])
    size = counted(len(found.groups), "group"), counted(len(found.rules[0].reward), "rollout")
    title = f"{', '.join(size)}, {counted(found.step, 'group')} a step"
    table(title, ("", "rule", "rewards", "least", "median", "most", "no signal", "µs a step"), rows, words=3)


def _by_criterion(title: str, found: Replay, of: Callable[[RuleReplay], np.ndarray], nominal: bool) -> None:
    """Criteria × rules; those that weigh most where there are too many."""
    order = list(range(len(found.criteria)))
    if len(order) > MOST_ROWS:
        order = np.argsort(-found.nominal, kind="stable").tolist()
    names, values = list(found.names), [of(rule) for rule in found.rules]
    if nominal:
        names, values = ["nominal", *names], [found.nominal, *values]
    cells = [[number(column[k]) for column in values] for k in order]
    matrix(title, [found.criteria[k] for k in order], names, cells, named=int(nominal))


def _who_wins(found: Replay) -> None:
    """The groups in which the rules do not agree."""
    won = np.stack([rule.winner for rule in found.rules])
    apart = np.flatnonzero((won != won[0]).any(0)).tolist()
    if apart:
        cells = [["–" if rule.winner[g] < 0 else str(rule.winner[g]) for rule in found.rules] for g in apart]
        title = "Who wins: numbers of rollouts, – where several do"
        matrix(title, [found.groups[g] for g in apart], found.names, cells)
    print(f"{len(found.groups) - len(apart)} of {len(found.groups)} groups have the same winner under all rules")


def show_robustness(rows: Sequence[RobustnessRow], means: Sequence[RobustnessRow]) -> None:
    """The paper's table, and the means over criteria."""
    headings = ("criterion", "map", "rule", "groups", "same sign %", "Spearman")
    title = "Before and after one criterion is mapped"
    table(title, headings, _without_repeats([_cells(row) for row in rows]), words=3, most=_MOST_MAPPED)
    if means:
        cells = _without_repeats([_cells(row) for row in means])
        table("Means over the groups of all criteria", headings, cells, words=3)


def show_left_out(groups: int, kept: Filtered) -> None:
    """What the filters kept, and what they left out."""
    print(f"{len(kept.table.groups):,} of {groups:,} groups kept")
    for what, times in sorted(kept.left_out, key=lambda item: -item[1]):
        print(f"  left out {times:,} ×: {what}")


def _without_repeats(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """A criterion and a map once, for all their rules."""
    found = []
    for i, row in enumerate(rows):
        above = rows[i - 1] if i else ("", "")
        same = row[0] == above[0], tuple(row[:2]) == tuple(above[:2])
        found.append(["" if same[0] else row[0], "" if same[1] else row[1], *row[2:]])
    return found


def _cells(row: RobustnessRow) -> tuple[str, ...]:
    return (row.criterion, row.map, row.rule, str(row.groups), number(100.0 * row.signs), number(row.spearman, ".4f"))


def show_overhead(rows: Sequence[Overhead], batch: ScoreBatch) -> None:
    """The cost of a step."""
    G = sorted(set(batch.sizes.tolist()))
    size = str(G[0]) if len(G) == 1 else f"{G[0]} to {G[-1]}"
    title = f"Fusion of one step: {batch.N} groups of {size}, {batch.K} criteria"
    cells = [(row.case, f"{row.seconds * 1e6:,.1f}", f"{row.ratio:,.2f}") for row in rows]
    table(title, ("rule", "µs", "× weighted mean"), cells)
