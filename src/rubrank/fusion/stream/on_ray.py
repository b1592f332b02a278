"""Chunks of a table fused by the tasks of a Ray cluster, in order, a few at a time.

    with connected(address, "fuse") as ray:
        for chunk, parts in fused_on_ray(ray, plan): ...

A chunk holds whole groups, and a group's rewards depend on that group alone: the chunks may go anywhere, and the bits
are those of the local path. Where attributes are controlled over the whole table (pool="batch") a first reading fits
their influence (`pooling.py`), and the second fuses with what it found. Batches that a column names are never cut.
This process reads and writes; what is under way at the same time is bounded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from rubrank._plugins import Imported
from rubrank.errors import InvalidInput, RubrankError
from rubrank.fusion.options import part_of
from rubrank.fusion.result import Fused
from rubrank.fusion.stream.names import Progress, Rubrics
from rubrank.fusion.stream.plan import TablePlan
from rubrank.fusion.stream.pooling import AHEAD, OWNER, is_pooled, modules_of, pooled_plan, said
from rubrank.grading.cluster import processors

Parts: TypeAlias = list[tuple[np.ndarray, Fused]]


@dataclass(frozen=True)
class Described:
    """What a task must know of the file that a chunk was read from; the file itself stays here."""

    path: Path
    unit: str
    text_is_number: bool
    rubrics: Rubrics
    modules: Imported

    @classmethod
    def of(cls, plan: TablePlan) -> TablePlan:
        """The plan, as it can be sent."""
        reader = plan.layout.reader
        known: Any = cls(reader.path, reader.unit, reader.text_is_number, reader.rubrics, modules_of(plan.rule))
        return replace(plan, layout=replace(plan.layout, reader=known))


def check_partitioned(plan: TablePlan) -> None:
    """Refuse a rule that must see more than can be cut into chunks."""
    if _remembers(plan) or (plan.whole and not plan.layout.batch and not is_pooled(plan.rule)):
        allowed = "one that learns nothing from other groups but the influence of attributes"
        got = f"{plan.rule.name!r} with these options"
        raise InvalidInput(OWNER, "rule", allowed, got, "Leave --engine ray out.")
    modules_of(plan.rule)
    if plan.any_order:
        remedy = "Sort the table by group, or leave --engine ray out."
        raise InvalidInput(OWNER, "--any-order", "left out: chunks are cut between groups", "given", remedy)


def _remembers(plan: TablePlan) -> bool:
    """Would a copy of the rule in another process know less than the one here?"""
    parts = (part_of(plan.rule, "rule", "weighing"), part_of(plan.rule, "rule", "ordinal"))
    return any(bool(getattr(one, "remembers", hasattr(one, "state"))) for one in parts)


def fused_on_ray(ray: Any, plan: TablePlan, progress: Progress | None = None) -> Iterator[tuple[pl.DataFrame, Parts]]:
    """Every chunk with what became of its rows, in the order of the table."""
    if plan.whole and not plan.layout.batch:
        plan = pooled_plan(ray, plan, Described.of, progress)
    task = ray.remote(_fused).options(num_cpus=1)
    shared = ray.put(Described.of(plan))
    under_way: deque[tuple[pl.DataFrame, Any]] = deque()
    most = AHEAD * processors(ray)
    for chunk in plan.chunks(progress):
        under_way.append((chunk, task.remote(shared, chunk)))
        if len(under_way) >= most:
            yield _taken(ray, under_way)
    while under_way:
        yield _taken(ray, under_way)


def _taken(ray: Any, under_way: deque[tuple[pl.DataFrame, Any]]) -> tuple[pl.DataFrame, Parts]:
    chunk, reference = under_way.popleft()
    return chunk, said(ray, reference)


def _fused(plan: TablePlan, chunk: pl.DataFrame) -> Parts | RubrankError:
    """In a task; errors are given back as they are."""
    try:
        return list(plan.fuse(chunk))
    except RubrankError as error:
        return error
