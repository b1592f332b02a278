"""Worker processes that run verifiers, so that several processors are used and no verifier can stop a run.

    with WorkerPool(2, modules=["my_verifiers"], timeout=60) as pool:
        for result in pool.run(chunks):
            result.chunk.tasks, result.verdicts

A chunk (some rollouts, and the checks to run on each) is sent to a worker. It ends in one of four ways:

    finished       the worker returns the verdicts of all rollouts
    takes long     after two seconds the worker returns the verdicts it has; the rest becomes a new chunk
    worker dies    every check of the chunk is tried again in a chunk of its own (`Chunk.split`), to find the check that
                   kills its worker
    dies again     a check that was alone in its chunk gets a missing verdict with the reason

A check that takes longer than `timeout` seconds is interrupted by a signal in the worker, which then goes on with the
next check. A check that does not react to the signal (a native library that does not return) is killed together with
its worker, which counts as "worker dies".

Workers import the modules that register the verifiers; they never run the caller's script. They are reused by the next
call, because starting one takes longer than grading a few hundred rollouts. They are replaced if the verifiers, the
environment, the current folder or `sys.path` have changed, and they end with the caller.
"""

from __future__ import annotations

import importlib
import os
import pickle
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

from pebble import ProcessExpired, ProcessPool

from rubrank.errors import InvalidInput
from rubrank.grading.plan import PlannedCheck, Task
from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.shared.worker import WorkerContext, restore_environment
from rubrank.verifiers.verifier import VERIFIERS, Compat, Mode, PlainVerdict, find_verifier

CHUNK_ROLLOUTS = 64
"""Rollouts sent to a worker at once, at most."""
CHUNK_CHARACTERS = 1 << 20
"""Characters of responses sent to a worker at once, approximately."""
_CHUNKS_PER_WORKER = 4  # at least, so that no worker waits long for the slowest
# A worker returns the verdicts it has after this time, so that a killed run loses little.
_REPORT_SECONDS = 2.0
# Seconds beyond the time limit before a worker is killed. They allow for imports, and for a signal that comes late.
_GRACE_SECONDS = 30.0
_MOST_RESTARTS = 3  # restarts of a pool whose workers do not start


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some rollouts, and the checks to run on each of them."""

    tasks: tuple[Task, ...]
    checks: tuple[PlannedCheck, ...]
    is_suspect: bool = False
    """True for a chunk of one check and one rollout, made by `split` from a chunk whose worker died."""

    def split(self) -> list[Chunk]:
        """Return one chunk for every check of every rollout, to find the check that kills its worker."""
        chunks = []
        for task in self.tasks:
            for check in self.checks:
                chunks.append(Chunk((task,), (check,), is_suspect=True))
        return chunks

    def list_remaining(self, verdicts: Sequence[Sequence[PlainVerdict]]) -> list[Chunk]:
        """Return chunks with the checks that have no verdict yet; an empty list if the chunk is finished.

        verdicts: a list for each rollout that was begun. The last list is shorter than the others if the worker stopped
        in the middle of a rollout.
        """
        remaining = []
        begun = len(verdicts)
        if verdicts and len(verdicts[-1]) < len(self.checks):
            interrupted_task = self.tasks[begun - 1]
            remaining_checks = self.checks[len(verdicts[-1]) :]
            remaining.append(Chunk((interrupted_task,), remaining_checks))
        if begun < len(self.tasks):
            remaining.append(Chunk(self.tasks[begun:], self.checks))
        return remaining


@dataclass(frozen=True, eq=False)
class ChunkResult:
    """What a worker returned for a chunk."""

    chunk: Chunk
    verdicts: list[list[PlainVerdict]]
    """A list for each rollout, in the order of the checks; incomplete if the chunk took long."""


def make_chunks(tasks: Sequence[Task], workers: int) -> list[Chunk]:
    """Divide tasks into chunks: consecutive tasks with the same checks, neither too many nor too long."""
    most_tasks = min(CHUNK_ROLLOUTS, max(1, len(tasks) // (_CHUNKS_PER_WORKER * workers)))
    chunks: list[Chunk] = []
    batch: list[Task] = []
    characters = 0
    for task in tasks:
        is_full = len(batch) == most_tasks or characters > CHUNK_CHARACTERS
        if batch and (is_full or task.checks != batch[0].checks):
            chunks.append(Chunk(tuple(batch), batch[0].checks))
            batch = []
            characters = 0
        batch.append(task)
        characters += len(task.rollout.response)
    if batch:
        chunks.append(Chunk(tuple(batch), batch[0].checks))
    return chunks


# ------------------------------------------------------------------------------------------------------------- caller


class WorkerPool:
    """The worker processes for one call of `grade`.

    number: of worker processes. modules: those that register the verifiers. timeout: seconds for one check; None: no
    limit.
    """

    def __init__(
        self,
        number: int,
        modules: Sequence[str],
        compat: Compat = "fixed",
        mode: Mode = "strict",
        timeout: float | None = None,
    ) -> None:
        self._number = number
        self._modules = tuple(modules)
        self._compat = compat
        self._mode = mode
        self._timeout = timeout
        # Everything in this process that the verdicts of a worker may depend on; workers are reused if it is equal. The
        # verifiers' functions are part of it: a function equals only itself, and a reloaded module has new ones.
        verifiers = VERIFIERS.copy().values()  # a copy, because another thread may register one
        functions = [verifier.function for verifier in verifiers if verifier.home in modules]
        self._surroundings = (
            number,
            self._modules,
            list(sys.path),
            os.getcwd(),
            dict(os.environ),
            functions,
        )
        self._pool = self._take_idle_pool() or _start_pool(number)
        self._in_flight: dict[Future[Any], Chunk] = {}
        self._restarts = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Keep the workers for the next call, unless this one was interrupted or another thread has kept its own."""
        global _idle
        with _idle_lock:
            if not self._in_flight and _idle is None:
                _idle = (self._surroundings, self._pool)
                return
        _end_pool(self._pool)

    def _take_idle_pool(self) -> ProcessPool | None:
        """Return the pool of the last call, which this call then owns; None if there is none that it can use."""
        global _idle
        with _idle_lock:
            idle = _idle
            _idle = None
        if idle is None:
            return None
        surroundings, pool = idle
        if surroundings == self._surroundings and pool.active:
            return pool
        _end_pool(pool)
        return None

    def run(self, chunks: Sequence[Chunk]) -> Iterator[ChunkResult]:
        """Yield results as they come, in any order. Every check of every chunk gets exactly one verdict.

        Raises InvalidInput if rollouts cannot be pickled, or if workers cannot be started or cannot import a module.
        """
        waiting = deque(chunks)
        while waiting or self._in_flight:
            # Two chunks for each worker, so that the next one is ready when a worker is.
            while waiting and len(self._in_flight) < 2 * self._number and self._submit(waiting[0]):
                waiting.popleft()
            # A pool that breaks never completes some of its futures, hence the timeout.
            done, _ = wait(self._in_flight, timeout=1.0, return_when=FIRST_COMPLETED)
            has_stopped = not done and not self._pool.active
            for future in done:
                error = future.exception()
                if isinstance(error, BrokenProcessPool):
                    has_stopped = True
                    continue
                if error is not None and not isinstance(error, TimeoutError | ProcessExpired):
                    raise error  # `run_chunk` could not import a module
                chunk = self._in_flight.pop(future)
                if error is None:
                    verdicts = future.result()
                    waiting.extendleft(chunk.list_remaining(verdicts))
                    yield ChunkResult(chunk, verdicts)
                    continue
                # The worker is dead: a check ended it, or pebble killed it because a check did not react to the signal.
                if _is_to_blame(chunk, error):
                    yield ChunkResult(chunk, [[(None, self._explain_death(chunk, error))]])
                else:
                    waiting.extendleft(chunk.split())
            if has_stopped:
                # Workers died while they were idle, or do not start; no check is to blame. A new pool gets the chunks.
                self._restarts += 1
                if self._restarts > _MOST_RESTARTS:
                    raise InvalidInput(
                        "grade",
                        "workers",
                        allowed="0 if no worker processes can be started",
                        got="workers that die at once",
                        remedy="Use workers=0.",
                    )
                waiting.extendleft(self._in_flight.values())
                self._in_flight.clear()
                _end_pool(self._pool)
                self._pool = _start_pool(self._number)

    def _explain_death(self, chunk: Chunk, error: BaseException) -> str:
        """Return why the only check of a chunk, which is to blame for its worker's death, has no verdict."""
        verifier = chunk.checks[0].verifier.name
        if isinstance(error, ProcessExpired):
            code = error.exitcode
            cause = f"signal {-code}" if code < 0 else f"exit code {code}"
            return f"{verifier} failed: it ended its worker process twice ({cause})"
        return f"{verifier} took longer than {self._timeout:g} s"

    def _submit(self, chunk: Chunk) -> bool:
        """Send a chunk to the pool. Returns False if the pool has stopped."""
        checks = [(check.verifier.name, check.params) for check in chunk.checks]
        arguments = {
            "pickled_rollouts": _pickle([task.rollout for task in chunk.tasks]),
            "pickled_checks": _pickle(checks),
            "modules": self._modules,
            "compat": self._compat,
            "mode": self._mode,
            "timeout": self._timeout,
        }
        kill_after = None
        if self._timeout is not None:
            kill_after = self._timeout + _REPORT_SECONDS + _GRACE_SECONDS
        try:
            future = self._pool.schedule(run_chunk, kwargs=arguments, timeout=kill_after)
        except RuntimeError:  # pebble: "The Pool is not active"
            return False
        self._in_flight[future] = chunk
        return True


def _is_to_blame(chunk: Chunk, error: BaseException) -> bool:
    """Is it clear that the only check of a chunk ended its worker? If not, its checks are tried again, one by one."""
    if isinstance(error, ProcessExpired):
        # Something else may have killed the worker the first time, even if the chunk had a single check.
        return chunk.is_suspect
    return len(chunk.tasks) * len(chunk.checks) == 1  # it was killed because a check did not end


def _pickle(data: Any) -> bytes:
    """Pickle the arguments of a chunk here instead of in pebble, so that the error can name the cause."""
    try:
        return pickle.dumps(data, protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidInput(
            "grade",
            "rollouts",
            allowed="picklable, so that they can be sent to worker processes",
            got=str(error),
            remedy="Remove what cannot be pickled from their metadata, or use workers=0.",
        ) from None


# ------------------------------------------------------------------------------------------------------ reused workers


# The pool of the last call, which waits for the next one, and `WorkerPool._surroundings` of it; None during a call.
_idle: tuple[tuple[Any, ...], ProcessPool] | None = None
_idle_lock = threading.Lock()


def _start_pool(number: int) -> ProcessPool:
    return ProcessPool(number, initializer=_prepare_worker, context=WorkerContext())


def _end_pool(pool: ProcessPool) -> None:
    pool.stop()
    pool.join()


def _forget_pool() -> None:
    """Forget the idle pool in a forked child, because the workers belong to the parent."""
    global _idle, _idle_lock
    _idle = None
    _idle_lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget_pool)


# --------------------------------------------------------------------------------------------------------- the worker


class _CheckTimeout(BaseException):
    """A check has taken too long. Not an Exception, so that `except Exception` in a verifier does not catch it."""


class _Watch:
    """Interrupts a check that takes too long, and ends the worker if its caller is gone.

    A timer interrupts the main thread at regular intervals, and time is counted in intervals. So the time during which
    the process was stopped, or the computer slept, does not count against a verifier.
    """

    def __init__(self) -> None:
        self._caller_pid = os.getppid()
        self._interval = 0.0
        self._timeout: float | None = None
        self.elapsed = 0.0
        """Seconds that the current check has taken, counted in intervals."""
        self.is_checking = False
        """False between two checks, when there is nothing to interrupt."""

    def start(self, timeout: float | None) -> None:
        """Start the timer, and set the limit of the next checks in seconds; None: no limit."""
        # Without a limit the timer still runs, to notice that the caller is gone.
        interval = 1.0 if timeout is None else min(1.0, timeout / 20)
        self._timeout = timeout
        if interval != self._interval:
            self._interval = interval
            signal.signal(signal.SIGALRM, self._on_timer)
            signal.setitimer(signal.ITIMER_REAL, interval, interval)

    def _on_timer(self, *_: object) -> None:
        """Count the interval that has passed; Python calls this in the main thread."""
        # A process whose parent has ended gets another parent.
        if os.getppid() != self._caller_pid:
            os._exit(1)
        self.elapsed += self._interval
        if self.is_checking and self._timeout is not None and self.elapsed > self._timeout:
            # If the verifier catches this, it is interrupted again after the same time.
            self.elapsed = 0.0
            raise _CheckTimeout


_watch: _Watch | None = None
"""The watch of this process; None if it is not a worker."""


def _prepare_worker() -> None:
    """Prepare a new worker process; pebble calls this before the first chunk."""
    global _watch
    restore_environment()
    # What verifiers print goes to standard error, not into the output of a command.
    os.dup2(2, 1)
    _watch = _Watch()


def run_chunk(
    pickled_rollouts: bytes,
    pickled_checks: bytes,
    modules: tuple[str, ...],
    compat: Compat,
    mode: Mode,
    timeout: float | None,
) -> list[list[PlainVerdict]]:
    """Run the checks of a chunk; called in the worker.

    Returns a list of verdicts for each rollout. After `_REPORT_SECONDS` the verdicts so far are returned, and the last
    list may be incomplete. Raises InvalidInput if a module cannot be imported.
    """
    assert _watch is not None
    _watch.start(timeout)
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:
            raise InvalidInput(
                "grade",
                "workers",
                allowed="0 if other processes cannot import the verifiers",
                got=f"module {module!r}: {type(error).__name__}: {error}",
                remedy="Put the verifiers into a module that can be imported, or use workers=0.",
            ) from None
    bound_checks = _bind_checks(pickled_checks, compat, mode)
    rollouts: list[Rollout] = pickle.loads(pickled_rollouts)
    report_at = time.monotonic() + _REPORT_SECONDS
    verdicts: list[list[PlainVerdict]] = []
    for rollout in rollouts:
        row: list[PlainVerdict] = []
        verdicts.append(row)
        for name, decide in bound_checks:
            _watch.elapsed = 0.0
            _watch.is_checking = True
            try:
                verdict = decide(rollout)
            except _CheckTimeout:
                verdict = (None, f"{name} took longer than {timeout:g} s")
            finally:
                _watch.is_checking = False
            row.append(verdict)
            if time.monotonic() > report_at:
                return verdicts
    return verdicts


# Most chunks have the same checks. The key of the cache is their pickled form, because parameters cannot be hashed.
@lru_cache(maxsize=256)
def _bind_checks(
    pickled_checks: bytes, compat: Compat, mode: Mode
) -> list[tuple[str, Callable[[Rollout], PlainVerdict]]]:
    """Return (name of the verifier, function that gives the verdict of a rollout) for each check."""
    bound = []
    for name, params in pickle.loads(pickled_checks):
        verifier = find_verifier(name)
        bound.append((name, verifier.bind(verifier.check_parameters(params), compat, mode)))
    return bound
