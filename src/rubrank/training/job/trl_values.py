"""Values under `trl` and `model.lora`, checked by what the libraries' own classes say and by what they find out late.

    trl.top_k must be an int; got '5'
    trl.vllm_importance_sampling_mode must be one of 'sequence_mask', …; got 'nonsense'

GRPOConfig is a dataclass: it holds whatever it is given, and a wrong word would be noticed in the first step, after the
model was loaded and a batch was sampled, or never.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from rubrank._plain import shortened, word_list
from rubrank.errors import InvalidInput, UnknownName

WORDS: Mapping[str, tuple[str, ...]] = {
    "vllm_importance_sampling_mode": ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask"),
    "vllm_mode": ("server", "colocate"),
    "vllm_model_impl": ("vllm", "transformers", "auto", "terratorch"),
    "multi_objective_aggregation": ("sum_then_normalize", "normalize_then_sum"),
    "cache_implementation": word_list("""
        dynamic dynamic_full offloaded static offloaded_static sliding_window hybrid hybrid_chunked offloaded_hybrid
        offloaded_hybrid_chunked quantized paged
    """),
    "include_num_input_tokens_seen": ("all", "non_padding", "no"),
    "torch_compile_mode": ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"),
}
"""Words that TRL, transformers and vLLM know, where the class itself does not say so."""

_MORE_KINDS: Mapping[str, tuple[type, ...]] = {
    "fsdp": (bool, list),
    "debug": (list,),
}
"""Kinds that are taken beside those that the class names."""

_FROM_ONE = word_list("""
    vllm_max_model_length vllm_tensor_parallel_size ref_model_sync_steps pad_to_multiple_of
    max_tool_calling_iterations torch_empty_cache_steps ddp_timeout ddp_bucket_cap_mb num_completions_to_print
    eval_accumulation_steps dataloader_prefetch_factor
""")
_ABOVE_ZERO = word_list("""
    adam_epsilon repetition_penalty vllm_server_timeout sapo_temperature_neg sapo_temperature_pos vespo_k_pos
    vespo_lambda_pos vespo_k_neg vespo_lambda_neg delta off_policy_mask_threshold vllm_importance_sampling_clip_max
    vllm_importance_sampling_cap
""")
_FROM_ZERO = word_list("""
    top_k dataloader_num_workers entropy_coef entropy_coef_min entropy_coef_max entropy_coef_delta entropy_target
    eval_delay neftune_noise_alpha router_aux_loss_coef vllm_importance_sampling_clip_min
""")
_SHARES = ("min_p", "top_entropy_quantile", "ref_model_mixup_alpha", "label_smoothing_factor")
_PORTS = ("vllm_server_port", "vllm_group_port")

RANGES: Mapping[str, str] = {
    **dict.fromkeys(_FROM_ONE, "[1, inf)"),
    **dict.fromkeys(_ABOVE_ZERO, "(0, inf)"),
    **dict.fromkeys(_FROM_ZERO, "[0, inf)"),
    **dict.fromkeys(_SHARES, "[0, 1]"),
    **dict.fromkeys(_PORTS, "[1, 65535]"),
    "adam_beta1": "[0, 1)",
    "adam_beta2": "[0, 1)",
    "vllm_gpu_memory_utilization": "(0, 1]",
    "lora_alpha": "(0, inf)",
    "lora_dropout": "[0, 1)",
    "r": "[1, inf)",
}
"""Where a number has a range: its ends, with square brackets where they belong to it."""


def check_values(given: Mapping[str, Any], kind: type, where: str, section: str) -> dict[str, Any]:
    """The values as the class takes them; raises the first that it would not know what to do with."""
    hints = get_type_hints(kind)
    choices = {field.name: field.metadata.get("choices") for field in fields(kind)}
    return {name: _checked(name, value, hints[name], choices[name], (where, section)) for name, value in given.items()}


def _checked(name: str, value: Any, hint: Any, choices: Any, place: tuple[str, str]) -> Any:
    where, section = place
    alternatives = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if isinstance(value, str) and float in alternatives and str not in alternatives:
        value = _number(value)
    if not (type(value) in _MORE_KINDS.get(name, ()) or _fits(value, alternatives)):
        names = " or ".join(dict.fromkeys(_name(kind) for kind in (*alternatives, *_MORE_KINDS.get(name, ()))))
        raise InvalidInput(where, f"{section}.{name}", names, shortened(repr(value), 80), "")
    words = WORDS.get(name) or _words(alternatives) or tuple(choices or ())
    if words and isinstance(value, str) and value not in words:
        raise UnknownName.of(where, f"{section}.{name}", value, words)
    if isinstance(value, int | float) and not isinstance(value, bool):
        _check_range(name, value, place)
    return value


def _number(text: str) -> Any:
    """YAML reads 1e-6 as a text."""
    try:
        return float(text)
    except ValueError:
        return text


def _fits(value: Any, alternatives: tuple[Any, ...]) -> bool:
    for kind in alternatives:
        if isinstance(kind, type) and issubclass(kind, Enum):
            if isinstance(value, str):
                return True
            continue
        try:
            adapter = TypeAdapter(kind, config=ConfigDict(strict=True, arbitrary_types_allowed=True))
            if isinstance(value, list | dict):
                adapter.validate_json(json.dumps(value))  # a list is a tuple there, as it is in a file
            else:
                adapter.validate_python(value)
        except ValidationError:
            continue
        except Exception:  # a kind that pydantic cannot read: a class of the library, or a dataclass of its own
            if isinstance(value, Mapping):
                return True
            continue
        return True
    return False


def _words(alternatives: tuple[Any, ...]) -> tuple[str, ...]:
    """Of an enumeration; where the class takes any other text besides, it means the same words."""
    enums = [kind for kind in alternatives if isinstance(kind, type) and issubclass(kind, Enum)]
    return tuple(str(word.value) for kind in enums for word in kind)


def _name(kind: Any) -> str:
    if kind is type(None):
        return "null"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "a text"
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind)))
    plain = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
    origin = get_origin(kind) or kind
    return plain.get(kind) or {list: "a list", dict: "a mapping"}.get(origin) or str(getattr(kind, "__name__", kind))


def _check_range(name: str, value: float, place: tuple[str, str]) -> None:
    allowed = RANGES.get(name)
    where, section = place
    if not math.isfinite(value):
        raise InvalidInput(where, f"{section}.{name}", "a finite number", repr(value), "")
    if allowed is None:
        return
    low, high = (float(end) for end in allowed[1:-1].split(","))
    inside = low < value < high or (value == low and allowed[0] == "[") or (value == high and allowed[-1] == "]")
    if not inside:
        raise InvalidInput(where, f"{section}.{name}", _in_words(low, high, allowed), repr(value), "")


def _in_words(low: float, high: float, allowed: str) -> str:
    if math.isinf(high):
        return f"{'≥' if allowed[0] == '[' else '>'} {low:g}"
    return f"in {allowed[0]}{low:g}, {high:g}{allowed[-1]}"
