"""Many requests, one reward engine: verifiers and fusion run in one thread, judges are asked by all requests at once.

    pipeline = Pipeline(engine, metrics)
    graded, fused = await pipeline.score(groups, step=12)        fused.rewards: ((1.0, 0.0),)

    request ──► thread: verifiers ──► judges, beside other requests ──► thread: fuse ──► answer

Each request is graded and fused alone, like a step of a trainer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import blake2b
from typing import Any, TypeVar

from rubrank.rollouts.rollout import Group
from rubrank.rubrics.files import refuse_files
from rubrank.rubrics.public import to_rubric
from rubrank.rubrics.rubric import Rubric
from rubrank.service.metrics import Metrics
from rubrank.training.engine import Graded, RewardEngine, StepRewards

T = TypeVar("T")
# Parsed rubrics kept in memory, for callers that send the same one with every request
_MOST_RUBRICS = 10_000


class Pipeline:
    """The thread that grades and fuses requests. It belongs to one event loop; `close` ends the thread.

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
        """Rollouts in the queue of the thread, or being graded or fused there."""
        self._metrics = metrics
        self._rubrics: dict[bytes, Rubric] = {}
        """Rubrics of requests, by the digest of their data."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rubrank-pipeline")

    async def close(self) -> None:
        """Finish the work in the queue, and end the thread."""
        await asyncio.to_thread(self._thread.shutdown)

    async def _run(self, groups: Sequence[Group], work: Callable[[], T]) -> T:
        """Run a function in the thread; meanwhile the rollouts of `groups`, which it works on, count as waiting."""
        rollouts = sum(len(group.rollouts) for group in groups)
        self.waiting += rollouts
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self.waiting -= rollouts

    async def score(
        self,
        groups: Sequence[Group],
        step: int,
        *,
        train: bool = True,
        logged: bool = False,
    ) -> tuple[Graded, StepRewards]:
        """Grade and fuse whole groups. step, train, logged: see `fuse`.

        Raises InvalidInput if a rubric cannot be used, and JudgingFailed if too many verdicts of judges are missing.
        """
        groups = self.resolve_rubrics(groups)
        graded = await self.grade(groups)
        self.engine.check_judgments(graded)
        return graded, await self.fuse(groups, graded, step=step, train=train, logged=logged)

    async def grade(self, groups: Sequence[Group], *, compare: bool | None = None) -> Graded:
        """Return the scores of groups with resolved rubrics. compare: see `RewardEngine.ask`."""
        started_at = time.perf_counter()
        table = await self._run(groups, lambda: self.engine.decide(groups))
        self._metrics.count("rollouts", sum(len(group.rollouts) for group in groups))
        graded = await self.engine.ask(table, groups, compare=compare)
        return replace(graded, seconds=time.perf_counter() - started_at)

    async def fuse(
        self,
        groups: Sequence[Group],
        graded: Graded,
        *,
        step: int,
        train: bool,
        write: bool = True,
        logged: bool = False,
    ) -> StepRewards:
        """Return the rewards of graded groups.

        step, train: as in a trainer. write: record the groups, if the engine records.
        logged: also compute the metrics of the step.
        """

        def fuse() -> StepRewards:
            try:
                return self.engine.fuse(
                    groups, graded, step, train=train, write=write, logged=logged
                )
            except Exception:
                if self.engine.recording is not None:
                    # A failed write would also fail the next requests. It need not: this caller gets no rewards, so
                    # the records hold all rewards that were given out.
                    self.engine.recording.reset()
                raise

        return await self._run(groups, fuse)

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
