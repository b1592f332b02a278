"""Put the verdicts of several judges about the same rollouts into the same rows and columns, for an audit.

    {"main": [table, table_again], "ranker": table}, humans=labels        →        Cases

Rows are the rollouts of the first table, sorted by group; columns are criteria. A judge may have been asked about fewer
groups or criteria: those cells are *not asked*, which is not the same as *missing*. Scores on which lower is better are
negated, so that higher is better everywhere. If responses were compared instead of scored, the score of a response is
the share of its comparisons that it won, and the outcomes are kept for the fits that can use them.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from rubrank._plain import shorten
from rubrank.errors import InvalidInput, UnknownName
from rubrank.judges.judgments import Provenance
from rubrank.scores.criterion import CriterionData
from rubrank.scores.outcomes import compute_win_rates, outcomes
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.studies.statistics import number_labels

Scores: TypeAlias = ScoreTable | ArrayLike
Runs: TypeAlias = Scores | Sequence[Scores]
"""The scores of one rater: of one run, or a list with those of several runs."""

_OWNER = "audit"


@dataclass(frozen=True, eq=False)
class JudgeRun:
    """All verdicts of one judge, asked once."""

    scores: np.ndarray
    """(M, K), higher is better; NaN = missing or not asked."""
    asked: np.ndarray
    """(M, K), True if the judge was asked about the cell."""
    margins: np.ndarray
    """(groups, K): scores that differ by no more than the margin tie."""
    outcomes: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)
    """(group, column) → who beat whom, as (n, n), if responses were compared."""


@dataclass(frozen=True, eq=False)
class Cases:
    """The verdicts of all raters, as arrays with the same M rows (rollouts) and K columns (criteria)."""

    starts: np.ndarray
    """Group g is rows starts[g] .. starts[g + 1]; one entry more than there are groups."""
    order: np.ndarray
    """Row i is the caller's row order[i]."""
    criteria: tuple[str, ...]
    judges: dict[str, tuple[JudgeRun, ...]]
    """Judge → its runs, one for each time that it was asked."""
    humans: tuple[JudgeRun, ...] = ()
    """One run for each human rater."""
    provenance: Mapping[str, tuple[Provenance | None, ...]] = field(default_factory=dict)
    """Judge → what the table of each run says about how it was judged."""

    @property
    def group_count(self) -> int:
        """The number of groups."""
        return len(self.starts) - 1

    @property
    def group_of_row(self) -> np.ndarray:
        """(M,): the number of every row's group."""
        return np.repeat(np.arange(self.group_count), np.diff(self.starts))

    def list_parts(self, is_measured: ArrayLike) -> list[tuple[str | None, list[int]]]:
        """Return (criterion, its column) for each criterion that is measured, then (None, all these columns)."""
        columns = np.flatnonzero(is_measured).tolist()
        parts: list[tuple[str | None, list[int]]] = [(self.criteria[k], [k]) for k in columns]
        return [*parts, (None, columns)] if columns else []

    def find_rows(self, g: int) -> slice:
        """Return the rows of group g."""
        return slice(self.starts[g], self.starts[g + 1])


def read_cases(
    scores: Mapping[str, Runs] | Scores,
    humans: Runs | None,
    groups: ArrayLike | Sequence[Hashable] | None,
    criteria: Sequence[str] | None,
) -> Cases:
    """Return all verdicts in the same rows and columns; the arguments are those of `audit`.

    Raises InvalidInput if the tables or arrays are not about the same rollouts, and UnknownName for unknown criteria.
    """
    by_judge: Mapping[str, Runs] = scores if isinstance(scores, Mapping) else {"judge": scores}
    judge_runs = {str(name): _list_runs(runs) for name, runs in by_judge.items()}
    human_runs = [] if humans is None else _list_runs(humans)
    all_runs = [*(run for runs in judge_runs.values() for run in runs), *human_runs]
    if not judge_runs or len({isinstance(run, ScoreTable) for run in all_runs}) > 1:
        allowed = "those of at least one judge: all score tables, or all arrays"
        raise InvalidInput(_OWNER, "scores", allowed, f"{len(all_runs)} runs")
    if isinstance(all_runs[0], ScoreTable):
        if groups is not None:
            allowed = "left out with score tables, which know their groups"
            raise InvalidInput(_OWNER, "groups", allowed, "given")
        return _read_tables(judge_runs, human_runs, criteria, order=np.arange(len(all_runs[0])))
    arrays = [_read_array(run) for run in all_runs]
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        raise InvalidInput(_OWNER, "scores", "arrays of the same shape", f"{sorted(shapes)}")
    names = name_columns("criteria", criteria, arrays[0].shape[-1])
    columns = tuple(map(CriterionData, names))
    group_of_row = _number_groups(groups, arrays[0].shape)

    def make_table(run: Any) -> ScoreTable:
        """Return the table of an array; NaN is a missing verdict, since an array cannot say what was not asked."""
        rows = _read_array(run).reshape(len(group_of_row), -1)
        return ScoreTable(
            tuple(
                GroupScores(str(g), columns, rows[group_of_row == g], reasons=())
                for g in range(group_of_row.max() + 1)
            )
        )

    judge_tables = {name: [make_table(run) for run in runs] for name, runs in judge_runs.items()}
    human_tables = [make_table(run) for run in human_runs]
    order = np.argsort(group_of_row, kind="stable")
    return _read_tables(judge_tables, human_tables, names, order)


def _list_runs(runs: Any) -> list[Any]:
    """Return the runs of a rater as a list, also if there is only one.

    A list of tables or of arrays is a list of runs. A nested list of numbers is a single run: [[[1, 0], [0, 1]]] is one
    group of two rollouts, and not one run of two rollouts.
    """
    if isinstance(runs, list | tuple):
        for run in runs:
            if isinstance(run, ScoreTable) or getattr(run, "ndim", 0) >= 2:
                return list(runs)
    return [runs]


def compare_group(cases: Cases, run: JudgeRun, g: int, k: int) -> np.ndarray:
    """Return who beat whom in group g on criterion k, as (n, n): 1 = row beats column, 0.5 = tie, NaN = not compared.

    The diagonal is NaN.
    """
    table = run.outcomes.get((g, k))
    if table is None:
        table = outcomes(run.scores[cases.find_rows(g), k : k + 1], run.margins[g, k])[:, :, 0]
    beats = table.copy()
    np.fill_diagonal(beats, np.nan)
    return beats


# -------------------------------------------------------------------------------------------------------------- arrays


def _number_groups(groups: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return the number of every row's group: from its label, or from its place in an array of three axes."""
    rows = int(np.prod(shape[:-1]))
    if groups is None:
        group_count = shape[0] if len(shape) == 3 else 1
        return np.repeat(np.arange(group_count), rows // group_count)
    # NumPy would turn a list of tuples into a matrix, but a tuple is a label like any other.
    labels = groups if isinstance(groups, list | tuple) else np.asarray(groups).tolist()
    try:
        group_of_row, _ = number_labels(labels)
    except TypeError:  # a single number, or labels that are lists
        group_of_row = np.zeros(0)
    if len(group_of_row) != rows:
        allowed = f"a list of {rows} labels, one per rollout"
        raise InvalidInput(_OWNER, "groups", allowed, shorten(repr(groups)))
    return group_of_row


def name_columns(parameter: str, names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """Return the names of the columns of an array; by default "criterion 1", "criterion 2" …"""
    if names is None:
        noun = "criterion" if parameter == "criteria" else "attribute"
        return tuple(f"{noun} {number + 1}" for number in range(count))
    if len(names) != count or len(set(names)) != count:
        allowed = f"{count} different names"
        raise InvalidInput(_OWNER, parameter, allowed, repr(list(names)))
    return tuple(names)


def _read_array(scores: Any) -> np.ndarray:
    """Return scores as an array of two or three axes."""
    try:
        array = np.array(scores, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidInput(_OWNER, "scores", "numbers", f"something else ({error})") from None
    if array.ndim not in (2, 3) or 0 in array.shape or np.isinf(array).any():
        shapes = "(rollouts, criteria) or (groups, rollouts, criteria)"
        allowed = f"finite numbers or NaN of shape {shapes}"
        got = f"shape {array.shape}, or infinity"
        raise InvalidInput(_OWNER, "scores", allowed, got, "Several runs are a list of arrays.")
    return array


# -------------------------------------------------------------------------------------------------------------- tables


def _read_tables(
    judge_tables: Mapping[str, list[ScoreTable]],
    human_tables: list[ScoreTable],
    criteria: Sequence[str] | None,
    order: np.ndarray,
) -> Cases:
    """Return the cases of score tables; the first judge's first table has all groups, the others may have fewer."""
    all_tables = [table for tables in judge_tables.values() for table in tables]
    all_criteria = [criterion for table in all_tables for criterion in table.collect_criteria()]
    if criteria is None:
        # By default those that a judge decides; a criterion with a verifier is decided by a rule.
        criteria = [criterion.name for criterion in all_criteria if criterion.verifier is None]
    available = {criterion.name for criterion in all_criteria}
    for name in criteria:
        if name not in available:
            raise UnknownName.of(_OWNER, "criteria", name, available)
    names = tuple(dict.fromkeys(criteria))
    if not names:
        allowed = "some that a judge decides, in at least one group"
        raise InvalidInput(_OWNER, "criteria", allowed, "none", "Name those to look at.")
    first = all_tables[0]
    starts = np.cumsum([0, *(len(group.scores) for group in first)])
    judges = {}
    provenance = {}
    for judge, tables in judge_tables.items():
        judges[judge] = tuple(
            _read_table(f"judge {judge!r}", table, first, starts, names) for table in tables
        )
        provenance[judge] = tuple(table.provenance for table in tables)
    humans = tuple(_read_table("humans", table, first, starts, names) for table in human_tables)
    return Cases(starts, order, names, judges, humans, provenance)


def _read_table(
    whose: str, table: ScoreTable, first: ScoreTable, starts: np.ndarray, names: tuple[str, ...]
) -> JudgeRun:
    """Return the verdicts of one table in the rows of the first table, with the named criteria as columns.

    whose: the parameter that messages name. starts: the first row of every group of the first table.
    Raises InvalidInput if a group is not in the first table, or has other rollouts there.
    """
    group_numbers = {group.id: g for g, group in enumerate(first)}
    shape = (int(starts[-1]), len(names))
    run = JudgeRun(
        scores=np.full(shape, np.nan),
        asked=np.zeros(shape, bool),
        margins=np.zeros((len(first.groups), len(names))),
    )
    for group in table:
        g = group_numbers.get(group.id)
        if g is None or _has_other_rollouts(group, first.groups[g]):
            raise InvalidInput(
                _OWNER,
                whose,
                allowed="about the same rollouts as the first table, in the same order",
                got=f"others, or another order, in group {group.id!r}",
                remedy="Put the table with most groups first.",
            )
        rows = slice(starts[g], starts[g + 1])
        for column, criterion in enumerate(group.criteria):
            if criterion.name not in names:
                continue
            k = names.index(criterion.name)
            run.asked[rows, k] = ~group.not_asked[:, column]
            run.margins[g, k] = criterion.margin
            compared = group.outcomes.get(criterion.name)
            if compared is not None:
                run.outcomes[g, k] = compared
                run.scores[rows, k] = compute_win_rates(compared)
            else:
                sign = 1.0 if criterion.direction == "higher" else -1.0
                run.scores[rows, k] = group.scores[:, column] * sign
    return run


def _has_other_rollouts(group: GroupScores, first: GroupScores) -> bool:
    """Return whether a group has other rollouts, or another order of them, than the one in the first table.

    They are recognised by their digests, or by their ids if both tables have them.
    """
    if len(group.scores) != len(first.scores):
        return True
    if group.digests and first.digests:
        return group.digests != first.digests
    # One table may number its rollouts and the other name them: then their ids say nothing.
    has_same_ids = sorted(group.rollout_ids) == sorted(first.rollout_ids)
    return has_same_ids and group.rollout_ids != first.rollout_ids


# ------------------------------------------------------------------------------------- how the tables were judged


def check_independent_runs(provenance: Mapping[str, Sequence[Provenance | None]]) -> None:
    """Raise InvalidInput if two runs of a judge were answered by the same replies.

    A second run over the same cache gives the same verdicts, and its self-consistency would be a meaningless 1.00.
    """
    for judge, runs in provenance.items():
        for (i, first), (j, second) in combinations(enumerate(runs, 1), 2):
            if first is None or second is None:
                continue
            shared_groups = []
            for group, replies in first.replies.items():
                if set(replies) & set(second.replies.get(group, ())):
                    shared_groups.append(group)
            if shared_groups:
                count = len(shared_groups)
                example = repr(shared_groups[0])
                raise InvalidInput(
                    _OWNER,
                    f"runs of judge {judge!r}",
                    allowed="asked independently of each other",
                    got=f"runs {i} and {j}, which share replies in {count} groups, such as {example}",
                    remedy="Ask again with another cache, or at least with another seed.",
                )
