"""What users add to the library: by a decorator, by importing a module, or by an installed package.

    [project.entry-points."rubrank.plugins"]        in the pyproject.toml of a package
    my_checks = "my_checks.rubrank"                 a module that registers things when it is imported

    load_plugins()                imports them all, once
    import_module("my_checks")    the same by hand, for one module

A lookup that does not find a name asks for `load_plugins()` and looks again, so that packages cost nothing until a name
is not ours. What registers a name calls `check_free` first: names of the library are refused, and so are names that
something else has taken.
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
"""The packages that plug-ins live in: code of others, wherever it is installed."""


def load_plugins() -> None:
    """Import what installed packages offer, once; one that cannot be imported is a warning, and is left out."""
    global _loaded
    with _lock:
        if _loaded:
            return
        _loaded = True  # first: a plug-in that looks something up must not begin again
        from importlib.metadata import entry_points  # heavy: it brings e-mail, sockets, archives

        for plugin in entry_points(group=GROUP):
            _packages.add(plugin.value.partition(":")[0].partition(".")[0])
            try:
                plugin.load()
            except (Exception, SystemExit) as error:
                package = plugin.dist.name if plugin.dist is not None else plugin.value
                message = f"the plug-in {plugin.name!r} of {package} is left out: {type(error).__name__}: {error}"
                warnings.warn(message, RuntimeWarning, stacklevel=2)


def import_module(name: str) -> None:
    """Import a module of the user's, from the current directory too; one clear error if that fails."""
    allowed = "the name of a module, such as my_checks or my_package.checks"
    if name.endswith(".py") or not all(part.isidentifier() for part in name.split(".")):
        remedy = "Give the module's name, not its file." if "/" in name or name.endswith(".py") else ""
        raise InvalidInput("import", "module", allowed, repr(name), remedy)
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    _packages.add(name.partition(".")[0])
    try:
        importlib.import_module(name)
    except InvalidInput:  # it registers something that cannot be registered, which is named
        raise
    except (Exception, SystemExit) as error:
        got = f"{name!r}: {type(error).__name__}: {error}"
        raise InvalidInput("import", "module", "a module that can be imported", got, "") from error


def failed_in(error: BaseException) -> str | None:
    """Where code of others raised this, as `my_rules.py, line 12`; None where it was raised by the library's own."""
    place, trace = None, error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        package = str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        if package in _packages or not is_library_file(file):
            place = f"{os.path.relpath(file) if os.path.exists(file) else file}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return None if isinstance(error, RubrankError) else place


def home_of(thing: Any) -> tuple[str, str]:
    """Module and qualified name of what is registered: the same twice is the same thing, defined again."""
    while isinstance(thing, partial):
        thing = thing.func
    made = thing if hasattr(thing, "__qualname__") else type(thing)
    return getattr(made, "__module__", None) or "", made.__qualname__


@dataclass(frozen=True)
class Imported:
    """Modules that register things: a copy of this in another process has imported them."""

    modules: tuple[str, ...] = ()

    def __reduce__(self) -> Any:
        return _imported, (self.modules,)


def _imported(modules: tuple[str, ...]) -> Imported:
    for module in modules:
        import_module(module)
    return Imported(modules)


def importable_home() -> str:
    """The module outside the library that is registering something while it is imported; "" if it is none.

    What a script or a function registers is known in this process alone: importing a module elsewhere does not give it.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "rubrank":
        frame = frame.f_back
    name = str(frame.f_globals.get("__name__", "__main__"))
    return name if frame.f_code.co_name == "<module>" and name != "__main__" else ""


def is_ours(thing: Any) -> bool:
    """Is it defined in the library?"""
    return home_of(thing)[0].split(".")[0] == "rubrank"


def check_free(kind: str, name: object, thing: Any, taken: Callable[[str], Any], reserved: bool = False) -> str:
    """The name, if `thing` may have it; `taken(name)` gives what has it now, or None.

    Defining the same function or class again replaces it, as a notebook does when a cell runs twice.
    """
    if not isinstance(name, str) or not name.strip() or name == "<lambda>":
        raise InvalidInput(kind, "name", "a text", repr(name), f'Write @rubrank.{kind}("name").')
    other = taken(name)
    if not is_ours(thing) and (reserved or (other is not None and is_ours(other))):
        raise InvalidInput(kind, "name", "new", f"{name!r}, a name of the library", "")
    if other is not None and home_of(other) != home_of(thing):
        where = ".".join(home_of(other))
        raise InvalidInput(kind, "name", "new", f"{name!r}, which {where} has", "")
    return name


def check_call(kind: str, thing: Any, *names: str) -> None:
    """Refuse what cannot be called with these arguments, before anything is computed with it."""
    try:
        inspect.signature(thing).bind(*names)
    except TypeError:
        pass
    except ValueError:  # written in C: it does not say what it takes
        return
    else:
        return
    allowed = f"one that can be called with ({', '.join(names)})" if names else "a class that needs no arguments"
    raise InvalidInput(kind, "function", allowed, shown(thing), "See docs/extending.md.")


def is_async(thing: Any) -> bool:
    """Does calling it give something to wait for?"""
    while isinstance(thing, partial):
        thing = thing.func
    return inspect.iscoroutinefunction(thing) or inspect.iscoroutinefunction(type(thing).__call__)


def shown(thing: Any) -> str:
    """A function or a class by its module and name, and anything else as Python shows it, in brief."""
    return ".".join(home_of(thing)) if hasattr(thing, "__qualname__") else brief(thing)


def decorated(register: Callable[[str | None, Any], Any], given: Any) -> Any:
    """`@kind` and `@kind("name")` in one: `register(name, thing)` now, or once the thing is there."""
    if given is None or isinstance(given, str):
        return lambda thing: register(given, thing)
    return register(None, given)
