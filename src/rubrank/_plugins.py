"""Load the extensions of users, and check what they register: from modules they name, or from installed packages.

    [project.entry-points."rubrank.plugins"]        in the pyproject.toml of a package
    my_checks = "my_checks.rubrank"                 a module that registers things when it is imported

    load_plugins()                imports all of them, once
    import_module("my_checks")    imports one module that the user named

A registry that does not know a name calls `load_plugins()` and looks again. So installed plug-ins cost no time until
somebody uses a name that is not built in. Every registry calls `check_free` before it adds a name: built-in names and
names that belong to another object are refused.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from reprlib import repr as brief
from typing import Any

from rubrank.errors import InvalidInput, RubrankError, is_library_file

GROUP = "rubrank.plugins"
_lock = threading.RLock()
_loaded = False
_packages: set[str] = set()
"""Top-level packages of plug-ins and imported modules. Their code counts as the user's, even in site-packages."""


def load_plugins() -> None:
    """Import the plug-ins of all installed packages, once. One that cannot be imported is skipped with a warning."""
    global _loaded
    with _lock:
        if _loaded:
            return
        _loaded = True  # set first: a plug-in may look up a name while it is imported, which calls this function again
        from importlib.metadata import entry_points  # imported here, because it is slow to import

        for plugin in entry_points(group=GROUP):
            module = plugin.value.partition(":")[0]
            _packages.add(module.partition(".")[0])
            try:
                plugin.load()
            except (Exception, SystemExit) as error:
                package = plugin.dist.name if plugin.dist is not None else plugin.value
                message = f"the plug-in {plugin.name!r} of {package} is skipped: {type(error).__name__}: {error}"
                warnings.warn(message, RuntimeWarning, stacklevel=2)


def import_module(name: str) -> None:
    """Import a module that the user named, also from the current directory. Raises InvalidInput if that fails."""
    allowed = "the name of a module, such as my_checks or my_package.checks"
    is_file = "/" in name or name.endswith(".py")
    if is_file or not all(part.isidentifier() for part in name.split(".")):
        remedy = "Give the module's name, not its file." if is_file else ""
        raise InvalidInput("import", "module", allowed=allowed, got=repr(name), remedy=remedy)
    current_folder = os.getcwd()
    if current_folder not in sys.path and "" not in sys.path:
        sys.path.insert(0, current_folder)
    _packages.add(name.partition(".")[0])
    try:
        importlib.import_module(name)
    except InvalidInput:  # the module registers something that is refused, which the message names
        raise
    except (Exception, SystemExit) as error:
        raise InvalidInput(
            "import",
            "module",
            allowed="a module that can be imported",
            got=f"{name!r}: {type(error).__name__}: {error}",
        ) from error


def find_failed_line(error: BaseException) -> str | None:
    """Find the innermost line of the user's code in the traceback of an error, such as `my_rules.py, line 12`.

    None if no code of the user was running, and for rubrank's own errors, whose messages are sufficient.
    """
    if isinstance(error, RubrankError):
        return None
    place = None
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        package = str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        if package in _packages or not is_library_file(file):
            path = os.path.relpath(file) if os.path.exists(file) else file
            place = f"{path}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return place


def find_home(thing: Any) -> tuple[str, str]:
    """Return the module and the qualified name of an object.

    If two objects share them, one definition was executed twice.
    """
    while isinstance(thing, partial):
        thing = thing.func
    definition = thing if hasattr(thing, "__qualname__") else type(thing)
    return getattr(definition, "__module__", None) or "", definition.__qualname__


@dataclass(frozen=True)
class Imported:
    """Names of modules that register things. Unpickling this in another process imports them there.

    `fusion/cluster.py` sends it to Ray's workers with each task, so that they know a user's own rule.
    """

    modules: tuple[str, ...] = ()

    def __reduce__(self) -> Any:
        return _import_all, (self.modules,)


def _import_all(modules: tuple[str, ...]) -> Imported:
    """Import the modules: what unpickling an `Imported` calls."""
    for module in modules:
        import_module(module)
    return Imported(modules)


def find_importing_module() -> str:
    """Return the name of the user's module whose import is calling the library; "" if no module is being imported.

    Another process can repeat such a registration by importing the module. It cannot repeat what a script (__main__) or
    a function registers.
    """
    # The first caller outside of rubrank.
    frame = sys._getframe(1)
    while frame.f_back is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package != "rubrank":
            break
        frame = frame.f_back
    name = str(frame.f_globals.get("__name__", "__main__"))
    is_top_level = frame.f_code.co_name == "<module>"
    return name if is_top_level and name != "__main__" else ""


def is_from_library(thing: Any) -> bool:
    """Return whether the object, or its class, is defined in rubrank."""
    return find_home(thing)[0].split(".")[0] == "rubrank"


def check_free(
    kind: str, name: object, thing: Any, find: Callable[[str], Any], reserved: bool = False
) -> str:
    """Return `name` if `thing` may be registered under it; raise InvalidInput if not.

    kind: such as "rule", for messages. find: returns the object that is registered under a name, or None.
    reserved: the name is built in, although nothing is registered under it yet.
    The same function or class may be registered again: a notebook does so when a cell runs twice.
    """
    if not isinstance(name, str) or not name.strip() or name == "<lambda>":
        raise InvalidInput(
            kind,
            "name",
            allowed="a text",
            got=repr(name),
            remedy=f'Write @rubrank.{kind}("name").',
        )
    registered = find(name)
    is_built_in = reserved or (registered is not None and is_from_library(registered))
    if is_built_in and not is_from_library(thing):
        raise InvalidInput(kind, "name", allowed="new", got=f"{name!r}, a built-in name")
    if registered is not None and find_home(registered) != find_home(thing):
        where = ".".join(find_home(registered))
        raise InvalidInput(kind, "name", allowed="new", got=f"{name!r}, which belongs to {where}")
    return name


def check_call(kind: str, thing: Any, *names: str) -> None:
    """Raise InvalidInput if `thing` cannot be called with one positional argument for each of these names."""
    try:
        inspect.signature(thing).bind(*names)
    except ValueError:
        return  # functions written in C have no signature to check
    except TypeError:
        allowed = "a class that needs no arguments"
        if names:
            allowed = f"one that can be called with ({', '.join(names)})"
        raise InvalidInput(
            kind,
            "function",
            allowed=allowed,
            got=describe_object(thing),
            remedy="See `rubrank help extending`.",
        ) from None


def is_async(thing: Any) -> bool:
    """Return whether it is a coroutine function, or an object whose `__call__` is one."""
    while isinstance(thing, partial):
        thing = thing.func
    return inspect.iscoroutinefunction(thing) or inspect.iscoroutinefunction(type(thing).__call__)


def describe_object(thing: Any) -> str:
    """Return module and name of a function or class; the shortened repr of anything else."""
    return ".".join(find_home(thing)) if hasattr(thing, "__qualname__") else brief(thing)


def make_decorator(register: Callable[[str | None, Any], Any], argument: Any) -> Any:
    """Make a decorator work with and without a name: `@rule` and `@rule("name")`.

    argument: what the decorator was called with: a name or None, or the decorated object itself.
    """
    if argument is None or isinstance(argument, str):
        return lambda thing: register(argument, thing)
    return register(None, argument)
