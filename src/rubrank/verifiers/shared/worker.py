"""Processes that compute for us under a hard time limit, and are used again for the next call.

    call("rubrank.verifiers.truth.mathematics:equal", ["1/2", "$0.5$"], seconds=5)  →  [True, "…"]

For libraries that may hang, need the main thread, or eat memory (symbolic mathematics). A worker is a fresh interpreter
that reads one JSON line a call and answers with one; it needs nothing from the caller's main module, so it works from
scripts, notebooks, threads and forked processes alike. The limit is on processor time, so that a busy machine changes
no verdict; a wall clock, far wider, ends what does not listen. A worker that dies or is ended gives `WorkerFailed`,
and the next call gets a new one. Workers end with the process that started them.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from rubrank.errors import RubrankError

_MOST_IDLE = max(1, os.cpu_count() or 1)
_MEMORY = 4 << 30
_WALL = 6.0  # times the processor time, then at least this many seconds for the start
_START = 20.0


class WorkerFailed(RubrankError):  # noqa: N818 - says what happened
    """The call gave no result: out of time, died, or raised; the message says which."""


class _HelperProcess:
    """One process; not to be used by two threads at once."""

    def __init__(self) -> None:
        source = str(Path(__file__).parents[3])
        path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", "from rubrank.verifiers.shared.worker import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
        )
        self._replies: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._replies.put(line)
        self._replies.put(b"")

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, request: bytes, wall: float) -> bytes:
        """The reply; b"" if it died, `queue.Empty` if it is late."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(request)
            self._process.stdin.flush()
        except OSError:
            return b""
        return self._replies.get(timeout=wall)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(timeout=5)
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except OSError:
                pass

    def forget(self) -> None:
        """In a forked child: the process is the parent's, and must see its end of file when the parent ends."""
        self._process.returncode = 0  # nothing to wait for
        if self._process.stdin is not None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._process.stdin.fileno())
            os.close(nowhere)


class _Pool:
    """Idle workers, the last used first."""

    def __init__(self) -> None:
        self._idle: list[_HelperProcess] = []
        self._lock = threading.Lock()

    def take(self) -> tuple[_HelperProcess, bool]:
        """A worker, and whether it is new."""
        with self._lock:
            if self._idle:
                return self._idle.pop(), False
        return _HelperProcess(), True

    def give_back(self, worker: _HelperProcess) -> None:
        with self._lock:
            if len(self._idle) < _MOST_IDLE:
                self._idle.append(worker)
                return
        worker.end()

    def end(self) -> None:
        with self._lock:
            workers, self._idle = self._idle, []
        for worker in workers:
            worker.end()

    def after_fork(self) -> None:
        for worker in self._idle:
            worker.forget()
        self._inherited = self._idle  # kept, so that no destructor touches the parent's processes
        self._idle, self._lock = [], threading.Lock()


_POOL = _Pool()
atexit.register(_POOL.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_POOL.after_fork)


def call(function: str, arguments: list[Any], *, seconds: float) -> Any:
    """`module:function(*arguments)`, computed in a worker; arguments and result are JSON. Raises `WorkerFailed`."""
    request = json.dumps([function, arguments, seconds]).encode() + b"\n"
    worker, new = _POOL.take()
    reply = _asked(worker, request, seconds)
    if not reply and not new:  # it may have died while idle; once more with a fresh one
        worker = _HelperProcess()
        reply = _asked(worker, request, seconds)
    if not reply:
        raise WorkerFailed("the worker process died")
    _POOL.give_back(worker)
    result, error = json.loads(reply)
    if error is not None:
        raise WorkerFailed(error)
    return result


def _asked(worker: _HelperProcess, request: bytes, seconds: float) -> bytes:
    try:
        reply = worker.ask(request, _WALL * seconds + _START)
    except queue.Empty:
        worker.end()
        raise WorkerFailed(f"no result within {seconds:g} s of computing; the worker was ended") from None
    except BaseException:  # an interrupted call must not leave its reply for the next one
        worker.end()
        raise
    if not reply:
        worker.end()
    return reply


class _OutOfTime(BaseException):
    """Not an Exception, so that no library swallows it."""


def serve() -> None:
    """The worker's loop: requests from stdin, replies to what was stdout; whatever prints goes nowhere."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    _limit_memory()
    for line in sys.stdin.buffer:
        replies.write(json.dumps(_answer(*json.loads(line))).encode() + b"\n")
        replies.flush()


def _limit_memory() -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    except (ImportError, ValueError, OSError):  # not on this system
        pass


def _answer(function: str, arguments: list[Any], seconds: float) -> tuple[Any, str | None]:
    module, _, name = function.partition(":")
    try:
        target = getattr(importlib.import_module(module), name)  # imports are not the call's time
        with _TimeLimit(seconds):
            return target(*arguments), None
    except _OutOfTime:
        return None, f"no result within {seconds:g} s of computing"
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"[:300]


class _TimeLimit:
    """Raises `_OutOfTime` when this much processor time is used; where there is no such timer, the wall clock rules."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        import signal

        if hasattr(signal, "SIGPROF"):
            signal.signal(signal.SIGPROF, self._stop)
            signal.setitimer(signal.ITIMER_PROF, self._seconds)

    def __exit__(self, *_: object) -> None:
        import signal

        if hasattr(signal, "SIGPROF"):
            signal.setitimer(signal.ITIMER_PROF, 0)

    @staticmethod
    def _stop(*_: object) -> None:
        raise _OutOfTime
