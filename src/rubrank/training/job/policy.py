"""Check the policy before it is loaded: its files, prompts, loading options and adapters; choose its precision.

    is_chat = check_model(job, rows)      reads the model's config and tokenizer, which are small; no weights
    make_lora_config(job)                 model.lora as PEFT's LoraConfig

On a CPU everything is computed in float32, even if the config names another precision. Half precision is slow there,
and on some machines fatal: PyTorch uses AMX instructions that the processor reports but the hypervisor does not permit,
and the process dies with SIGILL in its first matrix product. The plan says in one line which settings are replaced.
"""

from __future__ import annotations

import copy
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rubrank._plain import word_set
from rubrank.errors import InvalidInput
from rubrank.training.job.checks import check_tools, describe_error, read_arguments
from rubrank.training.job.config import Job
from rubrank.training.job.data import is_chat
from rubrank.training.rollouts import find_template_opening_tag, opening_tag

_WEIGHT_FILES = ("*.safetensors", "pytorch_model*.bin", "adapter_model*.bin", "*.index.json")


def find_model_path(job: Job) -> str:
    """Return the folder of the model, or its name on the hub; raises if it can be neither."""
    path = job.config.model.path
    folder = job.path(path)
    if (folder / "config.json").is_file():
        return str(folder)
    if folder.is_dir() or path.startswith((".", "/", "~")) or path.count("/") != 1:
        allowed = "a folder with a config.json and weights, or a name on the hub"
        raise job.invalid("model.path", allowed, repr(path), "A name on the hub is owner/name.")
    return path


def has_weights(folder: Path, patterns: Sequence[str] = _WEIGHT_FILES) -> bool:
    """Whether a folder holds the weights of a model, or of adapters."""
    return any(any(folder.glob(pattern)) for pattern in patterns)


def check_model(job: Job, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Check that the model can be read and takes the prompts; returns whether prompts are passed as messages."""
    path = find_model_path(job)
    options = make_init_kwargs(job)
    folder = Path(path) / (options.get("subfolder") or "")
    weight_files = [options["gguf_file"]] if options.get("gguf_file") else _WEIGHT_FILES
    if Path(path).is_dir() and not has_weights(folder, weight_files):
        # Damaged files are noticed only when they are read.
        allowed = "a folder with a model's weights"
        raise job.invalid("model.path", allowed, f"{folder} without {weight_files[0]}")
    make_quantization(job)
    config = _read_pretrained(job, "AutoConfig")
    tokenizer = _read_pretrained(job, "AutoTokenizer")
    _check_adapters(job, config)
    has_template = bool(tokenizer.chat_template)
    chat = job.config.model.chat
    if chat is None:
        chat = has_template
    has_messages = any(is_chat(row) for row in rows)
    if (chat and not has_template) or (has_messages and not chat):
        allowed = "a model with a chat template, for messages and model.chat"
        remedy = "Choose one that was tuned for chats, or data whose prompts are texts."
        raise job.invalid("model.path", allowed, repr(path), remedy)
    check_tools(job, tokenizer, chat)
    _check_thinking(job, tokenizer, chat, rows)
    _check_prompts(job, tokenizer, config, chat, rows)
    return chat


def count_vocabulary(job: Job) -> int:
    """Return the size of the tokenizer's vocabulary."""
    return len(_read_pretrained(job, "AutoTokenizer"))


def _read_pretrained(job: Job, class_name: str) -> Any:
    """Read the config or tokenizer of the model. class_name: "AutoConfig" or "AutoTokenizer"."""
    import transformers

    # Options may change settings of the model's config; the tokenizer needs only those that say what is read.
    options = make_init_kwargs(job)
    if class_name == "AutoTokenizer":
        names = ("revision", "trust_remote_code", "subfolder")
        options = {name: options[name] for name in names if name in options}
    if job.config.trl.get("trust_remote_code"):
        options["trust_remote_code"] = True
    try:
        return getattr(transformers, class_name).from_pretrained(find_model_path(job), **options)
    except Exception as error:  # each setting of a model raises its own errors
        allowed = "a folder, or a name on the hub, that can be read with trl.model_init_kwargs"
        got = f"{job.config.model.path!r} ({describe_error(error)})"
        raise job.invalid("model.path", allowed, got) from None


# ------------------------------------------------------------------------------------------------------------ prompts


def _check_prompts(
    job: Job, tokenizer: Any, config: Any, chat: bool, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Raise for a prompt that the chat template refuses, or that does not fit into the model with its completion.

    Some templates refuse a system message, or two user messages in a row. TRL does not truncate prompts.
    """
    options = _read_template_options(job)
    limit, limit_name = _find_token_limit(job, config)
    completion = job.config.training.max_completion_length
    for number, row in enumerate(rows, start=1):
        where = f"{job.where}: prompt {number}"
        text = row["prompt"]
        if chat:
            messages = row["prompt"] if is_chat(row) else [{"role": "user", "content": text}]
            try:
                text = tokenizer.apply_chat_template(
                    messages, tokenize=False, add_generation_prompt=True, **options
                )
            except Exception as error:  # templates raise errors of many types
                allowed = "messages that the model's chat template takes"
                got = f"{', '.join(message['role'] for message in messages)} ({describe_error(error)})"
                raise InvalidInput(where, "prompt", allowed, got) from None
        # A text has at most as many tokens as bytes, so most prompts need not be tokenized.
        if limit is None or len(text.encode()) + completion <= limit:
            continue
        tokens = len(tokenizer(text)["input_ids"])
        if tokens + completion > limit:
            allowed = f"≤ {limit:,} tokens with its completion, {limit_name}"
            got = f"{tokens:,} tokens of the prompt + {completion:,} of a completion"
            remedy = "Reduce training.max_completion_length, or set trl.model_init_kwargs.max_position_embeddings."
            raise InvalidInput(where, "prompt", allowed, got, remedy)


def _read_template_options(job: Job) -> Mapping[str, Any]:
    """Return the options that the config has for the chat template."""
    options = job.config.trl.get("chat_template_kwargs")
    return options if isinstance(options, Mapping) else {}


def _check_thinking(
    job: Job, tokenizer: Any, chat: bool, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Raise for `thinking: prefilled` if prompts do not end in an opening tag.

    Every completion would be read as reasoning without an answer.
    """
    if job.config.thinking != "prefilled":
        return
    if chat:
        is_opened = find_template_opening_tag(tokenizer, **_read_template_options(job)) is not None
        opener = "a chat template that ends in an opening tag such as <think>"
    else:
        is_opened = all(opening_tag(row["prompt"]) is not None for row in rows)
        opener = "prompts that end in an opening tag such as <think>"
    if not is_opened:
        remedy = "Use thinking: auto, which looks at the template."
        raise job.invalid("thinking", f"auto or tags without {opener}", "prefilled", remedy)


def _find_token_limit(job: Job, config: Any) -> tuple[int | None, str]:
    """Return how many tokens fit into the model (None: no limit), and the name of the setting that limits them."""
    text_config = config.get_text_config()
    positions = getattr(text_config, "max_position_embeddings", None) or getattr(
        text_config, "n_positions", None
    )
    rope = getattr(text_config, "rope_parameters", None) or {}
    # RoPE scaling stretches the positions that the model was trained with.
    if positions and isinstance(rope.get("factor"), int | float):
        trained_positions = rope.get("original_max_position_embeddings") or positions
        positions = max(positions, int(rope["factor"] * trained_positions))
    vllm_length = job.config.trl.get("vllm_max_model_length")
    if job.config.trl.get("use_vllm") and vllm_length and vllm_length < (positions or math.inf):
        return vllm_length, "trl.vllm_max_model_length"
    return positions, "the model's positions"


# ------------------------------------------------------------------------------------------------ loading and adapters

_DECIDED_ELSEWHERE = {
    **dict.fromkeys(("dtype", "torch_dtype"), "It has its own key: model.dtype."),
    **dict.fromkeys(
        ("token", "use_auth_token"),
        "Set HF_TOKEN in the environment: the config is copied to the run's folder.",
    ),
}
"""Options that may not be under `trl.model_init_kwargs`, and why."""
_LORA_NAMES = {"lora_alpha": "alpha", "lora_dropout": "dropout", "target_modules": "targets"}
"""PEFT's name → ours; a config may use one of the two."""
_LORA_DECIDED_ELSEWHERE = word_set("""
    task_type peft_type inference_mode base_model_name_or_path revision peft_version auto_mapping
""")
"""Options of LoraConfig that a config may not set: they follow from the model, or PEFT writes them."""


def make_init_kwargs(job: Job) -> dict[str, Any]:
    """Make the arguments with which the model is loaded; the trainer takes `quantization_config` separately."""
    options = job.config.trl.get("model_init_kwargs") or {}
    if not isinstance(options, Mapping):
        remedy = "Such as {attn_implementation: sdpa}."
        raise job.invalid("trl.model_init_kwargs", "a mapping", repr(options), remedy)
    for name in options:
        if name in _DECIDED_ELSEWHERE:
            # The value is not shown: it may be a token.
            remedy = _DECIDED_ELSEWHERE[name]
            raise job.invalid(f"trl.model_init_kwargs.{name}", "left out", "a value", remedy)
    if not isinstance(options.get("trust_remote_code"), bool | None):
        # transformers would run the model's code for any text, even "no".
        got = repr(options["trust_remote_code"])
        raise job.invalid("trl.model_init_kwargs.trust_remote_code", "true or false", got)
    init_kwargs = {"dtype": choose_dtype(job), **options}
    init_kwargs.pop("quantization_config", None)
    return init_kwargs


def make_quantization(job: Job) -> Any:
    """Make transformers' quantization config; None if weights are loaded as they are."""
    options = (job.config.trl.get("model_init_kwargs") or {}).get("quantization_config")
    if options is None:
        return None
    from transformers.quantizers.auto import AutoQuantizationConfig

    try:
        return AutoQuantizationConfig.from_dict(dict(options))
    except Exception as error:  # each method raises its own errors
        parameter = "trl.model_init_kwargs.quantization_config"
        remedy = "Such as {load_in_4bit: true}."
        allowed = "one that transformers takes"
        raise job.invalid(parameter, allowed, describe_error(error), remedy) from None


def make_lora_config(job: Job) -> Any:
    """Make PEFT's LoraConfig; None if all weights are trained. Raises for options that PEFT does not take.

    lora: {r: 16, alpha: 32}                       r, alpha, dropout and targets: the usual options
    lora: {r: 16, use_dora: true}                  all other options, under the names of LoraConfig
    """
    lora = job.config.model.lora
    if lora is None:
        return None
    from peft import LoraConfig

    options: dict[str, Any] = {"r": lora.r, **(lora.model_extra or {})}
    for name, own_name in _LORA_NAMES.items():
        if name in options and own_name in lora.model_fields_set:
            raise job.invalid(f"model.lora.{name}", f"given without {own_name}", "both")
        options.setdefault(name, getattr(lora, own_name))
    options = read_arguments(job, "model.lora", options, LoraConfig, _LORA_DECIDED_ELSEWHERE)
    try:
        return LoraConfig(**options, task_type="CAUSAL_LM")
    except Exception as error:  # each option raises its own errors
        allowed = "what PEFT's LoraConfig takes"
        raise job.invalid("model.lora", allowed, describe_error(error)) from None


def _check_adapters(job: Job, config: Any) -> None:
    """Raise if the adapters do not fit the model; tried on its layers without their weights."""
    import torch
    import transformers

    lora_config = make_lora_config(job)
    architectures = getattr(config, "architectures", None) or [""]
    model_class = getattr(transformers, architectures[0], None)
    # A class that is not part of transformers is only known after the model was loaded.
    if lora_config is None or model_class is None:
        return
    from peft import get_peft_model

    lora_config.init_lora_weights = False  # layers without weights cannot initialise adapters
    try:
        with torch.device("meta"):
            layers = model_class(copy.deepcopy(config))
        module_names = [f".{name}" for name, _ in layers.named_modules()]
        with warnings.catch_warnings(action="ignore"):
            get_peft_model(layers, lora_config, low_cpu_mem_usage=True)
    except Exception as error:  # each option raises its own errors
        allowed = "adapters that fit the model"
        raise job.invalid("model.lora", allowed, describe_error(error)) from None
    # PEFT ignores modules that the model does not have, as long as it has one of them.
    for modules in (lora_config.target_modules, lora_config.modules_to_save):
        if not isinstance(modules, list | set):  # None, or a pattern
            continue
        for module in modules:
            if not any(name.endswith(f".{module}") for name in module_names):
                raise job.invalid("model.lora", "for modules that the model has", repr(module))


# ---------------------------------------------------------------------------------------------------------- precision

HALF_PRECISION_FLAGS = ("bf16", "fp16", "bf16_full_eval", "fp16_full_eval")
"""Arguments of TRL's GRPOConfig that turn half precision on."""
_LAUNCHER_VARIABLE = "ACCELERATE_MIXED_PRECISION"
"""Where `accelerate launch` leaves the `mixed_precision` of its own config file."""
_CPU_VARIABLE = "ACCELERATE_USE_CPU"
"""How `accelerate launch --cpu` asks for the CPU."""


def choose_dtype(job: Job) -> str:
    """Return the type in which the weights are loaded: the one in the config, or float32 on a CPU."""
    if is_on_cpu(job):
        return "float32"
    return job.config.model.dtype


def overrule_launcher(job: Job) -> None:
    """Before a run on a CPU: ignore the mixed precision that `accelerate launch` asks for."""
    if _LAUNCHER_VARIABLE in os.environ and is_on_cpu(job):
        os.environ[_LAUNCHER_VARIABLE] = "no"


def describe_precision_change(job: Job) -> str:
    """One line that names the settings replaced by float32; empty if nothing is replaced.

    Call it before `overrule_launcher`, which removes what the launcher asked for.
    """
    if not is_on_cpu(job):
        return ""
    # A flag that is null counts as well: TRL reads it as true.
    replaced = [
        f"trl.{name}"
        for name in HALF_PRECISION_FLAGS
        if job.config.trl.get(name, False) is not False
    ]
    if job.config.model.dtype != "float32":
        replaced.insert(0, f"model.dtype {job.config.model.dtype}")
    if os.environ.get(_LAUNCHER_VARIABLE, "no") != "no":
        replaced.append("accelerate's mixed_precision")
    if not replaced:
        return ""
    reason = "the run is on the CPU" if has_accelerator() else "no GPU"
    return (
        f"float32 instead of {', '.join(replaced)}: {reason}, and half precision crashes some CPUs"
    )


def is_on_cpu(job: Job) -> bool:
    """Whether the run is on the CPU: nothing else is available, or the config or the launcher chose it."""
    launched_on_cpu = os.environ.get(_CPU_VARIABLE, "").lower() in word_set("1 true yes y on t")
    return bool(job.config.trl.get("use_cpu")) or launched_on_cpu or not has_accelerator()


def has_accelerator() -> bool:
    """Whether PyTorch can compute on a GPU or another accelerator."""
    import torch

    return bool(torch.accelerator.is_available())
