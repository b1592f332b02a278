"""Rubric × rollouts → score table.

    table = rubrank.grade("rollouts.jsonl", "rubric.yaml", cache="verdicts.sqlite")

    1. plan       read rollouts and rubrics, validate all parameters                            plan.py
    2. cache      verdicts of earlier runs                                                      cache.py
    3. checks     verifiers that start a subprocess run in threads, the others here or in
                  worker processes, whichever is faster                                         workers.py
    4. groups     verifiers that see all rollouts of a group together
    5. judges     what no verifier could decide                                                 judge_table.py

A missing score is NaN with a reason; an error in one verifier does not stop the others.
"""

from __future__ import annotations

import logging
import math
import os
import queue
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rubrank.errors import only_our_errors
from rubrank.grading.cache import VerdictCache, digest_rollout, make_key
from rubrank.grading.missing import count_missing
from rubrank.grading.plan import (
    GradeOptions,
    GroupPlan,
    PlannedCheck,
    Task,
    Timeout,
    plan_checks,
    plan_groups,
)
from rubrank.grading.progress import Progress, open_progress
from rubrank.judges.judge import Judges, load_judges
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.rubrics.rubric import Criterion, Rubric
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.verifiers.verifier import NEEDS_JUDGE, Compat, Mode, PlainVerdict

_log = logging.getLogger("rubrank")
_failures_logged: set[str] = set()
"""Criteria whose failure has been logged in this process; a run has many steps."""

TIMEOUT = 60.0
"""Seconds that a verdict may take in a worker process, unless `timeout` says otherwise."""

_TRIAL_SECONDS = 0.5  # of grading in this process, to estimate whether workers would be faster
# Workers are started if more work than this remains, because starting one takes about a second.
_WORTHWHILE_SECONDS = 4.0
_FLUSH_SECONDS = 0.1  # between writes to the cache
_BATCH_ROLLOUTS = 16  # graded together in this process
# Seconds per rollout. Slower ones are graded one by one, so that progress is reported often.
_QUICK_SECONDS = 0.02


@only_our_errors
def grade(
    rollouts: Any,
    rubric: Rubric | str | Path | Any = None,
    *,
    compat: Compat = "fixed",
    mode: Mode = "strict",
    workers: int | None = None,
    cache: str | Path | None = None,
    columns: dict[str, str] | None = None,
    progress: Progress | bool = False,
    timeout: Timeout = "auto",
    judges: Any = None,
    most_missing: float | None = None,
    batch: Literal["wait", "submit"] | None = None,
) -> ScoreTable:
    """Grade all rollouts on all criteria.

    rollouts: groups, rollouts, rows, a table, or a file; see `rubrank.rollouts.groups`.
    rubric: the criteria for every query: a rubric, a file, a preset. A query's own rubric is added to it, and replaces
        criteria of the same name. Without one here, each query needs its own.
    compat: "fixed" (what the instruction says) or "upstream" (the public checker's verdict).
    mode: "strict", or "loose": the best of the usual eight variants of an answer.
    workers: processes; None: as many as there are processors if that saves time; 0: none.
    cache: a file in which verdicts are kept; a killed run continues from there.
    columns: names of columns that are not the usual ones, such as {"response": "model_output"}.
    progress: True for a bar, or a function (done, total).
    timeout: seconds that a verdict may take; after that it is missing. A function can only be stopped in a worker
        process: "auto" means 60 in workers and no limit in this process; a number makes verifiers of your own modules
        run in workers from the start, so that it holds; None means no limit.
    judges: decide what no verifier can: a file, a mapping, a `Judge` or `Judges` (docs/judges.md). They are called
        last, and not for rollouts that a hard gate has stopped.
    most_missing: share of the scores that may be missing; with more, or with all of them, `GradingFailed` is raised.
        None: no limit. Without judges, a rubric that needs one is refused at once if `most_missing` is below 1. With
        None, it is refused only if all its ranked criteria need a judge; otherwise the logger "rubrank" warns of those
        that do.
    batch: send judge calls through the batch API of their endpoints, which is cheaper and answers within a day: "wait"
        for it, or "submit" and raise `BatchesPending` while batches are pending; the same call continues from there.
    """
    loaded_judges = None if judges is None else load_judges(judges)
    options = GradeOptions(compat, mode, workers, cache, timeout, loaded_judges, most_missing)
    table, _ = _grade(rollouts, rubric, columns, options, progress, batch)
    return table


@dataclass(frozen=True, eq=False)
class MeasuredRows:
    """What worker processes measured of the rollouts they graded."""

    numbers: np.ndarray
    """Numbers of the measured rollouts, counted over all groups."""
    rows: np.ndarray | None
    """One row for each of them; None: nothing was measured."""


def grade_and_measure(
    groups: Sequence[Group],
    rubric: Any,
    measure: str | None,
    judges: Judges | None,
    workers: int | None,
    cache: str | Path | None,
) -> tuple[ScoreTable, MeasuredRows]:
    """The scores, and what workers measured on the way, since they had the texts anyway.

    measure: "module:function" from rollouts to an array with a row for each, which other processes can import.
    """
    options = GradeOptions(workers=workers, cache=cache, judges=judges)
    table, run = _grade(groups, rubric, None, options, measure=measure)
    return table, run.collect_measured()


def grade_by_programs(
    groups: Sequence[Group],
    rubric: Any,
    *,
    workers: int | None = 0,
    cache: str | Path | None = None,
) -> ScoreTable:
    """The scores that programs decide. Scores that need a judge are missing, without an error.

    For callers that call judges later (`judge_table`), or not at all.
    """
    table, _ = _grade(
        groups, rubric, None, GradeOptions(workers=workers, cache=cache, judged_later=True)
    )
    return table


def _grade(
    rollouts: Any,
    rubric: Any,
    columns: dict[str, str] | None,
    options: GradeOptions,
    progress: Progress | bool = False,
    batch: Literal["wait", "submit"] | None = None,
    measure: str | None = None,
) -> tuple[ScoreTable, _GradeRun]:
    ask: Callable[..., Any] | None = None
    if batch is not None:
        from rubrank.judges.batches import check_batch_mode, judge_in_batches

        # What batches cannot do is refused before anything is graded or spent.
        check_batch_mode(batch, options.judges)
        ask = partial(judge_in_batches, wait=batch == "wait")
    groups, plans = plan_groups(rollouts, rubric, columns, options)
    with ExitStack() as stack:
        report = stack.enter_context(open_progress(progress, "grading"))
        cache = None
        if options.cache is not None:
            cache = stack.enter_context(VerdictCache(options.cache))
        run = _GradeRun(groups, plans, options, cache, report, measure)
        run.decide_all()
    table = run.make_table()
    if options.most_missing is None:
        # otherwise failures count as missing scores, which are checked below
        _log_failures(table)
    if options.judges is not None:
        from rubrank.grading.judge_table import judge_table

        criteria = [plan.rubric.criteria for plan in plans]
        with open_progress(progress, "judging") as report:
            table = judge_table(table, groups, criteria, options.judges, report, ask)
    if options.most_missing is not None:
        count_missing(table).check(options.most_missing)
    return table, run


def _log_failures(table: ScoreTable) -> None:
    """Log why a verifier raised, once for each criterion: its scores are missing, which is easily overlooked."""
    for group in table.groups:
        for row, column in np.argwhere(np.isnan(group.scores)):
            name = group.names[column]
            reason = group.reasons[row][column]
            if " failed: " in reason and name not in _failures_logged:
                _failures_logged.add(name)
                _log.warning("scores of %r are missing: %s", name, reason)


class _GradeRun:
    """The state of one call of `grade`: scores and reasons as they come."""

    def __init__(
        self,
        groups: Sequence[Group],
        plans: Sequence[GroupPlan],
        options: GradeOptions,
        cache: VerdictCache | None,
        progress: Progress | None,
        measure: str | None,
    ) -> None:
        self._groups = groups
        self._plans = plans
        self._options = options
        self._cache = cache
        self._progress = progress
        self._measure = measure
        self._scores: list[np.ndarray] = []
        self._reasons: list[list[list[str]]] = []
        self._total = 0
        for group, plan in zip(groups, plans, strict=True):
            size = len(group.rollouts)
            self._scores.append(np.full((size, len(plan.criteria)), math.nan))
            self._reasons.append([[NEEDS_JUDGE] * len(plan.criteria) for _ in range(size)])
            self._total += size * (len(plan.checks) + len(plan.group_checks))
        self._done = 0
        self._measured: list[tuple[tuple[Task, ...], np.ndarray]] = []
        self._unwritten: dict[bytes, PlainVerdict] = {}
        self._written_at = time.monotonic()
        self._in_threads: dict[Future[PlainVerdict], tuple[Task, PlannedCheck]] = {}
        self._ended_in_threads: queue.SimpleQueue[Future[PlainVerdict]] = queue.SimpleQueue()

    def make_table(self) -> ScoreTable:
        """The scores of all groups."""
        groups = []
        for group, plan, scores, reasons in zip(
            self._groups, self._plans, self._scores, self._reasons, strict=True
        ):
            digests = tuple(rollout.digest for rollout in group.rollouts)
            groups.append(
                GroupScores(
                    group.id, plan.criteria, scores, tuple(map(tuple, reasons)), digests=digests
                )
            )
        return ScoreTable(tuple(groups))

    def collect_measured(self) -> MeasuredRows:
        """What the workers measured."""
        if not self._measured:
            return MeasuredRows(np.array([], dtype=np.int64), None)
        starts = [0, *accumulate(len(group.rollouts) for group in self._groups)]
        numbers = [starts[task.group] + task.row for tasks, _ in self._measured for task in tasks]
        rows = np.concatenate([rows for _, rows in self._measured])
        return MeasuredRows(np.array(numbers, dtype=np.int64), rows)

    # -------------------------------------------------------------------------------------------------------- checks

    def decide_all(self) -> None:
        """Run all checks."""
        slow, quick = _divide(self._find_undecided(), lambda check: check.is_slow)
        with ThreadPoolExecutor(self._options.workers or os.cpu_count() or 1) as threads:
            try:
                for task in slow:
                    for check in task.checks:
                        future = threads.submit(check.decide, task.rollout)
                        self._in_threads[future] = (task, check)
                        future.add_done_callback(self._ended_in_threads.put)
                self._decide_quick(quick)
                while self._in_threads:
                    self._record_thread_result(self._ended_in_threads.get())
            except BaseException:
                threads.shutdown(wait=True, cancel_futures=True)
                raise
            finally:
                self._flush()
        for number, (group, plan) in enumerate(zip(self._groups, self._plans, strict=True)):
            for check in plan.group_checks:
                assert check.decide_group is not None
                for row, verdict in enumerate(check.decide_group(group)):
                    self._record(
                        Task(number, row, group.rollouts[row], (check,)), (check,), [verdict]
                    )

    def _find_undecided(self) -> list[Task]:
        """The checks that the cache does not answer; the answers that it has are recorded."""
        tasks = []
        for number, (group, plan) in enumerate(zip(self._groups, self._plans, strict=True)):
            if self._cache is None:
                for row, rollout in enumerate(group.rollouts):
                    tasks.append(Task(number, row, rollout, plan.checks))
                continue
            keys_by_row = [_make_keys(rollout, plan.checks) for rollout in group.rollouts]
            cached = self._cache.get([key for keys in keys_by_row for key in keys.values()])
            for row, keys in enumerate(keys_by_row):
                task = Task(number, row, group.rollouts[row], plan.checks, keys)
                answered = [check for check in task.checks if keys[check.column] in cached]
                if answered:
                    verdicts = [cached[keys[check.column]] for check in answered]
                    self._record(task, answered, verdicts, keep=False)
                    task.checks = tuple(check for check in task.checks if check not in answered)
                tasks.append(task)
        return [task for task in tasks if task.checks]

    def _record_thread_result(self, future: Future[PlainVerdict]) -> None:
        """Record the verdict of a check that ran in a thread."""
        task, check = self._in_threads.pop(future)
        self._record(task, (check,), [future.result()])

    def _record_thread_results(self) -> None:
        """Record the results that are available, without waiting for others."""
        while not self._ended_in_threads.empty():
            self._record_thread_result(self._ended_in_threads.get())

    def _decide_quick(self, tasks: list[Task]) -> None:
        """Decide where to run the checks of verifiers that do not start a subprocess, and run them."""
        workers = self._options.workers
        if workers == 0:
            self._decide_here(tasks)
            return
        local, portable = _divide(tasks, lambda check: check.is_local)
        number = workers
        if number is None:
            number = os.cpu_count() or 1
            # Only workers can stop a verifier. So with a time limit, verifiers of users run there from the start.
            is_limited = self._options.timeout not in (None, "auto")
            foreign, ours = _divide(portable, lambda check: is_limited and not check.is_builtin)
            portable = foreign + self._decide_here(ours, try_only=number > 1)
        if portable:
            self._decide_in_workers(portable, number)
        self._decide_here(local)

    def _decide_here(self, tasks: list[Task], try_only: bool = False) -> list[Task]:
        """Run checks in this process. try_only: stop when workers would be faster, and return what is left."""
        start = time.monotonic()
        done = 0
        size = 1
        while done < len(tasks):
            checks = tasks[done].checks
            batch = []
            for task in tasks[done : done + size]:
                if task.checks != checks:
                    break
                batch.append(task)
            # Check by check and not rollout by rollout: the processor's caches then hold what a check needs.
            columns = [[check.decide(task.rollout) for task in batch] for check in checks]
            for task, verdicts in zip(batch, zip(*columns, strict=True), strict=True):
                # Its words and sentences, which checks share, take many times the text's memory.
                task.rollout.__dict__.pop("text", None)
                self._record(task, checks, verdicts)
            self._record_thread_results()
            done += len(batch)
            elapsed = time.monotonic() - start
            size = _BATCH_ROLLOUTS if elapsed < done * _QUICK_SECONDS else 1
            remaining = elapsed / done * (len(tasks) - done)
            if try_only and elapsed > _TRIAL_SECONDS and remaining > _WORTHWHILE_SECONDS:
                return tasks[done:]
        return []

    def _decide_in_workers(self, tasks: list[Task], number: int) -> None:
        from rubrank.grading.workers import WorkerPool, make_chunks

        number = min(number, len(tasks))
        options = self._options
        timeout = TIMEOUT if options.timeout == "auto" else options.timeout
        chunks = make_chunks(tasks, number)
        modules = sorted({check.verifier.home for chunk in chunks for check in chunk.checks})
        with WorkerPool(
            number, modules, options.compat, options.mode, timeout, self._measure
        ) as pool:
            for result in pool.run(chunks):
                for task, verdicts in zip(result.chunk.tasks, result.verdicts, strict=False):
                    self._record(task, result.chunk.checks[: len(verdicts)], verdicts)
                if result.measured is not None:
                    self._measured.append((result.chunk.tasks, result.measured))
                self._record_thread_results()

    # ------------------------------------------------------------------------------------------------------- results

    def _record(
        self,
        task: Task,
        checks: Sequence[PlannedCheck],
        verdicts: Sequence[PlainVerdict],
        keep: bool = True,
    ) -> None:
        """Record the verdicts of some checks of a task. keep: write them to the cache, if there is one."""
        scores = self._scores[task.group]
        reasons = self._reasons[task.group][task.row]
        for check, verdict in zip(checks, verdicts, strict=True):
            if keep and task.keys is not None:
                self._unwritten[task.keys[check.column]] = verdict
            value, reason = check.check_verdict(verdict)
            if value is not None:
                scores[task.row, check.column] = value
            reasons[check.column] = reason
        self._done += len(verdicts)
        if self._unwritten and time.monotonic() - self._written_at > _FLUSH_SECONDS:
            self._flush()
        if self._progress is not None:
            self._progress(self._done, self._total)

    def _flush(self) -> None:
        if self._cache is not None and self._unwritten:
            self._cache.put(self._unwritten)
            self._unwritten = {}
            self._written_at = time.monotonic()


def _make_keys(rollout: Rollout, checks: Sequence[PlannedCheck]) -> dict[int, bytes]:
    """Column → key in the cache."""
    # Most verifiers see the same part of a rollout, whose digest is made once.
    digests = {
        wants: digest_rollout(rollout, wants)
        for wants in {check.verifier.wants for check in checks}
    }
    return {check.column: make_key(check.digest, digests[check.verifier.wants]) for check in checks}


def _divide(
    tasks: list[Task], is_first: Callable[[PlannedCheck], bool]
) -> tuple[list[Task], list[Task]]:
    """The tasks with the checks for which `is_first` holds, and the tasks with the others."""
    # Most tasks have the same checks: dividing those once keeps them one object, by which chunks are made.
    divided: dict[int, tuple[tuple[PlannedCheck, ...], tuple[PlannedCheck, ...]]] = {}
    first: list[Task] = []
    second: list[Task] = []
    for task in tasks:
        if id(task.checks) not in divided:
            chosen = tuple(check for check in task.checks if is_first(check))
            rest = tuple(check for check in task.checks if not is_first(check))
            divided[id(task.checks)] = (chosen, rest)
        chosen, rest = divided[id(task.checks)]
        if chosen:
            first.append(replace(task, checks=chosen))
        if rest:
            second.append(replace(task, checks=rest))
    return first, second


# ------------------------------------------------------------------------------------------------------ group criteria


def grade_group_criteria(
    table: ScoreTable, groups: Sequence[Group], criteria: Sequence[Sequence[Criterion]]
) -> ScoreTable:
    """Fill in the criteria about a whole group (`GroupDiversity`) after its rollouts were graded one by one.

    table: the scores of those rollouts. criteria: those of every group.
    """
    graded = []
    for scored, group, group_criteria in zip(table.groups, groups, criteria, strict=True):
        scores = scored.scores.copy()
        reasons = [list(row) for row in scored.reasons]
        for check in plan_checks(group_criteria, GradeOptions()):
            if check.decide_group is None:
                continue
            for row, verdict in enumerate(check.decide_group(group)):
                value, reason = check.check_verdict(verdict)
                scores[row, check.column] = math.nan if value is None else value
                reasons[row][check.column] = reason
        graded.append(replace(scored, scores=scores, reasons=tuple(map(tuple, reasons))))
    return replace(table, groups=tuple(graded))
