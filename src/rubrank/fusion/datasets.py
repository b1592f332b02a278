"""Ray datasets of scores → the same rows with their rewards, lazily: groups are independent, and go anywhere.

    scored = rubrank.grading.on_ray(rollouts, "rubric.yaml", group="uid")
    rewarded = rubrank.fusion.on_ray(scored, "rubric.yaml", group="uid")
    rewarded.write_parquet("rewards/")

Weights, margins, directions, layers and gates are the rubric's, as in `ScoreTable.fuse`; the bits are its too.
Attributes are estimated over many groups, which no partition sees: they are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rubrank.errors import InvalidInput, only_our_errors
from rubrank.fusion.gate import Gate
from rubrank.fusion.gated import Gated
from rubrank.fusion.rlvr2 import RLVR2
from rubrank.grading.cluster import found_ray, processors
from rubrank.rubrics.public import to_rubric
from rubrank.rubrics.rubric import Rubric
from rubrank.scores.criterion import CriterionData
from rubrank.scores.files import OUTCOMES, read_outcomes
from rubrank.scores.table import GroupScores, ScoreTable

_OWNER = "fuse on Ray"
_ADDED = ("reward", "ranking", "no_signal")


@only_our_errors
def on_ray(
    dataset: Any,
    rubric: Rubric | str | Path | Any,
    *,
    group: str = "uid",
    gate: Gate | None = None,
    prefix: str = "",
    partitions: int | None = None,
    **options: Any,
) -> Any:
    """A Ray dataset with the columns reward, ranking and no_signal; it is computed when it is used.

    rubric: that the dataset was graded by; its criteria are columns of the dataset, NaN or null = missing.
    group: the column that names the group of a row. prefix: put before the names of the added columns.
    partitions: of the shuffle that brings groups together; None: four for each processor.
    options: those of `rubrank.RLVR2`, but for attributes.
    """
    ray = found_ray(_OWNER)
    refused = sorted({"adjust", "attributes", "attribute_names", "pool"} & set(options))
    if refused:
        allowed = "left out: attributes are estimated over groups of all partitions"
        raise InvalidInput(_OWNER, refused[0], allowed, repr(options[refused[0]]), "Fuse with `rubrank fuse` instead.")
    found = to_rubric(str(rubric) if isinstance(rubric, Path) else rubric)
    criteria = tuple(CriterionData.of(criterion) for criterion in found.criteria)
    _check_columns(dataset.columns() or [], criteria, group, [prefix + name for name in _ADDED])
    fuser = _Fuser(criteria, Gated(RLVR2(**options), gate or Gate()), group, prefix)
    number = partitions or 4 * processors(ray)
    return dataset.groupby(group, num_partitions=number).map_groups(fuser.fused, batch_format="pyarrow")


def _check_columns(names: Sequence[str], criteria: Sequence[CriterionData], group: str, added: Sequence[str]) -> None:
    lacking = next((name for name in (group, *(c.name for c in criteria)) if name not in names), None)
    if lacking is not None:
        allowed = "with a column for the group and for each criterion"
        raise InvalidInput(_OWNER, "dataset", allowed, f"none named {lacking!r}", "")
    twice = next((name for name in added if name in names), None)
    if twice is not None:
        raise InvalidInput(_OWNER, "added columns", "new to the dataset", f"{twice!r} again", "Say prefix='new_'.")


class _Fuser:
    """The rows of one group (an Arrow table) → the same rows with rewards."""

    def __init__(self, criteria: tuple[CriterionData, ...], rule: Gated, group: str, prefix: str) -> None:
        self._criteria, self._rule, self._group, self._prefix = criteria, rule, group, prefix

    def fused(self, table: Any) -> Any:
        """All rows of a group."""
        columns: Mapping[str, list[Any]] = table.to_pydict()
        scores = np.array([[_number(x) for x in columns[c.name]] for c in self._criteria]).T
        outcomes = read_outcomes(columns.get(OUTCOMES, ()))
        one = GroupScores(str(columns[self._group][0]), self._criteria, scores, (), outcomes)
        result = self._rule(ScoreTable((one,)).batch())
        found = (result.reward, result.ranking, np.repeat(result.no_signal, len(scores)))
        for name, values in zip(_ADDED, found, strict=True):
            table = table.append_column(self._prefix + name, [np.asarray(values)])
        return table


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)
