"""A group whose rollouts arrive one by one: each is graded on arrival, only list judges and fusion wait for the last.

    group = ArrivingGroup(engine, group_id, rubric, size=2)
    group.begin(0, rollout)                  verifiers decide, judges that score single rollouts are called
    group.begin(1, another)                  judges that compare two are called about 0 and 1, if their design has it
    graded = await group.finish([0, 1])      the scores of the whole group; what was not asked yet is asked now

Which pairs are compared does not depend on the order of arrival (`judges/arrivals.py`). The time between the first
and the last rollout is hidden behind generation: `Graded.hidden` says how much judging was hidden, `Graded.seconds` how
much was waited for. Identical rollouts are graded once.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from rubrank.judges.judge import Judgment
from rubrank.judges.judgments import Judgments
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.rubrics.rubric import Criterion
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.training.engine import Graded, RewardEngine

if TYPE_CHECKING:
    from rubrank.judges.arrivals import Arrivals, Arrived, Memo
    from rubrank.judges.client.usage import Account

T = TypeVar("T")


class ArrivingGroup:
    """One group as it arrives; belongs to one event loop.

    size: how many rollouts will come; None: unknown, so that only judges that compare all pairs are called ahead.
    """

    def __init__(
        self, engine: RewardEngine, id: str, rubric: Any = None, size: int | None = None
    ) -> None:
        self.size = size
        self._engine = engine
        self._id = id
        self._rubric = rubric
        self._rollouts: dict[Hashable, Rollout] = {}
        self._slots: dict[Hashable, int] = {}
        self._tasks: dict[Hashable, asyncio.Task[Graded]] = {}
        # Done as soon as it is known whether a rollout is to be compared with others.
        self._comparable: dict[Hashable, asyncio.Future[GroupScores]] = {}
        self._pairs: ArrivingPairs | None = None
        self._spans: list[list[float]] = []
        """[start, end] of each piece of work; the end is infinite while it runs."""

    def begin(self, member: Hashable, rollout: Rollout) -> None:
        """Grade one rollout by itself, and compare it with those that are there."""
        if self._pairs is None:
            self._pairs = ArrivingPairs(
                self._engine, self._id, self._rubric, self.size, self._start
            )
        pairs = self._pairs
        slot = self._free_slot(member)
        identical = next(
            (name for name, earlier in self._rollouts.items() if earlier == rollout), None
        )
        self._rollouts[member] = rollout
        self._slots[member] = slot
        if identical is not None:
            self._tasks[member] = self._tasks[identical]
            comparable = self._comparable[identical]
        else:
            comparable = asyncio.get_running_loop().create_future()
            single = Group(id=self._id, rollouts=(rollout,), rubric=self._rubric)
            self._tasks[member] = self._start(self._grade(single, pairs, comparable))
        self._comparable[member] = comparable

        def compare(scores: asyncio.Future[GroupScores]) -> None:
            if not scores.cancelled():
                pairs.enter(slot, rollout, scores.result())

        comparable.add_done_callback(compare)

    def _free_slot(self, member: Hashable) -> int:
        """The place of a member in the group: its number, if it has one; the order of arrival does not matter then."""
        used_slots = set(self._slots.values())
        if (
            isinstance(member, int | np.integer)
            and 0 <= member < (self.size or 0)
            and member not in used_slots
        ):
            return int(member)
        return next(slot for slot in range(len(used_slots) + 1) if slot not in used_slots)

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        return asyncio.create_task(self._time(work))

    async def _time(self, work: Awaitable[T]) -> T:
        """Await some work, and note when it ran."""
        span = [time.perf_counter(), math.inf]
        self._spans.append(span)
        try:
            return await work
        finally:
            span[1] = time.perf_counter()

    async def _grade(
        self, single: Group, pairs: ArrivingPairs, comparable: asyncio.Future[GroupScores]
    ) -> Graded:
        try:
            table = await asyncio.to_thread(self._engine.decide, [single])
            if pairs.may_enter(table.groups[0]):
                comparable.set_result(table.groups[0])
            graded = await self._engine.ask(table, [single], compare=False)
            if not comparable.done():
                comparable.set_result(graded.groups[0])
            return graded
        finally:
            comparable.cancel()  # no effect if it is done

    def sort_members(self, members: Iterable[Hashable]) -> list[Hashable]:
        """These members by their places in the group."""
        return sorted(members, key=self._slots.__getitem__)

    async def finish(self, members: Sequence[Hashable]) -> Graded:
        """The scores of these rollouts as a group; raises what grading one of them raised."""
        complete_at = time.perf_counter()
        await asyncio.gather(*dict.fromkeys(self._tasks[member] for member in members))
        rollouts = tuple(self._rollouts[member] for member in members)
        group = Group(id=self._id, rollouts=rollouts, rubric=self._rubric)
        slots = tuple(self._slots[member] for member in members)
        parts = [self._tasks[member].result() for member in members]
        graded = await merge_rollouts(self._engine, group, parts, self._pairs, slots)
        hidden = covered_seconds(self._spans, complete_at) if graded.judging is not None else 0.0
        return replace(graded, seconds=time.perf_counter() - complete_at, hidden=hidden)

    def cancel(self) -> None:
        """Stop all work for the group."""
        for task in self._tasks.values():
            task.cancel()
        if self._pairs is not None:
            self._pairs.cancel()


class ArrivingPairs:
    """Pairs of one group, judged as soon as both rollouts are there; belongs to one event loop.

    start: makes a task of a judge call.

        pairs.enter(slot, rollout, scores)      compare a rollout with those that are there
        pairs.arrived(slots)                    what the judgment of the whole group starts from
        await pairs.accounts()                  what the calls cost, once all are answered
    """

    def __init__(
        self,
        engine: RewardEngine,
        id: str,
        rubric: Any,
        size: int | None,
        start: Callable[[Coroutine[Any, Any, Judgments]], asyncio.Task[Judgments]],
    ) -> None:
        self._engine = engine
        self._id = id
        self._rubric = rubric
        self._size = size
        self._start = start
        self._tasks: list[asyncio.Task[Judgments]] = []

    @cached_property
    def _criteria(self) -> tuple[Criterion, ...]:
        return tuple(self._engine.whole_rubric(self._rubric, f"group {self._id!r}").criteria)

    @cached_property
    def _arrivals(self) -> Arrivals | None:
        """None if no judge can be called ahead."""
        from rubrank.judges.arrivals import Arrivals

        if self._engine.judges is None:
            return None
        arrivals = Arrivals(self._engine.judges, self._id, self._criteria, self._size)
        return arrivals if arrivals.possible else None

    @cached_property
    def _memo(self) -> Memo:
        from rubrank.judges.arrivals import Memo

        return Memo()

    def may_enter(self, scores: GroupScores) -> bool:
        """Whether the scores of verifiers alone decide if this rollout is compared with others."""
        return self._arrivals is not None and self._arrivals.may_enter(scores.reasons[0])

    def enter(self, slot: int, rollout: Rollout, scores: GroupScores) -> None:
        """Call judges about a rollout and those that are there."""
        from rubrank.grading.judge_table import cells_to_judge
        from rubrank.judges.arrivals import Arrived

        if self._arrivals is None or self._engine.judges is None:
            return
        cells_to_compare = cells_to_judge(scores, self._criteria, self._engine.judges, compare=True)
        pairs = self._arrivals.add(slot, rollout, cells_to_compare[0])
        if not pairs:
            return
        groups = [group for group, _ in pairs]
        cells = [cells for _, cells in pairs]
        task = self._start(
            self._engine.ask_pairs(groups, self._criteria, cells, Arrived(self._memo))
        )
        # Retrieve the error, if any: the task may never be awaited.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._tasks.append(task)

    def arrived(self, slots: tuple[int, ...]) -> Arrived | None:
        """What is known about the group, whose rollouts at these places have come."""
        from rubrank.judges.arrivals import Arrived

        if self._engine.judges is None:
            return None
        if self._size is not None and max(slots, default=0) < self._size:
            return Arrived(self._memo, slots, self._size)
        return Arrived(self._memo)

    async def accounts(self) -> list[Account]:
        """What the calls about pairs cost."""
        return [judgments.account for judgments in await asyncio.gather(*self._tasks)]

    def cancel(self) -> None:
        """Stop all calls."""
        for task in self._tasks:
            task.cancel()


async def merge_rollouts(
    engine: RewardEngine,
    group: Group,
    parts: Sequence[Graded],
    pairs: ArrivingPairs | None = None,
    slots: tuple[int, ...] | None = None,
) -> Graded:
    """The scores of a group from those of its rollouts, each graded by itself; judges that compare are called now.

    Identical rollouts may share one part, which is paid for once.
    pairs, slots: pairs that were judged before, and the places of the rollouts in them.
    """
    scores = [part.groups[0] for part in parts]
    reasons = tuple(part.reasons[0] for part in scores)
    names = dict.fromkeys(name for part in scores for name in part.probabilities)
    stacked = GroupScores(
        group.id,
        scores[0].criteria,
        np.concatenate([part.scores for part in scores]),
        reasons,
        probabilities={
            name: tuple(part.probabilities.get(name, ((),))[0] for part in scores) for name in names
        },
    )
    table = engine.decide_groups(ScoreTable((stacked,)), [group])
    arrived = None if pairs is None or slots is None else pairs.arrived(slots)
    compared = await engine.ask(table, [group], compare=True, arrived=arrived)
    pair_accounts = [] if pairs is None else await pairs.accounts()
    return Graded(compared.groups, _merge_judgments(group, parts, compared, pair_accounts))


def _merge_judgments(
    group: Group, parts: Sequence[Graded], compared: Graded, pair_accounts: Sequence[Account]
) -> Judgments | None:
    """What all judges said about the group; identical rollouts count each, but are paid for once."""
    from rubrank.judges.client.usage import Account

    if compared.judging is None:
        return None
    (comparison,) = compared.judging.groups
    merged = Judgment(
        {},
        comparison.outcomes,
        comparison.words,
        comparison.missing,
        comparison.asked,
        comparison.lost,
        comparison.disagreement,
        comparison.first_wins,
        list(comparison.replies),
    )
    accounts = {}
    for i, part in enumerate(parts):
        assert part.judging is not None
        accounts[id(part)] = part.judging.account
        (single,) = part.judging.groups
        merged.verdicts |= {(i, name): verdict for (_, name), verdict in single.verdicts.items()}
        merged.asked += single.asked
        merged.lost += single.lost
        merged.replies += single.replies
        for name, reasons in single.missing.items():
            merged.missing.setdefault(name, []).extend(reasons)
        merged.disagreement |= single.disagreement
    account = Account.merge([*accounts.values(), *pair_accounts, compared.judging.account])
    return Judgments((merged,), account, (group.id,))


def covered_seconds(spans: Sequence[list[float]], end: float) -> float:
    """Seconds before `end` that at least one span covers: [[0, 2], [1, 3], [9, 12]], 10 → 4."""
    total = 0.0
    covered_until = -math.inf
    for span_start, span_end in sorted(spans):
        first = max(span_start, covered_until)
        last = min(span_end, end)
        total += max(last - first, 0.0)
        covered_until = max(covered_until, last)
    return total
