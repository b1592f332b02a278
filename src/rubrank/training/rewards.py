"""What a trainer gets for a step, and the scores that it is made from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from rubrank.fusion.result import Fused
from rubrank.judges.judgments import Judgments
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.training.measuring import Figures


@dataclass(frozen=True, eq=False)
class Graded:
    """The scores of some groups, what judges took, and the seconds it took; can be sent to another process."""

    groups: tuple[GroupScores, ...] = ()
    judging: Judgments | None = None
    seconds: float = 0.0
    """For which the trainer waited."""
    hidden: float = 0.0
    """Seconds of judging that passed while siblings were still being generated."""
    figures: tuple[Figures, ...] = ()
    """What was measured of each group's texts; none: `fuse` measures."""


@dataclass(frozen=True, eq=False)
class StepRewards:
    """What a trainer gets; groups and rollouts in the order in which they were given."""

    rewards: tuple[tuple[float, ...], ...]
    """One tuple per group; NaN = nothing is known about the rollout."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """For the trainer's log; numbers that do not exist are left out, not NaN."""
    columns: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    """Texts about every rollout, for a table of completions; shaped as the rewards."""

    def flat(self) -> list[float]:
        """All rewards in one list."""
        return [reward for group in self.rewards for reward in group]


def without_unknown(rewards: Sequence[float]) -> list[float]:
    """Rewards for trainers that cannot leave a rollout out: one about which nothing is known gets the mean of its
    group, so that its advantage is 0 and the others' baseline stays. Nothing known about any: 0 for all.
    """
    known = [reward for reward in rewards if not math.isnan(reward)]
    mean = sum(known) / len(known) if known else 0.0
    return [mean if math.isnan(reward) else reward for reward in rewards]


def unknown_of(result: Fused, table: ScoreTable) -> np.ndarray:
    """(M,): rollouts about which nothing is known; none where a query has gates alone."""
    batch = result.batch
    ranks_N = np.array([any(c.layer == "quality" for c in group.criteria) for group in table.groups], dtype=bool)
    unknown = np.asarray(batch.missing_MK.all(axis=1)) & ranks_N[batch.group_of_row]
    return unknown if result.gated is None else unknown & result.gated.passed


def by_groups(values: Sequence[Any], table: ScoreTable) -> tuple[tuple[Any, ...], ...]:
    """Values of all rollouts, one tuple per group."""
    ends = accumulate((len(group.scores) for group in table.groups), initial=0)
    return tuple(tuple(values[first:end]) for first, end in pairwise(ends))
