"""Score single rollouts in reward workers, and send their scores to the trainer as text, through verl's queue.

    scorer = SingleScorer(engine)                                                    in a reward worker
    scored = await scorer.score(rollout, rubric)
    scored.reward, scored.scores["WordCount"], scored.text          0.83, 1.0, the scores as text

    graded = unpack_groups(groups, [[text, …], …], engine)                           in the trainer, before it fuses

Scores are sent as text because verl turns what a reward function returns into arrays and JSON, and takes the mean of
everything that is not text.
"""

from __future__ import annotations

import asyncio
import json
from array import array
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rubrank.errors import InvalidInput, JudgeOutage
from rubrank.judges import COMPARES
from rubrank.judges.client.usage import Account, UsageLine
from rubrank.judges.judge import Judgment
from rubrank.judges.judgments import Judgments
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.scores.criterion import CriterionData
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.training.engine import Graded, RewardEngine
from rubrank.training.metrics import compute_gated_means

_USAGE = ("calls", "requests", "hits", "input_tokens", "output_tokens", "cached_tokens", "cost")


# ------------------------------------------------------------------------------------------------------ reward worker


@dataclass(frozen=True, eq=False)
class SingleScores:
    """The reward and the scores of one rollout by itself."""

    reward: float
    """The gated weighted mean of the criteria; NaN if the rollout has no score."""
    scores: Mapping[str, float | None]
    text: str
    """The scores as text, for `unpack_groups`."""


class SingleScorer:
    """Scores rollouts without their group; the engine is its own.

    is_complete: False if a judge compares rollouts: judges need the whole group then, and are not called here.
    """

    def __init__(self, engine: RewardEngine) -> None:
        engine.leave_out_default_control()
        engine.controls = ()  # the influence of attributes is estimated over groups
        judges = engine.judges
        self.is_complete = judges is None or all(
            judge.kind not in COMPARES for judge in judges.judges
        )
        if not self.is_complete:
            engine.judges = None
        self.engine = engine

    async def score(self, rollout: Rollout, rubric: Any) -> SingleScores:
        """Return the scores of one rollout. rubric: the query's own, or None."""
        group = Group(id="alone", rollouts=(rollout,), rubric=rubric)
        table = await asyncio.to_thread(self.engine.decide, [group])
        outage = None
        try:
            graded = await self.engine.ask(table, [group])
        except JudgeOutage as error:
            # verl would drop a rollout for which a worker raises, and hide the reason. So the rollout keeps the scores
            # that it has, and the outage is sent to the trainer, which saves a checkpoint and raises it.
            outage = error
            graded = await self._tolerant_engine.ask(table, [group])
        fused = await asyncio.to_thread(
            self.engine.fuse, [group], graded, 0, train=False, write=False, logged=False
        )
        scores = graded.groups[0]
        values = _nan_to_none(scores.scores[0].tolist())
        return SingleScores(
            reward=float(compute_gated_means(fused.results[0])[0]),
            scores=dict(zip(scores.names, values, strict=True)),
            text=pack_scores(graded, outage),
        )

    @cached_property
    def _tolerant_engine(self) -> RewardEngine:
        """The engine, with judges that leave answers out during an outage instead of raising."""
        engine = copy(self.engine)
        assert engine.judges is not None
        engine.judges = engine.judges.model_copy(update={"on_outage": "continue"})
        return engine


def _nan_to_none(scores: Sequence[float]) -> list[float | None]:
    return [None if np.isnan(score) else score for score in scores]


def pack_scores(graded: Graded, outage: JudgeOutage | None = None) -> str:
    """Return the scores of a group of one as text. outage: one that its judges met; `unpack_groups` raises it."""
    (group,) = graded.groups
    data: dict[str, Any] = {
        "criteria": group.names,
        "scores": _nan_to_none(group.scores[0].tolist()),
        "reasons": group.reasons[0],
    }
    if graded.judging is not None:
        account = graded.judging.account
        data["judges"] = {
            "asked": graded.judging.asked,
            "lost": graded.judging.lost,
            "missing": list(graded.judging.reasons.elements()),
            "usage": {name: getattr(account, name) for name in _USAGE},
            "latencies": account.latencies.tolist(),
        }
    if outage is not None:
        data["outage"] = outage.args
    return json.dumps(data, ensure_ascii=False)


# -------------------------------------------------------------------------------------------------------------- trainer


def unpack_groups(
    groups: Sequence[Group], texts: Sequence[Sequence[str]], engine: RewardEngine
) -> Graded:
    """Return the scores of whole groups, read from the texts of their rollouts.

    Raises JudgeOutage if a rollout met one, and JudgingFailed if more answers are missing than `most_missing` allows.
    """
    scored = []
    judgments = []
    account = Account()
    is_judged = False
    for group, group_criteria, group_texts in zip(
        groups, engine.list_criteria(groups), texts, strict=True
    ):
        criteria = tuple(CriterionData.of(criterion) for criterion in group_criteria)
        names = [criterion.name for criterion in criteria]
        rollouts = [json.loads(text) for text in group_texts]
        judgment = Judgment()
        for rollout in rollouts:
            if "outage" in rollout:
                raise JudgeOutage(*rollout["outage"])
            if rollout["criteria"] != names:
                raise InvalidInput(
                    f"group {group.id!r}",
                    "criteria",
                    allowed=f"the trainer's {names}",
                    got=str(rollout["criteria"]),
                    remedy="Start reward workers and trainer with the same files and the same rubrank.",
                )
            judged = rollout.get("judges")
            if judged is not None:
                is_judged = True
                judgment.asked += judged["asked"]
                judgment.lost += judged["lost"]
                judgment.missing.setdefault("", []).extend(judged["missing"])
                account.add_line(
                    UsageLine(**judged["usage"], latencies=array("d", judged["latencies"]))
                )
        judgments.append(judgment)
        # None becomes NaN
        scores = np.array([rollout["scores"] for rollout in rollouts], dtype=float)
        reasons = tuple(tuple(rollout["reasons"]) for rollout in rollouts)
        scored.append(GroupScores(group.id, criteria, scores, reasons))
    table = engine.decide_groups(ScoreTable(tuple(scored)), groups)
    judging = Judgments(tuple(judgments), account) if is_judged else None
    graded = Graded(table.groups, judging)
    # A reward worker sees a few rollouts at a time, so only the trainer can tell whether too much is missing.
    engine.check_judgments(graded)
    return graded
