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
from inspect import getmembers, iscoroutinefunction, isfunction, signature
from typing import Any

from rubrank._plain import shortened
from rubrank.errors import InvalidInput, UnknownName
from rubrank.training.job.config import Job
from rubrank.training.job.data import ENVIRONMENT, STAGE


@dataclass(frozen=True)
class Components:
    """What the trainer is handed; None where the config names nothing."""

    tools: tuple[Any, ...] | None = None
    environments: Any = None
    rollout: Any = None


def import_modules(job: Job) -> None:
    """The config's `imports`, which register verifiers and the like; whatever is named later is found as well."""
    _look_beside(job)
    for module in job.config.imports:
        _module(job, "imports", module)


def load_components(job: Job) -> Components:
    """Tools, environments and the rollout function, each imported and callable."""
    config = job.config
    environments: Any = config.environments
    if isinstance(environments, Mapping):
        if not environments:
            raise InvalidInput(job.where, "environments", "at least one", "none", "Or leave the key out.")
        environments = {name: _environment(job, f"environments.{name}", path) for name, path in environments.items()}
    elif environments is not None:
        environments = _environment(job, "environments", environments)
    tools = tuple(_tool(job, f"tools.{number}", path) for number, path in enumerate(config.tools))
    _check_different(job, tools)
    rollout = None if config.rollout is None else _rollout(job, config.rollout)
    return Components(tools or None, environments, rollout)


def check_tools(job: Job, tokenizer: Any, chat: bool) -> None:
    """Tools and environments are called in messages of the model's chat template."""
    if not job.config.tools and job.config.environments is None:
        return
    from trl.chat_template_utils import supports_tool_calling

    if not chat or not supports_tool_calling(tokenizer):
        name = "tools" if job.config.tools else "environments"
        remedy = "Choose a model that was tuned for tools."
        raise InvalidInput(job.where, name, "left out for a model whose chat template has no tools", "some", remedy)


def check_environments(job: Job, found: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    """With several environments every row says which is its own; each is reset with a row's columns."""
    known = job.config.environments
    if known is None:
        return
    columns = dict.fromkeys(name for row in rows for name in row if name != ENVIRONMENT)
    columns |= {STAGE: None} if len(job.config.stages) > 1 else {}
    if not isinstance(known, Mapping):
        _check_reset(job, "environments", known, found, columns)
        return
    for name, path in known.items():
        _check_reset(job, f"environments.{name}", path, found[name], columns)
    for number, row in enumerate(rows, start=1):
        if row.get(ENVIRONMENT) not in known:
            raise UnknownName.of(f"{job.where}: prompt {number}", ENVIRONMENT, str(row.get(ENVIRONMENT)), known)


def _check_reset(job: Job, place: str, path: str, found: Any, columns: Mapping[str, Any]) -> None:
    if not isinstance(found, type):
        return  # what a function makes is not known before it is called
    wrong = _unfit(found.reset, None, **columns)  # type: ignore[attr-defined]
    if wrong:
        remedy = "It gets every column of a row: let it take **kwargs."
        raise InvalidInput(job.where, place, f"a class whose reset fits the rows: {path}", wrong, remedy)


def _unfit(function: Any, *args: Any, **kwargs: Any) -> str:
    """What is wrong with calling it so; empty: nothing, or it does not say what it takes."""
    try:
        signature(function).bind(*args, **kwargs)
    except TypeError as error:
        return str(error).removeprefix("got ")
    except ValueError:  # made elsewhere than in Python
        return ""
    return ""


def _look_beside(job: Job) -> None:
    folder = str(job.file.parent.resolve())
    if folder not in sys.path:
        sys.path.append(folder)  # last: a file beside the config hides no installed module


def _tool(job: Job, place: str, path: str) -> Any:
    found = _callable(job, place, path)
    if isinstance(found, type):
        raise InvalidInput(job.where, place, "a function", f"{path}: a class", "For a class, see environments.")
    _check_described(job, place, path, found)
    return found


def _check_different(job: Job, tools: Sequence[Any]) -> None:
    """The policy calls them by their names."""
    known: dict[str, Any] = {}
    for tool in tools:
        name = str(getattr(tool, "__name__", tool))
        if known.setdefault(name, tool) is not tool:
            raise InvalidInput(job.where, "tools", "of different names", f"two that are called {name!r}", "")


def _environment(job: Job, place: str, path: str) -> Any:
    """A class, or a function, that TRL calls with nothing; methods of a class are tools."""
    found = _callable(job, place, path)
    if wrong := _unfit(found):
        remedy = "TRL makes one for each rollout, and hands it nothing: reset gets the row."
        raise InvalidInput(job.where, place, f"callable without arguments: {path}", wrong, remedy)
    if isinstance(found, type):
        methods = dict(getmembers(found, isfunction))
        if "reset" not in methods:
            raise InvalidInput(job.where, place, "a class with a method reset", path, "")
        for name in methods:
            if name not in ("reset", "get_reward") and not name.startswith("_"):
                _check_described(job, place, f"{path}.{name}", methods[name])
    return found


def _rollout(job: Job, path: str) -> Any:
    """A function of the prompts and the trainer, which TRL calls once for a batch."""
    found = _callable(job, "rollout", path)
    if isinstance(found, type) or iscoroutinefunction(found):
        got = f"{path}: {'a class' if isinstance(found, type) else 'an async function'}"
        raise InvalidInput(job.where, "rollout", "a function", got, "It is called with prompts and trainer.")
    if wrong := _unfit(found, [], None):
        raise InvalidInput(job.where, "rollout", f"a function of prompts and trainer: {path}", wrong, "")
    return found


def _check_described(job: Job, place: str, path: str, found: Any) -> None:
    """TRL makes the model's description of a tool from its docstring and types."""
    from transformers.utils import get_json_schema

    try:
        get_json_schema(found)
    except Exception as error:
        got = shortened(" ".join(str(error).split()), 200).rstrip(".!")
        remedy = "Give it types, and a docstring with `Args:`."
        allowed = f"a function that can be described to a model: {path}"
        raise InvalidInput(job.where, place, allowed, got, remedy) from None


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
    except (Exception, SystemExit) as error:  # whatever its own code raises
        got = shortened(f"{name!r} ({type(error).__name__}: {' '.join(str(error).split())})", 240)
        remedy = "Put it beside the config, or on PYTHONPATH."
        raise InvalidInput(job.where, place, "a module that can be imported", got, remedy) from None
