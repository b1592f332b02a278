"""Fusion on a Ray cluster: batches cut into parts of whole groups, and Ray datasets.

    with connect_ray(address, "fuse") as ray:
        for rows, fused in fuse_on_ray(ray, rule, batches, has_batches=False): ...

    scored = rubrank.grading.on_ray(rollouts, "rubric.yaml", group="uid")
    rewarded = rubrank.fusion.on_ray(scored, "rubric.yaml", group="uid")
    rewarded.write_parquet("rewards/")

The rewards of a group depend on that group alone, so groups can be fused anywhere. The exception is the influence of
attributes: this process estimates it over all groups of a batch before any group is fused, from the scores and
attributes alone. The tasks then fuse parts of the batch with that estimate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from rubrank._plugins import Imported
from rubrank.errors import InvalidInput, RubrankError, only_our_errors
from rubrank.fusion.gate import Gate, Gated
from rubrank.fusion.models.model import find_model_home
from rubrank.fusion.options import find_parts, has_memory, is_local, with_options
from rubrank.fusion.result import Fused
from rubrank.fusion.rlvr2 import RLVR2
from rubrank.fusion.rule import Rule, apply_rule
from rubrank.grading.cluster import count_processors, get_result, import_ray
from rubrank.rubrics.public import to_rubric
from rubrank.rubrics.rubric import Rubric
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.criterion import CriterionData
from rubrank.scores.files import parse_outcomes, parse_probabilities
from rubrank.scores.output import OUTCOMES, PROBABILITIES
from rubrank.scores.table import GroupScores, ScoreTable

ROWS_PER_TASK = 65_536
_OWNER = "fuse on Ray"
_TASKS_PER_PROCESSOR = 2  # in flight; queued tasks take memory
_PARTITIONS_PER_PROCESSOR = 4
_ADDED_COLUMNS = ("reward", "ranking", "no_signal")


@dataclass(frozen=True)
class _Job:
    """The input of a task. `modules` comes first: unpickling it imports the module that registers the rule's model."""

    modules: Imported
    rule: Rule


# ------------------------------------------------------------------------------------------------------------- batches


def check_can_split(rule: Rule, has_batches: bool) -> None:
    """Refuse a rule that must see more groups at once than one task gets."""
    if has_memory(rule) or not (has_batches or is_local(rule) or is_pooled(rule)):
        allowed = "one that learns nothing from other groups but the influence of attributes"
        got_rule = f"{rule.name!r} with these options"
        raise InvalidInput(
            _OWNER, "rule", allowed=allowed, got=got_rule, remedy="Use `engine=local`."
        )
    modules_of(rule)


def is_pooled(rule: Rule) -> bool:
    """Does the rule use nothing of other groups but the influence of attributes, estimated over the batch?"""
    part = find_parts(rule).controlling
    if (
        not isinstance(part, RLVR2)
        or part.pool != "batch"
        or part.adjust is None
        or part.wins != "ordinal"
    ):
        return False
    return is_local(with_options(rule, "fuse", adjust=None))


def modules_of(rule: Rule) -> Imported:
    """Return the modules that register the rule's model in another process.

    Raises InvalidInput if the model exists only in this process.
    """
    part = find_parts(rule).controlling
    module = find_model_home(part.model) if isinstance(part, RLVR2) else None
    if module == "":
        allowed = "in a module that other processes can import"
        remedy = "Move it to a separate module."
        raise InvalidInput(
            _OWNER,
            f"model {part.model!r}",
            allowed=allowed,
            got="made in this process",
            remedy=remedy,
        )
    return Imported((module,) if module else ())


def fuse_on_ray(
    ray: Any, rule: Rule, batches: Iterable[tuple[np.ndarray, ScoreBatch]], has_batches: bool
) -> Iterator[tuple[np.ndarray, Fused]]:
    """Yield the row numbers and the result of every part, in order.

    has_batches: a column of the table names the batches, so a rule that needs a whole batch gets each one whole.
    """
    task = ray.remote(_fuse_part).options(num_cpus=1)
    modules = modules_of(rule)
    most_in_flight = _TASKS_PER_PROCESSOR * count_processors(ray)
    in_flight: deque[tuple[np.ndarray, Any]] = deque()
    for batch_rows, batch in batches:
        if has_batches and not is_local(rule):
            parts = iter([(batch_rows, batch)])
        else:
            parts = _split(batch_rows, batch)
        job = _Job(modules, rule)
        if not has_batches and not is_local(rule):
            job = _Job(modules, set_estimate(rule, batch))
        for rows, part in parts:
            in_flight.append((rows, task.remote(job, part)))
            if len(in_flight) >= most_in_flight:
                yield _get_first_result(ray, in_flight)
    while in_flight:
        yield _get_first_result(ray, in_flight)


def set_estimate(rule: Rule, batch: ScoreBatch) -> Rule:
    """Return the rule with the influence of attributes estimated over a batch, so that its parts can be fused."""
    if isinstance(rule, Gated):
        batch = batch.drop_penalties()  # as the gate does: they are not ranked
    return with_options(rule, _OWNER, batch_estimate=find_parts(rule).controlling.estimate(batch))


def _split(rows: np.ndarray, batch: ScoreBatch) -> Iterator[tuple[np.ndarray, ScoreBatch]]:
    """Yield parts of whole groups, each with its row numbers in the table."""
    if batch.order is not None:
        rows = rows[batch.order]
    ends = np.searchsorted(batch.starts, np.arange(ROWS_PER_TASK, len(rows), ROWS_PER_TASK))
    bounds = [0, *np.unique(ends[(ends > 0) & (ends < batch.N)]).tolist(), batch.N]
    for first, end in pairwise(bounds):
        yield rows[batch.starts[first] : batch.starts[end]], batch.select_groups(first, end)


def _fuse_part(job: _Job, batch: ScoreBatch) -> Fused | RubrankError:
    """Fuse a part; called in a task. Errors are returned, because Ray would wrap a raised error in another one."""
    try:
        return apply_rule(job.rule, batch)
    except RubrankError as error:
        return error


def _get_first_result(
    ray: Any, in_flight: deque[tuple[np.ndarray, Any]]
) -> tuple[np.ndarray, Fused]:
    """Wait for the oldest task, and return its rows and its result; raises its error."""
    rows, reference = in_flight.popleft()
    result = get_result(ray, reference, _OWNER)
    if isinstance(result, RubrankError):
        raise result
    return rows, result


# ------------------------------------------------------------------------------------------------------------ datasets


@only_our_errors
def on_ray(
    dataset: Any,
    rubric: Rubric | str | Path | Any,
    *,
    group: str = "uid",
    gate: Gate | None = None,
    prefix: str = "",
    partitions: int | None = None,
    attributes: Sequence[str] = (),
    **options: Any,
) -> Any:
    """Return the Ray dataset with the columns reward, ranking and no_signal; it is computed when it is used.

    rubric: the rubric that graded the dataset; its criteria are columns of the dataset, NaN or null = missing.
    group: the column that names the group of a row. prefix: put before the names of the added columns.
    partitions: of the shuffle that brings groups together; None: four for each processor.
    attributes: columns of numbers ≥ 0 whose influence is taken out, such as lengths. The dataset is then computed at
        once, and its scores and attributes are read by this process: the influence is estimated over all groups before
        the first one is fused.
    options: those of `rubrank.RLVR2`; adjust is "remove" if attributes are given. pool="run" is for trainers.
    """
    ray = import_ray(_OWNER)
    if attributes:
        options.setdefault("adjust", "remove")
    elif options.get("adjust") is not None:
        got = repr(options["adjust"])
        raise InvalidInput(
            _OWNER, "adjust", allowed="given with attributes", got=got, remedy="Name their columns."
        )
    if options.get("pool") == "run":
        raise InvalidInput(
            _OWNER,
            "pool",
            allowed="'batch' or 'group': a dataset has no steps",
            got="'run'",
        )
    parsed = to_rubric(str(rubric) if isinstance(rubric, Path) else rubric)
    criteria = tuple(CriterionData.of(criterion) for criterion in parsed.criteria)
    needed = (group, *(criterion.name for criterion in criteria), *attributes)
    _check_columns(dataset.columns() or [], needed, [prefix + name for name in _ADDED_COLUMNS])
    rule = Gated(RLVR2(**options), gate or Gate())
    fuser = _GroupFuser(modules_of(rule), rule, criteria, group, prefix, tuple(attributes))
    if attributes and is_pooled(rule):
        dataset = dataset.materialize()
        optional = [name for name in (OUTCOMES, PROBABILITIES) if name in dataset.columns()]
        numbers = dataset.select_columns([*needed, *optional])
        blocks = get_result(ray, numbers.to_arrow_refs(), _OWNER)
        frame = pl.concat(pl.DataFrame(pl.from_arrow(block)) for block in blocks if block.num_rows)
        groups = []
        for group_frame in frame.partition_by(group, maintain_order=True):
            groups.append(fuser.read_group(group_frame.to_dict(as_series=False)))
        fuser = replace(fuser, rule=set_estimate(rule, fuser.make_batch(groups)))
    partition_count = partitions or _PARTITIONS_PER_PROCESSOR * count_processors(ray)
    return dataset.groupby(group, num_partitions=partition_count).map_groups(
        fuser.add_rewards, batch_format="pyarrow"
    )


def _check_columns(names: Sequence[str], needed: Sequence[str], added: Sequence[str]) -> None:
    """Raise if the dataset lacks a column that is needed, or has one that would be added."""
    for name in needed:
        if name not in names:
            allowed = "with a column for the group, each criterion and each attribute"
            raise InvalidInput(_OWNER, "dataset", allowed=allowed, got=f"none named {name!r}")
    for name in added:
        if name in names:
            got = f"{name!r} again"
            remedy = "Pass prefix='new_'."
            raise InvalidInput(
                _OWNER, "added columns", allowed="new to the dataset", got=got, remedy=remedy
            )


_GroupRows: TypeAlias = tuple[GroupScores, np.ndarray]
"""The scores of a group, and its attributes."""


@dataclass(frozen=True)
class _GroupFuser:
    """The rows of one group (an Arrow table) → the same rows with rewards. `modules` comes first, as in `_Job`."""

    modules: Imported
    rule: Rule
    criteria: tuple[CriterionData, ...]
    group: str
    prefix: str
    attributes: tuple[str, ...]

    def add_rewards(self, table: Any) -> Any:
        """Return all rows of a group with the added columns."""
        rows = self.read_group(table.to_pydict())
        fused = apply_rule(self.rule, self.make_batch([rows]))
        values = (fused.reward, fused.ranking, np.repeat(fused.no_signal, len(rows[1])))
        for name, column in zip(_ADDED_COLUMNS, values, strict=True):
            table = table.append_column(self.prefix + name, [np.asarray(column)])
        return table

    def make_batch(self, groups: Sequence[_GroupRows]) -> ScoreBatch:
        """Return the batch of some groups."""
        table = ScoreTable(tuple(scores for scores, _ in groups))
        if not self.attributes:
            return table.batch()
        values = np.concatenate([attributes for _, attributes in groups])
        return table.batch(attributes=values, attribute_names=self.attributes)

    def read_group(self, columns: Mapping[str, list[Any]]) -> _GroupRows:
        """Read the scores and attributes of a group from its columns."""
        scores = _as_matrix(columns, [criterion.name for criterion in self.criteria])
        attributes = _as_matrix(columns, self.attributes).reshape(len(scores), -1)
        label = str(columns[self.group][0])
        outcomes = parse_outcomes(columns.get(OUTCOMES, ()), f"group {label!r}")
        texts = columns.get(PROBABILITIES, [None] * len(scores))
        probabilities = parse_probabilities(texts, f"group {label!r}")
        return GroupScores(label, self.criteria, scores, (), outcomes, probabilities), attributes


def _as_matrix(columns: Mapping[str, list[Any]], names: Sequence[str]) -> np.ndarray:
    """Return the numbers of some columns, (rows, columns); null becomes NaN."""
    return np.array([columns[name] for name in names], dtype=float).T  # NumPy reads None as NaN
