"""What happens to one request, between the routes of `app.py` and the reply.

A request with whole groups, `POST /v1/groups`:

    GroupsRequest ──► score_groups
        1. seen before?     a request_id that was answered gets its stored answer; if its task runs, that is awaited
        2. admit            429 if too many rollouts are pending
        3. grade and fuse   verifiers and fusion in one thread, judges beside other requests; the engine writes records
        4. store            the state of the rule, and the answer under its request_id
    ◄── bytes of JSON

A single sample, from a trainer that sends them one by one (a dialect of `requests.py`):

    ServiceSample ──► score_sample
        1. admit
        2. find its cohort  `Cohorts.add_sample` stores the sample; if it was answered before, that is the reply
        3. grade it alone   judges start at once, while siblings are still being sampled
        4. wait             until all siblings have come, or the deadline has passed
        5. grade and fuse   one of the callers does it for the whole group, and publishes the answers
        6. store            the answers, before any caller gets one
    ◄── SampleAnswer

Each request is graded and fused alone, like a step of a trainer.

The words of this module:

    sample     one rollout from a trainer that sends its rollouts one by one; its siblings are the others of its group
    cohort     a group of such samples, from the first one that arrives until its answers are too old to be repeated
    caller     an HTTP request that waits for the answer to a sample. Trainers repeat calls whose connection broke, so a
               sample can have two callers, or none
    late       of a sample: it came after its cohort had stopped waiting. Its siblings keep the rewards that they got;
               the whole group is scored once more to answer the late sample. That time nothing is recorded, and the
               rule does not learn
    task       an asyncio task that does the work of a caller, and goes on if the caller disconnects: the judges that it
               asks are paid for
    pending    of a rollout: admitted, and its work has not ended. `max_waiting` limits their number

The cohorts are in this process, or in an actor if there are several replicas. So their methods are called in one way
that works for both: `self._cohorts.call(Cohorts.find_answer, request_id)` returns what `find_answer(request_id)` of the
cohorts returns. `Cohorts.call` calls the method here, `RemoteCohorts.call` has the actor call it.

What a caller sees that tries again, after an error or a broken connection:

    its call was answered       the same answer, for `keep` seconds (a request without request_id is scored again)
    its task is still running   the answer of that task; a sample that waits for siblings has kept its place
    its task failed             another attempt; replies of judges come from the cache
    the disk was full           the answer that was kept in memory, so that no group is recorded twice
    the process was killed      another attempt; samples that waited for siblings are read from disk

`open_service` makes a service, and `Service.close` ends it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from rubrank.errors import RubrankError
from rubrank.judges.client.usage import Account
from rubrank.rollouts.rollout import Group
from rubrank.rubrics.files import refuse_files
from rubrank.rubrics.public import to_rubric
from rubrank.rubrics.rubric import Rubric
from rubrank.service.cohorts import Cohorts, GroupWork, SampleAnswer, ServiceSample, Ticket
from rubrank.service.config import ServiceConfig
from rubrank.service.requests import GroupsRequest, make_refusal, make_shutdown_error, to_json
from rubrank.service.store import ServiceStore
from rubrank.training.barrier import ArrivingPairs, merge_rollouts
from rubrank.training.engine import Graded, RewardEngine, StepRewards, fill_unknown
from rubrank.training.rewind import drop_half_record
from rubrank.training.rollouts import rollout_of

if TYPE_CHECKING:
    from rubrank.service.replicas import RemoteCohorts

T = TypeVar("T")
_log = logging.getLogger("rubrank.service")
# Between two lines in the log about incomplete groups: every sample of a step may be refused for the same reason.
_LOG_PAUSE_SECONDS = 60.0
_DIGEST_BYTES = 16
# Answers that are kept in memory while the disk is full. An older one is dropped: its caller would be scored again.
_MOST_UNSAVED = 1000
# Parsed rubrics kept in memory, for callers that send the same one with every request.
_MOST_RUBRICS = 10_000
_WARM_UP_PROMPT = "Name a lake near Hangzhou, and say in two sentences why people go there."
_WARM_UP_RESPONSES = ("West Lake. It is calm.", "")


async def open_service(
    config: ServiceConfig, folder: Path, cohorts: RemoteCohorts | None = None, replica: str = ""
) -> Service:
    """Return the service of a configuration, in the state in which its last process ended.

    cohorts: the shared cohorts, if there are several replicas. replica: the name of this one.
    Raises InvalidInput if the configuration cannot be used, or another process uses the same folder.
    """
    engine = config.make_engine(folder, replica=replica)
    named_rubrics = config.read_rubrics(folder)
    if engine.records is not None:
        engine.records.parent.mkdir(parents=True, exist_ok=True)
    file_name = f"service-{replica}.sqlite" if replica else "service.sqlite"
    store = ServiceStore(config.state_folder(folder) / file_name)
    if engine.records is not None and cohorts is None:
        # The store is locked, so no other process writes the records: a half line at the end is from a killed process.
        drop_half_record(engine.records)
    state = store.load_engine_state()
    if state is not None and engine.remembers:
        engine.load_state_dict(state)
    return Service(config, engine, store, cohorts, named_rubrics)


class Service:
    """One process of the service; belongs to one event loop. `open_service` makes it."""

    def __init__(
        self,
        config: ServiceConfig,
        engine: RewardEngine,
        store: ServiceStore,
        cohorts: RemoteCohorts | None = None,
        named_rubrics: Mapping[str, Any] | None = None,
    ) -> None:
        self.config = config
        self.engine = engine
        self.metrics = Metrics()
        self.local_cohorts: Cohorts | None = None
        """None if an actor has the cohorts."""
        self._cohorts: Cohorts | RemoteCohorts
        """The cohorts, here or in an actor; the top of the module says how their methods are called."""
        if cohorts is None:
            self.local_cohorts = Cohorts(
                store, deadline=config.deadline, keep=config.keep, on_event=self.metrics.count
            )
            self._cohorts = self.local_cohorts
        else:
            self._cohorts = cohorts
        self._store = store
        self._named_rubrics = named_rubrics or {}
        """The contents of rubrics that callers may refer to by name."""
        self._rubrics: dict[bytes, Rubric] = {}
        """Rubrics of requests, by the digest of their data."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rubrank-engine")
        """Runs verifiers and fusion, so that the event loop can answer other callers meanwhile."""
        self.rollouts_in_thread = 0
        """Rollouts in the queue of the thread, or being graded or fused there."""
        self.is_ready = False
        self.is_ending = False
        self._ending_since: float | None = None
        self._has_state = engine.remembers  # needed for every request, and slow to compute
        self._tasks: set[asyncio.Task[Any]] = set()
        """Those that are not done; see the top of the module."""
        self._running: dict[str, tuple[bytes, asyncio.Task[bytes]]] = {}
        """Request id → digest of the body, and the task that scores it."""
        self._pending = 0
        """Number of pending rollouts: `_admit` adds them, and whoever called it subtracts them."""
        self._unsaved_requests: dict[tuple[str, bytes], bytes] = {}
        """Request id and digest of the body → the answer, which could not be stored; oldest first."""
        self._unsaved_cohorts: dict[int, list[SampleAnswer]] = {}
        """Cohort → the answers to its samples, which could not be stored; oldest first."""
        self._pairs: dict[int, ArrivingPairs] = {}
        """Cohort → pairs of its samples that are judged before the cohort is complete."""
        self._recent: deque[bool] = deque(maxlen=config.window)
        """For each of the last groups of single samples: was it complete?"""
        self._starved_logged = -math.inf
        """When a line about incomplete groups was logged last (monotonic, in seconds)."""
        self._warm_up = asyncio.create_task(self._prepare())

    async def _prepare(self) -> None:
        """Load and compile modules in advance, so that the first caller does not wait for them."""
        try:
            if self.engine.rubric is not None:
                await asyncio.to_thread(self.warm_up_engine)
        except RubrankError:
            pass  # the shared rubric alone may not be enough: queries bring their own criteria
        except Exception:  # callers will get the error too, and some requests may work
            _log.exception("warming up did not work")
        self.is_ready = True

    def warm_up_engine(self) -> None:
        """Score two made-up groups. The state of the engine stays as it is, even if requests run meanwhile."""
        if self.engine.judges is not None:
            # Imported before the first caller needs them.
            from rubrank.judges import prompting  # noqa: F401
            from rubrank.judges.client import runtime  # noqa: F401

        rollouts = tuple(rollout_of(_WARM_UP_PROMPT, text) for text in _WARM_UP_RESPONSES)
        # Two groups, because rules that estimate over groups warn if there is only one.
        groups = [Group(id=f"warm-up {n}", rollouts=rollouts) for n in range(2)]
        graded = Graded(self.engine.decide(groups).groups)
        # With train=False the engine restores what its rule has learnt, under its lock. With logged=False no metrics
        # are added to the run's.
        self.engine.fuse(groups, graded, 0, train=False, write=False, logged=False)

    # --------------------------------------------------------------------------------------------- whole groups

    async def score_groups(self, request: GroupsRequest, body: bytes) -> bytes:
        """Return the answer to `POST /v1/groups` as JSON. body: the request as sent.

        Raises RequestRefused if too much is pending, or the request_id was used with another body, and InvalidInput if
        a group or its rubric cannot be used.
        """
        request_id = request.request_id
        if request_id is None:
            answer: bytes = await asyncio.shield(self._start(self._score_request(request)))
            return answer
        digest = blake2b(body, digest_size=_DIGEST_BYTES).digest()
        if request_id not in self._running:
            stored = await self._cohorts.call(Cohorts.find_answer, request_id)
            if stored is not None:
                # `_score_and_store` put the digest of the body before the answer.
                _check_same_body(digest, stored[:_DIGEST_BYTES])
                self.metrics.count("repeated")
                return stored[_DIGEST_BYTES:]
        if request_id not in self._running:
            # Checked again, because another call with this id may have started a task during the await.
            task = self._start(self._score_and_store(request, request_id, digest))
            self._running[request_id] = (digest, task)
        first_digest, task = self._running[request_id]
        _check_same_body(digest, first_digest)
        return await asyncio.shield(task)

    async def _score_and_store(
        self, request: GroupsRequest, request_id: str, digest: bytes
    ) -> bytes:
        """Score a request, and store its answer under its id; it is answered only if that worked."""
        try:
            answer = self._unsaved_requests.pop((request_id, digest), None)
            if answer is None:
                answer = await self._score_request(request)
            try:
                await self._cohorts.call(Cohorts.add_answer, request_id, digest + answer)
            except Exception:
                # Its records are written. If the caller tries again, they must not be written a second time.
                self._unsaved_requests[request_id, digest] = answer
                _drop_oldest(self._unsaved_requests, _MOST_UNSAVED)
                raise
            return answer
        finally:
            del self._running[request_id]

    async def _score_request(self, request: GroupsRequest) -> bytes:
        """Grade and fuse the groups of a request, and return the answer as JSON."""
        run_and_step = ""  # names the groups that have no id
        if any(body.id is None for body in request.groups):
            run_and_step = self.engine.label(request.step, train=request.train)
        groups = []
        for i, body in enumerate(request.groups):
            name = f"{run_and_step}/{i}"
            groups.append(
                body.make_group(name, f"groups.{i}", self.config.max_group, self.engine.thinking)
            )
        rollouts = sum(len(group.rollouts) for group in groups)
        self._admit(rollouts)
        try:
            groups = self._parse_rubrics(groups)
            graded = await self._grade(groups)
            step = await self._fuse(
                groups, graded, step=request.step, train=request.train, logged=request.metrics
            )
        finally:
            self._pending -= rollouts
        answers = []
        for scores, rewards, stopped_by in zip(
            graded.groups, step.rewards, step.stopped_by, strict=True
        ):
            # Numbers and reasons by criterion, one for each rollout; NaN becomes null.
            answer: dict[str, Any] = {
                "id": scores.id,
                "scores": dict(zip(scores.names, scores.scores.T.tolist(), strict=True)),
            }
            if scores.outcomes:
                answer["outcomes"] = {
                    name: outcomes.tolist() for name, outcomes in scores.outcomes.items()
                }
            if scores.probabilities:
                answer["probabilities"] = dict(scores.probabilities)
            if request.reasons:
                by_criterion = zip(*scores.reasons, strict=True)
                answer["reasons"] = dict(zip(scores.names, by_criterion, strict=True))
            answer["rewards"] = rewards
            if any(stopped_by):
                answer["stopped_by"] = [", ".join(gates) for gates in stopped_by]
            answers.append(answer)
        reply: dict[str, Any] = {"groups": answers, "cost": describe_cost(graded)}
        if request.metrics:
            reply["metrics"] = dict(step.metrics)
        return to_json(reply)

    async def score_rollout(self, group: Group) -> bytes:
        """Return the scores of the one rollout of a group as JSON, for `POST /v1/score`.

        Criteria on which rollouts are compared are left out. Nothing is fused, stored or recorded.
        """
        self._admit(1)
        try:
            groups = self._parse_rubrics([group])
            graded = await self._grade(groups, compare=False)
        finally:
            self._pending -= 1
        self._count_judge_calls(graded)
        scores = graded.groups[0]
        answer = {
            "scores": dict(zip(scores.names, scores.scores[0].tolist(), strict=True)),
            "reasons": dict(zip(scores.names, scores.reasons[0], strict=True)),
            "cost": describe_cost(graded),
        }
        return to_json(answer)

    # ------------------------------------------------------------------------------------------- single samples

    async def score_sample(self, sample: ServiceSample) -> SampleAnswer:
        """Return the reward of a sample that comes without its siblings. If its caller leaves, the work goes on.

        Raises RequestRefused if too much is pending or most groups stay incomplete, and InvalidInput if the sample does
        not fit its group or its rubric cannot be used.
        """
        self._admit(1)
        task = None
        try:
            single = Group(id=sample.group_name, rollouts=(sample.rollout,), rubric=sample.rubric)
            [single] = self._parse_rubrics([single])
            ticket = await self._cohorts.call(Cohorts.add_sample, sample, self._cohorts.replica)
            if isinstance(ticket, SampleAnswer):  # it was answered before
                return ticket
            task = self._start(self._finish_sample(ticket, single))
        finally:
            # The sample is pending until its task ends, even if its caller leaves before. If there is no task, because
            # it was answered before or there was an error, it is not pending any more.
            if task is None:
                self._pending -= 1
            else:
                task.add_done_callback(self._end_sample)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:  # the caller has left, or the task was cancelled at shutdown
            if not task.done():
                await asyncio.shield(self._cohorts.call(Cohorts.remove_caller, ticket))
            raise

    def _end_sample(self, task: asyncio.Task[SampleAnswer]) -> None:
        self._pending -= 1

    async def _finish_sample(self, ticket: Ticket, single: Group) -> SampleAnswer:
        """Judge the sample, wait for its siblings, and score the group if this caller is the one that gets the work.

        single: the sample as a group of one.
        """
        graded = None
        if self.engine.judges is not None:
            try:
                graded = await self._grade([single], compare=False)
                # With replicas, another one may score the group, and it does not have these pairs.
                if self.local_cohorts is not None:
                    self._compare_with_siblings(ticket, single, graded)
            except BaseException:
                await self._cohorts.call(Cohorts.remove_caller, ticket)
                raise
        result = await self._cohorts.call(Cohorts.wait_for_siblings, ticket, graded)
        # The caller that scores the cohort gets its pairs: it is the first to come here, as the others wait for its
        # answers. What a later caller removes are pairs of late samples and repeated calls. They can be lost, because
        # pairs only save time: without them `merge_rollouts` asks judges about the whole group, and the cache has the
        # replies that were paid for.
        pairs = self._pairs.pop(ticket.cohort_id, None)
        if isinstance(result, SampleAnswer):  # another caller has scored the group
            return result
        work: GroupWork = result
        try:
            # The answers of an earlier attempt that could not be stored. They are used if no sample has come since.
            answers = self._unsaved_cohorts.pop(ticket.cohort_id, None)
            if answers is None or work.late or len(answers) != len(work.group.rollouts):
                answers = await self._score_cohort(work, pairs)
            try:
                await self._cohorts.call(Cohorts.publish_answers, work.caller_id, answers)
            except Exception:
                # The records are written. If a caller tries again, they must not be written a second time. A late
                # sample is not recorded, so it is simply scored again.
                if not work.late:
                    self._unsaved_cohorts[ticket.cohort_id] = answers
                    _drop_oldest(self._unsaved_cohorts, _MOST_UNSAVED)
                raise
        except Exception as error:
            await self._cohorts.call(Cohorts.report_failure, work.caller_id, error)
            raise
        return answers[ticket.number]

    def _compare_with_siblings(self, ticket: Ticket, single: Group, graded: Graded) -> None:
        """Ask judges that compare two rollouts about this sample and the siblings that have come."""
        pairs = self._pairs.get(ticket.cohort_id)
        if pairs is None:
            pairs = ArrivingPairs(
                self.engine, ticket.group_name, single.rubric, ticket.group_size, self._start
            )
            self._pairs[ticket.cohort_id] = pairs
            # If all callers of a cohort leave while it waits, `_finish_sample` does not remove its pairs.
            _drop_oldest(self._pairs, self.config.max_waiting)
        # The place of a sample is its number in the cohort, which a restart does not change.
        pairs.compare(ticket.number, single.rollouts[0], graded.groups[0])

    async def _score_cohort(
        self, work: GroupWork, pairs: ArrivingPairs | None
    ) -> list[SampleAnswer]:
        """Grade what is not graded yet, fuse the group, and return one answer for each rollout.

        pairs: the judgments of pairs that were asked for while samples came; None if there are none.
        """
        if not work.late:
            self._refuse_if_starved(work)
        [group] = self._parse_rubrics([work.group])
        if self.engine.judges is None:
            graded = await self._grade([group])
        else:
            parts = list(work.graded)
            # Samples that another process received, or whose caller left, are not graded.
            ungraded = [number for number, part in enumerate(parts) if part is None]
            calls = []
            for number in ungraded:
                single = group.model_copy(update={"rollouts": (group.rollouts[number],)})
                calls.append(self._grade([single], compare=False))
            for number, part in zip(ungraded, await asyncio.gather(*calls), strict=True):
                parts[number] = part
            all_parts = [part for part in parts if part is not None]
            places = tuple(range(len(parts)))
            graded = await merge_rollouts(self.engine, group, all_parts, pairs, places)
        step = await self._fuse(
            [group], graded, step=work.step, train=work.train, write=not work.late, logged=False
        )
        return make_answers(work, step, graded)

    def _refuse_if_starved(self, work: GroupWork) -> None:
        """Raise RequestRefused for an incomplete group if most groups lately were incomplete.

        A trainer that cannot have all samples of its groups in flight at once (slime's 64 connections) would get the
        reward of a group of one or two for every sample, and train on noise without noticing.
        """
        is_complete = len(work.group.rollouts) >= work.size
        self._recent.append(is_complete)
        if is_complete or len(self._recent) < self.config.window:
            return
        incomplete = self._recent.count(False)
        if 2 * incomplete <= len(self._recent):
            return
        self.metrics.count("starved")
        got = f"{incomplete} of the last {len(self._recent)} groups incomplete"
        now = time.monotonic()
        if now - self._starved_logged >= _LOG_PAUSE_SECONDS:
            self._starved_logged = now
            _log.error("%s: the trainer keeps fewer samples in flight than its groups need", got)
        raise make_refusal(
            503,
            "groups",
            allowed="complete before their deadline",
            got=got,
            remedy="Let the trainer keep more requests in flight (slime: --group-rm asks for the rewards of a group"
            " together), or sample fewer groups at a time.",
            where="service",
        )

    # ------------------------------------------------------------------------------------ rubrics and the engine

    def _parse_rubrics(self, groups: Sequence[Group]) -> list[Group]:
        """Return the groups with their rubrics parsed. Invalid rubrics raise InvalidInput before any judge is asked.

        Callers are not trusted: a rubric may name presets and what the operator configured, but no files of this
        machine.
        """
        parsed = []
        for group in groups:
            if group.rubric is None or isinstance(group.rubric, Rubric):
                parsed.append(group)
                continue
            text = repr(group.rubric).encode("utf-8", "surrogatepass")
            digest = blake2b(text, digest_size=_DIGEST_BYTES).digest()
            if digest not in self._rubrics:
                where = f"group {group.id!r}"
                with refuse_files(self._named_rubrics):
                    rubric = to_rubric(group.rubric, where)
                    self.engine.check_rubric(rubric, where)
                self._rubrics[digest] = rubric
                _drop_oldest(self._rubrics, _MOST_RUBRICS)
            parsed.append(group.model_copy(update={"rubric": self._rubrics[digest]}))
        return parsed

    async def _run_in_thread(self, groups: Sequence[Group], work: Callable[[], T]) -> T:
        """Run a function that works on these groups in the engine's thread."""
        rollouts = sum(len(group.rollouts) for group in groups)
        self.rollouts_in_thread += rollouts
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self.rollouts_in_thread -= rollouts

    async def _grade(self, groups: Sequence[Group], *, compare: bool | None = None) -> Graded:
        """Return the scores of groups with parsed rubrics. compare: see `RewardEngine.ask`."""
        started_at = time.perf_counter()
        table = await self._run_in_thread(groups, lambda: self.engine.decide(groups))
        self.metrics.count("rollouts", sum(len(group.rollouts) for group in groups))
        graded = await self.engine.ask(table, groups, compare=compare)
        return replace(graded, seconds=time.perf_counter() - started_at)

    async def _fuse(self, groups: Sequence[Group], graded: Graded, **options: Any) -> StepRewards:
        """Return the rewards of graded groups; count them, and store what the rule has learnt.

        options: step, train, write and logged of `RewardEngine.fuse`. Raises JudgingFailed if judges gave too few
        answers.
        """
        self.engine.check_judgments(graded)

        def fuse() -> StepRewards:
            try:
                return self.engine.fuse(groups, graded, **options)
            except Exception:
                if self.engine.recording is not None:
                    # A failed write would also fail the next requests. It need not: this caller gets no rewards, so
                    # the records hold all rewards that were given out.
                    self.engine.recording.reset()
                raise

        step = await self._run_in_thread(groups, fuse)
        rewards = step.flat()
        self.metrics.count("groups", len(step.rewards))
        self.metrics.count("rewards", len(rewards))
        self.metrics.count("unknown", sum(map(math.isnan, rewards)))
        self._count_judge_calls(graded)
        if self._has_state:
            self._store.save_engine_state(self.engine.state_dict())
        return step

    def _count_judge_calls(self, graded: Graded) -> None:
        if graded.judging is not None:
            cost = describe_cost(graded)
            for name in ("calls", "hits", "cost", "missing"):
                self.metrics.count(f"judge_{name}", cost[name])

    # ------------------------------------------------------------------------------------------ limits and tasks

    def _admit(self, rollouts: int) -> None:
        """Count the rollouts of a request as pending, until the caller subtracts them from `_pending`.

        Raises RequestRefused if the service is shutting down, or too many rollouts are pending.
        """
        if self.is_ending:
            raise make_shutdown_error()
        most = self.config.max_waiting
        if self._pending + rollouts > most:
            self.metrics.count("turned_away")
            # 429 asks the caller to try again. It would not help if the request is too large by itself: 413.
            status = 413 if rollouts > most else 429
            raise make_refusal(
                status,
                "rollouts",
                allowed=f"at most {most:,} pending",
                got=f"{self._pending:,} pending, and {rollouts:,} more",
                remedy="Try again in a moment, send fewer groups at a time, or raise max_waiting.",
                where="service",
            )
        self._pending += rollouts

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task, which goes on if its caller disconnects."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._end_task)
        return task

    def _end_task(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # marks it as retrieved; if the caller is gone, asyncio would log a warning

    # -------------------------------------------------------------------------------------------------- shutdown

    def begin_shutdown(self) -> None:
        """Begin the shutdown: new callers and those that wait for siblings get an error; samples stay on disk."""
        if self._ending_since is None:
            self._ending_since = time.monotonic()
        self.is_ending = True
        if self.local_cohorts is not None:
            self.local_cohorts.close(make_shutdown_error(), only_open=True)

    async def close(self) -> None:
        """Wait for work in flight, for up to `shutdown` seconds, and write everything to disk."""
        self.begin_shutdown()
        await asyncio.gather(self._warm_up, return_exceptions=True)
        assert self._ending_since is not None
        # The server may have waited for callers already.
        elapsed = time.monotonic() - self._ending_since
        await self.finish_tasks(max(self.config.shutdown - elapsed, 0.0))
        if self.local_cohorts is not None:
            self.local_cohorts.close(make_shutdown_error())
        await asyncio.to_thread(self._thread.shutdown)
        if self._has_state:
            self._store.save_engine_state(self.engine.state_dict())
        self._store.close()

    async def finish_tasks(self, seconds: float) -> None:
        """Wait for tasks, because calls of judges in flight are paid for; then cancel those that are not done."""
        running = [task for task in self._tasks if not task.done()]
        if not running:
            return
        _, unfinished = await asyncio.wait(running, timeout=seconds)
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)


def make_answers(work: GroupWork, step: StepRewards, graded: Graded) -> list[SampleAnswer]:
    """Return one answer for every rollout of a group of single samples."""
    (rewards,) = step.rewards
    (stopped_by,) = step.stopped_by
    (group,) = graded.groups
    usable = fill_unknown(rewards)
    size = len(rewards)
    cost = describe_cost(graded)["cost"] / size
    answers = []
    for i in range(size):
        answer = SampleAnswer(
            reward=float(rewards[i]),
            usable=float(usable[i]),
            group=group.id,
            samples=size,
            size=work.size,
            scores=dict(zip(group.names, group.scores[i].tolist(), strict=True)),
            reasons=dict(zip(group.names, group.reasons[i], strict=True)),
            stopped_by=", ".join(stopped_by[i]),
            cost=cost,
            late=work.late,
        )
        answers.append(answer)
    return answers


def describe_cost(graded: Graded) -> dict[str, Any]:
    """Return what the judges were asked and what it cost, for the answer to a request; zeros without judges."""
    judging = graded.judging
    account = Account() if judging is None else judging.account
    return {
        "calls": account.calls,
        "hits": account.hits,
        "cost": account.cost,
        "input_tokens": account.input_tokens,
        "output_tokens": account.output_tokens,
        "asked": 0 if judging is None else judging.asked,
        "missing": 0 if judging is None else judging.lost,
    }


def _check_same_body(digest: bytes, first_digest: bytes) -> None:
    """Raise RequestRefused if the body differs from that of the first request with this id.

    The stored rewards would be those of other responses.
    """
    if digest != first_digest:
        raise make_refusal(
            409,
            "request_id",
            allowed="used for one request",
            got="a different body than the first time",
            remedy="Give every request its own id; repeat a request with the same body.",
        )


def _drop_oldest(items: dict[Any, Any], most: int) -> None:
    """Delete the oldest items until at most this many are left."""
    while len(items) > most:
        del items[next(iter(items))]


# -------------------------------------------------------------------------------------------------------------- metrics

# Upper bounds of the histogram, in seconds: from a repeated request to a group with slow judges.
# fmt: off
_SECONDS_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
# fmt: on
_COUNTERS = {
    "groups": "Groups that were fused.",
    "rewards": "Rewards that were computed.",
    "unknown": "Rewards of rollouts without any score.",
    "repeated": "Repeated calls, answered from the store or attached to their waiting sample.",
    "late": "Samples that arrived after their group was scored.",
    "complete": "Groups of single samples that were complete.",
    "short": "Groups of single samples that were scored incomplete.",
    "starved": "Groups that were refused because most groups lately were incomplete.",
    "turned_away": "Requests that were refused because too many rollouts were pending.",
    "judge_calls": "Calls of judges that went to a server.",
    "judge_hits": "Calls of judges that were answered from the cache.",
    "judge_cost": "Cost of the calls of judges, in the currency of the endpoints' prices.",
    "judge_missing": "Answers that judges failed to give.",
    "rollouts": "Rollouts that verifiers graded.",
}
METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Counters and times of one service, for Prometheus; a process may have several services.

    metrics.count("groups", 3)
    metrics.observe_request("/v1/groups", 200, 0.012)
    metrics.render({"waiting_rollouts": 12})                     the text that GET /metrics returns:

        rubrank_groups_total 3.0
        rubrank_requests_total{path="/v1/groups",status="200"} 1.0
        rubrank_request_seconds_bucket{path="/v1/groups",le="0.025"} 1.0
        rubrank_waiting_rollouts 12.0
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._counters = {
            name: Counter(f"rubrank_{name}", text, registry=self._registry)
            for name, text in _COUNTERS.items()
        }
        self._gauges: dict[str, Gauge] = {}
        self._requests = Counter(
            "rubrank_requests",
            "Requests by path and status.",
            ["path", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "rubrank_request_seconds",
            "Seconds until a request was answered.",
            ["path"],
            buckets=_SECONDS_BUCKETS,
            registry=self._registry,
        )

    def count(self, name: str, number: float = 1) -> None:
        """Add to a counter. name: a key of `_COUNTERS`, such as "groups"."""
        self._counters[name].inc(number)

    def observe_request(self, path: str, status: int, seconds: float) -> None:
        """Count a request that was answered, and its time."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def render(self, current: Mapping[str, float]) -> bytes:
        """Return all metrics as text.

        current: the current values of gauges, which go up and down. A gauge is created when it first has a value.
        """
        for name, value in current.items():
            if name not in self._gauges:
                self._gauges[name] = Gauge(
                    f"rubrank_{name}", name.replace("_", " "), registry=self._registry
                )
            self._gauges[name].set(value)
        return generate_latest(self._registry)
