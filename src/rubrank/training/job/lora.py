"""Low-rank adapters: `model.lora` as PEFT's LoraConfig.

lora: {r: 16, alpha: 32}                                   r, alpha, dropout and targets: the usual options
lora: {r: 16, use_dora: true, modules_to_save: [embed]}    all other options, under the names of LoraConfig
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

from rubrank.errors import InvalidInput, RubrankError, UnknownName
from rubrank.training.job.checks import check_known, check_values, describe_error
from rubrank.training.job.config import Job, Lora

_OWN_NAMES = {"lora_alpha": "alpha", "lora_dropout": "dropout", "target_modules": "targets"}
"""PEFT's name → ours; a config may use one of the two."""

_DECIDED_ELSEWHERE = {
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
    """PEFT's LoraConfig; None if all weights are trained. Raises for options that PEFT does not take."""
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
        raise InvalidInput(
            job.where, "model.lora", "what PEFT's LoraConfig takes", got, ""
        ) from None


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
        raise InvalidInput(
            job.where, "model.lora", "adapters that fit the model", describe_error(error), ""
        ) from None


def _make_layers(config: Any) -> Any:
    """The model without memory for its weights; None if only the model's own code can make it."""
    import torch
    import transformers

    architectures = getattr(config, "architectures", None) or [""]
    model_class = getattr(transformers, architectures[0], None)
    if model_class is None:
        return None
    try:
        with torch.device("meta"):
            return model_class(copy.deepcopy(config))
    except Exception:  # loading the model will say what is wrong
        return None


def _check_names(job: Job, lora: Lora, extra: Mapping[str, Any], known_names: set[str]) -> None:
    """Raise for options that LoraConfig does not have, that are decided elsewhere, or that are given twice."""
    for name, value in extra.items():
        if name in _DECIDED_ELSEWHERE:
            raise InvalidInput(
                job.where, f"model.lora.{name}", "left out", repr(value), _DECIDED_ELSEWHERE[name]
            )
        if name not in known_names:
            allowed_names = (known_names - _DECIDED_ELSEWHERE.keys()) | set(Lora.model_fields)
            raise UnknownName.of(job.where, "model.lora", name, allowed_names)
        own_name = _OWN_NAMES.get(name)
        if own_name in lora.model_fields_set:
            raise InvalidInput(
                job.where, f"model.lora.{name}", f"given without {own_name}", "both", ""
            )
    targets = extra.get("target_modules", lora.targets) or ()
    target_names = [targets] if isinstance(targets, str) else targets
    if "lm_head" in target_names:
        remedy = "TRL uses its weights directly: an adapter there would never be trained."
        raise InvalidInput(
            job.where, "model.lora.targets", "without lm_head", repr(targets), remedy
        )


def _to_object(value: Any, hint: Any) -> Any:
    """A mapping as one of PEFT's dataclasses, if the option takes one; other values unchanged."""
    for kind in (hint, *get_args(hint)):
        if isinstance(kind, type) and is_dataclass(kind) and isinstance(value, Mapping):
            return kind(**value)
    return value
