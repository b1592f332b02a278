"""A step in parts: where queries bring criteria of their own, one matrix for all of them would be nearly empty.

    parts = parts_of(table, rule)           one, unless there are many criteria and the rule sees each group by itself
    parts[0].table, parts[0].rows           consecutive groups of the table, and their rows

A thousand queries with ten criteria each make ten thousand columns, of which a rollout fills ten. Under a rule that
looks at each group by itself the groups are therefore fused in parts, and cost grows with what was asked. Other rules
need all groups at once, and get them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rubrank.fusion.options import is_local
from rubrank.fusion.result import Fused
from rubrank.fusion.rule import Rule
from rubrank.judges.client.usage import Account
from rubrank.judges.judgments import Judgments
from rubrank.scores.criterion import CriterionData
from rubrank.scores.table import GroupScores, ScoreTable

MOST_COLUMNS = 256
"""Different criteria in a part, if a single group does not have more."""


@dataclass(frozen=True, eq=False)
class StepPart:
    """Consecutive groups of a step."""

    table: ScoreTable
    groups: slice
    rows: slice


@dataclass(frozen=True, eq=False)
class FusedPart:
    """A part, and what the rule says about it."""

    part: StepPart
    result: Fused


def parts_of(table: ScoreTable, rule: Rule) -> list[StepPart]:
    """Cut where a part would get too many columns; a single part for a rule that must see all groups."""
    if len(table.criteria) <= MOST_COLUMNS or not is_local(rule):
        return [StepPart(table, slice(0, len(table.groups)), slice(0, len(table)))]
    found: list[StepPart] = []
    row = 0
    for first, end in _cuts(table.groups):
        cut, begun = slice(first, end), row
        row += sum(len(group.scores) for group in table.groups[cut])
        found.append(StepPart(_part(table, cut), cut, slice(begun, row)))
    return found


def _cuts(groups: Sequence[GroupScores]) -> Iterator[tuple[int, int]]:
    """First and end of every part. Each has something to rank by: gates alone cannot be fused."""
    last = max((g for g, group in enumerate(groups) if any(map(_is_ranked, group.criteria))), default=-1)
    first, names, ranks = 0, set[str](), False
    for g, group in enumerate(groups):
        more = {criterion.name for criterion in group.criteria}
        if ranks and g <= last and len(names | more) > MOST_COLUMNS:
            yield first, g
            first, names, ranks = g, set(), False
        names |= more
        ranks = ranks or any(map(_is_ranked, group.criteria))
    yield first, len(groups)


def _is_ranked(criterion: CriterionData) -> bool:
    return criterion.layer == "quality"


def _part(table: ScoreTable, cut: slice) -> ScoreTable:
    judging = table.judging
    if judging is not None:  # usage is of the whole step: the first part tells it
        account = Account() if cut.start else judging.account
        judging = Judgments(judging.groups[cut], account, judging.ids[cut])
    return replace(table, groups=table.groups[cut], judging=judging)
