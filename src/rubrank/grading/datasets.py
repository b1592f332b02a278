"""Ray datasets of rollouts → the same rows with their scores, lazily: for more than one process can hold.

    scored = on_ray(ray.data.read_parquet("rollouts/"), "rubric.yaml", group="uid", judges="judges.yaml")
    scored.write_parquet("scored/")

Every criterion adds two columns: its scores (NaN = missing) under its name, and the reasons under "NAME (reason)".
Criteria about one rollout need no shuffle; those about a whole group (`GroupDiversity`, judges that compare) bring the
rows of a group together first, by `groupby(group).map_groups`, and comparisons add the column "outcomes".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rubrank._plain import clean
from rubrank.errors import InvalidInput, only_our_errors
from rubrank.grading.cluster import found_ray, processors
from rubrank.grading.options import GradeOptions, Timeout, loaded_judges
from rubrank.grading.plan import plan_of, shared_rubric
from rubrank.grading.ray_data import OWNER, ActorSetting, Grader, _absolute, _checked_setting, actors, limits_of
from rubrank.judges import COMPARES
from rubrank.judges.judge import Judges
from rubrank.rollouts.reading import groups_of_rows
from rubrank.rollouts.rollout import Group
from rubrank.rubrics.rubric import Rubric
from rubrank.scores.output import OUTCOMES, REASON_SUFFIX, outcomes_text
from rubrank.scores.table import GroupScores
from rubrank.tables.columns import COLUMNS
from rubrank.verifiers.verifier import Compat, Mode

_ROW = "row of the batch"
_AT_ONCE, _JUDGED_AT_ONCE = 2048, 1024  # rows of a batch; with 256 a row of rules takes a third longer


@only_our_errors
def on_ray(
    dataset: Any,
    rubric: Rubric | str | Path | Any,
    *,
    group: str = "uid",
    compat: Compat = "fixed",
    mode: Mode = "strict",
    workers: int | None = None,
    cache: str | Path | None = None,
    columns: Mapping[str, str] | None = None,
    timeout: Timeout = "auto",
    judges: Any = None,
    partitions: int | None = None,
) -> Any:
    """A Ray dataset with the scores of its rows, one rollout per row; it is computed when it is used.

    group: the column that names the group of a row; needed where a criterion is about a whole group.
    partitions: of the shuffle that brings groups together; None: four for each processor.
    The others are as for `grade`. Nothing is raised for missing answers of judges: they are NaN, with a reason.
    """
    ray = found_ray(OWNER)
    how = GradeOptions(compat, mode, workers, _absolute(cache), timeout, loaded_judges(judges))
    found = shared_rubric(rubric)
    if found is None:
        raise InvalidInput(OWNER, "rubric", "given: a dataset is graded by one for all", "None", "")
    plan, asked = plan_of(found, how), how.judges
    setting = _checked_setting(ActorSetting(found, how), [plan])
    together = bool(plan.group_checks) or _compared(found, asked)
    _check_columns(dataset.columns() or [], found, group, together)
    number = workers or processors(ray)
    options: dict[str, Any] = {"batch_format": "pyarrow", **actors(ray, number)}
    options["fn_constructor_args"] = (setting, limits_of(ray, setting), group, together, dict(columns or {}))
    if together:
        return dataset.groupby(group, num_partitions=partitions or 4 * number).map_groups(RowGrader, **options)
    return dataset.map_batches(RowGrader, batch_size=_AT_ONCE if asked is None else _JUDGED_AT_ONCE, **options)


def _compared(rubric: Rubric, judges: Judges | None) -> bool:
    """Does a judge compare the rollouts of a group?"""
    found = [judges.judge_of(criterion.name) for criterion in rubric.criteria] if judges is not None else []
    return any(judge is not None and judge.kind in COMPARES for judge in found)


def _check_columns(names: Sequence[str], rubric: Rubric, group: str, together: bool) -> None:
    """Before anything is graded: columns that are missing, would be replaced, or would be left out of account."""
    added = [c.name + end for c in rubric.criteria for end in ("", REASON_SUFFIX)] + [OUTCOMES] * together
    twice = next((name for name in added if name in names), None)
    if twice is not None:
        raise InvalidInput(OWNER, "added columns", "new to the dataset", f"{twice!r} again", "Rename or drop it.")
    if together and group not in names:
        raise InvalidInput(OWNER, "group", "a column of the dataset", repr(group), "Say group=NAME.")
    own = next((name for name in names if name in (*COLUMNS["rubric"], "instruction_id_list")), None)
    if own is not None:
        remedy = "Drop the column, or use `rubrank grade --engine ray`, which takes rubrics of queries."
        raise InvalidInput(OWNER, "dataset", "without rubrics of its rows", f"the column {own!r}", remedy)


class RowGrader:
    """What an actor holds: rows of rollouts (an Arrow table) → the same rows with scores and reasons."""

    def __init__(self, setting: ActorSetting, limits: Any, group: str, together: bool, columns: dict[str, str]) -> None:
        self._grader, self._group, self._together = Grader(setting, limits), group, together
        self._columns = {**columns, "group": _ROW}

    def __call__(self, table: Any) -> Any:
        """A batch, or all rows of a group."""
        import pyarrow as pa

        scored = self._grader.table(self._groups(table.to_pylist())).groups
        for k, criterion in enumerate(scored[0].criteria):
            numbers = [float(x) for group in scored for x in group.scores[:, k]]
            reasons = [clean(row[k]) for group in scored for row in group.reasons]
            table = table.append_column(criterion.name, pa.array(numbers, pa.float64()))
            table = table.append_column(criterion.name + REASON_SUFFIX, pa.array(reasons, pa.string()))
        if self._together:
            table = table.append_column(OUTCOMES, pa.array(_outcomes(scored), pa.string()))
        return table

    def _groups(self, rows: list[dict[str, Any]]) -> list[Group]:
        """One group of each row, or of all: whatever else the rows hold, they belong together."""
        usual = [
            {**{name: x for name, x in row.items() if name != self._group}, _ROW: str(i)} for i, row in enumerate(rows)
        ]
        groups = groups_of_rows(usual, "dataset", self._columns)
        rollouts = tuple(rollout for group in groups for rollout in group.rollouts)
        if len(rollouts) != len(rows):
            raise InvalidInput(OWNER, "dataset", "one rollout per row", "rows with several", "Explode the lists.")
        return [Group(id=str(rows[0][self._group]), rollouts=rollouts)] if self._together else groups


def _outcomes(scored: Sequence[GroupScores]) -> list[str | None]:
    return [outcomes_text(group, i) for group in scored for i in range(len(group.scores))]
