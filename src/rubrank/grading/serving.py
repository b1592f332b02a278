"""The other side of `rubrank.grading.workers`: what a worker process runs.

    serve(3)      pickled jobs from stdin, pickled verdicts to stdout; 3 is a file of shared memory

It counts the checks that it begins where its caller can see the count, even while a verifier holds the interpreter.
"""

from __future__ import annotations

import importlib
import mmap
import os
import pickle
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from typing import IO, Any

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.verifier import Compat, Found, Mode, find_verifier

_KEEP = 0.5  # seconds of a job after which its verdicts are sent as they come, lest they are lost with the worker


class Counter:
    """A number that two processes see."""

    def __init__(self, file: int) -> None:
        self.cells = memoryview(mmap.mmap(file, mmap.PAGESIZE)).cast("Q")

    @property
    def value(self) -> int:
        """How many checks were begun."""
        return int(self.cells[0])


def shared_file() -> int:
    """A page of memory as a file without a name."""
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("rubrank")
    else:  # macOS
        with tempfile.TemporaryFile() as made:
            file = os.dup(made.fileno())
    os.ftruncate(file, mmap.PAGESIZE)
    return file


def serve(shared: int) -> None:
    """The worker's loop: pickles from what was stdin, replies to what was stdout; whatever prints goes to stderr.

    shared: the file in which it counts the checks that it begins.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller decides when it ends
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    try:
        modules, compat, mode = pickle.load(requests)
        trouble = _import_all(modules)
        _reply(trouble, replies)
        counter = Counter(shared)
        os.close(shared)
        while trouble is None:
            message, ready = pickle.load(requests), _Ready(compat, mode)
            for rollout, checks in message:
                _decide(rollout, checks, ready, counter, replies)
    except (EOFError, OSError):  # the caller is gone
        pass


def _decide(
    rollout: Rollout,
    checks: Sequence[tuple[str, dict[str, Any]]],
    ready: _Ready,
    counter: Counter,
    replies: IO[bytes],
) -> None:
    """Reply with the verdicts of a job: in one go, or as they come if they take their time."""
    found: list[Found] = []
    begun, cells = counter.value, counter.cells
    late = time.monotonic() + _KEEP
    for name, params in checks:
        if found and time.monotonic() > late:
            _reply(found, replies)
            found = []
        begun += 1
        cells[0] = begun
        found.append(ready(name, params)(rollout))
    _reply(found, replies)


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
            found = verifier.bind(verifier.check_parameters(params), self._compat, self._mode)
            self._ready[name, id(params)] = found
        return found
