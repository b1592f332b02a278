"""The tests' sandbox: one process per test, in which the tests see the solution through proxies alone.

Reads {"jobs", "module", "remote", "local", "seconds", "stop"} from standard input and writes one JSON line a job. A
test has passed when its process says the word made up for it after the last line of the test, and the solution was
still there: leaving early passes nothing.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import importlib.machinery
import importlib.util
import os
import select
import sys
import time
import types
from collections.abc import Sequence
from typing import Any

from rubrank.verifiers.agentic.apart.proxies import TESTS, Module, ProxyClient
from rubrank.verifiers.agentic.apart.wire import END, NEW, Gone, receive, send
from rubrank.verifiers.shared.sandboxes.children import answer_jobs, attempt, say

_ENDING = 5.0  # seconds in which the solution's side has to end a child
_LIBRARIES = frozenset({"np", "numpy", "pd", "pandas", "plt", "torch", "scipy", "sp", "pytest", "hypothesis"})
_ALIASES = {"np": "numpy", "pd": "pandas", "plt": "matplotlib.pyplot", "sp": "scipy"}


class Finder:
    """Imports of the solution's modules give proxies; the tests' own files, and libraries, are imported as ever."""

    def __init__(self, client: ProxyClient, request: dict[str, Any]) -> None:
        self.client, self.request = client, request
        self.given = set(request["given"])

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> Any:
        """A module of the solution, unless it is new and hides one of Python's own or of a library."""
        if name not in self.request["remote"] or self._hides(name.partition(".")[0]):
            return self._own_file(name)
        return importlib.machinery.ModuleSpec(name, self)  # type: ignore[arg-type]

    def _own_file(self, name: str) -> Any:
        """A test file below a package of the solution's: no folder of that package is here to look in."""
        file = self.request["local"].get(name)
        if file is None:
            return None
        package = file.endswith("/__init__.py")
        folders = [os.path.abspath(os.path.dirname(file))] if package else None
        return importlib.util.spec_from_file_location(name, os.path.abspath(file), submodule_search_locations=folders)

    def _hides(self, top: str) -> bool:
        if top in self.given:
            return False
        if top in sys.stdlib_module_names:
            return True
        here = [entry for entry in sys.path if entry not in ("", os.getcwd())]
        return importlib.machinery.PathFinder.find_spec(top, here) is not None

    def create_module(self, spec: Any) -> types.ModuleType:
        """The proxy."""
        number, package, names = self.client.told("import", module=spec.name)["ok"]
        module = Module(spec.name, self.client, int(number), names)
        if package:
            module.__dict__["__path__"] = []
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing: it runs elsewhere."""


def names_for_tests(loaded: dict[str, Any], source: str) -> dict[str, Any]:
    """What the solution defines, without what would stand in for Python's own names or a library's.

    `select(x)` may well be the solution's function; `math.isclose(x, y)` means the library, or nothing.
    """
    doubtful = {name for name in loaded if _is_library(name)}
    asked = _asked_for_fields(source) if doubtful else set()
    return {
        name: value
        for name, value in loaded.items()
        if not hasattr(builtins, name) and (name not in doubtful or name not in asked or _is_that_library(name, value))
    }


def _asked_for_fields(source: str) -> set[str]:
    """Names that the tests use as `name.field`."""
    import ast

    tree = ast.parse(source)
    found = (node.value for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return {value.id for value in found if isinstance(value, ast.Name)}


def _is_library(name: str) -> bool:
    return name in sys.stdlib_module_names or name in _LIBRARIES


def _is_that_library(name: str, value: Any) -> bool:
    """`np` must be numpy: a test that leaves the import to the solution gets the library, or nothing."""
    plain = isinstance(value, types.ModuleType) and not isinstance(value, Module)
    return plain and value.__name__ == _ALIASES.get(name, name)


def module_named(request: dict[str, Any], name: str) -> Any:
    """A module that the solution refers to: Python's own, a library's, or one of the solution's."""
    top = name.partition(".")[0]
    if _is_library(top) or name in request["remote"]:
        with contextlib.suppress(ImportError):
            return importlib.import_module(name)
    return None


def run_job(request: dict[str, Any], job: dict[str, Any], client: ProxyClient) -> None:
    """In the child: load the solution over there, then run the test here; an exception if it fails."""
    client.module = lambda name: module_named(request, name)
    sys.meta_path.insert(0, Finder(client, request))
    loaded = client.ask("load")
    scope = names_for_tests(loaded, job["source"])
    tests = types.ModuleType(TESTS)
    tests.__dict__.update(scope)
    sys.modules[TESTS] = tests
    exec(compile(job["source"], "tests.py", "exec"), tests.__dict__)
    owner, _, function = job.get("call", "").rpartition(".")
    if function:
        call_test(tests.__dict__, owner, function, [loaded[name] for name in job.get("with", [])])
    if client.peer.dead:
        raise Gone(client.peer.dead)


def call_test(scope: dict[str, Any], owner: str, function: str, arguments: list[Any]) -> None:
    """One test function or method, with what goes before and after it."""
    result = None
    unit = sys.modules.get("unittest")
    if not owner:
        result = scope[function](*arguments)
    elif unit is not None and issubclass(scope[owner], unit.TestCase):
        scope[owner](function).debug()
    else:
        test = scope[owner]()
        for name in ("setup_method", "setUp"):
            getattr(test, name, lambda: None)()
        result = getattr(test, function)()
        for name in ("teardown_method", "tearDown"):
            getattr(test, name, lambda: None)()
    if hasattr(result, "cr_await"):  # an async test that is not awaited would always pass
        import asyncio

        asyncio.run(result)  # type: ignore[arg-type]


def in_child(request: dict[str, Any], job: dict[str, Any], word: bytes, said: int, out: int) -> None:
    """Wire up the streams, run, speak the word."""
    nowhere = os.open(os.devnull, os.O_RDONLY)
    for descriptor, place in ((nowhere, 0), (out, 1), (out, 2)):
        os.dup2(descriptor, place)
    for descriptor in (nowhere, out, request["channel"]):
        os.close(descriptor)
    try:
        run_job(request, job, ProxyClient(3, 4))
    except SystemExit as error:
        say(said, f"exit({error.code!r})")
        return
    except Gone as error:
        say(said, str(error))
        return
    except BaseException as error:
        say(said, f"{type(error).__name__}: {error}")
        return
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
    os.write(said, word)


def one(request: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    """A fresh child of the solution's, a fresh one of ours; what came of it."""
    with contextlib.suppress(Gone):
        send(4, NEW)
    why, _ = attempt(lambda *pipes: in_child(request, job, *pipes), request["seconds"])
    end_session()
    return {"passed": not why, "why": why, "out": ""}


def end_session() -> None:
    """Have the solution's child ended, and read away what it still had to say."""
    with contextlib.suppress(Gone):
        send(4, END)
        end = time.monotonic() + _ENDING
        while select.select([3], [], [], max(0.0, end - time.monotonic()))[0]:
            if receive(3)[0] == END:
                return


def main() -> None:
    """All jobs, one after the other."""
    answer_jobs(one)
