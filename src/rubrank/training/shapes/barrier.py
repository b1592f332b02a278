"""Shape (c): one sample at a time; a group waits until it is complete.

    barrier = Barrier(engine, size=8, timeout=300)
    await barrier.reward("uid-7", rollout, member=3, step=12)        returns when all eight of uid-7 are there

For trainers that call a reward function once for each sample. All calls of a query must reach the same barrier: one
event loop, or one named actor. What can go wrong, and what is done about it:

    a sibling is lost      `timeout` seconds after the first sample the group is scored with those that came, and says
                           so: `rubrank/groups/incomplete`, `counts["short"]`; comparisons connect those, too
    a sibling is late      it is scored within the whole group; the rewards that were handed out before stay
    a call is repeated     the same `member` of the same group gets the same reward, and is counted once; with another
                           response it is refused, or begins a new group where that one was scored
    another n              `size=` of a call replaces the barrier's; all calls of a group must say the same
    scoring fails          all that wait get the error, and the group is forgotten: it may be tried again

Programs and judges that score begin with a rollout the moment it comes, judges that compare two with a pair when both
are there; only judges that rank lists, and fusion, wait for the group. Members that are numbers below `size` are their
places in the group, so that neither pairs nor records depend on who comes first; others take the first free place.

A key that comes back after its group was complete begins a new group, unless the `member` is a repeated one. Groups are
remembered for `keep` seconds after they are scored, so give keys that name the step too if the same ones return sooner.
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
from rubrank.training.engine import RewardEngine, StepRewards
from rubrank.training.shapes.early import Early

_OWNER = "Barrier"
_LOOKS = 100  # for groups to forget, in the time for which one is kept


@dataclass(eq=False)
class _Round:
    """One group as it comes in."""

    key: Hashable
    size: int
    rubric: Any
    step: int
    train: bool
    rollouts: dict[Hashable, Rollout] = field(default_factory=dict)
    waiting: dict[Hashable, asyncio.Future[float]] = field(default_factory=dict)
    timer: asyncio.TimerHandle | None = None
    closed: float | None = None
    id: str = ""
    early: Early | None = None

    @property
    def full(self) -> bool:
        return len(self.rollouts) >= self.size

    def says(self, member: Hashable, rollout: Rollout) -> bool:
        """Is this what the member said?"""
        known = self.rollouts[member]
        return (known.response, known.reasoning) == (rollout.response, rollout.reasoning)


@refuses_wrong_kinds
class Barrier:
    """Collects the samples of a query, and scores them together. Belongs to one event loop.

    report: called with what each group gave, for logs. counts: groups complete and short, calls late and repeated.
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
                raise InvalidInput(_OWNER, name, "> 0", repr(value), "Size counts rollouts, the others seconds.")
        self.engine, self.size, self.timeout, self.keep, self.report = engine, size, timeout, keep, report
        self.counts: Counter[str] = Counter()
        self._rounds: dict[Hashable, _Round] = {}
        self._tasks: set[asyncio.Task[None]] = set()  # a loop holds tasks weakly
        self._unnamed = 0
        self._looked = -math.inf

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

        member: its number in the group, so that a repeated call is recognised; None: every call is another sample.
        """
        self._forget()
        found = self._rounds.get(key)
        known = found is not None and member is not None and member in found.waiting
        if found is not None and known and found.says(member, rollout):
            self.counts["repeated"] += 1
            return await asyncio.shield(found.waiting[member])
        if found is not None and known and found.closed is None:
            allowed, remedy = "the only one of its group", "Number the samples of a group."
            raise InvalidInput(_OWNER, f"member {member!r} of {key!r}", allowed, "another response", remedy)
        if found is None or known or (found.closed is not None and found.full):
            found = self._open(key, size or self.size, rubric, step, train)
        elif found.size != (size or self.size):
            raise InvalidInput(
                _OWNER,
                f"size of {key!r}",
                f"{found.size} for all samples of a group",
                str(size or self.size),
                "Give validation keys of its own.",
            )
        if member is None:
            self._unnamed += 1
            member = (_OWNER, self._unnamed)
        return await asyncio.shield(self._enter(found, member, rollout))

    def _open(self, key: Hashable, size: int, rubric: Any, step: int, train: bool) -> _Round:
        found = _Round(key, size, rubric, step, train, id=f"{self.engine.label(step, train=train)}/{key}")
        found.early = Early(self.engine, found.id, rubric, size)
        found.timer = asyncio.get_running_loop().call_later(self.timeout, self._close, found)
        self._rounds[key] = found
        return found

    def _enter(self, found: _Round, member: Hashable, rollout: Rollout) -> asyncio.Future[float]:
        future: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        found.rollouts[member], found.waiting[member] = rollout, future
        assert found.early is not None
        found.early.begin(member, rollout)
        if found.closed is not None:
            self.counts["late"] += 1
            self._start(found, late=True)
        elif found.full:
            self._close(found)
        return future

    def _close(self, found: _Round) -> None:
        assert found.timer is not None
        found.timer.cancel()
        found.closed = time.monotonic()
        self.counts["complete" if found.full else "short"] += 1
        self._start(found, late=False)

    def _start(self, found: _Round, late: bool) -> None:
        task = asyncio.get_running_loop().create_task(self._score(found, late))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _score(self, found: _Round, late: bool) -> None:
        assert found.early is not None
        members, short = found.early.in_order(found.rollouts), not found.full
        group = Group(id=found.id, rollouts=tuple(found.rollouts[member] for member in members), rubric=found.rubric)
        # A late one changes nothing but its own reward: nothing is learnt twice, and nothing recorded twice.
        given = {"train": found.train and not late, "write": not late}
        try:
            graded = self.engine.checked(await found.early.finish(members))
            result = await asyncio.to_thread(self.engine.fuse, [group], graded, found.step, **given)
        except Exception as error:
            self._fail(found, members, error)
            return
        for member, reward in zip(members, result.rewards[0], strict=True):
            if not found.waiting[member].done():
                found.waiting[member].set_result(reward)
        if self.report is not None and not late:
            told = {**result.metrics, "rubrank/groups/incomplete": float(short)}
            self.report(replace(result, metrics=told))

    def _fail(self, found: _Round, members: list[Hashable], error: Exception) -> None:
        for member in members:
            if not found.waiting[member].done():
                found.waiting[member].set_exception(error)
        if self._rounds.get(found.key) is found:
            del self._rounds[found.key]

    def _forget(self) -> None:
        """Groups that were scored long ago; looked for now and then, as every call looks through all of them."""
        now = time.monotonic()
        if now - self._looked < self.keep / _LOOKS:
            return
        self._looked = now
        old = [k for k, found in self._rounds.items() if found.closed is not None and now - found.closed > self.keep]
        for key in old:
            del self._rounds[key]
