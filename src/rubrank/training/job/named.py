"""What a config names by its dotted path: modules to import, tools, environments and rollout functions.

    imports: [my_verifiers]              a module beside the config, or an installed one
    tools: [my_tools.search, my_tools:add]
    environments: my_world.World         or {shop: my_world.Shop, bank: my_world.Bank}, with a column `environment`
    rollout: my_rollouts.sample

All of them are called by TRL, which says what they must be like. Modules are looked for beside the config file, too.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from rubrank._plain import shortened
from rubrank.errors import InvalidInput, UnknownName
from rubrank.training.job.job import Job


@dataclass(frozen=True)
class Named:
    """What the trainer is handed; None where the config names nothing."""

    tools: tuple[Any, ...] | None = None
    environments: Any = None
    rollout: Any = None


def import_modules(job: Job) -> None:
    """The config's `imports`, which register verifiers and the like; whatever is named later is found as well."""
    _look_beside(job)
    for module in job.config.imports:
        _module(job, "imports", module)


def named(job: Job) -> Named:
    """Tools, environments and the rollout function, each imported and callable."""
    config = job.config
    environments: Any = config.environments
    if isinstance(environments, Mapping):
        environments = {name: _callable(job, f"environments.{name}", path) for name, path in environments.items()}
    elif environments is not None:
        environments = _callable(job, "environments", environments)
    tools = tuple(_tool(job, f"tools.{number}", path) for number, path in enumerate(config.tools))
    rollout = None if config.rollout is None else _callable(job, "rollout", config.rollout)
    return Named(tools or None, environments, rollout)


def check_tools(job: Job, tokenizer: Any, chat: bool) -> None:
    """Tools and environments are called in messages of the model's chat template."""
    if not job.config.tools and job.config.environments is None:
        return
    from trl.chat_template_utils import supports_tool_calling

    if not chat or not supports_tool_calling(tokenizer):
        name = "tools" if job.config.tools else "environments"
        remedy = "Choose a model that was tuned for tools."
        raise InvalidInput(job.where, name, "left out for a model whose chat template has no tools", "some", remedy)


def check_environments(job: Job, rows: Sequence[Mapping[str, Any]]) -> None:
    """With several environments every row says which is its own."""
    known = job.config.environments
    if not isinstance(known, Mapping):
        return
    for number, row in enumerate(rows, start=1):
        if row.get("environment") not in known:
            raise UnknownName.of(f"{job.where}: prompt {number}", "environment", str(row.get("environment")), known)


def _look_beside(job: Job) -> None:
    folder = str(job.file.parent.resolve())
    if folder not in sys.path:
        sys.path.append(folder)  # last: a file beside the config hides no installed module


def _tool(job: Job, place: str, path: str) -> Any:
    """TRL makes the model's description of a tool from its docstring and types."""
    from transformers.utils import get_json_schema

    found = _callable(job, place, path)
    try:
        get_json_schema(found)
    except Exception as error:
        got = shortened(" ".join(str(error).split()), 200)
        remedy = "Give it types, and a docstring with `Args:`."
        raise InvalidInput(
            job.where, place, f"a function that can be described to a model: {path}", got, remedy
        ) from None
    return found


def _callable(job: Job, place: str, path: str) -> Any:
    module, _, name = path.rpartition(":" if ":" in path else ".")
    if not module or not name:
        raise InvalidInput(job.where, place, "module.name", repr(path), "Such as my_tools.search.")
    found = _module(job, place, module)
    for part in name.split("."):
        if not hasattr(found, part):
            raise UnknownName.of(job.where, place, path, [f"{module}.{one}" for one in vars(found) if one[0] != "_"])
        found = getattr(found, part)
    if not callable(found):
        raise InvalidInput(job.where, place, "a function or a class", f"{path}: {type(found).__name__}", "")
    return found


def _module(job: Job, place: str, name: str) -> Any:
    try:
        return import_module(name)
    except Exception as error:  # whatever its own code raises
        got = shortened(f"{name!r} ({type(error).__name__}: {' '.join(str(error).split())})", 240)
        remedy = "Put it beside the config, or on PYTHONPATH."
        raise InvalidInput(job.where, place, "a module that can be imported", got, remedy) from None
