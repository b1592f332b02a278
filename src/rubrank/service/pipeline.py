"""Many requests, one engine: what comes in while a batch is being worked on is the next batch.

    pipeline = Pipeline(engine)
    done = await pipeline.score(groups, step=12)        Done(rewards=((1.0, 0.0),), graded=Graded(…), metrics={…})

Programs grade the groups of all waiting requests in one call of the engine, in one thread; judges are asked for every
request by itself, so that none waits for another's. Requests are fused together where that cannot change a bit of a
reward: under RLVR² without attributes, and for groups with the same criteria. Under every other rule a request is a
batch, as a step of a trainer is.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

from rubrank.fusion.gate import Gated
from rubrank.fusion.rlvr2 import RLVR2
from rubrank.judges.client.usage import Account
from rubrank.judges.judgments import Judgments
from rubrank.rollouts.rollout import Group
from rubrank.scores.table import ScoreTable
from rubrank.training.engine import Graded, RewardEngine

_TOGETHER = 2048  # rollouts of a batch: enough to be as fast as it gets, and none waits long for the others


@dataclass(frozen=True, eq=False)
class Done:
    """What a request came to."""

    rewards: tuple[tuple[float, ...], ...]
    """One tuple per group; NaN = nothing is known about the rollout."""
    graded: Graded
    stopped_by: tuple[tuple[str, ...], ...]
    """The gates that stopped each rollout, as text."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Of a request that was fused alone; else there are none."""


@dataclass(eq=False)
class _Job:
    """Something for the thread to do."""

    groups: Sequence[Group]
    future: asyncio.Future[Any]
    graded: Graded | None = None
    """None: programs are to grade it first."""
    fuse: bool = True
    step: int = 0
    train: bool = True
    write: bool = True
    alone: bool = False
    begun: float = field(default_factory=time.perf_counter)

    @property
    def rollouts(self) -> int:
        return sum(len(group.rollouts) for group in self.groups)


class Pipeline:
    """Belongs to one event loop; `close` ends its thread. counts: rollouts graded, batches."""

    def __init__(self, engine: RewardEngine) -> None:
        self.engine = engine
        self.counts: Counter[str] = Counter()
        self.waiting = 0
        """Rollouts that are under way."""
        self._mixes = _mixes(engine)
        self._checked: set[bytes] = set()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._work, name="rubrank-pipeline", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """Finish what is queued."""
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    # ------------------------------------------------------------------------------------------------------- requests

    async def score(
        self, groups: Sequence[Group], step: int, *, train: bool = True, write: bool = True, alone: bool = False
    ) -> Done:
        """Rewards of whole groups. alone: fused by itself, with the metrics of a step."""
        self.check(groups)
        options: dict[str, Any] = {"step": step, "train": train, "write": write, "alone": alone}
        if self.engine.judges is None:
            done: Done = await self._do(groups, **options)
            return done
        graded = await self.grade(groups)
        self.engine.check_judgments(graded)
        return await self.fuse(groups, graded, **options)

    async def grade(self, groups: Sequence[Group], *, compare: bool | None = None) -> Graded:
        """Scores; as `RewardEngine.ask` takes it, `compare=False` leaves comparisons to later."""
        begun = time.perf_counter()
        graded: Graded = await self._do(groups, fuse=False)
        if self.engine.judges is None:
            return graded
        asked = await self.engine.ask(ScoreTable(graded.groups), groups, compare=compare)
        return replace(asked, seconds=time.perf_counter() - begun)

    async def fuse(self, groups: Sequence[Group], graded: Graded, **options: Any) -> Done:
        """Rewards from scores."""
        done: Done = await self._do(groups, graded=graded, **options)
        return done

    def check(self, groups: Sequence[Group]) -> None:
        """Raise for a rubric that cannot be decided, before anything is asked; each is tried once."""
        for group in groups:
            own = b"" if group.rubric is None else _digest(repr(group.rubric))
            if own not in self._checked:
                self.engine.check_rubric(group.rubric, f"group {group.id!r}")
                if len(self._checked) > 100_000:
                    self._checked.clear()
                self._checked.add(own)

    async def _do(self, groups: Sequence[Group], **options: Any) -> Any:
        job = _Job(groups, self._loop.create_future(), **options)
        number = job.rollouts
        self.waiting += number
        try:
            self._jobs.put(job)
            return await job.future
        finally:
            self.waiting -= number

    # -------------------------------------------------------------------------------------------------- in the thread

    def _work(self) -> None:
        more = True
        while more:
            jobs, more = self._next()
            if jobs:
                self._batch(jobs)

    def _next(self) -> tuple[list[_Job], bool]:
        """All that is waiting, up to a batch; and whether there may be more."""
        jobs: list[_Job] = []
        rollouts = 0
        while rollouts < _TOGETHER:
            try:
                job = self._jobs.get(block=not jobs)
            except queue.Empty:
                break
            if job is None:
                return jobs, False
            if not job.future.cancelled():
                jobs.append(job)
                rollouts += job.rollouts
        return jobs, True

    def _batch(self, jobs: list[_Job]) -> None:
        self.counts["batches"] += 1
        self.counts["rollouts"] += sum(job.rollouts for job in jobs if job.graded is None)
        found: list[tuple[_Job, Any]] = []
        self._decide([job for job in jobs if job.graded is None], found)
        graded = [job for job in jobs if job.graded is not None]
        found += [(job, job.graded) for job in graded if not job.fuse]
        for together in self._batches([job for job in graded if job.fuse]):
            self._fuse(together, found)
        self._loop.call_soon_threadsafe(_settle, found)

    def _decide(self, jobs: list[_Job], found: list[tuple[_Job, Any]]) -> None:
        """Grade by programs; if one request breaks it, each is tried by itself."""
        if not jobs:
            return
        try:
            table = self.engine.decide([group for job in jobs for group in job.groups])
        except Exception as error:
            if len(jobs) == 1:
                found.append((jobs[0], error))
                return
            for job in jobs:
                self._decide([job], found)
            return
        rest, now = list(table.groups), time.perf_counter()
        for job in jobs:
            own, rest = rest[: len(job.groups)], rest[len(job.groups) :]
            job.graded = Graded(tuple(own), None, now - job.begun)

    def _batches(self, jobs: list[_Job]) -> list[list[_Job]]:
        """Which requests are fused together."""
        together: dict[Hashable, list[_Job]] = {}
        for job in jobs:
            together.setdefault(self._kind(job), []).append(job)
        return list(together.values())

    def _kind(self, job: _Job) -> Hashable:
        graded = job.graded
        assert graded is not None
        first = graded.groups[0].criteria
        if not self._mixes or job.alone or any(group.criteria != first for group in graded.groups[1:]):
            return id(job)
        return (job.step, job.train, job.write, graded.judging is None, first)

    def _fuse(self, jobs: list[_Job], found: list[tuple[_Job, Any]]) -> None:
        first = jobs[0]
        groups = [group for job in jobs for group in job.groups]
        graded = first.graded if len(jobs) == 1 else _joined(jobs)
        assert graded is not None
        try:
            given = {"train": first.train, "write": first.write, "logged": first.alone}
            step = self.engine.fuse(groups, graded, first.step, **given)
        except Exception as error:
            if len(jobs) == 1:
                found.append((first, error))
                return
            for job in jobs:
                self._fuse([job], found)
            return
        stopped = tuple(tuple(", ".join(gates) for gates in group) for group in step.stopped_by)
        at = 0
        for job in jobs:
            end = at + len(job.groups)
            assert job.graded is not None
            found.append((job, Done(step.rewards[at:end], job.graded, stopped[at:end], step.metrics)))
            at = end


def _digest(text: str) -> bytes:
    """In the place of a text that would be kept for long: rubrics have kilobytes, and every query its own."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _mixes(engine: RewardEngine) -> bool:
    """Are a group's rewards the same bits whatever is in the batch beside it?"""
    rule: Any = engine.rule
    inner = rule.rule if isinstance(rule, Gated) else rule
    return isinstance(inner, RLVR2) and inner.scale == "ranking" and not engine.controls and not engine.remembers


def _joined(jobs: Sequence[_Job]) -> Graded:
    parts = [job.graded for job in jobs if job.graded is not None]
    groups = tuple(group for part in parts for group in part.groups)
    asked = [part.judging for part in parts if part.judging is not None]
    return Graded(groups, _judged(asked) if asked else None, max(part.seconds for part in parts))


def _judged(parts: Sequence[Judgments]) -> Judgments:
    account = Account.merge([part.account for part in parts])
    return Judgments(
        tuple(one for part in parts for one in part.groups), account, tuple(i for p in parts for i in p.ids)
    )


def _settle(found: Sequence[tuple[_Job, Any]]) -> None:
    for job, result in found:
        if job.future.done():
            continue
        set_it: Callable[[Any], None] = job.future.set_result
        if isinstance(result, BaseException):
            set_it = job.future.set_exception
        set_it(result)
