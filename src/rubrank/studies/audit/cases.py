"""What an audit looks at: verdicts of several judges about the same rollouts, brought into the same rows and columns.

    {"main": [table, table_again], "ranker": table}, humans=labels        →        Cases

Rows are the rollouts of the first table, sorted by group; columns are criteria. A judge may have been asked about fewer
groups or criteria: those cells are *not asked*, which is not the same as *missing*. Scores on which lower is better are
turned round, so that higher is better everywhere. Where responses were compared instead of scored, the score is the
share of its comparisons that a response won, and the outcomes are kept for the fits that can use them.
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
    """(M, K)"""
    margins: np.ndarray
    """(groups, K)"""
    outcomes: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)
    """(group, column) → (n, n), where responses were compared."""


@dataclass(frozen=True, eq=False)
class Cases:
    """Rows and columns, and what each rater said about them."""

    labels: tuple[Hashable, ...]
    """Of the groups."""
    starts: np.ndarray
    """Group g is rows starts[g] .. starts[g + 1]."""
    order: np.ndarray
    """Row i is the caller's row order[i]."""
    criteria: tuple[str, ...]
    judges: dict[str, tuple[JudgeRun, ...]]
    humans: tuple[JudgeRun, ...] = ()
    provenance: Mapping[str, tuple[Provenance | None, ...]] = field(default_factory=dict)
    """Of every judge's runs, what their tables say about how they were judged."""

    @property
    def of_row(self) -> np.ndarray:
        """The number of every row's group."""
        return np.repeat(np.arange(len(self.labels)), np.diff(self.starts))


def read_cases(
    scores: Mapping[str, Runs] | Scores,
    humans: Runs | None,
    groups: ArrayLike | Sequence[Hashable] | None,
    criteria: Sequence[str] | None,
) -> Cases:
    """Everybody's verdicts in the same rows and columns; raises for what does not fit together."""
    by_judge: Mapping[str, Runs] = scores if isinstance(scores, Mapping) else {"judge": scores}
    if not by_judge:
        raise InvalidInput(_OWNER, "scores", "those of at least one judge", "none", "Pass {name: scores}.")
    runs = {str(name): _list_runs(judge_runs) for name, judge_runs in by_judge.items()}
    people = [] if humans is None else _list_runs(humans)
    everything = [("humans", people), *((f"judge {name!r}", judge_runs) for name, judge_runs in runs.items())]
    tables = {isinstance(scores_of_run, ScoreTable) for _, judge_runs in everything for scores_of_run in judge_runs}
    if len(tables) > 1:
        raise InvalidInput(_OWNER, "scores", "all score tables, or all arrays", "both", "Turn one into the other.")
    if tables.pop():
        if groups is not None:
            raise InvalidInput(_OWNER, "groups", "left out with score tables", "given", "Tables know their groups.")
        return _cases_of_tables(runs, people, criteria)
    return _cases_of_arrays(runs, people, groups, criteria)


def _list_runs(given: Any) -> list[Any]:
    """One run, or several."""
    several = isinstance(given, list | tuple) and len(given) > 0
    if several and all(isinstance(item, ScoreTable) or np.ndim(item) >= 2 for item in given):
        return list(given)
    return [given]


# -------------------------------------------------------------------------------------------------------------- arrays


def _cases_of_arrays(
    runs: Mapping[str, list[Any]], people: list[Any], groups: Any, criteria: Sequence[str] | None
) -> Cases:
    first = _read_array("scores", next(iter(runs.values()))[0])
    if groups is None:
        size = first.shape[1] if first.ndim == 3 else len(first)
        count = first.shape[0] if first.ndim == 3 else 1
        of_row, labels = np.repeat(np.arange(count), size), tuple(range(count))
    else:
        listed = np.asarray(groups).tolist()
        if not isinstance(listed, list) or not all(isinstance(label, Hashable) for label in listed):
            raise InvalidInput(_OWNER, "groups", "a list of labels", repr(groups)[:80], "")
        of_row, labels = number_labels(listed)[0], tuple(dict.fromkeys(listed))
    rows, K = int(np.prod(first.shape[:-1])), first.shape[-1]
    if len(of_row) != rows:
        raise InvalidInput(_OWNER, "groups", f"{rows} labels, one per rollout", str(len(of_row)), "")
    names = tuple(f"criterion {k + 1}" for k in range(K)) if criteria is None else tuple(criteria)
    if len(names) != K or len(set(names)) != K:
        raise InvalidInput(_OWNER, "criteria", f"{K} different names", repr(list(names)), "")
    order = np.argsort(of_row, kind="stable")
    starts = np.concatenate([[0], np.bincount(of_row, minlength=len(labels)).cumsum()])
    no_margins = np.zeros((len(labels), K))

    def run(what: str, arrays: Any) -> JudgeRun:
        array = _read_array(what, arrays)
        if array.shape != first.shape:
            raise InvalidInput(_OWNER, what, f"of shape {first.shape}", f"shape {array.shape}", "NaN = not scored.")
        flat = array.reshape(rows, K)[order]
        return JudgeRun(flat, np.ones_like(flat, bool), no_margins)

    judges = {name: tuple(run(f"scores of {name!r}", one) for one in arrays) for name, arrays in runs.items()}
    return Cases(labels, starts, order, names, judges, tuple(run("humans", one) for one in people))


def _read_array(what: str, given: Any) -> np.ndarray:
    try:
        array = np.array(given, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidInput(_OWNER, what, "numbers", f"something else ({error})", "NaN = not scored.") from None
    if array.ndim not in (2, 3) or 0 in array.shape or np.isinf(array).any():
        got = "infinity" if np.isinf(array).any() else f"shape {array.shape}"
        allowed = "finite numbers or NaN of shape (rollouts, criteria) or (groups, rollouts, criteria)"
        raise InvalidInput(_OWNER, what, allowed, got, "One row is one rollout, one column one criterion.")
    return array


# -------------------------------------------------------------------------------------------------------------- tables


def _cases_of_tables(
    runs: Mapping[str, list[ScoreTable]], people: list[ScoreTable], criteria: Sequence[str] | None
) -> Cases:
    everyone = [table for tables in runs.values() for table in tables]
    first = everyone[0]
    names = _judged_criteria(everyone) if criteria is None else _check_criteria(everyone, criteria)
    starts = np.concatenate([[0], np.cumsum([len(group.scores) for group in first])]).astype(np.int64)
    number = {group.id: g for g, group in enumerate(first)}
    if len(number) == 0:
        raise InvalidInput(_OWNER, "scores", "of at least one group", "none", "")

    def run(what: str, table: ScoreTable) -> JudgeRun:
        return _read_table(what, table, number, starts, names)

    judges = {name: tuple(run(f"judge {name!r}", table) for table in tables) for name, tables in runs.items()}
    labels = tuple(number)
    return Cases(
        labels,
        starts,
        np.arange(starts[-1]),
        names,
        judges,
        tuple(run("humans", table) for table in people),
        {name: tuple(table.provenance for table in tables) for name, tables in runs.items()},
    )


def _judged_criteria(tables: Sequence[ScoreTable]) -> tuple[str, ...]:
    """The criteria that no program decides."""
    every = (criterion for table in tables for group in table for criterion in group.criteria)
    names = tuple(dict.fromkeys(criterion.name for criterion in every if criterion.verifier is None))
    if not names:
        raise InvalidInput(
            _OWNER, "criteria", "some that a judge decides", "rule criteria only", "Name those to look at."
        )
    return names


def _check_criteria(tables: Sequence[ScoreTable], criteria: Sequence[str]) -> tuple[str, ...]:
    available = {name for table in tables for name in table.criteria}
    for name in criteria:
        if name not in available:
            raise UnknownName.of(_OWNER, "criteria", name, available)
    return tuple(dict.fromkeys(criteria))


def _read_table(
    what: str, table: ScoreTable, number: Mapping[str, int], starts: np.ndarray, names: tuple[str, ...]
) -> JudgeRun:
    K = len(names)
    run = JudgeRun(np.full((starts[-1], K), np.nan), np.zeros((starts[-1], K), bool), np.zeros((len(number), K)))
    column = {name: k for k, name in enumerate(names)}
    for group in table:
        g = _group_number(what, group, number, starts)
        for at, criterion in enumerate(group.criteria):
            if criterion.name in column:
                _put_scores(run, group, at, g, column[criterion.name], slice(starts[g], starts[g + 1]))
    return run


def _group_number(what: str, group: GroupScores, number: Mapping[str, int], starts: np.ndarray) -> int:
    remedy = "All tables must be about the same rollouts; put the one with most groups first."
    if group.id not in number:
        raise InvalidInput(_OWNER, what, "about groups of the first table", f"group {group.id!r}", remedy)
    g = number[group.id]
    size = int(starts[g + 1] - starts[g])
    if len(group.scores) != size:
        got = f"{len(group.scores)} rollouts in group {group.id!r}"
        raise InvalidInput(_OWNER, what, f"about the same {size} rollouts", got, remedy)
    return g


def _put_scores(run: JudgeRun, group: GroupScores, at: int, g: int, k: int, rows: slice) -> None:
    criterion = group.criteria[at]
    run.asked[rows, k] = True
    run.margins[g, k] = criterion.margin
    compared = group.outcomes.get(criterion.name)
    if compared is None:
        run.scores[rows, k] = group.scores[:, at] * (1.0 if criterion.direction == "higher" else -1.0)
        return
    run.outcomes[g, k] = compared
    run.scores[rows, k] = won_shares(compared)


def won_shares(table: np.ndarray) -> np.ndarray:
    """(n, n) → the share of its comparisons that each one won; NaN where it was not compared."""
    compared = ~np.isnan(table)
    np.fill_diagonal(compared, False)
    count = compared.sum(axis=1)
    won = np.where(compared, table, 0.0).sum(axis=1)
    return np.where(count > 0, won / np.maximum(count, 1), np.nan)


def group_outcomes(cases: Cases, run: JudgeRun, g: int, k: int) -> np.ndarray:
    """(n, n): who beat whom in group g on criterion k; NaN = not compared, as no rollout is with itself."""
    rows = slice(cases.starts[g], cases.starts[g + 1])
    table = run.outcomes.get((g, k))
    beaten = outcomes(run.scores[rows, k : k + 1], run.margins[g, k])[:, :, 0] if table is None else table.copy()
    np.fill_diagonal(beaten, np.nan)
    return beaten


# ------------------------------------------------------------------------------------- how the tables were judged


def refuse_same_replies(provenance: Mapping[str, Sequence[Provenance | None]]) -> None:
    """Raise InvalidInput if two runs of a judge were answered by the same replies.

    A second run over the same cache gives the same verdicts, and its self-consistency would be a meaningless 1.00.
    """
    for judge, runs in provenance.items():
        for (i, first), (j, second) in combinations(enumerate(runs, 1), 2):
            if first is None or second is None:
                continue
            shared = [id for id, replies in first.replies.items() if set(replies) & set(second.replies.get(id, ()))]
            if shared:
                got = f"runs {i} and {j}, which share replies in {len(shared)} groups, such as {shared[0]!r}"
                raise InvalidInput(
                    _OWNER,
                    f"runs of judge {judge!r}",
                    "asked independently of each other",
                    got,
                    "Ask again with another cache, or at least with another seed.",
                )


def count_positions(
    provenance: Mapping[str, Sequence[Provenance | None]],
) -> dict[str, dict[str, tuple[float, int]]]:
    """Wins of the response shown first over all runs of every judge that compared."""
    totals: dict[str, dict[str, tuple[float, int]]] = {}
    for judge, runs in provenance.items():
        for run in runs:
            if run is None:
                continue
            for criterion, (won, n) in run.positions.items():
                won_before, n_before = totals.setdefault(judge, {}).get(criterion, (0.0, 0))
                totals[judge][criterion] = (won_before + won, n_before + n)
    return totals
