"""Before a model is loaded: is it there, can its tokenizer chat, is everything installed.

chats = check_model(job, has_messages=True)      reads the model's config and tokenizer, which are small; no weights
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rubrank._plain import shortened, word_set
from rubrank.errors import InvalidInput, UnknownName
from rubrank.training.job.job import Job
from rubrank.training.job.named import check_tools


def check_installed(job: Job) -> None:
    """TRL, and what the config asks for besides."""
    config = job.config
    wanted = {"trl": "pip install 'rubrank[trl]'"}
    if config.model.lora is not None:
        wanted["peft"] = "pip install peft, or leave model.lora out"
    if config.trl.get("use_vllm"):
        wanted["vllm"] = "pip install 'trl[vllm]', or leave trl.use_vllm out"
    for name in config.report_to:
        package = _PACKAGES.get(name, name)
        wanted[package] = f"pip install {package.replace('.', '-')}, or change report_to"
    if config.records.path.endswith(".zst"):
        wanted["zstandard"] = "pip install zstandard, or choose records of another kind"
    wanted |= _of_the_model(config.trl.get("model_init_kwargs"))
    for name, remedy in wanted.items():
        if not _is_installed(name):
            raise InvalidInput(job.where, "the config", "runnable with what is installed", f"no {name}", f"{remedy}.")


_PACKAGES = {"azure_ml": "azureml.core", "dagshub": "dagshub", "flyte": "flytekit", "kubeflow": "kubeflow"}
"""Loggers whose package has another name."""


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
    if given.get("attn_implementation") in ("flash_attention_2", "flash_attention_3"):
        package = {"flash_attention_2": "flash_attn", "flash_attention_3": "flash_attn_interface"}
        name = package[given["attn_implementation"]]
        wanted[name] = f"pip install {name.replace('_', '-')}, or choose another attn_implementation, such as sdpa"
    if isinstance(quantized, Mapping) and (quantized.get("load_in_4bit") or quantized.get("load_in_8bit")):
        wanted["bitsandbytes"] = "pip install bitsandbytes, or leave quantization_config out"
    return wanted


def check_loggers(job: Job) -> None:
    """Those that transformers knows."""
    from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

    for name in job.config.report_to:
        if name not in INTEGRATION_TO_CALLBACK:
            raise UnknownName.of(job.where, "report_to", name, INTEGRATION_TO_CALLBACK)


# --------------------------------------------------------------------------------------------------- loading the model

_INIT = "trl.model_init_kwargs"
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
        "dtype": job.config.model.dtype,
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
    quantization(job)


def _check_known(job: Job, config: Any) -> None:
    given = job.config.trl.get("model_init_kwargs") or {}
    known = {*_LOADING, *config.to_dict()}
    for name in given:
        if name not in known:
            near = get_close_matches(name, sorted(_LOADING), n=1)
            remedy = f"Did you mean {near[0]!r}?" if near else ""
            allowed = "arguments of from_pretrained, or settings of the model's config"
            raise UnknownName(job.where, _INIT, allowed, repr(name), remedy)


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


def check_model(job: Job, has_messages: bool) -> bool:
    """Can it be read; returns whether prompts are put to it as messages."""
    name, chat = model_path(job), job.config.model.chat
    tokenizer = _tokenizer(job, name)
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
    return chat


def vocabulary(job: Job) -> int:
    """Tokens that the model knows."""
    return len(_tokenizer(job, model_path(job)))


def _tokenizer(job: Job, name: str) -> Any:
    from transformers import AutoConfig, AutoTokenizer

    given = init_kwargs(job)
    given = {key: given[key] for key in ("revision", "trust_remote_code", "subfolder") if key in given}
    if job.config.trl.get("trust_remote_code"):
        given["trust_remote_code"] = True
    try:
        config = AutoConfig.from_pretrained(name, **given)
        tokenizer: Any = AutoTokenizer.from_pretrained(name, **given)
    except (OSError, ValueError) as error:
        local = Path(name).is_dir()
        allowed = "a folder that can be read" if local else "a folder that exists, or a name on the hub that answers"
        got = shortened(f"{job.config.model.path!r} ({' '.join(str(error).split())})", 240)
        raise InvalidInput(job.where, "model.path", allowed, got, "") from None
    _check_known(job, config)
    return tokenizer
