"""A score table, and what judges say about the cells that no verifier could decide.

    table = rubrank.grade("rollouts.jsonl", "rubric.yaml", judges="judges.yaml")
    table["query-7"].score(0, "CoreIntentMatch")      1.0, from a judge that scores
    table["query-7"].outcomes["GeneralQuality"]       (G, G), from a judge that compares
    table.judging.account.cost                        what it took

This is the last stage of grading: verifiers have spoken, so that a rollout which a hard gate stops costs no call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rubrank._plain import shortened
from rubrank.judges import COMPARES
from rubrank.judges.judge import JUDGED, Judges, Judgment
from rubrank.judges.judging import judge_groups, judge_groups_async, stopped, wanted_cells
from rubrank.judges.judgments import Judgments
from rubrank.rollouts.rollout import Group
from rubrank.rubrics.rubric import Criterion
from rubrank.scores.table import GroupScores, ScoreTable

if TYPE_CHECKING:
    from rubrank.judges.arriving import Arrived

_LONGEST_COMPARED = 8000  # characters: a judge speaks about all responses of a list at once
_MIXED = "cannot be judged: a verifier decided it for others of the group, and this judge only compares"
_GATED = "not asked: a gate has stopped it"


def judged_table(
    table: ScoreTable,
    groups: Sequence[Group],
    criteria: Sequence[Sequence[Criterion]],
    judges: Judges,
    progress: Callable[[int, int], None] | None = None,
    judge: Callable[..., Judgments] | None = None,
) -> ScoreTable:
    """The table with the judges' answers; `criteria` are those of every group. judge: instead of `judge_groups`."""
    wanted = [wanted_of(scored, own, judges) for scored, own in zip(table.groups, criteria, strict=True)]
    found = (judge or judge_groups)(groups, criteria, wanted, judges, progress=progress)
    return _with(table, criteria, wanted, judges, found)


async def judged_table_async(
    table: ScoreTable,
    groups: Sequence[Group],
    criteria: Sequence[Sequence[Criterion]],
    judges: Judges,
    *,
    compare: bool | None = None,
    arrived: Arrived | None = None,
) -> ScoreTable:
    """The same in an event loop; nothing is raised for what is missing.

    compare: only by judges that compare, or only by those that do not and need no other rollouts; None: by all.
    arrived: what is known of a group that came in rollout by rollout.
    """
    wanted = [wanted_of(scored, own, judges, compare) for scored, own in zip(table.groups, criteria, strict=True)]
    found = await judge_groups_async(groups, criteria, wanted, judges, arrived=arrived)
    return _with(table, criteria, wanted, judges, found)


def _with(
    table: ScoreTable,
    criteria: Sequence[Sequence[Criterion]],
    wanted: Sequence[np.ndarray],
    judges: Judges,
    judgments: Judgments,
) -> ScoreTable:
    filled = [
        _filled(scored, own, cells, judgment, judges)
        for scored, own, cells, judgment in zip(table.groups, criteria, wanted, judgments.groups, strict=True)
    ]
    return ScoreTable(tuple(filled), judging=judgments)


def wanted_of(
    scored: GroupScores, criteria: Sequence[Criterion], judges: Judges, compare: bool | None = None
) -> np.ndarray:
    """(G, K): what is asked after programs have run; `compare` as in `judged_table_async`."""
    wanted = wanted_cells(criteria, scored.scores, scored.reasons, judges)
    for k in _mixed(scored, criteria, judges):
        wanted[:, k] = False
    for k, criterion in enumerate(criteria):
        judge = judges.judge_of(criterion.name)
        if compare is not None and judge is not None and (judge.kind in COMPARES) != compare:
            wanted[:, k] = False
    return wanted


def _mixed(scored: GroupScores, criteria: Sequence[Criterion], judges: Judges) -> list[int]:
    """Criteria with some scores in the group already, whose judge compares: scores and comparisons do not mix."""
    found = []
    for k, criterion in enumerate(criteria):
        judge = judges.judge_of(criterion.name)
        if judge is not None and judge.kind in COMPARES and not np.isnan(scored.scores[:, k]).all():
            found.append(k)
    return found


def _filled(
    scored: GroupScores, criteria: Sequence[Criterion], wanted: np.ndarray, judgment: Judgment, judges: Judges
) -> GroupScores:
    scores, reasons = scored.scores.copy(), [list(row) for row in scored.reasons]
    column = {criterion.name: k for k, criterion in enumerate(criteria)}
    for (i, name), verdict in judgment.verdicts.items():
        scores[i, column[name]], reasons[i][column[name]] = verdict.score, verdict.reason
    for name, won in judgment.outcomes.items():
        for i in np.flatnonzero(wanted[:, column[name]]):
            reasons[i][column[name]] = _compared(won[i], judgment, int(i), name)
    _explain_unasked(reasons, scored, criteria, judges)
    return replace(scored, scores=scores, reasons=tuple(map(tuple, reasons)), outcomes=dict(judgment.outcomes))


def _compared(row: np.ndarray, judgment: Judgment, i: int, name: str) -> str:
    others, lost = row[~np.isnan(row)], judgment.missing.get(name)
    if not len(others):
        return f"not compared: {lost[0]}" if lost else "not compared"
    better, worse = int((others > 0.5).sum()), int((others < 0.5).sum())
    said = f"; {judgment.words[i, name]}" if (i, name) in judgment.words else ""
    return shortened(f"better than {better}, worse than {worse} of {len(others)}{said}", _LONGEST_COMPARED)


def _explain_unasked(
    reasons: list[list[str]], scored: GroupScores, criteria: Sequence[Criterion], judges: Judges
) -> None:
    """Say of open cells why no judge was asked about them."""
    mixed, gated = set(_mixed(scored, criteria, judges)), stopped(criteria, scored.scores) & judges.cascade
    for i, row in enumerate(reasons):
        for k, criterion in enumerate(criteria):
            if not row[k].startswith(JUDGED) or judges.judge_of(criterion.name) is None:
                continue
            if gated[i]:
                row[k] = _GATED
            elif k in mixed:
                row[k] = _MIXED
