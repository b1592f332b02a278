"""Plan what `grade` will do: check its options, read the rubrics, and bind every criterion to its verifier.

    groups, plans = plan_groups("rollouts.jsonl", "rubric.yaml", None, GradeOptions())
    plans[0].criteria          the columns of the score table
    plans[0].checks            one for each criterion that a verifier decides, with its parameters validated

All mistakes in a rubric or an option are raised here, before anything is graded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field

from rubrank._plain import Strict, validate_model
from rubrank.errors import InvalidInput
from rubrank.grading.cache import digest_check
from rubrank.judges.judge import Judges, load_judges
from rubrank.rollouts.groups import read_groups
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.rubrics.public import to_rubric
from rubrank.rubrics.rubric import Rubric
from rubrank.scores.criterion import CriterionData
from rubrank.verifiers.verifier import Compat, Domain, Mode, PlainVerdict, Verifier

Timeout: TypeAlias = float | Literal["auto"] | None
_log = logging.getLogger("rubrank")
_MOST_LISTED_NAMES = 5  # criteria named in an error


class GradeOptions(Strict):
    """The options of `grade`, which explains each of them."""

    compat: Compat = "fixed"
    mode: Mode = "strict"
    workers: Annotated[int, Field(ge=0)] | None = None
    cache: str | Path | None = None
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] | Literal["auto"] | None = "auto"
    judges: Judges | None = None
    most_missing: Annotated[float, Field(ge=0, le=1)] | None = None
    judged_later: bool = False
    """The caller calls the judges afterwards, so a rubric that needs judges is accepted without them."""

    @classmethod
    def read(cls, **options: Any) -> Self:
        """Check the options of a user. Raises InvalidInput."""
        judges = options["judges"]
        options["judges"] = None if judges is None else load_judges(judges)
        checked = validate_model(cls, options, "grade", "grading")
        if checked.workers == 0 and checked.timeout not in (None, "auto"):
            raise InvalidInput(
                "grade",
                "timeout",
                allowed="left out with 0 workers, as a function that hangs in this process cannot be stopped",
                got=str(checked.timeout),
                remedy="Use 1 worker, or leave the timeout out.",
            )
        return checked


@dataclass(frozen=True, eq=False)
class PlannedCheck:
    """One criterion that a verifier decides, with its parameters."""

    column: int
    """Column in the score table of its group."""
    verifier: Verifier
    params: dict[str, Any]
    """The parameters as written in the rubric."""
    domain: Domain
    """The values that the criterion allows, which may be fewer than the verifier can give."""
    digest: bytes
    """Identifies verifier, version and parameters in the cache (`digest_check`); empty without a cache."""
    decide: Callable[[Rollout], PlainVerdict]
    decide_group: Callable[[Group], list[PlainVerdict]] | None = None
    """Only for a verifier that sees all rollouts of a group together."""

    @cached_property
    def is_local(self) -> bool:
        """Must it run in this process, because other processes cannot import it?"""
        return not self.verifier.home

    @cached_property
    def is_builtin(self) -> bool:
        """Is it a verifier of the library? Those always terminate, so they need no time limit."""
        return self.verifier.home.startswith("rubrank.")

    def check_verdict(self, verdict: PlainVerdict) -> PlainVerdict:
        """Return the verdict, or a missing one with a reason if the criterion does not allow the value."""
        value, reason = verdict
        if value is None or self.domain is self.verifier.domain or self.domain.holds(value):
            return value, reason
        return None, f"{self.verifier.name} gave {value:g}, which the criterion does not allow"


@dataclass(frozen=True, eq=False)
class GroupPlan:
    """The criteria of a group, and the checks of those that verifiers decide."""

    rubric: Rubric
    """Its criteria say how they are decided: by which verifier, or by a judge."""
    criteria: tuple[CriterionData, ...]
    """The same criteria, in the same order, as a score table keeps them: names, weights, scales."""
    checks: tuple[PlannedCheck, ...]
    """Checks that see one rollout."""
    group_checks: tuple[PlannedCheck, ...] = ()
    """Checks that see all rollouts of the group together."""


@dataclass(eq=False, slots=True)
class Task:
    """One rollout with the checks that are still to be run on it."""

    group: int
    """Index of its group."""
    row: int
    """Index of the rollout within its group."""
    rollout: Rollout
    checks: tuple[PlannedCheck, ...]
    keys: Mapping[int, bytes] | None = None
    """Column → key in the cache; None: there is no cache."""


def plan_groups(
    rollouts: Any, rubric: Any, columns: dict[str, str] | None, options: GradeOptions
) -> tuple[list[Group], list[GroupPlan]]:
    """Read the rollouts and plan every group; groups with the same rubric share their plan.

    Returns the groups, and the plan of each. Raises InvalidInput for mistakes in rollouts or rubrics, and if judges are
    needed but not given (`_check_without_judges`).
    """
    groups = read_groups(rollouts, columns)
    plans: dict[int, GroupPlan] = {}
    rubrics = find_rubrics(groups, rubric)
    for group_rubric in rubrics:
        if id(group_rubric) not in plans:
            plans[id(group_rubric)] = plan_rubric(group_rubric, options)
    if options.judges is None and not options.judged_later:
        _check_without_judges(list(plans.values()), options.most_missing)
    return groups, [plans[id(group_rubric)] for group_rubric in rubrics]


def _check_without_judges(plans: Sequence[GroupPlan], most_missing: float | None) -> None:
    """Decide whether to grade without judges, so that the scores of criteria that need a judge are missing.

    most_missing 1: the user accepts this. Less than 1: raises InvalidInput if any criterion needs a judge. None: raises
    if all ranked criteria of a rubric need one, because all rewards of its groups would be equal; otherwise warns.
    """
    if most_missing == 1.0:
        return
    refused = plans
    if most_missing is None:
        refused = []
        for plan in plans:
            ranked = [c for c in plan.rubric.criteria if c.value_layer == "quality"]
            if ranked and all(criterion.judged for criterion in ranked):
                refused.append(plan)
    refused_names = _list_judged(refused)
    if refused_names:
        raise InvalidInput(
            "grade",
            "judges",
            allowed=f"given: only a judge can decide {refused_names}",
            got="none",
            remedy="Name a file of judges: `judges=FILE`; or accept missing scores: `most_missing=1`.",
        )
    judged_names = _list_judged(plans)
    if judged_names:
        _log.warning(
            "grade: no judges are given, and only a judge can decide %s: these scores are missing. "
            "Pass judges=…, or most_missing=1 if that is intended.",
            judged_names,
        )


def _list_judged(plans: Iterable[GroupPlan]) -> str:
    """Return the names of the criteria that need a judge as a phrase, such as "'Clear', 'Polite' and 3 more", or ""."""
    judged_names: set[str] = set()
    for plan in plans:
        judged_names.update(
            criterion.name for criterion in plan.rubric.criteria if criterion.judged
        )
    names = sorted(judged_names)
    listed = ", ".join(map(repr, names[:_MOST_LISTED_NAMES]))
    if len(names) > _MOST_LISTED_NAMES:
        listed += f" and {len(names) - _MOST_LISTED_NAMES} more"
    return listed


def read_rubric(rubric: Any) -> Rubric | None:
    """Read the rubric for all groups from a file, a preset, data or a Rubric; None stays None."""
    if rubric is None:
        return None
    return to_rubric(str(rubric) if isinstance(rubric, Path) else rubric)


def find_rubrics(groups: Sequence[Group], rubric: Any) -> list[Rubric]:
    """Return the rubric of each group: the shared one, extended by the group's own.

    Groups with equal rubrics get the same object. Raises InvalidInput if a group has neither.
    """
    shared = read_rubric(rubric)
    rubric_of_text: dict[str, Rubric] = {}
    rubrics = []
    for group in groups:
        # Rubrics of groups are plain data, which cannot be hashed: their text is.
        text = repr(group.rubric)
        if text not in rubric_of_text:
            rubric_of_text[text] = combine_rubrics(shared, group.rubric, f"group {group.id!r}")
        rubrics.append(rubric_of_text[text])
    return rubrics


def combine_rubrics(shared: Rubric | None, own_rubric: Any, where: str) -> Rubric:
    """Return the shared rubric and the criteria of a query's own, which replace shared ones of the same name.

    own_rubric: None if the query has none. where: names the query in errors. Raises InvalidInput if there is neither a
    shared rubric nor one of the query, or if the query's cannot be read.
    """
    if own_rubric is not None:
        rubric = to_rubric(own_rubric, where)
        return rubric if shared is None else shared.extended(rubric)
    if shared is None:
        raise InvalidInput(
            where,
            "rubric",
            allowed="given",
            got="none",
            remedy="Name one for all queries: `rubric=FILE`; or fill the column with the query's own.",
        )
    return shared


def plan_rubric(rubric: Rubric, options: GradeOptions) -> GroupPlan:
    """Make a check for each criterion that a verifier decides: validate its parameters, and bind the verifier.

    Raises InvalidInput for wrong parameters, and if a package that a verifier needs is not installed.
    """
    checks = []
    group_checks = []
    for column, criterion in enumerate(rubric.criteria):
        if criterion.judged:
            continue
        verifier = criterion.decided_by
        params = verifier.check_parameters(dict(criterion.params))
        # Without its package every score would be missing: raise before anything is graded.
        criterion.check_installed()
        digest = b""
        if options.cache is not None:
            digest = digest_check(verifier, params, options.compat, options.mode)
        check = PlannedCheck(
            column,
            verifier,
            params=dict(criterion.params),
            domain=criterion.value_domain,
            digest=digest,
            decide=verifier.bind(params, options.compat, options.mode),
            decide_group=verifier.bind_group(params) if verifier.sees_group else None,
        )
        if verifier.sees_group:
            group_checks.append(check)
        else:
            checks.append(check)
    return GroupPlan(
        rubric,
        tuple(CriterionData.of(criterion) for criterion in rubric.criteria),
        tuple(checks),
        tuple(group_checks),
    )
