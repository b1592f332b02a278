"""Criteria about a whole group, once its rollouts are together: they were graded one by one as they came.

    table = with_groups(table, groups, criteria)      GroupDiversity was missing for each alone, and is decided now

Where a trainer hands over whole groups, `grade` decides them at once, and nothing changes here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rubrank.grading.plan import not_allowed
from rubrank.rollouts.rollout import Group
from rubrank.rubrics.rubric import Criterion
from rubrank.scores.table import GroupScores, ScoreTable


def with_groups(table: ScoreTable, groups: Sequence[Group], criteria: Sequence[Sequence[Criterion]]) -> ScoreTable:
    """The same table with the columns of criteria that see the group; `criteria` are those of every group."""
    made = [_filled(*each) for each in zip(table.groups, groups, criteria, strict=True)]
    return (
        table
        if all(new is old for new, old in zip(made, table.groups, strict=True))
        else replace(table, groups=tuple(made))
    )


def _filled(scored: GroupScores, group: Group, criteria: Sequence[Criterion]) -> GroupScores:
    together = [(k, c) for k, c in enumerate(criteria) if not c.judged and c.decided_by.sees_group]
    if not together:
        return scored
    scores, reasons = scored.scores.copy(), [list(row) for row in scored.reasons]
    for k, criterion in together:
        verifier = criterion.decided_by
        decide = verifier.bind_group(verifier.check_parameters(dict(criterion.params)))
        for i, (value, reason) in enumerate(decide(group)):
            if value is not None and not criterion.value_domain.holds(value):
                reason = not_allowed(verifier, value)
                value = None
            scores[i, k] = float("nan") if value is None else value
            reasons[i][k] = reason
    return replace(scored, scores=scores, reasons=tuple(map(tuple, reasons)))
