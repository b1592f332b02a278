"""Grade a group whose rollouts arrive one by one, so that judging overlaps with the generation of the others.

    group = ArrivingGroup(engine, "12/uid-7", rubric, size=2)
    group.add(0, rollout)                    starts to grade this rollout
    group.add(1, another)                    starts to grade it, and to compare it with rollout 0
    graded = await group.finish([0, 1])      the scores of the whole group

What happens to a rollout, and at the end to the group:

    add ──> verifiers ──┬──> judges that score single rollouts ──────────┐
                        │                                                ├──> finish
                        └──> pairwise judges, with each earlier rollout ─┘
                                                        verifiers and judges that need the whole group;
                                                        then all scores become one `Graded`

A rollout that a hard gate stops is not compared. So if a judge decides a hard gate, pairwise judges wait for it.
Identical rollouts are graded once, but each takes part in the comparisons.

A rollout has a place in its group, its slot. The design of a pairwise judge is a set of pairs of slots, so pairs do not
depend on the order of arrival.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, TypeVar

import numpy as np

from rubrank.grading.judge_table import find_cells_to_judge
from rubrank.grading.plan import combine_rubrics
from rubrank.judges.arrivals import Arrivals, ArrivedGroup, Memo
from rubrank.judges.client.usage import Account
from rubrank.judges.judge import Judgment
from rubrank.judges.judgments import Judgments
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.training.engine import Graded, RewardEngine

T = TypeVar("T")


@dataclass(eq=False)
class _DistinctRollout:
    """A rollout that has arrived, for one member of the group or for several."""

    rollout: Rollout
    slots: list[int]
    """The places in the group that have this rollout."""
    scores_for_pairs: GroupScores | None = None
    """The scores that say on which criteria it is compared; None until all its hard gates are decided."""


class ArrivingGroup:
    """Grades one group whose rollouts arrive one by one; belongs to one event loop.

    rubric: the query's own, or None. size: how many rollouts are expected.
    """

    def __init__(self, engine: RewardEngine, group_id: str, rubric: Any, size: int) -> None:
        self._engine = engine
        self._id = group_id
        self._rubric = rubric
        self._size = size
        # Member → its rollout, its place in the group, and the task that grades it. Members are the caller's names.
        self._rollouts: dict[Hashable, _DistinctRollout] = {}
        self._slots: dict[Hashable, int] = {}
        self._tasks: dict[Hashable, asyncio.Task[Graded]] = {}
        self._pairs: ArrivingPairs | None = None
        if engine.judges is not None:
            self._pairs = ArrivingPairs(engine, group_id, rubric, size, self._start)
        # [start, end] of each task; the end is infinite while it runs. They tell how much of the judging was hidden
        # behind the generation of other rollouts.
        self._spans: list[list[float]] = []

    def add(self, member: Hashable, rollout: Rollout) -> None:
        """Start to grade one rollout by itself, and to compare it with those that have arrived.

        member: a name that no other rollout of the group has. A number below `size` is also the rollout's slot, so that
        the order of arrival does not matter; other members take the first free slot.
        """
        used_slots = set(self._slots.values())
        free_slots = set(range(self._size)) - used_slots
        if isinstance(member, int | np.integer) and member in free_slots:
            slot = int(member)
        else:
            slot = next(number for number in count() if number not in used_slots)
        self._slots[member] = slot
        for earlier_member, earlier in self._rollouts.items():
            if earlier.rollout == rollout:
                # An identical rollout shares the grading, but is compared in its own slot: now if the grading has come
                # that far, otherwise by `_compare_in_slots`.
                earlier.slots.append(slot)
                if self._pairs is not None and earlier.scores_for_pairs is not None:
                    self._pairs.compare(slot, rollout, earlier.scores_for_pairs)
                self._rollouts[member] = earlier
                self._tasks[member] = self._tasks[earlier_member]
                return
        distinct = _DistinctRollout(rollout, [slot])
        self._rollouts[member] = distinct
        self._tasks[member] = self._start(self._grade(distinct))

    async def _grade(self, distinct: _DistinctRollout) -> Graded:
        """Grade a rollout as a group of one; calls pairwise judges as soon as its hard gates are decided."""
        single = Group(id=self._id, rollouts=(distinct.rollout,), rubric=self._rubric)
        # `decide` runs the verifiers, `ask` calls the judges.
        table = await asyncio.to_thread(self._engine.decide, [single])
        if self._pairs is not None and self._pairs.are_gates_decided(table.groups[0]):
            self._compare_in_slots(distinct, table.groups[0])
        graded = await self._engine.ask(table, [single], compare=False)
        if distinct.scores_for_pairs is None:
            self._compare_in_slots(distinct, graded.groups[0])
        return graded

    def _compare_in_slots(self, distinct: _DistinctRollout, scores: GroupScores) -> None:
        """Compare a rollout, in each of its slots, with those that have arrived."""
        distinct.scores_for_pairs = scores
        if self._pairs is not None:
            for slot in distinct.slots:
                self._pairs.compare(slot, distinct.rollout, scores)

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start some work as a task, and record in `_spans` when it runs."""

        async def run() -> T:
            span = [time.perf_counter(), math.inf]
            self._spans.append(span)
            try:
                return await work
            finally:
                span[1] = time.perf_counter()

        return asyncio.create_task(run())

    def sort_members(self, members: Iterable[Hashable]) -> list[Hashable]:
        """Sort members by their slots."""
        return sorted(members, key=self._slots.__getitem__)

    async def finish(self, members: Sequence[Hashable]) -> Graded:
        """Return the scores of these members' rollouts as a group; raises what grading one of them raised."""
        complete_at = time.perf_counter()
        tasks = [self._tasks[member] for member in members]
        await asyncio.gather(*dict.fromkeys(tasks))  # identical rollouts share a task
        rollouts = tuple(self._rollouts[member].rollout for member in members)
        group = Group(id=self._id, rollouts=rollouts, rubric=self._rubric)
        slots = tuple(self._slots[member] for member in members)
        parts = [task.result() for task in tasks]
        graded = await merge_rollouts(self._engine, group, parts, self._pairs, slots)
        hidden = 0.0
        if graded.judging is not None:
            hidden = count_covered_seconds(self._spans, complete_at)
        return replace(graded, seconds=time.perf_counter() - complete_at, hidden=hidden)

    def cancel(self) -> None:
        """Stop all work for the group."""
        for task in self._tasks.values():
            task.cancel()
        if self._pairs is not None:
            self._pairs.cancel()


class ArrivingPairs:
    """Calls judges about pairs of one group as soon as both rollouts have arrived; for an engine with judges.

    rubric: the query's own, or None. size: how many rollouts are expected. start: makes a task of a judge call.

        pairs.compare(slot, rollout, scores)      calls judges about this rollout and each that has arrived
        pairs.collect_replies(slots)              the replies so far, for the judgment of the whole group
        await pairs.wait_for_accounts()           what the calls cost, once all are answered
    """

    def __init__(
        self,
        engine: RewardEngine,
        group_id: str,
        rubric: Any,
        size: int,
        start: Callable[[Coroutine[Any, Any, Judgments]], asyncio.Task[Judgments]],
    ) -> None:
        assert engine.judges is not None
        self._engine = engine
        self._judges = engine.judges
        self._size = size
        self._start = start
        self._criteria = combine_rubrics(engine.rubric, rubric, f"group {group_id!r}").criteria
        self._arrivals = Arrivals(self._judges, group_id, self._criteria, size)
        self._tasks: list[asyncio.Task[Judgments]] = []
        self._memo = Memo()

    def are_gates_decided(self, scores: GroupScores) -> bool:
        """Whether verifiers decided all hard gates of a rollout, so that it can be compared before judges score it."""
        return self._arrivals.has_decided_gates(scores.reasons[0])

    def compare(self, slot: int, rollout: Rollout, scores: GroupScores) -> None:
        """Call judges to compare a rollout with those that have arrived. scores: its own, as a group of one."""
        if not self._arrivals.has_early_pairs:  # these judges need the whole group
            return
        # For each criterion, whether this rollout is compared on it: not if a verifier decided it or a gate stopped it.
        cells_to_compare = find_cells_to_judge(scores, self._criteria, self._judges, compare=True)
        pairs = self._arrivals.add(slot, rollout, cells_to_compare[0])
        if not pairs:
            return
        pair_groups = [group for group, _ in pairs]
        cells = [cells for _, cells in pairs]
        judging = self._engine.ask_pairs(
            pair_groups, self._criteria, cells, ArrivedGroup(self._memo)
        )
        task = self._start(judging)
        # Retrieve the error, if any: the task may never be awaited.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._tasks.append(task)

    def collect_replies(self, slots: tuple[int, ...]) -> ArrivedGroup:
        """Return the replies about pairs, for the judgment of the group whose rollouts have these slots."""
        if max(slots, default=0) < self._size:
            return ArrivedGroup(self._memo, slots, self._size)
        # More rollouts came than were expected, so the design for `size` rollouts does not cover them: the group is
        # compared by the design for its real size, and replies about pairs of both designs are reused.
        return ArrivedGroup(self._memo)

    async def wait_for_accounts(self) -> list[Account]:
        """Wait for all calls about pairs, and return what they cost."""
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
    slots: tuple[int, ...] = (),
) -> Graded:
    """Make the scores of a group from those of its rollouts; judges that need the whole group are called now.

    parts: the scores of each rollout, as a group of one; identical rollouts may share one part, whose cost is counted
        once.
    pairs, slots: pairs that were judged before, and the places of the rollouts in them.
    """
    scores = [part.groups[0] for part in parts]
    probabilities = {}
    for name in dict.fromkeys(name for part in scores for name in part.probabilities):
        # A part holds a tuple with one entry, for its only rollout; () if the judge did not say how sure it is.
        probabilities[name] = tuple(part.probabilities.get(name, ((),))[0] for part in scores)
    stacked = GroupScores(
        group.id,
        scores[0].criteria,
        np.concatenate([part.scores for part in scores]),
        reasons=tuple(part.reasons[0] for part in scores),
        probabilities=probabilities,
    )
    table = engine.decide_groups(ScoreTable((stacked,)), [group])
    arrived = None if pairs is None else pairs.collect_replies(slots)
    compared = await engine.ask(table, [group], compare=True, arrived=arrived)
    pair_accounts = [] if pairs is None else await pairs.wait_for_accounts()
    return Graded(compared.groups, _merge_judgments(group, parts, compared, pair_accounts))


def _merge_judgments(
    group: Group, parts: Sequence[Graded], compared: Graded, pair_accounts: Sequence[Account]
) -> Judgments | None:
    """Merge the judgments about single rollouts (`parts`) and about the whole group (`compared`); None without judges.

    pair_accounts: the costs of the calls about pairs that were made before. Their verdicts are part of `compared`.
    """
    if compared.judging is None:
        return None
    merged = Judgment()
    merged.add(compared.judging.groups[0])
    disagreements: dict[str, list[float]] = defaultdict(list)
    accounts = {}
    for i, part in enumerate(parts):
        assert part.judging is not None
        accounts[id(part)] = part.judging.account  # one entry for identical rollouts
        (single,) = part.judging.groups
        # The only rollout of the part is number 0 there, and number i in the group.
        merged.verdicts |= {(i, name): verdict for (_, name), verdict in single.verdicts.items()}
        merged.asked += single.asked
        merged.lost += single.lost
        merged.replies += single.replies
        for name, reasons in single.missing.items():
            merged.missing[name] = [*merged.missing.get(name, ()), *reasons]
        for name, disagreement in single.disagreement.items():
            disagreements[name].append(disagreement)
    for name, values in disagreements.items():
        merged.disagreement[name] = math.fsum(values) / len(values)
    account = Account.merge([*accounts.values(), *pair_accounts, compared.judging.account])
    return Judgments((merged,), account, (group.id,))


def count_covered_seconds(spans: Sequence[list[float]], end: float) -> float:
    """Count the seconds before `end` that at least one span covers: [[0, 2], [1, 3], [9, 12]], 10 → 4."""
    total = 0.0
    covered_until = -math.inf
    for span_start, span_end in sorted(spans):
        first = max(span_start, covered_until)
        last = min(span_end, end)
        total += max(last - first, 0.0)
        covered_until = max(covered_until, last)
    return total
