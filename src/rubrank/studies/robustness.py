"""Measure whether a rule depends on the scale of the scores: the paper's table, on your own scores.

    robustness(table, rules=["weighted-mean", "z-score", "rlvr2"])

One criterion at a time is mapped by a function that keeps its order (× 10, squared, levels 0, 0.2, 1 to 0, 1, 100), and
the rule is run before and after. Sign agreement is the share of rollouts that stay on the same side of their group's
mean, Spearman the mean correlation of ranks within groups. A rule that uses only the order has 100% and 1.

    filtered = apply_filters(table, PAPER, texts=logged.texts)
    filtered.table                               the groups and criteria that the paper's experiment would use
    filtered.left_out                            ("group of other than 8 rollouts", 12), ("gate criterion", 3), …
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rubrank._plain import word_list
from rubrank.errors import InvalidInput, UnknownName, only_our_errors
from rubrank.fusion.options import check_changes, collect_criterion_changes
from rubrank.fusion.rule import Rule
from rubrank.options import FuseOptions
from rubrank.records.agreement import (
    compute_mean,
    measure_same_sides,
    measure_spearman,
    rank_rewards,
)
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.studies.logged import Logged, make_batch
from rubrank.studies.replay import STEP, Map, Transform, check_input, label_rules, run_rule
from rubrank.verifiers.verifier import Domain

RULES = ("weighted-mean", "z-score", "rlvr2")
"""The rules of the paper's table: cardinal, normalised cardinal, RLVR²."""

_STEEP_EXPONENT = np.log(0.01) / np.log(0.2)
"""The exponent p of the curve 100·x^p that maps 0 to 0, 0.2 to 1 and 1 to 100."""


def _map_steeply(unit: np.ndarray) -> np.ndarray:
    return np.asarray(100.0 * np.sign(unit) * np.abs(unit) ** _STEEP_EXPONENT)


# Scores below the domain are below 0 here. The maps keep the sign, so they keep the order of these scores too.
MAPS: Mapping[str, Map] = {
    "× 10": lambda unit: unit * 10.0,
    "0, 0.2, 1 → 0, 1, 100": _map_steeply,
    "squared": lambda unit: np.sign(unit) * unit**2,
}
"""Name → a map of [0, 1]; scores are mapped on the scale of their domain."""


@dataclass(frozen=True)
class RobustnessRow:
    """One criterion, one map, one rule."""

    criterion: str
    map: str
    rule: str
    groups: int
    """Groups in which the criterion tells rollouts apart."""
    signs: float
    """Share of rollouts on the same side of their group's mean as before."""
    spearman: float

    def as_dict(self) -> dict[str, Any]:
        """Return the values as plain data for JSON."""
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
    """Compare the rewards of every rule before and after every map of every criterion; one row for each.

    options: options of the fusion; each rule takes those that it has.
    attributes, attribute_names: (rollouts, D) values of the attributes that the options name.
    criteria: the criteria to map; by default all quality criteria.
    maps: name → map; by default those of the paper.
    transforms: single transforms in place of criteria and maps, such as parse_transform("IFBench*10").
    step: groups that a rule sees at a time.

    Groups in which a criterion ties all rollouts say nothing about it, and are left out of its rows.
    Raises UnknownName for criteria that do not rank, and InvalidInput if a map changes the order of scores.
    """
    check_input("robustness", rules, table, step)
    options = FuseOptions() if options is None else options
    changes = collect_criterion_changes(options)
    check_changes("robustness", changes, table.criteria)
    table = table.change_criteria(changes)
    all_transforms = list(transforms) or _list_transforms(
        table, criteria, MAPS if maps is None else maps
    )

    def make_score_batch(scores: ScoreTable) -> ScoreBatch:
        return make_batch(Logged(scores, attributes, tuple(attribute_names)), options)[1]

    batch = make_score_batch(table)
    for transform in all_transforms:
        if transform.criterion not in batch.names:  # also a gate, which a batch does not rank by
            raise UnknownName.of("robustness", "transform", transform.criterion, batch.names)
    labels = label_rules(rules)
    rewards = [run_rule(rule, batch, step, options) for rule in rules]
    result: list[RobustnessRow] = []
    for number, transform in enumerate(all_transforms, start=1):
        mapped = make_score_batch(transform(table))
        informative_N = batch.informative_NK[:, batch.names.index(transform.criterion)]
        rows = informative_N[batch.group_of_row]
        starts = np.concatenate([[0], np.cumsum(batch.sizes[informative_N])])
        for rule, label, reward in zip(rules, labels, rewards, strict=True):
            before = rank_rewards(reward[rows], starts)
            after = rank_rewards(run_rule(rule, mapped, step, options)[rows], starts)
            row = RobustnessRow(
                criterion=transform.criterion,
                map=transform.text,
                rule=label,
                groups=int(informative_N.sum()),
                signs=measure_same_sides(before, after),
                spearman=compute_mean(measure_spearman(before, after)),
            )
            result.append(row)
        if progress is not None:
            progress(number, len(all_transforms))
    return tuple(result)


def summarise_rows(rows: Sequence[RobustnessRow]) -> tuple[RobustnessRow, ...]:
    """Return the means over the criteria for every map and rule, weighted by the groups of each criterion."""
    by_map_and_rule: dict[tuple[str, str], list[RobustnessRow]] = {}
    for row in rows:
        by_map_and_rule.setdefault((row.map, row.rule), []).append(row)
    means = []
    for (map_name, rule), members in by_map_and_rule.items():
        groups = [row.groups for row in members]
        means.append(
            RobustnessRow(
                criterion=f"all {len(members)}",
                map=map_name,
                rule=rule,
                groups=sum(groups),
                signs=_compute_weighted_mean(groups, [row.signs for row in members]),
                spearman=_compute_weighted_mean(groups, [row.spearman for row in members]),
            )
        )
    return tuple(means)


def _list_transforms(
    table: ScoreTable, criteria: Sequence[str] | None, maps: Mapping[str, Map]
) -> list[Transform]:
    """Return every map of every named criterion; criteria None: all quality criteria."""
    domains = {c.name: c.domain for c in table.collect_criteria() if c.layer == "quality"}
    for name in criteria or ():
        if name not in domains:
            raise UnknownName.of("robustness", "criterion", name, list(domains))
    transforms = []
    for name in criteria or domains:
        for text, function in maps.items():
            transforms.append(Transform(name, _map_domain(function, domains[name]), text))
    return transforms


def _map_domain(function: Map, domain: Domain) -> Map:
    """Return a map of [0, 1] as a map of the domain."""
    low = domain.low
    width = domain.high - domain.low
    return lambda scores: low + width * np.asarray(function((scores - low) / width))


def _compute_weighted_mean(weights: Sequence[int], values: Sequence[float]) -> float:
    """Return the weighted mean of the values that are not NaN; a criterion that tells no rollouts apart has NaN."""
    is_defined = ~np.isnan(values)
    used_weights = np.where(is_defined, weights, 0)
    if not used_weights.any():
        return math.nan
    return float(np.average(np.nan_to_num(values), weights=used_weights))


# -------------------------------------------------------------------------------------------------------------- filters
#
# The paper keeps groups of exactly eight different responses, and in each group the criteria whose scores are all
# finite and from 0 to 1. It leaves out gates, and fields that an aggregation made.

DERIVED = word_list(
    "RepeatSegmentVerifier focal_score gdpo_prenorm gdpo_reward original_reward sc_fused_score"
)
"""Criteria that the paper excludes by name: a gate's verifier, and fields that aggregations made."""


@dataclass(frozen=True)
class Filters:
    """Which groups and criteria are kept; by default all."""

    group_size: int | None = None
    """Only groups with exactly this many rollouts."""
    unique: bool = False
    """Only groups whose responses are all different."""
    unit_scores: bool = False
    """In each group, only criteria whose scores are all present, finite, and from 0 to 1."""
    gates: bool = True
    """Whether criteria of gates are kept."""
    exclude: tuple[str, ...] = ()
    """Criteria that are left out."""

    def __post_init__(self) -> None:
        if self.group_size is not None and self.group_size < 2:
            got = str(self.group_size)
            raise InvalidInput("robustness", "group_size", "2 or more", got, "The paper's is 8.")

    @property
    def any(self) -> bool:
        """Whether the filters leave anything out."""
        return self != Filters()


PAPER = Filters(group_size=8, unique=True, unit_scores=True, gates=False, exclude=DERIVED)


@dataclass(frozen=True, eq=False)
class FilteredTable:
    """The table after filtering, and what was left out."""

    table: ScoreTable
    left_out: tuple[tuple[str, int], ...]
    """(reason, count); a criterion is counted once for every group that has it."""
    rows: np.ndarray
    """Indices of the rollouts that are left, in the table before."""


def apply_filters(
    table: ScoreTable, filters: Filters, texts: Sequence[tuple[str, str]] | None = None
) -> FilteredTable:
    """Return the table without what the filters leave out, and how often each filter left something out.

    texts: (reasoning, answer) of every rollout, in the order of the table; needed if responses must be unique.
    Raises InvalidInput if they are needed and not given.
    """
    if filters.unique and texts is None:
        allowed = "given if responses must be unique"
        remedy = (
            "Name the graded rollouts: `rollouts=FILE`; or read records that hold the responses."
        )
        raise InvalidInput("robustness", "texts of the rollouts", allowed, "none", remedy)
    left_out: Counter[str] = Counter()
    groups: list[GroupScores] = []
    rows: list[int] = []
    end = 0
    for group in table.groups:
        start = end
        end += len(group.scores)
        if filters.group_size is not None and len(group.scores) != filters.group_size:
            left_out[f"group of other than {filters.group_size} rollouts"] += 1
            continue
        if filters.unique and texts is not None and len(set(texts[start:end])) < len(group.scores):
            left_out["group with the same response twice"] += 1
            continue
        names = []
        for k, name in enumerate(group.names):
            reason = _find_reason_to_drop(group, k, filters)
            if reason is None:
                names.append(name)
            else:
                left_out[f"{reason}: {name}"] += 1
        if names:
            groups += ScoreTable((group,)).select_criteria(names).groups
            rows += range(start, end)
        else:
            left_out["group without any criterion left"] += 1
    filtered = ScoreTable(tuple(groups), table.judging)
    return FilteredTable(filtered, tuple(left_out.items()), np.array(rows, dtype=int))


def _find_reason_to_drop(group: GroupScores, k: int, filters: Filters) -> str | None:
    """Return why criterion k is left out; None: it is kept."""
    criterion = group.criteria[k]
    scores = group.scores[:, k]
    if criterion.name in filters.exclude:
        return "excluded by name"
    if not filters.gates and criterion.layer != "quality":
        return "gate criterion"
    if filters.unit_scores:
        is_complete = bool(np.isfinite(scores).all())
        if not is_complete or scores.min() < 0.0 or scores.max() > 1.0:
            return "a score missing, or outside 0 to 1"
    return None
