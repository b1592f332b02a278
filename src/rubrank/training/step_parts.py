"""Fuse a step in parts if every query brings its own criteria.

A thousand queries with ten criteria each make a matrix of ten thousand columns, and each rollout has scores in only ten
of them. So the step is fused in parts of consecutive groups: the cost then grows with the number of scores, not with
the size of the matrix. Whether that is possible depends on the rule:

    a rule that treats each group by itself ("local"), and     is applied to each part
    has no option that names a criterion
    a rule that is local except for the influence of           gets that estimate first, from the criteria that several
    attributes, which it estimates over all groups             groups share; then it is applied to each part
    other rules                                                are applied to the whole step
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rubrank._choices import Penalties
from rubrank.fusion.options import (
    can_fuse_in_parts,
    find_parts,
    has_rlvr2,
    is_local,
    with_options,
)
from rubrank.fusion.result import Fused
from rubrank.fusion.rule import Rescoring, Rule, apply_rule
from rubrank.judges.client.usage import Account
from rubrank.judges.judgments import Judgments
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.training.controls import ActiveControls

MOST_COLUMNS = 256
"""A step with more criteria is fused in parts, if the rule allows it."""
_OWNER = "RewardEngine"  # named by errors


@dataclass(frozen=True, eq=False)
class FusedPart:
    """Consecutive groups of a step, fused together."""

    table: ScoreTable
    groups: slice
    """Which groups of the step these are."""
    result: Fused

    def find_unknown(self) -> np.ndarray:
        """Return (M,) True for rollouts whose reward is unknown.

        Their group has quality criteria, none of these has a score for them, and no gate stopped them.
        """
        batch = self.result.batch
        has_quality_N = np.array([_has_quality(group) for group in self.table.groups], dtype=bool)
        unknown_M = batch.missing_MK.all(axis=1) & has_quality_N[batch.group_of_row]
        if self.result.gated is not None:
            unknown_M &= self.result.gated.passed
        return np.asarray(unknown_M)


def fuse_in_parts(
    rule: Rule, table: ScoreTable, active: ActiveControls, penalties: Penalties
) -> list[FusedPart]:
    """Fuse the groups of a step, in one part unless it has many criteria and the rule can fuse groups separately.

    active: the attributes that are controlled in this step, with their values for all its rollouts.
    """
    if active.values_MD is not None:
        rule = with_options(rule, "attributes", adjust=active.adjust)
    slices = [slice(0, len(table.groups))]
    if len(table.criteria) > MOST_COLUMNS:
        if active.values_MD is not None:
            rule = _set_estimate(rule, table, active)
        if can_fuse_in_parts(rule):
            slices = split_step(table.groups)
    parts = []
    start_row = 0
    for part_slice in slices:
        part_table = table if len(slices) == 1 else _select_groups(table, part_slice)
        end_row = start_row + sum(len(group.scores) for group in part_table.groups)
        values = None if active.values_MD is None else active.values_MD[start_row:end_row]
        batch = part_table.batch(
            attributes=values, attribute_names=active.columns, penalties=penalties
        )
        parts.append(FusedPart(part_table, part_slice, apply_rule(rule, batch)))
        start_row = end_row
    return parts


def split_step(groups: Sequence[GroupScores]) -> list[slice]:
    """Split a step into parts with at most `MOST_COLUMNS` criteria.

    Each part has at least one quality criterion, because gates alone cannot be fused. A part may therefore have more
    criteria: a new part begins only after a group with quality, and only if such a group is still to come.
    """
    has_quality = [_has_quality(group) for group in groups]
    last_with_quality = max(np.flatnonzero(has_quality), default=-1)
    parts = []
    start = 0
    names: set[str] = set()
    part_has_quality = False
    for g, group in enumerate(groups):
        is_too_wide = len(names.union(group.names)) > MOST_COLUMNS
        if is_too_wide and part_has_quality and g <= last_with_quality:
            parts.append(slice(start, g))
            start = g
            names = set()
            part_has_quality = False
        names.update(group.names)
        part_has_quality = part_has_quality or has_quality[g]
    parts.append(slice(start, len(groups)))
    return parts


def _has_quality(group: GroupScores) -> bool:
    """Whether the group has a criterion that is fused, not only gates."""
    return any(criterion.layer == "quality" for criterion in group.criteria)


def _set_estimate(rule: Rule, table: ScoreTable, active: ActiveControls) -> Rule:
    """Estimate the influence of attributes in a wide step and set it in the rule, so that groups can be fused in parts.

    The influence can only be estimated on criteria that several groups share, so the matrix is narrow. If there are no
    such criteria, attributes are not controlled. The rule is returned unchanged if it must see the whole step anyway.
    """
    # RLVR² on rescored criteria (rlvr2*gear): prerequisites of a shared criterion may be criteria of one query.
    needs_all_criteria = isinstance(find_parts(rule).weighing, Rescoring) and has_rlvr2(rule)
    uncontrolled_rule = with_options(rule, _OWNER, adjust=None)
    if needs_all_criteria or is_local(rule) or not can_fuse_in_parts(uncontrolled_rule):
        return rule
    group_counts = Counter(
        criterion.name
        for group in table.groups
        for criterion in group.criteria
        if criterion.layer == "quality"
    )
    shared_names = [name for name, count in group_counts.items() if count > 1]
    if not shared_names:
        return uncontrolled_rule
    shared_batch = table.select_criteria(shared_names).batch(
        attributes=active.values_MD, attribute_names=active.columns
    )
    return with_options(
        rule, _OWNER, batch_estimate=find_parts(rule).controlling.estimate(shared_batch)
    )


def _select_groups(table: ScoreTable, groups: slice) -> ScoreTable:
    """Return the table of some groups, with their judgments."""
    judging = table.judging
    if judging is not None:
        # The costs of the whole step are counted once, in the first part.
        account = judging.account if groups.start == 0 else Account()
        judging = Judgments(judging.groups[groups], account, judging.ids[groups])
    return replace(table, groups=table.groups[groups], judging=judging)
