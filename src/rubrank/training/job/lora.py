"""Low-rank adapters: `model.lora` as PEFT's LoraConfig.

lora: {r: 16, alpha: 32}                                   our names for the usual four
lora: {r: 16, use_dora: true, modules_to_save: [embed]}    whatever else LoraConfig takes, by its own name
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

from rubrank.errors import InvalidInput, RubrankError, UnknownName
from rubrank.training.job.config import Job, Lora
from rubrank.training.job.rehearsal import check_known, describe_error
from rubrank.training.job.trl_values import check_values

_OURS = {"lora_alpha": "alpha", "lora_dropout": "dropout", "target_modules": "targets"}
"""PEFT's name → ours; either will do, not both."""

_REFUSED = {
    "task_type": "It is always CAUSAL_LM.",
    "peft_type": "It is always LORA.",
    "inference_mode": "The adapters are trained.",
    "base_model_name_or_path": "It is model.path.",
    "revision": "It is that of the model: trl.model_init_kwargs.",
    "peft_version": "PEFT writes it itself.",
    "auto_mapping": "PEFT writes it itself.",
}


def make_lora_config(job: Job) -> Any:
    """Of the trainer; None where all weights are trained. Raises for what PEFT does not take."""
    lora = job.config.model.lora
    if lora is None:
        return None
    from peft import LoraConfig

    more = dict(lora.model_extra or {})
    _check_names(job, lora, more, {field.name for field in fields(LoraConfig) if field.init})
    hints = get_type_hints(LoraConfig)
    try:
        made = {name: _made(value, hints[name]) for name, value in more.items()}
        plain = {name: value for name, value in made.items() if not is_dataclass(value)}
        made |= check_values(plain, LoraConfig, job.where, "model.lora")
        return LoraConfig(**{**_usual(lora), **made, "task_type": "CAUSAL_LM"})
    except RubrankError:
        raise
    except Exception as error:  # each option has its own kinds
        raise InvalidInput(job.where, "model.lora", "what PEFT's LoraConfig takes", describe_error(error), "") from None


def check_adapters(job: Job, config: Any) -> None:
    """Do the adapters go into the model: tried on its layers without their weights."""
    if job.config.model.lora is None:
        return
    from peft import get_peft_model

    wanted = make_lora_config(job)
    layers = _layers(config)
    if layers is None:
        return
    names = [name for name, _ in layers.named_modules()]
    for parameter, given in (("targets", wanted.target_modules), ("modules_to_save", wanted.modules_to_save)):
        for one in given if isinstance(given, list | set | tuple) else ():
            if not any(name == one or name.endswith(f".{one}") for name in names):
                known = {name.rpartition(".")[2] for name in names if name} - {""}
                check_known(job, f"model.lora.{parameter}", [one], {name for name in known if not name.isdigit()})
    wanted.init_lora_weights = False  # there is nothing to begin with
    try:
        with warnings.catch_warnings(action="ignore"):
            get_peft_model(layers, wanted, low_cpu_mem_usage=True)
    except Exception as error:  # each option has its own kinds
        raise InvalidInput(job.where, "model.lora", "adapters that fit the model", describe_error(error), "") from None


def _layers(config: Any) -> Any:
    """The model without memory for its weights; None for one that only its own code can make."""
    import torch
    import transformers

    kind = getattr(transformers, (getattr(config, "architectures", None) or [""])[0], None)
    if kind is None:
        return None
    try:
        with torch.device("meta"):
            return kind(copy.deepcopy(config))
    except Exception:  # not what is asked here: loading it says what is wrong
        return None


def _usual(lora: Lora) -> dict[str, Any]:
    targets = lora.targets if isinstance(lora.targets, str) else list(lora.targets)
    return {"r": lora.r, "lora_alpha": lora.alpha, "lora_dropout": lora.dropout, "target_modules": targets}


def _check_names(job: Job, lora: Lora, more: Mapping[str, Any], known: set[str]) -> None:
    for name in more:
        if name in _REFUSED:
            raise InvalidInput(job.where, f"model.lora.{name}", "left out", repr(more[name]), _REFUSED[name])
        if name not in known:
            raise UnknownName.of(job.where, "model.lora", name, (known - _REFUSED.keys()) | set(Lora.model_fields))
        if _OURS.get(name) in lora.model_fields_set:
            raise InvalidInput(job.where, f"model.lora.{name}", f"given without {_OURS[name]}", "both", "")
    targets = more.get("target_modules", lora.targets)
    if "lm_head" in ([targets] if isinstance(targets, str) else targets or ()):
        remedy = "TRL takes its weights directly: an adapter there would never be trained."
        raise InvalidInput(job.where, "model.lora.targets", "without lm_head", "it", remedy)


def _made(value: Any, hint: Any) -> Any:
    """A mapping, where PEFT wants an object of its own: that object."""
    kinds = [kind for kind in (hint, *get_args(hint)) if isinstance(kind, type) and is_dataclass(kind)]
    return kinds[0](**value) if kinds and isinstance(value, Mapping) else value
