"""How a batch is cut over devices."""

from __future__ import annotations

import pytest
from cases import folded

from rubrank.errors import InvalidInput
from rubrank.training.job.config import HeldOut, Source, Training
from rubrank.training.job.data import choose_evaluation_batch_size, split_batch


def test_by_default_one_group_at_a_time():
    found = split_batch(Training(prompts_per_batch=16), None, 1, "x")
    assert (found.rollouts, found.per_device, found.accumulation, found.steps_per_generation) == (128, 8, 16, 16)


@folded("world", [1, 2, 3, 4, 8])
@folded("updates", [1, 2, 4])
@folded("per_device", [None, 1, 2])
def test_every_rollout_is_used_once_in_each_batch(world, updates, per_device):
    training = Training(prompts_per_batch=24, updates_per_batch=updates, per_device_train_batch_size=per_device)
    found = split_batch(training, None, world, "x")
    assert found.per_device * world * found.accumulation * updates == found.rollouts == 192
    assert found.per_device * world * found.steps_per_generation == found.rollouts
    assert (found.evaluated * world) % 8 == 0  # TRL wants whole groups there


def test_evaluations_have_groups_of_their_own():
    held_out = HeldOut(sources=(Source(path="x"),), rollouts=6)
    assert (split_batch(Training(), held_out, 4, "x").evaluated * 4) % 6 == 0
    assert split_batch(Training(per_device_train_batch_size=64), held_out, 1, "x").evaluated == 60


@pytest.mark.parametrize(
    ("training", "world", "said"),
    [
        (
            Training(prompts_per_batch=4, per_device_train_batch_size=5),
            1,
            "per_device_train_batch_size must be a divisor of 32; got 5 for 4 prompts × 8 rollouts = 32, parts: 1.",
        ),
        (Training(prompts_per_batch=4, per_device_train_batch_size=16), 4, "a divisor of 8; got 16 for 4 prompts"),
        (
            Training(prompts_per_batch=1, num_generations=8),
            3,
            "prompts_per_batch must be such that a batch is a multiple of 3 rollouts; got 1 prompts × 8 rollouts = 8",
        ),
        (Training(prompts_per_batch=1, updates_per_batch=5), 1, "a multiple of 5 rollouts"),
    ],
)
def test_numbers_that_do_not_fit(training, world, said):
    with pytest.raises(InvalidInput) as raised:
        split_batch(training, None, world, "job.yaml")
    assert said in str(raised.value)


def at_once(held_out, prompts, *, row_bytes=1.0, world=1, **training):
    settings = Training(**training)
    found = split_batch(settings, held_out, world, "x")
    return choose_evaluation_batch_size(found, held_out, settings.num_generations, prompts, row_bytes, world)


def test_evaluations_take_as_many_as_training_samples_together():
    held_out = HeldOut(sources=[{"path": "x.jsonl"}], rollouts=4)
    recipe = {"prompts_per_batch": 4, "num_generations": 8, "per_device_train_batch_size": 8}
    assert split_batch(Training(**recipe), held_out, 1, "x").evaluated == 8
    assert at_once(held_out, 64, **recipe) == 32
    assert at_once(held_out, 64, row_bytes=1e8, **recipe) == 16  # 20 would fit, which does not go into 256
    assert at_once(held_out, 64, row_bytes=1e12, **recipe) == 8
    assert at_once(held_out, 7, **recipe) == 28
    assert at_once(held_out, 64, world=2, **recipe) == 16


@pytest.mark.parametrize("world", [1, 2, 3, 4])
@pytest.mark.parametrize("prompts", [1, 5, 12, 64])
def test_evaluated_batches_hold_whole_groups(world, prompts):
    held_out = HeldOut(sources=[{"path": "x.jsonl"}], rollouts=6)
    assert at_once(held_out, prompts, world=world, prompts_per_batch=12) * world % 6 == 0


def test_a_batch_of_evaluations_that_was_asked_for():
    held_out = HeldOut(sources=[{"path": "x.jsonl"}], rollouts=4, batch=64)
    assert at_once(held_out, 10) == 64
    with pytest.raises(InvalidInput, match=r"held_out.batch must be a multiple of 4; got 6"):
        split_batch(Training(), HeldOut(sources=[{"path": "x.jsonl"}], rollouts=4, batch=6), 1, "x")
