"""Grade single rollouts in reward workers, and send their scores to the trainer as text, through verl's queue.

    grader = SingleGrader(engine)                                                    in a reward worker
    graded = await grader.grade(Group(id="uid-7", rollouts=(rollout,)))
    graded.reward, graded.scores["WordCount"], graded.text          0.83, 1.0, the scores as text

    graded = unpack_groups(groups, [[text, …], …], engine)                           in the trainer, before it fuses

Scores are sent as text because verl turns what a reward function returns into arrays and JSON, and takes the mean of
everything that is not text.

Rollouts arrive one at a time. Those that arrive while verifiers are busy are verified together in the next batch. Judge
calls are made for each rollout by itself, so a slow call delays only its own rollout.
"""

from __future__ import annotations

import asyncio
import json
from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np

from rubrank.errors import InvalidInput, JudgeOutage
from rubrank.judges.client.usage import Account
from rubrank.judges.judge import Judgment
from rubrank.judges.judgments import Judgments
from rubrank.judges.step import check_judgments
from rubrank.rollouts.rollout import Group
from rubrank.scores.criterion import CriterionData
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.training.engine import Graded, RewardEngine

Item = TypeVar("Item")
Result = TypeVar("Result")
_MOST_ROLLOUTS = 1024  # graded in one call
_ACCOUNT_SUMS = (
    "calls",
    "requests",
    "hits",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "cost",
)


# ------------------------------------------------------------------------------------------------------ reward worker


@dataclass(frozen=True, eq=False)
class SingleScores:
    """The reward and the scores of one rollout by itself."""

    reward: float
    """By the engine's rule, in a group of one; NaN if the rollout has no score."""
    scores: Mapping[str, float | None]
    text: str
    """The scores as text, for `unpack_groups`."""


class SingleGrader:
    """Grades rollouts one by one; belongs to one event loop.

    The engine's rule must give a meaningful reward in a group of one, such as the weighted mean.
    """

    def __init__(self, engine: RewardEngine) -> None:
        self.engine = engine
        self._decide: _Batcher[Group, GroupScores] = _Batcher(
            lambda groups: engine.decide(_number_groups(groups)).groups
        )
        self._finish = _Batcher(self._finish_many)

    async def grade(self, group: Group) -> SingleScores:
        """Return the scores of a group of one."""
        table = ScoreTable((await self._decide(group),))
        try:
            graded = await self.engine.ask(table, [group])
        except JudgeOutage as outage:
            # verl would drop a rollout for which a worker raises, and hide the reason. So the rollout keeps the scores
            # that it has, and the outage is sent to the trainer, which saves a checkpoint and raises it.
            graded = await self._tolerant_engine.ask(table, [group])
            scores = await self._finish((group, graded))
            return replace(scores, text=add_outage(scores.text, outage))
        return await self._finish((group, graded))

    @cached_property
    def _tolerant_engine(self) -> RewardEngine:
        """The engine, with judges that leave answers out during an outage instead of raising."""
        engine = copy(self.engine)
        assert engine.judges is not None
        engine.judges = engine.judges.model_copy(update={"on_outage": "continue"})
        return engine

    def _finish_many(self, pairs: Sequence[tuple[Group, Graded]]) -> list[SingleScores]:
        """Return reward, scores and text of rollouts that are graded, each in a group of one."""
        groups = _number_groups([group for group, _ in pairs])
        scored = []
        for group, (_, graded) in zip(groups, pairs, strict=True):
            scored.append(replace(graded.groups[0], id=group.id))
        fused = self.engine.fuse(groups, Graded(tuple(scored)), 0, write=False, logged=False)
        results = []
        for (reward,), group_scores, (_, graded) in zip(fused.rewards, scored, pairs, strict=True):
            values = _nan_to_none(group_scores.scores[0].tolist())
            scores = dict(zip(group_scores.names, values, strict=True))
            results.append(SingleScores(reward, scores, pack_scores(graded)[0]))
        return results


class _Batcher(Generic[Item, Result]):
    """Calls a function of many items for callers with one item each; calls during a batch share the next one."""

    def __init__(self, work: Callable[[Sequence[Item]], Sequence[Result]]) -> None:
        self._work = work
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._task: asyncio.Task[None] | None = None

    async def __call__(self, item: Item) -> Result:
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        return await future

    async def _run(self) -> None:
        """Process batches until no caller waits."""
        try:
            while self._waiting:
                await asyncio.sleep(0)  # calls of the same moment join the batch
                batch = self._waiting[:_MOST_ROLLOUTS]
                self._waiting = self._waiting[_MOST_ROLLOUTS:]
                await self._run_batch(batch)
        finally:
            self._task = None

    async def _run_batch(self, batch: Sequence[tuple[Item, asyncio.Future[Result]]]) -> None:
        """Call the function for a batch; if it raises, call it for each item, so that only the bad one fails."""
        try:
            results = await asyncio.to_thread(self._work, [item for item, _ in batch])
        except Exception as error:
            if len(batch) > 1:  # find the rollout that failed, and keep the others
                for pair in batch:
                    await self._run_batch([pair])
            elif not batch[0][1].done():
                batch[0][1].set_exception(error)
            return
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():  # the caller may have been cancelled
                future.set_result(result)


def _number_groups(groups: Sequence[Group]) -> list[Group]:
    """Return the groups with their numbers as ids, because the groups of one batch need different ids."""
    return [group.model_copy(update={"id": str(i)}) for i, group in enumerate(groups)]


def _nan_to_none(scores: Sequence[float]) -> list[float | None]:
    return [None if np.isnan(score) else score for score in scores]


# ------------------------------------------------------------------------------------------------------ scores as text


def pack_scores(graded: Graded) -> list[str]:
    """Return the scores of groups of one, each as text; the first text carries the costs of all of them."""
    texts = []
    for i, group in enumerate(graded.groups):
        data: dict[str, Any] = {
            "criteria": group.names,
            "scores": _nan_to_none(group.scores[0].tolist()),
            "reasons": group.reasons[0],
        }
        if graded.judging is not None:
            judgment = graded.judging.groups[i]
            data["judges"] = {"asked": judgment.asked, "lost": judgment.lost}
            data["spent"] = None
            if i == 0:
                account = graded.judging.account
                data["spent"] = {
                    **{name: getattr(account, name) for name in _ACCOUNT_SUMS},
                    "latencies": account.latencies.tolist(),
                    "reasons": dict(graded.judging.reasons),
                }
        texts.append(json.dumps(data, ensure_ascii=False))
    return texts


def add_outage(text: str, outage: JudgeOutage) -> str:
    """Return the text of a rollout with the outage that its judges met; `unpack_groups` raises it."""
    return json.dumps({**json.loads(text), "outage": outage.args}, ensure_ascii=False)


# -------------------------------------------------------------------------------------------------------------- trainer


def unpack_groups(
    groups: Sequence[Group], texts: Sequence[Sequence[str]], engine: RewardEngine
) -> Graded:
    """Return the scores of whole groups, read from the texts of their rollouts.

    Raises JudgeOutage if a rollout met one, and JudgingFailed if more answers are missing than `most_missing` allows.
    """
    criteria_of: dict[str, tuple[CriterionData, ...]] = {}
    scored = []
    unpacked = []
    for group, group_texts in zip(groups, texts, strict=True):
        key = repr(group.rubric)
        if key not in criteria_of:
            rubric = engine.combine_rubrics(group.rubric, f"group {group.id!r}")
            criteria_of[key] = tuple(CriterionData.of(criterion) for criterion in rubric.criteria)
        criteria = criteria_of[key]
        names = [criterion.name for criterion in criteria]
        rollouts = [json.loads(text) for text in group_texts]
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
        # None becomes NaN
        scores = np.array([rollout["scores"] for rollout in rollouts], dtype=float)
        reasons = tuple(tuple(rollout["reasons"]) for rollout in rollouts)
        scored.append(GroupScores(group.id, criteria, scores, reasons))
        unpacked.append(rollouts)
    table = engine.decide_groups(ScoreTable(tuple(scored)), groups)
    return Graded(table.groups, _unpack_judgments(unpacked, engine))


def _unpack_judgments(
    groups: Sequence[Sequence[dict[str, Any]]], engine: RewardEngine
) -> Judgments | None:
    """Return how many answers were requested and lost, and what they cost; None if no judge was called."""
    judgments = []
    usages = []
    for rollouts in groups:
        judged = [rollout for rollout in rollouts if "judges" in rollout]
        requested = sum(rollout["judges"]["asked"] for rollout in judged)
        lost = sum(rollout["judges"]["lost"] for rollout in judged)
        judgments.append(Judgment(asked=requested, lost=lost))
        usages += [rollout["spent"] for rollout in judged if rollout["spent"]]
    if not any("judges" in rollout for rollouts in groups for rollout in rollouts):
        return None
    sums = {name: sum(usage[name] for usage in usages) for name in _ACCOUNT_SUMS}
    latencies = [seconds for usage in usages for seconds in usage["latencies"]]
    account = Account(**sums, latencies=array("d", latencies))
    whole = Judgments(tuple(judgments), account)
    reasons: Counter[str] = Counter()
    for usage in usages:
        reasons.update(usage["reasons"])
    if engine.judges is not None:
        # A reward worker sees a few rollouts at a time, so only the trainer can tell whether too much is missing.
        check_judgments(whole, engine.judges, reasons)
    return whole
