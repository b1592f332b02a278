"""Python objects that a config names by their dotted paths: modules, tools, environments, rollout functions.

    imports: [my_verifiers]              a module beside the config, or an installed one
    tools: [my_tools.search, my_tools:add]
    environments: my_world.World         or {shop: my_world.Shop, bank: my_world.Bank}, with a column `environment`
    rollout: my_rollouts.sample

TRL calls tools, environments and rollout functions; its documentation says which signatures they must have.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from inspect import getmembers, iscoroutinefunction, isfunction, signature
from typing import Any

from rubrank._plain import shorten
from rubrank.errors import UnknownName
from rubrank.training.job.config import Job
from rubrank.training.job.data import ENVIRONMENT, STAGE


@dataclass(frozen=True)
class Components:
    """Objects for the trainer; None for what the config does not name."""

    tools: tuple[Any, ...] | None = None
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
        if not environments:
            raise job.invalid("environments", "at least one", "none", "Or leave the key out.")
        environments = {
            name: _load_environment(job, f"environments.{name}", path)
            for name, path in environments.items()
        }
    elif environments is not None:
        environments = _load_environment(job, "environments", environments)
    tools = []
    tool_of_name: dict[str, Any] = {}
    for number, path in enumerate(config.tools):
        place = f"tools.{number}"
        tool = _load_callable(job, place, path)
        if isinstance(tool, type):
            remedy = "For a class, see environments."
            raise job.invalid(place, "a function", f"{path}: a class", remedy)
        _check_description(job, place, path, tool)
        name = str(getattr(tool, "__name__", tool))  # the policy calls the tool by this name
        if tool_of_name.setdefault(name, tool) is not tool:
            raise job.invalid("names of tools", "different", f"two tools named {name!r}")
        tools.append(tool)
    rollout = None if config.rollout is None else _load_rollout(job, config.rollout)
    return Components(tuple(tools) or None, environments, rollout)


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
    paths = job.config.environments
    if paths is None:
        return
    columns = dict.fromkeys(name for row in rows for name in row if name != ENVIRONMENT)
    if len(job.config.stages) > 1:
        columns[STAGE] = None
    if not isinstance(paths, Mapping):
        _check_reset(job, "environments", paths, environments, columns)
        return
    for name, path in paths.items():
        _check_reset(job, f"environments.{name}", path, environments[name], columns)
    for number, row in enumerate(rows, start=1):
        if row.get(ENVIRONMENT) not in paths:
            raise UnknownName.of(
                f"{job.where}: prompt {number}", ENVIRONMENT, str(row.get(ENVIRONMENT)), paths
            )


def _check_reset(
    job: Job, place: str, path: str, environment: Any, columns: Mapping[str, Any]
) -> None:
    """Raise if the class's `reset` cannot be called with the columns of a row."""
    if not isinstance(environment, type):
        return  # what a function returns is unknown before it is called
    problem = _find_call_problem(environment.reset, None, **columns)  # type: ignore[attr-defined]
    if problem:
        remedy = "It gets every column of a row: let it take **kwargs."
        raise job.invalid(place, f"a class whose reset fits the rows: {path}", problem, remedy)


def _find_call_problem(function: Any, *args: Any, **kwargs: Any) -> str:
    """Why a function cannot be called with these arguments; empty if it can, or has no signature."""
    try:
        signature(function).bind(*args, **kwargs)
    except TypeError as error:
        return str(error).removeprefix("got ")
    except ValueError:  # not written in Python
        return ""
    return ""


def _load_environment(job: Job, place: str, path: str) -> Any:
    """Load a class or function that TRL calls without arguments to make an environment.

    The public methods of a class are tools, except `reset` and `get_reward`.
    """
    environment = _load_callable(job, place, path)
    if problem := _find_call_problem(environment):
        remedy = "TRL makes one for each rollout, without arguments: reset gets the row."
        raise job.invalid(place, f"callable without arguments: {path}", problem, remedy)
    if isinstance(environment, type):
        methods = dict(getmembers(environment, isfunction))
        if "reset" not in methods:
            raise job.invalid(place, "a class with a method reset", path)
        for name in methods:
            if name not in ("reset", "get_reward") and not name.startswith("_"):
                _check_description(job, place, f"{path}.{name}", methods[name])
    return environment


def _load_rollout(job: Job, path: str) -> Any:
    """Load a function of the prompts and the trainer, which TRL calls once per batch."""
    rollout = _load_callable(job, "rollout", path)
    if isinstance(rollout, type) or iscoroutinefunction(rollout):
        kind = "a class" if isinstance(rollout, type) else "an async function"
        remedy = "It is called with prompts and trainer."
        raise job.invalid("rollout", "a function", f"{path}: {kind}", remedy)
    if problem := _find_call_problem(rollout, [], None):
        raise job.invalid("rollout", f"a function of prompts and trainer: {path}", problem)
    return rollout


def _check_description(job: Job, place: str, path: str, function: Any) -> None:
    """Raise if TRL cannot describe a tool to the model, which it does with the docstring and the types."""
    from transformers.utils import get_json_schema

    try:
        get_json_schema(function)
    except Exception as error:
        allowed = f"a function that can be described to a model: {path}"
        got = shorten(" ".join(str(error).split()), 200).rstrip(".!")
        remedy = "Give it types, and a docstring with `Args:`."
        raise job.invalid(place, allowed, got, remedy) from None


def _load_callable(job: Job, place: str, path: str) -> Any:
    """Load a function or class by its dotted path. place: the key of the config, for messages."""
    module, _, name = path.rpartition(":" if ":" in path else ".")
    if not module or not name:
        raise job.invalid(place, "module.name", repr(path), "Such as my_tools.search.")
    value = _import(job, place, module)
    for part in name.split("."):
        if not hasattr(value, part):
            names = [
                f"{module}.{attribute}"
                for attribute in vars(value)
                if not attribute.startswith("_")
            ]
            raise UnknownName.of(job.where, place, path, names)
        value = getattr(value, part)
    if not callable(value):
        raise job.invalid(place, "a function or a class", f"{path}: {type(value).__name__}")
    return value


def _import(job: Job, place: str, name: str) -> Any:
    try:
        return import_module(name)
    except (Exception, SystemExit) as error:  # a module's own code may raise anything
        got = shorten(f"{name!r} ({type(error).__name__}: {' '.join(str(error).split())})", 240)
        remedy = "Put it beside the config, or on PYTHONPATH."
        raise job.invalid(place, "a module that can be imported", got, remedy) from None
