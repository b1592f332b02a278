"""The tables that replay, robustness and bench fusion print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rubrank.cli.terminal import MOST_ROWS, draw_histogram, format_number, print_matrix, print_table
from rubrank.errors import counted

if TYPE_CHECKING:
    from rubrank.scores.batch import ScoreBatch
    from rubrank.studies.replay.filters import FilteredTable
    from rubrank.studies.replay.overhead import Overhead
    from rubrank.studies.replay.replay import Replay
    from rubrank.studies.replay.robustness import RobustnessRow

_MOST_ROBUSTNESS_ROWS = 180  # 20 criteria × 3 maps × 3 rules


def show_replay(result: Replay, winners: bool) -> None:
    """Print all tables of a replay."""
    numbered = [f"{i + 1} {name}" for i, name in enumerate(result.names)]
    _show_rewards(result)
    for title, values in (
        ("Agreement: Kendall's τ within groups", result.kendall),
        ("Same side of the group's mean", result.signs),
        ("Groups with the same winner", result.same_winner),
    ):
        print_matrix(
            title, numbered, result.names, [[format_number(x) for x in row] for row in values]
        )
    title = "Effective weights: share of the variance of the reward"
    effective = [rule.effective for rule in result.rules]
    _show_by_criterion(title, result, ["nominal", *result.names], [result.nominal, *effective])
    title = "Influence: 1 − Spearman with and without the criterion"
    _show_by_criterion(title, result, result.names, [rule.influence for rule in result.rules])
    if result.attributes:
        cells = [
            [format_number(rule.follows[d], "+.2f") for rule in result.rules]
            for d in range(len(result.attributes))
        ]
        print_matrix(
            "Correlation of rewards with attributes: Spearman within groups",
            result.attributes,
            result.names,
            cells,
        )
    if winners:
        _show_winners(result)


def _show_rewards(result: Replay) -> None:
    """Print the distribution of rewards under each rule, and the time that a step takes."""
    rows = []
    for i, rule in enumerate(result.rules):
        low, _, middle, _, high = (f"{x:.2f}" for x in rule.quantiles)
        flat = str(int(rule.no_signal.sum()))
        shape = draw_histogram(rule.reward.tolist())
        rows.append(
            [str(i + 1), rule.rule, shape, low, middle, high, flat, f"{rule.seconds * 1e6:,.0f}"]
        )
    groups = counted(len(result.groups), "group")
    rollouts = counted(len(result.rules[0].reward), "rollout")
    title = f"{groups}, {rollouts}, {counted(result.step, 'group')} per step"
    headings = ["", "rule", "rewards", "lowest", "median", "highest", "no signal", "µs per step"]
    print_table(title, headings, rows, words=3)


def _show_by_criterion(
    title: str, result: Replay, names: Sequence[str], columns: Sequence[np.ndarray]
) -> None:
    """Print criteria × columns; if there are too many criteria, those with the largest weights."""
    order = list(range(len(result.criteria)))
    if len(order) > MOST_ROWS:
        order = np.argsort(-result.nominal, kind="stable").tolist()
    cells = [[format_number(column[k]) for column in columns] for k in order]
    extra = len(names) - len(result.names)  # columns before those of the rules keep their names
    print_matrix(title, [result.criteria[k] for k in order], names, cells, named=extra)


def _show_winners(result: Replay) -> None:
    """Print the winners in the groups in which the rules do not agree."""
    winners = np.stack([rule.winner for rule in result.rules])
    disputed = np.flatnonzero((winners != winners[0]).any(0)).tolist()
    if disputed:
        cells = [
            ["–" if rule.winner[g] < 0 else str(rule.winner[g]) for rule in result.rules]
            for g in disputed
        ]
        title = "Winners: the number of the rollout, – for a tie"
        print_matrix(title, [result.groups[g] for g in disputed], result.names, cells)
    same = len(result.groups) - len(disputed)
    print(f"{same} of {len(result.groups)} groups have the same winner under all rules")


def show_robustness(rows: Sequence[RobustnessRow], means: Sequence[RobustnessRow]) -> None:
    """Print the paper's table, and the means over criteria."""
    headings = ("criterion", "map", "rule", "groups", "same sign %", "Spearman")
    title = "Before and after one criterion is mapped"
    print_table(title, headings, _make_robustness_cells(rows), words=3, most=_MOST_ROBUSTNESS_ROWS)
    if means:
        title = "Means over the groups of all criteria"
        print_table(title, headings, _make_robustness_cells(means), words=3)


def show_left_out(groups: int, tested: FilteredTable) -> None:
    """Print how many groups the filters kept, and why they left out the others."""
    print(f"{len(tested.table.groups):,} of {groups:,} groups kept")
    for reason, times in sorted(tested.left_out, key=lambda item: -item[1]):
        print(f"  left out {times:,} ×: {reason}")


def _make_robustness_cells(rows: Sequence[RobustnessRow]) -> list[list[str]]:
    """Return the cells of the table; each criterion and each of its maps is named in its first row only."""
    cells = []
    last_criterion = ""
    last_map = ""
    for row in rows:
        is_new_criterion = row.criterion != last_criterion
        is_new_map = is_new_criterion or row.map != last_map
        cells.append(
            [
                row.criterion if is_new_criterion else "",
                row.map if is_new_map else "",
                row.rule,
                str(row.groups),
                format_number(100.0 * row.signs),
                format_number(row.spearman, ".4f"),
            ]
        )
        last_criterion = row.criterion
        last_map = row.map
    return cells


def show_overhead(rows: Sequence[Overhead], batch: ScoreBatch) -> None:
    """Print the time that each rule takes for a step."""
    sizes = sorted(set(batch.sizes.tolist()))
    size = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    title = f"Fusion of one step: {batch.N} groups of {size}, {batch.K} criteria"
    cells = [(row.case, f"{row.seconds * 1e6:,.1f}", f"{row.ratio:,.2f}") for row in rows]
    print_table(title, ("rule", "µs", "× weighted mean"), cells)
