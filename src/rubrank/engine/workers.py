"""Processes that run verifiers: one fresh interpreter each, fed with rollouts, replaced when it dies.

    with Workers(2, modules=["my_verifiers"]) as workers:
        for job, verdicts in workers.run(jobs): ...

A worker imports the modules that register the verifiers; it never runs the caller's main module, so scripts need no
`if __name__ == "__main__"`, and notebooks work. A job is one rollout with some checks. When a worker dies (a crash in
native code, out of memory) its job is tried once more, check by check; what kills a worker again is missing, with the
reason, and the rest goes on. Workers that are well are kept for the next call (a training step, say), since starting
one costs more than grading a few hundred rollouts; they end with this process, or when the verifiers, the environment
or the path they were started with have changed.
"""

from __future__ import annotations

import atexit
import importlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import IO, Any, Self

from rubrank.engine.binding import Found, bound
from rubrank.errors import InvalidInput
from rubrank.rollout import Rollout
from rubrank.verification import VERIFIERS, Compat, Mode, find_verifier

_CHUNK = 32  # jobs sent at once: enough to hide the way there and back


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
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from rubrank.engine.workers import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )
        self._send((tuple(modules), compat, mode))
        try:
            trouble = self._receive()
        except WorkerDied as death:
            trouble = str(death)
        if trouble is not None:
            self.end()
            raise InvalidInput(
                "grade", "workers", "0 where other processes cannot import the verifiers", trouble,
                "Put the verifiers into a module that can be imported, or use workers=0.",
            )  # fmt: skip

    def run(self, jobs: Sequence[Job]) -> Iterator[list[Found]]:
        """The verdicts of each job in turn; `WorkerDied` at the job that killed it."""
        self._send([(job.rollout, job.checks) for job in jobs])
        for _ in jobs:
            yield self._receive()

    def _send(self, data: Any) -> None:
        assert self._process.stdin is not None
        try:
            message = pickle.dumps(data, protocol=pickle.HIGHEST_PROTOCOL)
        except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as error:
            raise InvalidInput(
                "grade", "rollouts", "such that they can be sent to other processes", str(error),
                "Take what cannot be pickled out of their metadata, or use workers=0.",
            ) from None  # fmt: skip
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
        """End it from any thread; whoever waits for a reply sees its death."""
        self._process.kill()

    def end(self) -> None:
        self._process.kill()
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
    versions = frozenset((v.name, v.version) for v in VERIFIERS.values() if v.function.__module__ in start[0])
    return start, versions, tuple(sys.path), os.getcwd(), frozenset(os.environ.items())


class Workers:
    """A number of workers, each served by a thread; results come in any order."""

    def __init__(self, number: int, modules: Sequence[str], compat: Compat = "fixed", mode: Mode = "strict") -> None:
        self._start = (tuple(modules), compat, mode)
        self._kind = _kind(self._start)
        self._number = number
        self._jobs: queue.Queue[list[Job] | None] = queue.Queue(2 * number)
        self._results: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._alive: set[_Worker] = set()
        self._left = 0
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(number)]

    def __enter__(self) -> Self:
        for thread in self._threads:
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
        replies = worker.run([job for job, _ in pending])
        try:
            while pending and not self._stopped.is_set():
                verdicts = next(replies)
                job, numbers = pending.popleft()
                self._results.put((job, numbers, verdicts))
        except WorkerDied as death:
            self._alive.discard(worker)
            worker.end()
            self._after_death(pending, str(death))
            return None
        return worker

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


# ------------------------------------------------------------------------------------------------------- in the worker


def serve() -> None:
    """The worker's loop: pickles from what was stdin, replies to what was stdout; whatever prints goes to stderr."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller decides when it ends
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    try:
        modules, compat, mode = pickle.load(requests)
        trouble = _import_all(modules)
        _reply(trouble, replies)
        while trouble is None:
            message, ready = pickle.load(requests), _Ready(compat, mode)
            for rollout, checks in message:
                _reply([ready(name, params)(rollout) for name, params in checks], replies)
    except (EOFError, OSError):  # the caller is gone
        pass


def _reply(data: Any, replies: IO[bytes]) -> None:
    pickle.dump(data, replies, protocol=pickle.HIGHEST_PROTOCOL)
    replies.flush()


def _import_all(modules: Iterable[str]) -> str | None:
    """What went wrong, if something did."""
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:
            return f"module {module!r}: {type(error).__name__}: {error}"
    return None


class _Ready:
    """Checks made ready once for all rollouts of a message, in which equal parameters are one object."""

    def __init__(self, compat: Compat, mode: Mode) -> None:
        self._compat, self._mode = compat, mode
        self._ready: dict[tuple[str, int], Callable[[Rollout], Found]] = {}

    def __call__(self, name: str, params: dict[str, Any]) -> Callable[[Rollout], Found]:
        found = self._ready.get((name, id(params)))
        if found is None:
            verifier = find_verifier(name)
            found = bound(verifier, verifier.check_parameters(params), self._compat, self._mode)
            self._ready[name, id(params)] = found
        return found
