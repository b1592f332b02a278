"""How good the policy is, in numbers that can be compared over steps, in training and in evaluations.

    rubrank/score                       mean over rollouts of the gated weighted mean of the scores, from 0 to 1
    rubrank/score/source/<source>       the same over the queries of a source; so is …/stage/<stage>
    rubrank/score/category/<category>   weighted mean of the criteria of a category; so are …/tier/<tier>, …/shared,
                                        the rubric of all, and …/own, what queries bring

A fused reward says who is better within a group; its mean says nothing about a policy. Here every criterion is put on
the scale from 0 to 1 that its domain declares, more is better, and weighted as its rubric says. The gate is the rule's,
but lifts none. What was compared instead of scored has no level, and is left out; so are rollouts about which nothing
is known.

A query's source and stage are what its metadata call `rubrank_source` and `rubrank_stage` (`rubrank train` fills them
in), else `data_source` or `source`, and `stage`. The first `MOST_LINES` of a kind that a run meets have lines of their
own, and the others share "others".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rubrank.fusion.gate import Gate
from rubrank.fusion.gated import Gated
from rubrank.fusion.rules.within import by_row
from rubrank.rollouts.rollout import Group
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.training.parts import FusedPart
from rubrank.training.rewards import by_groups

MOST_LINES = 32
_P = "rubrank/score"
_PLACES = {"source": ("rubrank_source", "data_source", "source"), "stage": ("rubrank_stage", "stage")}
_LONGEST = 80


def origin_of(group: Group) -> dict[str, str]:
    """The source and the stage of a query, where its metadata say them."""
    metadata = group.rollouts[0].metadata if group.rollouts else {}
    found = {what: next((metadata[n] for n in names if metadata.get(n)), None) for what, names in _PLACES.items()}
    return {what: str(name)[:_LONGEST] for what, name in found.items() if isinstance(name, str | int)}


def score_lines(
    parts: Sequence[FusedPart],
    gate: Gate | None,
    unknown_M: np.ndarray,
    table: ScoreTable,
    groups: Sequence[Group],
    shared: Collection[str],
    lines: list[str],
) -> dict[str, float]:
    """All lines of a step. `lines`: those that the run has met, which grow."""
    means_M = np.concatenate([gated_means(one.result.batch, gate) for one in parts])
    scores = by_groups(np.where(unknown_M, np.nan, means_M).tolist(), table)
    found: dict[str, list[float]] = defaultdict(list)
    for group, scored, mine in zip(groups, table.groups, scores, strict=True):
        found[""] += mine
        for what, name in origin_of(group).items():
            found[_line(what, name, lines)] += mine
        for line, values in _parts(scored, shared, lines):
            found[line] += values
    means = {line: _mean(values) for line, values in found.items()}
    return {f"{_P}{'/' * bool(line)}{line}": mean for line, mean in means.items() if mean is not None}


def gated_means(batch: ScoreBatch, gate: Gate | None) -> np.ndarray:
    """(M,): the weighted mean of what was scored, from 0 to 1, times the gate's factor; NaN without any score."""
    batch = batch.without_penalties()
    unit = batch.unit_MK
    if batch.outcomes:
        unit = unit.copy()
        for g, k in batch.outcomes:
            unit[batch.starts[g] : batch.starts[g + 1], k] = np.nan
    mean = _weighted(unit, by_row(batch.weights_NK, batch))
    fixed = Gated(_Known(mean), replace(gate or Gate(), lift=0.0))
    gated = fixed(batch).gated
    assert gated is not None
    return np.where(np.isnan(mean) & gated.passed, np.nan, gated.reward)


class _Known:
    """A rule that knows its values."""

    name, local, bounded = "weighted-mean", True, True

    def __init__(self, values_M: np.ndarray) -> None:
        self.values_M = values_M

    def __call__(self, batch: ScoreBatch) -> Any:
        from rubrank.fusion.result import Fused

        return Fused(batch, self.name, np.nan_to_num(self.values_M))


def _parts(scored: GroupScores, shared: Collection[str], lines: list[str]) -> Iterator[tuple[str, list[float]]]:
    """A group's weighted means over some of its criteria."""
    columns: dict[str, list[int]] = defaultdict(list)
    for k, criterion in enumerate(scored.criteria):
        if criterion.layer != "quality" or criterion.name in scored.outcomes:
            continue
        columns["shared" if criterion.name in shared else "own"].append(k)
        if criterion.category is not None:
            columns[_line("category", criterion.category, lines)].append(k)
        if criterion.tier is not None:
            columns[_line("tier", str(criterion.tier), lines)].append(k)
    unit = np.array([c.cleanness(scored.scores[:, k]) for k, c in enumerate(scored.criteria)]).T
    for line, at in columns.items():
        yield line, _weighted(unit[:, at], np.array([scored.criteria[k].weight for k in at])).tolist()


def _weighted(unit: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted means of the rows over what is known; NaN where nothing is."""
    known = ~np.isnan(unit) * weights
    total = known.sum(axis=1)
    added = (np.nan_to_num(unit) * known).sum(axis=1)
    return np.divide(added, total, out=np.full(len(unit), np.nan), where=total > 0.0)


def _line(what: str, name: str, lines: list[str]) -> str:
    """Its line, or that of the others where there are enough."""
    line = f"{what}/{name[:_LONGEST]}"
    if line not in lines and sum(known.startswith(f"{what}/") for known in lines) < MOST_LINES:
        lines.append(line)
    return line if line in lines else f"{what}/others"


def _mean(values: Sequence[float]) -> float | None:
    known = [value for value in values if value == value]
    return sum(known) / len(known) if known else None


def with_origin(metadata: Mapping[str, Any], group: Group) -> dict[str, Any]:
    """Metadata of a record, with the query's source and stage."""
    return {**metadata, **origin_of(group)}
