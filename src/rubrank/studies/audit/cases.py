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

from rubrank.errors import InvalidInput, UnknownName
from rubrank.judges.judgments import Provenance
from rubrank.scores.outcomes import outcomes
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.studies.statistics import number_labels

Scores: TypeAlias = ScoreTable | ArrayLike
Runs: TypeAlias = Scores | Sequence[Scores]
"""The scores of one rater: of one run, or a list with those of several runs."""

_OWNER = "audit"
_SAME_ROLLOUTS = "All tables must be about the same rollouts; put the one with most groups first."


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
    if not by_judge:
        raise InvalidInput(
            _OWNER,
            "scores",
            allowed="those of at least one judge",
            got="none",
            remedy="Pass {name: scores}.",
        )
    judge_runs = {str(name): _list_runs(runs) for name, runs in by_judge.items()}
    human_runs = [] if humans is None else _list_runs(humans)
    all_runs = [*human_runs, *(run for runs in judge_runs.values() for run in runs)]
    table_count = sum(isinstance(run, ScoreTable) for run in all_runs)
    if table_count == 0:
        return _read_arrays(judge_runs, human_runs, groups, criteria)
    if table_count < len(all_runs):
        raise InvalidInput(
            _OWNER,
            "scores",
            allowed="all score tables, or all arrays",
            got="both",
            remedy="Turn one into the other.",
        )
    if groups is not None:
        raise InvalidInput(
            _OWNER,
            "groups",
            allowed="left out with score tables",
            got="given",
            remedy="Tables know their groups.",
        )
    return _read_tables(judge_runs, human_runs, criteria)


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


def _read_arrays(
    judge_runs: Mapping[str, list[Any]],
    human_runs: list[Any],
    groups: Any,
    criteria: Sequence[str] | None,
) -> Cases:
    """Return the cases of arrays that all have the shape of the first one: (M, K) or (N, G, K)."""
    first = _read_array("scores", next(iter(judge_runs.values()))[0])
    row_count = int(np.prod(first.shape[:-1]))
    K = first.shape[-1]
    if groups is None:
        group_count = first.shape[0] if first.ndim == 3 else 1
        group_of_row = np.repeat(np.arange(group_count), row_count // group_count)
    else:
        # NumPy would turn a list of tuples into a matrix, but a tuple is a label like any other.
        labels = groups if isinstance(groups, list | tuple) else np.asarray(groups).tolist()
        if not isinstance(labels, list | tuple) or not all(
            isinstance(label, Hashable) for label in labels
        ):
            raise InvalidInput(_OWNER, "groups", allowed="a list of labels", got=repr(groups)[:80])
        group_of_row, group_count = number_labels(labels)
    if len(group_of_row) != row_count:
        raise InvalidInput(
            _OWNER,
            "groups",
            allowed=f"{row_count} labels, one per rollout",
            got=str(len(group_of_row)),
        )
    names = tuple(f"criterion {k + 1}" for k in range(K)) if criteria is None else tuple(criteria)
    if len(names) != K or len(set(names)) != K:
        raise InvalidInput(
            _OWNER, "criteria", allowed=f"{K} different names", got=repr(list(names))
        )
    order = np.argsort(group_of_row, kind="stable")
    starts = np.concatenate([[0], np.bincount(group_of_row, minlength=group_count).cumsum()])

    def read_run(whose: str, run: Any) -> JudgeRun:
        array = _read_array(whose, run)
        if array.shape != first.shape:
            raise InvalidInput(
                _OWNER,
                whose,
                allowed=f"of shape {first.shape}",
                got=f"shape {array.shape}",
                remedy="NaN = not scored.",
            )
        scores = array.reshape(row_count, K)[order]
        # An array cannot say what was not asked: NaN is a missing verdict there.
        return JudgeRun(
            scores, asked=np.ones_like(scores, bool), margins=np.zeros((group_count, K))
        )

    judges = {}
    for name, runs in judge_runs.items():
        judges[name] = tuple(read_run(f"scores of {name!r}", run) for run in runs)
    humans = tuple(read_run("humans", run) for run in human_runs)
    return Cases(starts, order, names, judges, humans)


def _read_array(whose: str, scores: Any) -> np.ndarray:
    """Return scores as an array of two or three axes; whose: the parameter that messages name."""
    try:
        array = np.array(scores, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            _OWNER,
            whose,
            allowed="numbers",
            got=f"something else ({error})",
            remedy="NaN = not scored.",
        ) from None
    has_infinity = bool(np.isinf(array).any())
    if array.ndim not in (2, 3) or 0 in array.shape or has_infinity:
        shapes = "(rollouts, criteria) or (groups, rollouts, criteria)"
        raise InvalidInput(
            _OWNER,
            whose,
            allowed=f"finite numbers or NaN of shape {shapes}",
            got="infinity" if has_infinity else f"shape {array.shape}",
            remedy="Several runs are a list of arrays.",
        )
    return array


# -------------------------------------------------------------------------------------------------------------- tables


def _read_tables(
    judge_tables: Mapping[str, list[ScoreTable]],
    human_tables: list[ScoreTable],
    criteria: Sequence[str] | None,
) -> Cases:
    """Return the cases of score tables; the first judge's first table has all groups, the others may have fewer."""
    all_tables = [table for tables in judge_tables.values() for table in tables]
    if criteria is None:
        # By default those that a judge decides; a criterion with a verifier is decided by a rule.
        judged: dict[str, None] = {}
        for table in all_tables:
            for group in table:
                for criterion in group.criteria:
                    if criterion.verifier is None:
                        judged[criterion.name] = None
        names = tuple(judged)
        if not names:
            raise InvalidInput(
                _OWNER,
                "criteria",
                allowed="some that a judge decides",
                got="rule criteria only",
                remedy="Name those to look at.",
            )
    else:
        available = {name for table in all_tables for name in table.criteria}
        for name in criteria:
            if name not in available:
                raise UnknownName.of(_OWNER, "criteria", name, available)
        names = tuple(dict.fromkeys(criteria))
    first = all_tables[0]
    if not first.groups:
        raise InvalidInput(_OWNER, "scores", allowed="of at least one group", got="none")
    sizes = [len(group.scores) for group in first]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    judges = {}
    provenance = {}
    for judge, tables in judge_tables.items():
        judges[judge] = tuple(
            _read_table(f"judge {judge!r}", table, first, starts, names) for table in tables
        )
        provenance[judge] = tuple(table.provenance for table in tables)
    humans = tuple(_read_table("humans", table, first, starts, names) for table in human_tables)
    order = np.arange(starts[-1])  # the rows of a table are sorted by group already
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
        if group.id not in group_numbers:
            raise InvalidInput(
                _OWNER,
                whose,
                allowed="about groups of the first table",
                got=f"group {group.id!r}",
                remedy=_SAME_ROLLOUTS,
            )
        g = group_numbers[group.id]
        _check_same_rollouts(whose, group, first.groups[g])
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


def _check_same_rollouts(whose: str, group: GroupScores, first: GroupScores) -> None:
    """Raise InvalidInput if a group has other rollouts than the group with its id in the first table.

    The same responses in another order would be compared with the wrong verdicts. They are recognised by their digests,
    or by their ids if both tables have them.
    """
    size = len(first.scores)
    if len(group.scores) != size:
        raise InvalidInput(
            _OWNER,
            whose,
            allowed=f"about the same {size} rollouts",
            got=f"{len(group.scores)} rollouts in group {group.id!r}",
            remedy=_SAME_ROLLOUTS,
        )
    problem = ""
    if group.digests and first.digests:
        if group.digests != first.digests:
            problem = "other responses, or another order of them,"
    else:
        # One table may number its rollouts and the other name them: then their ids say nothing.
        has_same_ids = sorted(group.rollout_ids) == sorted(first.rollout_ids)
        if has_same_ids and group.rollout_ids != first.rollout_ids:
            problem = "another order of ids"
    if problem:
        raise InvalidInput(
            _OWNER,
            whose,
            allowed="about the same rollouts in the same order",
            got=f"{problem} in group {group.id!r}",
            remedy=_SAME_ROLLOUTS,
        )


def _compute_win_shares(outcomes: np.ndarray) -> np.ndarray:
    """Return the share of its comparisons that each rollout won; NaN if it was not compared.

    outcomes: (n, n): 1 = row beats column, 0.5 = tie, NaN = not compared.
    """
    is_compared = ~np.isnan(outcomes)
    np.fill_diagonal(is_compared, False)
    count = is_compared.sum(axis=1)
    wins = np.where(is_compared, outcomes, 0.0).sum(axis=1)
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
