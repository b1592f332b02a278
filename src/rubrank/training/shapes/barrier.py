"""Shape (c): one sample at a time; a group waits until it is complete.

    barrier = Barrier(engine, size=8, timeout=300)
    await barrier.reward("uid-7", rollout, member=3, step=12)        returns when all eight of uid-7 are there

For trainers that call a reward function once per sample. All calls of a query must reach the same barrier: one event
loop, or one named actor. What can go wrong:

    a sibling is lost      `timeout` seconds after its first sample the group is scored with those that came; the metric
                           `rubrank/groups/incomplete` and `counts["short"]` say so
    a sibling is late      it is scored within the whole group; the rewards that were returned before stay
    a call is repeated     the same `member` of the same group gets the same reward, and is counted once; with another
                           response it is refused, or begins a new group if that one was scored
    another group size     `size=` of a call replaces the barrier's; all calls of a group must pass the same
    scoring fails          all waiting calls raise the error, and the group is forgotten: it may be tried again

Verifiers and judges that score single rollouts start as soon as a rollout arrives, pairwise judges as soon as both
rollouts of a pair are there. Only judges that rank lists, and fusion, wait for the group. Members that are numbers
below `size` are places in the group, so that pairs and records do not depend on the order of arrival; other members
take the first free place.

A key that comes back after its group was complete begins a new group, unless the `member` is a repeated one. Groups are
remembered for `keep` seconds after they are scored; if the same keys return sooner, put the step into the key.
Rules that look at a whole batch see one group at a time here.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any

from rubrank.errors import InvalidInput, refuses_wrong_kinds
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.training.engine import RewardEngine, StepRewards, fill_unknown
from rubrank.training.shapes.arrivals import ArrivingGroup

_OWNER = "Barrier"
_CLEANUPS = 100  # old groups are looked for this many times in `keep` seconds


@dataclass(frozen=True)
class SampleReward:
    """The reward of one sample."""

    reward: float
    """NaN: all its scores are missing."""
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
    """One group, from its first sample until it is forgotten."""

    key: Hashable
    id: str
    size: int
    rubric: Any
    step: int
    train: bool
    grading: ArrivingGroup
    timer: asyncio.TimerHandle
    rollouts: dict[Hashable, Rollout] = field(default_factory=dict)
    futures: dict[Hashable, asyncio.Future[SampleReward]] = field(default_factory=dict)
    closed_at: float | None = None

    @property
    def is_full(self) -> bool:
        return len(self.rollouts) >= self.size


@refuses_wrong_kinds
class Barrier:
    """Collects the samples of a query and scores them together. Belongs to one event loop.

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
            self._start_scoring(group, late=True)
        elif group.is_full:
            self._close(group)
        return await asyncio.shield(future)

    def _open(self, key: Hashable, size: int, rubric: Any, step: int, train: bool) -> _PendingGroup:
        group_id = f"{self.engine.label(step, train=train)}/{key}"
        grading = ArrivingGroup(self.engine, group_id, rubric, size)
        group: _PendingGroup
        timer = asyncio.get_running_loop().call_later(self.timeout, lambda: self._close(group))
        group = _PendingGroup(key, group_id, size, rubric, step, train, grading, timer)
        self._groups[key] = group
        return group

    def _close(self, group: _PendingGroup) -> None:
        group.timer.cancel()
        group.closed_at = time.monotonic()
        self.counts["complete" if group.is_full else "short"] += 1
        self._start_scoring(group, late=False)

    def _start_scoring(self, group: _PendingGroup, late: bool) -> None:
        task = asyncio.get_running_loop().create_task(self._score(group, late))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _score(self, group: _PendingGroup, late: bool) -> None:
        members = group.grading.sort_members(group.rollouts)
        is_short = not group.is_full
        rollouts = tuple(group.rollouts[member] for member in members)
        scored_group = Group(id=group.id, rollouts=rollouts, rubric=group.rubric)
        # A late sample changes nothing but its own reward: the group is not learned from or recorded twice.
        train = group.train and not late
        try:
            graded = await group.grading.finish(members)
            self.engine.check_judgments(graded)
            result = await asyncio.to_thread(
                self.engine.fuse, [scored_group], graded, group.step, train=train, write=not late
            )
        except Exception as error:
            for member in members:
                if not group.futures[member].done():
                    group.futures[member].set_exception(error)
            if self._groups.get(group.key) is group:
                del self._groups[group.key]
            return
        rewards = result.rewards[0]
        group_mean = fill_unknown([*rewards, math.nan])[-1]
        for member, reward in zip(members, rewards, strict=True):
            if not group.futures[member].done():
                group.futures[member].set_result(SampleReward(reward, group_mean))
        if self.report is not None and not late:
            metrics = {**result.metrics, "rubrank/groups/incomplete": float(is_short)}
            self.report(replace(result, metrics=metrics))

    def _forget_old_groups(self) -> None:
        """Forget groups that were scored long ago; not on every call, because it goes through all of them."""
        now = time.monotonic()
        if now - self._last_cleanup < self.keep / _CLEANUPS:
            return
        self._last_cleanup = now
        for key, group in list(self._groups.items()):
            if group.closed_at is not None and now - group.closed_at > self.keep:
                del self._groups[key]
