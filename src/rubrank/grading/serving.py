"""The other side of `rubrank.grading.workers`: what a worker process runs.

    serve(3)      messages from shared memory, whose file is 3; verdicts to stdout

A message is some batches: rollouts, with the checks that are made on all of them. They are made check by check on some
rollouts together, as many as take a moment, so that texts can be scanned together. The worker says where it is in the
shared memory, where its caller can see it even while a verifier holds the interpreter.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import os
import pickle
import signal
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any, NamedTuple

from rubrank.grading.shared import BATCH, BEGUN, CHECK, CHECKING, MEASURING, ROW, Shared
from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.verifier import Compat, Found, Mode, find_verifier

_KEEP = 0.5  # seconds of one pass after which its verdicts are sent as they come, lest they are lost with the worker
_TOGETHER, _MOMENT = 32, 0.1  # rollouts checked together, while that takes less than so many seconds
_LONG = 4  # moments after which they are checked one by one
_BETWEEN = "\x1e"  # reasons: a character that none of ours has
_RUBRICS = 256  # of which the checks stay ready


class PackedBatch(NamedTuple):
    """One batch of a message."""

    checks: bytes
    """Pickled pairs (verifier, parameters)."""
    rollouts: Sequence[Rollout]
    measure: str | None
    """module:function, from rollouts to an array with a row for each."""


class WorkerReply(NamedTuple):
    """Verdicts about consecutive rollouts of a batch, of consecutive checks."""

    batch: int
    row: int
    check: int
    columns: list[list[Found]]
    """One a check."""
    measured: Any = None
    """With the last check: a row for each rollout, where it was asked for and could be had."""

    def packed(self) -> tuple[Any, ...]:
        """As it is sent: values in one list, reasons in one text; packing each by itself takes five times as long."""
        values = [value for column in self.columns for value, _ in column]
        reasons: Any = [reason for column in self.columns for _, reason in column]
        text = _BETWEEN.join(reasons)
        if text.count(_BETWEEN) == len(reasons) - 1:
            reasons = text
        return self.batch, self.row, self.check, len(self.columns), values, reasons, self.measured

    @classmethod
    def unpacked(cls, data: tuple[Any, ...]) -> WorkerReply:
        """What was packed."""
        batch, row, check, number, values, reasons, measured = data
        if isinstance(reasons, str):
            reasons = reasons.split(_BETWEEN)
        found, size = [*zip(values, reasons, strict=True)], len(values) // number
        return cls(batch, row, check, [found[i * size : (i + 1) * size] for i in range(number)], measured)


def serve(file: int, caller: int) -> None:
    """The worker's loop: what to do from what was stdin, replies to what was stdout; whatever prints goes to stderr."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller decides when it ends
    _end_with(caller)
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    try:
        modules, compat, mode = pickle.load(requests)
        trouble = _import_all(modules)
        _reply(trouble, replies)
        gc.freeze()  # what is imported stays: it need not be looked through again and again
        shared, ready = Shared(file), _Ready(compat, mode)
        pace = Pace()
        while trouble is None:
            message = _message(shared, pickle.load(requests))
            for number, sent in enumerate(message):
                for reply in _decided(number, sent, ready(sent.checks), shared, pace):
                    _reply(reply.packed(), replies)
    except (EOFError, OSError):  # the caller is gone
        pass


def _end_with(caller: int) -> None:
    """Be killed, with all that was started here, when the other end of a pipe closes: the caller is gone.

    One that works sees that by itself; one that hangs at a check, even in native code, is ended by the system.
    """
    os.set_inheritable(caller, False)
    if not hasattr(fcntl, "F_SETSIG"):  # not Linux
        return
    with suppress(OSError):  # a kernel in a sandbox may not know it
        fcntl.fcntl(caller, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(caller, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(caller, fcntl.F_SETFL, fcntl.fcntl(caller, fcntl.F_GETFL) | os.O_ASYNC)


def _message(shared: Shared, size: int) -> list[PackedBatch]:
    with shared.get(size) as packed:
        found: list[PackedBatch] = pickle.loads(packed)
    return found


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


# ------------------------------------------------------------------------------------------------------------- deciding


@dataclass(frozen=True)
class _Checks:
    """Those of a rubric, made ready."""

    decide: tuple[Callable[[Rollout], Found], ...]


class _Ready:
    """Rubrics made ready once."""

    def __init__(self, compat: Compat, mode: Mode) -> None:
        self._compat, self._mode = compat, mode
        self._ready: OrderedDict[bytes, _Checks] = OrderedDict()

    def __call__(self, checks: bytes) -> _Checks:
        if checks not in self._ready:
            self._ready[checks] = self._bound(pickle.loads(checks))
            if len(self._ready) > _RUBRICS:
                self._ready.popitem(last=False)
        return self._ready[checks]

    def _bound(self, checks: Sequence[tuple[str, dict[str, Any]]]) -> _Checks:
        verifiers = [(find_verifier(name), params) for name, params in checks]
        decide = tuple(one.bind(one.check_parameters(params), self._compat, self._mode) for one, params in verifiers)
        return _Checks(decide)


class Pace:
    """How many rollouts are checked together: twice as many each time, as long as they take a moment."""

    def __init__(self) -> None:
        self.size, self.begun = 1, time.monotonic()

    def begin(self) -> None:
        """So many are checked from here."""
        self.begun = time.monotonic()

    def end(self) -> None:
        """And to here. On a busy machine all takes longer: that alone should not part them."""
        taken = time.monotonic() - self.begun
        if taken < _MOMENT:
            self.size = min(2 * self.size, _TOGETHER)
        else:
            self.size = max(1, self.size // 2) if taken < _LONG * _MOMENT else 1


def _decided(number: int, sent: PackedBatch, checks: _Checks, shared: Shared, pace: Pace) -> Iterator[WorkerReply]:
    start = 0
    while start < len(sent.rollouts):
        some = sent.rollouts[start : start + pace.size]
        pace.begin()
        columns: list[list[Found]] = []
        for k, decide in enumerate(checks.decide):
            if columns and time.monotonic() - pace.begun > _KEEP:
                yield WorkerReply(number, start, k - len(columns), columns)
                columns = []
            columns.append(_column(some, decide, shared, (number, start, k)))
        measured = None if sent.measure is None else _measured(sent.measure, some, shared, (number, start))
        yield WorkerReply(number, start, len(checks.decide) - len(columns), columns, measured)
        for rollout in some:
            rollout.__dict__.pop("text", None)  # its words and sentences are many times its size
        pace.end()
        start += len(some)


def _column(
    some: Sequence[Rollout], decide: Callable[[Rollout], Found], shared: Shared, at: tuple[int, int, int]
) -> list[Found]:
    """One check on some rollouts."""
    cells, found = shared.cells, []
    cells[BATCH], row, cells[CHECK] = at
    begun, cells[CHECKING] = cells[BEGUN], 1
    for i, rollout in enumerate(some, row):
        begun += 1
        cells[ROW] = i
        cells[BEGUN] = begun
        found.append(decide(rollout))
    cells[CHECKING] = 0
    return found


def _measured(name: str, some: Sequence[Rollout], shared: Shared, at: tuple[int, int]) -> Any:
    """None where it goes wrong: the caller measures again, and says what did."""
    shared.cells[BATCH], shared.cells[ROW] = at
    shared.cells[CHECK] = MEASURING
    shared.cells[BEGUN] += 1
    module, _, function = name.partition(":")
    try:
        return getattr(importlib.import_module(module), function)(some)
    except Exception:
        return None
