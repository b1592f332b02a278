"""Calls that run in a worker process under a hard time limit.

    call("rubrank.verifiers.truth.formulas:equal", ["1/2", "$0.5$"], seconds=5)  →  [True, "…"]

This is for libraries that may hang, need the main thread, or exhaust memory (symbolic mathematics, SQLite). The workers
are a pool of `pebble`. They are fresh interpreters that never import the caller's script, so calls work from scripts
without an `if __name__ == "__main__"` guard, from notebooks, from threads and from forked processes.

A call has two limits. The limit on processor time raises inside the worker, so that a busy machine changes no verdict;
if native code does not return, the kernel ends the worker a second later. The limit on wall time is much wider, for
calls that wait; a worker that exceeds it is killed. A call without a result raises `WorkerFailed`, and the next call
gets a healthy worker.
"""

from __future__ import annotations

import importlib
import math
import os
import resource
import signal
import sys
import threading
from concurrent.futures import TimeoutError as FutureTimeout
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing.context import SpawnContext, SpawnProcess
from multiprocessing.popen_spawn_posix import Popen
from types import ModuleType
from typing import Any

from pebble import ProcessExpired, ProcessPool

from rubrank.errors import RubrankError

_MOST_WORKERS = 16
_MEMORY_BYTES = 4 << 30  # of address space per worker
_SAFE_PATH = "PYTHONSAFEPATH"


class WorkerFailed(RubrankError):  # noqa: N818 - says what happened
    """The call gave no result: it timed out, died or raised; the message says which."""


# ------------------------------------------------------------------------------------------------------ start

_starting = threading.Lock()


class WorkerProcess(SpawnProcess):
    """A fresh interpreter with the caller's `sys.path` that does not import the caller's main module."""

    def start(self) -> None:
        """Start it. multiprocessing ends it with this process instead of waiting for it."""
        super().start()
        # Only in our copy of the object: a process that is marked as a daemon may not start workers itself.
        self._config["daemon"] = True  # type: ignore[attr-defined]

    @staticmethod
    def _Popen(process_obj: Any) -> Popen:
        # multiprocessing would import the caller's script in the worker, which without a guard starts everything again.
        # It skips the import if the main module has no file, so an empty module stands in while the worker starts.
        # PYTHONSAFEPATH keeps a file such as queue.py in the current folder from replacing a standard module.
        with _starting:
            main = sys.modules["__main__"]
            safe_path = os.environ.get(_SAFE_PATH)
            sys.modules["__main__"] = ModuleType("__main__")
            os.environ[_SAFE_PATH] = "1"
            try:
                return Popen(process_obj)
            finally:
                sys.modules["__main__"] = main
                if safe_path is None:
                    del os.environ[_SAFE_PATH]
                else:
                    os.environ[_SAFE_PATH] = safe_path


def restore_environment() -> None:
    """Give a started worker the caller's environment again, for what it starts itself."""
    os.environ.pop(_SAFE_PATH, None)


class WorkerContext(SpawnContext):
    """The multiprocessing context of our pools."""

    Process = WorkerProcess


# ------------------------------------------------------------------------------------------------------ calls

_pools: dict[int, ProcessPool] = {}
"""By process id: a forked process cannot use the pool of its parent."""
_pools_lock = threading.Lock()


def call(
    function: str, arguments: list[Any], *, seconds: float, wall_seconds: float | None = None
) -> Any:
    """Run `module:function(*arguments)` in a worker and return its result. Raises `WorkerFailed`.

    seconds: processor time. wall_seconds: time after which the worker is killed; None: 6 × seconds + 20.
    """
    wall = 6.0 * seconds + 20.0 if wall_seconds is None else wall_seconds
    call_arguments = (function, arguments, seconds)
    out_of_time = f"no result within {seconds:g} s of computing; the worker was ended"
    pool = _get_healthy_pool()
    try:
        try:
            return pool.schedule(_run, args=call_arguments, timeout=wall).result()
        except (BrokenProcessPool, RuntimeError):  # idle workers died before the call began
            pool = _get_healthy_pool(broken=pool)
            return pool.schedule(_run, args=call_arguments, timeout=wall).result()
    except FutureTimeout:
        raise WorkerFailed(out_of_time) from None
    except ProcessExpired as death:
        if death.exitcode == -signal.SIGXCPU:
            raise WorkerFailed(out_of_time) from None
        raise WorkerFailed("the worker process died") from None
    except WorkerFailed:
        raise
    except Exception as error:
        raise WorkerFailed(f"{type(error).__name__}: {error}"[:300]) from None


def _get_healthy_pool(broken: ProcessPool | None = None) -> ProcessPool:
    """Return the pool of this process; a new one if there is none, or if it is `broken` or closed."""
    process = os.getpid()
    with _pools_lock:
        pool = _pools.get(process)
        if pool is None or pool is broken or not pool.active:
            number = min(_MOST_WORKERS, os.cpu_count() or 1)
            pool = ProcessPool(number, initializer=_prepare_worker, context=WorkerContext())
            _pools[process] = pool
        return pool


def _prepare_worker() -> None:
    """Silence a new worker and limit its memory. Called in the worker."""
    restore_environment()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)  # some libraries print
    os.dup2(nowhere, 2)
    with suppress(ValueError, OSError):  # the system or a lower hard limit does not allow it
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))


class _OutOfTime(BaseException):
    """Not an Exception, so that no library swallows it."""


def _raise_out_of_time(*_: object) -> None:
    raise _OutOfTime


def _run(function: str, arguments: list[Any], seconds: float) -> Any:
    """Import the function, then call it under the limit on processor time. Called in the worker."""
    module, _, name = function.partition(":")
    # Before the timer starts: imports are not part of the call.
    target = getattr(importlib.import_module(module), name)
    signal.signal(signal.SIGPROF, _raise_out_of_time)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    # The signal waits until native code returns (powers of large integers, SQLite). If that takes too long, the kernel
    # ends this process.
    used = resource.getrusage(resource.RUSAGE_SELF)
    most_cpu = math.ceil(used.ru_utime + used.ru_stime + seconds) + 1
    with suppress(ValueError, OSError):  # the caller's own hard limit is lower
        resource.setrlimit(
            resource.RLIMIT_CPU, (most_cpu, resource.getrlimit(resource.RLIMIT_CPU)[1])
        )
    try:
        return target(*arguments)
    except _OutOfTime:
        raise WorkerFailed(f"no result within {seconds:g} s of computing") from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
