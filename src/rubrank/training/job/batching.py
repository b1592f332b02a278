"""How a batch of rollouts is cut over devices, such that groups stay whole in what is generated together.

cut(Training(prompts_per_batch=16, num_generations=8), processes=2, where="config.yaml")
    Cut(rollouts=128, per_device=8, accumulation=8, steps_per_generation=8, evaluated=8)
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

from rubrank.errors import InvalidInput
from rubrank.training.job.config import HeldOut, Training


@dataclass(frozen=True)
class Cut:
    """Numbers of rollouts and of portions."""

    rollouts: int
    """Of one batch, on all processes."""
    per_device: int
    """At a time on one device."""
    accumulation: int
    """Portions of one step of the optimizer."""
    steps_per_generation: int
    """Portions of one batch."""
    evaluated: int
    """At a time on one device in evaluations."""


def processes() -> int:
    """How many train together: `torchrun` says it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first() -> bool:
    """Is this the process that speaks and writes?"""
    return os.environ.get("RANK", "0") == "0"


def cut(training: Training, held_out: HeldOut | None, world: int, where: str) -> Cut:
    """The numbers; one clear error where they do not go into each other."""
    group, updates = training.num_generations, training.updates_per_batch
    rollouts, parts = training.prompts_per_batch * group, world * updates
    made = f"{training.prompts_per_batch} prompts × {group} rollouts = {rollouts}"
    if rollouts % parts:
        got = f"{made} in {updates} update{'s' * (updates > 1)} on {world} process{'es' * (world > 1)}"
        allowed = f"such that a batch is a multiple of {parts} rollouts"
        raise InvalidInput(where, "training.prompts_per_batch", allowed, got, "Change it, or updates_per_batch.")
    per_device = training.per_device_train_batch_size or math.gcd(group, rollouts // parts)
    portion = per_device * parts
    if rollouts % portion:
        name, allowed = "training.per_device_train_batch_size", f"a divisor of {rollouts // parts}"
        got = f"{per_device} for {made} in {parts} part{'s' * (parts > 1)}"
        raise InvalidInput(where, name, allowed, got, "Choose one, or leave it out.")
    evaluated = (held_out and held_out.rollouts) or group
    least = evaluated // math.gcd(evaluated, world)
    if held_out is not None and held_out.batch is not None and held_out.batch % least:
        got, remedy = str(held_out.batch), "A batch has whole groups on all processes."
        raise InvalidInput(where, "held_out.batch", f"a multiple of {least}", got, remedy)
    return Cut(
        rollouts=rollouts,
        per_device=per_device,
        accumulation=rollouts // portion,
        steps_per_generation=rollouts // (per_device * world),
        evaluated=(held_out and held_out.batch) or least * max(1, per_device // least),
    )


LOGITS = 2e9
"""Bytes that the logits of an evaluated batch may take: they are what grows with it, not the weights."""


def evaluated_at_once(cut: Cut, held_out: HeldOut, group: int, prompts: int, row_bytes: float, world: int) -> int:
    """Rollouts that a device answers at a time: as many as a batch of training samples together, if their logits fit.

    Sampling a batch takes little longer than sampling one row. group: rollouts of a prompt in training. row_bytes: of
    the logits of one rollout, tokens × vocabulary × 8. Batches are alike, so that the mean over batches that TRL logs
    is the mean over prompts; where all such sizes are far below that of training, that one is kept.
    """
    if held_out.batch is not None:
        return held_out.batch
    rollouts = held_out.rollouts or group
    least = rollouts // math.gcd(rollouts, world)
    most = min(cut.rollouts // world, int(LOGITS / max(row_bytes, 1.0)))
    whole, left = divmod(prompts * rollouts, world)
    alike = [size for size in range(least, most + 1, least) if not left and whole % size == 0]
    largest = max(alike, default=0)
    return largest if 2 * largest >= cut.evaluated else cut.evaluated
