"""Rewards for samples that arrive one at a time; a group waits until it is complete.

    barrier = Barrier(engine, size=8, timeout=300)
    await barrier.reward("uid-7", rollout, member=3, step=12)        returns when all eight of uid-7 have arrived

This is for trainers that call a reward function once per sample. A sample is a rollout of the query `key`, and `member`
is its number in the group. All calls of a query must reach the same barrier: one event loop, or one named actor.

The file has two parts: `Barrier` collects the samples of a group, and `ArrivingGroup` grades them while they arrive.

`Barrier`: a group has these states:

    first sample          last sample, or `timeout`             `keep` seconds
    ────────────> open ─────────────────────────────> closed ──────────────────> forgotten
                  each sample is graded               the group is scored, and the calls return;
                  when it arrives                     if that fails, it is forgotten at once

What a call does depends on the state of its group, and on whether its `member` came before:

       group                  member                        the call
    1  none                   –                             opens a group
    2  open                   new                           joins the group; the last one closes it
    3  open                   known, another response       is refused
    4  closed, complete       new                           opens a new group: the query is sampled again
    5  closed, incomplete     new                           is late: it is scored within the whole group, while rewards
                                                            that were returned before do not change
    6  closed                 known, another response       opens a new group: the query is sampled again
    7  open or closed         known, the same response      is repeated: it returns the same reward, and is counted once

If samples are lost, the group is scored `timeout` seconds after its first sample, with those that arrived; the metric
`rubrank/groups/incomplete` and `counts["short"]` say so. If scoring fails, the calls that waited for it raise the
error, and the group may be tried again; a late sample that fails does not fail those that were on time.

`size=` of a call replaces the barrier's; all calls of a group must pass the same. If a query is sampled again within
`keep` seconds, put the step into its key. Rules that look at a whole batch see one group at a time here.

`ArrivingGroup`: grading does not wait for the group, so judging overlaps with the generation of the other rollouts:

    add ──> verifiers ──┬──> judges that score single rollouts ──────────┐
                        │                                                ├──> finish
                        └──> pairwise judges, with each earlier rollout ─┘
                                                        verifiers and judges that need the whole group;
                                                        then all scores become one `Graded`

A rollout that a hard gate stops is not compared. So if a judge decides a hard gate, pairwise judges wait for it.
Identical rollouts are graded once, but each takes part in the comparisons.

A rollout has a place in its group, its slot. A pairwise judge compares certain pairs of slots, its design, so the pairs
do not depend on the order of arrival. Four rollouts with the design (0, 1), (1, 2), (2, 3), (0, 3):

    arrival      slot 2    slot 0    slot 3              slot 1
    is compared  –         –         with 2 and 0        with 2 and 0
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, TypeVar

import numpy as np

from rubrank.errors import InvalidInput, refuses_wrong_kinds
from rubrank.grading.judge_table import find_cells_to_judge
from rubrank.grading.plan import combine_rubrics
from rubrank.judges.client.usage import Account
from rubrank.judges.judge import Judgment
from rubrank.judges.judgments import Judgments
from rubrank.judges.kinds.comparisons import Arrivals, ArrivedGroup, Memo
from rubrank.judges.step import judge_groups_async
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.training.engine import Graded, RewardEngine, StepRewards

T = TypeVar("T")
_OWNER = "Barrier"


@dataclass(frozen=True)
class SampleReward:
    """The reward of one sample."""

    reward: float
    """NaN if all its scores are missing."""
    group_mean: float
    """Mean of the known rewards of its group; 0 if none is known."""
    metrics: Mapping[str, float]
    """Those of its group."""

    @property
    def is_known(self) -> bool:
        """Whether the sample has any score, and so a reward."""
        return not math.isnan(self.reward)

    @property
    def filled(self) -> float:
        """The reward, or the mean of the group, for trainers that cannot leave a sample out."""
        return self.reward if self.is_known else self.group_mean


@dataclass(eq=False)
class _WaitingGroup:
    """One group, from its first sample until it is forgotten."""

    key: Hashable
    id: str
    size: int
    rubric: Any
    step: int
    train: bool
    grading: ArrivingGroup
    timer: asyncio.TimerHandle = field(init=False)
    """Closes the open group when its time is over, because samples may be lost; later, forgets the closed group."""
    rollouts: dict[Hashable, Rollout] = field(default_factory=dict)
    """Member → its rollout."""
    rewards: dict[Hashable, asyncio.Future[SampleReward]] = field(default_factory=dict)
    """Member → its reward, once the group is scored."""
    is_closed: bool = False
    """Whether scoring has begun."""

    @property
    def is_complete(self) -> bool:
        return len(self.rollouts) >= self.size


@refuses_wrong_kinds
class Barrier:
    """Collects the samples of a query and scores them together. Belongs to one event loop.

    size: rollouts per group. timeout: seconds after which an incomplete group is scored.
    keep: seconds for which closed groups are remembered, for late and repeated calls.
    report: called with the result of each group, for logs.

    The attribute `counts` has the number of groups that were scored "complete" and "short" (incomplete), and of calls
    that were "late" and "repeated".
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
                    _OWNER,
                    name,
                    allowed="> 0",
                    got=repr(value),
                    remedy="Size counts rollouts, the others seconds.",
                )
        self.engine = engine
        self.size = size
        self.timeout = timeout
        self.keep = keep
        self.report = report
        self.counts: Counter[str] = Counter()
        self._groups: dict[Hashable, _WaitingGroup] = {}
        self._tasks: set[asyncio.Task[None]] = set()  # an event loop holds tasks weakly
        self._unnamed_members = 0

    async def reward(self, key: Hashable, rollout: Rollout, **options: Any) -> float:
        """Return the reward of one sample within its group; NaN if all its scores are missing. options: of `score`."""
        return (await self.score(key, rollout, **options)).reward

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
        """Return the reward of one sample and the mean of its group.

        key: identifies the query. step: of the run. rubric: the query's own. size: of this group, if not the barrier's.
        member: the sample's number in the group, to recognise a repeated call; None: every call is another sample. A
            number below `size` also makes pairs and records independent of the order of arrival.
        train: False for an evaluation: the rule does not learn from the group.
        """
        size = size or self.size
        if self.engine.thinking == "prefilled":
            rollout = rollout.reopen_thoughts()
        # The numbers of cases are those of the rows in the table at the top of the module.
        group = self._groups.get(key)
        is_sampled_again = False
        if group is not None and member in group.rollouts:
            earlier = group.rollouts[member]
            if (earlier.response, earlier.reasoning) == (rollout.response, rollout.reasoning):
                self.counts["repeated"] += 1  # case 7
                return await asyncio.shield(group.rewards[member])
            if not group.is_closed:  # case 3
                raise InvalidInput(
                    _OWNER,
                    f"member {member!r} of {key!r}",
                    allowed="the only one of its group",
                    got="another response",
                    remedy="Number the samples of a group.",
                )
            is_sampled_again = True  # case 6
        elif group is not None:
            is_sampled_again = group.is_closed and group.is_complete  # case 4
        if group is None or is_sampled_again:  # cases 1, 4 and 6
            group_id = f"{self.engine.label(step, train=train)}/{key}"
            grading = ArrivingGroup(self.engine, group_id, rubric, size)
            group = _WaitingGroup(key, group_id, size, rubric, step, train, grading)
            loop = asyncio.get_running_loop()
            group.timer = loop.call_later(self.timeout, self._close_group, group)
            self._groups[key] = group
        elif group.size != size:
            raise InvalidInput(
                _OWNER,
                f"size of {key!r}",
                allowed=f"{group.size} for all samples of a group",
                got=str(size),
                remedy="Use other keys for validation.",
            )
        if member is None:
            self._unnamed_members += 1
            member = (_OWNER, self._unnamed_members)  # a name that no trainer uses
        future: asyncio.Future[SampleReward] = asyncio.get_running_loop().create_future()
        group.rollouts[member] = rollout
        group.rewards[member] = future
        group.grading.add(member, rollout)
        if group.is_closed:  # case 5
            self.counts["late"] += 1
            self._start_scoring(group, [member], late=True)
        elif group.is_complete:  # the last sample of case 2, or of case 1 with size 1
            self._close_group(group)
        # If the trainer cancels this call, the future stays: a repeated call may still ask for the reward.
        return await asyncio.shield(future)

    def _close_group(self, group: _WaitingGroup) -> None:
        """Start to score a group, because it is complete or its time is over."""
        group.is_closed = True
        group.timer.cancel()
        group.timer = asyncio.get_running_loop().call_later(self.keep, self._forget_group, group)
        self.counts["complete" if group.is_complete else "short"] += 1
        self._start_scoring(group, list(group.rollouts), late=False)

    def _start_scoring(
        self, group: _WaitingGroup, waiting_members: Sequence[Hashable], late: bool
    ) -> None:
        """Score a group in a separate task, which goes on if the call that started it is cancelled."""
        scoring = self._score_group(group, waiting_members, late)
        task = asyncio.get_running_loop().create_task(scoring)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _score_group(
        self, group: _WaitingGroup, waiting_members: Sequence[Hashable], late: bool
    ) -> None:
        """Score a group, and answer the calls of the waiting members.

        When a group is closed, it is scored once for all members that were on time. For each late member it is scored
        again, with all rollouts that have arrived, so that a failure reaches no other call.
        """
        members = group.grading.sort_members(group.rollouts if late else waiting_members)
        rollouts = tuple(group.rollouts[member] for member in members)
        scored_group = Group(id=group.id, rollouts=rollouts, rubric=group.rubric)
        waiting = {member: group.rewards[member] for member in waiting_members}
        # A late sample changes only its own reward: the rule does not learn from the group twice, nor is it recorded.
        train = group.train and not late
        try:
            graded = await group.grading.finish(members)
            self.engine.check_judgments(graded)
            result = await asyncio.to_thread(
                self.engine.fuse, [scored_group], graded, group.step, train=train, write=not late
            )
        except BaseException as error:
            # Without an answer the calls would wait for ever.
            _raise_in(waiting.values(), error)
            self._forget_group(group)
            if isinstance(error, Exception):
                return
            raise
        rewards = dict(zip(members, result.rewards[0], strict=True))
        known_rewards = [reward for reward in rewards.values() if not math.isnan(reward)]
        group_mean = math.fsum(known_rewards) / len(known_rewards) if known_rewards else 0.0
        is_short = len(members) < group.size
        metrics = {**result.metrics, "rubrank/groups/incomplete": float(is_short)}
        for member, future in waiting.items():
            if not future.done():
                future.set_result(SampleReward(rewards[member], group_mean, metrics))
        if self.report is not None and not late:
            self.report(replace(result, metrics=metrics))

    def give_up(self, key: Hashable, error: BaseException) -> None:
        """Forget a group because one of its samples is lost; its calls that still wait raise the error.

        A closed group may still be scored, and then its calls wait as well.
        """
        group = self._groups.get(key)
        if group is not None:
            group.grading.cancel()
            _raise_in(group.rewards.values(), error)
            self._forget_group(group)

    def _forget_group(self, group: _WaitingGroup) -> None:
        group.timer.cancel()
        # Another group may have begun under the same key.
        if self._groups.get(group.key) is group:
            del self._groups[group.key]


def _raise_in(futures: Iterable[asyncio.Future[Any]], error: BaseException) -> None:
    """Make the calls that wait for these futures raise an error; they are cancelled if it is not an Exception."""
    for future in futures:
        if not isinstance(error, Exception):
            future.cancel()
        elif not future.done():
            future.set_exception(error)
            future.exception()  # marks it as retrieved, because its call may be gone


# ------------------------------------------------------------------------------------------ grading while they arrive


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

        group = ArrivingGroup(engine, "12/uid-7", rubric, size=2)
        group.add(0, rollout)                    starts to grade this rollout
        group.add(1, another)                    starts to grade it, and to compare it with rollout 0
        graded = await group.finish([0, 1])      the scores of the whole group

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
        # [start, end] of each task, in seconds; the end is infinite while it runs. They tell how much of the judging
        # overlapped with the generation of other rollouts.
        self._spans: list[list[float]] = []
        # The tasks whose judge calls an earlier `finish` has returned as costs
        self._counted_tasks: set[asyncio.Task[Graded]] = set()

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
                # An identical rollout shares the grading, but is compared in its own slot: now if the hard gates are
                # decided, otherwise by `_compare_in_slots`.
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
        """Return the scores of these members' rollouts as a group; raises what grading one of them raised.

        It is called again for every late rollout. The judge calls in `Graded.judging.account` are those that no earlier
        call has returned.
        """
        complete_at = time.perf_counter()
        tasks = [self._tasks[member] for member in members]
        await asyncio.gather(*dict.fromkeys(tasks))  # identical rollouts share a task
        rollouts = tuple(self._rollouts[member].rollout for member in members)
        group = Group(id=self._id, rollouts=rollouts, rubric=self._rubric)
        slots = tuple(self._slots[member] for member in members)
        parts = []
        for task in tasks:
            part = task.result()
            parts.append(part.drop_cost() if task in self._counted_tasks else part)
        self._counted_tasks.update(tasks)
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
        await pairs.wait_for_accounts()           what the new calls cost, once all are answered
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
        self._counted_tasks: set[asyncio.Task[Judgments]] = set()  # whose accounts were returned
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
        judging = judge_groups_async(
            pair_groups,
            [self._criteria] * len(pairs),
            cells,
            self._judges,
            arrived=ArrivedGroup(self._memo),
        )
        task = self._start(judging)
        # Retrieve the error, if any: the task may never be awaited.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._tasks.append(task)

    def collect_replies(self, slots: tuple[int, ...]) -> ArrivedGroup:
        """Return the replies about pairs, for the judgment of the group whose rollouts have these slots."""
        if max(slots, default=0) < self._size:
            return ArrivedGroup(self._memo, slots, self._size)
        # More rollouts came than were expected, and the design for `size` rollouts does not cover them. So the group is
        # compared by the design for its real size. A pair that is in both designs has been judged, and is not asked
        # about again.
        return ArrivedGroup(self._memo)

    async def wait_for_accounts(self) -> list[Account]:
        """Wait for all calls about pairs, and return what those cost that were not returned before."""
        tasks = list(self._tasks)
        await asyncio.gather(*tasks)
        new_tasks = [task for task in tasks if task not in self._counted_tasks]
        self._counted_tasks.update(new_tasks)
        return [task.result().account for task in new_tasks]

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

    Identical rollouts share one part. Its calls were paid for once, so its account counts once. Its answers count for
    each of the rollouts, as when a group is judged at once: `missing` is then a share of all scores.
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
