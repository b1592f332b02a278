"""Grade rollouts: apply every criterion of a rubric to every response, and return the table of scores.

    table = rubrank.grade("rollouts.jsonl", "rubric.yaml", cache="verdicts.sqlite")

    1. plan       read rollouts and rubrics, validate all parameters                            plan.py
    2. cache      look up the verdicts of earlier runs                                          cache.py
    3. checks     run the verifiers: those that start a subprocess in threads, the others in
                  this process or in worker processes, whichever is faster                      workers.py
    4. groups     run the verifiers that see all rollouts of a group together
    5. judges     ask judges about the cells that no verifier could decide                      judge_table.py

A check is one criterion that a verifier decides. A task is one rollout with the checks to run on it.

An error in one verifier does not stop the others. A score that is missing is NaN, and its reason says why. Most reasons
are only shown to people; these are also read by programs:

    "needs a judge…"      no verifier could decide: judges are asked about the cell (NEEDS_JUDGE)
    "not asked…"          a hard gate stopped the rollout, so no judge was asked; not counted as missing (NOT_ASKED)
    "NAME failed: …"      the verifier raised an error, which is logged once and counted by its first message (_FAILED)
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rubrank._plain import shorten
from rubrank.errors import GradingFailed, InvalidInput, only_our_errors
from rubrank.grading.cache import VerdictCache, digest_rollout, make_key
from rubrank.grading.plan import (
    GradeOptions,
    GroupPlan,
    PlannedCheck,
    Task,
    Timeout,
    plan_groups,
)
from rubrank.grading.progress import Progress, open_progress
from rubrank.rollouts.rollout import Group
from rubrank.rubrics.rubric import Rubric
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.verifiers.verifier import NEEDS_JUDGE, Compat, Mode, PlainVerdict

_log = logging.getLogger("rubrank")
_failures_logged: set[str] = set()
"""Criteria whose failure has been logged in this process. A training run grades at every step; once is enough."""

_FAILED = " failed"
"""How a reason begins if the verifier raised: its name, this, and a colon: "WordCount failed: KeyError: 'high'"."""
_MOST_LISTED_REASONS = 3

TIMEOUT = 60.0
"""Seconds that a verdict may take in a worker process, unless `timeout` says otherwise."""

# Checks first run in this process for this long, to estimate whether workers would be faster.
_TRIAL_SECONDS = 0.5
# Workers are started if more work than this remains, because starting one takes about a second.
_WORTHWHILE_SECONDS = 4.0
_SECONDS_BETWEEN_CACHE_WRITES = 0.1


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
    options = GradeOptions.read(
        compat=compat,
        mode=mode,
        workers=workers,
        cache=cache,
        timeout=timeout,
        judges=judges,
        most_missing=most_missing,
    )
    return run_grading(rollouts, rubric, options, columns, progress, batch)


def run_grading(
    rollouts: Any,
    rubric: Any,
    options: GradeOptions,
    columns: dict[str, str] | None = None,
    progress: Progress | bool = False,
    batch: Literal["wait", "submit"] | None = None,
) -> ScoreTable:
    """Run all five stages; `grade` explains the parameters."""
    ask_judges: Callable[..., Any] | None = None
    if batch is not None:
        from rubrank.judges.batches import check_batch_mode, judge_in_batches

        # What batches cannot do is refused before anything is graded or spent.
        check_batch_mode(batch, options.judges)
        ask_judges = partial(judge_in_batches, wait=batch == "wait")
    groups, plans = plan_groups(rollouts, rubric, columns, options)
    with ExitStack() as stack:
        report = stack.enter_context(open_progress(progress, "grading"))
        cache = None
        if options.cache is not None:
            cache = stack.enter_context(VerdictCache(options.cache))
        table = _GradeRun(groups, plans, options, cache, report).run()
    if any(plan.group_checks for plan in plans):
        table = grade_whole_groups(table, groups, plans)
    if options.most_missing is None:
        # Missing scores are easily overlooked. With a limit, too many of them raise an error below.
        for scored in table.groups:
            for row, column in np.argwhere(np.isnan(scored.scores)):
                name = scored.names[column]
                reason = scored.reasons[row][column]
                if f"{_FAILED}: " in reason and name not in _failures_logged:
                    _failures_logged.add(name)
                    _log.warning("scores of %r are missing: %s", name, reason)
    if options.judges is not None:
        from rubrank.grading.judge_table import judge_table

        criteria = [plan.rubric.criteria for plan in plans]
        with open_progress(progress, "judging") as report:
            table = judge_table(table, groups, criteria, options.judges, report, ask_judges)
    if options.most_missing is not None:
        count_missing(table).check(options.most_missing)
    return table


class _GradeRun:
    """One call of `grade`: runs the checks of all groups, and collects their scores and reasons."""

    def __init__(
        self,
        groups: Sequence[Group],
        plans: Sequence[GroupPlan],
        options: GradeOptions,
        cache: VerdictCache | None,
        progress: Progress | None,
    ) -> None:
        self._groups = groups
        self._plans = plans
        self._options = options
        self._cache = cache
        self._progress = progress
        # Of each group: (rollouts, criteria) scores and reasons. A cell that no check fills needs a judge.
        self._scores: list[np.ndarray] = []
        self._reasons: list[list[list[str]]] = []
        self._verdict_count = 0  # verdicts to make in all
        for group, plan in zip(groups, plans, strict=True):
            size = len(group.rollouts)
            self._scores.append(np.full((size, len(plan.criteria)), math.nan))
            self._reasons.append([[NEEDS_JUDGE] * len(plan.criteria) for _ in range(size)])
            self._verdict_count += size * len(plan.checks)
        self._lock = threading.Lock()  # for the attributes below, which threads change too
        self._verdicts_done = 0
        # Verdicts that are not in the cache yet, by key. They are written together, as a write takes milliseconds.
        self._unwritten: dict[bytes, PlainVerdict] = {}
        self._last_write = time.monotonic()

    def run(self) -> ScoreTable:
        """Run all checks about one rollout, and return the scores of all groups."""
        tasks = self._find_undecided()
        slow, quick = _split_tasks(tasks, lambda check: check.verifier.cost == "process")

        def run_in_thread(task: Task, check: PlannedCheck) -> None:
            self._record(task, (check,), [check.decide(task.rollout)])

        with ThreadPoolExecutor(self._options.workers or os.cpu_count() or 1) as threads:
            try:
                # Slow checks mostly wait for a subprocess, so the quick ones run at the same time in this thread.
                futures = []
                for task in slow:
                    for check in task.checks:
                        futures.append(threads.submit(run_in_thread, task, check))
                self._run_quick_checks(quick)
                for future in futures:
                    future.result()
            except BaseException:
                threads.shutdown(wait=True, cancel_futures=True)
                raise
            finally:
                # An interrupted run continues from the cache, so its last verdicts are written, too.
                self._write_to_cache()
        scored_groups = []
        for group, plan, scores, reasons in zip(
            self._groups, self._plans, self._scores, self._reasons, strict=True
        ):
            scored_groups.append(
                GroupScores(
                    group.id,
                    plan.criteria,
                    scores,
                    tuple(map(tuple, reasons)),
                    digests=tuple(rollout.digest for rollout in group.rollouts),
                )
            )
        return ScoreTable(tuple(scored_groups))

    def _find_undecided(self) -> list[Task]:
        """Record the verdicts that are in the cache, and return tasks with the checks that remain."""
        tasks = []
        for group_index, (group, plan) in enumerate(zip(self._groups, self._plans, strict=True)):
            group_tasks = []
            for row, rollout in enumerate(group.rollouts):
                group_tasks.append(Task(group_index, row, rollout, plan.checks))
            tasks += group_tasks
            if self._cache is None:
                continue
            keys_by_row = [_make_cache_keys(task) for task in group_tasks]
            cached = self._cache.get([key for keys in keys_by_row for key in keys.values()])
            for task, keys in zip(group_tasks, keys_by_row, strict=True):
                cached_checks = [check for check in task.checks if keys[check.column] in cached]
                if cached_checks:
                    verdicts = [cached[keys[check.column]] for check in cached_checks]
                    self._record(task, cached_checks, verdicts)
                    task.checks = tuple(c for c in task.checks if c not in cached_checks)
                # Set only now: `_record` writes the verdicts of tasks with keys to the cache.
                task.keys = keys
        return [task for task in tasks if task.checks]

    def _run_quick_checks(self, tasks: list[Task]) -> None:
        """Choose where checks without a subprocess run (this process or workers), and run them."""
        if self._options.workers == 0:
            self._run_in_this_process(tasks)
            return
        local, portable = _split_tasks(tasks, lambda check: check.is_local)
        worker_count = self._options.workers
        if worker_count is None:
            worker_count = os.cpu_count() or 1
            # Only workers can stop a verifier. So with a time limit, verifiers of users run there from the start. The
            # others run here first; what takes too long here is left for workers, too.
            is_limited = self._options.timeout not in (None, "auto")
            must_be_stoppable, others = _split_tasks(
                portable, lambda check: is_limited and not check.is_builtin
            )
            left_over = self._run_in_this_process(others, is_trial=worker_count > 1)
            portable = must_be_stoppable + left_over
        if portable:
            from rubrank.grading.workers import WorkerPool, make_chunks

            worker_count = min(worker_count, len(portable))
            chunks = make_chunks(portable, worker_count)
            options = self._options
            timeout = TIMEOUT if options.timeout == "auto" else options.timeout
            modules = sorted({check.verifier.home for chunk in chunks for check in chunk.checks})
            with WorkerPool(worker_count, modules, options.compat, options.mode, timeout) as pool:
                for result in pool.run(chunks):
                    # A worker that takes long reports only the verdicts it has; the rest comes in another result.
                    for task, verdicts in zip(result.chunk.tasks, result.verdicts, strict=False):
                        self._record(task, result.chunk.checks[: len(verdicts)], verdicts)
        self._run_in_this_process(local)

    def _run_in_this_process(self, tasks: list[Task], is_trial: bool = False) -> list[Task]:
        """Run checks here. is_trial: stop when workers would be faster. Returns the tasks that are left."""
        start = time.monotonic()
        for done, task in enumerate(tasks, start=1):
            verdicts = [check.decide(task.rollout) for check in task.checks]
            # Checks share the words and sentences of a text, which take many times the text's memory.
            task.rollout.forget_text()
            self._record(task, task.checks, verdicts)
            elapsed = time.monotonic() - start
            remaining_seconds = elapsed / done * (len(tasks) - done)
            is_worthwhile = elapsed > _TRIAL_SECONDS and remaining_seconds > _WORTHWHILE_SECONDS
            if is_trial and is_worthwhile:
                return tasks[done:]
        return []

    def _record(
        self, task: Task, checks: Sequence[PlannedCheck], verdicts: Sequence[PlainVerdict]
    ) -> None:
        """Record the verdicts of some checks of a task, and report progress."""
        scores = self._scores[task.group]
        reasons = self._reasons[task.group][task.row]
        with self._lock:
            for check, verdict in zip(checks, verdicts, strict=True):
                if task.keys is not None:
                    self._unwritten[task.keys[check.column]] = verdict
                value, reason = check.check_verdict(verdict)
                if value is not None:
                    scores[task.row, check.column] = value
                reasons[check.column] = reason
            self._verdicts_done += len(verdicts)
            if time.monotonic() - self._last_write > _SECONDS_BETWEEN_CACHE_WRITES:
                self._write_to_cache()
            if self._progress is not None:
                self._progress(self._verdicts_done, self._verdict_count)

    def _write_to_cache(self) -> None:
        """Write the verdicts that are not in the cache yet, if there is a cache."""
        if self._cache is not None and self._unwritten:
            self._cache.put(self._unwritten)
            self._unwritten = {}
            self._last_write = time.monotonic()


def _make_cache_keys(task: Task) -> dict[int, bytes]:
    """Return the cache key of each check of a task, by the column of the check."""
    # Most verifiers want the same of a rollout: the answer alone (`wants` is Text). So its digest is made once.
    digests: dict[type, bytes] = {}
    keys = {}
    for check in task.checks:
        wants = check.verifier.wants
        if wants not in digests:
            digests[wants] = digest_rollout(task.rollout, wants)
        keys[check.column] = make_key(check.digest, digests[wants])
    return keys


def _split_tasks(
    tasks: list[Task], belongs_first: Callable[[PlannedCheck], bool]
) -> tuple[list[Task], list[Task]]:
    """Split every task in two: the checks for which `belongs_first` holds, and the others. Empty tasks are left out."""
    first_tasks: list[Task] = []
    second_tasks: list[Task] = []
    for task in tasks:
        first = tuple(check for check in task.checks if belongs_first(check))
        second = tuple(check for check in task.checks if not belongs_first(check))
        if first:
            first_tasks.append(replace(task, checks=first))
        if second:
            second_tasks.append(replace(task, checks=second))
    return first_tasks, second_tasks


# ------------------------------------------------------------------------------------------------------ group criteria


def grade_whole_groups(
    table: ScoreTable, groups: Sequence[Group], plans: Sequence[GroupPlan]
) -> ScoreTable:
    """Return the table with the scores of criteria about a whole group (`GroupDiversity`) filled in.

    These verdicts are not cached: they change with every rollout of the group.
    """
    graded = []
    for scored, group, plan in zip(table.groups, groups, plans, strict=True):
        scores = scored.scores.copy()
        reasons = [list(row) for row in scored.reasons]
        for check in plan.group_checks:
            assert check.decide_group is not None
            for row, verdict in enumerate(check.decide_group(group)):
                value, reason = check.check_verdict(verdict)
                scores[row, check.column] = math.nan if value is None else value
                reasons[row][check.column] = reason
        graded.append(replace(scored, scores=scores, reasons=tuple(map(tuple, reasons))))
    return replace(table, groups=tuple(graded))


# ------------------------------------------------------------------------------------------------------- missing scores
#
#     missing = count_missing(table)
#     print(missing)          missing: 12 of 320 scores (3.8%): 8 × timeout after 120 s, 4 × needs a judge
#     missing.check(0.2)      raises GradingFailed if more than a fifth is missing, or everything


@dataclass(frozen=True)
class Missing:
    """How many scores were requested, how many are missing, and why."""

    asked: int
    """Scores and comparisons that were requested."""
    missing: int
    """Those that are not there."""
    reasons: Counter[str]
    """Reason, up to its first colon → how often it was given. If a verifier raised, the whole reason of its first
    failure, which names the exception and its place."""

    @property
    def share(self) -> float:
        """Missing scores ÷ requested scores."""
        return self.missing / self.asked if self.asked else 0.0

    def __str__(self) -> str:
        if not self.missing:
            return f"missing: none of {self.asked:,} scores"
        why = ", ".join(
            f"{times:,} × {reason}"
            for reason, times in self.reasons.most_common(_MOST_LISTED_REASONS)
        )
        if len(self.reasons) > _MOST_LISTED_REASONS:
            why += f", and {len(self.reasons) - _MOST_LISTED_REASONS} other reasons"
        return f"missing: {self.missing:,} of {self.asked:,} scores ({self.share:.1%}): {why}"

    def check(self, most: float) -> None:
        """Raise GradingFailed if more than this share of the scores is missing, or if all are."""
        if self.missing and (self.missing == self.asked or self.share > most):
            raise GradingFailed(
                self.missing,
                self.asked,
                most,
                tuple(self.reasons.most_common(_MOST_LISTED_REASONS)),
            )


def check_share(most: float) -> None:
    """Raise InvalidInput if this is not a number from 0 to 1."""
    is_number = isinstance(most, int | float) and not isinstance(most, bool)
    if not is_number or math.isnan(most) or not 0.0 <= most <= 1.0:
        raise InvalidInput(
            "grade",
            "most_missing",
            allowed="a share from 0 to 1",
            got=repr(most),
            remedy="0.2 is a fifth.",
        )


def count_missing(table: ScoreTable) -> Missing:
    """Count the cells that should have a score or a comparison, those that have neither, and the reasons.

    Two kinds of cells have no score and are not missing. Those of a rollout that a hard gate has stopped do not count
    at all: no judge was asked. Those of responses that a judge compared count as requested: the comparison is there.
    """
    reasons: Counter[str] = Counter()
    first_failure: dict[str, str] = {}
    expected = 0
    for group in table.groups:
        expected += group.scores.size - int(group.not_asked.sum())
        for row, column in np.argwhere(group.missing):
            reason = group.reasons[row][column] if group.reasons else ""
            kind = shorten(reason.partition(":")[0], 80)
            if kind.endswith(_FAILED):
                # Most rollouts fail in the same way, and the exception says what to repair.
                kind = first_failure.setdefault(kind, shorten(reason, 300))
            reasons[kind or "no reason given"] += 1
    return Missing(expected, reasons.total(), reasons)
