"""The tests' sandbox: runs one process per test, in which the solution's functions are called over a pipe.

Suppose the test is `assert double([1]) == [2]`, and the solution defines `double`:

    1. `run_job` starts two processes for the test: a child here, and one in the solution's sandbox.
    2. The child (`run_in_child`) asks for the solution's names. It gets a reference to a function, and gives the test a
       `RemoteObject` under the name `double`. Modules of the solution are `RemoteModule`s.
    3. The test calls it. The `Client` sends {"do": "call", "at": 0, "args": …} and reads [2], as plain data.
    4. The comparison happens here, with Python's own `==` on Python's own list.
    5. After the last line of the test, the child writes a random word that was made for it. Only then, and if the
       solution is still running, has the test passed: leaving early passes nothing.

What tests may do with the solution's objects is limited to what cannot be faked: call methods, and use attributes. A
test that needs more (it compares, adds or subclasses objects of the solution, or passes it a function) is run again in
the solution's process, and its report says so under "live", because there a solution could fake a pass. Only the test
can cause this: by what it passes to the solution, or by naming a class (`Stack()`). The solution cannot: an object that
a function returns (`double(2)`) never equals plain data, and operators on it fail.

The request on standard input is {"jobs", "remote", "local", "original", "seconds", "stop", "live"}; `code.py` makes it.
The answer is one JSON line per job.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import importlib.machinery
import importlib.util
import json
import os
import select
import sys
import time
import types
from collections.abc import Callable, Sequence
from typing import Any

from rubrank.verifiers.agentic.messages import (
    DATA,
    DEAD,
    END,
    NEW,
    READ_END,
    WRITE_END,
    PipeClosed,
    decode,
    encode,
    receive,
    run_test,
    send,
    send_message,
)
from rubrank.verifiers.shared.inside.children import kill_group, protect_memory

_ENDING_SECONDS = 5.0  # in which the solution's side has to end a child, which it does by SIGKILL
# How a test's process says that it must be run beside the solution. Random: an error of the solution cannot imitate it.
_NEEDS_OBJECTS = os.urandom(16).hex()
# Errors that would cut `map` and `all` short.
_SILENT_ERRORS = ("StopIteration", "StopAsyncIteration", "GeneratorExit")
# Names under which tests know libraries; a solution must not replace them by its functions.
_LIBRARIES = frozenset(
    {"np", "numpy", "pd", "pandas", "plt", "torch", "scipy", "sp", "pytest", "hypothesis"}
)
_ALIASES = {"np": "numpy", "pd": "pandas", "plt": "matplotlib.pyplot", "sp": "scipy"}


class NeedsObjects(BaseException):
    """The test uses the solution's objects in a way that plain data does not allow. Tests do not catch this."""


class Client:
    """The tests' end of the pipe: sends requests and keeps one `RemoteObject` for each object of the solution."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.remotes: dict[tuple[int, bool], RemoteObject] = {}
        self.error_classes: dict[int, Any] = {}
        self.dead = ""
        """How the solution ended, if it has."""
        self.needs_objects = ""
        """Why the test must be run in the solution's process, if it must."""

    def send_request(self, do: str, **values: Any) -> dict[str, Any]:
        """Send a request and return its answer. What the solution printed is printed; what it raised is raised."""
        if self.dead:
            raise PipeClosed(self.dead)
        send_message(WRITE_END, {"do": do, **values})
        answer = None
        try:
            kind, payload = receive(READ_END)
            if kind == DATA:
                answer = json.loads(payload)
            elif kind == DEAD:
                self.dead = payload.decode("utf-8", "replace")
        except PipeClosed as error:
            self.dead = str(error)
        except (ValueError, RecursionError):
            pass  # no JSON
        if not isinstance(answer, dict):
            self.dead = self.dead or "it sent what is no message"
            raise PipeClosed(self.dead)
        if isinstance(answer.get("out"), str):
            sys.stdout.write(answer["out"])
        if "error" in answer:
            # `Session.describe_error` in solution_process.py made it.
            kind, builtin, arguments, text = answer["error"]
            if builtin in _SILENT_ERRORS:
                raise RuntimeError(f"the solution raised {builtin}: {text}")
            raised: Any = None
            with contextlib.suppress(Exception):  # its class may not accept these arguments
                raised = self.decode(kind)(*(self.decode(argument) for argument in arguments))
            if not isinstance(raised, BaseException):
                raised = RuntimeError(f"{builtin}: {text}")
            raise raised
        return answer

    def call_remote(
        self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any], of_class: bool
    ) -> Any:
        """Call a function of the solution; what it did to its arguments in place is done here, too."""
        answer = self.send_request(
            "call", at=number, args=self.encode(list(args)), kwargs=self.encode(kwargs)
        )
        if "args" in answer:
            new_args, new_kwargs = self.decode(answer["args"], of_class)
            for old, new in zip(args, new_args, strict=True):
                _update_in_place(old, new)
            for name, old in kwargs.items():
                _update_in_place(old, new_kwargs.get(name, old))
        return self.decode(answer.get("ok"), of_class)

    def encode(self, value: Any) -> Any:
        """Return the value as JSON; a function or an object of the tests cannot cross."""
        return encode(value, self._make_reference)

    def decode(self, data: Any, of_class: bool = False) -> Any:
        """Return the value again; `of_class` says whether its objects come from a class that the test named."""
        return decode(data, lambda reference: self._resolve(reference, of_class))

    def _make_reference(self, value: Any) -> Any:
        if isinstance(value, RemoteObject):
            return ["remote", object.__getattribute__(value, "_number")]
        if isinstance(value, type) and "_remote_number" in vars(value):
            return ["remote", vars(value)["_remote_number"]]
        raise self.note_need_of_objects(
            f"it passes the solution an object of type {type(value).__name__}"
        )

    def note_need_of_objects(self, why: str) -> NeedsObjects:
        """Return the exception to raise. It is noted, too, in case that a test catches everything."""
        self.needs_objects = self.needs_objects or why
        return NeedsObjects(why)

    def _resolve(self, reference: list[Any], of_class: bool) -> Any:
        """Return what stands here for an object of the solution: a module, an error class or a RemoteObject."""
        tag, key, *rest = reference
        if tag == "module":
            return find_module(self.request, str(key))
        if tag == "error class":
            if key not in self.error_classes:
                name, bases = rest
                classes = tuple(self.decode(base) for base in bases)
                self.error_classes[key] = type(str(name), classes, {"_remote_number": key})
            return self.error_classes[key]
        return self.find_remote(key, rest[0] == "class", of_class)

    def find_remote(self, number: int, is_class: bool, of_class: bool) -> RemoteObject:
        """Return the one `RemoteObject` of an object.

        What `double(2)` returns stays apart from a class that the test names, even if both are the same object.
        """
        key = (number, of_class)
        if key not in self.remotes:
            self.remotes[key] = RemoteObject(self, number, is_class, of_class)
        return self.remotes[key]


def _update_in_place(old: Any, new: Any) -> Any:
    """Make `old` hold what `new` holds, and return it; return `new` if `old` cannot be changed in place."""
    if type(old) is not type(new):
        return new
    if isinstance(old, list):
        old[:] = [
            _update_in_place(old[i], item) if i < len(old) else item for i, item in enumerate(new)
        ]
    elif isinstance(old, dict):
        items = {
            key: _update_in_place(old[key], item) if key in old else item
            for key, item in new.items()
        }
        old.clear()
        old.update(items)
    elif isinstance(old, set):
        old.clear()
        old.update(new)
    elif hasattr(old, "extend"):  # a deque, a bytearray
        old.clear()
        old.extend(new)
    elif type(old).__name__ == "ndarray" and old.shape == new.shape:
        old[...] = new
    else:
        return new
    return old


class RemoteObject:
    """A function, a class or an object of the solution: it can be called, and has attributes."""

    __slots__ = ("_client", "_is_class", "_number", "_of_class")
    _client: Client
    _is_class: bool
    _number: int
    _of_class: bool

    def __init__(self, client: Client, number: int, is_class: bool, of_class: bool) -> None:
        object.__setattr__(self, "_client", client)
        object.__setattr__(self, "_number", number)
        object.__setattr__(self, "_is_class", is_class)
        # It is, or comes from, a class that the test names: the test is about live objects.
        object.__setattr__(self, "_of_class", of_class)

    def _refuse(self, what: str) -> BaseException:
        """Return the exception for what plain data does not allow."""
        if self._of_class:
            return self._client.note_need_of_objects(f"it uses {what} on an object of the solution")
        return TypeError(
            f"{what}: the solution returned an object; only its methods and attributes can be used"
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it in the solution's process."""
        return self._client.call_remote(self._number, args, kwargs, self._of_class)

    def __getattr__(self, name: str) -> Any:
        answer = self._client.send_request("get", at=self._number, name=name)
        return self._client.decode(answer.get("ok"), self._of_class)

    def __setattr__(self, name: str, value: Any) -> None:
        self._client.send_request(
            "set", at=self._number, name=name, value=self._client.encode(value)
        )

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, RemoteObject):
            return NotImplemented  # an object never equals plain data
        if other._number != self._number:
            raise self._refuse("==")
        return True

    def __hash__(self) -> int:
        return hash(self._number)

    def __repr__(self) -> str:
        if self._of_class:
            raise self._refuse("repr()")
        return "<object of the solution>"

    __str__ = __repr__


def _make_refusal(name: str) -> Callable[..., Any]:
    """Make a special method, such as __add__, that raises."""

    def refuse(self: RemoteObject, *_: Any) -> Any:
        raise self._refuse(name)

    return refuse


# Python looks up special methods on the class, so __getattr__ does not see them: each needs its own refusal.
_OPERATORS = """
    bool len iter next reversed contains getitem setitem delitem enter exit instancecheck subclasscheck mro_entries
    lt le gt ge add radd sub rsub mul rmul matmul rmatmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow
    and rand or ror xor rxor lshift rlshift rshift rrshift neg pos abs invert round int float complex index format
"""
for _name in _OPERATORS.split():
    setattr(RemoteObject, f"__{_name}__", _make_refusal(f"__{_name}__"))


class RemoteModule(types.ModuleType):
    """A module of the solution: its names are looked up there, each time."""

    def __init__(self, name: str, client: Client, number: int, names: list[Any]) -> None:
        super().__init__(name)
        public = [
            n
            for n in names
            if isinstance(n, str) and not n.startswith("_") and not hasattr(builtins, n)
        ]
        self.__dict__.update(_client=client, _number=number, __all__=public)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__") and name != "__version__":
            raise AttributeError(name)
        client = self.__dict__["_client"]
        answer = client.send_request("get", at=self.__dict__["_number"], name=name)
        return mark_class(name, client.decode(answer.get("ok")))

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__") or isinstance(value, types.ModuleType):
            super().__setattr__(name, value)
        else:
            client = self.__dict__["_client"]
            client.send_request(
                "set", at=self.__dict__["_number"], name=name, value=client.encode(value)
            )


def mark_class(name: str, value: Any) -> Any:
    """Mark a class that has a name with a capital: a test that uses it is about live objects.

    Under another name (`double = SomeClass`) a class is a function to the tests. Otherwise the solution could decide
    that a test of a function is run in its process.
    """
    if isinstance(value, RemoteObject) and value._is_class and name[:1].isupper():
        return value._client.find_remote(value._number, is_class=True, of_class=True)
    return value


class ModuleFinder:
    """Makes imports of the solution's modules give a `RemoteModule`; all others are imported as usual."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.request = client.request

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> Any:
        """Find a module of the solution, unless it is new and hides one of Python's own or of a library."""
        if name in self.request["remote"]:
            top = name.partition(".")[0]
            is_allowed = top in self.request["original"]
            if not is_allowed and top not in sys.stdlib_module_names:
                installed = [entry for entry in sys.path if entry not in ("", os.getcwd())]
                is_allowed = importlib.machinery.PathFinder.find_spec(top, installed) is None
            if is_allowed:
                return importlib.machinery.ModuleSpec(name, self)  # type: ignore[arg-type]
        # A test file below a package of the solution: that package has no folder here to look in.
        file = self.request["local"].get(name)
        if file is None:
            return None
        folders = None
        if file.endswith("/__init__.py"):
            folders = [os.path.abspath(os.path.dirname(file))]
        return importlib.util.spec_from_file_location(
            name, os.path.abspath(file), submodule_search_locations=folders
        )

    def create_module(self, spec: Any) -> types.ModuleType:
        """Import it in the solution's process, and return a stand-in for it."""
        number, is_package, names = self.client.send_request("import", module=spec.name)["ok"]
        module = RemoteModule(spec.name, self.client, int(number), names)
        if is_package:
            module.__dict__["__path__"] = []
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Do nothing: the module runs in the solution's process."""


def select_names(names: dict[str, Any], source: str) -> dict[str, Any]:
    """Select the solution's names that the tests see: none that would replace Python's own or a library's.

    `select(x)` may well be the solution's function, but `math.isclose(x, y)` means the library, or nothing.
    """
    library_names = {
        name for name in names if name in sys.stdlib_module_names or name in _LIBRARIES
    }
    used_as_modules: set[str] = set()
    if library_names:
        import ast

        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                used_as_modules.add(node.value.id)
    selected = {}
    for name, value in names.items():
        if hasattr(builtins, name):
            continue
        if name in library_names and name in used_as_modules:
            is_module = isinstance(value, types.ModuleType) and not isinstance(value, RemoteModule)
            if not is_module or value.__name__ != _ALIASES.get(name, name):
                continue
        selected[name] = mark_class(name, value)
    return selected


def find_module(request: dict[str, Any], name: str) -> Any:
    """Return a module that the solution refers to: Python's own, a library's or the solution's; None for others."""
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names or top in _LIBRARIES or name in request["remote"]:
        with contextlib.suppress(ImportError):
            return importlib.import_module(name)
    return None


def run_remotely(request: dict[str, Any], job: dict[str, Any], client: Client) -> None:
    """Load the solution in its process and run the test here. Raises an exception if the test fails."""
    sys.meta_path.insert(0, ModuleFinder(client))
    names = client.decode(client.send_request("load").get("ok"))
    entry_points = [names[name] for name in job.get("with", [])]
    try:
        run_test(job, select_names(names, job["source"]), entry_points)
    except Exception:
        if not client.needs_objects:
            raise
    if client.needs_objects:
        raise NeedsObjects(client.needs_objects)
    if client.dead:
        raise PipeClosed(client.dead)


def run_in_child(request: dict[str, Any], job: dict[str, Any], word: bytes, status: int) -> None:
    """Run the test without streams, and write the word to `status` if it passes, else why not. Called in the child."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
    client = Client(request)
    report = word.decode()
    try:
        if job["live"]:
            client.send_request("test", job=job)
        else:
            run_remotely(request, job, client)
    except SystemExit as error:
        report = f"exit({error.code!r})"
    except NeedsObjects as error:
        report = f"{_NEEDS_OBJECTS}{error}"
    except PipeClosed as error:
        report = str(error)
    except BaseException as error:
        report = f"{type(error).__name__}: {error}"
    os.write(status, report[:300].encode("utf-8", "replace"))


def run_job(request: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    """Run one test in a fresh process on either side, and return its report.

    `live` in the report says why the test ran in the solution's process, if it did.
    """
    live = "the test asks for it" if request["live"] else ""
    why = _try_test(request, {**job, "live": bool(live)})
    if why.startswith(_NEEDS_OBJECTS):
        live = why.removeprefix(_NEEDS_OBJECTS)
        why = _try_test(request, {**job, "live": True})
    return {"passed": not why, "why": why, "live": live}


def _try_test(request: dict[str, Any], job: dict[str, Any]) -> str:
    """Run a test once, in a child of this process and one of the solution's. Returns why it failed; "" if it passed.

    The child proves that it reached the end of the test by writing a secret word. An exit code would prove nothing: a
    test that is left with `os._exit(0)` has one, too.
    """
    with contextlib.suppress(PipeClosed):
        send(WRITE_END, NEW)
    word = os.urandom(16).hex().encode()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        try:
            run_in_child(request, job, word, writer)
        finally:
            os._exit(0)
    os.close(writer)
    is_in_time = _is_readable(reader, time.monotonic() + request["seconds"])
    status = os.read(reader, 1000) if is_in_time else b""
    kill_group(pid)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(reader)
    # End the solution's child, and read away what it still had to say.
    with contextlib.suppress(PipeClosed):
        send(WRITE_END, END)
        deadline = time.monotonic() + _ENDING_SECONDS
        while _is_readable(READ_END, deadline):
            if receive(READ_END)[0] == END:
                break
    if status == word:
        return ""
    if not is_in_time:
        return f"out of time ({request['seconds']:g} s)"
    return status.decode("utf-8", "replace") or f"ended early (exit code {code})"


def _is_readable(descriptor: int, deadline: float) -> bool:
    """Wait until the pipe has data or is closed. Returns False if the time is up first."""
    return bool(select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0])


def main() -> None:
    """Run the jobs of the request on standard input, and write one JSON line for each; with `stop`, until one fails."""
    request = json.loads(sys.stdin.buffer.read())
    sys.path.insert(0, os.getcwd())
    sys.dont_write_bytecode = True
    protect_memory()
    for job in request["jobs"]:
        report = run_job(request, job)
        os.write(1, (json.dumps(report) + "\n").encode())
        if request["stop"] and not report["passed"]:
            break
