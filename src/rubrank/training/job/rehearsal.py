"""What the trainer would find out after the model was loaded, tried before it is.

    training.optim must be one that can be made; got You need to install `bitsandbytes` …
    trl.gradient_checkpointing_kwargs must be one of 'context_fn', …; got 'reentrant'. Did you mean 'use_reentrant'?

GRPOConfig takes words and mappings as they are; optimizer, schedule, data loader and sampling are made of them later.
Each of them is made here once, for a policy of a single weight.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Any
from urllib.parse import urlsplit

from rubrank._plain import shortened, word_list
from rubrank.errors import InvalidInput, UnknownName
from rubrank.training.job.config import Job

_OF_THE_JOB: Mapping[str, str] = {
    **dict.fromkeys(("max_new_tokens", "max_length", "max_tokens"), "It is training.max_completion_length."),
    "temperature": "It has a key of its own, under training.",
    "top_p": "It has a key of its own, under training.",
    **dict.fromkeys(("top_k", "min_p", "repetition_penalty"), "It has a key of its own, under trl."),
    "cache_implementation": "It has a key of its own, under trl.",
    **dict.fromkeys(("num_return_sequences", "n", "num_beams"), "A group is training.num_generations samples."),
    "do_sample": "A group needs samples that differ.",
}
"""Keys under `trl.generation_kwargs` that are decided elsewhere."""

_LISTED = 20
"""Names that a message lists."""
_PROJECTED = ("galore", "apollo")
"""Optimizers that need the model itself to be made."""
_LOGGED = word_list("""
    loss reward reward_std frac_reward_zero_std entropy kl num_tokens runtime completions rewards clip_ratio sampling
    tools rubrank benchmark aux_loss
""")
"""How the names of what an evaluation logs begin."""


def describe_error(error: BaseException) -> str:
    """What an error of a library says, in one line that can be followed by a full stop."""
    return shortened(" ".join(str(error).split()), 240).rstrip(".") or type(error).__name__


def rehearse(job: Job, args: Any) -> None:
    """Raise for what cannot be made of the trainer's arguments."""
    _check_optimizer(job, args)
    _check_schedule(job, args)
    _check_loading(job, args)
    _check_computing(job, args)
    _check_sampling(job, args)
    _check_hub(job, args)


def _try(job: Job, parameter: str, allowed: str, make: Callable[[], Any]) -> None:
    try:
        make()
    except Exception as error:  # each setting, and each library behind it, has its own kinds
        raise InvalidInput(job.where, parameter, allowed, describe_error(error), "") from None


def check_known(job: Job, parameter: str, given: Iterable[Any], known: Collection[str]) -> None:
    """Raise for a name that is not among those known; many of them are not listed."""
    for name in given:
        if name not in known:
            near = get_close_matches(str(name), known, n=1)
            names = ", ".join(map(repr, sorted(known)))
            listed = f"one of {names if len(known) <= _LISTED else f'{len(known)} known names'}"
            raise UnknownName(job.where, parameter, listed, repr(name), f"Did you mean {near[0]!r}?" if near else "")


def _check_optimizer(job: Job, args: Any) -> None:
    from transformers import Trainer

    name = str(getattr(args.optim, "value", args.optim))
    for part in (args.optim_args or "").replace(" ", "").split(",") if args.optim_args else ():
        if part.count("=") != 1:
            raise InvalidInput(job.where, "trl.optim_args", "name=value, and commas between them", repr(part), "")
    if name.startswith(_PROJECTED) and not args.optim_target_modules:
        allowed = f"given with training.optim: {name}"
        raise InvalidInput(job.where, "trl.optim_target_modules", allowed, "none", "Such as [attn, mlp].")
    try:
        Trainer.get_optimizer_cls_and_kwargs(args, None)
    except Exception as error:
        if name.startswith(_PROJECTED) and not isinstance(error, ImportError):
            return  # without a model
        allowed = f"one that can be made ({name})"
        raise InvalidInput(job.where, "training.optim", allowed, describe_error(error), "") from None


def _check_schedule(job: Job, args: Any) -> None:
    import torch
    from transformers import get_scheduler

    kind = str(getattr(args.lr_scheduler_type, "value", args.lr_scheduler_type))
    weight = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=args.learning_rate)
    _try(
        job,
        "trl.lr_scheduler_kwargs",
        f"what the schedule {kind!r} takes",
        lambda: get_scheduler(
            kind,
            weight,
            num_warmup_steps=args.get_warmup_steps(args.max_steps),
            num_training_steps=args.max_steps,
            scheduler_specific_kwargs=dict(args.lr_scheduler_kwargs or {}),
        ),
    )


def _check_loading(job: Job, args: Any) -> None:
    if args.dataloader_persistent_workers and not args.dataloader_num_workers:
        allowed = "false without trl.dataloader_num_workers"
        raise InvalidInput(job.where, "trl.dataloader_persistent_workers", allowed, "true", "")
    best = args.metric_for_best_model
    if args.load_best_model_at_end and best is not None:
        name = best.removeprefix("eval_")
        if name.partition("/")[0] not in _LOGGED:
            allowed = f"logged by evaluations: {', '.join(_LOGGED)}"
            raise InvalidInput(job.where, "trl.metric_for_best_model", allowed, repr(best), "")


def _check_computing(job: Job, args: Any) -> None:
    import torch
    from torch.utils.checkpoint import checkpoint

    if args.gradient_checkpointing:
        # whatever `checkpoint` does not name goes to the layer, which does not know it
        known = inspect.signature(checkpoint).parameters.keys() - {"function", "args", "kwargs"}
        check_known(job, "trl.gradient_checkpointing_kwargs", args.gradient_checkpointing_kwargs or (), known)
    if args.torch_compile and args.torch_compile_backend:
        known = torch.compiler.list_backends(exclude_tags=())
        check_known(job, "trl.torch_compile_backend", [args.torch_compile_backend], known)


def _check_sampling(job: Job, args: Any) -> None:
    given = args.generation_kwargs or {}
    for name in given:
        if name in _OF_THE_JOB:
            parameter = f"trl.generation_kwargs.{name}"
            raise InvalidInput(job.where, parameter, "left out", repr(given[name]), _OF_THE_JOB[name])
    if args.use_transformers_continuous_batching:
        from transformers.generation import ContinuousBatchingConfig

        given_too = dict(args.transformers_continuous_batching_config or {})
        name, allowed = "trl.transformers_continuous_batching_config", "what transformers takes"
        _try(job, name, allowed, lambda: ContinuousBatchingConfig(**given_too))
    if args.use_vllm:
        _check_server(job, args)
    elif given:
        from transformers import GenerationConfig

        check_known(job, "trl.generation_kwargs", given, vars(GenerationConfig()).keys() | {"generation_config"})
        _try(job, "trl.generation_kwargs", "what transformers takes", lambda: GenerationConfig(**given).validate())


def _check_server(job: Job, args: Any) -> None:
    url = args.vllm_server_base_url
    if url is not None and not (urlsplit(url).scheme in ("http", "https") and urlsplit(url).hostname):
        raise InvalidInput(job.where, "trl.vllm_server_base_url", "a URL", repr(url), "Such as http://host:8000.")
    parts = args.vllm_tensor_parallel_size
    if args.vllm_mode == "colocate" and args.world_size % parts:
        allowed = f"a divisor of the {args.world_size} processes with vllm_mode: colocate"
        raise InvalidInput(job.where, "trl.vllm_tensor_parallel_size", allowed, str(parts), "")


def _check_hub(job: Job, args: Any) -> None:
    if not args.push_to_hub:
        return
    from huggingface_hub import get_token
    from huggingface_hub.utils import validate_repo_id

    if args.hub_model_id is not None:
        _try(job, "trl.hub_model_id", "owner/name", lambda: validate_repo_id(args.hub_model_id))
    if get_token() is None:
        raise InvalidInput(job.where, "trl.push_to_hub", "false without a token of the hub", "true", "Set HF_TOKEN.")
