"""Rollouts of a group graded as they come: only lists and fusion wait for the last.

    early = Early(engine, group_id, rubric, size=2)
    early.begin(0, rollout)                  when a rollout is complete: programs decide, judges that score are asked
    early.begin(1, another)                  judges that compare two are asked about 0 and 1, if that is in their design
    graded = await early.finish([0, 1])      the scores of the whole group; what was not asked yet is asked now

Which pairs are compared does not depend on who comes first (`judges/arriving.py`). What passes between the first
rollout and the last is hidden behind generation; `Graded.hidden` and `Graded.seconds` say how much was, and how much
was waited for. Rollouts that cannot be told apart are graded once.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Coroutine, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from rubrank.judges.judge import Judgment
from rubrank.judges.judgments import Judgments
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.training.engine import Graded, RewardEngine
from rubrank.training.shapes.pairing import Pairing

if TYPE_CHECKING:
    from rubrank.judges.client.usage import Account

T = TypeVar("T")


class Early:
    """One group as it comes in; belongs to one event loop.

    size: how many rollouts are to come; None: not known, so that only judges that compare all pairs are asked ahead.
    """

    def __init__(self, engine: RewardEngine, id: str, rubric: Any = None, size: int | None = None) -> None:
        self._engine, self._id, self._rubric, self.size = engine, id, rubric, size
        self._rollouts: dict[Hashable, Rollout] = {}
        self._slots: dict[Hashable, int] = {}
        self._tasks: dict[Hashable, asyncio.Task[Graded]] = {}
        self._comparable: dict[Hashable, asyncio.Future[GroupScores]] = {}
        """Known as soon as it is known whether a rollout is to be compared."""
        self._pairing: Pairing | None = None
        self._spans: list[list[float]] = []
        """When something that was asked began and ended; it may go on."""

    def begin(self, member: Hashable, rollout: Rollout) -> None:
        """Grade one rollout by itself, and compare it with those there."""
        if self._pairing is None:
            self._pairing = Pairing(self._engine, self._id, self._rubric, self.size, self._started)
        pairing = self._pairing
        same = next((other for other, known in self._rollouts.items() if known == rollout), None)
        self._rollouts[member], self._slots[member] = rollout, self._slot(member)
        if same is not None:
            self._tasks[member], self._comparable[member] = self._tasks[same], self._comparable[same]
        else:
            alone = Group(id=self._id, rollouts=(rollout,), rubric=self._rubric)
            known = self._comparable[member] = asyncio.get_running_loop().create_future()
            self._tasks[member] = self._started(self._grade(alone, pairing, known))
        slot = self._slots[member]
        self._comparable[member].add_done_callback(
            lambda known: None if known.cancelled() else pairing.enter(slot, rollout, known.result())
        )

    def _slot(self, member: Hashable) -> int:
        """Its number if it has one, so that it does not matter who is first; else the first that is free."""
        taken = set(self._slots.values())
        if isinstance(member, int | np.integer) and 0 <= member < (self.size or 0) and member not in taken:
            return int(member)
        return next(i for i in range(len(taken) + 1) if i not in taken)

    def _started(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        return asyncio.create_task(self._timed(work))

    async def _timed(self, work: Awaitable[T]) -> T:
        span = [time.perf_counter(), math.inf]
        self._spans.append(span)
        try:
            return await work
        finally:
            span[1] = time.perf_counter()

    async def _grade(self, alone: Group, pairing: Pairing, known: asyncio.Future[GroupScores]) -> Graded:
        try:
            table = await asyncio.to_thread(self._engine.decide, [alone])
            if pairing.may_enter(table.groups[0]):
                known.set_result(table.groups[0])
            graded = await self._engine.ask(table, [alone], compare=False)
            if not known.done():
                known.set_result(graded.groups[0])
            return graded
        finally:
            known.cancel()  # without effect where it is known

    def in_order(self, members: Iterable[Hashable]) -> list[Hashable]:
        """These rollouts by their places in the group."""
        return sorted(members, key=self._slots.__getitem__)

    async def finish(self, members: Sequence[Hashable]) -> Graded:
        """The scores of these rollouts as a group; raises what grading one of them raised."""
        complete = time.perf_counter()
        await asyncio.gather(*dict.fromkeys(self._tasks[member] for member in members))
        group = Group(id=self._id, rollouts=tuple(self._rollouts[member] for member in members), rubric=self._rubric)
        slots = tuple(self._slots[member] for member in members)
        parts = [self._tasks[member].result() for member in members]
        graded = await joined(self._engine, group, parts, self._pairing, slots)
        hidden = covered(self._spans, complete) if graded.judging is not None else 0.0
        return replace(graded, seconds=time.perf_counter() - complete, hidden=hidden)

    def cancel(self) -> None:
        """It is no longer wanted."""
        for task in self._tasks.values():
            task.cancel()
        if self._pairing is not None:
            self._pairing.cancel()


async def joined(
    engine: RewardEngine,
    group: Group,
    parts: Sequence[Graded],
    pairing: Pairing | None = None,
    slots: tuple[int, ...] | None = None,
) -> Graded:
    """The scores of a group from those of its rollouts, each graded by itself; judges that compare are asked now.

    A rollout that occurs twice may be given as the same part twice: it is paid once.
    pairing: of pairs that were asked before, and the places of the rollouts in it.
    """
    table = engine.decide_groups(ScoreTable((_stacked(group.id, [part.groups[0] for part in parts]),)), [group])
    arrived = None if pairing is None or slots is None else pairing.arrived(slots)
    compared = await engine.ask(table, [group], compare=True, arrived=arrived)
    ahead = [] if pairing is None else await pairing.spent()
    return Graded(compared.groups, _together(group, parts, compared, ahead))


def _stacked(id: str, parts: Sequence[GroupScores]) -> GroupScores:
    scores = np.concatenate([part.scores for part in parts])
    return GroupScores(id, parts[0].criteria, scores, tuple(part.reasons[0] for part in parts))


def _together(group: Group, parts: Sequence[Graded], compared: Graded, ahead: Sequence[Account]) -> Judgments | None:
    """What all judges said about the group; a rollout that occurs twice counts twice, but is paid once."""
    from rubrank.judges.client.usage import Account

    if compared.judging is None:
        return None
    (found,) = compared.judging.groups
    whole = Judgment(
        {},
        found.outcomes,
        found.words,
        found.missing,
        found.asked,
        found.lost,
        found.disagreement,
        found.first_wins,
        list(found.replies),
    )
    for i, part in enumerate(parts):
        judging = part.judging
        assert judging is not None
        (alone,) = judging.groups
        whole.verdicts |= {(i, name): verdict for (_, name), verdict in alone.verdicts.items()}
        whole.asked += alone.asked
        whole.lost += alone.lost
        whole.replies += alone.replies
        for name, reasons in alone.missing.items():
            whole.missing.setdefault(name, []).extend(reasons)
        whole.disagreement |= alone.disagreement
    once = {id(part): part for part in parts}.values()
    spent = [part.judging.account for part in once if part.judging is not None]
    return Judgments((whole,), Account.merge([*spent, *ahead, compared.judging.account]), (group.id,))


def covered(spans: Sequence[list[float]], end: float) -> float:
    """Seconds before `end` in which at least one of these was under way: [[0, 2], [1, 3], [9, 12]], 10 → 4."""
    total, at = 0.0, -math.inf
    for begun, ended in sorted(spans):
        first, last = max(begun, at), min(ended, end)
        total, at = total + max(last - first, 0.0), max(at, last)
    return total
