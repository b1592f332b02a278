"""Rewards for samples that arrive one at a time; a group waits until it is complete.

    barrier = Barrier(engine, size=8, timeout=300)
    await barrier.reward("uid-7", rollout, member=3, step=12)        returns when all eight of uid-7 have arrived

For trainers that call a reward function once per sample. All calls of a query must reach the same barrier: one event
loop, or one named actor. What can go wrong:

    a sample is lost       `timeout` seconds after its first sample the group is scored with the samples that arrived;
                           the metric `rubrank/groups/incomplete` and `counts["short"]` say so
    a sample is late       it is scored within the whole group; rewards that were returned before do not change
    a call is repeated     the same `member` of the same group gets the same reward, and is counted once; with another
                           response it is refused, or begins a new group if the first group was closed
    another group size     `size=` of a call replaces the barrier's; all calls of a group must pass the same
    scoring fails          the calls that waited for this scoring raise the error, and the group is forgotten: it may be
                           tried again. If a late sample fails, samples that were on time still get their rewards

Verifiers and judges that score single rollouts start as soon as a rollout arrives, pairwise judges as soon as both
rollouts of a pair have arrived. Only judges that rank lists, and fusion, wait for the group. A member that is a number
below `size` is a place in the group, so that pairs and records do not depend on the order of arrival; other members
take the first free place.

A group is closed when it is complete, or when its time is over. A key that returns after its group was complete begins
a new group, unless the `member` is a repeated one. Groups are remembered for `keep` seconds after they were closed; if
the same keys return sooner, put the step into the key. Rules that look at a whole batch see one group at a time here.

`ArrivingGroup` grades a group whose rollouts arrive one by one:

    group = ArrivingGroup(engine, group_id, rubric, size=2)
    group.begin(0, rollout)                  calls verifiers, and judges that score single rollouts
    group.begin(1, another)                  also calls pairwise judges about 0 and 1, if their design has this pair
    graded = await group.finish([0, 1])      the scores of the whole group; calls the judges that are left

Judging between the first and the last arrival overlaps with generation: `Graded.hidden` says how many seconds did, and
`Graded.seconds` how many the trainer waited for. Identical rollouts are graded once.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import Any, TypeVar

import numpy as np

from rubrank.errors import InvalidInput, refuses_wrong_kinds
from rubrank.grading.judge_table import find_cells_to_judge
from rubrank.judges.arrivals import Arrivals, Arrived, Memo
from rubrank.judges.client.usage import Account
from rubrank.judges.judge import Judgment
from rubrank.judges.judgments import Judgments
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.rubrics.rubric import Criterion
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.training.engine import Graded, RewardEngine, StepRewards, fill_unknown

T = TypeVar("T")
_OWNER = "Barrier"
_CLEANUPS = 100  # old groups are forgotten at most this many times in `keep` seconds


@dataclass(frozen=True)
class SampleReward:
    """The reward of one sample."""

    reward: float
    """NaN if all its scores are missing."""
    group_mean: float
    """Mean of the known rewards of its group; 0 if none is known."""

    @property
    def is_known(self) -> bool:
        """Whether the sample has a reward of its own."""
        return not math.isnan(self.reward)

    @property
    def filled(self) -> float:
        """The reward, or the mean of the group, for trainers that cannot leave a sample out."""
        return self.reward if self.is_known else self.group_mean


@dataclass(eq=False)
class _PendingGroup:
    """One group, from its first sample until it is forgotten; member → its rollout, and the reward to come."""

    key: Hashable
    id: str
    size: int
    rubric: Any
    step: int
    train: bool
    grading: ArrivingGroup
    timer: asyncio.TimerHandle = field(init=False)
    """Closes the group when its time is over."""
    rollouts: dict[Hashable, Rollout] = field(default_factory=dict)
    futures: dict[Hashable, asyncio.Future[SampleReward]] = field(default_factory=dict)
    closed_at: float | None = None
    """When scoring began; None while the group waits for samples."""

    @property
    def is_full(self) -> bool:
        return len(self.rollouts) >= self.size


@refuses_wrong_kinds
class Barrier:
    """Collects the samples of a query and scores them together. Belongs to one event loop.

    size: rollouts per group. timeout: seconds after which an incomplete group is scored.
    keep: seconds for which closed groups are remembered.
    report: called with the result of each group, for logs.
    counts: groups "complete" and "short", calls "late" and "repeated".
    """

    def __init__(
        self,
        engine: RewardEngine,
        size: int,
        *,
        timeout: float = 300.0,
        keep: float = 600.0,
        report: Callable[[StepRewards], None] | None = None,
    ) -> None:
        for name, value in (("size", size), ("timeout", timeout), ("keep", keep)):
            if not value > 0:
                raise InvalidInput(
                    _OWNER, name, "> 0", repr(value), "Size counts rollouts, the others seconds."
                )
        self.engine = engine
        self.size = size
        self.timeout = timeout
        self.keep = keep
        self.report = report
        self.counts: Counter[str] = Counter()
        self._groups: dict[Hashable, _PendingGroup] = {}
        self._tasks: set[asyncio.Task[None]] = set()  # an event loop holds tasks weakly
        self._unnamed_members = 0
        self._last_cleanup = -math.inf

    async def reward(
        self,
        key: Hashable,
        rollout: Rollout,
        *,
        step: int,
        rubric: Any = None,
        size: int | None = None,
        member: Hashable = None,
        train: bool = True,
    ) -> float:
        """The reward of one sample within its group; NaN if all its scores are missing.

        key: of the query. step: of the run. rubric: the query's own. size: of this group, if not the barrier's.
        member: its number in the group, to recognise a repeated call; None: every call is another sample.
        """
        sample = await self.score(
            key, rollout, step=step, rubric=rubric, size=size, member=member, train=train
        )
        return sample.reward

    async def score(
        self,
        key: Hashable,
        rollout: Rollout,
        *,
        step: int,
        rubric: Any = None,
        size: int | None = None,
        member: Hashable = None,
        train: bool = True,
    ) -> SampleReward:
        """`reward`, together with the mean of the group."""
        self._forget_old_groups()
        size = size or self.size
        group = self._groups.get(key)
        if group is not None and member is not None and member in group.rollouts:
            earlier = group.rollouts[member]
            if (earlier.response, earlier.reasoning) == (rollout.response, rollout.reasoning):
                self.counts["repeated"] += 1
                return await asyncio.shield(group.futures[member])
            if group.closed_at is None:
                allowed = "the only one of its group"
                remedy = "Number the samples of a group."
                raise InvalidInput(
                    _OWNER, f"member {member!r} of {key!r}", allowed, "another response", remedy
                )
            group = None
        elif group is not None and group.closed_at is not None and group.is_full:
            group = None
        if group is None:
            group = self._open(key, size, rubric, step, train)
        elif group.size != size:
            allowed = f"{group.size} for all samples of a group"
            remedy = "Use other keys for validation."
            raise InvalidInput(_OWNER, f"size of {key!r}", allowed, str(size), remedy)
        if member is None:
            self._unnamed_members += 1
            member = (_OWNER, self._unnamed_members)
        future: asyncio.Future[SampleReward] = asyncio.get_running_loop().create_future()
        group.rollouts[member] = rollout
        group.futures[member] = future
        group.grading.begin(member, rollout)
        if group.closed_at is not None:
            self.counts["late"] += 1
            self._start_scoring(group, [member], late=True)
        elif group.is_full:
            self._close(group)
        return await asyncio.shield(future)

    def _open(self, key: Hashable, size: int, rubric: Any, step: int, train: bool) -> _PendingGroup:
        group_id = f"{self.engine.label(step, train=train)}/{key}"
        grading = ArrivingGroup(self.engine, group_id, rubric, size)
        group = _PendingGroup(key, group_id, size, rubric, step, train, grading)
        group.timer = asyncio.get_running_loop().call_later(self.timeout, self._close, group)
        self._groups[key] = group
        return group

    def _close(self, group: _PendingGroup) -> None:
        group.timer.cancel()
        group.closed_at = time.monotonic()
        self.counts["complete" if group.is_full else "short"] += 1
        self._start_scoring(group, list(group.rollouts), late=False)

    def _start_scoring(
        self, group: _PendingGroup, waiting_members: Sequence[Hashable], late: bool
    ) -> None:
        scoring = self._score(group, waiting_members, late)
        task = asyncio.get_running_loop().create_task(scoring)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _score(
        self, group: _PendingGroup, waiting_members: Sequence[Hashable], late: bool
    ) -> None:
        """Score all rollouts that have arrived, and answer the calls of the waiting members.

        Other members are answered by a scoring of their own: the one that was started when the group was closed
        answers those that were on time, and each late member has one. So the failure of one reaches no other.
        """
        waiting = [group.futures[member] for member in waiting_members]
        # A sample that arrives after the group was closed is not part of the scoring of those that were on time.
        members = group.grading.sort_members(group.rollouts if late else waiting_members)
        is_short = len(members) < group.size
        rollouts = tuple(group.rollouts[member] for member in members)
        scored_group = Group(id=group.id, rollouts=rollouts, rubric=group.rubric)
        # A late sample changes only its own reward: the rule does not learn from the group twice, nor is it recorded.
        train = group.train and not late
        try:
            graded = await group.grading.finish(members)
            self.engine.check_judgments(graded)
            result = await asyncio.to_thread(
                self.engine.fuse, [scored_group], graded, group.step, train=train, write=not late
            )
        except asyncio.CancelledError:
            # Grading was cancelled, or this task: without an answer the calls would wait for ever.
            for future in waiting:
                future.cancel()
            self._forget(group)
            raise
        except Exception as error:
            for future in waiting:
                if not future.done():
                    future.set_exception(error)
            self._forget(group)
            return
        rewards = result.rewards[0]
        group_mean = fill_unknown([*rewards, math.nan])[-1]
        reward_of = dict(zip(members, rewards, strict=True))
        for member, future in zip(waiting_members, waiting, strict=True):
            if not future.done():
                future.set_result(SampleReward(reward_of[member], group_mean))
        if self.report is not None and not late:
            metrics = {**result.metrics, "rubrank/groups/incomplete": float(is_short)}
            self.report(replace(result, metrics=metrics))

    def _forget(self, group: _PendingGroup) -> None:
        # Another group may have begun under the same key.
        if self._groups.get(group.key) is group:
            del self._groups[group.key]

    def _forget_old_groups(self) -> None:
        """Forget groups that were closed long ago; not on every call, because it goes through all groups."""
        now = time.monotonic()
        if now - self._last_cleanup < self.keep / _CLEANUPS:
            return
        self._last_cleanup = now
        for key, group in list(self._groups.items()):
            if group.closed_at is not None and now - group.closed_at > self.keep:
                del self._groups[key]


# -------------------------------------------------------------------------------------- rollouts that arrive one by one


class ArrivingGroup:
    """Grades one group whose rollouts arrive one by one; belongs to one event loop.

    size: how many rollouts will arrive. None: unknown, so only judges that compare all pairs are called early.
    """

    def __init__(
        self, engine: RewardEngine, id: str, rubric: Any = None, size: int | None = None
    ) -> None:
        self.size = size
        self._engine = engine
        self._id = id
        self._rubric = rubric
        self._rollouts: dict[Hashable, Rollout] = {}
        self._slots: dict[Hashable, int] = {}  # member → its place in the group
        self._tasks: dict[Hashable, asyncio.Task[Graded]] = {}
        # Member → the scores that say which criteria its rollout is compared on. The future is
        #     pending      until verifiers, or else the judges of single rollouts, have decided that;
        #     done         with the scores: pairwise judges may be called;
        #     cancelled    if grading the rollout failed: it is compared with no other.
        self._scores_for_pairs: dict[Hashable, asyncio.Future[GroupScores]] = {}
        self._pairs: ArrivingPairs | None = None
        self._spans: list[list[float]] = []
        """[start, end] of each piece of work; the end is infinite while it runs."""

    def begin(self, member: Hashable, rollout: Rollout) -> None:
        """Start to grade one rollout by itself, and to compare it with those that have arrived."""
        if self._pairs is None:
            self._pairs = ArrivingPairs(
                self._engine, self._id, self._rubric, self.size, self._start
            )
        pairs = self._pairs
        # A member that is a number is its own place, so that the order of arrival does not matter.
        used_slots = set(self._slots.values())
        free_slots = set(range(self.size or 0)) - used_slots
        if isinstance(member, int | np.integer) and member in free_slots:
            slot = int(member)
        else:
            slot = next(number for number in count() if number not in used_slots)
        identical = next(
            (name for name, earlier in self._rollouts.items() if earlier == rollout), None
        )
        self._rollouts[member] = rollout
        self._slots[member] = slot
        if identical is not None:
            self._tasks[member] = self._tasks[identical]
            scores_for_pairs = self._scores_for_pairs[identical]
        else:
            scores_for_pairs = asyncio.get_running_loop().create_future()
            single = Group(id=self._id, rollouts=(rollout,), rubric=self._rubric)
            self._tasks[member] = self._start(self._grade(single, pairs, scores_for_pairs))
        self._scores_for_pairs[member] = scores_for_pairs

        def compare(scores: asyncio.Future[GroupScores]) -> None:
            if not scores.cancelled():
                pairs.enter(slot, rollout, scores.result())

        scores_for_pairs.add_done_callback(compare)

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start some work as a task, and note when it runs."""

        async def run() -> T:
            span = [time.perf_counter(), math.inf]
            self._spans.append(span)
            try:
                return await work
            finally:
                span[1] = time.perf_counter()

        return asyncio.create_task(run())

    async def _grade(
        self, single: Group, pairs: ArrivingPairs, scores_for_pairs: asyncio.Future[GroupScores]
    ) -> Graded:
        """Grade a group of one rollout; sets `scores_for_pairs` as soon as possible."""
        try:
            table = await asyncio.to_thread(self._engine.decide, [single])
            if pairs.may_enter(table.groups[0]):
                scores_for_pairs.set_result(table.groups[0])
            graded = await self._engine.ask(table, [single], compare=False)
            if not scores_for_pairs.done():
                scores_for_pairs.set_result(graded.groups[0])
            return graded
        finally:
            scores_for_pairs.cancel()  # no effect if it is done

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
    """Has pairs of one group judged as soon as both rollouts have arrived; belongs to one event loop.

    start: makes a task of a judge call.

        pairs.enter(slot, rollout, scores)      compare a rollout with those that have arrived
        pairs.arrived(slots)                    the answers so far, for the judgment of the whole group
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
        self._memo = Memo()

    @cached_property
    def _criteria(self) -> tuple[Criterion, ...]:
        return tuple(self._engine.combine_rubrics(self._rubric, f"group {self._id!r}").criteria)

    @cached_property
    def _arrivals(self) -> Arrivals | None:
        """Which pairs to judge when a rollout arrives; None if no judge can be called before the group is complete."""
        if self._engine.judges is None:
            return None
        arrivals = Arrivals(self._engine.judges, self._id, self._criteria, self._size)
        return arrivals if arrivals.possible else None

    def may_enter(self, scores: GroupScores) -> bool:
        """Whether the scores of verifiers alone decide if this rollout is compared with others."""
        return self._arrivals is not None and self._arrivals.may_enter(scores.reasons[0])

    def enter(self, slot: int, rollout: Rollout, scores: GroupScores) -> None:
        """Call judges to compare a rollout with those that have arrived."""
        if self._arrivals is None or self._engine.judges is None:
            return
        cells_to_compare = find_cells_to_judge(
            scores, self._criteria, self._engine.judges, compare=True
        )
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
        """The answers about pairs of the group, whose rollouts have these places; None without judges."""
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

    parts: the scores of each rollout; identical rollouts may share one part, whose cost is counted once.
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
    """What judges said about the group and its rollouts. The cost of identical rollouts is counted once."""
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
