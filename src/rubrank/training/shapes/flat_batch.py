"""Shape (b): a flat batch, grouped by keys or by position, on one process or cut over many.

    score_flat(engine, samples, step=12)                                              groups are `sample.key`
    score_flat(engine, samples, step=12, group_of=by_position(8))                     eight in a row are a group
    score_flat(engine, samples, step=12, processes=Processes(gather, rank, world))    every process calls it

A process's slice may cut a group. So the samples of all processes are gathered; each process grades some of the groups,
as wholes (a judge is asked once, and comparisons have all they need); the scores are gathered; every process
fuses all of them, so that rules with a memory remember the same everywhere; and each takes the rewards of its own rows.
With one process nothing is gathered. Whatever the cut, the rewards are the same.

`gather` is the trainer's collective: a list from every process → one list in the order of ranks, such as
`accelerate.utils.gather_object`. It is called twice a step, with one entry from each process. When one process fails,
all raise: none is left waiting.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, TypeAlias, TypeVar

from rubrank.errors import InvalidInput, RubrankError, only_our_errors
from rubrank.judges.judgments import Judgments
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.training.engine import Graded, RewardEngine, StepRewards, without_unknown

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Sample:
    """One rollout, the query that it belongs to, and that query's own rubric."""

    rollout: Rollout
    key: Hashable = None
    rubric: Any = None


@dataclass(frozen=True)
class Processes:
    """How this process exchanges data with the others."""

    gather: Callable[[list[Any]], list[Any]] = list
    rank: int = 0
    world: int = 1


@dataclass(frozen=True, eq=False)
class FlatRewards:
    """What a process gets: about its own rows, in their order; metrics are those of the whole batch."""

    rewards: list[float]
    metrics: dict[str, float] = field(default_factory=dict)
    columns: dict[str, list[str]] = field(default_factory=dict)


GroupOf: TypeAlias = Callable[[Sequence[Sample]], Sequence[Hashable]]
"""All samples, in the order of ranks → the key of each."""


def by_key(samples: Sequence[Sample]) -> list[Hashable]:
    """Samples of the same key are a group, wherever they are."""
    if any(sample.key is None for sample in samples):
        raise InvalidInput("score_flat", "key", "given for every sample", "None", "Or use group_of=by_position(n).")
    return [sample.key for sample in samples]


def by_position(size: int) -> GroupOf:
    """So many in a row are a group."""

    def group_of(samples: Sequence[Sample]) -> list[Hashable]:
        if len(samples) % size:
            raise InvalidInput(
                "score_flat",
                "samples",
                f"a multiple of the {size} of a group",
                str(len(samples)),
                "Every process must call, with all of its rows.",
            )
        return [i // size for i in range(len(samples))]

    return group_of


@only_our_errors
def score_flat(
    engine: RewardEngine,
    samples: Sequence[Sample] | Callable[[], Sequence[Sample]],
    *,
    step: int,
    train: bool = True,
    group_of: GroupOf = by_key,
    processes: Processes = Processes(),  # noqa: B008 - frozen
    means: bool = False,
) -> FlatRewards:
    """Rewards of this process's samples; a function that makes them may fail without leaving the others waiting.

    means: a rollout without any score gets the mean of its group, for trainers that cannot leave one out.
    """
    parts = together(processes, samples if callable(samples) else lambda: samples)
    everybody = [sample for part in parts for sample in part]
    if not everybody:
        return FlatRewards([])
    keys = group_of(everybody)
    groups, places = _grouped(everybody, keys, engine.label(step, train=train))
    mine = groups[processes.rank :: processes.world]
    parts_graded = together(processes, lambda: engine.grade(mine, processes=processes.world, step=step))
    graded = _in_order(parts_graded, len(groups))
    result = engine.fuse(groups, graded, step, train=train, write=processes.rank == 0)
    if means:
        result = replace(result, rewards=tuple(tuple(without_unknown(group)) for group in result.rewards))
    ends = list(accumulate(len(part) for part in parts))
    own = places[ends[processes.rank] - len(parts[processes.rank]) : ends[processes.rank]]
    return _taken(result, own)


def _grouped(
    samples: Sequence[Sample], keys: Sequence[Hashable], label: str
) -> tuple[list[Group], list[tuple[int, int]]]:
    """Groups in the order in which they first appear, and (group, number in it) of every sample."""
    members: dict[Hashable, list[Sample]] = {}
    number: dict[Hashable, int] = {}
    places = []
    for sample, key in zip(samples, keys, strict=True):
        found = members.setdefault(key, [])
        places.append((number.setdefault(key, len(number)), len(found)))
        found.append(sample)
    groups = [
        Group(
            id=f"{label}/{key}",
            rollouts=tuple(sample.rollout for sample in found),
            rubric=next((sample.rubric for sample in found if sample.rubric is not None), None),
        )
        for key, found in members.items()
    ]
    return groups, places


def _in_order(parts: Sequence[Graded], number: int) -> Graded:
    """The scores of all groups; process r graded groups r, r + world, …"""
    world = len(parts)
    if world == 1:
        return parts[0]
    groups = tuple(parts[g % world].groups[g // world] for g in range(number))
    measured = all(len(part.figures) == len(part.groups) for part in parts)
    figures = tuple(parts[g % world].figures[g // world] for g in range(number)) if measured else ()
    return Graded(groups, _judged(parts, number), max(part.seconds for part in parts), figures=figures)


def _judged(parts: Sequence[Graded], number: int) -> Judgments | None:
    """What judges said, in the order of the groups too; a process without groups has asked nobody."""
    judged = [part.judging for part in parts if part.judging is not None]
    if not judged:
        return None
    account = type(judged[0].account).merge(one.account for one in judged)
    mine = [judged[g % len(parts)] for g in range(number)]  # processes without groups are the last ones
    groups = tuple(one.groups[g // len(parts)] for g, one in enumerate(mine))
    ids = tuple(one.ids[g // len(parts)] for g, one in enumerate(mine) if one.ids)
    return Judgments(groups, account, ids)


def _taken(result: StepRewards, places: Sequence[tuple[int, int]]) -> FlatRewards:
    columns = {name: [column[g][i] for g, i in places] for name, column in result.columns.items()}
    return FlatRewards([result.rewards[g][i] for g, i in places], dict(result.metrics), columns)


# ---------------------------------------------------------------------------------------------------------- collective


def together(processes: Processes, work: Callable[[], T]) -> list[T]:
    """What every process's work gave, in the order of ranks; raises in all of them if it fails in one."""
    if processes.world == 1:
        return [work()]
    value, failure = None, None
    try:
        value = work()
    except Exception as error:
        failure = error
    parts = processes.gather([(value, None if failure is None else _sendable(failure))])
    if failure is not None:
        raise failure
    for rank, (_, other) in enumerate(parts):
        if other is not None:
            raise RubrankError(f"process {rank} of {len(parts)} failed: {type(other).__name__}: {other}") from other
    return [part for part, _ in parts]


def _sendable(error: Exception) -> Exception:
    """The error, or one that says the same where it cannot be sent."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RubrankError(f"{type(error).__name__}: {error}")
    return error
