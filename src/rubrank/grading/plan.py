"""What is asked of each group, made ready: its rubric, and a check for every criterion that a verifier decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.grading.cache import check_digest
from rubrank.grading.options import GradeOptions
from rubrank.rollouts.reading import read_groups
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.rubrics.public import to_rubric
from rubrank.rubrics.rubric import Criterion, Rubric
from rubrank.scores.criterion import CriterionData
from rubrank.verifiers.verifier import Domain, Found, Verifier


@dataclass(frozen=True, eq=False)
class PlannedCheck:
    """One criterion that a verifier decides, made ready."""

    column: int
    verifier: Verifier
    given: dict[str, Any]
    domain: Domain
    digest: bytes
    decide: Callable[[Rollout], Found]
    decide_group: Callable[[Group], list[Found]] | None = None
    """Of a verifier that sees all rollouts together."""

    @cached_property
    def is_local(self) -> bool:
        """Can only this process run it, because no other can import it?"""
        return not self.verifier.home

    @cached_property
    def is_ours(self) -> bool:
        """Is it of the library, whose verifiers come to an end?"""
        return self.verifier.home.startswith("rubrank.")

    @cached_property
    def is_slow(self) -> bool:
        """Does it wait for a subprocess of its own?"""
        return self.verifier.cost == "process"


@dataclass(frozen=True, eq=False)
class GroupPlan:
    """What is asked of a group."""

    asked: tuple[Criterion, ...]
    criteria: tuple[CriterionData, ...]
    checks: tuple[PlannedCheck, ...]
    group_checks: tuple[PlannedCheck, ...] = ()
    """Those that see all rollouts together."""

    def is_whole(self, checks: tuple[PlannedCheck, ...]) -> bool:
        """Do these checks decide everything that is asked, and may every verdict be entered as it is?"""
        return len(checks) == len(self.criteria) and all(check.domain is check.verifier.domain for check in checks)


def planned(
    rollouts: Any, rubric: Any, columns: dict[str, str] | None, options: GradeOptions
) -> tuple[list[Group], list[GroupPlan]]:
    """What is graded, and how; refused where most of it would be missing for want of a judge."""
    groups = read_groups(rollouts, columns)
    plans = plans_of(groups, rubric, options)
    if options.needs_judges:
        _refuse_unjudged(plans)
    return groups, plans


def _refuse_unjudged(plans: Sequence[GroupPlan]) -> None:
    """Before anything is graded: what only a judge can decide needs one."""
    names = sorted({criterion.name for plan in plans for criterion in plan.asked if criterion.judged})
    if names:
        shown = ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        remedy = "Say who: --judges FILE (judges=…); or let them be missing: --most-missing 1."
        raise InvalidInput("grade", "judges", f"given: only a judge can decide {shown}", "none", remedy)


def plans_of(groups: Sequence[Group], rubric: Any, options: GradeOptions) -> list[GroupPlan]:
    """One for each group; groups with the same rubric share it."""
    made: dict[int, GroupPlan] = {}
    rubrics = rubrics_of(groups, rubric)
    for one in rubrics:
        if id(one) not in made:
            made[id(one)] = plan_of(one, options)
    return [made[id(one)] for one in rubrics]


def shared_rubric(rubric: Any) -> Rubric | None:
    """What every query is asked, from any form in which it may be given."""
    return None if rubric is None else to_rubric(str(rubric) if isinstance(rubric, Path) else rubric)


def rubrics_of(groups: Sequence[Group], rubric: Any) -> list[Rubric]:
    """What each group is asked; where that is the same, it is one object."""
    shared = shared_rubric(rubric)
    made: dict[str, Rubric] = {}
    found = []
    for group in groups:
        if (own := repr(group.rubric)) not in made:
            made[own] = rubric_of(group, shared)
        found.append(made[own])
    return found


def rubric_of(group: Group, shared: Rubric | None) -> Rubric:
    """What a group is asked: its own rubric, on top of the shared one."""
    if group.rubric is None:
        if shared is None:
            got, remedy = f"none for group {group.id!r}", "Say --rubric FILE (rubric=…), or add a column `rubric`."
            raise InvalidInput("grade", "rubric", "given, or in every query", got, remedy)
        return shared
    own = to_rubric(group.rubric, f"group {group.id!r}")
    return own if shared is None else shared.extended(own)


def plan_of(rubric: Rubric, options: GradeOptions) -> GroupPlan:
    """Its checks, those about one rollout apart from those about a whole group."""
    checks = [_check(k, c, options) for k, c in enumerate(rubric.criteria) if not c.judged]
    alone = tuple(check for check in checks if check.decide_group is None)
    together = tuple(check for check in checks if check.decide_group is not None)
    return GroupPlan(rubric.criteria, tuple(CriterionData.of(c) for c in rubric.criteria), alone, together)


def _check(column: int, criterion: Criterion, options: GradeOptions) -> PlannedCheck:
    verifier = criterion.decided_by
    params = verifier.check_parameters(dict(criterion.params))
    criterion.check_installed()  # nothing is graded yet: better now than missing throughout
    digest = check_digest(verifier, params, options.compat, options.mode)
    decide = verifier.bind(params, options.compat, options.mode)
    together = verifier.bind_group(params) if verifier.sees_group else None
    return PlannedCheck(column, verifier, dict(criterion.params), criterion.value_domain, digest, decide, together)


def not_allowed(verifier: Verifier, value: float) -> str:
    """Why a value is missing that the verifier may give, and the criterion not."""
    return f"{verifier.name} gave {value:g}, which the criterion does not allow"
