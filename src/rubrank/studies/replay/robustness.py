"""Does a rule care how the scores are written? The paper's table, on your own scores.

    robustness(table, rules=["weighted-mean", "z-score", "rlvr2"])

One criterion at a time is mapped by a function that keeps its order (× 10, squared, levels 0, 0.2, 1 to 0, 1, 100); the
rule is run before and after. Sign agreement: the share of rollouts that stay on their side of the
group's mean. Spearman: the mean correlation of ranks within groups. A rule that reads only the order has 100% and 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rubrank.errors import UnknownName, only_our_errors
from rubrank.fusion.options import collect_criterion_changes
from rubrank.fusion.rule import Rule
from rubrank.options import FuseOptions
from rubrank.records.agreement import mean_or_nan, rank_rewards, share_of_same_sides, spearman_by_group
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.table import ScoreTable
from rubrank.studies.replay.log import Logged, batch_of
from rubrank.studies.replay.replay import STEP, check_input, labels_of, run_rule
from rubrank.studies.replay.transforms import Map, Transform
from rubrank.verifiers.verifier import Domain

RULES = ("weighted-mean", "z-score", "rlvr2")
"""Those of the paper's table: cardinal, normalised cardinal, RLVR²."""


_STEEP = np.log(0.01) / np.log(0.2)  # the exponent of the curve through 0 → 0, 0.2 → 1 and 1 → 100

MAPS: Mapping[str, Map] = {
    "× 10": lambda unit: unit * 10.0,
    "0, 0.2, 1 → 0, 1, 100": lambda unit: 100.0 * np.sign(unit) * np.abs(unit) ** _STEEP,
    "squared": lambda unit: np.sign(unit) * unit**2,
}
"""Of scores on the scale of their domain, 0 to 1; what comes out is put back on that scale."""


@dataclass(frozen=True)
class RobustnessRow:
    """One criterion, one map, one rule."""

    criterion: str
    map: str
    rule: str
    groups: int
    """In which the criterion tells rollouts apart."""
    signs: float
    """Share of rollouts on the same side of their group's mean as before."""
    spearman: float

    def as_dict(self) -> dict[str, Any]:
        """For machines."""
        return dict(vars(self))


@only_our_errors
def robustness(
    table: ScoreTable,
    *,
    rules: Sequence[str | Rule] = RULES,
    options: FuseOptions | None = None,
    criteria: Sequence[str] | None = None,
    maps: Mapping[str, Map] | None = None,
    transforms: Sequence[Transform] = (),
    attributes: Any = None,
    attribute_names: Sequence[str] = (),
    step: int = STEP,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[RobustnessRow, ...]:
    """Every rule before and after every map of every criterion.

    options: of the fusion; each rule takes those that it has. attributes: (rollouts, D), for those that they name.
    criteria: those to map; by default all that are ranked by. maps: by name; by default those of the paper.
    transforms: single ones instead, such as parse_transform("IFBench*10").
    Groups that a criterion ties say nothing about it, and are left out of its rows.
    """
    check_input("robustness", rules, table, step)
    chosen = FuseOptions() if options is None else options
    table = table.with_changes(collect_criterion_changes(chosen))
    jobs = list(transforms) or _jobs(table, criteria, MAPS if maps is None else maps)

    def batch(scores: ScoreTable) -> ScoreBatch:
        return batch_of(Logged(scores, attributes, tuple(attribute_names)), chosen)[1]

    before = batch(table)
    for job in jobs:
        if job.criterion not in before.names:  # a gate: nothing is ranked by it
            raise UnknownName.of("robustness", "transform", job.criterion, before.names)
    labels = labels_of(rules)
    first = [run_rule(rule, before, step, chosen)[0] for rule in rules]
    rows: list[RobustnessRow] = []
    for number, job in enumerate(jobs):
        after = batch(job(table))
        keep = before.informative_NK[:, before.names.index(job.criterion)]
        for rule, label, reward in zip(rules, labels, first, strict=True):
            rows.append(_row(job, label, keep, before, reward, run_rule(rule, after, step, chosen)[0]))
        if progress is not None:
            progress(number + 1, len(jobs))
    return tuple(rows)


def summary(rows: Sequence[RobustnessRow]) -> tuple[RobustnessRow, ...]:
    """The means for every map and rule over the groups of all criteria together."""
    by_map_and_rule: dict[tuple[str, str], list[RobustnessRow]] = {}
    for row in rows:
        by_map_and_rule.setdefault((row.map, row.rule), []).append(row)
    return tuple(
        RobustnessRow(
            f"all {len(members)}",
            name,
            rule,
            sum(row.groups for row in members),
            _mean(members, [row.signs for row in members]),
            _mean(members, [row.spearman for row in members]),
        )
        for (name, rule), members in by_map_and_rule.items()
    )


def _jobs(table: ScoreTable, criteria: Sequence[str] | None, maps: Mapping[str, Map]) -> list[Transform]:
    ranked = [c.name for c in table.specifications() if c.layer == "quality"]
    for name in criteria or ():
        if name not in ranked:
            raise UnknownName.of("robustness", "criterion", name, ranked)
    domains = {c.name: c.domain for c in table.specifications()}
    return [
        Transform(name, _on_domain(function, domains[name]), text)
        for name in criteria or ranked
        for text, function in maps.items()
    ]


def _on_domain(function: Map, domain: Domain) -> Map:
    """A map of [0, 1] as one of the domain."""
    low, width = domain.low, domain.high - domain.low
    return lambda scores: low + width * np.asarray(function((scores - low) / width))


def _row(
    job: Transform, rule: str, keep_N: np.ndarray, batch: ScoreBatch, before: np.ndarray, after: np.ndarray
) -> RobustnessRow:
    rows = keep_N[batch.group_of_row]
    starts = np.concatenate([[0], np.cumsum(batch.sizes[keep_N])])
    ranks_before, ranks_after = rank_rewards(before[rows], starts), rank_rewards(after[rows], starts)
    alike = mean_or_nan(spearman_by_group(ranks_before, ranks_after))
    return RobustnessRow(
        job.criterion, job.text, rule, int(keep_N.sum()), share_of_same_sides(ranks_before, ranks_after), alike
    )


def _mean(rows: Sequence[RobustnessRow], values: Sequence[float]) -> float:
    """Weighted by groups; criteria that tell no rollouts apart have no value."""
    defined = [(row.groups, x) for row, x in zip(rows, values, strict=True) if x == x]
    total = sum(groups for groups, _ in defined)
    return sum(groups * x for groups, x in defined) / total if total else float("nan")
