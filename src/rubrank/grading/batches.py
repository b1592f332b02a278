"""What is handed to a worker, what comes back, and what is left of it when the worker dies.

    TaskBatch(tasks, rollouts, checks)     the same checks on some rollouts; `items` are whatever the caller calls them
    Decided(items, numbers, columns)       verdicts about some of the rollouts, of some of the checks

A worker dies at a check that it had begun, or before it had begun any. The check is tried once more, alone; what ends
its worker again is missing, and the rest goes on.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from rubrank.grading.serving import PackedBatch, WorkerReply
from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.verifier import Found


@dataclass(frozen=True, eq=False)
class TaskBatch:
    """Checks, pairs of a verifier's name and parameters, to be made on all these rollouts."""

    items: tuple[Any, ...]
    rollouts: tuple[Rollout, ...]
    checks: tuple[tuple[str, dict[str, Any]], ...]
    numbers: tuple[int, ...]
    """Of the checks, among those that were given first."""
    measure: str | None = None
    """module:function, from rollouts to an array with a row for each, to be called there too."""
    tried: bool = False
    """Has it ended a worker?"""

    @cached_property
    def packed(self) -> bytes:
        """The checks as they are sent; equal ones are equal bytes, which a worker knows again."""
        return pickle.dumps(self.checks, pickle.HIGHEST_PROTOCOL)

    @property
    def sent(self) -> PackedBatch:
        """As it goes to a worker."""
        return PackedBatch(self.packed, self.rollouts, self.measure)

    @property
    def size(self) -> int:
        """How many verdicts it asks for."""
        return len(self.items) * len(self.checks)

    def part(self, rows: slice, checks: Sequence[int] | None = None, **changes: Any) -> TaskBatch:
        """Some of its rollouts, with all or some of its checks."""
        items, rollouts = self.items[rows], self.rollouts[rows]
        if checks is not None:
            changes["checks"] = tuple(self.checks[k] for k in checks)
            changes["numbers"] = tuple(self.numbers[k] for k in checks)
        return replace(self, items=items, rollouts=rollouts, **changes)


@dataclass(frozen=True, eq=False)
class Decided:
    """Verdicts about some rollouts."""

    items: tuple[Any, ...]
    numbers: Sequence[int]
    """Of the checks."""
    columns: Sequence[Sequence[Found]]
    """One a check."""
    measured: Any = None
    """A row for each rollout, where that was asked for and these are the last of their checks."""

    @property
    def size(self) -> int:
        """How many verdicts."""
        return len(self.items) * len(self.numbers)


class Under:
    """Batches that a worker has, and how far it is with them."""

    def __init__(self, batches: Sequence[TaskBatch]) -> None:
        self._batches = batches
        self._batch, self._row, self._ahead, self._check = 0, 0, 0, 0  # `_ahead` rollouts have their first checks

    def take(self, reply: WorkerReply) -> Decided:
        """The verdicts of a reply; they come in order, all of some rollouts before those of the next."""
        batch, number = self._batches[reply.batch], len(reply.columns[0])
        upto = reply.check + len(reply.columns)
        whole = upto == len(batch.checks)
        self._batch, self._row = reply.batch, reply.row + (number if whole else 0)
        self._ahead, self._check = (0, 0) if whole else (number, upto)
        rows = slice(reply.row, reply.row + number)
        return Decided(batch.items[rows], batch.numbers[reply.check : upto], reply.columns, reply.measured)

    def left(self) -> list[TaskBatch]:
        """What has no verdict yet; nothing of it is measured there, lest that is what went wrong."""
        first, *others = self._batches[self._batch :]
        rows = self._row, self._row + self._ahead
        parts = [
            first.part(slice(*rows), range(self._check, len(first.checks))),
            first.part(slice(rows[1], None)),
            *others,
        ]
        return [replace(part, measure=None) for part in parts if part.items]

    def at(self, place: tuple[int, int, int]) -> tuple[Any, int] | None:
        """Item and number of the check that stands at a place; None: there is no such check."""
        number, row, check = place
        if number >= len(self._batches):
            return None
        batch = self._batches[number]
        fits = row < len(batch.items) and check < len(batch.checks)
        return (batch.items[row], batch.numbers[check]) if fits else None


def without(batches: Sequence[TaskBatch], item: Any, number: int) -> tuple[TaskBatch | None, list[TaskBatch]]:
    """One check of one rollout, as a batch of its own, and all the others; None: it is not among them."""
    found: TaskBatch | None = None
    others: list[TaskBatch] = []
    for batch in batches:
        row = next((i for i, one in enumerate(batch.items) if one is item), None)
        if row is None or number not in batch.numbers:
            others.append(batch)
            continue
        k, here = batch.numbers.index(number), slice(row, row + 1)
        found = batch.part(here, [k])
        rest = [i for i in range(len(batch.checks)) if i != k]
        parts = [batch.part(slice(row)), batch.part(here, rest), batch.part(slice(row + 1, None))]
        others += [part for part in parts if part.size]
    return found, others


def singly(batches: Sequence[TaskBatch]) -> Iterator[TaskBatch]:
    """Each rollout by itself."""
    for batch in batches:
        for row in range(len(batch.items)):
            yield batch.part(slice(row, row + 1))
