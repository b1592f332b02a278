"""Before a model is loaded: is it there, can its tokenizer chat, is everything installed.

chats = check_model(job, has_messages=True)      reads the model's config and tokenizer, which are small; no weights
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rubrank._plain import shortened, word_set
from rubrank.errors import InvalidInput, UnknownName
from rubrank.training.job.components import check_tools
from rubrank.training.job.config import Job
from rubrank.training.job.data import is_chat
from rubrank.training.job.lora import check_adapters
from rubrank.training.job.precision import model_dtype
from rubrank.training.job.rehearsal import describe_error
from rubrank.training.rollouts import opening_tag, template_opening_tag


def check_installed(job: Job) -> None:
    """TRL, and what the config asks for besides."""
    config = job.config
    if _is_installed("trl"):
        _check_loggers(job)
    wanted = {"trl": "pip install 'rubrank[trl]'"}
    if config.model.lora is not None:
        wanted["peft"] = "pip install peft, or leave model.lora out"
    if config.trl.get("use_vllm"):
        wanted["vllm"] = "pip install 'trl[vllm]', or leave trl.use_vllm out"
    if config.trl.get("use_liger_kernel"):
        wanted["liger_kernel"] = "pip install liger-kernel, or leave trl.use_liger_kernel out"
    for name in (name for name in config.report_to if name != _ALL):
        package = _PACKAGES.get(name, name)
        wanted[package] = f"pip install {package.replace('.', '-')}, or change report_to"
    if config.records.path.endswith(".zst"):
        wanted["zstandard"] = "pip install zstandard, or choose records of another kind"
    wanted |= _of_the_model(config.trl.get("model_init_kwargs"))
    check_packages(job, wanted)


def check_packages(job: Job, wanted: Mapping[str, str]) -> None:
    """Package → what to do where it is not installed."""
    for name, remedy in wanted.items():
        if not _is_installed(name):
            raise InvalidInput(job.where, "the config", "runnable with what is installed", f"no {name}", f"{remedy}.")


_ALL = "all"
"""Whatever logger is installed."""
_PACKAGES = {"azure_ml": "azureml.core", "dagshub": "dagshub", "flyte": "flytekit", "kubeflow": "kubeflow"}
"""Loggers whose package has another name."""


_ATTENDING = {
    "flash_attention_2": "flash_attn",
    "flash_attention_3": "flash_attn_interface",
    "flash_attention_4": "flash_attn",
}
"""Packages that ways of attention need."""


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # of a.b, no a
        return False


def _of_the_model(given: Any) -> dict[str, str]:
    """What loading the model so needs: package → remedy."""
    if not isinstance(given, Mapping):
        return {}
    wanted, quantized = {}, given.get("quantization_config")
    name = _ATTENDING.get(str(given.get("attn_implementation")))
    if name is not None:
        wanted[name] = f"pip install {name.replace('_', '-')}, or choose another attn_implementation, such as sdpa"
    if isinstance(quantized, Mapping) and (quantized.get("load_in_4bit") or quantized.get("load_in_8bit")):
        wanted["bitsandbytes"] = "pip install bitsandbytes, or leave quantization_config out"
    return wanted


def _check_loggers(job: Job) -> None:
    """Those that transformers knows."""
    from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

    given = job.config.report_to
    for name in given:
        if name not in INTEGRATION_TO_CALLBACK and given != (_ALL,):
            raise UnknownName.of(job.where, "report_to", name, INTEGRATION_TO_CALLBACK)


# --------------------------------------------------------------------------------------------------- loading the model

_INIT = "trl.model_init_kwargs"
_TEMPLATE_TOKENS = 2048
"""Tokens that a chat template may add to a prompt, at most."""
_YES_OR_NO = word_set("""
    trust_remote_code low_cpu_mem_usage local_files_only force_download use_safetensors weights_only offload_buffers
    use_kernels ignore_mismatched_sizes
""")
_TEXTS = word_set("revision subfolder variant cache_dir offload_folder code_revision gguf_file experts_implementation")
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin", "adapter_model*.bin", "*.index.json")
_PLACES = ("auto", "balanced", "balanced_low_0", "sequential", "cpu", "meta")
_ATTENTION = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flash_attention_4", "flex_attention")
_LOADING = word_set("""
    attn_implementation revision quantization_config device_map max_memory trust_remote_code low_cpu_mem_usage
    cache_dir local_files_only force_download subfolder variant use_safetensors weights_only offload_folder
    offload_buffers tp_plan tp_size experts_implementation use_kernels kernel_config code_revision gguf_file
    key_mapping ignore_mismatched_sizes proxies
""")
"""Arguments of `from_pretrained`; the model's config has some more."""


def init_kwargs(job: Job) -> dict[str, Any]:
    """With which the model is loaded; how it is quantized goes to the trainer by itself."""
    given = job.config.trl.get("model_init_kwargs") or {}
    return {
        "dtype": model_dtype(job),
        **{name: value for name, value in given.items() if name != "quantization_config"},
    }


def quantization(job: Job) -> Any:
    """As transformers takes it; None: weights as they are."""
    given = (job.config.trl.get("model_init_kwargs") or {}).get("quantization_config")
    if given is None:
        return None
    from transformers.quantizers.auto import AutoQuantizationConfig

    try:
        return AutoQuantizationConfig.from_dict(dict(given))
    except Exception as error:  # each method has its own kinds
        got = shortened(" ".join(str(error).split()), 240)
        remedy = "Such as {load_in_4bit: true}."
        raise InvalidInput(
            job.where, f"{_INIT}.quantization_config", "one that transformers takes", got, remedy
        ) from None


def check_init(job: Job) -> None:
    """Keys and words under `trl.model_init_kwargs`, as far as they need no model."""
    given = job.config.trl.get("model_init_kwargs")
    if given is None:
        return
    if not isinstance(given, Mapping):
        raise InvalidInput(job.where, _INIT, "a mapping", repr(given), "Such as {attn_implementation: sdpa}.")
    reasons = {"dtype": "It has a key of its own: model.dtype.", "torch_dtype": "It has a key of its own: model.dtype."}
    reasons |= dict.fromkeys(("token", "use_auth_token"), "Set HF_TOKEN in the environment: the config is kept.")
    for name in reasons.keys() & given.keys():
        raise InvalidInput(job.where, f"{_INIT}.{name}", "left out", "one", reasons[name])
    attention = given.get("attn_implementation")
    if attention is not None and not (isinstance(attention, str) and (attention in _ATTENTION or "/" in attention)):
        raise UnknownName.of(job.where, f"{_INIT}.attn_implementation", str(attention), _ATTENTION)
    quantized = given.get("quantization_config")
    if quantized is not None and not isinstance(quantized, Mapping):
        name = f"{_INIT}.quantization_config"
        raise InvalidInput(job.where, name, "a mapping", repr(quantized), "Such as {load_in_4bit: true}.")
    for name, value in given.items():
        _check_kind(job, name, value)
    quantization(job)


def _check_kind(job: Job, name: str, value: Any) -> None:
    kinds = {**dict.fromkeys(_YES_OR_NO, (bool, "true or false")), **dict.fromkeys(_TEXTS, (str, "a text"))}
    kinds |= dict.fromkeys(("max_memory", "key_mapping", "proxies"), (Mapping, "a mapping"))
    kind, words = kinds.get(name, (object, ""))
    if value is not None and not isinstance(value, kind):
        raise InvalidInput(job.where, f"{_INIT}.{name}", words, repr(value), "")
    if name == "device_map" and isinstance(value, str) and not _is_device(value):
        raise UnknownName.of(job.where, f"{_INIT}.device_map", value, _PLACES)
    if name == "device_map" and isinstance(value, bool | list | float):
        raise InvalidInput(job.where, f"{_INIT}.device_map", "a word, a device or a mapping", repr(value), "")


def _is_device(text: str) -> bool:
    import torch

    try:
        return text in _PLACES or torch.device(text) is not None
    except RuntimeError:
        return False


def _check_known(job: Job, config: Any) -> None:
    given = job.config.trl.get("model_init_kwargs") or {}
    known = {*_LOADING, *config.to_dict()}
    for name in given:
        if name not in known:
            near = get_close_matches(name, sorted(_LOADING), n=1)
            remedy = f"Did you mean {near[0]!r}?" if near else ""
            allowed = "arguments of from_pretrained, or settings of the model's config"
            raise UnknownName(job.where, _INIT, allowed, repr(name), remedy)
    coefficient = job.config.trl.get("router_aux_loss_coef")
    if coefficient and not hasattr(config.get_text_config(), "output_router_logits"):
        allowed = "left out for a model without a mixture of experts"
        raise InvalidInput(job.where, "trl.router_aux_loss_coef", allowed, repr(coefficient), "")


def model_path(job: Job) -> str:
    """The folder of the model, or its name on the hub."""
    given = job.config.model.path
    folder = job.path(given)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            remedy = "Name the folder that holds the weights."
            raise InvalidInput(job.where, "model.path", "a folder with a config.json", str(folder), remedy)
        return str(folder)
    if given.startswith((".", "/", "~")) or given.count("/") != 1:
        remedy = "A name on the hub is owner/name."
        raise InvalidInput(job.where, "model.path", "a folder that exists, or a name on the hub", repr(given), remedy)
    return given


def check_model(job: Job, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Can it be read, and do the prompts go into it; returns whether they are put to it as messages."""
    name, chat = model_path(job), job.config.model.chat
    has_messages = any(is_chat(row) for row in rows)
    _check_weights(job, name)
    tokenizer = _tokenizer(job, name)
    check_adapters(job, _config(job, name))
    template = bool(tokenizer.chat_template)
    if chat is None:
        chat = template
    if chat and not template:
        remedy = "Set one, or choose a model that was tuned for chats."
        raise InvalidInput(job.where, "model.chat", "true only for a tokenizer with a chat template", "none", remedy)
    if has_messages and not chat:
        remedy = "Choose a model with a chat template, or data whose prompts are texts."
        raise InvalidInput(job.where, "model.path", "a model that takes messages, as the data has", repr(name), remedy)
    check_tools(job, tokenizer, chat)
    if has_messages:
        _check_template(job, tokenizer, rows)
    _check_thinking(job, tokenizer, chat, rows)
    _check_lengths(job, tokenizer, chat, rows)
    return chat


def has_weights(folder: Path, patterns: Sequence[str] = _WEIGHTS) -> bool:
    """Does a folder hold the weights of a model, or of adapters?"""
    return any(any(folder.glob(pattern)) for pattern in patterns)


def _check_weights(job: Job, name: str) -> None:
    """A folder with nothing to load is said now; what is in its files, when they are read."""
    folder = Path(name) / (init_kwargs(job).get("subfolder") or "")
    gguf_file = init_kwargs(job).get("gguf_file")
    if Path(name).is_dir() and not has_weights(folder, [gguf_file] if gguf_file else _WEIGHTS):
        got = f"{folder} without {gguf_file or 'weights'}"
        raise InvalidInput(job.where, "model.path", "a folder with a model's weights", got, "")


def _check_template(job: Job, tokenizer: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    """Templates may refuse a system message, or two of the user: each order of roles in the data is tried once."""
    options = _template_options(job)
    tried = set()
    for number, row in enumerate((row for row in rows if is_chat(row)), start=1):
        roles = tuple(message["role"] for message in row["prompt"])
        if roles in tried:
            continue
        tried.add(roles)
        try:
            tokenizer.apply_chat_template(row["prompt"], tokenize=False, add_generation_prompt=True, **options)
        except Exception as error:  # a template raises whatever it wants
            allowed, where = "messages that the model's chat template takes", f"{job.where}: prompt {number}"
            raise InvalidInput(where, "prompt", allowed, f"{', '.join(roles)} ({describe_error(error)})", "") from None


def _template_options(job: Job) -> Mapping[str, Any]:
    options = job.config.trl.get("chat_template_kwargs")
    return options if isinstance(options, Mapping) else {}


def _check_thinking(job: Job, tokenizer: Any, chat: bool, rows: Sequence[Mapping[str, Any]]) -> None:
    """`thinking: prefilled` would read every completion as reasoning without an answer if no prompt opened it."""
    if job.config.thinking != "prefilled":
        return
    if chat:
        is_opened = template_opening_tag(tokenizer, **_template_options(job)) is not None
        opener = "a chat template that ends in an opening tag such as <think>"
    else:
        is_opened = all(opening_tag(row["prompt"]) is not None for row in rows)
        opener = "prompts that end in an opening tag such as <think>"
    if not is_opened:
        remedy = "Use thinking: auto, which looks at the template."
        raise InvalidInput(job.where, "thinking", f"auto or tags without {opener}", "prefilled", remedy)


def _check_lengths(job: Job, tokenizer: Any, chat: bool, rows: Sequence[Mapping[str, Any]]) -> None:
    """Every prompt and a completion of full length must fit into the model's positions: TRL truncates no prompt."""
    limit, limit_name = _find_most_tokens(job)
    if limit is None:
        return
    completion = job.config.training.max_completion_length
    got = f"{completion:,} tokens of a completion"
    remedy = "Reduce training.max_completion_length, or set max_position_embeddings under trl.model_init_kwargs."
    if completion >= limit:
        raise InvalidInput(job.where, "training.max_completion_length", f"< {limit:,}, {limit_name}", got, remedy)
    options = _template_options(job)
    for number, row in enumerate(rows, start=1):
        prompt = row["prompt"]
        # No tokenizer makes more tokens than there are bytes, so that most prompts need not be tokenized.
        if len(json.dumps(prompt)) + _TEMPLATE_TOKENS + completion <= limit:
            continue
        if chat:
            messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
            prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **options)
        tokens = len(tokenizer(prompt)["input_ids"])
        if tokens + completion > limit:
            where = f"{job.where}: prompt {number}"
            got = f"{tokens:,} tokens of the prompt + {completion:,} of a completion"
            raise InvalidInput(where, "prompt", f"≤ {limit:,} tokens with its completion, {limit_name}", got, remedy)


def _find_most_tokens(job: Job) -> tuple[int | None, str]:
    """The tokens that fit into the model, and what sets this limit; None if nothing does."""
    config = _config(job, model_path(job)).get_text_config()
    positions = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    name = "the model's positions"
    rope = getattr(config, "rope_parameters", None) or {}
    if positions and isinstance(rope.get("factor"), int | float):
        trained_positions = rope.get("original_max_position_embeddings") or positions
        positions = max(positions, int(rope["factor"] * trained_positions))
    length = job.config.trl.get("vllm_max_model_length")
    if job.config.trl.get("use_vllm") and isinstance(length, int) and length < (positions or math.inf):
        return length, "trl.vllm_max_model_length"
    return positions, name


def vocabulary(job: Job) -> int:
    """Tokens that the model knows."""
    return len(_tokenizer(job, model_path(job)))


def _tokenizer(job: Job, name: str) -> Any:
    from transformers import AutoTokenizer

    _check_known(job, _config(job, name))
    return _read(job, name, AutoTokenizer)


def _config(job: Job, name: str) -> Any:
    from transformers import AutoConfig

    found = _read(job, name, AutoConfig)
    given = {key: value for key, value in init_kwargs(job).items() if key not in _LOADING and key != "dtype"}
    try:
        return AutoConfig.from_pretrained(name, **_where(job), **given) if given.keys() <= vars(found).keys() else found
    except Exception as error:  # each setting has its own kinds
        allowed = "settings that the model's config takes"
        raise InvalidInput(job.where, _INIT, allowed, describe_error(error), "") from None


def _where(job: Job) -> dict[str, Any]:
    """Which of a model's versions, and may its own code run."""
    given = init_kwargs(job)
    found: dict[str, Any] = {key: given[key] for key in ("revision", "trust_remote_code", "subfolder") if key in given}
    return found | ({"trust_remote_code": True} if job.config.trl.get("trust_remote_code") else {})


def _read(job: Job, name: str, kind: Any) -> Any:
    try:
        return kind.from_pretrained(name, **_where(job))
    except (OSError, ValueError) as error:
        local = Path(name).is_dir()
        allowed = "a folder that can be read" if local else "a folder that exists, or a name on the hub that answers"
        got = shortened(f"{job.config.model.path!r} ({' '.join(str(error).split())})", 240)
        raise InvalidInput(job.where, "model.path", allowed, got, "") from None
