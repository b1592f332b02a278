"""Rubric × rollouts → score table.

    table = rubrank.grade("rollouts.jsonl", "rubric.yaml", cache="verdicts.sqlite")

Every criterion of every rollout is decided once: from the cache if it holds the verdict, in worker processes if there
is enough to do, else here. A rollout's text is cut into words and sentences once for all its criteria. What cannot be
decided is NaN with a reason; nothing that goes wrong in one verifier stops the others.
"""

from __future__ import annotations

import math
import os
import queue
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, takewhile
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from rubrank.errors import only_our_errors
from rubrank.grading.batches import Decided
from rubrank.grading.cache import VerdictCache, key, seen_digest
from rubrank.grading.missing import missing_of
from rubrank.grading.options import GradeOptions, Timeout, loaded_judges
from rubrank.grading.plan import GroupPlan, PlannedCheck, not_allowed, planned
from rubrank.grading.progress import Bar
from rubrank.grading.serving import Pace
from rubrank.grading.tasks import Task, different_checks, divided, messages
from rubrank.grading.workers import Workers
from rubrank.judges.judge import JUDGED, Judges
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.rubrics.rubric import Rubric
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.verifiers.verifier import Compat, Found, Mode, Verdict

Progress: TypeAlias = Callable[[int, int], None]
"""Called with how many verdicts are done, and how many there are."""

TIMEOUT = 60.0
"""Seconds that a verdict may take in a worker process, if nothing else is said."""

_TRIAL = 0.5  # seconds of grading here before it is known whether workers would pay
_WORTH = 4.0  # seconds of work left from which they do: starting one takes about a second
_FLUSH = 0.1  # seconds between writes to the cache


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

    rollouts: groups, rollouts, rows, a table, or a file; see `rubrank.rollouts.reading`.
    rubric: what every query is asked: a rubric, a file, a preset. A query's own rubric is added to it, and replaces
        what has the same name. Without one here, each query needs its own.
    compat: "fixed" (what the instruction says) or "upstream" (the public checker's verdict).
    mode: "strict", or "loose": the best of the usual eight variants of an answer.
    workers: processes; None: as many as there are processors if that saves time; 0: none.
    cache: a file in which verdicts are kept; a killed run continues from there.
    columns: names of columns that are not the usual ones, such as {"response": "model_output"}.
    progress: True for a bar, or a function (done, total).
    timeout: seconds that a verdict may take; longer, and it is missing. A function can be stopped only together with
        its process: "auto" is 60 in worker processes and none here; a number makes verifiers of your own modules run
        in workers from the start, so that it holds; None is none.
    judges: decide what no verifier can: a file, a mapping, a `Judge` or `Judges` (docs/judges.md). They are asked
        last, and not about rollouts that a hard gate has stopped.
    most_missing: share of the scores that may be missing; with more, or with all of them, `GradingFailed` is raised.
        Below 1, a rubric that needs a judge is refused at once where there is none. None: no limit.
    batch: ask judges through the batch API of their endpoints, at a lower price and with an answer within a day: "wait"
        for it, or "submit" and raise `BatchesPending` while batches are pending; the same call continues from there.
    """
    options = GradeOptions(compat, mode, workers, cache, timeout, loaded_judges(judges), most_missing)
    return _graded(rollouts, rubric, columns, options, progress, batch)[0]


def grade_and_measure(
    groups: Sequence[Group],
    rubric: Any,
    measure: str | None,
    judges: Judges | None,
    workers: int | None,
    cache: str | Path | None,
) -> tuple[ScoreTable, MeasuredRows]:
    """The scores, and what was measured by the workers on the way, of rollouts whose texts they had anyway.

    measure: module:function, from rollouts to an array with a row for each, which other processes can import.
    """
    options = GradeOptions(workers=workers, cache=cache, judges=judges)
    table, run = _graded(groups, rubric, None, options, measure=measure)
    return table, run.measured()


@dataclass(frozen=True, eq=False)
class MeasuredRows:
    """Numbers of rollouts, counted over all groups, and a row for each; those that are not there are not measured."""

    numbers: np.ndarray
    rows: np.ndarray | None


def _graded(
    rollouts: Any,
    rubric: Any,
    columns: dict[str, str] | None,
    options: GradeOptions,
    progress: Progress | bool = False,
    batch: Literal["wait", "submit"] | None = None,
    measure: str | None = None,
) -> tuple[ScoreTable, _Run]:
    asked = options.judges
    how = None if batch is None else _in_batches(batch, asked)
    groups, plans = planned(rollouts, rubric, columns, options)
    with ExitStack() as stack:
        bar = stack.enter_context(Bar("grading")) if progress is True else progress or None
        store = None if options.cache is None else stack.enter_context(VerdictCache(options.cache))
        run = _Run(groups, plans, options, store, bar)
        run.measure = measure
        run.grade(options.workers)
    table = run.table()
    if asked is not None:
        from rubrank.grading.judged import judged_table

        with Bar("judging") if progress is True else nullcontext(progress or None) as bar:
            table = judged_table(table, groups, [plan.asked for plan in plans], asked, bar, how)
    if options.most_missing is not None:
        missing_of(table).check(options.most_missing)
    return table, run


def _in_batches(batch: str, judges: Judges | None) -> Callable[..., Any]:
    """How judges are asked; what batches cannot do is refused before anything is graded or spent."""
    from rubrank.judges.batches.run import check_batch_mode, judge_in_batches

    check_batch_mode(batch, judges)
    return partial(judge_in_batches, wait=batch == "wait")


# ------------------------------------------------------------------------------------------------------------------ run


class _Run:
    """The state of one call: scores and reasons as they come."""

    def __init__(
        self,
        groups: Sequence[Group],
        plans: Sequence[GroupPlan],
        options: GradeOptions,
        cache: VerdictCache | None,
        progress: Progress | None,
    ) -> None:
        self.groups, self.plans, self.options = groups, plans, options
        self._cache, self._progress = cache, progress
        shapes = [(len(group.rollouts), len(plan.criteria)) for group, plan in zip(groups, plans, strict=True)]
        # Rows are made when something is known: of a million rollouts, empty ones would be most of the objects here.
        self._scores: list[list[Any]] = [[None] * G for G, _ in shapes]
        self._reasons: list[list[Any]] = [[None] * G for G, _ in shapes]
        checks = [len(plan.checks) + len(plan.group_checks) for plan in plans]
        self._total = sum(G * number for (G, _), number in zip(shapes, checks, strict=True))
        self._done = 0
        self._measured: list[tuple[tuple[Task, ...], np.ndarray]] = []
        self._unwritten: dict[bytes, Found] = {}
        self._written = time.monotonic()

    def table(self) -> ScoreTable:
        """What was found; the lists that it was found in are given up on the way."""
        groups = []
        for g, (group, plan) in enumerate(zip(self.groups, self.plans, strict=True)):
            scores = [self._row(self._scores, g, i, math.nan) for i in range(len(group.rollouts))]
            reasons = tuple(tuple(self._row(self._reasons, g, i, JUDGED)) for i in range(len(group.rollouts)))
            groups.append(GroupScores(group.id, plan.criteria, _matrix(scores, plan), reasons))
            self._scores[g] = self._reasons[g] = []
        return ScoreTable(tuple(groups))

    def _row(self, table: list[list[Any]], g: int, i: int, empty: Any) -> Any:
        """Scores or reasons of a rollout; as if there were some."""
        if table[g][i] is None:
            table[g][i] = [empty] * len(self.plans[g].criteria)
        return table[g][i]

    def grade(self, workers: int | None) -> None:
        """Everything; what waits for subprocesses goes on in threads meanwhile."""
        tasks = list(self._undecided())
        slow, quick = divided(tasks, lambda check: check.is_slow)
        results: queue.SimpleQueue[Any] = queue.SimpleQueue()
        waiting = [(task, i) for task in slow for i in range(len(task.checks))]
        with ThreadPoolExecutor(max_workers=max(1, workers or os.cpu_count() or 1)) as pool:
            for task, i in waiting:
                pool.submit(self._into, results, task, i)
            try:
                self._grade_quick(quick, workers, results)
                for _ in range(len(waiting) - self._drained):
                    self._record_next(results)
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
            finally:
                self._flush()
        self._grade_groups()

    def _grade_groups(self) -> None:
        """What is decided about all rollouts of a query together; quick, and not kept in the cache."""
        for g, (group, plan) in enumerate(zip(self.groups, self.plans, strict=True)):
            for check in plan.group_checks:
                assert check.decide_group is not None
                for i, found in enumerate(check.decide_group(group)):
                    self._record(Task(g, i, group.rollouts[i], (check,), None), (0,), [found])

    _drained = 0
    measure: str | None = None

    def _into(self, results: queue.SimpleQueue[Any], task: Task, i: int) -> None:
        try:
            results.put((task, (i,), [task.checks[i].decide(task.rollout)]))
        except BaseException as error:  # else it would be waited for without end
            results.put(error)

    def _drain(self, results: queue.SimpleQueue[Any]) -> None:
        while not results.empty():
            self._record_next(results)
            self._drained += 1

    def _record_next(self, results: queue.SimpleQueue[Any]) -> None:
        found = results.get()
        if isinstance(found, BaseException):
            raise found
        self._record(*found)

    # ------------------------------------------------------------------------------------------------ cheap verifiers

    def _grade_quick(self, tasks: list[Task], workers: int | None, results: queue.SimpleQueue[Any]) -> None:
        here, elsewhere = (tasks, []) if workers == 0 else divided(tasks, lambda check: check.is_local)
        number = os.cpu_count() or 1 if workers is None else workers
        if workers is None:
            held = self.options.timeout not in (None, "auto")  # a limit that was asked for holds in workers only
            theirs, ours = divided(elsewhere, lambda check: held and not check.is_ours)
            elsewhere = theirs + self._grade_here(ours, results, while_short=number > 1)
        if elsewhere:
            self._grade_elsewhere(elsewhere, number, results)
        self._grade_here(here, results)

    def _grade_here(self, tasks: list[Task], results: queue.SimpleQueue[Any], while_short: bool = False) -> list[Task]:
        """Grade in this process; with `while_short`, stop when workers would pay, and give back what is left."""
        start, pace, done = time.monotonic(), Pace(), 0
        while done < len(tasks):
            checks = tasks[done].checks
            some = [*takewhile(lambda task: task.checks == checks, tasks[done : done + pace.size])]  # noqa: B023
            pace.begin()
            self._decide(some, checks)
            self._drain(results)
            done, taken = done + len(some), time.monotonic() - start
            pace.end()
            if while_short and taken > _TRIAL and taken / done * (len(tasks) - done) > _WORTH:
                return tasks[done:]
        return []

    def _decide(self, tasks: list[Task], checks: tuple[PlannedCheck, ...]) -> None:
        """Make the same checks on some rollouts, check by check: a processor does the same thing again faster."""
        rollouts = [task.rollout for task in tasks]
        self._take(Decided(tuple(tasks), range(len(checks)), [[*map(check.decide, rollouts)] for check in checks]))
        for rollout in rollouts:
            rollout.__dict__.pop("text", None)  # its words and sentences are many times its size

    def _grade_elsewhere(self, tasks: list[Task], number: int, results: queue.SimpleQueue[Any]) -> None:
        modules = {check.verifier.home for checks in different_checks(tasks) for check in checks}
        timeout = TIMEOUT if self.options.timeout == "auto" else self.options.timeout
        with Workers(min(number, len(tasks)), sorted(modules), self.options.compat, self.options.mode, timeout) as pool:
            for found in pool.run(messages(tasks, number, self.measure)):
                self._take(found)
                if found.measured is not None:
                    self._measured.append((found.items, found.measured))
                self._drain(results)

    def _take(self, found: Decided) -> None:
        """Verdicts about tasks that have the same checks."""
        first = found.items[0]
        whole = len(found.numbers) == len(first.checks) and self.plans[first.group].is_whole(first.checks)
        if whole and self._cache is None:
            self._enter(found.items, found.columns)
            return
        for task, verdicts in zip(found.items, zip(*found.columns, strict=True), strict=True):
            self._record(task, found.numbers, verdicts)

    def measured(self) -> MeasuredRows:
        """What workers have measured."""
        starts = [0, *accumulate(len(group.rollouts) for group in self.groups)]
        numbers = [starts[task.group] + task.number for tasks, _ in self._measured for task in tasks]
        rows = np.concatenate([rows for _, rows in self._measured]) if numbers else None
        return MeasuredRows(np.array(numbers, dtype=np.int64), rows)

    # ---------------------------------------------------------------------------------------------- cache and results

    def _undecided(self) -> Iterator[Task]:
        """What the cache does not know."""
        for g, (group, plan) in enumerate(zip(self.groups, self.plans, strict=True)):
            tasks = [self._task(g, i, rollout, plan) for i, rollout in enumerate(group.rollouts)]
            if self._cache is not None:
                known = self._cache.get([k for task in tasks for k in task.keys or ()])
                tasks = [self._without_known(task, known) for task in tasks]
            yield from (task for task in tasks if task.checks)

    def _task(self, g: int, i: int, rollout: Rollout, plan: GroupPlan) -> Task:
        if self._cache is None:
            return Task(g, i, rollout, plan.checks, None)
        seen = {wants: seen_digest(rollout, wants) for wants in {check.verifier.wants for check in plan.checks}}
        keys = tuple(key(check.digest, seen[check.verifier.wants]) for check in plan.checks)
        return Task(g, i, rollout, plan.checks, keys)

    def _without_known(self, task: Task, known: dict[bytes, Verdict]) -> Task:
        assert task.keys is not None
        places = {id(check): k for check, k in zip(task.checks, task.keys, strict=True)}
        found = [i for i, k in enumerate(task.keys) if k in known]
        verdicts = [known[task.keys[i]] for i in found]
        self._record(task, found, [(verdict.value, verdict.reason) for verdict in verdicts], keep=False)
        return task.only(lambda check: places[id(check)] not in known)

    def _record(self, task: Task, places: Iterable[int], found: Sequence[Found], keep: bool = True) -> None:
        scores = self._row(self._scores, task.group, task.number, math.nan)
        reasons = self._row(self._reasons, task.group, task.number, JUDGED)
        checks, keys = task.checks, task.keys if keep else None
        for i, (value, reason) in zip(places, found, strict=True):
            check = checks[i]
            if keys is not None:
                self._unwritten[keys[i]] = (value, reason)
            if value is not None:
                if check.domain is check.verifier.domain or check.domain.holds(value):
                    scores[check.column] = value
                else:
                    reason = not_allowed(check.verifier, value)
            reasons[check.column] = reason
        self._done += len(found)
        if self._unwritten and time.monotonic() - self._written > _FLUSH:
            self._flush()
        if self._progress is not None:
            self._progress(self._done, self._total)

    def _enter(self, tasks: Sequence[Task], found: Sequence[Sequence[Found]]) -> None:
        """The same as `_record` where nothing is kept, every criterion is decided and every value is allowed."""
        values = zip(*([value for value, _ in verdicts] for verdicts in found), strict=True)
        reasons = zip(*([reason for _, reason in verdicts] for verdicts in found), strict=True)
        for task, row, why in zip(tasks, values, reasons, strict=True):
            self._scores[task.group][task.number] = row
            self._reasons[task.group][task.number] = why
        self._done += len(found) * len(tasks)
        if self._progress is not None:
            self._progress(self._done, self._total)

    def _flush(self) -> None:
        if self._cache is not None and self._unwritten:
            self._cache.put({key: Verdict(*found) for key, found in self._unwritten.items()})
            self._unwritten = {}
            self._written = time.monotonic()


def _matrix(scores: list[Any], plan: GroupPlan) -> np.ndarray:
    return np.array(scores, dtype=float).reshape(len(scores), len(plan.criteria))
