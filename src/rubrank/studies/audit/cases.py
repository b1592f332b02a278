"""The data of an audit: verdicts of several judges about the same rollouts, in the same rows and columns.

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

from rubrank.errors import InvalidInput, UnknownName
from rubrank.judges.judgments import Provenance
from rubrank.scores.outcomes import outcomes
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.studies.statistics import number_labels

Scores: TypeAlias = ScoreTable | ArrayLike
Runs: TypeAlias = Scores | Sequence[Scores]

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
    """Rows (rollouts) and columns (criteria), and the verdicts of each rater about them."""

    labels: tuple[Hashable, ...]
    """The labels of the groups."""
    starts: np.ndarray
    """Group g is rows starts[g] .. starts[g + 1]."""
    order: np.ndarray
    """Row i is the caller's row order[i]."""
    criteria: tuple[str, ...]
    judges: dict[str, tuple[JudgeRun, ...]]
    humans: tuple[JudgeRun, ...] = ()
    provenance: Mapping[str, tuple[Provenance | None, ...]] = field(default_factory=dict)
    """Judge → what the table of each run says about how it was judged."""

    @property
    def group_of_row(self) -> np.ndarray:
        """The number of every row's group."""
        return np.repeat(np.arange(len(self.labels)), np.diff(self.starts))

    def rows_of(self, g: int) -> slice:
        """The rows of group g."""
        return slice(self.starts[g], self.starts[g + 1])


def read_cases(
    scores: Mapping[str, Runs] | Scores,
    humans: Runs | None,
    groups: ArrayLike | Sequence[Hashable] | None,
    criteria: Sequence[str] | None,
) -> Cases:
    """All verdicts in the same rows and columns; raises for what does not fit together."""
    by_judge: Mapping[str, Runs] = scores if isinstance(scores, Mapping) else {"judge": scores}
    if not by_judge:
        raise InvalidInput(
            _OWNER, "scores", "those of at least one judge", "none", "Pass {name: scores}."
        )
    runs = {str(name): _list_runs(judge_runs) for name, judge_runs in by_judge.items()}
    labels = [] if humans is None else _list_runs(humans)
    all_runs = [*labels, *(run for judge_runs in runs.values() for run in judge_runs)]
    are_tables = {isinstance(run, ScoreTable) for run in all_runs}
    if len(are_tables) > 1:
        raise InvalidInput(
            _OWNER, "scores", "all score tables, or all arrays", "both", "Turn one into the other."
        )
    if not are_tables.pop():
        return _read_arrays(runs, labels, groups, criteria)
    if groups is not None:
        raise InvalidInput(
            _OWNER, "groups", "left out with score tables", "given", "Tables know their groups."
        )
    return _read_tables(runs, labels, criteria)


def _list_runs(runs: Any) -> list[Any]:
    """The runs of a rater as a list, also if there is only one."""
    is_list = isinstance(runs, list | tuple) and len(runs) > 0
    if is_list and all(isinstance(run, ScoreTable) or np.ndim(run) >= 2 for run in runs):
        return list(runs)
    return [runs]


def compare_group(cases: Cases, run: JudgeRun, g: int, k: int) -> np.ndarray:
    """(n, n): who beat whom in group g on criterion k; NaN if not compared, which includes the diagonal."""
    table = run.outcomes.get((g, k))
    if table is None:
        table = outcomes(run.scores[cases.rows_of(g), k : k + 1], run.margins[g, k])[:, :, 0]
    beats = table.copy()
    np.fill_diagonal(beats, np.nan)
    return beats


# -------------------------------------------------------------------------------------------------------------- arrays


def _read_arrays(
    runs: Mapping[str, list[Any]], labels: list[Any], groups: Any, criteria: Sequence[str] | None
) -> Cases:
    first = _read_array("scores", next(iter(runs.values()))[0])
    row_count = int(np.prod(first.shape[:-1]))
    K = first.shape[-1]
    group_labels: Any
    if groups is None:
        group_count = first.shape[0] if first.ndim == 3 else 1
        group_of_row = np.repeat(np.arange(group_count), row_count // group_count)
        group_labels = range(group_count)
    else:
        group_labels = np.asarray(groups).tolist()
        if not isinstance(group_labels, list) or not all(
            isinstance(label, Hashable) for label in group_labels
        ):
            raise InvalidInput(_OWNER, "groups", "a list of labels", repr(groups)[:80], "")
        group_of_row = number_labels(group_labels)[0]
        group_labels = dict.fromkeys(group_labels)
    if len(group_of_row) != row_count:
        raise InvalidInput(
            _OWNER, "groups", f"{row_count} labels, one per rollout", str(len(group_of_row)), ""
        )
    names = tuple(f"criterion {k + 1}" for k in range(K)) if criteria is None else tuple(criteria)
    if len(names) != K or len(set(names)) != K:
        raise InvalidInput(_OWNER, "criteria", f"{K} different names", repr(list(names)), "")
    order = np.argsort(group_of_row, kind="stable")
    starts = np.concatenate([[0], np.bincount(group_of_row, minlength=len(group_labels)).cumsum()])
    no_margins = np.zeros((len(group_labels), K))

    def read_run(what: str, data: Any) -> JudgeRun:
        array = _read_array(what, data)
        if array.shape != first.shape:
            raise InvalidInput(
                _OWNER, what, f"of shape {first.shape}", f"shape {array.shape}", "NaN = not scored."
            )
        scores = array.reshape(row_count, K)[order]
        return JudgeRun(scores, np.ones_like(scores, bool), no_margins)

    judges = {
        name: tuple(read_run(f"scores of {name!r}", run) for run in judge_runs)
        for name, judge_runs in runs.items()
    }
    humans = tuple(read_run("humans", run) for run in labels)
    return Cases(tuple(group_labels), starts, order, names, judges, humans)


def _read_array(what: str, data: Any) -> np.ndarray:
    try:
        array = np.array(data, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            _OWNER, what, "numbers", f"something else ({error})", "NaN = not scored."
        ) from None
    if array.ndim not in (2, 3) or 0 in array.shape or np.isinf(array).any():
        got = "infinity" if np.isinf(array).any() else f"shape {array.shape}"
        allowed = (
            "finite numbers or NaN of shape (rollouts, criteria) or (groups, rollouts, criteria)"
        )
        raise InvalidInput(
            _OWNER, what, allowed, got, "One row is one rollout, one column one criterion."
        )
    return array


# -------------------------------------------------------------------------------------------------------------- tables


def _read_tables(
    runs: Mapping[str, list[ScoreTable]], labels: list[ScoreTable], criteria: Sequence[str] | None
) -> Cases:
    judge_tables = [table for tables in runs.values() for table in tables]
    if criteria is None:
        all_criteria = (
            criterion for table in judge_tables for group in table for criterion in group.criteria
        )
        names = tuple(
            dict.fromkeys(
                criterion.name for criterion in all_criteria if criterion.verifier is None
            )
        )
        if not names:
            remedy = "Name those to look at."
            raise InvalidInput(
                _OWNER, "criteria", "some that a judge decides", "rule criteria only", remedy
            )
    else:
        available = {name for table in judge_tables for name in table.criteria}
        for name in criteria:
            if name not in available:
                raise UnknownName.of(_OWNER, "criteria", name, available)
        names = tuple(dict.fromkeys(criteria))
    first = judge_tables[0]
    group_numbers = {group.id: g for g, group in enumerate(first)}
    if not group_numbers:
        raise InvalidInput(_OWNER, "scores", "of at least one group", "none", "")
    starts = np.concatenate([[0], np.cumsum([len(group.scores) for group in first])]).astype(
        np.int64
    )
    judges = {}
    for name, tables in runs.items():
        judges[name] = tuple(
            _read_table(f"judge {name!r}", table, group_numbers, starts, names) for table in tables
        )
    return Cases(
        labels=tuple(group_numbers),
        starts=starts,
        order=np.arange(starts[-1]),
        criteria=names,
        judges=judges,
        humans=tuple(
            _read_table("humans", table, group_numbers, starts, names) for table in labels
        ),
        provenance={
            name: tuple(table.provenance for table in tables) for name, tables in runs.items()
        },
    )


def _read_table(
    what: str,
    table: ScoreTable,
    group_numbers: Mapping[str, int],
    starts: np.ndarray,
    names: tuple[str, ...],
) -> JudgeRun:
    """One table in the rows and columns of the cases; what: whose table it is, for messages."""
    shape = (int(starts[-1]), len(names))
    run = JudgeRun(
        np.full(shape, np.nan), np.zeros(shape, bool), np.zeros((len(group_numbers), len(names)))
    )
    for group in table:
        g = _find_group(what, group, group_numbers, starts)
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
                run.scores[rows, k] = _compute_win_shares(compared)
            else:
                sign = 1.0 if criterion.direction == "higher" else -1.0
                run.scores[rows, k] = group.scores[:, column] * sign
    return run


def _find_group(
    what: str, group: GroupScores, group_numbers: Mapping[str, int], starts: np.ndarray
) -> int:
    """The number of a table's group; raises InvalidInput if the first table does not have it in the same size."""
    remedy = "All tables must be about the same rollouts; put the one with most groups first."
    if group.id not in group_numbers:
        raise InvalidInput(
            _OWNER, what, "about groups of the first table", f"group {group.id!r}", remedy
        )
    g = group_numbers[group.id]
    size = int(starts[g + 1] - starts[g])
    if len(group.scores) != size:
        got = f"{len(group.scores)} rollouts in group {group.id!r}"
        raise InvalidInput(_OWNER, what, f"about the same {size} rollouts", got, remedy)
    return g


def _compute_win_shares(table: np.ndarray) -> np.ndarray:
    """(n, n) → the share of its comparisons that each rollout won; NaN if it was not compared."""
    is_compared = ~np.isnan(table)
    np.fill_diagonal(is_compared, False)
    count = is_compared.sum(axis=1)
    wins = np.where(is_compared, table, 0.0).sum(axis=1)
    return np.where(count > 0, wins / np.maximum(count, 1), np.nan)


# ------------------------------------------------------------------------------------- how the tables were judged


def check_independent_runs(provenance: Mapping[str, Sequence[Provenance | None]]) -> None:
    """Raise InvalidInput if two runs of a judge were answered by the same replies.

    A second run over the same cache gives the same verdicts, and its self-consistency would be a meaningless 1.00.
    """
    for judge, runs in provenance.items():
        for (i, first), (j, second) in combinations(enumerate(runs, 1), 2):
            if first is None or second is None:
                continue
            shared = [
                id
                for id, replies in first.replies.items()
                if set(replies) & set(second.replies.get(id, ()))
            ]
            if shared:
                got = f"runs {i} and {j}, which share replies in {len(shared)} groups, such as {shared[0]!r}"
                remedy = "Ask again with another cache, or at least with another seed."
                raise InvalidInput(
                    _OWNER,
                    f"runs of judge {judge!r}",
                    "asked independently of each other",
                    got,
                    remedy,
                )


def count_positions(
    provenance: Mapping[str, Sequence[Provenance | None]],
) -> dict[str, dict[str, tuple[float, int]]]:
    """Judge → criterion → (wins of the response shown first, comparisons), over all runs that compared."""
    totals: dict[str, dict[str, tuple[float, int]]] = {}
    for judge, runs in provenance.items():
        for run in runs:
            if run is None:
                continue
            for criterion, (wins, comparisons) in run.positions.items():
                counts = totals.setdefault(judge, {})
                earlier_wins, earlier_comparisons = counts.get(criterion, (0.0, 0))
                counts[criterion] = (earlier_wins + wins, earlier_comparisons + comparisons)
    return totals
