"""A flat batch of rollouts, grouped by keys or by position, in one process or split over many.

    score_flat(engine, samples, step=12)                                              groups are `sample.key`
    score_flat(engine, samples, step=12, group_of=by_position(8))                     eight in a row are a group
    score_flat(engine, samples, step=12, processes=Processes(gather, rank, world))    every process calls it

If the batch is split over several processes, a group may be split, too. Then:

    1. the samples of all processes are gathered
    2. each process grades some of the groups, each as a whole, so that no judge is called twice
    3. the scores are gathered
    4. every process fuses all groups, so that rules that learn from step to step learn the same in every process
    5. each process takes the rewards of its own rows

With one process nothing is gathered. The rewards do not depend on how the batch is split.

`gather` is the trainer's collective operation: a list from every process → one list in the order of ranks, such as
`accelerate.utils.gather_object`. It is called twice per step, with one entry from each process. If one process fails,
all raise, and none is left waiting.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import numpy as np

from rubrank.errors import InvalidInput, RubrankError, only_our_errors
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.training.engine import Graded, RewardEngine, fill_unknown
from rubrank.training.metrics import DisputedRollout

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Sample:
    """One rollout, the key of its query, and the query's own rubric."""

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
    """The rewards and columns of a process's own rows, in their order; the metrics are those of the whole batch."""

    rewards: list[float]
    metrics: dict[str, float] = field(default_factory=dict)
    columns: dict[str, list[str]] = field(default_factory=dict)
    distributions: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Rewards and advantages of the rollouts of all processes."""
    disputed: tuple[DisputedRollout, ...] = ()


GroupOf: TypeAlias = Callable[[Sequence[Sample]], Sequence[Hashable]]
"""All samples, in the order of ranks → the group key of each."""


def by_key(samples: Sequence[Sample]) -> list[Hashable]:
    """Return the key of every sample: samples with the same key are a group, wherever they are."""
    if any(sample.key is None for sample in samples):
        raise InvalidInput(
            "score_flat",
            "key",
            allowed="given for every sample",
            got="None",
            remedy="Or use group_of=by_position(n).",
        )
    return [sample.key for sample in samples]


def by_key_and_size(size: int | None) -> GroupOf:
    """Return a function that makes groups of `size` samples with the same key, in their order; None: of all of them.

    For trainers whose keys may stand for several rows of the dataset, such as two rows with the same prompt.
    """

    def group_of(samples: Sequence[Sample]) -> list[Hashable]:
        positions: Counter[Hashable] = Counter()
        numbers: dict[Hashable, int] = {}
        keys: list[Hashable] = []
        for sample in samples:
            group = (sample.key, positions[sample.key] // size if size else 0)
            positions[sample.key] += 1
            keys.append(numbers.setdefault(group, len(numbers)))
        return keys

    return group_of


def by_position(size: int) -> GroupOf:
    """Return a function that makes a group of `size` samples in a row. It raises if the prompts of a group differ."""
    if isinstance(size, bool) or size < 1:
        raise InvalidInput("by_position", "size", allowed="a whole number ≥ 1", got=repr(size))

    def group_of(samples: Sequence[Sample]) -> list[Hashable]:
        if len(samples) % size:
            raise InvalidInput(
                "score_flat",
                "samples",
                allowed=f"a multiple of the group size, {size}",
                got=str(len(samples)),
                remedy="Every process must call, with all of its rows.",
            )
        for i, sample in enumerate(samples):
            first = i - i % size  # the first sample of its group
            if sample.rollout.prompt != samples[first].rollout.prompt:
                raise InvalidInput(
                    "score_flat",
                    "samples",
                    allowed=f"{size} in a row of the same prompt",
                    got=f"sample {i} with another prompt than sample {first}",
                    remedy="Sort the samples by prompt, or give them keys: Sample(rollout, key=…).",
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
    """Return the rewards of this process's samples. The comments follow the numbered list at the top of the module.

    samples: a list, or a function that makes it; if the function fails, all processes raise instead of waiting for it.
    group_of: returns the group key of every sample; `by_key`, `by_key_and_size(n)`, `by_position(n)`, or a function of
        the adapter.
    means: True gives a rollout without any score the mean of its group, for trainers that cannot leave one out.
    """
    # 1. The samples of all processes, in groups
    parts = gather_results(processes, samples if callable(samples) else lambda: samples)
    all_samples = [sample for part in parts for sample in part]
    if not all_samples:
        return FlatRewards([])
    members: dict[Hashable, list[Sample]] = {}
    places = []  # (key of its group, number in the group) of every sample
    for sample, key in zip(all_samples, group_of(all_samples), strict=True):
        group_samples = members.setdefault(key, [])
        places.append((key, len(group_samples)))
        group_samples.append(sample)
    label = engine.label(step, train=train)
    groups = []
    for key, group_samples in members.items():
        rollouts = tuple(sample.rollout for sample in group_samples)
        rubrics = [sample.rubric for sample in group_samples if sample.rubric is not None]
        rubric = rubrics[0] if rubrics else None
        groups.append(Group(id=f"{label}/{key}", rollouts=rollouts, rubric=rubric))
    groups = list(engine.read_thinking(groups))

    # 2. and 3. The scores: this process grades its share of the groups.
    first = processes.rank * len(groups) // processes.world
    end = (processes.rank + 1) * len(groups) // processes.world
    graded_parts = gather_results(
        processes, lambda: engine.grade(groups[first:end], processes=processes.world)
    )

    # 4. The rewards of all groups
    graded = graded_parts[0] if processes.world == 1 else Graded.join(graded_parts)
    result = engine.fuse(groups, graded, step, train=train, write=processes.rank == 0)
    rewards: Sequence[Sequence[float]] = result.rewards
    if means:
        rewards = [fill_unknown(group_rewards) for group_rewards in rewards]

    # 5. The rows of this process
    start = sum(len(part) for part in parts[: processes.rank])
    own_places = places[start : start + len(parts[processes.rank])]
    rewards_of = dict(zip(members, rewards, strict=True))
    columns = {}
    for name, column in result.columns.items():
        texts_of = dict(zip(members, column, strict=True))
        columns[name] = [texts_of[key][i] for key, i in own_places]
    return FlatRewards(
        [rewards_of[key][i] for key, i in own_places],
        dict(result.metrics),
        columns,
        result.distributions,
        result.disputed,
    )


def gather_results(processes: Processes, work: Callable[[], T]) -> list[T]:
    """Do `work` in every process; returns all results, in the order of ranks. If it fails in one process, all raise."""
    if processes.world == 1:
        return [work()]
    value = None
    failure = None
    sent_failure = None
    try:
        value = work()
    except Exception as error:
        failure = error
        sent_failure = error
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # it cannot be pickled, so the others get its text
            sent_failure = RubrankError(f"{type(error).__name__}: {error}")
    parts = processes.gather([(value, sent_failure)])
    if failure is not None:
        raise failure
    for rank, (_, other_failure) in enumerate(parts):
        if other_failure is not None:
            message = f"process {rank} of {len(parts)} failed: {type(other_failure).__name__}: {other_failure}"
            raise RubrankError(message) from other_failure
    return [part for part, _ in parts]
