"""Rollouts that come one at a time, graded together: as many as came while the last ones were graded.

    grading = GradedTogether(engine)
    found = await grading.grade(Group(id="uid-7", rollouts=(rollout,)))
    found.reward, found.scores["WordCount"], found.text          0.83, 1.0, the scores as the trainer takes them

One call of the engine at a time, so that the limits of judges' endpoints hold in a process, however many wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rubrank.rollouts.rollout import Group
from rubrank.training.engine import Graded, RewardEngine
from rubrank.training.verl.scores import packed

_MOST = 1024  # rollouts graded in one call


@dataclass(frozen=True, eq=False)
class GradedOne:
    """What is known about one rollout by itself."""

    reward: float
    """Of the engine's rule in a group of one; NaN: nothing is known."""
    scores: Mapping[str, float | None]
    text: str
    """The scores, for `verl_scores.regrouped`."""


class GradedTogether:
    """Belongs to one event loop. The engine's rule must be one that makes sense of a rollout alone."""

    def __init__(self, engine: RewardEngine) -> None:
        self.engine = engine
        self._waiting: list[tuple[Group, asyncio.Future[GradedOne]]] = []
        self._task: asyncio.Task[None] | None = None

    async def grade(self, group: Group) -> GradedOne:
        """The scores of a group of one."""
        future: asyncio.Future[GradedOne] = asyncio.get_running_loop().create_future()
        self._waiting.append((group, future))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())
        return await future

    async def _work(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(0)  # those who come at the same moment go along
                some, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
                await self._grade(some)
        finally:
            self._task = None

    async def _grade(self, some: Sequence[tuple[Group, asyncio.Future[GradedOne]]]) -> None:
        try:
            found = await asyncio.to_thread(self._graded, [group for group, _ in some])
        except Exception as error:
            if len(some) == 1:
                _tell(some[0][1], error)
                return
            for one in some:  # one bad rubric is no reason to lose the others
                await self._grade([one])
            return
        for (_, future), told in zip(some, found, strict=True):
            _tell(future, told)

    def _graded(self, groups: Sequence[Group]) -> list[GradedOne]:
        numbered = [group.model_copy(update={"id": f"{i}"}) for i, group in enumerate(groups)]  # ids must differ
        graded = self.engine.grade(numbered)
        texts = packed(graded)
        rewards = self.engine.fuse(numbered, Graded(graded.groups), 0, write=False).rewards
        return [
            GradedOne(reward, _scores(scored.names, scored.scores[0].tolist()), text)
            for (reward,), scored, text in zip(rewards, graded.groups, texts, strict=True)
        ]


def _scores(names: Sequence[str], scores: Sequence[float]) -> dict[str, float | None]:
    return {name: None if score != score else score for name, score in zip(names, scores, strict=True)}


def _tell(future: asyncio.Future[GradedOne], found: GradedOne | Exception) -> None:
    if future.done():  # who asked has gone
        return
    if isinstance(found, Exception):
        future.set_exception(found)
    else:
        future.set_result(found)
