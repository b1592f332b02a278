"""Rewards for samples that arrive one at a time; a group waits until it is complete.

    barrier = Barrier(engine, size=8, timeout=300)
    await barrier.reward("uid-7", rollout, member=3, step=12)        returns when all eight of uid-7 have arrived

For trainers that call a reward function once per sample. All calls of a query must reach the same barrier: one event
loop, or one named actor. A group has these states:

    first sample          last sample, or `timeout`             `keep` seconds
    ────────────> open ─────────────────────────────> closed ──────────────────> forgotten
                  each sample is graded               the group is scored, and the calls return;
                  when it arrives                     if that fails, it is forgotten at once

What a call does depends on the state of its group, and on whether its `member` was there before:

    group                  member                        the call
    none                   –                             opens a group
    open                   new                           joins the group; the last one closes it
    open                   known, another response       is refused
    closed, complete       new                           opens a new group: the query has returned
    closed, incomplete     new                           is late: it is scored within the whole group, while rewards
                                                         that were returned before do not change
    closed                 known, another response       opens a new group
    open or closed         known, the same response      is repeated: it returns the same reward, and is counted once

If samples are lost, the group is scored `timeout` seconds after its first sample, with those that arrived; the metric
`rubrank/groups/incomplete` and `counts["short"]` say so. If scoring fails, the calls that waited for it raise the
error, and the group may be tried again; a late sample that fails does not fail those that were on time.

`size=` of a call replaces the barrier's; all calls of a group must pass the same. If keys return within `keep` seconds,
put the step into the key. Rules that look at a whole batch see one group at a time here.

Verifiers and most judges do not wait for the group: see `arriving_group.py`.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rubrank.errors import InvalidInput, refuses_wrong_kinds
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.training.arriving_group import ArrivingGroup
from rubrank.training.engine import RewardEngine, StepRewards, fill_unknown

_OWNER = "Barrier"
_CLEANUPS_PER_KEEP = 100  # old groups are looked for at most this many times in `keep` seconds


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
        """Whether the sample has a reward of its own."""
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
    """Closes the group when its time is over."""
    rollouts: dict[Hashable, Rollout] = field(default_factory=dict)
    """Member → its rollout."""
    rewards: dict[Hashable, asyncio.Future[SampleReward]] = field(default_factory=dict)
    """Member → its reward, once the group is scored."""
    closed_at: float | None = None
    """When scoring began; None while the group is open."""

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
        self._last_cleanup = -math.inf

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
        self._forget_old_groups()
        size = size or self.size
        group = self._groups.get(key)
        is_closed = group is not None and group.closed_at is not None
        earlier = None  # the rollout that this member sent before
        if group is not None and member is not None:
            earlier = group.rollouts.get(member)
        # The cases are those of the table at the top of the module. First, a member that was there before:
        if group is not None and earlier is not None:
            if (earlier.response, earlier.reasoning) == (rollout.response, rollout.reasoning):
                self.counts["repeated"] += 1
                return await asyncio.shield(group.rewards[member])
            if not is_closed:
                raise InvalidInput(
                    _OWNER,
                    f"member {member!r} of {key!r}",
                    allowed="the only one of its group",
                    got="another response",
                    remedy="Number the samples of a group.",
                )
        # Then the group of this sample: a new one, or the one that is there.
        query_has_returned = (
            group is not None and is_closed and (earlier is not None or group.is_complete)
        )
        if group is None or query_has_returned:
            group = self._open_group(key, size, rubric, step, train)
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
            member = (_OWNER, self._unnamed_members)
        future: asyncio.Future[SampleReward] = asyncio.get_running_loop().create_future()
        group.rollouts[member] = rollout
        group.rewards[member] = future
        group.grading.add(member, rollout)
        if group.closed_at is not None:
            self.counts["late"] += 1
            self._start_scoring(group, [member], late=True)
        elif group.is_complete:
            self._close_group(group)
        # If the trainer cancels this call, the future stays: a repeated call may still ask for the reward.
        return await asyncio.shield(future)

    def _open_group(
        self, key: Hashable, size: int, rubric: Any, step: int, train: bool
    ) -> _WaitingGroup:
        """Open a group, whose timer closes it if samples are lost."""
        group_id = f"{self.engine.label(step, train=train)}/{key}"
        grading = ArrivingGroup(self.engine, group_id, rubric, size)
        group = _WaitingGroup(key, group_id, size, rubric, step, train, grading)
        loop = asyncio.get_running_loop()
        group.timer = loop.call_later(self.timeout, self._close_group, group)
        self._groups[key] = group
        return group

    def _close_group(self, group: _WaitingGroup) -> None:
        """Start to score a group, because it is complete or its time is over."""
        group.timer.cancel()
        group.closed_at = time.monotonic()
        self.counts["complete" if group.is_complete else "short"] += 1
        self._start_scoring(group, list(group.rollouts), late=False)

    def _start_scoring(
        self, group: _WaitingGroup, waiting_members: Sequence[Hashable], late: bool
    ) -> None:
        """Score a group in a task of its own, which goes on if the call that started it is cancelled."""
        scoring = self._score_group(group, waiting_members, late)
        task = asyncio.get_running_loop().create_task(scoring)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _score_group(
        self, group: _WaitingGroup, waiting_members: Sequence[Hashable], late: bool
    ) -> None:
        """Score a group, and answer the calls of the waiting members.

        The scoring that starts when the group is closed answers all members that were on time. Each late member has a
        scoring of its own, of all rollouts that have arrived, so that its failure reaches no other call.
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
        # An unknown reward is filled with the mean of the known ones, so an added one gives that mean.
        group_mean = fill_unknown([*rewards.values(), math.nan])[-1]
        is_short = len(members) < group.size
        metrics = {**result.metrics, "rubrank/groups/incomplete": float(is_short)}
        for member, future in waiting.items():
            if not future.done():
                future.set_result(SampleReward(rewards[member], group_mean, metrics))
        if self.report is not None and not late:
            self.report(replace(result, metrics=metrics))

    def give_up(self, key: Hashable, error: BaseException) -> None:
        """Forget an open group because one of its samples is lost; its waiting calls raise the error."""
        group = self._groups.get(key)
        if group is not None:
            group.timer.cancel()
            group.grading.cancel()
            _raise_in(group.rewards.values(), error)
            self._forget_group(group)

    def _forget_group(self, group: _WaitingGroup) -> None:
        # Another group may have begun under the same key.
        if self._groups.get(group.key) is group:
            del self._groups[group.key]

    def _forget_old_groups(self) -> None:
        """Forget groups that were closed long ago; not on every call, because it goes through all groups."""
        now = time.monotonic()
        if now - self._last_cleanup < self.keep / _CLEANUPS_PER_KEEP:
            return
        self._last_cleanup = now
        for key, group in list(self._groups.items()):
            if group.closed_at is not None and now - group.closed_at > self.keep:
                del self._groups[key]


def _raise_in(futures: Iterable[asyncio.Future[Any]], error: BaseException) -> None:
    """Make the calls that wait for these futures raise an error; they are cancelled if it is not an Exception."""
    for future in futures:
        if not isinstance(error, Exception):
            future.cancel()
        elif not future.done():
            future.set_exception(error)
            future.exception()  # marks it as retrieved, because its call may be gone
