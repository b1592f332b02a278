"""Fusion on a Ray cluster: batches cut into parts of whole groups, and Ray datasets.

    with connect_ray(address, "fuse") as ray:
        for rows, fused in fuse_on_ray(ray, rule, batches, has_batches=False): ...

    scored = rubrank.grading.on_ray(rollouts, "rubric.yaml", group="uid")
    rewarded = rubrank.fusion.on_ray(scored, "rubric.yaml", group="uid")
    rewarded.write_parquet("rewards/")

The rewards of a group depend on that group alone, so groups can be fused anywhere. The exception is the influence of
attributes, which is estimated over all groups of a batch before any group is fused:

    this process     split ─► parts      add sums, step of γ ─┐      estimate ─► rule      rewards in order
                                │          ▲     repeat       │                   │           ▲
    tasks                       └► prepare ┴─► run_pass ◄─────┘                   └► fuse ────┘

The sums of the first passes are added part by part, so rewards can differ from those of a local fusion by rounding.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from rubrank._plugins import Imported
from rubrank.errors import InvalidInput, RubrankError, only_our_errors
from rubrank.fusion.control.estimate import BatchEstimate
from rubrank.fusion.control.ordinal import name_columns
from rubrank.fusion.gate import Gate, Gated
from rubrank.fusion.models.model import find_model, find_model_home
from rubrank.fusion.options import find_ordinal, find_weighing, is_local, with_options
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
_PACKED_GROUP = "group"


@dataclass(frozen=True)
class _Job:
    """The input of a task. `modules` comes first: unpickling it imports the module that registers the rule's model."""

    modules: Imported
    rule: Rule


# ------------------------------------------------------------------------------------------------------------- batches


def check_can_split(rule: Rule, has_batches: bool) -> None:
    """Refuse a rule that must see more groups at once than one task gets."""
    parts = (find_weighing(rule), find_ordinal(rule))
    has_memory = any(bool(getattr(part, "remembers", hasattr(part, "state"))) for part in parts)
    if has_memory or not (has_batches or is_local(rule) or is_pooled(rule)):
        allowed = "one that learns nothing from other groups but the influence of attributes"
        got_rule = f"{rule.name!r} with these options"
        raise InvalidInput(
            _OWNER, "rule", allowed=allowed, got=got_rule, remedy="Use `engine=local`."
        )
    modules_of(rule)


def is_pooled(rule: Rule) -> bool:
    """Does the rule use nothing of other groups but the influence of attributes, estimated over the batch?"""
    part = find_ordinal(rule)
    if (
        not isinstance(part, RLVR2)
        or part.pool != "batch"
        or part.adjust is None
        or part.wins != "ordinal"
    ):
        return False
    return is_local(with_options(rule, "fuse", adjust=None))


def modules_of(rule: Rule) -> Imported:
    """The modules that register the rule's model in another process; raises if the model exists only in this one."""
    part = find_ordinal(rule)
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
    """The row numbers and the result of every part, in order.

    has_batches: a column of the table names the batches, so a rule that needs a whole batch gets each one whole.
    """
    if has_batches and not is_local(rule):
        parts = list(batches)
    else:
        parts = [part for rows, batch in batches for part in _split(rows, batch)]
    if not has_batches and not is_local(rule):
        rule = _with_estimate(ray, rule, [batch for _, batch in parts])
    task = ray.remote(_fuse_part).options(num_cpus=1)
    job = ray.put(_Job(modules_of(rule), rule))
    most_in_flight = _TASKS_PER_PROCESSOR * count_processors(ray)
    in_flight: deque[tuple[np.ndarray, Any]] = deque()
    for rows, batch in parts:
        in_flight.append((rows, task.remote(job, batch)))
        if len(in_flight) >= most_in_flight:
            rows, result = in_flight.popleft()
            yield rows, _get_result(ray, result)
    while in_flight:
        rows, result = in_flight.popleft()
        yield rows, _get_result(ray, result)


def _split(rows: np.ndarray, batch: ScoreBatch) -> Iterator[tuple[np.ndarray, ScoreBatch]]:
    """Parts of whole groups, each with the rows of the table in its own order."""
    if batch.order is not None:
        rows = rows[batch.order]
    ends = np.searchsorted(batch.starts, np.arange(ROWS_PER_TASK, len(rows), ROWS_PER_TASK))
    bounds = [0, *np.unique(ends[(ends > 0) & (ends < batch.N)]).tolist(), batch.N]
    for first, end in pairwise(bounds):
        yield rows[batch.starts[first] : batch.starts[end]], batch.select_groups(first, end)


def _fuse_part(job: _Job, batch: ScoreBatch) -> Fused | RubrankError:
    """Runs in a task. Errors are returned: Ray would wrap a raised error in another one."""
    try:
        return apply_rule(job.rule, batch)
    except RubrankError as error:
        return error


def _get_result(ray: Any, reference: Any) -> Any:
    """What a task returned; raises its error."""
    result = get_result(ray, reference, _OWNER)
    if isinstance(result, RubrankError):
        raise result
    return result


# --------------------------------------------------------------------------------------- the influence of attributes


def _with_estimate(ray: Any, rule: Rule, batches: Sequence[ScoreBatch]) -> Rule:
    """The rule with the influence of attributes, estimated over all parts of a batch."""
    task = ray.remote(_prepare_part).options(num_cpus=1, num_returns=2)
    job = ray.put(_Job(modules_of(rule), rule))
    most_in_flight = _TASKS_PER_PROCESSOR * count_processors(ray)
    references: list[tuple[Any, Any]] = []
    summaries: list[Any] = []
    for batch in batches:
        references.append(task.remote(job, batch))
        if len(references) - len(summaries) >= most_in_flight:
            summaries.append(_get_result(ray, references[len(summaries)][1]))
    for _, summary in references[len(summaries) :]:
        summaries.append(_get_result(ray, summary))
    estimate = _estimate_influence(ray, rule, [part for part, _ in references], summaries)
    return with_options(rule, "fuse", batch_estimate=estimate)


def _prepare_part(job: _Job, batch: ScoreBatch) -> tuple[Any, Any]:
    """Runs in a task: returns the part, which stays in Ray's store, and its summary or an error."""
    try:
        return _prepare(job.rule, batch)
    except RubrankError as error:
        return None, error


def _prepare(rule: Rule, batch: ScoreBatch) -> tuple[Any, tuple[Any, tuple[Any, ...]]]:
    """A part of a pooled fit; then its summary, and the names of its criteria."""
    from rubrank.fusion.models.attribute_fit import PartSummary

    while isinstance(rule, Gated):
        rule = rule.rule
        batch = batch.drop_penalties()
    ordinal = find_ordinal(rule)
    part = ordinal.make_part(batch)
    return part, (PartSummary.of(part, find_model(ordinal.model)), tuple(name_columns(batch)[0]))


def _estimate_influence(
    ray: Any, rule: Rule, parts: Sequence[Any], summaries: Sequence[tuple[Any, tuple[Any, ...]]]
) -> BatchEstimate:
    """The influence of attributes, from all parts together."""
    from rubrank.fusion.models.attribute_fit import fit_parts

    ordinal = find_ordinal(rule)
    model = find_model(ordinal.model)
    scale_D, fits = fit_parts(
        _RayParts(ray, parts),
        [summary for summary, _ in summaries],
        model,
        float(ordinal.attribute_prior),
    )
    return BatchEstimate(scale_D, tuple(summaries[0][1]), fits)


class _RayParts:
    """The parts of a pooled fit in the store of a cluster."""

    def __init__(self, ray: Any, parts: Sequence[Any]) -> None:
        self._ray = ray
        self._parts = list(parts)
        self._task = ray.remote(_run_pass).options(num_cpus=1, num_returns=2)

    def map(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Call function(part, *arguments) for all parts at the same time."""
        shared = self._ray.put(arguments)
        references = [self._task.remote(part, function, shared) for part in self._parts]
        self._parts = [part for part, _ in references]
        return [_get_result(self._ray, result) for _, result in references]

    def gather(self) -> list[Any]:
        """All parts, in this process."""
        return list(get_result(self._ray, self._parts, _OWNER))


def _run_pass(
    part: Any, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> tuple[Any, Any]:
    """Runs in a task: returns the part after a pass, and the result of the pass or an error."""
    part = part.copy()
    # Arrays from Ray's store are read-only, and numba would compile everything again for those.
    arguments = tuple(np.array(x) if isinstance(x, np.ndarray) else x for x in arguments)
    try:
        return part, function(part, *arguments)
    except RubrankError as error:
        return part, error


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
    """A Ray dataset with the columns reward, ranking and no_signal; it is computed when it is used.

    rubric: the rubric that graded the dataset; its criteria are columns of the dataset, NaN or null = missing.
    group: the column that names the group of a row. prefix: put before the names of the added columns.
    partitions: of the shuffle that brings groups together; None: four for each processor.
    attributes: columns of numbers ≥ 0 whose influence is taken out, such as lengths. The dataset is then computed at
        once, since the influence is estimated over all groups before the first one is fused.
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
            remedy="",
        )
    parsed = to_rubric(str(rubric) if isinstance(rubric, Path) else rubric)
    criteria = tuple(CriterionData.of(criterion) for criterion in parsed.criteria)
    needed = (group, *(criterion.name for criterion in criteria), *attributes)
    _check_columns(dataset.columns() or [], needed, [prefix + name for name in _ADDED_COLUMNS])
    fuser = _GroupFuser(
        criteria, Gated(RLVR2(**options), gate or Gate()), group, prefix, tuple(attributes)
    )
    partition_count = partitions or _PARTITIONS_PER_PROCESSOR * count_processors(ray)
    if attributes and is_pooled(fuser.rule):
        dataset = dataset.materialize()
        packed = dataset.groupby(group, num_partitions=partition_count).map_groups(
            fuser.pack, batch_format="pyarrow"
        )
        task = ray.remote(_prepare_block).options(num_cpus=1, num_returns=2)
        shared = ray.put(fuser)
        references = [task.remote(shared, block) for block in packed.materialize().to_arrow_refs()]
        parts = []
        summaries = []
        for part, reference in references:
            summary = _get_result(ray, reference)
            if summary is not None:  # it is None for an empty block
                parts.append(part)
                summaries.append(summary)
        estimate = _estimate_influence(ray, fuser.rule, parts, summaries)
        fuser.rule = with_options(fuser.rule, _OWNER, batch_estimate=estimate)
    return dataset.groupby(group, num_partitions=partition_count).map_groups(
        fuser.fuse, batch_format="pyarrow"
    )


def _prepare_block(fuser: _GroupFuser, block: Any) -> tuple[Any, Any]:
    """Runs in a task: like `_prepare_part`, for packed groups; None, None for an empty block."""
    if not block.num_rows:
        return None, None
    try:
        groups = [pickle.loads(packed) for packed in block.column(_PACKED_GROUP).to_pylist()]
        return _prepare(fuser.rule, fuser.make_batch(groups))
    except RubrankError as error:
        return None, error


def _check_columns(names: Sequence[str], needed: Sequence[str], added: Sequence[str]) -> None:
    """Raise if the dataset lacks a column that is needed, or has one that would be added."""
    for name in needed:
        if name not in names:
            allowed = "with a column for the group, each criterion and each attribute"
            raise InvalidInput(
                _OWNER, "dataset", allowed=allowed, got=f"none named {name!r}", remedy=""
            )
    for name in added:
        if name in names:
            got = f"{name!r} again"
            remedy = "Pass prefix='new_'."
            raise InvalidInput(
                _OWNER, "added columns", allowed="new to the dataset", got=got, remedy=remedy
            )


_GroupRows: TypeAlias = tuple[GroupScores, np.ndarray]
"""The scores of a group, and its attributes."""


class _GroupFuser:
    """The rows of one group (an Arrow table) → the same rows with rewards."""

    def __init__(
        self,
        criteria: tuple[CriterionData, ...],
        rule: Rule,
        group: str,
        prefix: str,
        attributes: tuple[str, ...],
    ) -> None:
        self._modules = modules_of(rule)
        self.rule = rule
        self._group = group
        self._criteria = criteria
        self._prefix = prefix
        self._attributes = attributes

    def fuse(self, table: Any) -> Any:
        """All rows of a group with the added columns."""
        rows = self._read(table)
        fused = apply_rule(self.rule, self.make_batch([rows]))
        values = (fused.reward, fused.ranking, np.repeat(fused.no_signal, len(rows[1])))
        for name, column in zip(_ADDED_COLUMNS, values, strict=True):
            table = table.append_column(self._prefix + name, [np.asarray(column)])
        return table

    def pack(self, table: Any) -> Any:
        """A table with one row, which holds the whole group."""
        import pyarrow as pa

        return pa.table({_PACKED_GROUP: pa.array([pickle.dumps(self._read(table))], pa.binary())})

    def make_batch(self, groups: Sequence[_GroupRows]) -> ScoreBatch:
        """The batch of some groups."""
        table = ScoreTable(tuple(scores for scores, _ in groups))
        if not self._attributes:
            return table.batch()
        values = np.concatenate([attributes for _, attributes in groups])
        return table.batch(attributes=values, attribute_names=self._attributes)

    def _read(self, table: Any) -> _GroupRows:
        columns: Mapping[str, list[Any]] = table.to_pydict()
        scores = _as_matrix(columns, [criterion.name for criterion in self._criteria])
        attributes = _as_matrix(columns, self._attributes).reshape(len(scores), -1)
        label = str(columns[self._group][0])
        outcomes = parse_outcomes(columns.get(OUTCOMES, ()), f"group {label!r}")
        texts = columns.get(PROBABILITIES, [None] * len(scores))
        probabilities = parse_probabilities(texts, f"group {label!r}")
        return GroupScores(label, self._criteria, scores, (), outcomes, probabilities), attributes


def _as_matrix(columns: Mapping[str, list[Any]], names: Sequence[str]) -> np.ndarray:
    """(rows, names): null is NaN."""
    return np.array(
        [[np.nan if x is None else float(x) for x in columns[name]] for name in names]
    ).T
