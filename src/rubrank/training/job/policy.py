"""Check the policy before it is loaded: its files, prompts, loading options and adapters; choose its precision.

    is_chat = check_model(job, rows)      reads the model's config and tokenizer, which are small; no weights
    make_lora_config(job)                 model.lora as PEFT's LoraConfig

On a CPU everything is computed in float32, even if the config names another precision. Half precision is slow there,
and on some machines fatal: PyTorch uses AMX instructions that the processor reports but the hypervisor does not permit,
and the process dies with SIGILL in its first matrix product. The plan says in one line which settings are replaced.
"""

from __future__ import annotations

import copy
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args, get_type_hints

from rubrank._plain import shorten, word_list, word_set
from rubrank.errors import InvalidInput, RubrankError, UnknownName
from rubrank.training.job.checks import check_known, check_values, describe_error
from rubrank.training.job.components import check_tools
from rubrank.training.job.config import Job, Lora
from rubrank.training.job.data import is_chat
from rubrank.training.rollouts import find_template_opening_tag, opening_tag

_INIT = "trl.model_init_kwargs"
"""The key of the config with options for loading the model."""
_TEMPLATE_TOKENS = 2048  # upper bound for the tokens that a chat template adds to a prompt
_WEIGHT_FILES = ("*.safetensors", "pytorch_model*.bin", "adapter_model*.bin", "*.index.json")


def find_model_path(job: Job) -> str:
    """Return the folder of the model, or its name on the hub; raises if it can be neither."""
    path = job.config.model.path
    folder = job.path(path)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            remedy = "Name the folder that holds the weights."
            raise job.invalid("model.path", "a folder with a config.json", str(folder), remedy)
        return str(folder)
    if path.startswith((".", "/", "~")) or path.count("/") != 1:
        remedy = "A name on the hub is owner/name."
        raise job.invalid(
            "model.path", "a folder that exists, or a name on the hub", repr(path), remedy
        )
    return path


def has_weights(folder: Path, patterns: Sequence[str] = _WEIGHT_FILES) -> bool:
    """Whether a folder holds the weights of a model, or of adapters."""
    return any(any(folder.glob(pattern)) for pattern in patterns)


def check_model(job: Job, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Check that the model can be read and takes the prompts; returns whether prompts are passed as messages."""
    path = find_model_path(job)
    _check_weights(job, path)
    config = _read_config(job, path)
    _check_init_names(job, config)
    tokenizer = _read_pretrained(job, path, "AutoTokenizer")
    check_adapters(job, config)
    has_template = bool(tokenizer.chat_template)
    chat = job.config.model.chat
    if chat is None:
        chat = has_template
    if chat and not has_template:
        remedy = "Set one, or choose a model that was tuned for chats."
        raise job.invalid(
            "model.chat", "true only for a tokenizer with a chat template", "none", remedy
        )
    has_messages = any(is_chat(row) for row in rows)
    if has_messages and not chat:
        remedy = "Choose a model with a chat template, or data whose prompts are texts."
        raise job.invalid(
            "model.path", "a model that takes messages, as the data has", repr(path), remedy
        )
    check_tools(job, tokenizer, chat)
    if has_messages:
        _check_template(job, tokenizer, rows)
    _check_thinking(job, tokenizer, chat, rows)
    _check_lengths(job, tokenizer, config, chat, rows)
    return chat


def count_vocabulary(job: Job) -> int:
    """Return the size of the tokenizer's vocabulary."""
    return len(_read_pretrained(job, find_model_path(job), "AutoTokenizer"))


def _check_weights(job: Job, path: str) -> None:
    """Raise for a folder without weights. Damaged files are noticed only when they are read."""
    if not Path(path).is_dir():
        return
    options = make_init_kwargs(job)
    folder = Path(path) / (options.get("subfolder") or "")
    gguf_file = options.get("gguf_file")
    if not has_weights(folder, [gguf_file] if gguf_file else _WEIGHT_FILES):
        got = f"{folder} without {gguf_file or 'weights'}"
        raise job.invalid("model.path", "a folder with a model's weights", got)


def _read_config(job: Job, path: str) -> Any:
    """Read the model's config, with the settings that `trl.model_init_kwargs` changes in it."""
    from transformers import AutoConfig

    config = _read_pretrained(job, path, "AutoConfig")
    changes = {
        name: value
        for name, value in make_init_kwargs(job).items()
        if name not in _LOADING and name != "dtype"
    }
    if not changes.keys() <= vars(config).keys():
        return config  # an unknown name is reported by _check_init_names
    try:
        return AutoConfig.from_pretrained(path, **_select_version_options(job), **changes)
    except Exception as error:  # each setting raises its own errors
        allowed = "settings that the model's config takes"
        raise job.invalid(_INIT, allowed, describe_error(error)) from None


def _read_pretrained(job: Job, path: str, class_name: str) -> Any:
    """Read the config or tokenizer of the model. class_name: "AutoConfig" or "AutoTokenizer"."""
    import transformers

    try:
        return getattr(transformers, class_name).from_pretrained(
            path, **_select_version_options(job)
        )
    except (OSError, ValueError) as error:
        allowed = "a folder that exists, or a name on the hub that answers"
        if Path(path).is_dir():
            allowed = "a folder that can be read"
        got = shorten(f"{job.config.model.path!r} ({' '.join(str(error).split())})", 240)
        raise job.invalid("model.path", allowed, got) from None


def _select_version_options(job: Job) -> dict[str, Any]:
    """Select the options that say which version of the model is read, and whether code in its folder may run."""
    options = make_init_kwargs(job)
    names = ("revision", "trust_remote_code", "subfolder")
    version = {name: options[name] for name in names if name in options}
    if job.config.trl.get("trust_remote_code"):
        version["trust_remote_code"] = True
    return version


# ------------------------------------------------------------------------------------------------------------ prompts


def _check_template(job: Job, tokenizer: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    """Apply the chat template to each order of roles in the data.

    Some templates refuse a system message, or two user messages in a row.
    """
    options = _read_template_options(job)
    tried_roles = set()
    for number, row in enumerate(rows, start=1):
        if not is_chat(row):
            continue
        roles = tuple(message["role"] for message in row["prompt"])
        if roles in tried_roles:
            continue
        tried_roles.add(roles)
        try:
            tokenizer.apply_chat_template(
                row["prompt"], tokenize=False, add_generation_prompt=True, **options
            )
        except Exception as error:  # templates raise errors of many types
            where = f"{job.where}: prompt {number}"
            got = f"{', '.join(roles)} ({describe_error(error)})"
            raise InvalidInput(
                where, "prompt", "messages that the model's chat template takes", got, ""
            ) from None


def _read_template_options(job: Job) -> Mapping[str, Any]:
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


def _check_lengths(
    job: Job, tokenizer: Any, config: Any, chat: bool, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Raise if a prompt and a completion of full length do not fit into the model. TRL does not truncate prompts."""
    limit, limit_name = _find_token_limit(job, config)
    if limit is None:
        return
    completion = job.config.training.max_completion_length
    remedy = "Reduce training.max_completion_length, or set max_position_embeddings under trl.model_init_kwargs."
    if completion >= limit:
        got = f"{completion:,} tokens of a completion"
        raise job.invalid(
            "training.max_completion_length", f"< {limit:,}, {limit_name}", got, remedy
        )
    options = _read_template_options(job)
    for number, row in enumerate(rows, start=1):
        prompt = row["prompt"]
        # A prompt has at most as many tokens as its JSON has characters, so most prompts need not be tokenized.
        if len(json.dumps(prompt)) + _TEMPLATE_TOKENS + completion <= limit:
            continue
        if chat:
            messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
            prompt = tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, **options
            )
        tokens = len(tokenizer(prompt)["input_ids"])
        if tokens + completion > limit:
            where = f"{job.where}: prompt {number}"
            got = f"{tokens:,} tokens of the prompt + {completion:,} of a completion"
            raise InvalidInput(
                where,
                "prompt",
                f"≤ {limit:,} tokens with its completion, {limit_name}",
                got,
                remedy,
            )


def _find_token_limit(job: Job, config: Any) -> tuple[int | None, str]:
    """Return how many tokens fit into the model (None: no limit), and the name of the setting that limits them."""
    text_config = config.get_text_config()
    positions = getattr(text_config, "max_position_embeddings", None) or getattr(
        text_config, "n_positions", None
    )
    rope = getattr(text_config, "rope_parameters", None) or {}
    if positions and isinstance(rope.get("factor"), int | float):
        trained_positions = rope.get("original_max_position_embeddings") or positions
        positions = max(positions, int(rope["factor"] * trained_positions))
    vllm_length = None
    if job.config.trl.get("use_vllm"):
        vllm_length = job.config.trl.get("vllm_max_model_length")
    if isinstance(vllm_length, int) and (not positions or vllm_length < positions):
        return vllm_length, "trl.vllm_max_model_length"
    return positions, "the model's positions"


# ------------------------------------------------------------------------------------------------------------ loading

_LOADING_KINDS: Mapping[str, tuple[type, frozenset[str]]] = {
    "true or false": (
        bool,
        word_set("""
            trust_remote_code low_cpu_mem_usage local_files_only force_download use_safetensors weights_only
            offload_buffers use_kernels ignore_mismatched_sizes
        """),
    ),
    "a text": (
        str,
        word_set("""
            revision subfolder variant cache_dir offload_folder code_revision gguf_file experts_implementation
        """),
    ),
    "a mapping": (Mapping, word_set("max_memory key_mapping proxies quantization_config")),
}
"""What a value must be, as messages name it → its type, and the arguments of `from_pretrained` that must be of it."""
_LOADING = frozenset().union(*(names for _, names in _LOADING_KINDS.values())) | word_set(
    "attn_implementation device_map tp_plan tp_size kernel_config"
)
"""All arguments of `from_pretrained`; `trl.model_init_kwargs` may also have settings of the model's config."""
_DEVICE_MAPS = ("auto", "balanced", "balanced_low_0", "sequential", "cpu", "meta")
_ATTENTION = word_list(
    "eager sdpa flash_attention_2 flash_attention_3 flash_attention_4 flex_attention"
)
_DECIDED_ELSEWHERE = {
    "dtype": "It has a key of its own: model.dtype.",
    "torch_dtype": "It has a key of its own: model.dtype.",
    "token": "Set HF_TOKEN in the environment: the config is copied to the run's folder.",
    "use_auth_token": "Set HF_TOKEN in the environment: the config is copied to the run's folder.",
}


def make_init_kwargs(job: Job) -> dict[str, Any]:
    """Make the arguments with which the model is loaded; the trainer takes `quantization_config` separately."""
    options = dict(job.config.trl.get("model_init_kwargs") or {})
    options.pop("quantization_config", None)
    return {"dtype": choose_dtype(job), **options}


def make_quantization(job: Job) -> Any:
    """Make transformers' quantization config; None if weights are loaded as they are."""
    options = (job.config.trl.get("model_init_kwargs") or {}).get("quantization_config")
    if options is None:
        return None
    from transformers.quantizers.auto import AutoQuantizationConfig

    try:
        return AutoQuantizationConfig.from_dict(dict(options))
    except Exception as error:  # each method raises its own errors
        parameter = f"{_INIT}.quantization_config"
        remedy = "Such as {load_in_4bit: true}."
        allowed = "one that transformers takes"
        raise job.invalid(parameter, allowed, describe_error(error), remedy) from None


def check_init(job: Job) -> None:
    """Check `trl.model_init_kwargs` as far as possible without the model.

    Raises for a value of the wrong type, and for a setting that is decided elsewhere.
    """
    options = job.config.trl.get("model_init_kwargs")
    if options is None:
        return
    if not isinstance(options, Mapping):
        raise job.invalid(_INIT, "a mapping", repr(options), "Such as {attn_implementation: sdpa}.")
    for name, value in options.items():
        parameter = f"{_INIT}.{name}"
        if name in _DECIDED_ELSEWHERE:
            # The value is not shown: it may be a token.
            raise job.invalid(parameter, "left out", "a value", _DECIDED_ELSEWHERE[name])
        if value is None:
            continue
        for allowed, (kind, names) in _LOADING_KINDS.items():
            if name in names and not isinstance(value, kind):
                raise job.invalid(parameter, allowed, repr(value))
        if name == "attn_implementation":
            is_kernel = isinstance(value, str) and "/" in value  # owner/name on the hub
            if value not in _ATTENTION and not is_kernel:
                raise UnknownName.of(job.where, parameter, str(value), _ATTENTION)
        if name == "device_map":
            _check_device_map(job, parameter, value)
    make_quantization(job)


def _check_device_map(job: Job, parameter: str, value: Any) -> None:
    """Raise unless the value is a word such as "auto", a device such as cuda:0 or 0, or a mapping."""
    import torch

    if isinstance(value, bool | list | float):
        raise job.invalid(parameter, "a word, a device or a mapping", repr(value))
    if isinstance(value, str) and value not in _DEVICE_MAPS:
        try:
            torch.device(value)
        except RuntimeError:
            raise UnknownName.of(job.where, parameter, value, _DEVICE_MAPS) from None


def _check_init_names(job: Job, config: Any) -> None:
    """Raise for an argument that neither `from_pretrained` nor the model's config knows."""
    allowed_names = {*_LOADING, *config.to_dict()}
    for name in job.config.trl.get("model_init_kwargs") or {}:
        if name not in allowed_names:
            similar = get_close_matches(name, sorted(_LOADING), n=1)
            remedy = f"Did you mean {similar[0]!r}?" if similar else ""
            allowed = "arguments of from_pretrained, or settings of the model's config"
            raise UnknownName(job.where, _INIT, allowed, repr(name), remedy)
    coefficient = job.config.trl.get("router_aux_loss_coef")
    if coefficient and not hasattr(config.get_text_config(), "output_router_logits"):
        allowed = "left out for a model without a mixture of experts"
        raise job.invalid("trl.router_aux_loss_coef", allowed, repr(coefficient))


# ----------------------------------------------------------------------------------------------------------- adapters
#
# lora: {r: 16, alpha: 32}                                   r, alpha, dropout and targets: the usual options
# lora: {r: 16, use_dora: true, modules_to_save: [embed]}    all other options, under the names of LoraConfig

_OWN_NAMES = {"lora_alpha": "alpha", "lora_dropout": "dropout", "target_modules": "targets"}
"""PEFT's name → ours; a config may use one of the two."""

_LORA_DECIDED_ELSEWHERE = {
    "task_type": "It is always CAUSAL_LM.",
    "peft_type": "It is always LORA.",
    "inference_mode": "The adapters are trained.",
    "base_model_name_or_path": "It is model.path.",
    "revision": "It is that of the model: trl.model_init_kwargs.",
    "peft_version": "PEFT writes it itself.",
    "auto_mapping": "PEFT writes it itself.",
}
"""Options of LoraConfig that a config may not set, and why."""


def make_lora_config(job: Job) -> Any:
    """Make PEFT's LoraConfig; None if all weights are trained. Raises for options that PEFT does not take."""
    lora = job.config.model.lora
    if lora is None:
        return None
    from peft import LoraConfig

    extra = dict(lora.model_extra or {})
    _check_names(job, lora, extra, {field.name for field in fields(LoraConfig) if field.init})
    hints = get_type_hints(LoraConfig)
    try:
        options = {name: _to_object(value, hints[name]) for name, value in extra.items()}
        plain_options = {name: value for name, value in options.items() if not is_dataclass(value)}
        options |= check_values(plain_options, LoraConfig, job.where, "model.lora")
        usual_options = {
            "r": lora.r,
            "lora_alpha": lora.alpha,
            "lora_dropout": lora.dropout,
            "target_modules": lora.targets if isinstance(lora.targets, str) else list(lora.targets),
        }
        return LoraConfig(**{**usual_options, **options, "task_type": "CAUSAL_LM"})
    except RubrankError:
        raise
    except Exception as error:  # each option raises its own errors
        got = describe_error(error)
        raise job.invalid("model.lora", "what PEFT's LoraConfig takes", got) from None


def check_adapters(job: Job, config: Any) -> None:
    """Raise if the adapters do not fit the model; tried on its layers without their weights."""
    if job.config.model.lora is None:
        return
    from peft import get_peft_model

    lora_config = make_lora_config(job)
    layers = _make_layers(config)
    if layers is None:
        return
    module_names = [name for name, _ in layers.named_modules()]
    last_parts = {name.rpartition(".")[2] for name in module_names}
    known_names = {part for part in last_parts if part and not part.isdigit()}
    modules_of = {
        "targets": lora_config.target_modules,
        "modules_to_save": lora_config.modules_to_save,
    }
    for parameter, modules in modules_of.items():
        for module in modules if isinstance(modules, list | set | tuple) else ():
            if not any(name == module or name.endswith(f".{module}") for name in module_names):
                check_known(job, f"model.lora.{parameter}", [module], known_names)
    lora_config.init_lora_weights = False  # layers without weights cannot initialise adapters
    try:
        with warnings.catch_warnings(action="ignore"):
            get_peft_model(layers, lora_config, low_cpu_mem_usage=True)
    except Exception as error:  # each option raises its own errors
        raise job.invalid(
            "model.lora", "adapters that fit the model", describe_error(error)
        ) from None


def _make_layers(config: Any) -> Any:
    """Make the model's layers without memory for weights; None if the class is not part of transformers."""
    import torch
    import transformers

    architectures = getattr(config, "architectures", None) or [""]
    model_class = getattr(transformers, architectures[0], None)
    if model_class is None:
        return None
    try:
        with torch.device("meta"):
            return model_class(copy.deepcopy(config))
    except Exception:  # the error will be raised again when the model is loaded
        return None


def _check_names(job: Job, lora: Lora, extra: Mapping[str, Any], known_names: set[str]) -> None:
    """Raise for options that LoraConfig does not have, that are decided elsewhere, or that are given twice."""
    for name, value in extra.items():
        if name in _LORA_DECIDED_ELSEWHERE:
            raise job.invalid(
                f"model.lora.{name}", "left out", repr(value), _LORA_DECIDED_ELSEWHERE[name]
            )
        if name not in known_names:
            allowed_names = (known_names - _LORA_DECIDED_ELSEWHERE.keys()) | set(Lora.model_fields)
            raise UnknownName.of(job.where, "model.lora", name, allowed_names)
        own_name = _OWN_NAMES.get(name)
        if own_name in lora.model_fields_set:
            raise job.invalid(f"model.lora.{name}", f"given without {own_name}", "both")
    targets = extra.get("target_modules", lora.targets) or ()
    target_names = [targets] if isinstance(targets, str) else targets
    if "lm_head" in target_names:
        remedy = "TRL uses its weights directly: an adapter there would never be trained."
        raise job.invalid("model.lora.targets", "without lm_head", repr(targets), remedy)


def _to_object(value: Any, hint: Any) -> Any:
    """Make one of PEFT's dataclasses of a mapping, if the option takes one; other values stay as they are."""
    for kind in (hint, *get_args(hint)):
        if isinstance(kind, type) and is_dataclass(kind) and isinstance(value, Mapping):
            return kind(**value)
    return value


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


def turn_off_half_precision(job: Job, trl_arguments: dict[str, Any]) -> None:
    """On a CPU, set every half-precision flag to false, in place.

    Flags that are left out or null are set too: TRL reads `bf16: null` as true.
    """
    if is_on_cpu(job):
        trl_arguments.update(dict.fromkeys(HALF_PRECISION_FLAGS, False))


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
