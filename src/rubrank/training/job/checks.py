"""Checks of a config that need no model: installed packages, known names, and arguments of the classes of TRL and PEFT.

    trl.top_k must be a whole number; got '5'
    trl.vllm_importance_sampling_mode must be one of 'sequence_mask', …; got 'nonsense'

Wrong values are reported before the model is loaded; the libraries themselves would report many of them only later.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from enum import Enum
from importlib.util import find_spec
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from rubrank._plain import shorten, word_list
from rubrank.errors import InvalidInput, UnknownName
from rubrank.training.job.config import Job, read_number

_MOST_LISTED = 20  # a message lists at most this many allowed names
_ALL_LOGGERS = "all"  # in transformers, this means every logger that is installed
# Logger → its package, if that has another name.
_LOGGER_PACKAGES = {"azure_ml": "azureml.core", "flyte": "flytekit"}
# model_init_kwargs.attn_implementation → the package that it needs.
_ATTENTION_PACKAGES = {
    "flash_attention_2": "flash_attn",
    "flash_attention_3": "flash_attn_interface",
    "flash_attention_4": "flash_attn",
}


def check_installed(job: Job) -> None:
    """Raise InvalidInput for the first package that the config needs and that is not installed.

    Raises UnknownName for a logger that transformers does not know.
    """
    config = job.config
    if is_installed("trl") and config.report_to != (_ALL_LOGGERS,):
        from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

        for logger in config.report_to:
            if logger not in INTEGRATION_TO_CALLBACK:
                raise UnknownName.of(job.where, "report_to", logger, INTEGRATION_TO_CALLBACK)
    # Needed package → what to do if it is missing.
    remedies = {"trl": "pip install 'rubrank[trl]'"}
    if config.model.lora is not None:
        remedies["peft"] = "pip install peft, or leave model.lora out"
    if config.trl.get("use_vllm"):
        remedies["vllm"] = "pip install 'trl[vllm]', or leave trl.use_vllm out"
    if config.trl.get("use_liger_kernel"):
        remedies["liger_kernel"] = "pip install liger-kernel, or leave trl.use_liger_kernel out"
    for logger in config.report_to:
        if logger != _ALL_LOGGERS:
            package = _LOGGER_PACKAGES.get(logger, logger)
            remedies[package] = f"pip install {package.replace('.', '-')}, or change report_to"
    if config.records.path.endswith(".zst"):
        remedies["zstandard"] = "pip install zstandard, or choose records of another kind"
    model_options = config.trl.get("model_init_kwargs")
    if isinstance(model_options, Mapping):
        attention_package = _ATTENTION_PACKAGES.get(str(model_options.get("attn_implementation")))
        if attention_package is not None:
            remedies[attention_package] = (
                f"pip install {attention_package.replace('_', '-')}, "
                "or choose another attn_implementation, such as sdpa"
            )
        quantization = model_options.get("quantization_config")
        if isinstance(quantization, Mapping):
            remedy = "pip install bitsandbytes, or leave quantization_config out"
            if quantization.get("load_in_4bit") or quantization.get("load_in_8bit"):
                remedies["bitsandbytes"] = remedy
    check_packages(job, remedies)


def check_packages(job: Job, remedies: Mapping[str, str]) -> None:
    """Raise for the first package that is not installed. remedies: package → what to do if it is missing."""
    for package, remedy in remedies.items():
        if not is_installed(package):
            got = f"no {package}"
            raise job.invalid("the config", "runnable with what is installed", got, f"{remedy}.")


def is_installed(package: str) -> bool:
    """Whether a package can be imported."""
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # the package is `a.b`, and there is no `a`
        return False


# ----------------------------------------------------------------------------------------------------------- messages


def check_known(
    job: Job, parameter: str, names: Iterable[Any], allowed_names: Collection[str]
) -> None:
    """Raise UnknownName for the first name that is not allowed. A long list of allowed names is not printed."""
    for name in names:
        if name in allowed_names:
            continue
        allowed = f"one of {len(allowed_names)} known names"
        if len(allowed_names) <= _MOST_LISTED:
            allowed = f"one of {', '.join(map(repr, sorted(allowed_names)))}"
        similar = get_close_matches(str(name), allowed_names, n=1)
        remedy = f"Did you mean {similar[0]!r}?" if similar else ""
        raise UnknownName(job.where, parameter, allowed, repr(name), remedy)


def describe_error(error: BaseException) -> str:
    """Return the message of a library's error in one line, shortened, that can be followed by a full stop."""
    return shorten(" ".join(str(error).split()), 240).rstrip(".") or type(error).__name__


# --------------------------------------------------------------------------------------------------- types and ranges

_STRICT = ConfigDict(strict=True, arbitrary_types_allowed=True)
"""For pydantic: '5' is no number."""

_WORDS: Mapping[str, tuple[str, ...]] = {
    "vllm_importance_sampling_mode": word_list(
        "token_truncate token_mask sequence_truncate sequence_mask"
    ),
    "vllm_mode": ("server", "colocate"),
    "vllm_model_impl": ("vllm", "transformers", "auto", "terratorch"),
    "multi_objective_aggregation": ("sum_then_normalize", "normalize_then_sum"),
    "cache_implementation": word_list("""
        dynamic dynamic_full offloaded static offloaded_static sliding_window hybrid hybrid_chunked offloaded_hybrid
        offloaded_hybrid_chunked quantized paged
    """),
    "include_num_input_tokens_seen": ("all", "non_padding", "no"),
    "torch_compile_mode": word_list(
        "default reduce-overhead max-autotune max-autotune-no-cudagraphs"
    ),
}
"""Argument → its allowed words, for arguments whose class does not list them."""

_MORE_TYPES: Mapping[str, tuple[type, ...]] = {"fsdp": (bool, list), "debug": (list,)}
"""Argument → types that are accepted although its class does not declare them."""

_RANGES: Mapping[str, tuple[str, ...]] = {
    "[1, inf)": word_list("""
        vllm_max_model_length vllm_tensor_parallel_size ref_model_sync_steps pad_to_multiple_of
        max_tool_calling_iterations torch_empty_cache_steps ddp_timeout ddp_bucket_cap_mb num_completions_to_print
        eval_accumulation_steps dataloader_prefetch_factor r
    """),
    "(0, inf)": word_list("""
        adam_epsilon repetition_penalty vllm_server_timeout sapo_temperature_neg sapo_temperature_pos vespo_k_pos
        vespo_lambda_pos vespo_k_neg vespo_lambda_neg delta off_policy_mask_threshold
        vllm_importance_sampling_clip_max vllm_importance_sampling_cap lora_alpha
    """),
    "[0, inf)": word_list("""
        top_k dataloader_num_workers entropy_coef entropy_coef_min entropy_coef_max entropy_coef_delta entropy_target
        eval_delay neftune_noise_alpha router_aux_loss_coef vllm_importance_sampling_clip_min
    """),
    "[0, 1]": ("min_p", "top_entropy_quantile", "ref_model_mixup_alpha", "label_smoothing_factor"),
    "[0, 1)": ("adam_beta1", "adam_beta2", "lora_dropout"),
    "(0, 1]": ("vllm_gpu_memory_utilization",),
    "[1, 65535]": ("vllm_server_port", "vllm_group_port"),
}
"""Interval → the arguments that must lie in it. A square bracket includes the end, a round one does not."""

RANGE_OF: Mapping[str, str] = {
    name: interval for interval, names in _RANGES.items() for name in names
}
"""Argument → its interval."""


def check_values(
    values: Mapping[str, Any], config_class: type, where: str, section: str
) -> dict[str, Any]:
    """Return the values, with numbers read from texts ("1e-5"); raises for the first of a wrong type or out of range.

    config_class: a library's dataclass that takes the values: GRPOConfig (section "trl") or PEFT's LoraConfig (section
    "model.lora"). All keys must be names of its fields. where, section: for messages.
    """
    hints = get_type_hints(config_class)
    choices = {
        field.name: tuple(field.metadata.get("choices") or ()) for field in fields(config_class)
    }
    checked = {}
    for name, value in values.items():
        parameter = f"{section}.{name}"
        hint = hints[name]
        # The types that are allowed: those of a union such as `float | None`, or the only one.
        types = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        if float in types and str not in types:
            value = read_number(value)
        more_types = _MORE_TYPES.get(name, ())
        if type(value) not in more_types and not _has_type(value, types):
            descriptions = dict.fromkeys(_describe_type(kind) for kind in (*types, *more_types))
            raise InvalidInput(
                where,
                parameter,
                allowed=" or ".join(descriptions),
                got=shorten(repr(value), 80),
                remedy="",
            )
        # If one of the types is an enumeration, only its words are allowed, even if the hint also has `str`.
        enum_words = [str(word.value) for kind in types if _is_enum(kind) for word in kind]
        words = _WORDS.get(name) or enum_words or choices[name]
        if words and isinstance(value, str) and value not in words:
            raise UnknownName.of(where, parameter, value, words)
        if isinstance(value, int | float) and not isinstance(value, bool):
            _check_range(where, parameter, value, RANGE_OF.get(name))
        checked[name] = value
    return checked


def _has_type(value: Any, types: tuple[Any, ...]) -> bool:
    """Whether a value of a YAML file fits one of the types of an argument."""
    for kind in types:
        if _is_enum(kind):
            if isinstance(value, str):  # which words are allowed is checked later
                return True
            continue
        try:
            adapter = TypeAdapter(kind, config=_STRICT)
            if isinstance(value, list | dict):
                # In JSON mode, a list is accepted for a tuple.
                adapter.validate_json(json.dumps(value))
            else:
                adapter.validate_python(value)
        except ValidationError:
            continue
        except Exception:
            # A type that pydantic does not support, such as a class of the library, which is given as a mapping.
            if isinstance(value, Mapping):
                return True
            continue
        return True
    return False


def _is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Enum)


def _describe_type(kind: Any) -> str:
    """Describe a type in the words of a YAML file, for messages: "a whole number", "null"."""
    if kind is type(None):
        return "null"
    if _is_enum(kind):
        return "a text"
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind)))
    names = {
        str: "a text",
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        list: "a list",
        dict: "a mapping",
    }
    return names.get(get_origin(kind) or kind) or str(getattr(kind, "__name__", kind))


def _check_range(where: str, parameter: str, value: float, interval: str | None) -> None:
    """Raise InvalidInput for a number that is not finite, or outside an interval such as "[0, 1)"; None: no limits."""
    if not math.isfinite(value):
        raise InvalidInput(where, parameter, allowed="a finite number", got=repr(value), remedy="")
    if interval is None:
        return
    low_text, high_text = interval[1:-1].split(",")
    low = float(low_text)
    high = float(high_text)
    includes_low = interval[0] == "["
    includes_high = interval[-1] == "]"
    is_low_enough = value < high or (value == high and includes_high)
    is_high_enough = value > low or (value == low and includes_low)
    if is_low_enough and is_high_enough:
        return
    allowed = f"in {interval}"
    if math.isinf(high):
        allowed = f"≥ {low:g}" if includes_low else f"> {low:g}"
    raise InvalidInput(where, parameter, allowed=allowed, got=repr(value), remedy="")
