"""Checks of a config that need no model: installed packages, known names, arguments of the classes of TRL and PEFT, and
what is imported by its dotted path.

    trl.top_k must be a whole number; got 2.5
    model.lora.bias must be one of 'none', 'all', 'lora_only'; got 'some'

The config names modules, tools, environments and rollout functions like this:

    imports: [my_verifiers]              a module beside the config, or an installed one
    tools: [my_tools.search, my_tools:add]
    environments: my_world.World         or {shop: my_world.Shop, bank: my_world.Bank}, with a column `environment`
    rollout: my_rollouts.sample

TRL calls tools, environments and rollout functions; its documentation says which signatures they must have.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from importlib.util import find_spec
from inspect import getmembers, isfunction, signature
from typing import Any, get_type_hints

from pydantic import ConfigDict, ImportString, TypeAdapter, ValidationError, create_model

from rubrank._plain import Strict, shorten, validate_model
from rubrank.errors import UnknownName
from rubrank.training.job.config import PAGE, Job
from rubrank.training.job.data import ENVIRONMENT, STAGE

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

    section: the key of the config, "trl" or "model.lora". decided: arguments that the config may not set.
    Numbers are read from texts, because YAML reads 1e-6 as a text; mappings become the dataclasses that are declared.
    """
    hints = get_type_hints(config_class)
    types: dict[str, Any] = {
        field.name: (hints[field.name], None)
        for field in fields(config_class)
        if field.init and field.name not in decided
    }
    arguments_model = create_model("Arguments", __base__=_Arguments, **types)
    # A model around it, with the section as its only field, so that messages begin with the name of the section.
    section_model = create_model("Section", **{section: (arguments_model, ...)})  # type: ignore[call-overload]
    config = validate_model(section_model, {section: values}, job.where, PAGE)
    arguments = getattr(config, section)
    return {name: getattr(arguments, name) for name in values}


# ---------------------------------------------------------------------------------------- tools, environments, rollouts


@dataclass(frozen=True)
class Components:
    """Objects for the trainer; None for what the config does not name."""

    tools: list[Any] | None = None
    environments: Any = None
    rollout: Any = None


def import_modules(job: Job) -> None:
    """Import the config's `imports`, which register verifiers and the like; finds modules beside the config, too."""
    folder = str(job.file.parent.resolve())
    if folder not in sys.path:
        # Last, so that a file beside the config does not hide an installed module.
        sys.path.append(folder)
    for module in job.config.imports:
        _import(job, "imports", module)


def load_components(job: Job) -> Components:
    """Tools, environments and the rollout function, each imported and checked."""
    config = job.config
    environments: Any = config.environments
    if isinstance(environments, Mapping):
        environments = {
            name: _load_environment(job, f"environments.{name}", path)
            for name, path in environments.items()
        }
    elif environments is not None:
        environments = _load_environment(job, "environments", environments)
    tool_of_name: dict[str, Any] = {}  # the policy calls a tool by its name
    for number, path in enumerate(config.tools):
        tool = _load_callable(job, f"tools.{number}", path)
        _check_description(job, f"tools.{number}", path, tool)
        if tool_of_name.setdefault(tool.__name__, tool) is not tool:
            raise job.invalid("names of tools", "different", f"two tools named {tool.__name__!r}")
    rollout = None
    if config.rollout is not None:
        rollout = _load_callable(job, "rollout", config.rollout)
        prompts: list[Any] = []
        trainer = None
        allowed = "a function of prompts and trainer"
        _check_call(job, "rollout", allowed, rollout, prompts, trainer)
    return Components(list(tool_of_name.values()) or None, environments, rollout)


def check_tools(job: Job, tokenizer: Any, chat: bool) -> None:
    """Raise if there are tools or environments, and the chat template does not support tool calls."""
    if not job.config.tools and job.config.environments is None:
        return
    from trl.chat_template_utils import supports_tool_calling

    if not chat or not supports_tool_calling(tokenizer):
        name = "tools" if job.config.tools else "environments"
        remedy = "Choose a model that was tuned for tools."
        raise job.invalid(
            name, "left out for a model whose chat template has no tools", "some", remedy
        )


def check_environments(job: Job, environments: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    """Raise if `reset` of an environment does not take the columns of a row, or a row names an unknown environment."""
    if environments is None:
        return
    columns = dict.fromkeys(name for row in rows for name in row if name != ENVIRONMENT)
    if len(job.config.stages) > 1:
        columns[STAGE] = None
    is_named = isinstance(environments, Mapping)  # several, and each row names one
    all_environments = list(environments.values()) if is_named else [environments]
    for environment in all_environments:
        if isinstance(environment, type):  # what a function returns is unknown before it is called
            allowed = "a class whose reset takes every column of a row, such as **kwargs"
            reset = getattr(environment, "reset", None)
            # `reset` is taken from the class, so its first argument is `self`.
            _check_call(job, "environments", allowed, reset, None, **columns)
    if is_named:
        for number, row in enumerate(rows, start=1):
            name = str(row.get(ENVIRONMENT))
            if name not in environments:
                where = f"{job.where}: prompt {number}"
                raise UnknownName.of(where, ENVIRONMENT, name, environments)


def _check_call(
    job: Job, place: str, allowed: str, function: Any, /, *args: Any, **kwargs: Any
) -> None:
    """Raise if a function cannot be called with the arguments `args` and `kwargs`.

    place: the key of the config. allowed: what is allowed, for the message. These are positional, because columns of a
    row, which may have the same names, are passed as `kwargs`.
    """
    try:
        signature(function).bind(*args, **kwargs)
    except TypeError as error:
        name = getattr(function, "__qualname__", function)
        raise job.invalid(place, allowed, f"{name} ({error})") from None
    except ValueError:  # it is not written in Python, and has no signature
        return


def _load_environment(job: Job, place: str, path: str) -> Any:
    """Load a class or function that TRL calls without arguments, once per rollout, to make an environment.

    The public methods of a class are tools, except `reset`, which gets the row, and `get_reward`.
    """
    environment = _load_callable(job, place, path)
    _check_call(job, place, "callable without arguments", environment)
    if isinstance(environment, type):
        for name, method in getmembers(environment, isfunction):
            if name not in ("reset", "get_reward") and not name.startswith("_"):
                _check_description(job, place, f"{path}.{name}", method)
    return environment


def _check_description(job: Job, place: str, path: str, function: Any) -> None:
    """Raise if TRL cannot describe a tool to the model, which it does with the docstring and the types."""
    from transformers.utils import get_json_schema

    try:
        get_json_schema(function)
    except Exception as error:
        allowed = "a function that can be described to a model"
        got = f"{path} ({describe_error(error)})"
        remedy = "Give it types, and a docstring with `Args:`."
        raise job.invalid(place, allowed, got, remedy) from None


def _load_callable(job: Job, place: str, path: str) -> Any:
    """Load a function or class by its dotted path, `module.name` or `module:name`. place: the key of the config."""
    value = _import(job, place, path)
    if not callable(value):
        raise job.invalid(place, "a function or a class", f"{path}: {type(value).__name__}")
    return value


def _import(job: Job, place: str, path: str) -> Any:
    """Import a module, or something in a module, by its dotted path."""
    try:
        return TypeAdapter(ImportString).validate_python(path)
    except (Exception, SystemExit) as error:  # a module's own code may raise anything
        problem = error.errors()[0]["msg"] if isinstance(error, ValidationError) else repr(error)
        got = f"{path!r} ({shorten(' '.join(problem.split()), 200)})"
        remedy = "Put it beside the config, or on PYTHONPATH."
        raise job.invalid(
            place, "what can be imported, such as my_tools.search", got, remedy
        ) from None
