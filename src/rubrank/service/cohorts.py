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
    a name, another text   a new round of the group; refused while a caller waits under that name
    all callers are gone   when the deadline passes nothing is scored: whoever comes next waits for siblings again
    scoring fails          all that wait get the error; the next of them that comes back tries again
    the scorer dies        another caller that waits is given the work

A trainer that names group and sample leaves no doubt. Without names a sample is known by its text. One that was
answered lately is answered the same, and counts as a sibling if a new round of its group begins.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from typing import Literal

from rubrank.errors import InvalidInput
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.service.samples import GroupWork, SampleAnswer, ServiceSample, Ticket, check_siblings, sampled
from rubrank.service.store import Store, StoredCohort
from rubrank.training.engine import Graded

_REMEMBERED = 4096  # groups that are done, in memory; others are looked up on disk
_ABOUT = ("name", "size", "step", "train", "rubric")
_PRUNE = 60.0  # seconds between looks for what is too old


@dataclass(eq=False)
class _Member:
    number: int
    identity: bytes
    text: bytes
    """A digest of what was sampled."""
    rollout: Rollout | None
    echo: bool = False
    """Taken over from the round before."""
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
    """Answered once more after it was done: siblings of the next round, perhaps. The last of them, one per name."""

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
        self.prune()
        cohort = self._current(sample.key)
        if cohort is None or cohort.state == "done":
            return self._after(cohort, sample, owner)
        check_siblings(cohort.sample, sample)
        twins = cohort.twins(sample)
        if sample.named and twins and twins[0].text != sampled(sample.rollout):
            return self._renamed(cohort, twins[0], sample, owner)
        free = twins if sample.named else [member for member in twins if not member.callers]
        if free:
            self.counts["repeated"] += 1
            return self._attach(cohort, free[0], owner)
        if cohort.state == "closed" and not cohort.callers and not cohort.full:
            cohort.state = "open"
            self._set_timer(cohort)
        if cohort.state == "open":
            return self._join(cohort, sample, owner)
        if not cohort.full:
            return self._late(cohort, sample, owner)
        return self._join(self._open(sample, (), cohort.round + 1), sample, owner)

    def _after(self, cohort: _Cohort | None, sample: ServiceSample, owner: str) -> Ticket | SampleAnswer:
        """The last round of its group is over, or there was none."""
        if cohort is None:
            return self._join(self._open(sample, (), self._store.rounds(sample.key)), sample, owner)
        twins = cohort.twins(sample)
        renamed = sample.named and bool(twins) and twins[0].text != sampled(sample.rollout)
        twin = next((member for member in twins if member.answer is not None), None)
        if twin is not None and twin.answer is not None and not renamed:
            self.counts["repeated"] += 1
            self._echo(cohort, twin, sample)
            return replace(twin.answer, repeated=True)
        if not cohort.full and not renamed and time.time() - cohort.done < self._deadline:
            return self._late(cohort, sample, owner)
        fresh = [member for at, member in cohort.echoes if time.time() - at < self._deadline]
        others = [member for member in fresh if not (renamed and member.identity == sample.member)]
        return self._join(self._open(sample, others, cohort.round + 1), sample, owner)

    def _echo(self, cohort: _Cohort, twin: _Member, sample: ServiceSample) -> None:
        """It may belong to the next round; no more of them are kept than that can take."""
        kept = [one for one in cohort.echoes if not (sample.named and one[1].identity == sample.member)]
        kept.append((time.time(), replace(twin, callers=set(), rollout=sample.rollout, echo=True)))
        cohort.echoes = kept[-sample.size :]

    def _renamed(self, cohort: _Cohort, twin: _Member, sample: ServiceSample, owner: str) -> Ticket:
        """Another text comes under a name that the group has already."""
        if twin.callers:
            got = "another text, while the one before is waited for"
            raise InvalidInput("request", "sample_id", "the name of one sample", got, "Give each sample its own.")
        if not twin.echo:
            return self._join(self._open(sample, (), cohort.round + 1), sample, owner)
        twin.text, twin.rollout, twin.graded, twin.echo = sampled(sample.rollout), sample.rollout, None, False
        self._store.add_sample(cohort.id, twin.number, twin.identity, sample.rollout)
        return self._attach(cohort, twin, owner)

    def _open(self, sample: ServiceSample, echoes: Sequence[_Member], round: int) -> _Cohort:
        cohort = _Cohort(next(self._ids), sample.key, sample, round)
        about = {name: getattr(sample, name) for name in _ABOUT}
        self._store.add_cohort(cohort.id, sample.key, {**about, "round": round})
        self._rounds[sample.key] = cohort
        self._done.pop(sample.key, None)
        self._set_timer(cohort)
        for echo in echoes[: sample.size - 1]:
            self._add(cohort, echo.identity, echo.rollout).echo = True
        return cohort

    def _set_timer(self, cohort: _Cohort) -> None:
        cohort.timer = asyncio.get_running_loop().call_later(self._deadline, self._close, cohort)

    def _add(self, cohort: _Cohort, identity: bytes, rollout: Rollout | None) -> _Member:
        assert rollout is not None
        member = _Member(len(cohort.members), identity, sampled(rollout), rollout)
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
        if cohort.state == "closed" and not on_time:  # nobody was answered, and nobody else is there: none is late
            on_time = callers
            for _, one in callers:
                one.late = False
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
        if not caller.late:
            self.counts["complete" if len(answers) >= cohort.sample.size else "short"] += 1
        self._finish(cohort, late=caller.late)
        for id in [id for member in chosen for id in member.callers]:
            self._tell(id)

    def _finish(self, cohort: _Cohort, late: bool) -> None:
        if not late:
            cohort.state, cohort.leader, cohort.done = "done", None, time.time()
            if self._rounds.get(cohort.key) is cohort:
                self._remember(cohort.key)
        if cohort.full and all(member.answer is not None for member in cohort.members):
            for member in cohort.members:  # no sample can be late any more: texts and scores are not needed
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
        waiting = [id for id in cohort.callers if self._callers[id].settled]
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
            cohort.members.append(_Member(one.number, one.member, sampled(one.rollout), one.rollout, answer=answer))
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

    def prune(self) -> None:
        """Forget what is too old, now and then."""
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
