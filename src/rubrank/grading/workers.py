"""Processes that run verifiers: one fresh interpreter each, fed with rollouts, replaced when it dies.

    with Workers(2, modules=["my_verifiers"], timeout=60) as workers:
        for job, numbers, verdicts in workers.run(jobs): ...

A worker imports the modules that register the verifiers; it never runs the caller's main module, so scripts need no
`if __name__ == "__main__"`, and notebooks work. A job is one rollout with some checks. When a worker dies (a crash in
native code, out of memory) its job is tried once more, check by check; what kills a worker again is missing, with the
reason, and the rest goes on. A worker counts the checks that it begins where both processes see the count: one that has
been at the same check for longer than `timeout` seconds is killed, whatever it is doing, with the processes that it
started; that verdict is missing, and another worker takes the rest.

Workers that are well are kept for the next call (a training step, say), since starting one costs more than grading a
few hundred rollouts; they end with this process, or when the verifiers, the environment or the path they were started
with have changed.
"""

from __future__ import annotations

import atexit
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

from rubrank.errors import InvalidInput
from rubrank.grading.serving import Counter, shared_file
from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.verifier import VERIFIERS, Compat, Found, Mode

_CHUNK = 32  # jobs sent at once: enough to hide the way there and back
_LOOKS = 20  # how often within its time a worker is looked at


@dataclass(frozen=True)
class Job:
    """A rollout and the checks to make on it: (verifier, parameters). `tag` is the caller's."""

    tag: Any
    rollout: Rollout
    checks: tuple[tuple[str, dict[str, Any]], ...]
    tried: bool = False


class WorkerDied(Exception):  # noqa: N818 - says what happened
    """It gave no reply; the message says how it ended."""


class _Worker:
    def __init__(self, modules: Sequence[str], compat: Compat, mode: Mode) -> None:
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        shared = shared_file()
        self._counter = Counter(shared)
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from rubrank.grading.serving import serve; serve({shared})"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            pass_fds=[shared],
            process_group=0,
        )
        os.close(shared)
        self._lock = threading.Lock()
        self._sent, self._waiting, self._seen, self._idle = 0, False, -1, 0.0
        self.stuck: int | None = None
        """The check of the last message, counted from 0, that it was killed for."""
        self._send((tuple(modules), compat, mode))
        try:
            trouble = self._receive()
        except WorkerDied as death:
            trouble = str(death)
        if trouble is not None:
            self.end()
            raise InvalidInput(
                "grade",
                "workers",
                "0 where other processes cannot import the verifiers",
                trouble,
                "Put the verifiers into a module that can be imported, or use workers=0.",
            )

    def run(self, jobs: Sequence[Job]) -> Iterator[list[Found]]:
        """The verdicts of the jobs in their order, some at a time, never of two jobs; `WorkerDied` if it dies."""
        with self._lock:
            self._sent, self._seen, self._waiting, self.stuck = self._counter.value, -1, True, None
        self._send([(job.rollout, job.checks) for job in jobs])
        left = sum(len(job.checks) for job in jobs)
        while left:
            found = self._receive()
            left -= len(found)
            self._waiting = left > 0
            yield found

    def look(self, after: float, timeout: float) -> None:
        """Kill it if it has been at one check for too long; `after` seconds since the last look."""
        with self._lock:
            begun = self._counter.value
            # Time is counted in looks: that a run was stopped for a while, or a laptop slept, is no verdict's fault.
            self._idle = self._idle + after if self._waiting and begun == self._seen else 0.0
            self._seen = begun
            if self._idle > timeout and self.stuck is None:
                self.stuck = max(0, begun - self._sent - 1)
                self.kill()

    def _send(self, data: Any) -> None:
        assert self._process.stdin is not None
        try:
            message = pickle.dumps(data, protocol=pickle.HIGHEST_PROTOCOL)
        except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as error:
            raise InvalidInput(
                "grade",
                "rollouts",
                "such that they can be sent to other processes",
                str(error),
                "Take what cannot be pickled out of their metadata, or use workers=0.",
            ) from None
        try:
            self._process.stdin.write(message)
            self._process.stdin.flush()
        except OSError:
            pass  # it died; the reply that does not come says so

    def _receive(self) -> Any:
        assert self._process.stdout is not None
        try:
            return pickle.load(self._process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            code = self._process.wait()
            raise WorkerDied(f"signal {-code}" if code < 0 else f"exit code {code}") from None

    def kill(self) -> None:
        """End it and what it started, from any thread; a caller that waits for a reply sees its death."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError, PermissionError):  # it ended just now
                os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> None:
        self.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except OSError:  # what was not sent yet
                pass


class _Idle:
    """Workers that wait for the next call, all of one kind: what they have imported, and where."""

    def __init__(self) -> None:
        self._kind: Hashable = None
        self._workers: list[_Worker] = []
        self._lock = threading.Lock()

    def take(self, kind: Hashable) -> _Worker | None:
        with self._lock:
            if kind == self._kind:
                return self._workers.pop() if self._workers else None
            others, self._workers, self._kind = self._workers, [], kind
        for worker in others:
            worker.end()
        return None

    def give_back(self, worker: _Worker, kind: Hashable) -> None:
        with self._lock:
            if kind == self._kind and len(self._workers) < (os.cpu_count() or 1):
                self._workers.append(worker)
                return
        worker.end()

    def end(self) -> None:
        self.take(object())

    def forget(self) -> None:
        """In a forked child: the processes are the parent's."""
        self._inherited = self._workers  # kept, so that no destructor touches them
        self._workers, self._kind, self._lock = [], None, threading.Lock()


_IDLE = _Idle()
atexit.register(_IDLE.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_IDLE.forget)


def _kind(start: tuple[tuple[str, ...], Compat, Mode]) -> Hashable:
    """All that a worker's verdicts may depend on beside the rollouts."""
    versions = frozenset((v.name, v.version) for v in VERIFIERS.values() if v.home in start[0])
    return start, versions, tuple(sys.path), os.getcwd(), frozenset(os.environ.items())


class Workers:
    """A number of workers, each served by a thread; results come in any order."""

    def __init__(
        self,
        number: int,
        modules: Sequence[str],
        compat: Compat = "fixed",
        mode: Mode = "strict",
        timeout: float | None = None,
    ) -> None:
        self._start, self._timeout = (tuple(modules), compat, mode), timeout
        self._kind = _kind(self._start)
        self._number = number
        self._jobs: queue.Queue[list[Job] | None] = queue.Queue(2 * number)
        self._results: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._alive: set[_Worker] = set()
        self._left = 0
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(number)]
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._look_after, daemon=True)

    def __enter__(self) -> Self:
        for thread in (*self._threads, *([self._watch] if self._timeout is not None else [])):
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._left:  # not all was wanted: what they are at now must not be taken for the next call's
            self._stopped.set()
            for worker in list(self._alive):
                worker.kill()
        while True:  # a full queue would keep the sentinels out
            try:
                self._jobs.get_nowait()
            except queue.Empty:
                break
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
        self._over.set()
        if self._timeout is not None:
            self._watch.join()

    def _look_after(self) -> None:
        """One thread for all workers: a stuck one is killed."""
        assert self._timeout is not None
        step = min(1.0, self._timeout / _LOOKS)
        while not self._over.wait(step):
            for worker in list(self._alive):
                worker.look(step, self._timeout)

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, tuple[int, ...], list[Found]]]:
        """(job, numbers of checks, their verdicts) as they come; a job that killed a worker comes in pieces."""
        chunks = deque(_chunks(list(jobs)))
        self._left = sum(len(job.checks) for chunk in chunks for job in chunk)
        while self._left:
            while chunks and not self._jobs.full():
                self._jobs.put(chunks.popleft())
            found = self._results.get()
            if isinstance(found, BaseException):
                raise found
            self._left -= len(found[1])
            yield found

    def _serve(self) -> None:
        """One thread: hand chunks to its worker, replace it when it dies."""
        worker: _Worker | None = None
        try:
            while (chunk := self._jobs.get()) is not None:
                pending = deque((job, tuple(range(len(job.checks)))) for job in chunk)
                while pending and not self._stopped.is_set():
                    if worker is None:
                        worker = _IDLE.take(self._kind) or _Worker(*self._start)
                        self._alive.add(worker)
                    worker = self._work(worker, pending)
        except BaseException as error:
            self._results.put(error)
            self._stopped.set()
        finally:
            if worker is not None and self._stopped.is_set():
                worker.end()
            elif worker is not None:
                _IDLE.give_back(worker, self._kind)

    def _work(self, worker: _Worker, pending: deque[tuple[Job, tuple[int, ...]]]) -> _Worker | None:
        """Until all is done, or the worker dies: then None, and `pending` begins with what is to be tried again."""
        replies, answered = worker.run([job for job, _ in pending]), 0
        try:
            while pending and not self._stopped.is_set():
                verdicts = next(replies)
                answered += len(verdicts)
                job, numbers = pending.popleft()
                self._results.put((job, numbers[: len(verdicts)], verdicts))
                if len(verdicts) < len(numbers):
                    rest = replace(job, checks=job.checks[len(verdicts) :])
                    pending.appendleft((rest, numbers[len(verdicts) :]))
        except WorkerDied as death:
            self._alive.discard(worker)
            worker.end()
            if worker.stuck is None:
                self._after_death(pending, str(death))
            else:
                self._after_stop(pending, worker.stuck - answered)
            return None
        return worker

    def _after_stop(self, pending: deque[tuple[Job, tuple[int, ...]]], at: int) -> None:
        """It was stuck at a check of the first job; one that was done at the last moment is not blamed."""
        job, numbers = pending[0]
        if not 0 <= at < len(numbers):
            return
        pending.popleft()
        name = job.checks[at][0]
        self._results.put((job, numbers[at : at + 1], [(None, f"{name} took longer than {self._timeout:g} s")]))
        rest = replace(job, checks=job.checks[:at] + job.checks[at + 1 :])
        if rest.checks:
            pending.appendleft((rest, numbers[:at] + numbers[at + 1 :]))

    def _after_death(self, pending: deque[tuple[Job, tuple[int, ...]]], how: str) -> None:
        job, numbers = pending.popleft()
        if job.tried:
            name = job.checks[0][0]
            self._results.put((job, numbers, [(None, f"{name} failed: it ended its worker process twice ({how})")]))
            return
        for check, number in reversed(list(zip(job.checks, numbers, strict=True))):
            pending.appendleft((replace(job, checks=(check,), tried=True), (number,)))


def _chunks(jobs: list[Job]) -> Iterator[list[Job]]:
    for start in range(0, len(jobs), _CHUNK):
        yield jobs[start : start + _CHUNK]
