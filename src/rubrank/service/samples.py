"""A sample that comes without its siblings, its place in a group, the work that the group is, and the answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.training.engine import Graded

_SAMPLED = {"response", "reasoning", "tool_calls", "finish_reason"}


@dataclass(frozen=True, eq=False)
class ServiceSample:
    """One sample, as a dialect reads it."""

    key: bytes
    """Of its group."""
    member: bytes
    """What makes it the same sample when it comes again."""
    named: bool
    """Did the trainer name it? Else `member` is a digest of what was sampled."""
    rollout: Rollout
    size: int
    """Of the group."""
    name: str
    """Of the group, in records."""
    rubric: Any = None
    step: int = 0
    train: bool = True


@dataclass(frozen=True)
class SampleAnswer:
    """What a sample is answered."""

    reward: float
    """NaN: nothing is known about it."""
    usable: float
    """The same, with the mean of the group where nothing is known, for trainers that cannot leave a sample out."""
    group: str
    samples: int
    """In the group when it was scored."""
    size: int
    """Expected."""
    scores: Mapping[str, float]
    reasons: Mapping[str, str]
    stopped_by: str = ""
    cost: float = 0.0
    late: bool = False
    repeated: bool = False

    @property
    def complete(self) -> bool:
        """Were all siblings there?"""
        return self.samples >= self.size


@dataclass(frozen=True)
class Ticket:
    """A sample's place in its group."""

    id: int
    cohort: int
    number: int
    group: str
    """The name of its group."""
    size: int
    """That it is to have."""


@dataclass(frozen=True, eq=False)
class GroupWork:
    """A group to be scored. graded: of each rollout, where that has been done."""

    ticket: int
    group: Group
    graded: tuple[Graded | None, ...]
    step: int
    train: bool
    size: int
    late: int | None = None
    """Only this one is to be answered."""


def sampled(rollout: Rollout) -> bytes:
    """A digest of what the policy said."""
    said = json.dumps(rollout.model_dump(include=_SAMPLED), sort_keys=True, default=str)
    return blake2b(said.encode("ascii"), digest_size=16).digest()


def check_siblings(first: ServiceSample, other: ServiceSample) -> None:
    """Raise where two samples of a group do not ask for the same."""
    if first.size != other.size:
        raise InvalidInput("request", "group_size", f"{first.size} for all samples of a group", str(other.size), "")
    if first.rubric != other.rubric:
        remedy = "Send it with every sample, or give another group another group_id."
        raise InvalidInput("request", "rubric", "the same for all samples of a group", "another", remedy)
