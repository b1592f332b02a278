"""Score tables in files: one row per rollout, in chunks of whole groups, so that a million rows need little memory.

    uid,Facts,Style,tokens          {"uid": "q1", "scores": {"Facts": 1, "Style": 3}, "attributes": {"tokens": 312}}
    q1,1,3,312                      {"uid": "q1", "scores": {"Facts": 0, "Style": 5}, "attributes": {"tokens": 845}}
    q1,0,5,845

    >>> from rubrank.fusion.stream.files import Columns, fuse_file
    >>> fuse_file("scores.csv", "rewards.csv", FuseOptions(weight={"Facts": 2}))       # doctest: +SKIP

A file is read twice. The first reading (`survey`) finds the columns and everything that can be wrong with a name, a
cell or the order of rows; only then does the second one fuse and write, to a temporary file that takes the place of the
output at the very end. JSON lines and CSV are cut into blocks of whole records, Parquet into slices of rows; what is
kept of all rows is one label for each group, to tell a group that comes back.

A file that `ScoreTable.write` wrote brings its rubric: weights, margins, directions and gates are those of each group's
own, unless options say otherwise, and the rewards are those of `read_scores(path).fuse()`.

The parts are in this folder: names, the readers of each format, the survey, the fusion of chunks, the writers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias, get_args

import numpy as np
import polars as pl

from rubrank.errors import BadTable, UnknownName, only_our_errors
from rubrank.fusion.group import FusedGroup
from rubrank.fusion.options import FuseOptions
from rubrank.fusion.result import Fused
from rubrank.fusion.stream.names import Columns, Progress, format_of
from rubrank.fusion.stream.on_ray import Parts, check_partitioned, fused_on_ray
from rubrank.fusion.stream.opening import open_table, shape_of
from rubrank.fusion.stream.plan import TablePlan, make_plan
from rubrank.fusion.stream.readers import Csv
from rubrank.fusion.stream.writers import JsonLinesWriter, Writer, checked_target, writer_to
from rubrank.grading.cluster import connected

__all__ = ["PREVIEW", "Columns", "Summary", "explain_file", "fuse_file", "has_rubric", "open_table"]

Engine: TypeAlias = Literal["local", "ray"]
PREVIEW = 10
"""How many groups a summary shows."""


@dataclass
class Summary:
    """What a file held and what became of it."""

    path: Path
    criteria: tuple[str, ...]
    """Fused criteria; those of a gate are not among them."""
    left_out: tuple[str, ...]
    """Numeric columns that were taken for bookkeeping."""
    rollouts: int = 0
    groups: int = 0
    no_signal: int = 0
    """Groups whose rewards are all equal."""
    scored: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """For each criterion: rollouts with a score."""
    deciding: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """For each criterion: groups in which it tells rollouts apart."""
    graded: bool = False
    """Did weights, margins, directions and gates come from the file's own rubric?"""
    gates: tuple[str, ...] = ()
    reward_sum: float = 0.0
    first: list[FusedGroup] = field(default_factory=list)
    """The first groups, as many as `PREVIEW`."""
    shape: str = ""
    """What was read, such as "long CSV"."""
    by: str = ""
    """The columns that named the groups."""


@only_our_errors
def fuse_file(
    path: Any,
    output: str | Path | IO[bytes] | None = None,
    options: FuseOptions | None = None,
    *,
    columns: Columns | None = None,
    any_order: bool = False,
    utilities: bool = False,
    prefix: str = "",
    force: bool = False,
    progress: Progress | None = None,
    engine: Engine = "local",
    address: str | None = None,
) -> Summary:
    """Fuse every group of a table; the output is the table with its rewards.

    path: a file, folder or pattern, standard input ("-"), a frame or rows; see `rubrank.fusion.stream.opening`.
    output: a path, whose suffix says its format; an open binary file, which gets JSON lines; or None.
    options: the rule and its settings. A file that `ScoreTable.write` wrote has its rubric, of which options override
        what they name.
    any_order: rows of a group need not be adjacent; everything is read into memory.
    utilities: write the column "utility.<criterion>" for each criterion too.
    prefix: put before the name of every column that is added.
    force: replace an output that exists; never the input.
    engine: "local", or "ray": chunks of groups are fused by a Ray cluster, to the same bits.
    address: of the cluster; None: the one this process is connected to, or one on this machine.
    """
    if engine not in get_args(Engine):
        raise UnknownName.of("fuse", "engine", engine, get_args(Engine))
    stream, target = (None, Path(output)) if isinstance(output, str | Path) else (output, None)
    kind = "jsonl" if stream is not None else None
    if target is not None:
        target = checked_target(path, target, force)
        kind = format_of(target, "output")
    reader = open_table(path, columns, any_order)
    if isinstance(reader, Csv):
        reader.typed = kind not in (None, "csv")
    plan = make_plan(reader, options or FuseOptions(), columns or Columns(), any_order, progress)
    plan.add_columns(prefix, utilities, kind)
    with ExitStack() as stack:
        fused = stack.enter_context(_fusing(plan, progress, engine, address))
        writer: Writer | None = None if stream is None else JsonLinesWriter(stream, plan)
        if target is not None:
            writer = stack.enter_context(writer_to(target, plan))
        summary = _fuse_all(plan, writer, fused)
    summary.shape, summary.by = shape_of(reader, path), "/".join(plan.layout.groups)
    return summary


@only_our_errors
def explain_file(
    path: Any,
    group: str,
    options: FuseOptions | None = None,
    *,
    columns: Columns | None = None,
    any_order: bool = False,
    progress: Progress | None = None,
) -> FusedGroup:
    """Everything about one group of a table; `group` is its label as text. Parameters as for `fuse_file`."""
    plan = make_plan(
        open_table(path, columns, any_order), options or FuseOptions(), columns or Columns(), any_order, progress
    )
    known: list[str] = []
    for chunk in plan.chunks():
        texts = plan.layout.labels(chunk).cast(pl.String)
        if not (texts == group).any():
            known += texts.unique(maintain_order=True).to_list()
            continue
        if not plan.whole:
            chunk = chunk.filter(texts == group)
            plan = plan.for_rubric_of(chunk)
        for _, fused in plan.fuse(chunk):
            for label in fused.labels:
                if str(label) == group:
                    return fused[label]
    near = get_close_matches(group, known, n=1)
    remedy = f"Did you mean {near[0]!r}?" if near else "Copy a label from the table."
    allowed = f"one of its {len(known):,} groups, such as {', '.join(map(repr, known[:3]))}"
    raise UnknownName(str(path), "group", allowed, repr(group), remedy)


def has_rubric(path: Any) -> bool:
    """Is it a file that `ScoreTable.write` wrote, with the rubric that it was graded by?"""
    return bool(open_table(path, Columns(long=False)).rubrics)


@contextmanager
def _fusing(
    plan: TablePlan, progress: Progress | None, engine: str, address: str | None
) -> Iterator[Iterable[tuple[pl.DataFrame, Parts]]]:
    """Every chunk with what becomes of its rows: here, or on Ray."""
    if engine == "local":
        yield ((chunk, list(plan.fuse(chunk))) for chunk in plan.chunks(progress))
        return
    check_partitioned(plan)
    with connected(address, "fuse") as ray:
        yield fused_on_ray(ray, plan, progress)


def _fuse_all(plan: TablePlan, writer: Writer | None, chunks: Iterable[tuple[pl.DataFrame, Parts]]) -> Summary:
    names = tuple(plan.ranked_names(plan.layout.names))
    zeros = np.zeros(len(names), np.int64)
    summary = Summary(
        plan.layout.reader.path,
        names,
        plan.layout.left_out,
        scored=zeros,
        deciding=zeros.copy(),
        graded=plan.graded is not None,
        gates=plan.gates,
    )
    column = {name: k for k, name in enumerate(names)}
    for chunk, parts in chunks:
        for _, fused in parts:
            _count(summary, fused, [column[name] for name in fused.criteria])
        if writer is not None:
            writer.write(chunk, [(rows, plan.added(fused)) for rows, fused in parts])
    if not summary.scored.any() and not summary.deciding.any():
        got, remedy = "none: every score is missing", "Every reward would be the same: see why nothing was scored."
        raise BadTable(str(summary.path), "the scores", "there for at least one rollout", got, remedy)
    return summary


def _count(summary: Summary, fused: Fused, columns: list[int]) -> None:
    batch = fused.batch
    summary.rollouts += len(batch.scores_MK)
    summary.groups += len(fused)
    summary.no_signal += int(fused.no_signal.sum())
    summary.reward_sum += float(fused.reward_M.sum())
    summary.scored[columns] += (~np.isnan(batch.scores_MK)).sum(0)
    summary.deciding[columns] += _telling(fused).sum(0)
    for group in fused if len(summary.first) < PREVIEW else ():
        summary.first.append(group)
        if len(summary.first) == PREVIEW:
            break


def _telling(fused: Fused) -> np.ndarray:
    """(N, K): does a criterion tell rollouts of the group apart?"""
    if fused.fit is None:
        return fused.batch.informative_NK
    return np.asarray(np.logical_or.reduceat(fused.fit.utilities_MK != 0.0, fused.batch.starts[:-1], axis=0))
