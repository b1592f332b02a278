"""Influences of attributes over a table that is fused in chunks: tasks of a Ray cluster make the passes over its parts.

    plan = pooled_plan(ray, plan, described)            a first reading; now every chunk can be fused by itself
    known = known_of(ray, rule, parts, summaries, names)    the same from parts that are there already

A part stays where it was made, in Ray's store, which puts on disk what does not fit; a task takes a part and γ, and
gives back the part as it is now and some sums. A part that is lost with its machine is made again by Ray from what it
came from. The sums are exact: the coefficients are those of the local path, bit for bit (`models/partitioned.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from rubrank._plugins import Imported
from rubrank.errors import InvalidInput, RubrankError
from rubrank.fusion.adjusting import Known, names_of
from rubrank.fusion.gated import Gated
from rubrank.fusion.model import find_model, model_home
from rubrank.fusion.options import is_local, part_of, with_options
from rubrank.fusion.rlvr2 import RLVR2
from rubrank.fusion.rule import Rule
from rubrank.fusion.stream.names import Progress
from rubrank.fusion.stream.plan import TablePlan
from rubrank.grading.cluster import got, processors
from rubrank.scores.batch import ScoreBatch

OWNER = "fuse on Ray"
AHEAD = 2
"""Chunks for each processor that are read before the first is done."""


def is_pooled(rule: Rule) -> bool:
    """Is the influence of attributes over the batch all that the rule learns from other groups?"""
    part = part_of(rule, "rule", "ordinal")
    if not isinstance(part, RLVR2) or part.pool != "batch" or part.adjust is None:
        return False
    return is_local(with_options(rule, "fuse", adjust=None))


def modules_of(rule: Rule) -> Imported:
    """What another process must import to know the rule's model; refused is one that only this process has."""
    part = part_of(rule, "rule", "ordinal")
    module = model_home(part.model) if isinstance(part, RLVR2) else None
    if module == "":
        allowed, remedy = "in a module that other processes can import", "Put it in a module of its own."
        raise InvalidInput(OWNER, f"model {part.model!r}", allowed, "made in this process", remedy)
    return Imported((module,) if module else ())


def pooled_plan(
    ray: Any, plan: TablePlan, described: Callable[[TablePlan], TablePlan], progress: Progress | None = None
) -> TablePlan:
    """The plan with what a first reading of the table says about its attributes."""
    parted = replace(plan, parted=True)
    if plan.layout.wide:
        asked = _all_chunks(ray, parted, described, _asked, progress)
        parted = replace(parted, asked=tuple(sorted(set().union(*(found for _, found in asked)))))
    made = _all_chunks(ray, parted, described, _prepared, progress)
    summaries = [summary for _, (summary, _) in made]
    names = made[0][1][1]
    part = part_of(plan.rule, "rule", "ordinal")
    known = known_of(ray, part, [part for part, _ in made], summaries, names)
    return replace(parted, rule=with_options(plan.rule, "fuse", known=known))


def known_of(ray: Any, rule: RLVR2, parts: Sequence[Any], summaries: Sequence[Any], names: Sequence[Any]) -> Known:
    """What all parts together say about attributes."""
    from rubrank.fusion.models.partitioned import fit_parts

    passes, model = _OnRay(ray, parts), find_model(rule.model)
    scale_D, found = fit_parts(passes, summaries, model, float(rule.attribute_prior))
    return Known(scale_D, tuple(names), found)


def prepared(rule: Rule, batch: ScoreBatch) -> tuple[Any, tuple[Any, tuple[Any, ...]]]:
    """Some groups as a part; its summary and the names of its criteria."""
    from rubrank.fusion.models.partitioned import PartSummary

    while isinstance(rule, Gated):
        rule, batch = rule.rule, batch.without_penalties()
    ordinal = part_of(rule, "rule", "ordinal")
    part = ordinal.part(batch)
    return part, (PartSummary.of(part, find_model(ordinal.model)), tuple(names_of(batch)[0]))


# ---------------------------------------------------------------------------------------------------------------- tasks


def _all_chunks(
    ray: Any, plan: TablePlan, described: Callable[[TablePlan], TablePlan], work: Any, progress: Progress | None
) -> list[tuple[Any, Any]]:
    """What becomes of every chunk: where the large half of it is, and the small half."""
    task, shared = ray.remote(work).options(num_cpus=1, num_returns=2), ray.put(described(plan))
    most = AHEAD * processors(ray)
    begun: list[tuple[Any, Any]] = []
    found: list[Any] = []
    for chunk in plan.chunks(progress):
        begun.append(task.remote(shared, chunk))
        if len(begun) - len(found) >= most:
            found.append(said(ray, begun[len(found)][1]))
    found += [said(ray, small) for _, small in begun[len(found) :]]
    return [(large, small) for (large, _), small in zip(begun, found, strict=True)]


def said(ray: Any, reference: Any) -> Any:
    """What a task gave back; errors are raised here as they are."""
    found = got(ray, reference, OWNER)
    if isinstance(found, RubrankError):
        raise found
    return found


def _asked(plan: TablePlan, chunk: pl.DataFrame) -> tuple[None, set[Any]]:
    return None, plan.asked_in(chunk)


def _prepared(plan: TablePlan, chunk: pl.DataFrame) -> tuple[Any, Any]:
    try:
        ((_, batch),) = plan.batches(chunk)
        return prepared(plan.rule, batch)
    except RubrankError as error:
        return None, error


class _OnRay:
    """The parts of a batch in the store of a cluster."""

    def __init__(self, ray: Any, parts: Sequence[Any]) -> None:
        self._ray, self._parts = ray, list(parts)
        self._task = ray.remote(_passed).options(num_cpus=1, num_returns=2)

    def each(self, pass_: str, *given: Any) -> list[Any]:
        """All parts at the same time."""
        shared = self._ray.put(given)
        begun = [self._task.remote(part, pass_, shared) for part in self._parts]
        self._parts = [part for part, _ in begun]
        return [said(self._ray, result) for _, result in begun]

    def gathered(self) -> list[Any]:
        """All of them, here."""
        return list(got(self._ray, self._parts, OWNER))


def _passed(part: Any, pass_: str, given: tuple[Any, ...]) -> tuple[Any, Any]:
    """The part after a pass, and what the pass found."""
    part = part.copied()
    try:
        return part, getattr(part, pass_)(*(np.array(x) if isinstance(x, np.ndarray) else x for x in given))
    except RubrankError as error:
        return part, error
