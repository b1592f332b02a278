"""What users add to the library: by a decorator, by `--import`, or by an installed package.

    [project.entry-points."rubrank.plugins"]        in the pyproject.toml of a package
    my_checks = "my_checks.rubrank"                 a module that registers things when it is imported

    load_plugins()                imports them all, once
    import_module("my_checks")    the same by hand: what `rubrank --import my_checks` does

A lookup that does not find a name asks for `load_plugins()` and looks again, so that packages cost nothing until a name
is not ours. What registers a name calls `check_free` first: names of the library are refused, and so are names that
something else has taken.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from rubrank.errors import InvalidInput

GROUP = "rubrank.plugins"
_lock = threading.RLock()
_loaded = False


def load_plugins() -> None:
    """Import what installed packages offer, once; one that cannot be imported is a warning, and is left out."""
    global _loaded
    with _lock:
        if _loaded:
            return
        _loaded = True  # first: a plug-in that looks something up must not begin again
        from importlib.metadata import entry_points  # heavy: it brings e-mail, sockets, archives

        for plugin in entry_points(group=GROUP):
            try:
                plugin.load()
            except Exception as error:
                package = plugin.dist.name if plugin.dist is not None else plugin.value
                message = f"the plug-in {plugin.name!r} of {package} is left out: {type(error).__name__}: {error}"
                warnings.warn(message, RuntimeWarning, stacklevel=2)


def import_module(name: str) -> None:
    """Import a module of the user's, from the current directory too; one clear error if that fails."""
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        importlib.import_module(name)
    except InvalidInput:
        raise
    except Exception as error:
        got = f"{name!r}: {type(error).__name__}: {error}"
        remedy = "Give the module's name, not its file." if "/" in name or name.endswith(".py") else ""
        raise InvalidInput("--import", "MODULE", "a module that can be imported", got, remedy) from error


def home_of(thing: Any) -> tuple[str, str]:
    """Module and qualified name of what is registered: the same twice is the same thing, defined again."""
    while isinstance(thing, partial):
        thing = thing.func
    made = thing if hasattr(thing, "__qualname__") else type(thing)
    return getattr(made, "__module__", None) or "", made.__qualname__


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


def decorated(register: Callable[[str | None, Any], Any], given: Any) -> Any:
    """`@kind` and `@kind("name")` in one: `register(name, thing)` now, or once the thing is there."""
    if given is None or isinstance(given, str):
        return lambda thing: register(given, thing)
    return register(None, given)
