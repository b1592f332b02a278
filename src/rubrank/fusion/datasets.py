"""Ray datasets of scores → the same rows with their rewards, lazily: groups are independent, and go anywhere.

    scored = rubrank.grading.on_ray(rollouts, "rubric.yaml", group="uid")
    rewarded = rubrank.fusion.on_ray(scored, "rubric.yaml", group="uid")
    rewarded.write_parquet("rewards/")

Weights, margins, directions, layers and gates are the rubric's, as in `ScoreTable.fuse`; the bits are its too.
With attributes the dataset is computed at once and kept in Ray's store: a first pass over all groups fits their
influence (`stream/pooling.py`), and the second, which fuses, is lazy again.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from rubrank.errors import InvalidInput, RubrankError, only_our_errors
from rubrank.fusion.adjusting import Known
from rubrank.fusion.gate import Gate
from rubrank.fusion.gated import Gated
from rubrank.fusion.options import part_of, with_options
from rubrank.fusion.rlvr2 import RLVR2
from rubrank.fusion.rule import Rule, fused_by
from rubrank.fusion.stream.pooling import OWNER, is_pooled, known_of, modules_of, prepared, said
from rubrank.grading.cluster import found_ray, processors
from rubrank.rubrics.public import to_rubric
from rubrank.rubrics.rubric import Rubric
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.criterion import CriterionData
from rubrank.scores.files import read_outcomes
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.scores.writing import OUTCOMES

_ADDED = ("reward", "ranking", "no_signal")
_PACKED = "group"


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

    rubric: that the dataset was graded by; its criteria are columns of the dataset, NaN or null = missing.
    group: the column that names the group of a row. prefix: put before the names of the added columns.
    partitions: of the shuffle that brings groups together; None: four for each processor.
    attributes: columns of numbers ≥ 0 whose influence is taken out, such as lengths.
    options: those of `rubrank.RLVR2`; adjust is "remove" where attributes are given. pool="run" is for trainers.
    """
    ray = found_ray(OWNER)
    if attributes:
        options.setdefault("adjust", "remove")
    elif options.get("adjust") is not None:
        raise InvalidInput(OWNER, "adjust", "given with attributes", repr(options["adjust"]), "Name their columns.")
    if options.get("pool") == "run":
        raise InvalidInput(OWNER, "pool", "'batch' or 'group': a dataset has no steps", "'run'", "")
    found = to_rubric(str(rubric) if isinstance(rubric, Path) else rubric)
    criteria = tuple(CriterionData.of(criterion) for criterion in found.criteria)
    needed = (group, *(criterion.name for criterion in criteria), *attributes)
    _check_columns(dataset.columns() or [], needed, [prefix + name for name in _ADDED])
    fuser = _Fuser(criteria, Gated(RLVR2(**options), gate or Gate()), group, prefix, tuple(attributes))
    number = partitions or 4 * processors(ray)
    if attributes and is_pooled(fuser.rule):
        dataset = dataset.materialize()
        fuser.rule = with_options(fuser.rule, OWNER, known=_known(ray, dataset, fuser, number))
    return dataset.groupby(group, num_partitions=number).map_groups(fuser.fused, batch_format="pyarrow")


def _known(ray: Any, dataset: Any, fuser: _Fuser, number: int) -> Known:
    """What all groups together say about the attributes."""
    packed = dataset.groupby(fuser.group, num_partitions=number).map_groups(fuser.packed, batch_format="pyarrow")
    task, shared = ray.remote(_prepared).options(num_cpus=1, num_returns=2), ray.put(fuser)
    begun = [task.remote(shared, block) for block in packed.materialize().to_arrow_refs()]
    found = [(part, said(ray, summary)) for part, summary in begun]
    made = [(part, *summary) for part, summary in found if summary is not None]
    ordinal = part_of(fuser.rule, "rule", "ordinal")
    return known_of(ray, ordinal, [part for part, _, _ in made], [summary for _, summary, _ in made], made[0][2])


def _prepared(fuser: _Fuser, block: Any) -> tuple[Any, Any]:
    """In a task: some packed groups as a part; None of an empty block."""
    try:
        groups = [pickle.loads(one) for one in block.column(_PACKED).to_pylist()] if block.num_rows else []
        return prepared(fuser.rule, fuser.batch(groups)) if groups else (None, None)
    except RubrankError as error:
        return None, error


def _check_columns(names: Sequence[str], needed: Sequence[str], added: Sequence[str]) -> None:
    lacking = next((name for name in needed if name not in names), None)
    if lacking is not None:
        allowed = "with a column for the group, each criterion and each attribute"
        raise InvalidInput(OWNER, "dataset", allowed, f"none named {lacking!r}", "")
    twice = next((name for name in added if name in names), None)
    if twice is not None:
        raise InvalidInput(OWNER, "added columns", "new to the dataset", f"{twice!r} again", "Say prefix='new_'.")


_Group: TypeAlias = tuple[GroupScores, np.ndarray]
"""With its attributes."""


class _Fuser:
    """The rows of one group (an Arrow table) → the same rows with rewards."""

    def __init__(
        self, criteria: tuple[CriterionData, ...], rule: Rule, group: str, prefix: str, attributes: tuple[str, ...]
    ) -> None:
        self.rule, self.group, self._modules = rule, group, modules_of(rule)
        self._criteria, self._prefix, self._attributes = criteria, prefix, attributes

    def fused(self, table: Any) -> Any:
        """All rows of a group."""
        one = self._read(table)
        result = fused_by(self.rule, self.batch([one]))
        found = (result.reward, result.ranking, np.repeat(result.no_signal, len(one[1])))
        for name, values in zip(_ADDED, found, strict=True):
            table = table.append_column(self._prefix + name, [np.asarray(values)])
        return table

    def packed(self, table: Any) -> Any:
        """One row for all of a group."""
        import pyarrow as pa

        return pa.table({_PACKED: pa.array([pickle.dumps(self._read(table))], pa.binary())})

    def batch(self, groups: Sequence[_Group]) -> ScoreBatch:
        """Some groups as rules see them."""
        table, names = ScoreTable(tuple(scores for scores, _ in groups)), self._attributes
        values = np.concatenate([attributes for _, attributes in groups]) if names else None
        return table.batch(attributes=values, attribute_names=names) if names else table.batch()

    def _read(self, table: Any) -> _Group:
        columns: Mapping[str, list[Any]] = table.to_pydict()
        scores = np.array([[_number(x) for x in columns[c.name]] for c in self._criteria]).T
        outcomes = read_outcomes(columns.get(OUTCOMES, ()))
        attributes = np.array([[_number(x) for x in columns[name]] for name in self._attributes]).T
        label = str(columns[self.group][0])
        return GroupScores(label, self._criteria, scores, (), outcomes), attributes.reshape(len(scores), -1)


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)
