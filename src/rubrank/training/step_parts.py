"""Fuse a step whose queries have many criteria of their own, in parts.

A thousand queries with ten criteria of their own make a matrix of ten thousand columns in which a rollout fills ten. If
the rule treats each group by itself, the groups are fused in parts, so that the cost grows with the number of scores.
The influence of attributes, which a rule may estimate over all groups, is then estimated first, on the criteria that
several groups share. Other rules need all groups at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rubrank._choices import Penalties
from rubrank.fusion.options import find_ordinal, find_weighing, has_rlvr2, is_local, with_options
from rubrank.fusion.result import Fused
from rubrank.fusion.rule import Rescoring, Rule, apply_rule
from rubrank.judges.client.usage import Account
from rubrank.judges.judgments import Judgments
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.training.controls import ActiveControls

MOST_COLUMNS = 256
"""A step with more criteria is fused in parts, if the rule allows it."""
_OWNER = "RewardEngine"


@dataclass(frozen=True, eq=False)
class FusedPart:
    """Consecutive groups of a step, fused together."""

    table: ScoreTable
    groups: slice
    """Where they are among the groups of the step."""
    result: Fused

    def find_unknown(self) -> np.ndarray:
        """(M,) rollouts about which nothing is known: no quality criterion has a score, and no gate stopped them."""
        batch = self.result.batch
        has_quality_N = np.array([_has_quality(group) for group in self.table.groups], dtype=bool)
        unknown_M = batch.missing_MK.all(axis=1) & has_quality_N[batch.group_of_row]
        if self.result.gated is not None:
            unknown_M &= self.result.gated.passed
        return np.asarray(unknown_M)


def fuse_in_parts(
    rule: Rule, table: ScoreTable, active: ActiveControls, penalties: Penalties
) -> list[FusedPart]:
    """Fuse the groups of a step, in one part unless it has many criteria and the rule can fuse groups separately."""
    if active.values_MD is not None:
        rule = _estimate_first(
            with_options(rule, "attributes", adjust=active.adjust), table, active
        )
    parts = []
    start_row = 0
    slices = split_step(table.groups, rule)
    for groups in slices:
        part_table = table if len(slices) == 1 else _select_groups(table, groups)
        end_row = start_row + sum(len(group.scores) for group in part_table.groups)
        values = None if active.values_MD is None else active.values_MD[start_row:end_row]
        batch = part_table.batch(
            attributes=values, attribute_names=active.columns, penalties=penalties
        )
        parts.append(FusedPart(part_table, groups, apply_rule(rule, batch)))
        start_row = end_row
    return parts


def split_step(groups: Sequence[GroupScores], rule: Rule) -> list[slice]:
    """Consecutive groups with at most `MOST_COLUMNS` different criteria; all groups if the rule must see them at once.

    Each part has something to rank by, because gates alone cannot be fused.
    """
    if not is_local(rule) or not _is_wide(groups):
        return [slice(0, len(groups))]
    has_quality = [_has_quality(group) for group in groups]
    last_with_quality = max((g for g, is_ranked in enumerate(has_quality) if is_ranked), default=-1)
    parts = []
    start = 0
    names: set[str] = set()
    is_ranked = False
    for g, group in enumerate(groups):
        if is_ranked and g <= last_with_quality and len(names.union(group.names)) > MOST_COLUMNS:
            parts.append(slice(start, g))
            start = g
            names = set()
            is_ranked = False
        names.update(group.names)
        is_ranked = is_ranked or has_quality[g]
    parts.append(slice(start, len(groups)))
    return parts


def _estimate_first(rule: Rule, table: ScoreTable, active: ActiveControls) -> Rule:
    """The rule with the influence of attributes in a wide step, so that the step can be fused in parts.

    Only criteria that several groups have tell anything about it, so a narrow matrix is enough. The rule itself is
    returned for a step that is not wide, and if the rule must see the whole step anyway.
    """
    needs_all_criteria = isinstance(find_weighing(rule), Rescoring) and has_rlvr2(rule)
    if not _is_wide(table.groups) or needs_all_criteria or is_local(rule):
        return rule
    uncontrolled_rule = with_options(rule, _OWNER, adjust=None)
    if not is_local(uncontrolled_rule):
        return rule
    counts = Counter(
        c.name for group in table.groups for c in group.criteria if c.layer == "quality"
    )
    shared = [name for name, count in counts.items() if count > 1]
    if not shared:
        return uncontrolled_rule
    batch = table.only(shared).batch(attributes=active.values_MD, attribute_names=active.columns)
    return with_options(rule, _OWNER, batch_estimate=find_ordinal(rule).estimate(batch))


def _is_wide(groups: Sequence[GroupScores]) -> bool:
    """Whether the groups have so many different criteria that they are fused in parts."""
    return len({name for group in groups for name in group.names}) > MOST_COLUMNS


def _has_quality(group: GroupScores) -> bool:
    return any(criterion.layer == "quality" for criterion in group.criteria)


def _select_groups(table: ScoreTable, groups: slice) -> ScoreTable:
    judging = table.judging
    if judging is not None:
        # The costs are those of the whole step: the first part has them.
        account = judging.account if groups.start == 0 else Account()
        judging = Judgments(judging.groups[groups], account, judging.ids[groups])
    return replace(table, groups=table.groups[groups], judging=judging)
