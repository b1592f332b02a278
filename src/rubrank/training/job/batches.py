"""How a batch of rollouts is split over devices. What is generated together consists of whole groups.

split_batch(Training(prompts_per_batch=16, num_generations=8), None, world=2, where="config.yaml")
    BatchSplit(rollouts=128, per_device=8, accumulation=8, steps_per_generation=8, evaluated=8)
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

from rubrank.errors import InvalidInput
from rubrank.training.job.config import HeldOut, Training

LOGITS_BYTES = 2e9
"""Memory for the logits of an evaluation batch: they, not the weights, grow with it."""


@dataclass(frozen=True)
class BatchSplit:
    """The sizes of a batch and of its portions; a portion is what a device computes at a time."""

    rollouts: int
    """Rollouts of one batch, on all processes."""
    per_device: int
    """Rollouts of one portion."""
    accumulation: int
    """Portions that a device computes for one optimizer step."""
    steps_per_generation: int
    """Portions that a device computes for one batch."""
    evaluated: int
    """Rollouts of one portion in evaluations."""


def count_processes() -> int:
    """The number of processes that train together; launchers such as `torchrun` set it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first_process() -> bool:
    """Whether this is the process that prints and writes."""
    return os.environ.get("RANK", "0") == "0"


def split_batch(training: Training, held_out: HeldOut | None, world: int, where: str) -> BatchSplit:
    """Split a batch over `world` processes; raises if the numbers do not divide each other."""
    group = training.num_generations
    updates = training.updates_per_batch
    rollouts = training.prompts_per_batch * group
    parts = world * updates
    product = f"{training.prompts_per_batch} prompts × {group} rollouts = {rollouts}"
    if rollouts % parts:
        update_word = "update" if updates == 1 else "updates"
        process_word = "process" if world == 1 else "processes"
        got = f"{product} in {updates} {update_word} on {world} {process_word}"
        allowed = f"such that a batch is a multiple of {parts} rollouts"
        raise InvalidInput(
            where, "training.prompts_per_batch", allowed, got, "Change it, or updates_per_batch."
        )
    per_device = training.per_device_train_batch_size or math.gcd(group, rollouts // parts)
    portion = per_device * parts
    if rollouts % portion:
        name = "training.per_device_train_batch_size"
        allowed = f"a divisor of {rollouts // parts}"
        part_word = "part" if parts == 1 else "parts"
        got = f"{per_device} for {product} in {parts} {part_word}"
        raise InvalidInput(where, name, allowed, got, "Choose one, or leave it out.")
    smallest = _smallest_evaluation_batch(group, held_out, world)
    evaluated = smallest * max(1, per_device // smallest)
    if held_out is not None and held_out.batch is not None:
        evaluated = held_out.batch
        if evaluated % smallest:
            remedy = "A batch has whole groups on all processes."
            raise InvalidInput(
                where, "held_out.batch", f"a multiple of {smallest}", str(evaluated), remedy
            )
    return BatchSplit(
        rollouts=rollouts,
        per_device=per_device,
        accumulation=rollouts // portion,
        steps_per_generation=rollouts // (per_device * world),
        evaluated=evaluated,
    )


def evaluation_batch_size(
    split: BatchSplit, held_out: HeldOut, group: int, prompts: int, row_bytes: float, world: int
) -> int:
    """Rollouts that a device answers at a time: as many as in training, if their logits fit into memory.

    Sampling a batch takes little longer than sampling one row, so large batches are better.
    group: rollouts per prompt in training. row_bytes: of the logits of one rollout, tokens × vocabulary × 8.
    All batches have the same size, because TRL logs the mean over batches, which must be the mean over prompts. If
    every such size is less than half of `split.evaluated`, that is used although the last batch is smaller then.
    """
    if held_out.batch is not None:
        return held_out.batch
    smallest = _smallest_evaluation_batch(group, held_out, world)
    largest_that_fits = min(split.rollouts // world, int(LOGITS_BYTES / max(row_bytes, 1.0)))
    per_process, remainder = divmod(prompts * (held_out.rollouts or group), world)
    equal_size = 0
    if not remainder:
        sizes = range(smallest, largest_that_fits + 1, smallest)
        equal_size = max((size for size in sizes if per_process % size == 0), default=0)
    return equal_size if 2 * equal_size >= split.evaluated else split.evaluated


def _smallest_evaluation_batch(group: int, held_out: HeldOut | None, world: int) -> int:
    """The fewest rollouts per device such that all devices together have whole groups."""
    rollouts = (held_out.rollouts if held_out is not None else None) or group
    return rollouts // math.gcd(rollouts, world)
