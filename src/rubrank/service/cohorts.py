"""Samples that come one at a time wait for the other samples of their group. A waiting group is called a cohort.

    ticket = await cohorts.enter(sample)          or the answer, if this sample was answered before
    work = await cohorts.settle(ticket, graded)   waits for the siblings; one caller gets the work, others the answer
    await cohorts.publish(work.ticket, answers)   every caller is answered

    open ──(all came, or the deadline passed)──► closed ──(all callers settled)──► scoring ──(published)──► done
      ▲                                            │  ▲                                │
      └──(a sample comes, all callers had left)────┘  └────────(scoring failed)────────┘

This module knows neither the reward engine nor HTTP: the caller that gets the work scores the group. So it can run in
the process of the service, or in an actor that several replicas share. What can go wrong, and how it is handled:

    a sibling is lost      `deadline` seconds after the first sample the group is scored without it, and marked so
    a sibling is late      it is scored within the whole group; earlier answers do not change
    a call is repeated     if it was answered, it gets the same answer; else it takes the place of the lost call
    the same text twice    while the first caller is still connected, it is another sample
    same id, other text    an error while a caller waits under that id, else a new group with the same key
    all callers are gone   at the deadline nothing is scored; the next sample waits for siblings again
    scoring fails          all callers get the error; the first one that calls again starts another attempt
    the scorer dies        another waiting caller gets the work

A trainer should send `group_id` and `sample_id`. Without them, a group is identified by prompt and label, and a sample
by its text: a text that was answered within the last `keep` seconds gets its old answer.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from itertools import count
from typing import Any, Literal

from rubrank.errors import InvalidInput
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.service.store import ServiceStore, StoredCohort
from rubrank.training.engine import Graded

_MOST_DONE = 4096  # finished groups that are kept in memory; others are looked up on disk
_CLEAN_SECONDS = 60.0  # between deletions of old groups and answers
_GROUP_FIELDS = ("name", "size", "step", "train", "rubric")
"""Fields of a sample that are stored for its group."""
_SAMPLED_FIELDS = {"response", "reasoning", "tool_calls", "finish_reason"}
"""Fields of a rollout that the policy wrote."""


@dataclass(frozen=True, eq=False)
class ServiceSample:
    """One sample, as a dialect reads it."""

    key: bytes
    """Identifies its group."""
    member: bytes
    """Identifies the sample within its group, so that a repeated call is recognised."""
    named: bool
    """Did the trainer send a sample_id? Else `member` is a digest of its text."""
    rollout: Rollout
    size: int
    """Expected number of samples in the group."""
    name: str
    """Name of the group in records."""
    rubric: Any = None
    step: int = 0
    train: bool = True


@dataclass(frozen=True)
class SampleAnswer:
    """The answer to a sample."""

    reward: float
    """NaN: all scores are missing."""
    usable: float
    """The reward, or the mean of the group instead of NaN, for trainers that cannot leave a sample out."""
    group: str
    samples: int
    """Number of samples in the group when it was scored."""
    size: int
    """Expected number of samples."""
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
    """A caller's claim to the answer of one sample."""

    id: int
    cohort: int
    number: int
    group: str
    """The name of its group."""
    size: int
    """Expected number of samples in the group."""


@dataclass(frozen=True, eq=False)
class GroupWork:
    """A group to be scored."""

    ticket: int
    group: Group
    graded: tuple[Graded | None, ...]
    """Scores of each rollout; None: not graded yet."""
    step: int
    train: bool
    size: int
    late: int | None = None
    """The number of the only rollout to answer, if it came late; None: answer all."""


@dataclass(eq=False)
class _Member:
    """A sample in its cohort."""

    number: int
    identity: bytes
    text: bytes
    """A digest of what the policy wrote."""
    rollout: Rollout | None
    graded: Graded | None = None
    answer: SampleAnswer | None = None
    callers: set[int] = field(default_factory=set)


@dataclass(eq=False)
class _Cohort:
    id: int
    key: bytes
    first: ServiceSample
    """Name, size, rubric and step of all samples are those of the first."""
    opened_at: float = field(default_factory=time.monotonic)
    done_at: float = 0.0
    members: list[_Member] = field(default_factory=list)
    state: Literal["open", "closed", "scoring", "done"] = "open"
    timer: asyncio.TimerHandle | None = None
    leader: int | None = None
    """The caller that scores the group."""

    @property
    def is_full(self) -> bool:
        return len(self.members) >= self.first.size

    @property
    def callers(self) -> list[int]:
        return [caller for member in self.members for caller in member.callers]


@dataclass(eq=False)
class _Caller:
    cohort: _Cohort
    member: _Member
    owner: str
    """The replica that it is connected to."""
    late: bool
    """Did its sample come after the group was closed?"""
    future: asyncio.Future[SampleAnswer | GroupWork]
    settled: bool = False
    """Has it called `settle`: is its sample graded as far as is possible without the siblings?"""


class Cohorts:
    """All groups of single samples; belongs to one event loop. on_event: called with the name of a counter."""

    def __init__(
        self,
        store: ServiceStore,
        *,
        deadline: float,
        keep: float,
        on_event: Callable[[str], None] = lambda name: None,
    ) -> None:
        self._store = store
        self._deadline = deadline
        self._keep = keep
        self._on_event = on_event
        self._cohorts: dict[bytes, _Cohort] = {}
        """The last cohort of each key."""
        self._done: OrderedDict[bytes, None] = OrderedDict()
        """Keys of the finished cohorts in memory, oldest first."""
        self._callers: dict[int, _Caller] = {}
        self._caller_ids = count(1)
        self._cohort_ids = count(store.last_cohort + 1)
        self._cleaned_at = time.monotonic()
        for stored in store.find_waiting():
            if stored.samples:
                self._restore(stored)

    @property
    def waiting(self) -> int:
        """Callers that wait for siblings or scores."""
        return len(self._callers)

    @property
    def unfinished(self) -> int:
        """Groups that are not done."""
        return sum(cohort.state != "done" for cohort in self._cohorts.values())

    # -------------------------------------------------------------------------------------------------- entering

    async def enter(self, sample: ServiceSample, owner: str = "") -> Ticket | SampleAnswer:
        """Add a sample to its group; the answer, if it was answered before. owner: the replica of the caller."""
        self._delete_old()
        cohort = self._find_cohort(sample.key)
        if cohort is None:
            return self._open_cohort(sample, owner)
        if cohort.state == "done":
            return self._enter_done(cohort, sample, owner)
        return self._enter_unfinished(cohort, sample, owner)

    def _enter_unfinished(self, cohort: _Cohort, sample: ServiceSample, owner: str) -> Ticket:
        """A sample of a group that waits or is being scored: a repeated call, a sibling, or one of the next group."""
        difference = find_difference(cohort.first, sample)
        if difference is not None:
            raise difference
        text = digest_sampled(sample.rollout)
        for member in cohort.members:
            if member.identity != sample.member:
                continue
            if not sample.named and member.callers:
                # Without a sample_id, the same text is another sample while the caller that sent it is connected.
                continue
            if sample.named and member.text != text:
                if not member.callers:
                    return self._open_cohort(sample, owner)
                got = "another text while a call with the first one is waiting"
                remedy = "Give each sample its own."
                raise InvalidInput("request", "sample_id", "the name of one sample", got, remedy)
            self._on_event("repeated")
            return self._attach(cohort, member, owner)
        if cohort.is_full:
            return self._open_cohort(sample, owner)
        if cohort.state == "closed" and not cohort.callers:
            # All callers had left: wait for siblings again.
            cohort.state = "open"
            self._start_timer(cohort)
        return self._join(cohort, sample, owner, late=cohort.state != "open")

    def _enter_done(
        self, cohort: _Cohort, sample: ServiceSample, owner: str
    ) -> Ticket | SampleAnswer:
        """A sample of a group that was scored: a repeated call, a late sibling, or the first of a new group."""
        difference = find_difference(cohort.first, sample)
        if difference is None:
            text = digest_sampled(sample.rollout)
            for member in cohort.members:
                is_same = member.identity == sample.member and member.text == text
                if is_same and member.answer is not None:
                    self._on_event("repeated")
                    return replace(member.answer, repeated=True)
        is_recent = time.monotonic() - cohort.done_at < self._deadline
        if cohort.is_full or not is_recent:
            return self._open_cohort(sample, owner)
        if difference is not None:
            raise difference
        return self._join(cohort, sample, owner, late=True)

    def _open_cohort(self, sample: ServiceSample, owner: str) -> Ticket:
        """Open a cohort with this sample as its first member."""
        cohort_id = next(self._cohort_ids)
        first = sample
        if sample.key in self._cohorts:
            # The same prompt again, as in the next epoch: records need another name.
            first = replace(sample, name=f"{sample.name}.{cohort_id}")
        cohort = _Cohort(cohort_id, sample.key, first)
        about = {name: getattr(first, name) for name in _GROUP_FIELDS}
        self._store.add_cohort(cohort.id, sample.key, about)
        self._cohorts[sample.key] = cohort
        self._done.pop(sample.key, None)
        self._start_timer(cohort)
        return self._join(cohort, sample, owner)

    def _start_timer(self, cohort: _Cohort) -> None:
        cohort.timer = asyncio.get_running_loop().call_later(
            self._deadline, self._close_cohort, cohort
        )

    def _join(
        self, cohort: _Cohort, sample: ServiceSample, owner: str, late: bool = False
    ) -> Ticket:
        """Add a new member to a cohort."""
        text = digest_sampled(sample.rollout)
        member = _Member(len(cohort.members), sample.member, text, sample.rollout)
        cohort.members.append(member)
        self._store.add_sample(cohort.id, member.number, member.identity, sample.rollout)
        ticket = self._attach(cohort, member, owner, late)
        if late:
            self._on_event("late")
        elif cohort.is_full:
            self._close_cohort(cohort)
        return ticket

    def _attach(self, cohort: _Cohort, member: _Member, owner: str, late: bool = False) -> Ticket:
        """Register a caller that waits for the answer of a member."""
        caller_id = next(self._caller_ids)
        future = asyncio.get_running_loop().create_future()
        self._callers[caller_id] = _Caller(cohort, member, owner, late, future)
        member.callers.add(caller_id)
        return Ticket(caller_id, cohort.id, member.number, cohort.first.name, cohort.first.size)

    # ------------------------------------------------------------------------------------------- waiting, scoring

    async def settle(self, ticket: Ticket, graded: Graded | None) -> GroupWork | SampleAnswer:
        """Wait for the siblings. graded: the scores of the sample, if it was graded already."""
        caller = self._callers.get(ticket.id)
        if caller is None:
            raise asyncio.CancelledError  # it was abandoned
        if graded is not None:
            caller.member.graded = graded
        caller.settled = True
        self._advance(caller.cohort)
        result = await caller.future
        if isinstance(result, SampleAnswer):
            self._forget(ticket.id)
        return result

    def _forget(self, caller_id: int) -> None:
        """Remove a caller that was answered or has left; its sample stays in the cohort."""
        caller = self._callers.pop(caller_id, None)
        if caller is not None:
            caller.member.callers.discard(caller_id)

    def _close_cohort(self, cohort: _Cohort) -> None:
        """Wait for no more siblings: all have come, or the deadline has passed."""
        if cohort.timer is not None:
            cohort.timer.cancel()
        if cohort.state == "open":
            cohort.state = "closed"
            self._advance(cohort)

    def _advance(self, cohort: _Cohort) -> None:
        """Give the work to one caller as soon as every caller of the group has settled."""
        waiting = {}
        for caller_id in cohort.callers:
            caller = self._callers[caller_id]
            if not caller.future.done():
                waiting[caller_id] = caller
        if cohort.state == "done":
            for caller_id, caller in waiting.items():
                if caller.late and caller.settled:
                    late_member = caller.member.number
                    caller.future.set_result(self._make_work(cohort, caller_id, late_member))
            return
        if cohort.state != "closed":
            return
        on_time = {caller_id: caller for caller_id, caller in waiting.items() if not caller.late}
        if not on_time:
            # All callers that were on time have left before the group was scored: the late ones take their place.
            for caller in waiting.values():
                caller.late = False
            on_time = waiting
        if on_time and all(caller.settled for caller in on_time.values()):
            leader = next(iter(on_time))
            cohort.state = "scoring"
            cohort.leader = leader
            on_time[leader].future.set_result(self._make_work(cohort, leader, late=None))

    def _make_work(self, cohort: _Cohort, ticket: int, late: int | None) -> GroupWork:
        members = [member for member in cohort.members if member.rollout is not None]
        first = cohort.first
        return GroupWork(
            ticket=ticket,
            group=Group.model_construct(
                id=first.name,
                rollouts=tuple(member.rollout for member in members),
                rubric=first.rubric,
            ),
            graded=tuple(member.graded for member in members),
            step=first.step,
            train=first.train and late is None,
            size=first.size,
            late=late,
        )

    async def publish(self, ticket: int, answers: Sequence[SampleAnswer]) -> None:
        """Answer all callers of a group that was scored; on disk before any is answered."""
        caller = self._callers[ticket]
        cohort = caller.cohort
        members = [caller.member] if caller.late else cohort.members[: len(answers)]
        answer_of = {
            member.number: replace(answers[member.number], late=caller.late) for member in members
        }
        rows = {number: asdict(answer) for number, answer in answer_of.items()}
        await self._store.add_answers(cohort.id, rows)
        for member in members:
            member.answer = answer_of[member.number]
        if not caller.late:
            self._on_event("complete" if len(answers) >= cohort.first.size else "short")
            cohort.state = "done"
            cohort.leader = None
            cohort.done_at = time.monotonic()
            if self._cohorts.get(cohort.key) is cohort:
                self._remember_done(cohort.key)
        if cohort.is_full and all(member.answer is not None for member in cohort.members):
            # No sample can come late any more: free the texts and scores.
            for member in cohort.members:
                member.rollout = None
                member.graded = None
        self._advance(cohort)
        for member in members:
            for caller_id in list(member.callers):
                waiting = self._callers[caller_id]
                if not waiting.future.done():
                    waiting.future.set_result(answer_of[member.number])
                # A caller whose sample is still being judged stays registered until it settles.
                if waiting.settled:
                    self._forget(caller_id)

    async def fail(self, ticket: int, error: Exception) -> None:
        """Scoring failed: all callers get the error. The samples stay, for callers that try again."""
        scorer = self._callers.get(ticket)
        if scorer is None:
            return
        cohort = scorer.cohort
        affected = [ticket]
        if not scorer.late:
            cohort.state = "closed"
            cohort.leader = None
            affected = [id for id in cohort.callers if self._callers[id].settled]
        for caller_id in affected:
            caller = self._callers[caller_id]
            self._forget(caller_id)
            caller.member.graded = None
            _set_error(caller.future, error)

    async def abandon(self, ticket: Ticket) -> None:
        """The caller has disconnected; its sample stays in the group. If it is scoring the group, that goes on."""
        caller = self._callers.get(ticket.id)
        if caller is None or caller.cohort.leader == ticket.id:
            return
        self._forget(ticket.id)
        caller.future.cancel()
        self._advance(caller.cohort)

    def abandon_all(self, owner: str) -> None:
        """Remove all callers of a replica that has died; other callers get the groups that it was scoring."""
        for caller_id, caller in list(self._callers.items()):
            if caller.owner != owner:
                continue
            cohort = caller.cohort
            self._forget(caller_id)
            caller.future.cancel()
            if cohort.leader == caller_id:
                cohort.state = "closed"
                cohort.leader = None
            self._advance(cohort)

    # ------------------------------------------------------------------------------------------------- requests

    async def find_answer(self, request_id: str) -> bytes | None:
        """The stored answer to a request, if there is one."""
        return self._store.find_answer(request_id)

    async def add_answer(self, request_id: str, answer: bytes) -> None:
        """Store the answer to a request."""
        self._delete_old()
        await self._store.add_answer(request_id, answer)

    # --------------------------------------------------------------------------------------------- remembering

    def _find_cohort(self, key: bytes) -> _Cohort | None:
        if key in self._cohorts:
            return self._cohorts[key]
        stored = self._store.find_cohort(key, time.time() - self._keep)
        if stored is None or not stored.samples:
            return None
        return self._restore(stored)

    def _restore(self, stored: StoredCohort) -> _Cohort:
        """Load a cohort from disk: from an earlier process, or one that was dropped from memory."""
        about = {name: stored.about[name] for name in _GROUP_FIELDS}
        first = ServiceSample(stored.key, b"", False, stored.samples[0].rollout, **about)
        cohort = _Cohort(stored.id, stored.key, first)
        for sample in stored.samples:
            text = digest_sampled(sample.rollout)
            member = _Member(sample.number, sample.member, text, sample.rollout)
            if sample.answer is not None:
                member.answer = SampleAnswer(**sample.answer)
            cohort.members.append(member)
        self._cohorts[stored.key] = cohort
        if stored.done is not None:
            cohort.state = "done"
            cohort.done_at = time.monotonic() - max(0.0, time.time() - stored.done)
            self._remember_done(stored.key)
        elif cohort.is_full:
            cohort.state = "closed"
        else:
            self._start_timer(cohort)
        return cohort

    def _remember_done(self, key: bytes) -> None:
        """Keep a finished cohort in memory, and drop the oldest ones if there are too many."""
        self._done[key] = None
        self._done.move_to_end(key)
        while len(self._done) > _MOST_DONE:
            oldest, _ = self._done.popitem(last=False)
            del self._cohorts[oldest]

    def _delete_old(self) -> None:
        """Once a minute, delete groups and answers that are older than `keep` seconds."""
        now = time.monotonic()
        if now - self._cleaned_at < _CLEAN_SECONDS:
            return
        self._cleaned_at = now
        self._store.delete_before(time.time() - self._keep)
        oldest = now - self._keep
        for key, cohort in list(self._cohorts.items()):
            if cohort.state == "done":
                is_old = cohort.done_at < oldest
            else:
                is_old = cohort.opened_at < oldest and not cohort.callers
            if is_old:
                del self._cohorts[key]
                self._done.pop(key, None)

    def close(self, error: Exception, *, only_open: bool = False) -> None:
        """Answer all waiting callers with an error; the next process finds their samples on disk.

        only_open: only callers that wait for siblings, not those whose group is being scored.
        """
        for cohort in self._cohorts.values():
            if cohort.timer is not None:
                cohort.timer.cancel()
        for caller in self._callers.values():
            if not only_open or caller.cohort.state == "open":
                _set_error(caller.future, error)


def _set_error(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # marks it as retrieved: the caller may be gone, and asyncio would log a warning


def digest_sampled(rollout: Rollout) -> bytes:
    """A digest of what the policy wrote."""
    sampled = json.dumps(rollout.model_dump(include=_SAMPLED_FIELDS), sort_keys=True, default=str)
    return blake2b(sampled.encode("ascii"), digest_size=16).digest()


def find_difference(first: ServiceSample, sample: ServiceSample) -> InvalidInput | None:
    """The error if a sample does not belong to the group of the first one under its key; None if it does."""
    if first.size != sample.size:
        allowed = f"{first.size} for all samples of a group"
        return InvalidInput("request", "group_size", allowed, str(sample.size), "")
    same = "the same for all samples of a group"
    if first.rubric != sample.rubric:
        remedy = "Send it with every sample, or give another group another group_id."
        return InvalidInput("request", "rubric", same, "a different one", remedy)
    if first.rollout.prompt != sample.rollout.prompt:
        # Two trainers may use the same group ids; their samples must not be ranked against each other.
        remedy = (
            "Give each prompt its own group_id; trainers that share a service need different ones."
        )
        return InvalidInput("request", "prompt", same, "a different one", remedy)
    return None
