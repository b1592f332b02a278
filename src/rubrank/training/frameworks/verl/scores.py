"""The scores of one rollout as text, and back into groups: how criteria travel through verl's queue.

    (text,) = packed(engine.grade([Group(id="uid-7/3", rollouts=(rollout,))]))       in a reward worker
    graded = regrouped(groups, [[text, …], …], engine)                               in the trainer, before it fuses

verl makes arrays and JSON of what a reward function returns, and takes means of what is not text: so it is text.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from rubrank.errors import InvalidInput, JudgeOutage, JudgingFailed
from rubrank.judges.judge import Judgment
from rubrank.judges.judgments import Judgments
from rubrank.rollouts.rollout import Group
from rubrank.scores.criterion import CriterionData
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.training.engine import Graded, RewardEngine

_MOST_REASONS = 5  # in an error
_SUMS = ("calls", "requests", "hits", "input_tokens", "output_tokens", "cached_tokens", "cost")


def packed(graded: Graded) -> list[str]:
    """The scores of groups of one, each as text; what was spent on all of them is told with the first."""
    return [_packed(graded, i) for i in range(len(graded.groups))]


def _packed(graded: Graded, i: int) -> str:
    group = graded.groups[i]
    data: dict[str, Any] = {
        "criteria": group.names,
        "scores": [None if score != score else score for score in group.scores[0].tolist()],
        "reasons": group.reasons[0],
    }
    if graded.judging is not None:
        judgment = graded.judging.groups[i]
        data["judges"] = {"asked": judgment.asked, "lost": judgment.lost}
        data["spent"] = _spent(graded.judging) if i == 0 else None
    return json.dumps(data, ensure_ascii=False)


def with_outage(text: str, outage: JudgeOutage) -> str:
    """The text of a rollout whose judges were given up: the trainer is to raise it."""
    return json.dumps({**json.loads(text), "outage": outage.args}, ensure_ascii=False)


def regrouped(groups: Sequence[Group], texts: Sequence[Sequence[str]], engine: RewardEngine) -> Graded:
    """The scores of whole groups from those of their rollouts; raises the outage of a judge that one of them met, and
    where more answers are missing than `most_missing` allows."""
    columns: dict[str, tuple[CriterionData, ...]] = {}
    scored, told = [], []
    for group, rows in zip(groups, texts, strict=True):
        key = repr(group.rubric)
        if key not in columns:
            whole = engine.whole_rubric(group.rubric, f"group {group.id!r}")
            columns[key] = tuple(CriterionData.of(criterion) for criterion in whole.criteria)
        read = [json.loads(row) for row in rows]
        if met := next((one["outage"] for one in read if "outage" in one), None):
            raise JudgeOutage(*met)
        scored.append(_together(group, columns[key], read))
        told.append(read)
    complete = engine.decide_groups(ScoreTable(tuple(scored)), groups)
    return Graded(complete.groups, _judgments(told, engine))


def _together(group: Group, criteria: tuple[CriterionData, ...], read: Sequence[dict[str, Any]]) -> GroupScores:
    names = [criterion.name for criterion in criteria]
    for one in read:
        if one["criteria"] != names:
            raise InvalidInput(
                f"group {group.id!r}",
                "criteria",
                f"the trainer's {names}",
                str(one["criteria"]),
                "Start reward workers and trainer with the same files and the same rubrank.",
            )
    scores = np.array([[np.nan if s is None else s for s in one["scores"]] for one in read], dtype=float)
    return GroupScores(group.id, criteria, scores, tuple(tuple(one["reasons"]) for one in read))


# -------------------------------------------------------------------------------------------------------------- judges


def _spent(judging: Judgments) -> dict[str, Any]:
    account = judging.account
    sums = {name: getattr(account, name) for name in _SUMS}
    return {**sums, "latencies": account.latencies.tolist(), "reasons": dict(judging.reasons)}


def _judgments(told: Sequence[Sequence[dict[str, Any]]], engine: RewardEngine) -> Judgments | None:
    """What all judges took; None where none was asked. `told`: rollouts of groups, as they were read."""
    from rubrank.judges.client.usage import Account

    judged = [[one for one in rows if "judges" in one] for rows in told]
    if not any(judged):
        return None
    each = [
        Judgment(asked=sum(one["judges"]["asked"] for one in rows), lost=sum(one["judges"]["lost"] for one in rows))
        for rows in judged
    ]
    spent = [one["spent"] for rows in judged for one in rows if one["spent"]]
    sums = {name: sum(one[name] for one in spent) for name in _SUMS}
    latencies = np.sort(np.array([seconds for one in spent for seconds in one["latencies"]], dtype=float))
    judgments = Judgments(tuple(each), Account(**sums, latencies=latencies))
    _check_missing(judgments, spent, engine)
    return judgments


def _check_missing(judgments: Judgments, spent: Sequence[dict[str, Any]], engine: RewardEngine) -> None:
    """Reward workers see a few rollouts at a time: whether too much is missing shows only here."""
    ceiling = 1.0 if engine.judges is None else engine.judges.most_missing
    from rubrank.judges.step import count_outage_losses

    reasons: Counter[str] = Counter()
    for one in spent:
        reasons.update(one["reasons"])
    away = 0 if engine.judges is None else count_outage_losses(judgments, reasons, engine.judges)
    few = judgments.lost - away <= ceiling * judgments.asked
    if few and (away or judgments.lost < max(judgments.asked, 1)):
        return
    account = judgments.account
    raise JudgingFailed(
        judgments.lost,
        judgments.asked,
        ceiling,
        tuple(reasons.most_common(_MOST_REASONS)),
        f"{account.calls:,} calls, {account.cost:.4g}",
        "Fix the judges and resume from the last checkpoint.",
    )
