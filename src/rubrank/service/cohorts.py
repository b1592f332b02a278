"""Samples that come one at a time wait for the other samples of their group. A waiting group is called a cohort.

    ticket = await cohorts.add_sample(sample)                  or the answer, if this sample was answered before
    work = await cohorts.wait_for_siblings(ticket, graded)     one caller gets the work, the others get the answer
    await cohorts.publish_answers(work.caller_id, answers)     every caller is answered

    open ──(all came, or the deadline passed)──► closed ──(all callers wait)──► scoring ──(published)──► done
      ▲                                            │  ▲                            │
      └──(a sample comes, all callers had left)────┘  └──────(scoring failed)──────┘

A cohort has members (one per sample), and a member has callers: usually one, two if a call was repeated before the
first was answered, none if the caller has disconnected. A caller that comes when the cohort is no longer open is late:
as soon as the cohort is done, it gets work of its own, which is to score the group again and answer only its sample.

This module knows neither the reward engine nor HTTP: the caller that gets the work scores the group. So it can run in
the process of the service, or in an actor that several replicas share. What can go wrong, and how it is handled:

    a sibling is lost      `deadline` seconds after the first sample the group is scored without it, and marked so
    a sibling is late      it is scored within the whole group; earlier answers do not change; if its call is repeated
                           before it is answered, it keeps its place
    a call is repeated     if it was answered, it gets the same answer; else it takes the place of the lost call
    the same text twice    while the first caller is still connected, it is another sample
    same id, other text    an error while a caller waits under that id, else a new group with the same key
    all callers are gone   at the deadline nothing is scored; the next sample waits for siblings again
    scoring fails          all callers get the error; when they call again, one of them gets the work
    the scorer dies        another waiting caller gets the work

A trainer should send `group_id` and `sample_id`. Without them, a group is identified by prompt and label, and a sample
by its text: a text that was answered within the last `keep` seconds gets its old answer.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from itertools import count
from typing import Any, Literal, TypeVar

from rubrank.errors import InvalidInput
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.service.store import ServiceStore, StoredCohort
from rubrank.training.engine import Graded

T = TypeVar("T")
_CLEAN_SECONDS = 60.0  # between deletions of old groups and answers
_POLICY_FIELDS = {"response", "reasoning", "tool_calls", "finish_reason"}
"""Fields of a rollout that the policy wrote."""


@dataclass(frozen=True, eq=False)
class ServiceSample:
    """One sample, as a dialect reads it."""

    group_key: bytes
    """Identifies its group."""
    sample_key: bytes
    """Identifies the sample within its group, so that a repeated call is recognised."""
    has_sample_id: bool
    """Did the trainer send a sample_id? Else `sample_key` is a digest of its text."""
    rollout: Rollout
    group_size: int
    """Expected number of samples in the group."""
    group_name: str
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

    caller_id: int
    cohort_id: int
    number: int
    """The place of the sample in its cohort, counted from 0."""
    group_name: str
    group_size: int
    """Expected number of samples in the group."""


@dataclass(frozen=True, eq=False)
class GroupWork:
    """A group to be scored by the caller that receives it."""

    caller_id: int
    group: Group
    graded: tuple[Graded | None, ...]
    """Scores of each rollout; None: not graded yet."""
    step: int
    train: bool
    size: int
    """Expected number of samples in the group."""
    late: bool
    """True: only the caller's own sample, which came late, is answered; its siblings have their answers."""


@dataclass(eq=False)
class _Member:
    """A sample in its cohort."""

    number: int
    sample_key: bytes
    digest: bytes
    """A digest of what the policy wrote."""
    rollout: Rollout
    came_late: bool = False
    """Did it come after the group was closed?"""
    graded: Graded | None = None
    answer: SampleAnswer | None = None
    callers: set[int] = field(default_factory=set)


@dataclass(eq=False)
class _Cohort:
    """A group of single samples, and the state that it is in."""

    id: int
    key: bytes
    first: ServiceSample
    """Name, size, rubric and step of all samples are those of the first."""
    opened_at: float = field(default_factory=time.monotonic)
    done_at: float = 0.0
    members: list[_Member] = field(default_factory=list)
    state: Literal["open", "closed", "scoring", "done"] = "open"
    timer: asyncio.TimerHandle | None = None

    @property
    def is_full(self) -> bool:
        return len(self.members) >= self.first.group_size

    @property
    def callers(self) -> list[int]:
        return [caller_id for member in self.members for caller_id in member.callers]


@dataclass(eq=False)
class _Caller:
    """A request that waits for the answer to one sample."""

    cohort: _Cohort
    member: _Member
    replica: str
    """The replica that it is connected to."""
    late: bool
    """Did it come when the group was no longer open? Then it gets work of its own when the group is done."""
    result: asyncio.Future[SampleAnswer | GroupWork]
    is_waiting: bool = False
    """Has it called `wait_for_siblings`? Before that, judges may still be grading its sample."""
    has_work: bool = False
    """Is it scoring the group? Then it stays until it has published the answers, even if its client disconnects."""


class Cohorts:
    """All groups of single samples; belongs to one event loop. on_event: called with the name of a counter."""

    replica = ""
    """The replica whose callers use this object; see `RemoteCohorts`."""

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
        """Key of a group → its last cohort."""
        self._callers: dict[int, _Caller] = {}
        self._caller_ids = count(1)
        self._cohort_ids = count(store.last_cohort_id + 1)
        self._cleaned_at = time.monotonic()
        for stored in store.find_waiting():
            if stored.samples:
                self._restore_cohort(stored)

    async def call(self, method: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """Call a method, as `RemoteCohorts` of a replica does: `call(Cohorts.add_sample, sample, replica)`."""
        return await method(self, *arguments)

    @property
    def waiting(self) -> int:
        """Callers that wait for siblings or scores."""
        return len(self._callers)

    @property
    def unfinished(self) -> int:
        """Groups that are not done."""
        return sum(cohort.state != "done" for cohort in self._cohorts.values())

    # ----------------------------------------------------------------------------------- 1. a sample comes

    async def add_sample(self, sample: ServiceSample, replica: str = "") -> Ticket | SampleAnswer:
        """Add a sample to its group, and return a ticket; or the answer, if the sample was answered before.

        It may be a repeated call, a sibling that is on time or late, or the first sample of the next group.
        replica: the replica that the caller is connected to. Raises InvalidInput if the sample does not fit its group.
        """
        self._delete_old()
        cohort = self._cohorts.get(sample.group_key)
        if cohort is None:
            stored = self._store.find_cohort(sample.group_key, time.time() - self._keep)
            if stored is None or not stored.samples:
                return self._open_cohort(sample, replica)
            cohort = self._restore_cohort(stored)
        is_done = cohort.state == "done"
        difference = find_difference(cohort.first, sample)
        if difference is None:
            digest = digest_policy_output(sample.rollout)
            for member in cohort.members:
                if member.sample_key != sample.sample_key:
                    continue
                is_same_text = member.digest == digest
                if is_same_text and member.answer is not None:
                    self._on_event("repeated")
                    return replace(member.answer, repeated=True)
                if not is_same_text and is_done:
                    continue  # the id is used again, for a sample of the next group
                if not sample.has_sample_id and member.callers:
                    # Without a sample_id, the same text is another sample while the caller that sent it is connected.
                    continue
                if is_same_text or not sample.has_sample_id:
                    self._on_event("repeated")  # before it was answered
                    is_late = is_done or (member.came_late and cohort.state != "open")
                    return self._add_caller(cohort, member, replica, late=is_late)
                if not member.callers:
                    return self._open_cohort(sample, replica)
                raise InvalidInput(
                    "request",
                    "sample_id",
                    allowed="the id of one sample",
                    got="a different text while a call with the first one is waiting",
                    remedy="Give each sample its own sample_id.",
                )
        if is_done and (cohort.is_full or time.monotonic() - cohort.done_at >= self._deadline):
            return self._open_cohort(sample, replica)
        if difference is not None:
            raise difference
        if cohort.is_full:
            return self._open_cohort(sample, replica)
        if cohort.state == "closed" and not cohort.callers:
            # All callers had left: wait for siblings again.
            cohort.state = "open"
            self._start_timer(cohort)
        return self._add_member(cohort, sample, replica, late=cohort.state != "open")

    def _open_cohort(self, sample: ServiceSample, replica: str) -> Ticket:
        """Open a cohort with this sample as its first member."""
        cohort_id = next(self._cohort_ids)
        key = sample.group_key
        first = sample
        if key in self._cohorts:
            # The same prompt again, as in the next epoch: records need another name.
            first = replace(sample, group_name=f"{sample.group_name}.{cohort_id}")
        cohort = _Cohort(cohort_id, key, first)
        self._store.add_cohort(
            cohort_id,
            key,
            {
                "name": first.group_name,
                "size": first.group_size,
                "step": first.step,
                "train": first.train,
                "rubric": first.rubric,
            },
        )
        self._cohorts[key] = cohort
        self._start_timer(cohort)
        return self._add_member(cohort, sample, replica, late=False)

    def _start_timer(self, cohort: _Cohort) -> None:
        cohort.timer = asyncio.get_running_loop().call_later(
            self._deadline, self._close_cohort, cohort
        )

    def _add_member(
        self, cohort: _Cohort, sample: ServiceSample, replica: str, *, late: bool
    ) -> Ticket:
        """Add a new sample to a cohort; the last one closes it."""
        digest = digest_policy_output(sample.rollout)
        number = len(cohort.members)
        member = _Member(number, sample.sample_key, digest, sample.rollout, came_late=late)
        cohort.members.append(member)
        self._store.add_sample(cohort.id, member.number, member.sample_key, sample.rollout)
        ticket = self._add_caller(cohort, member, replica, late=late)
        if late:
            self._on_event("late")
        elif cohort.is_full:
            self._close_cohort(cohort)
        return ticket

    def _add_caller(self, cohort: _Cohort, member: _Member, replica: str, *, late: bool) -> Ticket:
        """Register a caller that waits for the answer of a member."""
        caller_id = next(self._caller_ids)
        result = asyncio.get_running_loop().create_future()
        self._callers[caller_id] = _Caller(cohort, member, replica, late, result)
        member.callers.add(caller_id)
        first = cohort.first
        return Ticket(caller_id, cohort.id, member.number, first.group_name, first.group_size)

    # ------------------------------------------------------------------- 2. its caller waits for the siblings

    async def wait_for_siblings(
        self, ticket: Ticket, graded: Graded | None
    ) -> GroupWork | SampleAnswer:
        """Wait until the group is scored, and return the answer; or the work, if this caller is to score the group.

        graded: the scores of the sample, if judges graded it already.
        Raises CancelledError if the caller was removed, and the error of the scorer if scoring failed.
        """
        caller = self._callers.get(ticket.caller_id)
        if caller is None:
            raise asyncio.CancelledError
        if graded is not None:
            caller.member.graded = graded
        caller.is_waiting = True
        self._assign_work(caller.cohort)
        result = await caller.result
        if isinstance(result, SampleAnswer):
            self._drop_caller(ticket.caller_id)
        return result

    def _drop_caller(self, caller_id: int) -> None:
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
            self._assign_work(cohort)

    def _assign_work(self, cohort: _Cohort) -> None:
        """Let one caller score a closed group, once all of them wait; let late callers score a group that is done."""
        unanswered = {}
        for caller_id in cohort.callers:
            caller = self._callers[caller_id]
            if not caller.result.done():
                unanswered[caller_id] = caller
        if cohort.state == "done":
            for caller_id, caller in unanswered.items():
                member = caller.member
                # Of several callers of a late sample, one scores it.
                is_in_work = any(self._callers[id].has_work for id in member.callers)
                if caller.is_waiting and member.answer is None and not is_in_work:
                    self._give_work(cohort, caller_id, late=True)
            return
        if cohort.state != "closed":
            return
        on_time = {id: caller for id, caller in unanswered.items() if not caller.late}
        if not on_time:
            # All callers that were on time have left before the group was scored: the late ones take their place.
            for caller in unanswered.values():
                caller.late = False
            on_time = unanswered
        if on_time and all(caller.is_waiting for caller in on_time.values()):
            cohort.state = "scoring"
            self._give_work(cohort, next(iter(on_time)), late=False)

    def _give_work(self, cohort: _Cohort, caller_id: int, *, late: bool) -> None:
        """Let a caller score the group. late: only its own sample is answered."""
        first = cohort.first
        rollouts = [member.rollout for member in cohort.members]
        graded = []
        for member in cohort.members:
            scores = member.graded
            if scores is not None and member.answer is not None:
                scores = scores.drop_cost()  # counted when this sample was answered
            graded.append(scores)
        work = GroupWork(
            caller_id=caller_id,
            group=Group.model_construct(
                id=first.group_name, rollouts=tuple(rollouts), rubric=first.rubric
            ),
            graded=tuple(graded),
            step=first.step,
            train=first.train and not late,
            size=first.group_size,
            late=late,
        )
        caller = self._callers[caller_id]
        caller.has_work = True
        caller.late = late
        caller.result.set_result(work)

    # ------------------------------------------------------------------------- 3. the group is scored, or not

    async def publish_answers(self, caller_id: int, answers: Sequence[SampleAnswer]) -> None:
        """Answer the callers of a group that was scored. The answers are on disk before any caller gets one.

        caller_id: the caller that got the work. answers: one for each rollout of the work.
        """
        scorer = self._callers[caller_id]
        cohort = scorer.cohort
        # Samples that came while the group was scored are behind those that have answers.
        members = [scorer.member] if scorer.late else cohort.members[: len(answers)]
        answer_of = {
            member.number: replace(answers[member.number], late=scorer.late) for member in members
        }
        rows = {number: asdict(answer) for number, answer in answer_of.items()}
        await self._store.add_sample_answers(cohort.id, rows)
        for member in members:
            member.answer = answer_of[member.number]
        if not scorer.late:
            is_complete = len(answers) >= cohort.first.group_size
            self._on_event("complete" if is_complete else "short")
            cohort.state = "done"
            cohort.done_at = time.monotonic()
        is_answered = all(member.answer is not None for member in cohort.members)
        if cohort.is_full and is_answered and self._cohorts.get(cohort.key) is cohort:
            # No sample can come late any more. Repeated calls are answered from disk.
            del self._cohorts[cohort.key]
        self._assign_work(cohort)  # to late callers that wait for the group to be done
        for member in members:
            for waiting_id in list(member.callers):
                waiting = self._callers[waiting_id]
                if not waiting.result.done():
                    waiting.result.set_result(answer_of[member.number])
                # A caller whose sample is still being judged stays registered until it waits.
                if waiting.is_waiting:
                    self._drop_caller(waiting_id)

    async def report_failure(self, caller_id: int, error: Exception) -> None:
        """Give the error to all callers of a group whose scoring failed. The samples stay, for callers that try again.

        caller_id: the caller that got the work. If it was late, it alone gets the error.
        """
        scorer = self._callers.get(caller_id)
        if scorer is None:
            return
        cohort = scorer.cohort
        affected = [caller_id]
        if not scorer.late:
            cohort.state = "closed"
            affected = [id for id in cohort.callers if self._callers[id].is_waiting]
        for affected_id in affected:
            caller = self._callers[affected_id]
            self._drop_caller(affected_id)
            caller.member.graded = None
            _set_error(caller.result, error)
        if scorer.late:
            self._assign_work(cohort)  # to another caller of the same sample

    async def remove_caller(self, ticket: Ticket) -> None:
        """Remove a caller that has disconnected; its sample stays in the group. A caller that scores it goes on."""
        caller = self._callers.get(ticket.caller_id)
        if caller is None or caller.has_work:
            return
        self._drop_caller(ticket.caller_id)
        caller.result.cancel()
        self._assign_work(caller.cohort)

    def remove_replica(self, replica: str) -> None:
        """Remove all callers of a replica that has died; other callers get the groups that it was scoring."""
        for caller_id, caller in list(self._callers.items()):
            if caller.replica != replica:
                continue
            cohort = caller.cohort
            self._drop_caller(caller_id)
            caller.result.cancel()
            if caller.has_work and not caller.late:
                cohort.state = "closed"
            self._assign_work(cohort)

    def close(self, error: Exception, *, only_open: bool = False) -> None:
        """Answer all waiting callers with an error; the next process finds their samples on disk.

        only_open: only callers that wait for siblings, not those whose group is being scored.
        """
        for cohort in self._cohorts.values():
            if cohort.timer is not None:
                cohort.timer.cancel()
        for caller in self._callers.values():
            if not only_open or caller.cohort.state == "open":
                _set_error(caller.result, error)

    # ------------------------------------------------------------------- requests of whole groups (request_id)

    async def find_answer(self, request_id: str) -> bytes | None:
        """Return the stored answer to a request; None if there is none."""
        return self._store.find_request_answer(request_id)

    async def add_answer(self, request_id: str, answer: bytes) -> None:
        """Store the answer to a request; it is on disk when this returns."""
        self._delete_old()
        await self._store.add_request_answer(request_id, answer)

    # ------------------------------------------------------------------------------------- memory and disk

    def _restore_cohort(self, stored: StoredCohort) -> _Cohort:
        """Load a cohort from disk: from an earlier process, or one that was dropped from memory."""
        about = stored.about
        first = ServiceSample(
            group_key=stored.key,
            sample_key=b"",
            has_sample_id=False,
            rollout=stored.samples[0].rollout,
            group_size=about["size"],
            group_name=about["name"],
            rubric=about["rubric"],
            step=about["step"],
            train=about["train"],
        )
        cohort = _Cohort(stored.id, stored.key, first)
        for sample in stored.samples:
            digest = digest_policy_output(sample.rollout)
            member = _Member(sample.number, sample.sample_key, digest, sample.rollout)
            if sample.answer is not None:
                member.answer = SampleAnswer(**sample.answer)
            cohort.members.append(member)
        self._cohorts[stored.key] = cohort
        if stored.done is not None:
            cohort.state = "done"
            # The store has the time of day; a clock that was set back must not give a time in the future.
            seconds_since_done = max(0.0, time.time() - stored.done)
            cohort.done_at = time.monotonic() - seconds_since_done
        elif cohort.is_full:
            cohort.state = "closed"
        else:
            self._start_timer(cohort)
        return cohort

    def _delete_old(self) -> None:
        """Once a minute, delete groups and answers that are older than `keep` seconds, and free memory.

        A group that is done is needed only while samples may come late: repeated calls are answered from disk.
        """
        now = time.monotonic()
        if now - self._cleaned_at < _CLEAN_SECONDS:
            return
        self._cleaned_at = now
        self._store.delete_before(time.time() - self._keep)
        for key, cohort in list(self._cohorts.items()):
            age = now - cohort.opened_at
            most = self._keep
            if cohort.state == "done":
                age = now - cohort.done_at
                most = self._deadline
            if age > most and not cohort.callers:
                del self._cohorts[key]


def _set_error(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # marks it as retrieved: the caller may be gone, and asyncio would log a warning


def digest_policy_output(rollout: Rollout) -> bytes:
    """Return a digest of what the policy wrote: answer, reasoning, tool calls and how it ended."""
    return digest_json(rollout.model_dump(include=_POLICY_FIELDS))


def digest_json(*parts: Any) -> bytes:
    """Return a digest of 16 bytes of values as JSON; equal values have equal digests, in every process."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return blake2b(text.encode("ascii"), digest_size=16).digest()


def find_difference(first: ServiceSample, sample: ServiceSample) -> InvalidInput | None:
    """Return an error if a sample does not belong to the group of the first one under its key; None if it does.

    Two trainers may use the same group ids; their samples must not be ranked against each other.
    """
    for name, expected, got in (
        ("group_size", first.group_size, sample.group_size),
        ("rubric", first.rubric, sample.rubric),
        ("prompt", first.rollout.prompt, sample.rollout.prompt),
    ):
        if expected != got:
            return InvalidInput(
                "request",
                name,
                allowed="the same for all samples of a group",
                got="a different one",
                remedy="Give each group its own group_id; trainers that share a service need different ones.",
            )
    return None
