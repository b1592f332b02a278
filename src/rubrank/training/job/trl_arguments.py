"""A plan as TRL's GRPOConfig.

training.num_generations, training.epsilon …      as they are
training.prompts_per_batch, updates_per_batch     per_device_train_batch_size, gradient_accumulation_steps …
held_out                                          eval_strategy, eval_steps, num_generations_eval …
trl                                               whatever else GRPOConfig takes
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from rubrank._files import require_file
from rubrank._plain import word_list
from rubrank.errors import InvalidInput, RubrankError, UnknownName
from rubrank.training.job.batches import evaluation_batch_size
from rubrank.training.job.config import HeldOut, Job, Training
from rubrank.training.job.policy import check_packages, init_kwargs, vocabulary
from rubrank.training.job.precision import turn_off_half_precision
from rubrank.training.job.rehearsal import check_known, describe_error
from rubrank.training.job.trl_values import check_values

if TYPE_CHECKING:
    from rubrank.training.job.plan import Plan

_LIKE_TRL = word_list("""
    num_generations max_completion_length temperature top_p learning_rate optim weight_decay lr_scheduler_type
    warmup_steps max_grad_norm importance_sampling_level loss_type epsilon epsilon_high beta scale_rewards
    logging_steps save_steps save_total_limit
""")
"""Settings that are arguments of GRPOConfig as they are."""


_BATCH = "It follows from training.prompts_per_batch, updates_per_batch and per_device_train_batch_size."
_HELD_OUT = "It follows from held_out."
_ORDER = "The order of the prompts is laid out from stages and seed."
_SECRET = "Set HF_TOKEN in the environment: the config is kept in the run's folder."
_VERB = "`rubrank train` says so itself."

OURS: Mapping[str, str] = {
    **dict.fromkeys(Training.model_fields, "It has a key of its own, under training."),
    "output_dir": "It has a key of its own: output.",
    "max_steps": "It follows from the steps of stages.",
    "num_train_epochs": "It follows from the steps of stages.",
    "seed": "It has a key of its own: seed.",
    "data_seed": _ORDER,
    "report_to": "It has a key of its own: report_to.",
    **dict.fromkeys(("gradient_accumulation_steps", "steps_per_generation", "generation_batch_size"), _BATCH),
    "num_iterations": "It follows from training.updates_per_batch.",
    **dict.fromkeys(("shuffle_dataset", "train_sampling_strategy", "ignore_data_skip"), _ORDER),
    **dict.fromkeys(("eval_strategy", "eval_steps", "eval_on_start", "num_generations_eval"), _HELD_OUT),
    "per_device_eval_batch_size": _HELD_OUT,
    "save_strategy": "Checkpoints follow from training.save_steps.",
    "reward_weights": "There is one reward; weights of criteria are in the rubric.",
    "remove_unused_columns": "The reward needs all columns.",
    "resume_from_checkpoint": "Use `resume=true`.",
    **dict.fromkeys(("do_train", "do_eval", "do_predict"), _VERB),
    "local_rank": "The launcher says so.",
    "hub_token": _SECRET,
    "parallelism_config": "It is an object of Python; fsdp_config and deepspeed can be written in a config.",
}
"""Arguments of GRPOConfig that `trl` does not take, and why."""

_FILES = ("deepspeed", "fsdp_config", "accelerator_config")
"""Arguments that may name a file, which is beside the config."""


def check_arguments(job: Job) -> None:
    """Keys under `trl`: known to GRPOConfig, and not decided elsewhere; words that only the trainer knows."""
    from trl import GRPOConfig

    known = {field.name for field in fields(GRPOConfig) if field.init} - OURS.keys()
    for name, value in job.config.trl.items():
        if name in OURS:
            raise InvalidInput(job.where, f"trl.{name}", "left out", repr(value), OURS[name])
        if name not in known:
            near = get_close_matches(name, sorted(known), n=1)
            remedy = f"Did you mean {near[0]!r}?" if near else "See TRL's GRPOConfig."
            raise UnknownName(job.where, "trl", "arguments of TRL's GRPOConfig", repr(name), remedy)
    _check_words(job)
    given = read_trl_arguments(job)
    if given.get("deepspeed"):
        check_packages(job, {"deepspeed": "pip install deepspeed, or leave trl.deepspeed out"})
    _check_together(job, given)


def read_trl_arguments(job: Job) -> dict[str, Any]:
    """What stands under `trl`, each value of a kind and in a range that it can have."""
    from trl import GRPOConfig

    found = check_values(job.config.trl, GRPOConfig, job.where, "trl")
    for name in _FILES:
        if isinstance(found.get(name), str) and not found[name].lstrip().startswith("{"):
            path = job.path(found[name])
            found[name] = str(require_file(path, owner=job.where, what=f"trl.{name}", remedy="Or write a mapping."))
    found.pop("model_init_kwargs", None)  # with the model
    return found


def _check_together(job: Job, given: Mapping[str, Any]) -> None:
    """What TRL's trainer refuses once the model is loaded."""
    training = job.config.training
    if given.get("sync_ref_model") and training.beta == 0.0:
        remedy = "Without a KL term there is no reference model."
        raise InvalidInput(job.where, "trl.sync_ref_model", "false with training.beta = 0", "true", remedy)
    if given.get("sync_ref_model") and job.config.model.lora is not None:
        remedy = "The reference is the model without its adapters."
        raise InvalidInput(job.where, "trl.sync_ref_model", "false with model.lora", "true", remedy)
    if (given.get("liger_kernel_config") or {}).get("fused_linear_cross_entropy"):
        name = "trl.liger_kernel_config.fused_linear_cross_entropy"
        raise InvalidInput(job.where, name, "false", "true", "TRL has a fused head of its own.")
    if given.get("bf16") and given.get("fp16"):
        raise InvalidInput(job.where, "trl.fp16", "false with trl.bf16", "true", "Choose one of them.")
    low, high = given.get("entropy_coef_min", 0.0), given.get("entropy_coef_max", 1.0)
    if given.get("use_adaptive_entropy") and low > high:
        raise InvalidInput(job.where, "trl.entropy_coef_min", f"≤ entropy_coef_max ({high:g})", f"{low:g}", "")
    mode, truncating = given.get("vllm_importance_sampling_mode", "sequence_mask"), ("token_truncate", "token_mask")
    corrects = given.get("use_vllm") and given.get("vllm_importance_sampling_correction", True)
    if training.loss_type == "vespo" and corrects and mode not in truncating:
        name = "trl.vllm_importance_sampling_mode"
        raise InvalidInput(job.where, name, "token_truncate or token_mask with loss_type vespo", repr(mode), "")
    if given.get("use_vllm") and given.get("use_transformers_continuous_batching"):
        name = "trl.use_transformers_continuous_batching"
        raise InvalidInput(job.where, name, "false with use_vllm", "true", "One of them samples.")


def _check_words(job: Job) -> None:
    """Settings that are words which only the trainer knows."""
    from transformers import SchedulerType
    from transformers.training_args import OptimizerNames

    known: dict[str, Any] = {"optim": OptimizerNames, "lr_scheduler_type": SchedulerType}
    for name, words in known.items():
        check_known(job, f"training.{name}", [getattr(job.config.training, name)], [word.value for word in words])


def make_arguments(plan: Plan) -> Any:
    """Of the trainer; raises for what TRL itself refuses."""
    from trl import GRPOConfig

    config = plan.job.config
    split = plan.split
    given = {
        **{name: getattr(config.training, name) for name in _LIKE_TRL},
        "output_dir": str(plan.job.output),
        "max_steps": config.steps,
        "seed": config.seed,
        "per_device_train_batch_size": split.per_device,
        "gradient_accumulation_steps": split.accumulation,
        "steps_per_generation": split.steps_per_generation,
        "shuffle_dataset": False,  # the order is laid out
        "report_to": list(config.report_to),
        "save_strategy": "steps",
        "disable_tqdm": True,
        "model_init_kwargs": init_kwargs(plan.job),
        **_device(),
        **_evaluation(plan),
    }
    given |= read_trl_arguments(plan.job)
    turn_off_half_precision(plan.job, given)
    try:
        return GRPOConfig(**given)
    except RubrankError:
        raise
    except Exception as error:  # each setting, and each library behind it, has its own kinds
        raise InvalidInput(plan.job.where, "trl", "what TRL's GRPOConfig takes", describe_error(error), "") from None


def _evaluation(plan: Plan) -> dict[str, Any]:
    held_out = plan.job.config.held_out
    if held_out is None:
        return {}
    return {
        "eval_strategy": "steps",
        "eval_steps": held_out.every,
        "num_generations_eval": held_out.rollouts,
        "per_device_eval_batch_size": _evaluated(plan, held_out),
        "eval_on_start": plan.checkpoint is None,  # a resumed run has been evaluated where it stopped
    }


def _evaluated(plan: Plan, held_out: HeldOut) -> int:
    training = plan.job.config.training
    row_bytes = 8.0 * training.max_completion_length * vocabulary(plan.job)
    return evaluation_batch_size(
        plan.split, held_out, training.num_generations, len(plan.held_out), row_bytes, plan.processes
    )


def _device() -> dict[str, Any]:
    import torch

    gpu = torch.cuda.is_available()
    return {
        # without this, processes on CPUs would not know of each other
        "use_cpu": not torch.accelerator.is_available(),
        "bf16": gpu and torch.cuda.is_bf16_supported(),
        "dataloader_pin_memory": gpu,
    }
