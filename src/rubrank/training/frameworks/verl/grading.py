"""Rollouts that come one at a time: programs decide many together, and each waits for its own judges only.

    grading = GradedTogether(engine)
    found = await grading.grade(Group(id="uid-7", rollouts=(rollout,)))
    found.reward, found.scores["WordCount"], found.text          0.83, 1.0, the scores as the trainer takes them

Programs look at as many rollouts as came while they looked at the last ones. Calls of judges are made and end one by
one: a slow one holds up its own rollout, and the limits of endpoints hold in the process, however many wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, TypeVar

from rubrank.errors import JudgeOutage
from rubrank.rollouts.rollout import Group
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.training.engine import Graded, RewardEngine
from rubrank.training.frameworks.verl.scores import packed, with_outage

_MOST = 1024  # rollouts graded in one call


@dataclass(frozen=True, eq=False)
class GradedOne:
    """What is known about one rollout by itself."""

    reward: float
    """Of the engine's rule in a group of one; NaN: nothing is known."""
    scores: Mapping[str, float | None]
    text: str
    """The scores, for `verl_scores.regrouped`."""


A = TypeVar("A")
B = TypeVar("B")


class _Together(Generic[A, B]):
    """A function of many, for callers that have one each: they share a call with those that came meanwhile."""

    def __init__(self, work: Callable[[Sequence[A]], Sequence[B]]) -> None:
        self._work = work
        self._waiting: list[tuple[A, asyncio.Future[B]]] = []
        self._task: asyncio.Task[None] | None = None

    async def __call__(self, item: A) -> B:
        future: asyncio.Future[B] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        return await future

    async def _run(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(0)  # those who come at the same moment go along
                some, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
                await self._do(some)
        finally:
            self._task = None

    async def _do(self, some: Sequence[tuple[A, asyncio.Future[B]]]) -> None:
        try:
            found = await asyncio.to_thread(self._work, [item for item, _ in some])
        except Exception as error:
            if len(some) == 1:
                _tell(some[0][1], error)
                return
            for one in some:  # one bad rubric is no reason to lose the others
                await self._do([one])
            return
        for (_, future), told in zip(some, found, strict=True):
            _tell(future, told)


class GradedTogether:
    """Belongs to one event loop. The engine's rule must be one that makes sense of a rollout alone."""

    def __init__(self, engine: RewardEngine) -> None:
        self.engine = engine
        self._decided = _Together(self._decide)
        self._ended = _Together(self._end)

    async def grade(self, group: Group) -> GradedOne:
        """The scores of a group of one."""
        scored = await self._decided(group)
        table = ScoreTable((scored,))
        try:
            graded = await self.engine.ask(table, [group])
        except JudgeOutage as outage:
            found = await self._ended((group, await self._bearing.ask(table, [group])))
            return replace(found, text=with_outage(found.text, outage))
        return await self._ended((group, graded))

    @cached_property
    def _bearing(self) -> RewardEngine:
        """The engine where judges are given up: what they were asked is missing. A rollout that a worker raises for is
        lost to verl, which learns nothing from it; the trainer, who is told with the scores, saves a checkpoint first.
        """
        engine = copy(self.engine)
        assert engine.judges is not None
        engine.judges = engine.judges.model_copy(update={"on_outage": "continue"})
        return engine

    def _decide(self, groups: Sequence[Group]) -> Sequence[GroupScores]:
        return self.engine.decide(_numbered(groups)).groups

    def _end(self, every: Sequence[tuple[Group, Graded]]) -> list[GradedOne]:
        groups = _numbered([group for group, _ in every])
        scored = [replace(graded.groups[0], id=group.id) for group, (_, graded) in zip(groups, every, strict=True)]
        rewards = self.engine.fuse(groups, Graded(tuple(scored)), 0, write=False).rewards
        return [
            GradedOne(reward, _scores(one.names, one.scores[0].tolist()), packed(graded)[0])
            for (reward,), one, (_, graded) in zip(rewards, scored, every, strict=True)
        ]


def _numbered(groups: Sequence[Group]) -> list[Group]:
    """Ids must differ."""
    return [group.model_copy(update={"id": f"{i}"}) for i, group in enumerate(groups)]


def _scores(names: Sequence[str], scores: Sequence[float]) -> dict[str, float | None]:
    return {name: None if score != score else score for name, score in zip(names, scores, strict=True)}


def _tell(future: asyncio.Future[B], found: B | Exception) -> None:
    if future.done():  # who asked has gone
        return
    if isinstance(found, Exception):
        future.set_exception(found)
    else:
        future.set_result(found)
