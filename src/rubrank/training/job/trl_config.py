"""A job as TRL's GRPOConfig, made before the model is loaded.

    training.num_generations, training.epsilon …      as they are
    training.prompts_per_batch, updates_per_batch     per_device_train_batch_size, gradient_accumulation_steps …
    held_out                                          eval_strategy, eval_steps, num_generations_eval …
    trl                                               all other arguments of GRPOConfig

GRPOConfig checks its values itself, and `try_arguments` makes the optimizer, the schedule and the sampling options with
them, for a policy with a single weight. What only the trainer can check is refused when the trainer is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rubrank._files import require_file
from rubrank._plain import word_list, word_set
from rubrank.training.job.checks import check_known, describe_error, read_arguments
from rubrank.training.job.config import Job, Training
from rubrank.training.job.data import choose_evaluation_batch_size
from rubrank.training.job.policy import (
    HALF_PRECISION_FLAGS,
    count_vocabulary,
    is_on_cpu,
    make_init_kwargs,
)

if TYPE_CHECKING:
    from rubrank.training.job.plan import Plan

_REMEDIES = {
    "It has its own key, under training.": tuple(Training.model_fields),
    "It has its own key, at the top of the config.": ("seed", "report_to"),
    "It has its own key: output.": ("output_dir",),
    "It follows from the steps of stages.": ("max_steps", "num_train_epochs"),
    "The order of the prompts is laid out from stages and seed.": word_list(
        "data_seed shuffle_dataset train_sampling_strategy ignore_data_skip"
    ),
    "It follows from prompts_per_batch and the other batch settings under training.": word_list(
        "gradient_accumulation_steps steps_per_generation generation_batch_size num_iterations"
    ),
    "It follows from held_out.": word_list(
        "eval_strategy eval_steps eval_on_start num_generations_eval per_device_eval_batch_size"
    ),
    "Checkpoints follow from training.save_steps.": ("save_strategy",),
    "There is one reward; weights of criteria are in the rubric.": ("reward_weights",),
    "The reward needs all columns.": ("remove_unused_columns",),
    "Use `resume=true`.": ("resume_from_checkpoint",),
    "`rubrank train` decides it.": word_list("do_train do_eval do_predict local_rank"),
    "Set HF_TOKEN in the environment: the config is kept in the run's folder.": ("hub_token",),
    "It is a Python object; fsdp_config and deepspeed can be written in a config.": (
        "parallelism_config",
    ),
}
DECIDED_ELSEWHERE: Mapping[str, str] = {
    name: remedy for remedy, names in _REMEDIES.items() for name in names
}
"""Arguments of GRPOConfig that may not be set under `trl`, and why."""

_OUR_SETTINGS = {"prompts_per_batch", "updates_per_batch", "per_device_train_batch_size"}
"""Settings under `training` that GRPOConfig does not have, or that are computed for it."""
_FILE_ARGUMENTS = ("deepspeed", "fsdp_config", "accelerator_config")
"""Arguments that may be the path of a file, relative to the config file."""


def check_arguments(job: Job) -> None:
    """Raise for the first argument under `trl` that is decided elsewhere, is unknown or has the wrong type."""
    for name, value in job.config.trl.items():
        if name in DECIDED_ELSEWHERE:
            raise job.invalid(f"trl.{name}", "left out", repr(value), DECIDED_ELSEWHERE[name])
    read_trl_arguments(job)  # only for its errors; `make_arguments` reads the arguments again


def read_trl_arguments(job: Job) -> dict[str, Any]:
    """The arguments under `trl` except `model_init_kwargs`.

    Raises for an unknown name, a wrong type, or a file that is missing.
    """
    from trl import GRPOConfig

    arguments = read_arguments(job, "trl", job.config.trl, GRPOConfig, DECIDED_ELSEWHERE)
    for name in _FILE_ARGUMENTS:
        value = arguments.get(name)
        if isinstance(value, str) and not value.lstrip().startswith("{"):
            path = job.path(value)
            remedy = "Or write a mapping."
            file = require_file(path, owner=job.where, what=f"trl.{name}", remedy=remedy)
            arguments[name] = str(file)
    # `make_init_kwargs` reads these.
    arguments.pop("model_init_kwargs", None)
    return arguments


def make_arguments(plan: Plan) -> Any:
    """The trainer's arguments as a GRPOConfig; raises for what GRPOConfig refuses."""
    import torch
    from trl import GRPOConfig

    config = plan.job.config
    split = plan.split
    trl_arguments = read_trl_arguments(plan.job)
    has_gpu = torch.cuda.is_available()
    has_bf16 = has_gpu and torch.cuda.is_bf16_supported()
    arguments = {
        **config.training.model_dump(exclude=_OUR_SETTINGS),
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
        # For accelerate: without it, several processes on a machine that has only CPUs would not form one distributed
        # run. A user who chooses the CPU on a machine with a GPU writes `use_cpu` under `trl`.
        "use_cpu": not torch.accelerator.is_available(),
        # GPUs that can use bf16 do so by default; GRPOConfig refuses it together with fp16.
        "bf16": has_bf16 and not trl_arguments.get("fp16"),
        "dataloader_pin_memory": has_gpu,
        **_evaluation_arguments(plan),
        **trl_arguments,
    }
    if is_on_cpu(plan.job):  # for any reason: the machine, `trl.use_cpu` or the launcher
        # Also those that are left out or null: TRL reads `bf16: null` as true.
        arguments |= dict.fromkeys(HALF_PRECISION_FLAGS, False)
    try:
        return GRPOConfig(**arguments)
    except Exception as error:  # GRPOConfig, transformers and accelerate raise their own errors
        allowed = "what TRL's GRPOConfig takes"
        raise plan.job.invalid("trl", allowed, describe_error(error)) from None


def _evaluation_arguments(plan: Plan) -> dict[str, Any]:
    """Arguments of evaluations on held-out prompts; none if the config has no such prompts."""
    held_out = plan.job.config.held_out
    if held_out is None:
        return {}
    training = plan.job.config.training
    # The logits of one rollout, a float32 of 4 bytes each; twice, because dividing them by the temperature copies them.
    row_bytes = 2 * 4.0 * training.max_completion_length * count_vocabulary(plan.job)
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


# ------------------------------------------------------------------------------------------------------------- trials

_GENERATION_DECIDED_ELSEWHERE = word_set("""
    max_new_tokens max_length max_tokens temperature top_p top_k min_p repetition_penalty cache_implementation
    num_return_sequences n num_beams do_sample
""")
"""Names that may not be under `trl.generation_kwargs`, where they would overwrite settings of the config."""
_PROJECTED_OPTIMIZERS = ("galore", "apollo")
"""First parts of the names of optimizers that need the model's weights, and cannot be tried without them."""
_LOGGED_METRICS = word_list("""
    loss reward reward_std frac_reward_zero_std entropy kl num_tokens runtime completions rewards clip_ratio sampling
    tools rubrank benchmark aux_loss
""")
"""First parts of the names of all metrics that an evaluation logs."""


def try_arguments(job: Job, arguments: Any) -> None:
    """Make the optimizer, the schedule and the sampling options of the run; raises for the first that fails."""
    import torch
    from transformers import GenerationConfig, Trainer, get_scheduler

    sampling = arguments.generation_kwargs or {}
    for name in sampling.keys() & _GENERATION_DECIDED_ELSEWHERE:
        remedy = "It follows from the settings under training and trl; groups are always sampled."
        got = repr(sampling[name])
        raise job.invalid(f"trl.generation_kwargs.{name}", "left out", got, remedy)
    weights = [torch.nn.Parameter(torch.zeros(1))]
    setting = "training.optim"  # the setting that is tried; the error names it
    try:
        if not arguments.optim.startswith(_PROJECTED_OPTIMIZERS):
            optimizer_class, options = Trainer.get_optimizer_cls_and_kwargs(arguments, None)
            optimizer_class(weights, **options)
        setting = "training.lr_scheduler_type"
        get_scheduler(
            arguments.lr_scheduler_type,
            torch.optim.SGD(weights),
            num_warmup_steps=arguments.get_warmup_steps(arguments.max_steps),
            num_training_steps=arguments.max_steps,
            scheduler_specific_kwargs=dict(arguments.lr_scheduler_kwargs or {}),
        )
        setting = "trl.generation_kwargs"
        if not arguments.use_vllm:
            GenerationConfig(**sampling).validate()
    except Exception as error:  # optimizers, schedules and generation raise their own errors
        raise job.invalid(setting, "one that can be made", describe_error(error)) from None
    if not arguments.use_vllm:
        # transformers would ignore other names.
        check_known(job, "trl.generation_kwargs", sampling, vars(GenerationConfig()).keys())
    metric = arguments.metric_for_best_model
    if arguments.load_best_model_at_end and metric is not None:
        first_part = metric.removeprefix("eval_").partition("/")[0]
        check_known(job, "trl.metric_for_best_model", [first_part], _LOGGED_METRICS)
