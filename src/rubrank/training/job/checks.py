"""Checks of a config that need no model: installed packages, known names, and arguments of the classes of TRL and PEFT.

trl.top_k must be a whole number; got 2.5
model.lora.bias must be one of 'none', 'all', 'lora_only'; got 'some'
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Any, get_type_hints

from pydantic import ConfigDict, create_model

from rubrank._plain import Strict, shorten, validate_model
from rubrank.errors import UnknownName
from rubrank.training.job.config import PAGE, Job

_MOST_LISTED = 20  # a message lists at most this many allowed names
_ALL_LOGGERS = "all"  # in transformers, this means every logger that is installed
# Logger → its package, if that has another name.
_LOGGER_PACKAGES = {"azure_ml": "azureml.core", "flyte": "flytekit"}
# Setting under `trl` → the package that it needs, and how to install it.
_TRL_PACKAGES = {
    "use_vllm": ("vllm", "'trl[vllm]'"),
    "use_liger_kernel": ("liger_kernel", "liger-kernel"),
    "deepspeed": ("deepspeed", "deepspeed"),
}


def check_installed(job: Job) -> None:
    """Raise InvalidInput for the first package that the config needs and that is not installed.

    Raises UnknownName for a logger that transformers does not know.
    """
    config = job.config
    # Needed package → what to do if it is missing.
    remedies = {"trl": "pip install 'rubrank[trl]'"}
    if config.model.lora is not None:
        remedies["peft"] = "pip install peft, or leave model.lora out"
    for name, (package, requirement) in _TRL_PACKAGES.items():
        if config.trl.get(name):
            remedies[package] = f"pip install {requirement}, or leave trl.{name} out"
    if config.records.path.endswith(".zst"):
        remedies["zstandard"] = "pip install zstandard, or choose records of another kind"
    if config.report_to != (_ALL_LOGGERS,):
        for logger in config.report_to:
            package = _LOGGER_PACKAGES.get(logger, logger)
            remedies[package] = f"pip install {package.replace('.', '-')}, or change report_to"
        if is_installed("trl"):
            from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

            check_known(job, "report_to", config.report_to, INTEGRATION_TO_CALLBACK)
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
    return shorten(" ".join(str(error).split()), 240).rstrip(".!") or type(error).__name__


class _Arguments(Strict):
    """Arguments of a library's class; types that pydantic does not know are checked as classes."""

    model_config = ConfigDict(
        arbitrary_types_allowed=True, allow_inf_nan=False, protected_namespaces=()
    )


def read_arguments(
    job: Job, section: str, values: Mapping[str, Any], config_class: type, decided: Collection[str]
) -> dict[str, Any]:
    """Return the arguments with the types that a library's dataclass declares; raises for the first wrong one.

    section: the key of the config, "trl" or "lora". decided: arguments that the config may not set.
    Numbers are read from texts, because YAML reads 1e-6 as a text; mappings become the dataclasses that are declared.
    """
    hints = get_type_hints(config_class)
    types: dict[str, Any] = {
        field.name: (hints[field.name], None)
        for field in fields(config_class)
        if field.init and field.name not in decided
    }
    arguments_model = create_model("Arguments", __base__=_Arguments, **types)
    # A model around it, so that messages begin with the name of the section.
    section_model = create_model("Section", **{section: (arguments_model, ...)})  # type: ignore[call-overload]
    arguments = getattr(validate_model(section_model, {section: values}, job.where, PAGE), section)
    return {name: getattr(arguments, name) for name in values}
