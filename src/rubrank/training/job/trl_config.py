"""A job as TRL's GRPOConfig, with every value checked before the model is loaded.

    training.num_generations, training.epsilon …      as they are
    training.prompts_per_batch, updates_per_batch     per_device_train_batch_size, gradient_accumulation_steps …
    held_out                                          eval_strategy, eval_steps, num_generations_eval …
    trl                                               all other arguments of GRPOConfig

GRPOConfig checks few of its values. A wrong value would be noticed in the first step, after the model was loaded and a
batch was sampled, or never. So values are checked in three places:

    check_arguments    names, types and ranges of the arguments under `trl`, and combinations that are not allowed
    make_arguments     GRPOConfig's own checks
    try_arguments      makes the optimizer, the schedule and so on for a policy with a single weight
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rubrank._files import require_file
from rubrank._plain import word_list
from rubrank.errors import UnknownName
from rubrank.training.job.checks import check_known, check_packages, check_values, describe_error
from rubrank.training.job.config import Job, Training
from rubrank.training.job.data import choose_evaluation_batch_size
from rubrank.training.job.policy import count_vocabulary, make_init_kwargs, turn_off_half_precision

if TYPE_CHECKING:
    from rubrank.training.job.plan import Plan

_SAME_IN_TRL = word_list("""
    num_generations max_completion_length temperature top_p learning_rate optim weight_decay lr_scheduler_type
    warmup_steps max_grad_norm importance_sampling_level loss_type epsilon epsilon_high beta scale_rewards
    logging_steps save_steps save_total_limit
""")
"""Settings under `training` that are passed to GRPOConfig unchanged."""

_BATCH_REMEDY = "It follows from prompts_per_batch and the other batch settings under training."
_HELD_OUT_REMEDY = "It follows from held_out."
_ORDER_REMEDY = "The order of the prompts is laid out from stages and seed."
_STEPS_REMEDY = "It follows from the steps of stages."
_TRAIN_REMEDY = "`rubrank train` decides it."

DECIDED_ELSEWHERE: Mapping[str, str] = {
    **dict.fromkeys(Training.model_fields, "It has a key of its own, under training."),
    "output_dir": "It has a key of its own: output.",
    "max_steps": _STEPS_REMEDY,
    "num_train_epochs": _STEPS_REMEDY,
    "seed": "It has a key of its own: seed.",
    "data_seed": _ORDER_REMEDY,
    "report_to": "It has a key of its own: report_to.",
    "gradient_accumulation_steps": _BATCH_REMEDY,
    "steps_per_generation": _BATCH_REMEDY,
    "generation_batch_size": _BATCH_REMEDY,
    "num_iterations": "It follows from training.updates_per_batch.",
    "shuffle_dataset": _ORDER_REMEDY,
    "train_sampling_strategy": _ORDER_REMEDY,
    "ignore_data_skip": _ORDER_REMEDY,
    "eval_strategy": _HELD_OUT_REMEDY,
    "eval_steps": _HELD_OUT_REMEDY,
    "eval_on_start": _HELD_OUT_REMEDY,
    "num_generations_eval": _HELD_OUT_REMEDY,
    "per_device_eval_batch_size": _HELD_OUT_REMEDY,
    "save_strategy": "Checkpoints follow from training.save_steps.",
    "reward_weights": "There is one reward; weights of criteria are in the rubric.",
    "remove_unused_columns": "The reward needs all columns.",
    "resume_from_checkpoint": "Use `resume=true`.",
    "do_train": _TRAIN_REMEDY,
    "do_eval": _TRAIN_REMEDY,
    "do_predict": _TRAIN_REMEDY,
    "local_rank": "The launcher decides it.",
    "hub_token": "Set HF_TOKEN in the environment: the config is kept in the run's folder.",
    "parallelism_config": "It is a Python object; fsdp_config and deepspeed can be written in a config.",
}
"""Arguments of GRPOConfig that may not be set under `trl`, and why."""

_FILE_ARGUMENTS = ("deepspeed", "fsdp_config", "accelerator_config")
"""Arguments that may be the path of a file, relative to the config file."""


def make_arguments(plan: Plan) -> Any:
    """The trainer's arguments as a GRPOConfig; raises for what GRPOConfig refuses."""
    import torch
    from trl import GRPOConfig

    config = plan.job.config
    split = plan.split
    arguments = {name: getattr(config.training, name) for name in _SAME_IN_TRL}
    arguments |= {
        "output_dir": str(plan.job.output),
        "max_steps": config.steps,
        "seed": config.seed,
        "per_device_train_batch_size": split.per_device,
        "gradient_accumulation_steps": split.accumulation,
        "steps_per_generation": split.steps_per_generation,
        "shuffle_dataset": False,  # the order of the prompts was decided in the plan
        "report_to": list(config.report_to),
        "save_strategy": "steps",
        "disable_tqdm": True,
        "model_init_kwargs": make_init_kwargs(plan.job),
    }
    trl_arguments = read_trl_arguments(plan.job)
    has_gpu = torch.cuda.is_available()
    has_bf16 = has_gpu and torch.cuda.is_bf16_supported()
    arguments |= {
        # Without it, several processes on CPUs would not form one distributed run.
        "use_cpu": not torch.accelerator.is_available(),
        # GPUs that can use bf16 do so by default; GRPOConfig refuses it together with fp16.
        "bf16": has_bf16 and not trl_arguments.get("fp16"),
        "dataloader_pin_memory": has_gpu,
    }
    arguments |= _evaluation_arguments(plan)
    arguments |= trl_arguments
    turn_off_half_precision(plan.job, arguments)
    try:
        return GRPOConfig(**arguments)
    except Exception as error:  # each setting, and each library behind it, raises its own errors
        raise plan.job.invalid(
            "trl", "what TRL's GRPOConfig takes", describe_error(error)
        ) from None


def _evaluation_arguments(plan: Plan) -> dict[str, Any]:
    """Arguments of evaluations on held-out prompts; none if the config has no such prompts."""
    held_out = plan.job.config.held_out
    if held_out is None:
        return {}
    training = plan.job.config.training
    row_bytes = 8.0 * training.max_completion_length * count_vocabulary(plan.job)
    batch_size = choose_evaluation_batch_size(
        plan.split,
        held_out,
        training.num_generations,
        len(plan.held_out),
        row_bytes,
        plan.processes,
    )
    return {
        "eval_strategy": "steps",
        "eval_steps": held_out.every,
        "num_generations_eval": held_out.rollouts,
        "per_device_eval_batch_size": batch_size,
        "eval_on_start": plan.checkpoint is None,  # a resumed run was evaluated before it stopped
    }


# ------------------------------------------------------------------------------------------------- names and relations


def check_arguments(job: Job) -> None:
    """Check the arguments under `trl`, and the optimizer and schedule under `training`."""
    from transformers import SchedulerType
    from transformers.training_args import OptimizerNames
    from trl import GRPOConfig

    all_names = {field.name for field in fields(GRPOConfig) if field.init}
    argument_names = all_names - DECIDED_ELSEWHERE.keys()
    for name, value in job.config.trl.items():
        if name in DECIDED_ELSEWHERE:
            raise job.invalid(f"trl.{name}", "left out", repr(value), DECIDED_ELSEWHERE[name])
        if name not in argument_names:
            similar = get_close_matches(name, sorted(argument_names), n=1)
            remedy = f"Did you mean {similar[0]!r}?" if similar else "See TRL's GRPOConfig."
            raise UnknownName(job.where, "trl", "arguments of TRL's GRPOConfig", repr(name), remedy)
    training = job.config.training
    check_known(job, "training.optim", [training.optim], [word.value for word in OptimizerNames])
    schedules = [word.value for word in SchedulerType]
    check_known(job, "training.lr_scheduler_type", [training.lr_scheduler_type], schedules)
    arguments = read_trl_arguments(job)
    if arguments.get("deepspeed"):
        check_packages(job, {"deepspeed": "pip install deepspeed, or leave trl.deepspeed out"})
    _check_combinations(job, arguments)


def read_trl_arguments(job: Job) -> dict[str, Any]:
    """The arguments under `trl` except `model_init_kwargs`; raises for one of a wrong type or out of range."""
    from trl import GRPOConfig

    arguments = check_values(job.config.trl, GRPOConfig, job.where, "trl")
    for name in _FILE_ARGUMENTS:
        value = arguments.get(name)
        if isinstance(value, str) and not value.lstrip().startswith("{"):
            path = job.path(value)
            file = require_file(
                path, owner=job.where, what=f"trl.{name}", remedy="Or write a mapping."
            )
            arguments[name] = str(file)
    arguments.pop("model_init_kwargs", None)
    return arguments


def _check_combinations(job: Job, arguments: Mapping[str, Any]) -> None:
    """Raise for combinations that TRL's trainer refuses once the model is loaded."""
    training = job.config.training

    def refuse(name: str, allowed: str, got: str = "true", remedy: str = "") -> None:
        raise job.invalid(f"trl.{name}", allowed, got, remedy)

    if arguments.get("sync_ref_model") and training.beta == 0.0:
        remedy = "Without a KL term there is no reference model."
        refuse("sync_ref_model", "false with training.beta = 0", remedy=remedy)
    if arguments.get("sync_ref_model") and job.config.model.lora is not None:
        remedy = "The reference is the model without its adapters."
        refuse("sync_ref_model", "false with model.lora", remedy=remedy)
    if (arguments.get("liger_kernel_config") or {}).get("fused_linear_cross_entropy"):
        name = "liger_kernel_config.fused_linear_cross_entropy"
        refuse(name, "false", remedy="TRL has a fused head of its own.")
    if arguments.get("bf16") and arguments.get("fp16"):
        refuse("fp16", "false with trl.bf16", remedy="Choose one of them.")
    lowest = arguments.get("entropy_coef_min", 0.0)
    highest = arguments.get("entropy_coef_max", 1.0)
    if arguments.get("use_adaptive_entropy") and lowest > highest:
        refuse("entropy_coef_min", f"≤ entropy_coef_max ({highest:g})", f"{lowest:g}")
    mode = arguments.get("vllm_importance_sampling_mode", "sequence_mask")
    use_vllm = arguments.get("use_vllm")
    is_corrected = use_vllm and arguments.get("vllm_importance_sampling_correction", True)
    is_token_mode = mode in ("token_truncate", "token_mask")
    if training.loss_type == "vespo" and is_corrected and not is_token_mode:
        allowed = "token_truncate or token_mask with loss_type vespo"
        refuse("vllm_importance_sampling_mode", allowed, repr(mode))
    if use_vllm and arguments.get("use_transformers_continuous_batching"):
        name = "use_transformers_continuous_batching"
        refuse(name, "false with use_vllm", remedy="Only one of them can sample.")


# ------------------------------------------------------------------------------------------------------------- trials

_LENGTH_REMEDY = "It is training.max_completion_length."
_GROUP_SIZE_REMEDY = "A group is training.num_generations samples."
_UNDER_TRL = "It has a key of its own, under trl."
_UNDER_TRAINING = "It has a key of its own, under training."
_GENERATION_DECIDED_ELSEWHERE: Mapping[str, str] = {
    "max_new_tokens": _LENGTH_REMEDY,
    "max_length": _LENGTH_REMEDY,
    "max_tokens": _LENGTH_REMEDY,
    "temperature": _UNDER_TRAINING,
    "top_p": _UNDER_TRAINING,
    "top_k": _UNDER_TRL,
    "min_p": _UNDER_TRL,
    "repetition_penalty": _UNDER_TRL,
    "cache_implementation": _UNDER_TRL,
    "num_return_sequences": _GROUP_SIZE_REMEDY,
    "n": _GROUP_SIZE_REMEDY,
    "num_beams": _GROUP_SIZE_REMEDY,
    "do_sample": "A group needs samples that differ.",
}
"""Keys under `trl.generation_kwargs` that are decided elsewhere, and where."""

_PROJECTED_OPTIMIZERS = ("galore", "apollo")
"""First parts of the names of optimizers that need the model's weights, and cannot be tried without them."""
_LOGGED_METRICS = word_list("""
    loss reward reward_std frac_reward_zero_std entropy kl num_tokens runtime completions rewards clip_ratio sampling
    tools rubrank benchmark aux_loss
""")
"""First parts of the names of all metrics that an evaluation logs."""


def try_arguments(job: Job, arguments: Any) -> None:
    """Try what the trainer will do after it has loaded the model; raises for the first argument that fails."""
    import torch
    from torch.utils.checkpoint import checkpoint

    _try_optimizer(job, arguments)
    _try_schedule(job, arguments)
    _try_sampling(job, arguments)
    if arguments.dataloader_persistent_workers and not arguments.dataloader_num_workers:
        allowed = "false without trl.dataloader_num_workers"
        raise job.invalid("trl.dataloader_persistent_workers", allowed, "true")
    metric = arguments.metric_for_best_model
    if arguments.load_best_model_at_end and metric is not None:
        first_part = metric.removeprefix("eval_").partition("/")[0]
        if first_part not in _LOGGED_METRICS:
            allowed = f"logged by evaluations: {', '.join(_LOGGED_METRICS)}"
            raise job.invalid("trl.metric_for_best_model", allowed, repr(metric))
    if arguments.gradient_checkpointing:
        # `checkpoint` passes unknown arguments on to the layer, which would fail.
        parameters = inspect.signature(checkpoint).parameters.keys()
        names = parameters - {"function", "args", "kwargs"}
        options = arguments.gradient_checkpointing_kwargs or ()
        check_known(job, "trl.gradient_checkpointing_kwargs", options, names)
    if arguments.torch_compile and arguments.torch_compile_backend:
        backends = torch.compiler.list_backends(exclude_tags=())
        check_known(job, "trl.torch_compile_backend", [arguments.torch_compile_backend], backends)
    if arguments.push_to_hub:
        _check_hub(job, arguments)


def _try(job: Job, parameter: str, allowed: str, make: Callable[[], Any]) -> None:
    """Call `make`; its error becomes one about the parameter."""
    try:
        make()
    except Exception as error:  # each setting, and each library behind it, raises its own errors
        raise job.invalid(parameter, allowed, describe_error(error)) from None


def _try_optimizer(job: Job, arguments: Any) -> None:
    from transformers import Trainer

    name = str(getattr(arguments.optim, "value", arguments.optim))
    if arguments.optim_args:
        for part in arguments.optim_args.replace(" ", "").split(","):
            if part.count("=") != 1:
                allowed = "name=value, and commas between them"
                raise job.invalid("trl.optim_args", allowed, repr(part))
    is_projected = name.startswith(_PROJECTED_OPTIMIZERS)
    if is_projected and not arguments.optim_target_modules:
        allowed = f"given with training.optim: {name}"
        raise job.invalid("trl.optim_target_modules", allowed, "none", "Such as [attn, mlp].")
    try:
        Trainer.get_optimizer_cls_and_kwargs(arguments, None)
    except Exception as error:  # each optimizer raises its own errors
        if is_projected and not isinstance(error, ImportError):
            return
        allowed = f"one that can be made ({name})"
        raise job.invalid("training.optim", allowed, describe_error(error)) from None


def _try_schedule(job: Job, arguments: Any) -> None:
    import torch
    from transformers import get_scheduler

    kind = str(getattr(arguments.lr_scheduler_type, "value", arguments.lr_scheduler_type))
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=arguments.learning_rate)

    def make_schedule() -> Any:
        return get_scheduler(
            kind,
            optimizer,
            num_warmup_steps=arguments.get_warmup_steps(arguments.max_steps),
            num_training_steps=arguments.max_steps,
            scheduler_specific_kwargs=dict(arguments.lr_scheduler_kwargs or {}),
        )

    _try(job, "trl.lr_scheduler_kwargs", f"what the schedule {kind!r} takes", make_schedule)


def _try_sampling(job: Job, arguments: Any) -> None:
    options = arguments.generation_kwargs or {}
    for name, value in options.items():
        if name in _GENERATION_DECIDED_ELSEWHERE:
            remedy = _GENERATION_DECIDED_ELSEWHERE[name]
            raise job.invalid(f"trl.generation_kwargs.{name}", "left out", repr(value), remedy)
    if arguments.use_transformers_continuous_batching:
        from transformers.generation import ContinuousBatchingConfig

        batching = dict(arguments.transformers_continuous_batching_config or {})
        name = "trl.transformers_continuous_batching_config"
        _try(job, name, "what transformers takes", lambda: ContinuousBatchingConfig(**batching))
    if arguments.use_vllm:
        url = arguments.vllm_server_base_url
        is_url = url is None or (
            urlsplit(url).scheme in ("http", "https") and urlsplit(url).hostname
        )
        if not is_url:
            remedy = "Such as http://host:8000."
            raise job.invalid("trl.vllm_server_base_url", "a URL", repr(url), remedy)
        parts = arguments.vllm_tensor_parallel_size
        if arguments.vllm_mode == "colocate" and arguments.world_size % parts:
            allowed = f"a divisor of the {arguments.world_size} processes with vllm_mode: colocate"
            raise job.invalid("trl.vllm_tensor_parallel_size", allowed, str(parts))
    elif options:
        from transformers import GenerationConfig

        name = "trl.generation_kwargs"
        allowed_names = vars(GenerationConfig()).keys() | {"generation_config"}
        check_known(job, name, options, allowed_names)
        _try(job, name, "what transformers takes", lambda: GenerationConfig(**options).validate())


def _check_hub(job: Job, arguments: Any) -> None:
    from huggingface_hub import get_token
    from huggingface_hub.utils import validate_repo_id

    if arguments.hub_model_id is not None:
        _try(
            job, "trl.hub_model_id", "owner/name", lambda: validate_repo_id(arguments.hub_model_id)
        )
    if get_token() is None:
        allowed = "false without a token of the hub"
        raise job.invalid("trl.push_to_hub", allowed, "true", "Set HF_TOKEN.")
