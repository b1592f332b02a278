"""A plan as TRL's GRPOConfig.

training.num_generations, training.epsilon …      as they are
training.prompts_per_batch, updates_per_batch     per_device_train_batch_size, gradient_accumulation_steps …
held_out                                          eval_strategy, eval_steps, num_generations_eval …
trl                                               whatever else GRPOConfig takes
"""

from __future__ import annotations

from dataclasses import fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from rubrank._plain import shortened
from rubrank.errors import InvalidInput, UnknownName
from rubrank.training.job.job import Job, Training

if TYPE_CHECKING:
    from rubrank.training.job.plan import Plan

_LIKE_TRL = (
    "num_generations",
    "max_completion_length",
    "temperature",
    "top_p",
    "learning_rate",
    "optim",
    "weight_decay",
    "lr_scheduler_type",
    "warmup_steps",
    "max_grad_norm",
    "importance_sampling_level",
    "loss_type",
    "epsilon",
    "epsilon_high",
    "beta",
    "scale_rewards",
    "logging_steps",
    "save_steps",
    "save_total_limit",
)
"""Settings that are arguments of GRPOConfig as they are."""


OURS = frozenset(
    {
        *Training.model_fields,
        "output_dir",
        "max_steps",
        "num_train_epochs",
        "seed",
        "data_seed",
        "report_to",
        "gradient_accumulation_steps",
        "steps_per_generation",
        "generation_batch_size",
        "num_iterations",
        "shuffle_dataset",
        "eval_strategy",
        "eval_steps",
        "eval_on_start",
        "num_generations_eval",
        "per_device_eval_batch_size",
        "save_strategy",
        "model_init_kwargs",
        "reward_weights",
        "remove_unused_columns",
        "ignore_data_skip",
    }
)
"""Arguments of GRPOConfig that follow from the other sections of a config."""


def check_arguments(job: Job) -> None:
    """Keys under `trl`: known to GRPOConfig, and not decided elsewhere; words that only the trainer knows."""
    from trl import GRPOConfig

    known = {field.name for field in fields(GRPOConfig) if field.init} - OURS
    for name, value in job.config.trl.items():
        if name in OURS:
            remedy = "It has a key of its own." if name in Training.model_fields else "It follows from other keys."
            raise InvalidInput(job.where, f"trl.{name}", "left out", repr(value), remedy)
        if name not in known:
            near = get_close_matches(name, sorted(known), n=1)
            remedy = f"Did you mean {near[0]!r}?" if near else "See TRL's GRPOConfig."
            raise UnknownName(job.where, "trl", "arguments of TRL's GRPOConfig", repr(name), remedy)
    _check_words(job)


def _check_words(job: Job) -> None:
    """Settings that are words which only the trainer knows."""
    from transformers import SchedulerType
    from transformers.training_args import OptimizerNames

    known: dict[str, Any] = {"optim": OptimizerNames, "lr_scheduler_type": SchedulerType}
    for name, words in known.items():
        given = getattr(job.config.training, name)
        if given not in (names := [word.value for word in words]):
            raise UnknownName.of(job.where, f"training.{name}", given, names)


def arguments(plan: Plan) -> Any:
    """Of the trainer; raises for what TRL itself refuses."""
    from trl import GRPOConfig

    config, cut = plan.job.config, plan.cut
    given = {
        **{name: getattr(config.training, name) for name in _LIKE_TRL},
        "output_dir": str(plan.job.output),
        "max_steps": config.steps,
        "seed": config.seed,
        "per_device_train_batch_size": cut.per_device,
        "gradient_accumulation_steps": cut.accumulation,
        "steps_per_generation": cut.steps_per_generation,
        "shuffle_dataset": False,  # the order is laid out
        "report_to": list(config.report_to),
        "save_strategy": "steps",
        "disable_tqdm": True,
        "model_init_kwargs": {"dtype": config.model.dtype},
        **_device(),
        **_evaluation(plan),
    }
    try:
        return GRPOConfig(**{**given, **config.trl})
    except (TypeError, ValueError, ImportError) as error:
        got = shortened(" ".join(str(error).split()), 240)
        raise InvalidInput(plan.job.where, "trl", "what TRL's GRPOConfig takes", got, "Change it.") from None


def _evaluation(plan: Plan) -> dict[str, Any]:
    held_out = plan.job.config.held_out
    if held_out is None:
        return {}
    return {
        "eval_strategy": "steps",
        "eval_steps": held_out.every,
        "num_generations_eval": held_out.rollouts,
        "per_device_eval_batch_size": plan.cut.evaluated,
        "eval_on_start": plan.checkpoint is None,  # a resumed run has been evaluated where it stopped
    }


def _device() -> dict[str, Any]:
    import torch

    gpu = torch.cuda.is_available()
    return {
        # without this, processes on CPUs would not know of each other
        "use_cpu": not torch.accelerator.is_available(),
        "bf16": gpu and torch.cuda.is_bf16_supported(),
        "dataloader_pin_memory": gpu,
    }
