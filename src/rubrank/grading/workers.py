"""Processes that run verifiers: one fresh interpreter each, fed with rollouts, replaced when it dies.

    with Workers(2, modules=["my_verifiers"], timeout=60) as workers:
        for decided in workers.run(batches): ...

A worker imports the modules that register the verifiers; it never runs the caller's main module, so scripts need no
`if __name__ == "__main__"`, and notebooks work. It gets its rollouts through memory that both processes see, and says
there which check it begins. When a worker dies (a crash in native code, out of memory) the check that it was at is
tried once more, alone; what kills a worker again is missing, with the reason, and the rest goes on. One that has been
at the same check for longer than `timeout` seconds is killed, whatever it is doing, with the processes that it started;
that verdict is missing, and another worker takes the rest.

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
from dataclasses import replace
from itertools import islice
from typing import Any, Self

from rubrank.errors import InvalidInput
from rubrank.grading.batches import Decided, TaskBatch, Under, singly, without
from rubrank.grading.serving import WorkerReply
from rubrank.grading.shared import Shared, shared_file
from rubrank.verifiers.verifier import VERIFIERS, Compat, Mode

_LOOKS = 20  # how often within its time a worker is looked at


class WorkerDied(Exception):  # noqa: N818 - says what happened
    """It gave no reply; the message says how it ended."""


class _Worker:
    def __init__(self, modules: Sequence[str], compat: Compat, mode: Mode) -> None:
        file = shared_file()
        self._shared = Shared(file)
        caller, self._alive = os.pipe()  # nothing is written: it closes when this process ends, however that happens
        try:
            self._process = _started(file, caller)
        except BaseException:
            os.close(self._alive)
            self._shared.close()
            raise
        finally:
            os.close(caller)
        self._lock = threading.Lock()
        self._sent, self._waiting, self._seen, self._idle = 0, False, -1, 0.0
        self._stuck: int | None = None
        self._send(_packed((tuple(modules), compat, mode)))
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

    def run(self, batches: Sequence[TaskBatch]) -> Iterator[WorkerReply]:
        """The verdicts of the batches in their order, some at a time; `WorkerDied` if it dies."""
        size = self._shared.put(_packed([batch.sent for batch in batches]))
        with self._lock:
            self._sent, self._seen, self._waiting, self._stuck = self._shared.begun, -1, True, None
        self._send(pickle.dumps(size))
        left = sum(batch.size for batch in batches)
        while left:
            reply = WorkerReply.unpacked(self._receive())
            left -= len(reply.columns) * len(reply.columns[0])
            self._waiting = left > 0
            yield reply

    def look(self, after: float, timeout: float) -> None:
        """Kill it if it has been at one check for too long; `after` seconds since the last look."""
        with self._lock:
            begun = self._shared.begun
            # Time is counted in looks: that a run was stopped for a while, or a laptop slept, is no verdict's fault.
            stays = self._waiting and self._shared.is_checking and begun == self._seen
            self._idle = self._idle + after if stays else 0.0
            self._seen = begun
            if self._idle > timeout and self._stuck is None:
                self._stuck = begun
                self.kill()

    @property
    def was_stopped(self) -> bool:
        """Was it killed because it was stuck?"""
        return self._stuck is not None

    @property
    def place(self) -> tuple[int, int, int] | None:
        """Of one that is dead: where in its last message it was; None: it had begun nothing, or had gone on."""
        begun = self._shared.begun
        if begun == self._sent or (self._stuck is not None and begun != self._stuck):
            return None
        return self._shared.place

    def _send(self, message: bytes) -> None:
        assert self._process.stdin is not None
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
        alive, self._alive = self._alive, -1
        if alive >= 0:
            os.close(alive)
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except OSError:  # what was not sent yet
                pass
        self._shared.close()


def _started(file: int, caller: int) -> subprocess.Popen[bytes]:
    """An interpreter with the path of this one; -P: what lies in the folder where we stand is not put before it."""
    known = [entry for entry in sys.path if isinstance(entry, str)]  # Python passes over others, such as a Path
    path = os.pathsep.join(entry or os.getcwd() for entry in known)
    return subprocess.Popen(
        [sys.executable, "-P", "-c", f"from rubrank.grading.serving import serve; serve({file}, {caller})"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
        pass_fds=[file, caller],
        process_group=0,
    )


def _packed(data: Any) -> bytes:
    try:
        return pickle.dumps(data, protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidInput(
            "grade",
            "rollouts",
            "such that they can be sent to other processes",
            str(error),
            "Take what cannot be pickled out of their metadata, or use workers=0.",
        ) from None


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


class _Same:
    """A thing as a part of a key, equal to nothing else; it is held, so that nothing else gets its place."""

    def __init__(self, thing: object) -> None:
        self._thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other._thing is self._thing

    def __hash__(self) -> int:
        return id(self._thing)


def _kind(start: tuple[tuple[str, ...], Compat, Mode]) -> Hashable:
    """All that a worker's verdicts may depend on beside the rollouts; a module that was reloaded has new functions."""
    verifiers = frozenset(
        (v.name, v.version, _Same(v.function)) for v in VERIFIERS.copy().values() if v.home in start[0]
    )
    return start, verifiers, tuple(sys.path), os.getcwd(), frozenset(os.environ.items())


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
        self._jobs: queue.Queue[list[TaskBatch] | None] = queue.Queue(2 * number)
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

    def __exit__(self, *about: object) -> None:
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

    def run(self, messages: Iterable[Sequence[TaskBatch]]) -> Iterator[Decided]:
        """Verdicts as they come, of messages that are made while others are worked on."""
        waiting = iter(messages)
        while True:
            for message in islice(waiting, self._jobs.maxsize - self._jobs.qsize()):
                self._left += sum(batch.size for batch in message)
                self._jobs.put(list(message))
            if not self._left:
                return
            found = self._results.get()
            if isinstance(found, BaseException):
                raise found
            self._left -= found.size
            yield found

    def _serve(self) -> None:
        """One thread: hand messages to its worker, replace it when it dies."""
        worker: _Worker | None = None
        try:
            while (message := self._jobs.get()) is not None:
                worker = self._finished(message, worker)
        except BaseException as error:
            self._results.put(error)
            self._stopped.set()
        finally:
            if worker is not None and self._stopped.is_set():
                worker.end()
            elif worker is not None:
                _IDLE.give_back(worker, self._kind)

    def _finished(self, message: list[TaskBatch], worker: _Worker | None) -> _Worker | None:
        """Work through a message, batch by batch after a death; returns the worker that is alive in the end."""
        parts = deque([message])
        try:
            while parts and not self._stopped.is_set():
                if worker is None:
                    worker = _IDLE.take(self._kind) or _Worker(*self._start)
                    self._alive.add(worker)
                if self._stopped.is_set():  # while it was started: what it is given now nobody would end
                    break
                left = self._work(worker, parts.popleft())
                if left is not None:
                    worker = None
                    parts.extendleft([batch] for batch in reversed(left))
        except BaseException:
            if worker is not None:
                worker.end()
            raise
        return worker

    def _work(self, worker: _Worker, message: list[TaskBatch]) -> list[TaskBatch] | None:
        """None when all is done; what is left to do if the worker dies."""
        under = Under(message)
        try:
            for reply in worker.run(message):
                self._results.put(under.take(reply))
                if self._stopped.is_set():
                    break
        except WorkerDied as death:
            self._alive.discard(worker)
            worker.end()
            place = worker.place
            at = None if place is None else under.at(place)
            if worker.was_stopped:
                return self._after_stop(under.left(), at)
            return self._after_death(under.left(), at, str(death))
        return None

    def _after_stop(self, left: list[TaskBatch], at: tuple[Any, int] | None) -> list[TaskBatch]:
        """It was stuck at a check; one that was done at the last moment is not blamed."""
        blamed, others = (None, left) if at is None else without(left, *at)
        if blamed is not None:
            self._miss(blamed, f"took longer than {self._timeout:g} s")
        return others

    def _after_death(self, left: list[TaskBatch], at: tuple[Any, int] | None, how: str) -> list[TaskBatch]:
        """What it was at is tried once more; where that is not known, each rollout by itself."""
        why = f"failed: it ended its worker process twice ({how})"
        blamed, others = (None, left) if at is None else without(left, *at)
        if blamed is not None and blamed.tried and left[0].size == 1:
            self._miss(blamed, why)
        elif blamed is not None:
            return [replace(blamed, tried=True), *others]
        elif left[0].tried:
            self._miss(left[0], why)
            return left[1:]
        else:
            first, *others = singly(left)
            return [replace(first, tried=True), *others]
        return others

    def _miss(self, batch: TaskBatch, why: str) -> None:
        columns = [[(None, f"{name} {why}")] * len(batch.items) for name, _ in batch.checks]
        self._results.put(Decided(batch.items, batch.numbers, columns))
