"""A rollout with the checks that are left to make on it, and how such tasks are divided and sent to workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil

from rubrank.grading.batches import TaskBatch
from rubrank.grading.plan import PlannedCheck
from rubrank.rollouts.rollout import Rollout

_MESSAGE = 256  # rollouts sent to a worker at once, and about so many characters: enough to hide the way there and back
_CHARACTERS = 1 << 20
_EACH = 4  # messages that a worker gets at least, so that none waits long for the slowest


@dataclass(eq=False, slots=True)  # one a rollout: made three times as fast as a frozen one
class Task:
    """One rollout with the checks that are left to make on it, and their keys in the cache."""

    group: int
    number: int
    rollout: Rollout
    checks: tuple[PlannedCheck, ...]
    keys: tuple[bytes, ...] | None

    def only(self, wanted: Callable[[PlannedCheck], bool]) -> Task:
        """With those of its checks that are wanted."""
        kept = [i for i, check in enumerate(self.checks) if wanted(check)]
        if len(kept) == len(self.checks):
            return self
        keys = None if self.keys is None else tuple(self.keys[i] for i in kept)
        return Task(self.group, self.number, self.rollout, tuple(self.checks[i] for i in kept), keys)


def divided(tasks: list[Task], wanted: Callable[[PlannedCheck], bool]) -> tuple[list[Task], list[Task]]:
    """The tasks cut in two: the checks that are wanted, and the others."""
    if not any(wanted(check) for checks in different_checks(tasks) for check in checks):
        return [], tasks
    first = [task.only(wanted) for task in tasks]
    second = [task.only(lambda check: not wanted(check)) for task in tasks]
    return [task for task in first if task.checks], [task for task in second if task.checks]


def different_checks(tasks: Iterable[Task]) -> Iterable[tuple[PlannedCheck, ...]]:
    """The checks of tasks, each combination once; hashing those of all tasks would take longer."""
    return {id(task.checks): task.checks for task in tasks}.values()


def messages(tasks: Sequence[Task], workers: int, measure: str | None) -> Iterator[list[TaskBatch]]:
    """What is sent to workers at once: some rollouts, those with the same checks together."""
    most = min(_MESSAGE, max(1, ceil(len(tasks) / (_EACH * workers))))
    some: list[Task] = []
    size = 0
    for task in tasks:
        some.append(task)
        size += len(task.rollout.response)
        if len(some) == most or size > _CHARACTERS:
            yield _alike(some, measure)
            some, size = [], 0
    if some:
        yield _alike(some, measure)


def _alike(tasks: Sequence[Task], measure: str | None) -> list[TaskBatch]:
    found = []
    for checks, alike in groupby(tasks, key=lambda task: task.checks):
        some = tuple(alike)
        pairs = tuple((check.verifier.name, check.given) for check in checks)
        rollouts = tuple(task.rollout for task in some)
        found.append(TaskBatch(some, rollouts, pairs, tuple(range(len(checks))), measure))
    return found
