"""Which logged groups and criteria a study keeps: the filters of the paper's robustness experiment.

    kept = apply_filters(table, PAPER, texts=logged.texts)
    kept.table                                   what is left
    kept.left_out                                ("group of other than 8 rollouts", 12), ("gate criterion", 3), …

The paper keeps groups of exactly eight different responses, and in each group the criteria whose scores are all finite
and from 0 to 1; gates and fields that an aggregation made are no criteria.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rubrank._plain import word_list
from rubrank.errors import InvalidInput
from rubrank.scores.table import GroupScores, ScoreTable

DERIVED = word_list("RepeatSegmentVerifier focal_score gdpo_prenorm gdpo_reward original_reward sc_fused_score")
"""What the paper excludes by name: a gate's verifier, and fields that aggregations made."""


@dataclass(frozen=True)
class Filters:
    """What is kept."""

    group_size: int | None = None
    """Groups of exactly so many rollouts."""
    unique: bool = False
    """Groups whose responses are all different."""
    unit_scores: bool = False
    """In each group, criteria whose scores are all there, finite, and from 0 to 1."""
    gates: bool = True
    """Criteria of gates, too."""
    exclude: tuple[str, ...] = ()
    """Not these criteria."""

    def __post_init__(self) -> None:
        if self.group_size is not None and self.group_size < 2:
            raise InvalidInput("robustness", "group_size", "2 or more", str(self.group_size), "The paper's is 8.")

    @property
    def any(self) -> bool:
        """Is anything left out?"""
        return self != Filters()


PAPER = Filters(group_size=8, unique=True, unit_scores=True, gates=False, exclude=DERIVED)


@dataclass(frozen=True, eq=False)
class Filtered:
    """What is left, and what is not."""

    table: ScoreTable
    left_out: tuple[tuple[str, int], ...]
    """What, and how often; criteria are counted once for every group that asked for them."""
    rows: np.ndarray
    """Numbers of the rollouts that are left, as in the table before."""


def apply_filters(table: ScoreTable, filters: Filters, texts: Sequence[tuple[str, str]] | None = None) -> Filtered:
    """The table without what the filters leave out; texts: (reasoning, answer) of every rollout, as in the table."""
    if filters.unique and texts is None:
        allowed = "given where unique responses are wanted"
        remedy = "Name the graded rollouts: `rollouts=FILE`; or read records that hold the responses."
        raise InvalidInput("robustness", "texts of the rollouts", allowed, "none", remedy)
    out: Counter[str] = Counter()
    rows: list[int] = []
    groups, at = [], 0
    for group in table.groups:
        size = len(group.scores)
        group_texts = None if texts is None else texts[at : at + size]
        at += size
        why = _why_not_group(size, group_texts, filters)
        if why is not None:
            out[why] += 1
            continue
        left = _filter_criteria(group, filters, out)
        if left.criteria:
            groups.append(left)
            rows += range(at - size, at)
        else:
            out["group without a criterion that is left"] += 1
    return Filtered(ScoreTable(tuple(groups), table.judging), tuple(out.items()), np.array(rows, dtype=int))


def _why_not_group(size: int, texts: Sequence[tuple[str, str]] | None, filters: Filters) -> str | None:
    if filters.group_size is not None and size != filters.group_size:
        return f"group of other than {filters.group_size} rollouts"
    if filters.unique and len(set(texts or ())) < size:
        return "group with the same response twice"
    return None


def _filter_criteria(group: GroupScores, filters: Filters, out: Counter[str]) -> GroupScores:
    """The group with the criteria that stay."""
    stay = []
    for k, criterion in enumerate(group.criteria):
        why = _why_not_criterion(group, k, filters)
        if why is None:
            stay.append(k)
        else:
            out[f"{why}: {criterion.name}"] += 1
    if len(stay) == len(group.criteria):
        return group
    criteria = tuple(group.criteria[k] for k in stay)
    reasons = tuple(tuple(row[k] for k in stay) for row in group.reasons)
    names = {criterion.name for criterion in criteria}
    return replace(
        group,
        criteria=criteria,
        scores=group.scores[:, stay],
        reasons=reasons,
        outcomes={name: won for name, won in group.outcomes.items() if name in names},
        probabilities={name: cell for name, cell in group.probabilities.items() if name in names},
    )


def _why_not_criterion(group: GroupScores, k: int, filters: Filters) -> str | None:
    criterion, scores = group.criteria[k], group.scores[:, k]
    if criterion.name in filters.exclude:
        return "excluded by name"
    if not filters.gates and criterion.layer != "quality":
        return "gate criterion"
    if filters.unit_scores and not (np.isfinite(scores).all() and scores.min() >= 0.0 and scores.max() <= 1.0):
        return "a score missing, or outside 0 to 1"
    return None
