"""Many requests, one reward engine: all requests that arrive while a batch is processed form the next batch.

    pipeline = Pipeline(engine, metrics)
    scored = await pipeline.score(groups, step=12)        Scored(rewards=((1.0, 0.0),), graded=Graded(…), metrics={…})

    requests ──► queue ──► thread: run verifiers on all groups in one call ──► judges, per request ──► fuse ──► answers

Verifiers grade the groups of all waiting requests in one call of the engine, in one thread. Judges are asked for every
request separately, so that no request waits for the judges of another. Requests are fused together only if that leaves
every reward exactly as it is: under RLVR² without attributes, and for groups with the same criteria. Under every other
rule each request is fused alone, like a step of a trainer.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

from rubrank.fusion.gate import Gated
from rubrank.fusion.rlvr2 import RLVR2
from rubrank.rollouts.rollout import Group
from rubrank.rubrics.files import refuse_files
from rubrank.rubrics.public import to_rubric
from rubrank.rubrics.rubric import Rubric
from rubrank.scores.table import ScoreTable
from rubrank.service.metrics import Metrics
from rubrank.training.engine import Graded, RewardEngine

# Larger batches are not faster, and requests would wait longer for each other.
_MOST_BATCH_ROLLOUTS = 2048
_MOST_RUBRICS = 10_000  # parsed rubrics of requests that are kept in memory


@dataclass(frozen=True, eq=False)
class Scored:
    """The result of a request."""

    rewards: tuple[tuple[float, ...], ...]
    """One tuple per group; NaN: all scores of the rollout are missing."""
    graded: Graded
    stopped_by: tuple[tuple[tuple[str, ...], ...], ...]
    """The names of the gates that stopped each rollout of each group."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The metrics of a step; empty unless the request was made with `alone`."""


@dataclass(eq=False)
class _Job:
    """A unit of work for the thread."""

    groups: Sequence[Group]
    future: asyncio.Future[Any]
    graded: Graded | None = None
    """None: verifiers must grade it first."""
    fuse: bool = True
    """False: the result is what the verifiers graded, without rewards."""
    step: int = 0
    """The trainer's step."""
    train: bool = True
    """False for an evaluation."""
    write: bool = True
    """Whether the groups are recorded, if the engine records."""
    alone: bool = False
    """Whether the job is fused separately from others, with the metrics of a step."""
    result: Any = None
    """The result for the future, or an exception."""
    started_at: float = field(default_factory=time.perf_counter)

    @cached_property
    def rollouts(self) -> int:
        return sum(len(group.rollouts) for group in self.groups)


class Pipeline:
    """The queue and the thread that grades and fuses requests. It belongs to one event loop; `close` ends the thread.

    named_rubrics: the contents of rubrics that callers may refer to by name.
    """

    def __init__(
        self,
        engine: RewardEngine,
        metrics: Metrics,
        named_rubrics: Mapping[str, Any] | None = None,
    ) -> None:
        self.engine = engine
        self._named_rubrics = named_rubrics or {}
        self.waiting = 0
        """Rollouts in the queue or in work."""
        self._metrics = metrics
        self._can_mix = can_fuse_together(engine)
        self._rubrics: dict[bytes, Rubric] = {}
        """Rubrics of requests, by the digest of their data."""
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="rubrank-pipeline", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """Finish the jobs in the queue, and end the thread."""
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    # -------------------------------------------------------------------------------------------------- requests

    async def score(
        self,
        groups: Sequence[Group],
        step: int,
        *,
        train: bool = True,
        alone: bool = False,
    ) -> Scored:
        """Grade and fuse whole groups. alone: fused separately, with the metrics of a step.

        Raises InvalidInput if a rubric cannot be used, and JudgingFailed if too many answers of judges are missing.
        """
        groups = self.resolve_rubrics(groups)
        graded = None
        if self.engine.judges is not None:
            graded = await self.grade(groups)
            self.engine.check_judgments(graded)
        return await self.fuse(groups, graded, step=step, train=train, alone=alone)

    async def grade(self, groups: Sequence[Group], *, compare: bool | None = None) -> Graded:
        """Return the scores of groups with resolved rubrics; `compare=False` leaves comparisons to later."""
        started_at = time.perf_counter()
        graded: Graded = await self._submit(_Job(groups, self._loop.create_future(), fuse=False))
        if self.engine.judges is None:
            return graded
        judged = await self.engine.ask(ScoreTable(graded.groups), groups, compare=compare)
        return replace(judged, seconds=time.perf_counter() - started_at)

    async def fuse(
        self,
        groups: Sequence[Group],
        graded: Graded | None,
        *,
        step: int,
        train: bool,
        write: bool = True,
        alone: bool = False,
    ) -> Scored:
        """Return the rewards of graded groups. graded None: verifiers grade them first, in the same job.

        step, train: as in a trainer. write: record the groups, if the engine records.
        alone: fused separately from other requests, with the metrics of a step.
        """
        job = _Job(
            groups,
            self._loop.create_future(),
            graded=graded,
            step=step,
            train=train,
            write=write,
            alone=alone,
        )
        scored: Scored = await self._submit(job)
        return scored

    def resolve_rubrics(self, groups: Sequence[Group]) -> list[Group]:
        """Return the groups with their rubrics parsed. Invalid rubrics raise InvalidInput before any judge is asked.

        Callers are not trusted: a rubric may name presets and what the operator configured, but no files of this
        machine.
        """
        resolved = []
        for group in groups:
            if group.rubric is None or isinstance(group.rubric, Rubric):
                resolved.append(group)
                continue
            text = repr(group.rubric).encode("utf-8", "surrogatepass")
            digest = blake2b(text, digest_size=16).digest()
            if digest not in self._rubrics:
                where = f"group {group.id!r}"
                with refuse_files(self._named_rubrics):
                    rubric = to_rubric(group.rubric, where)
                    self.engine.check_rubric(rubric, where)
                if len(self._rubrics) >= _MOST_RUBRICS:
                    self._rubrics.clear()
                self._rubrics[digest] = rubric
            resolved.append(group.model_copy(update={"rubric": self._rubrics[digest]}))
        return resolved

    async def _submit(self, job: _Job) -> Any:
        """Put a job into the queue, and wait for its result."""
        self.waiting += job.rollouts
        try:
            self._jobs.put(job)
            return await job.future
        finally:
            self.waiting -= job.rollouts

    # ---------------------------------------------------------------------------------------------- in the thread

    def _run(self) -> None:
        """Take all jobs that are waiting, process them as one batch, and start over. Runs in the thread."""
        is_open = True
        while is_open:
            jobs: list[_Job] = []
            rollouts = 0
            while rollouts < _MOST_BATCH_ROLLOUTS:
                try:
                    job = self._jobs.get(block=not jobs)
                except queue.Empty:
                    break
                if job is None:
                    is_open = False
                    break
                if not job.future.cancelled():
                    jobs.append(job)
                    rollouts += job.rollouts
            if not jobs:
                continue
            try:
                self._process_batch(jobs)
            except Exception as error:
                # An error that ended the thread would leave these requests, and all later ones, waiting forever.
                for job in jobs:
                    if job.result is None:
                        job.result = error
            self._loop.call_soon_threadsafe(_set_results, jobs)

    def _process_batch(self, jobs: list[_Job]) -> None:
        """Grade and fuse the jobs of one batch, and set the result of each."""
        ungraded = [job for job in jobs if job.graded is None]
        self._metrics.count("batches")
        self._metrics.count("rollouts", sum(job.rollouts for job in ungraded))
        if ungraded:
            self._grade(ungraded)
        batches: dict[Hashable, list[_Job]] = {}
        for job in jobs:
            if job.result is not None:  # grading raised
                continue
            if job.fuse:
                batches.setdefault(self._make_batch_key(job), []).append(job)
            else:
                job.result = job.graded
        for batch in batches.values():
            self._fuse(batch)

    def _grade(self, jobs: list[_Job]) -> None:
        """Run the verifiers; if that raises, grade each request separately, so that only the bad one fails."""
        try:
            table = self.engine.decide([group for job in jobs for group in job.groups])
        except Exception as error:
            if len(jobs) == 1:
                jobs[0].result = error
                return
            for job in jobs:
                self._grade([job])
            return
        now = time.perf_counter()
        start = 0
        for job in jobs:
            end = start + len(job.groups)
            job.graded = Graded(tuple(table.groups[start:end]), None, now - job.started_at)
            start = end

    def _make_batch_key(self, job: _Job) -> Hashable:
        """Return a key that is equal for jobs that are fused together."""
        graded = job.graded
        assert graded is not None
        criteria = graded.groups[0].criteria
        has_one_rubric = all(group.criteria == criteria for group in graded.groups)
        if job.alone or not self._can_mix or not has_one_rubric:
            return id(job)
        return (job.step, job.train, job.write, graded.judging is None, criteria)

    def _fuse(self, jobs: list[_Job]) -> None:
        """Fuse jobs together; if that raises, fuse each one separately, so that only the bad one fails."""
        first = jobs[0]
        groups = [group for job in jobs for group in job.groups]
        graded = Graded.join([job.graded for job in jobs if job.graded is not None])
        try:
            step = self.engine.fuse(
                groups, graded, first.step, train=first.train, write=first.write, logged=first.alone
            )
        except Exception as error:
            if self.engine.recording is not None:
                # If the records could not be written: these callers get no rewards, so nothing is missing in the file.
                self.engine.recording.reset()
            if len(jobs) == 1:
                first.result = error
                return
            for job in jobs:
                self._fuse([job])
            return
        stopped_by = step.stopped_by
        start = 0
        for job in jobs:
            end = start + len(job.groups)
            rows = slice(start, end)
            assert job.graded is not None
            job.result = Scored(step.rewards[rows], job.graded, stopped_by[rows], step.metrics)
            start = end


def can_fuse_together(engine: RewardEngine) -> bool:
    """Does a group get exactly the same rewards, whatever other groups are in the batch?"""
    rule: Any = engine.rule
    inner = rule.rule if isinstance(rule, Gated) else rule
    return (
        isinstance(inner, RLVR2)
        and inner.scale == "ranking"
        and not engine.controls
        and not engine.remembers
    )


def _set_results(jobs: Sequence[_Job]) -> None:
    """Give the callers their results; runs in the event loop, because futures are not safe in other threads."""
    for job in jobs:
        if job.future.done():
            continue
        if isinstance(job.result, BaseException):
            job.future.set_exception(job.result)
        else:
            job.future.set_result(job.result)
