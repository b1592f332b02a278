"""The last stage of grading: judges decide the cells of a score table that no verifier could decide.

    table = rubrank.grade("rollouts.jsonl", "rubric.yaml", judges="judges.yaml")
    table["query-7"].score(0, "CoreIntentMatch")      1.0, from a judge that scores
    table["query-7"].outcomes["GeneralQuality"]       (G, G), from a judge that compares
    table.judging.account.cost                        what it cost

Verifiers run first, so that a rollout that a hard gate stops costs no call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rubrank._plain import shorten
from rubrank.judges import COMPARES
from rubrank.judges.judge import Judges, Judgment
from rubrank.judges.judgments import Judgments
from rubrank.judges.step import find_judged_cells, find_stopped, judge_groups, judge_groups_async
from rubrank.rollouts.rollout import Group
from rubrank.rubrics.rubric import Criterion
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.verifiers.verifier import NEEDS_JUDGE, NOT_ASKED

if TYPE_CHECKING:
    from rubrank.judges.kinds.comparisons import ArrivedGroup

# Characters. Many, because a judge that ranks a list discusses all responses at once.
_LONGEST_REASON = 8000
# Reasons of cells that no judge was asked about.
_MIXED_REASON = "cannot be judged: a verifier decided it for other rollouts of the group, and this judge only compares"
_GATED_REASON = f"{NOT_ASKED}: a gate has stopped it"


def judge_table(
    table: ScoreTable,
    groups: Sequence[Group],
    criteria: Sequence[Sequence[Criterion]],
    judges: Judges,
    progress: Callable[[int, int], None] | None = None,
    ask: Callable[..., Judgments] | None = None,
) -> ScoreTable:
    """Return the table with the judges' verdicts filled in.

    criteria: the criteria of each group. ask: called instead of `judge_groups`, for example to send batches.
    """
    ask = ask or judge_groups
    cells = [
        find_cells_to_judge(scored, group_criteria, judges)
        for scored, group_criteria in zip(table.groups, criteria, strict=True)
    ]
    judgments = ask(groups, criteria, cells, judges, progress=progress)
    return _fill_table(table, criteria, cells, judges, judgments)


async def judge_table_async(
    table: ScoreTable,
    groups: Sequence[Group],
    criteria: Sequence[Sequence[Criterion]],
    judges: Judges,
    *,
    compare: bool | None = None,
    arrived: ArrivedGroup | None = None,
) -> ScoreTable:
    """Do the same in an event loop. Missing answers never raise an error.

    compare: True asks only judges that compare rollouts, False only judges that need one rollout, None asks all.
    arrived: the state of a group whose rollouts come in one by one.
    """
    cells = [
        find_cells_to_judge(scored, group_criteria, judges, compare)
        for scored, group_criteria in zip(table.groups, criteria, strict=True)
    ]
    judgments = await judge_groups_async(groups, criteria, cells, judges, arrived=arrived)
    return _fill_table(table, criteria, cells, judges, judgments)


def find_cells_to_judge(
    scored: GroupScores, criteria: Sequence[Criterion], judges: Judges, compare: bool | None = None
) -> np.ndarray:
    """Return a (rollouts, criteria) mask of the cells that judges are asked about after verifiers have run.

    compare: as in `judge_table_async`.
    """
    cells = find_judged_cells(criteria, scored.scores, scored.reasons, judges)
    cells[:, _find_mixed_columns(scored, criteria, judges)] = False
    if compare is not None:
        for column, criterion in enumerate(criteria):
            judge = judges.judge_of(criterion.name)
            if judge is not None and (judge.kind in COMPARES) != compare:
                cells[:, column] = False
    return cells


def _find_mixed_columns(
    scored: GroupScores, criteria: Sequence[Criterion], judges: Judges
) -> list[int]:
    """Return the criteria that a judge compares but that verifiers have scored for some rollouts.

    Scores and comparisons cannot be ranked together, so these criteria are not judged.
    """
    mixed = []
    for column, criterion in enumerate(criteria):
        judge = judges.judge_of(criterion.name)
        is_compared = judge is not None and judge.kind in COMPARES
        has_scores = not np.isnan(scored.scores[:, column]).all()
        if is_compared and has_scores:
            mixed.append(column)
    return mixed


def _fill_table(
    table: ScoreTable,
    criteria: Sequence[Sequence[Criterion]],
    cells: Sequence[np.ndarray],
    judges: Judges,
    judgments: Judgments,
) -> ScoreTable:
    """Return the table with the judgments filled in. cells: the mask of judged cells of each group."""
    filled = []
    for scored, group_criteria, judged_cells, judgment in zip(
        table.groups, criteria, cells, judgments.groups, strict=True
    ):
        filled.append(_fill_group(scored, group_criteria, judged_cells, judgment, judges))
    return ScoreTable(tuple(filled), judging=judgments)


def _fill_group(
    scored: GroupScores,
    criteria: Sequence[Criterion],
    judged_cells: np.ndarray,
    judgment: Judgment,
    judges: Judges,
) -> GroupScores:
    """Return the scores of a group with the judgment filled in: scores, reasons, outcomes and probabilities."""
    scores = scored.scores.copy()
    # Criterion → the distribution over the scale for each rollout; () if the judge did not report one.
    probabilities = {name: list(rows) for name, rows in scored.probabilities.items()}
    reasons = [list(row) for row in scored.reasons]
    columns = {criterion.name: column for column, criterion in enumerate(criteria)}
    for (row, name), verdict in judgment.verdicts.items():
        scores[row, columns[name]] = verdict.score
        reasons[row][columns[name]] = verdict.reason
        if verdict.probabilities:
            probabilities.setdefault(name, [()] * len(scores))[row] = verdict.probabilities
    for name, outcomes in judgment.outcomes.items():
        for row in np.flatnonzero(judged_cells[:, columns[name]]):
            reasons[row][columns[name]] = _describe_comparison(
                outcomes[row], judgment, int(row), name
            )
    mixed = _find_mixed_columns(scored, criteria, judges)
    gated = find_stopped(criteria, scored.scores) & judges.cascade
    for row, row_reasons in enumerate(reasons):
        for column, criterion in enumerate(criteria):
            needs_judge = row_reasons[column].startswith(NEEDS_JUDGE)
            if not needs_judge or judges.judge_of(criterion.name) is None:
                continue
            # A judge could have decided this cell but was not asked: the reason says why.
            if gated[row]:
                row_reasons[column] = _GATED_REASON
            elif column in mixed:
                row_reasons[column] = _MIXED_REASON
    return replace(
        scored,
        scores=scores,
        reasons=tuple(map(tuple, reasons)),
        outcomes=dict(judgment.outcomes),
        probabilities={name: tuple(rows) for name, rows in probabilities.items()},
    )


def _describe_comparison(outcomes: np.ndarray, judgment: Judgment, row: int, name: str) -> str:
    """Return the reason of a compared cell. outcomes: of this rollout against each other one; NaN: not compared."""
    compared = outcomes[~np.isnan(outcomes)]
    if not len(compared):
        failures = judgment.missing.get(name)
        return f"not compared: {failures[0]}" if failures else "not compared"
    better = int((compared > 0.5).sum())
    worse = int((compared < 0.5).sum())
    text = f"better than {better}, worse than {worse} of {len(compared)}"
    if (row, name) in judgment.words:
        text += f"; {judgment.words[row, name]}"
    return shorten(text, _LONGEST_REASON)
