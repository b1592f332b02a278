"""Choose which logged groups and criteria a study uses, with the filters of the paper's robustness experiment.

    filtered = apply_filters(table, PAPER, texts=logged.texts)
    filtered.table                               what is left
    filtered.left_out                            ("group of other than 8 rollouts", 12), ("gate criterion", 3), …

The paper keeps groups of exactly eight different responses, and in each group the criteria whose scores are all finite
and from 0 to 1. It leaves out gates, and fields that an aggregation made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rubrank._plain import word_list
from rubrank.errors import InvalidInput
from rubrank.scores.table import GroupScores, ScoreTable

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
            raise InvalidInput(
                "robustness",
                "group_size",
                allowed="2 or more",
                got=str(self.group_size),
                remedy="The paper's is 8.",
            )

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
        raise InvalidInput(
            "robustness",
            "texts of the rollouts",
            allowed="given if responses must be unique",
            got="none",
            remedy=(
                "Name the graded rollouts: `rollouts=FILE`; or read records that hold the responses."
            ),
        )
    left_out: Counter[str] = Counter()
    groups = []
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
        columns = []
        for k, criterion in enumerate(group.criteria):
            reason = _find_reason_to_drop(group, k, filters)
            if reason is None:
                columns.append(k)
            else:
                left_out[f"{reason}: {criterion.name}"] += 1
        if columns:
            groups.append(_select_criteria(group, columns))
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


def _select_criteria(group: GroupScores, columns: Sequence[int]) -> GroupScores:
    """Return the group with some of its criteria; columns: their numbers."""
    if len(columns) == len(group.criteria):
        return group
    criteria = tuple(group.criteria[k] for k in columns)
    reasons = tuple(tuple(row[k] for k in columns) for row in group.reasons)
    outcomes = {}
    probabilities = {}
    for criterion in criteria:
        if criterion.name in group.outcomes:
            outcomes[criterion.name] = group.outcomes[criterion.name]
        if criterion.name in group.probabilities:
            probabilities[criterion.name] = group.probabilities[criterion.name]
    return replace(
        group,
        criteria=criteria,
        scores=group.scores[:, list(columns)],
        reasons=reasons,
        outcomes=outcomes,
        probabilities=probabilities,
    )
