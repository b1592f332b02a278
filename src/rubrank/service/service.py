"""The service itself: whole groups, single rollouts, and samples whose siblings come one by one.

service = await Service.opened(config, folder)
await service.groups(request)          rewards of whole groups, as JSON
await service.score(group)             the criteria of one rollout
await service.sample(sample)           the reward of one sample within its group
await service.close()                  nothing that was paid for is lost
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol

from rubrank.errors import InvalidInput, RubrankError
from rubrank.rollouts.rollout import Group
from rubrank.service.access import Refused, refused
from rubrank.service.cohorts import Cohorts
from rubrank.service.config import ServiceConfig
from rubrank.service.metrics import Metrics
from rubrank.service.pairs import Pairs
from rubrank.service.pipeline import Done, Pipeline
from rubrank.service.samples import GroupWork, SampleAnswer, ServiceSample, Ticket
from rubrank.service.store import Store
from rubrank.service.wire import GroupsRequest, cost_of, scored, to_json
from rubrank.training.engine import Graded, RewardEngine, fill_unknown
from rubrank.training.rollouts import rollout_of
from rubrank.training.shapes.arrivals import ArrivingPairs, merge_rollouts
from rubrank.training.state import drop_half_record

_log = logging.getLogger("rubrank.service")
_DIGEST = 16  # bytes
_WARM = ("Name a lake near Hangzhou, and say in two sentences why people go there.", "West Lake. It is calm.", "")


class Gathering(Protocol):
    """Where samples meet their siblings: here, or in an actor that all replicas share."""

    async def enter(self, sample: ServiceSample) -> Ticket | SampleAnswer:
        """A place, or the answer."""
        ...

    async def settle(self, ticket: Ticket, graded: Graded | None) -> GroupWork | SampleAnswer:
        """Wait for the siblings."""
        ...

    async def publish(self, ticket: int, answers: Sequence[SampleAnswer]) -> None:
        """Answer all."""
        ...

    async def fail(self, ticket: int, error: Exception) -> None:
        """Scoring did not work."""
        ...

    async def abandon(self, ticket: Ticket) -> None:
        """The caller is gone."""
        ...

    async def request(self, id: str) -> bytes | None:
        """What a request was answered."""
        ...

    async def keep_request(self, id: str, answer: bytes) -> None:
        """Remember it."""
        ...


class Here:
    """Siblings that meet in this process."""

    def __init__(self, cohorts: Cohorts, store: Store) -> None:
        self.cohorts, self._store = cohorts, store
        self.enter, self.settle, self.publish = cohorts.enter, cohorts.settle, cohorts.publish

    async def fail(self, ticket: int, error: Exception) -> None:
        """Scoring did not work."""
        self.cohorts.fail(ticket, error)

    async def abandon(self, ticket: Ticket) -> None:
        """The caller is gone."""
        self.cohorts.abandon(ticket)

    async def request(self, id: str) -> bytes | None:
        """What a request was answered."""
        return self._store.request(id)

    async def keep_request(self, id: str, answer: bytes) -> None:
        """Remember it."""
        self.cohorts.prune()
        await self._store.keep_request(id, answer)


def leaving() -> Refused:
    """What callers are told when the service ends."""
    return refused(503, "service", "running", "shutting down", "Try again: what was paid for is kept.", "service")


class Service:
    """One process; belongs to one event loop. `opened` makes it."""

    def __init__(self, config: ServiceConfig, engine: RewardEngine, store: Store, siblings: Gathering) -> None:
        self.config, self.engine, self.store, self.siblings = config, engine, store, siblings
        self.pipeline = Pipeline(engine)
        self._pairs = Pairs(engine, config.max_waiting)
        self._remembers = engine.remembers  # asked at every request, and it takes a while to say
        self.metrics = Metrics()
        self.ready = False
        self.ending = False
        self._left: float | None = None
        """When it began to end."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._running: dict[str, tuple[bytes, asyncio.Task[bytes]]] = {}
        """By request ids, with a digest of the body."""
        self._warming: asyncio.Task[None] | None = None

    @classmethod
    async def opened(
        cls, config: ServiceConfig, folder: Path, siblings: Gathering | None = None, apart: str = ""
    ) -> Service:
        """The service of a configuration, as far as it was when its process ended."""
        engine = config.serving_engine(folder, apart=apart)
        if engine.records is not None:
            engine.records.parent.mkdir(parents=True, exist_ok=True)
        store = Store(config.state_folder(folder) / (f"service-{apart}.sqlite" if apart else "service.sqlite"))
        if engine.records is not None and siblings is None:  # the lock is held: nobody else writes them
            drop_half_record(engine.records)
        known = store.state()
        if known is not None and engine.remembers:
            engine.load_state_dict(known)
        here = siblings or Here(Cohorts(store, deadline=config.deadline, keep=config.keep), store)
        service = cls(config, engine, store, here)
        service._warming = asyncio.create_task(service._warm())
        return service

    async def _warm(self) -> None:
        """Compile what will be needed, so that the first caller does not wait for it."""
        try:
            if self.engine.rubric is not None:
                await asyncio.to_thread(self._try_out)
        except RubrankError:  # the rubric alone may have nothing to rank by: queries bring the rest
            pass
        except Exception:  # callers will see for themselves, and some may be better off
            _log.exception("warming up did not work")
        self.ready = True

    def _try_out(self) -> None:
        if self.engine.judges is not None:
            from rubrank.judges import clients, prompting  # noqa: F401 - loaded before the first caller waits for it

        rollouts = tuple(rollout_of(_WARM[0], text) for text in _WARM[1:])
        # Two of them, since what is estimated over groups warns of a single one.
        groups = [Group(id=f"warm-up {n}", rollouts=rollouts) for n in range(2)]
        kept = self.engine.state_dict()
        scores = self.engine.decide(groups).groups
        self.engine.fuse(groups, Graded(scores), 0, train=False, write=False)
        self.engine.load_state_dict(kept)

    # -------------------------------------------------------------------------------------------------------- requests

    async def groups(self, request: GroupsRequest, body: bytes) -> bytes:
        """The answer to `POST /v1/groups`; one that was given before is given again. body: as it was sent."""
        if request.request_id is None:
            if self.engine.judges is None:
                return await self._answered(request)
            answer: bytes = await asyncio.shield(self.start(self._answered(request)))  # it is paid for
            return answer
        sent = blake2b(body, digest_size=_DIGEST).digest()
        known = None if request.request_id in self._running else await self.siblings.request(request.request_id)
        if known is not None:
            _check_same(sent, known[:_DIGEST])
            self.metrics.count("repeated")
            return known[_DIGEST:]
        if request.request_id not in self._running:
            self._running[request.request_id] = sent, self.start(self._kept(request, sent))
        digest, task = self._running[request.request_id]
        _check_same(sent, digest)
        return await asyncio.shield(task)

    async def _kept(self, request: GroupsRequest, sent: bytes) -> bytes:
        assert request.request_id is not None
        try:
            answer = await self._answered(request)
            await self.siblings.keep_request(request.request_id, sent + answer)
            return answer
        finally:
            del self._running[request.request_id]

    async def _answered(self, request: GroupsRequest) -> bytes:
        self._admit(request.rollouts)
        options: dict[str, Any] = {"train": request.train, "alone": request.metrics}
        done = await self.pipeline.score(request.groups, request.step, **options)
        self._count(done, len(request.groups))
        self._keep_state()
        groups = [
            scored(scores, rewards, request.reasons) | ({"stopped_by": stopped} if any(stopped) else {})
            for scores, rewards, stopped in zip(done.graded.groups, done.rewards, done.stopped_by, strict=True)
        ]
        metrics = {"metrics": dict(done.metrics)} if request.metrics else {}
        return to_json({"groups": groups, "cost": cost_of(done.graded.judging), **metrics})

    async def score(self, group: Group, reasons: bool = True) -> bytes:
        """The criteria of one rollout; those on which rollouts are compared are left out."""
        self._admit(1)
        self.pipeline.check([group])
        graded = await self.pipeline.grade([group], compare=False)
        found = scored(graded.groups[0], None, reasons)
        scores = {name: values[0] for name, values in found["scores"].items()}
        why = {"reasons": {name: values[0] for name, values in found["reasons"].items()}} if reasons else {}
        self.metrics.spent(cost_of(graded.judging))
        return to_json({"scores": scores, **why, "cost": cost_of(graded.judging)})

    # -------------------------------------------------------------------------------------------------------- siblings

    async def sample(self, sample: ServiceSample) -> SampleAnswer:
        """The reward of a sample that comes without its siblings. If its caller goes away, the work goes on."""
        self._admit(1)
        alone = Group(id=sample.name, rollouts=(sample.rollout,), rubric=sample.rubric)
        self.pipeline.check([alone])
        found = await self.siblings.enter(sample)
        if isinstance(found, SampleAnswer):
            return found
        task = self.start(self._settled(found, alone))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                await asyncio.shield(self.siblings.abandon(found))
            raise

    async def _settled(self, ticket: Ticket, alone: Group) -> SampleAnswer:
        try:
            graded = None
            if self.engine.judges is not None:
                graded = await self.pipeline.grade([alone], compare=False)
                if isinstance(self.siblings, Here):  # another replica would not know what was asked
                    self._pairs.enter(ticket, alone, graded)
        except BaseException:
            await self.siblings.abandon(ticket)
            raise
        found = await self.siblings.settle(ticket, graded)
        if isinstance(found, SampleAnswer):
            self._pairs.take(ticket)
            return found
        return await self._lead(found, ticket)

    async def _lead(self, work: GroupWork, ticket: Ticket) -> SampleAnswer:
        """Score a group for all that wait for it."""
        try:
            answers = await self._scored(work, self._pairs.take(ticket))
            await self.siblings.publish(work.ticket, answers)
        except Exception as error:
            await self.siblings.fail(work.ticket, error)
            raise
        return answers[ticket.number]

    async def _scored(self, work: GroupWork, pairing: ArrivingPairs | None) -> list[SampleAnswer]:
        graded = await self._graded(work, pairing)
        self.engine.check_judgments(graded)
        done = await self.pipeline.fuse([work.group], graded, step=work.step, train=work.train, write=work.late is None)
        self._count(done, 1)
        self._keep_state()
        return answers_of(work, done)

    async def _graded(self, work: GroupWork, pairing: ArrivingPairs | None) -> Graded:
        if self.engine.judges is None:
            return await self.pipeline.grade([work.group])
        parts = [
            self.pipeline.grade([work.group.model_copy(update={"rollouts": (rollout,)})], compare=False)
            for rollout, known in zip(work.group.rollouts, work.graded, strict=True)
            if known is None
        ]
        found = iter(await asyncio.gather(*parts))
        whole = [next(found) if known is None else known for known in work.graded]
        return await merge_rollouts(self.engine, work.group, whole, pairing, tuple(range(len(whole))))

    # ---------------------------------------------------------------------------------------------------------- state

    def start(self, main: Any) -> asyncio.Task[Any]:
        """Something that goes on whether or not a caller waits for it."""
        task = asyncio.get_running_loop().create_task(main)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # seen: the caller may be gone

    def _admit(self, rollouts: int) -> None:
        if self.ending:
            raise leaving()
        most = self.config.max_waiting
        if rollouts > most:  # however long the caller waits
            remedy = "Send fewer groups at a time, or raise max_waiting."
            raise refused(413, "rollouts", f"at most {most:,} pending", f"{rollouts:,} in one request", remedy)
        if self.pipeline.waiting + len(self._tasks) + rollouts > most:
            self.metrics.count("turned_away")
            got = f"{self.pipeline.waiting + len(self._tasks):,} pending, and {rollouts:,} more"
            raise refused(429, "rollouts", f"at most {most:,} pending", got, "Try again in a moment.", "service")

    def _count(self, done: Done, groups: int) -> None:
        self.metrics.count("groups", groups)
        self.metrics.count("rewards", sum(map(len, done.rewards)))
        self.metrics.count("unknown", sum(math.isnan(reward) for rewards in done.rewards for reward in rewards))
        self.metrics.spent(cost_of(done.graded.judging))

    def _learnt(self) -> dict[str, Any] | None:
        return self.engine.state_dict() if self._remembers else None

    def _keep_state(self) -> None:
        state = self._learnt()
        if state is not None:
            self.store.keep_state(state)

    def leave(self) -> None:
        """Let no new caller in, and send away those that wait for siblings: the samples are on disk."""
        self._left = self._left or time.monotonic()
        self.ending = True
        if isinstance(self.siblings, Here):
            self.siblings.cohorts.close(leaving(), only_open=True)

    async def close(self) -> None:
        """Let what is under way finish, and write everything down."""
        self.leave()
        if self._warming is not None:
            await asyncio.gather(self._warming, return_exceptions=True)
        gone = 0.0 if self._left is None else time.monotonic() - self._left
        await self._finished(max(self.config.shutdown - gone, 0.0))  # callers may have been waited for since
        if isinstance(self.siblings, Here):
            self.siblings.cohorts.close(leaving())
        await self.pipeline.close()
        self._keep_state()
        self.store.close()

    async def _finished(self, seconds: float) -> None:
        """Calls of judges are paid for when they are asked: they get the time to be answered."""
        waiting = [task for task in (*self._tasks, *self._pairs.tasks) if not task.done()]
        if not waiting:
            return
        _, late = await asyncio.wait(waiting, timeout=seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)


def _check_same(sent: bytes, before: bytes) -> None:
    """Raise for another body under a known request id: its rewards would be those of other rollouts."""
    if sent != before:
        remedy = "Give every request its own; one that is made again is sent as it was."
        raise refused(409, "request_id", "that of one request", "another body than the first time", remedy)


def answers_of(work: GroupWork, done: Done) -> list[SampleAnswer]:
    """One for every rollout of the group."""
    (rewards,), (stopped,) = done.rewards, done.stopped_by
    group, usable = done.graded.groups[0], fill_unknown(rewards)
    cost = cost_of(done.graded.judging)["cost"]
    names, number = group.names, len(rewards)
    return [
        SampleAnswer(
            float(rewards[i]),
            float(usable[i]),
            group.id,
            number,
            work.size,
            dict(zip(names, group.scores[i].tolist(), strict=True)),
            dict(zip(names, group.reasons[i], strict=True)),
            stopped[i],
            cost / number,
            late=work.late is not None,
        )
        for i in range(number)
    ]


def replica_name() -> str:
    """Of this process, in names of files."""
    return f"{os.uname().nodename}-{os.getpid()}"


__all__ = ["Gathering", "Here", "InvalidInput", "Service", "answers_of", "leaving", "replica_name"]
