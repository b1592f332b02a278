"""Samples that come one at a time: who belongs together, who is still awaited, and who was answered already.

    ticket = await cohorts.enter(sample)          or the answer, where this sample has had one
    work = await cohorts.settle(ticket, graded)   waits for the siblings; one gets the work, the others the answer
    await cohorts.publish(work.ticket, answers)   every caller is answered

It knows neither engine nor HTTP: the caller given the work scores the group. So it can live in the process of the
service, or in an actor that several replicas share. What can go wrong, and what is done about it:

    a sibling is lost      `deadline` seconds after the first sample the group is scored as it is, and says so
    a sibling is late      it is scored within the whole group; answers that were given before stay
    a call is repeated     its caller was cut off: it takes up its place again; answered before: it gets the same answer
    the same text twice    while the first caller is still there, it is another sample
    scoring fails          all that wait get the error; the next of them that comes back tries again
    the scorer dies         another caller that waits is given the work

A trainer that names group and sample leaves no doubt. Without names a sample is known by its text: one that was
answered lately is answered the same, and counts as a sibling if a new round of its group begins.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from typing import Any, Literal

from rubrank.errors import InvalidInput
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.service.store import Store, StoredCohort
from rubrank.training.engine import Graded

_REMEMBERED = 4096  # groups that are done, in memory; others are looked up on disk
_ABOUT = ("name", "size", "step", "train", "rubric")
_PRUNE = 60.0  # seconds between looks for what is too old


@dataclass(frozen=True, eq=False)
class ServiceSample:
    """One sample, as a dialect reads it."""

    key: bytes
    """Of its group."""
    member: bytes
    """What makes it the same sample when it comes again."""
    named: bool
    """Did the trainer name it? Else `member` is a digest of what was sampled."""
    rollout: Rollout
    size: int
    """Of the group."""
    name: str
    """Of the group, in records."""
    rubric: Any = None
    step: int = 0
    train: bool = True


@dataclass(frozen=True)
class SampleAnswer:
    """What a sample is answered."""

    reward: float
    """NaN: nothing is known about it."""
    usable: float
    """The same, with the mean of the group where nothing is known, for trainers that cannot leave a sample out."""
    group: str
    samples: int
    """In the group when it was scored."""
    size: int
    """Expected."""
    scores: Mapping[str, float]
    reasons: Mapping[str, str]
    stopped_by: str = ""
    cost: float = 0.0
    late: bool = False
    repeated: bool = False

    @property
    def complete(self) -> bool:
        """Were all siblings there?"""
        return self.samples >= self.size


@dataclass(frozen=True)
class Ticket:
    """A sample's place in its group."""

    id: int
    cohort: int
    number: int
    group: str
    """The name of its group."""
    size: int
    """That it is to have."""


@dataclass(frozen=True, eq=False)
class GroupWork:
    """A group to be scored. graded: of each rollout, where that has been done."""

    ticket: int
    group: Group
    graded: tuple[Graded | None, ...]
    step: int
    train: bool
    size: int
    late: int | None = None
    """Only this one is to be answered."""


@dataclass(eq=False)
class _Member:
    number: int
    identity: bytes
    rollout: Rollout | None
    graded: Graded | None = None
    answer: SampleAnswer | None = None
    callers: set[int] = field(default_factory=set)


@dataclass(eq=False)
class _Caller:
    cohort: _Cohort
    member: _Member
    owner: str
    late: bool
    future: asyncio.Future[SampleAnswer | GroupWork]
    settled: bool = False


@dataclass(eq=False)
class _Cohort:
    id: int
    key: bytes
    sample: ServiceSample
    """The first: name, size, rubric, step of all."""
    round: int = 0
    """How often its group had come before."""
    opened: float = field(default_factory=time.time)
    members: list[_Member] = field(default_factory=list)
    state: Literal["open", "closed", "scoring", "done"] = "open"
    timer: asyncio.TimerHandle | None = None
    leader: int | None = None
    done: float = 0.0
    echoes: list[tuple[float, _Member]] = field(default_factory=list)
    """Answered once more after it was done: siblings of the next round, perhaps."""

    @property
    def name(self) -> str:
        return f"{self.sample.name}.{self.round}" if self.round else self.sample.name

    @property
    def full(self) -> bool:
        return len(self.members) >= self.sample.size

    @property
    def callers(self) -> list[int]:
        return [id for member in self.members for id in member.callers]

    def twins(self, sample: ServiceSample) -> list[_Member]:
        return [member for member in self.members if member.identity == sample.member]


class Cohorts:
    """Belongs to one event loop. counts: groups complete and short, calls late and repeated."""

    def __init__(self, store: Store, *, deadline: float, keep: float) -> None:
        self._store, self._deadline, self._keep = store, deadline, keep
        self.counts: Counter[str] = Counter()
        self._rounds: dict[bytes, _Cohort] = {}
        self._done: OrderedDict[bytes, None] = OrderedDict()
        self._callers: dict[int, _Caller] = {}
        self._numbers, self._ids = count(1), count(store.last_cohort + 1)
        self._pruned = time.time()
        for kept in store.waiting():
            self._restore(kept)

    @property
    def waiting(self) -> int:
        """Callers that wait for siblings or scores."""
        return len(self._callers)

    @property
    def unfinished(self) -> int:
        """Groups that are not done."""
        return sum(cohort.state != "done" for cohort in self._rounds.values())

    # ------------------------------------------------------------------------------------------------------- entering

    async def enter(self, sample: ServiceSample, owner: str = "") -> Ticket | SampleAnswer:
        """A place in the group, or the answer of a sample that has had one."""
        self._prune()
        cohort = self._current(sample.key)
        if cohort is None or cohort.state == "done":
            return self._after(cohort, sample, owner)
        if cohort.sample.size != sample.size:
            raise InvalidInput(
                "request", "group_size", f"{cohort.sample.size} for all samples of a group", str(sample.size), ""
            )
        twins = cohort.twins(sample)
        free = twins if sample.named else [member for member in twins if not member.callers]
        if free:
            self.counts["repeated"] += 1
            return self._attach(cohort, free[0], owner)
        if cohort.state == "open":
            return self._join(cohort, sample, owner)
        if not cohort.full:
            return self._late(cohort, sample, owner)
        return self._join(self._open(sample, (), cohort.round + 1), sample, owner)

    def _after(self, cohort: _Cohort | None, sample: ServiceSample, owner: str) -> Ticket | SampleAnswer:
        """The last round of its group is over, or there was none."""
        if cohort is None:
            return self._join(self._open(sample, (), self._store.rounds(sample.key)), sample, owner)
        twin = next((member for member in cohort.twins(sample) if member.answer is not None), None)
        if twin is not None and twin.answer is not None:
            self.counts["repeated"] += 1
            if not sample.named:
                cohort.echoes.append((time.time(), replace(twin, callers=set(), rollout=sample.rollout)))
            return replace(twin.answer, repeated=True)
        if not cohort.full and time.time() - cohort.done < self._deadline:
            return self._late(cohort, sample, owner)
        fresh = [member for at, member in cohort.echoes if time.time() - at < self._deadline]
        return self._join(self._open(sample, fresh, cohort.round + 1), sample, owner)

    def _open(self, sample: ServiceSample, echoes: Sequence[_Member], round: int) -> _Cohort:
        cohort = _Cohort(next(self._ids), sample.key, sample, round)
        about = {name: getattr(sample, name) for name in _ABOUT}
        self._store.add_cohort(cohort.id, sample.key, {**about, "round": round})
        self._rounds[sample.key] = cohort
        self._done.pop(sample.key, None)
        self._set_timer(cohort)
        for echo in echoes[: sample.size - 1]:
            self._add(cohort, echo.identity, echo.rollout)
        return cohort

    def _set_timer(self, cohort: _Cohort) -> None:
        cohort.timer = asyncio.get_running_loop().call_later(self._deadline, self._close, cohort)

    def _add(self, cohort: _Cohort, identity: bytes, rollout: Rollout | None) -> _Member:
        assert rollout is not None
        member = _Member(len(cohort.members), identity, rollout)
        cohort.members.append(member)
        self._store.add_sample(cohort.id, member.number, identity, rollout)
        return member

    def _join(self, cohort: _Cohort, sample: ServiceSample, owner: str) -> Ticket:
        ticket = self._attach(cohort, self._add(cohort, sample.member, sample.rollout), owner)
        if cohort.full:
            self._close(cohort)
        return ticket

    def _late(self, cohort: _Cohort, sample: ServiceSample, owner: str) -> Ticket:
        self.counts["late"] += 1
        return self._attach(cohort, self._add(cohort, sample.member, sample.rollout), owner, late=True)

    def _attach(self, cohort: _Cohort, member: _Member, owner: str, late: bool = False) -> Ticket:
        id = next(self._numbers)
        future: asyncio.Future[SampleAnswer | GroupWork] = asyncio.get_running_loop().create_future()
        self._callers[id] = _Caller(cohort, member, owner, late, future)
        member.callers.add(id)
        return Ticket(id, cohort.id, member.number, cohort.name, cohort.sample.size)

    # ------------------------------------------------------------------------------------------------ waiting, scoring

    async def settle(self, ticket: Ticket, graded: Graded | None) -> GroupWork | SampleAnswer:
        """Wait for the siblings. graded: the sample's own scores, where they are known already."""
        caller = self._callers.get(ticket.id)
        if caller is None:
            raise asyncio.CancelledError  # no caller waits for it any more
        if graded is not None:
            caller.member.graded = graded
        caller.settled = True
        self._advance(caller.cohort)
        found = await caller.future
        if isinstance(found, SampleAnswer):
            self._forget(ticket.id)
        return found

    def _forget(self, id: int) -> None:
        caller = self._callers.pop(id, None)
        if caller is not None:
            caller.member.callers.discard(id)

    def _close(self, cohort: _Cohort) -> None:
        """No more siblings: all are there, or the deadline has passed."""
        if cohort.timer is not None:
            cohort.timer.cancel()
        if cohort.state != "open":
            return
        cohort.state = "closed"
        self.counts["complete" if cohort.full else "short"] += 1
        self._advance(cohort)

    def _advance(self, cohort: _Cohort) -> None:
        """Give out the work when every sample still there has been graded."""
        callers = [(id, self._callers[id]) for id in cohort.callers if not self._callers[id].future.done()]
        if cohort.state == "done":
            for id, one in callers:
                if one.late and one.settled:
                    one.future.set_result(self._work(cohort, id, one.member.number))
            return
        on_time = [(id, one) for id, one in callers if not one.late]
        if cohort.state != "closed" or not on_time or not all(one.settled for _, one in on_time):
            return
        id, leader = on_time[0]
        cohort.state, cohort.leader = "scoring", id
        leader.future.set_result(self._work(cohort, id, None))

    def _work(self, cohort: _Cohort, ticket: int, late: int | None) -> GroupWork:
        sample = cohort.sample
        members = [member for member in cohort.members if member.rollout is not None]
        rollouts = tuple(member.rollout for member in members if member.rollout is not None)
        group = Group.model_construct(id=cohort.name, rollouts=rollouts, rubric=sample.rubric)
        graded = tuple(member.graded for member in members)
        return GroupWork(ticket, group, graded, sample.step, sample.train and late is None, sample.size, late)

    async def publish(self, ticket: int, answers: Sequence[SampleAnswer]) -> None:
        """Answer all that wait; on disk before any is answered."""
        caller = self._callers[ticket]
        cohort = caller.cohort
        chosen = cohort.members[: len(answers)]
        if caller.late:
            chosen = [caller.member]
        given = {member.number: replace(answers[member.number], late=caller.late) for member in chosen}
        await self._store.answer(cohort.id, {number: asdict(answer) for number, answer in given.items()})
        for member in chosen:
            member.answer = given[member.number]
        self._finish(cohort, late=caller.late)
        for id in [id for member in chosen for id in member.callers]:
            self._tell(id)

    def _finish(self, cohort: _Cohort, late: bool) -> None:
        if not late:
            cohort.state, cohort.leader, cohort.done = "done", None, time.time()
            if self._rounds.get(cohort.key) is cohort:
                self._remember(cohort.key)
        if cohort.full:  # no sample can be late any more: texts and scores are not needed
            for member in cohort.members:
                member.rollout = member.graded = None
        self._advance(cohort)

    def _tell(self, id: int) -> None:
        """Its answer; one that is still being judged hears of it when it is."""
        caller = self._callers[id]
        if not caller.future.done() and caller.member.answer is not None:
            caller.future.set_result(caller.member.answer)
        if caller.settled:
            self._forget(id)

    def fail(self, ticket: int, error: Exception) -> None:
        """Scoring did not work: tell all that wait. The samples stay, for callers that try again."""
        caller = self._callers.get(ticket)
        if caller is None:
            return
        cohort = caller.cohort
        if not caller.late:
            cohort.state, cohort.leader = "closed", None
        waiting = [id for id in cohort.callers if self._callers[id].settled and not self._callers[id].late]
        for id in [ticket] if caller.late else waiting:
            one = self._callers[id]
            self._forget(id)
            one.member.graded = None
            if not one.future.done():
                one.future.set_exception(error)
                one.future.exception()  # seen: the caller may be gone

    def abandon(self, ticket: Ticket) -> None:
        """Its caller is gone; the sample stays in its group. A caller that scores the group goes on."""
        caller = self._callers.get(ticket.id)
        if caller is None or caller.cohort.leader == ticket.id:
            return
        self._forget(ticket.id)
        caller.future.cancel()
        self._advance(caller.cohort)

    def abandon_all(self, owner: str) -> None:
        """All callers of a replica that has died; groups that it was scoring are given to others."""
        for id in [id for id, caller in self._callers.items() if caller.owner == owner]:
            caller = self._callers[id]
            cohort = caller.cohort
            self._forget(id)
            caller.future.cancel()
            if cohort.leader == id:
                cohort.state, cohort.leader = "closed", None
            self._advance(cohort)

    # ------------------------------------------------------------------------------------------------------ remembering

    def _current(self, key: bytes) -> _Cohort | None:
        found = self._rounds.get(key)
        if found is not None:
            return found
        kept = self._store.find(key, time.time() - self._keep)
        return None if kept is None else self._restore(kept)

    def _restore(self, kept: StoredCohort) -> _Cohort:
        rollout = kept.samples[0].rollout if kept.samples else Rollout(response="")
        sample = ServiceSample(kept.key, b"", False, rollout, **{name: kept.about[name] for name in _ABOUT})
        cohort = _Cohort(kept.id, kept.key, sample, kept.about["round"])
        for one in kept.samples:
            answer = None if one.answer is None else SampleAnswer(**one.answer)
            cohort.members.append(_Member(one.number, one.member, one.rollout, answer=answer))
        self._rounds[kept.key] = cohort
        if kept.done is not None:
            cohort.state, cohort.done = "done", kept.done
            self._remember(kept.key)
        elif cohort.full:
            cohort.state = "closed"
        else:
            self._set_timer(cohort)
        return cohort

    def _remember(self, key: bytes) -> None:
        self._done[key] = None
        self._done.move_to_end(key)
        while len(self._done) > _REMEMBERED:
            old, _ = self._done.popitem(last=False)
            del self._rounds[old]

    def _prune(self) -> None:
        now = time.time()
        if now - self._pruned < _PRUNE:
            return
        self._pruned, old = now, now - self._keep
        self._store.prune(old)
        for key in [key for key in self._done if self._rounds[key].done < old]:
            del self._done[key], self._rounds[key]
        given_up = [key for key, one in self._rounds.items() if one.opened < old and not one.done and not one.callers]
        for key in given_up:
            del self._rounds[key]

    def close(self, error: Exception, *, only_open: bool = False) -> None:
        """Send all waiting callers away; their samples are on disk, and found there by the next process.

        only_open: only those that wait for siblings, not those whose group is being scored.
        """
        for cohort in self._rounds.values():
            if cohort.timer is not None:
                cohort.timer.cancel()
        for caller in self._callers.values():
            if (not only_open or caller.cohort.state == "open") and not caller.future.done():
                caller.future.set_exception(error)  # those that are still being judged hear of it when they are
                caller.future.exception()  # seen: the caller may be gone
