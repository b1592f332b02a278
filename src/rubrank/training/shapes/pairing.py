"""Pairs of a group judged as both rollouts become available; see `rubrank.judges.arriving` for which, and why.

pairing.enter(slot, rollout, scored)     programs have decided about it: asked about with those there
pairing.arrived(slots)                   what the judgment of the whole group begins with
await pairing.spent()                    what it cost, when all of it is answered
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rubrank.judges.judgments import Judgments
from rubrank.rollouts.rollout import Rollout
from rubrank.rubrics.rubric import Criterion
from rubrank.scores.table import GroupScores
from rubrank.training.engine import RewardEngine

if TYPE_CHECKING:
    from rubrank.judges.arriving import Arrivals, Arrived, Memo
    from rubrank.judges.client.usage import Account


class Pairing:
    """Of one group; belongs to one event loop. start: makes a task of what is asked."""

    def __init__(
        self,
        engine: RewardEngine,
        id: str,
        rubric: Any,
        size: int | None,
        start: Callable[[Coroutine[Any, Any, Judgments]], asyncio.Task[Judgments]],
    ) -> None:
        self._engine, self._id, self._rubric, self._size, self._start = engine, id, rubric, size, start
        self._tasks: list[asyncio.Task[Judgments]] = []

    @cached_property
    def _criteria(self) -> tuple[Criterion, ...]:
        return tuple(self._engine.whole_rubric(self._rubric, f"group {self._id!r}").criteria)

    @cached_property
    def _arrivals(self) -> Arrivals | None:
        """None: there is nothing that could be asked ahead."""
        from rubrank.judges.arriving import Arrivals

        if self._engine.judges is None:
            return None
        made = Arrivals(self._engine.judges, self._id, self._criteria, self._size)
        return made if made.possible else None

    @cached_property
    def _memo(self) -> Memo:
        from rubrank.judges.arriving import Memo

        return Memo()

    def may_enter(self, scored: GroupScores) -> bool:
        """Is it known by now whether this rollout, alone, is to be compared?"""
        return self._arrivals is not None and self._arrivals.may_enter(scored.reasons[0])

    def enter(self, slot: int, rollout: Rollout, scored: GroupScores) -> None:
        """Ask about a rollout and those there."""
        from rubrank.grading.judge_table import cells_to_judge
        from rubrank.judges.arriving import Arrived

        if self._arrivals is None or self._engine.judges is None:
            return
        wanted = cells_to_judge(scored, self._criteria, self._engine.judges, compare=True)
        pairs = self._arrivals.add(slot, rollout, wanted[0])
        if not pairs:
            return
        groups, cells = [group for group, _ in pairs], [cells for _, cells in pairs]
        asked = self._engine.ask_pairs(groups, self._criteria, cells, Arrived(self._memo))
        task = self._start(asked)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # it may never be awaited
        self._tasks.append(task)

    def arrived(self, slots: tuple[int, ...]) -> Arrived | None:
        """What is known of the group, of which the rollouts at these places came."""
        from rubrank.judges.arriving import Arrived

        if self._engine.judges is None:
            return None
        known = self._size is not None and max(slots, default=0) < self._size
        return Arrived(self._memo, slots, self._size) if known else Arrived(self._memo)

    async def spent(self) -> list[Account]:
        """What was asked ahead."""
        return [judgments.account for judgments in await asyncio.gather(*self._tasks)]

    def cancel(self) -> None:
        """It is no longer wanted."""
        for task in self._tasks:
            task.cancel()
