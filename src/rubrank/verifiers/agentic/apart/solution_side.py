"""The solution's sandbox: a parent that only forks and passes frames on, and one child a test that runs the solution.

The child is the solution's: it may answer whatever it likes, but it answers with data, before it can know what the
data will be compared with. The parent keeps the pipe, so that a child that was ended leaves nothing in it.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import io
import json
import operator
import os
import select
import sys
import time
import types
from collections.abc import Callable
from typing import Any

from rubrank.verifiers.agentic.apart.wire import (
    DATA,
    DEAD,
    END,
    HEAD,
    MOST,
    NEW,
    Gone,
    Peer,
    decode,
    encode,
    is_own,
    plain,
)
from rubrank.verifiers.agentic.apart.wire import receive as receive_frame
from rubrank.verifiers.agentic.apart.wire import send as send_frame
from rubrank.verifiers.shared.sandboxes.children import kill_all, shut

_MOST_PRINTED = 256 * 1024
_ROUTINES = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.MethodWrapperType)
_SCALARS = (type(None), bool, int, float, complex, str, bytes)

_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor_")
_OTHER = ("eq", "ne", "lt", "le", "gt", "ge", "lshift", "rshift", "iadd", "isub", "imul", "ior", "iand", "ixor")


def _operator(name: str) -> Callable[..., Any]:
    return getattr(operator, "xor" if name == "xor_" else name)


def _reflected(name: str) -> Callable[..., Any]:
    return lambda value, other: _operator(name)(other, value)


OPERATIONS: dict[str, Callable[..., Any]] = {
    **{kind.__name__: kind for kind in (len, bool, str, repr, hash, format, iter, next, abs, int, float, round)},
    **{name: getattr(operator, name) for name in ("neg", "pos", "invert", "index", "contains")},
    **{name: getattr(operator, name) for name in ("getitem", "setitem", "delitem")},
    **{name: _operator(name) for name in (*_BINARY, *_OTHER)},
    **{f"r{name}": _reflected(name) for name in _BINARY},
    "reversed": lambda value: iter(reversed(value)),
    "enter": lambda value: type(value).__enter__(value),
    "exit": lambda value, *error: type(value).__exit__(value, *error),
}
"""What Python's operators and functions do with an object."""


class Theirs:
    """A function, or an object, of the tests: it can be called, and has fields."""

    def __init__(self, session: Session, number: int) -> None:
        object.__setattr__(self, "_at", (session, number))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Over there."""
        session, number = object.__getattribute__(self, "_at")
        return session.ask("call", number, args=args, kwargs=kwargs)

    def __getattr__(self, name: str) -> Any:
        session, number = object.__getattribute__(self, "_at")
        return session.ask("get", number, name=name)

    def __setattr__(self, name: str, value: Any) -> None:
        session, number = object.__getattribute__(self, "_at")
        session.ask("set", number, name=name, value=value)


class Session:
    """One test's child: the solution is loaded, then asked."""

    def __init__(self, request: dict[str, Any], incoming: int, outgoing: int) -> None:
        self.request = request
        self.objects: dict[int, Any] = {}
        self.numbers: dict[int, int] = {}
        self.theirs: dict[int, Theirs] = {}
        self.peer = Peer(incoming, outgoing, self.answer)

    # --- references

    def refer(self, value: Any) -> Any:
        """A reference to an object of ours, or back to one of theirs."""
        if isinstance(value, Theirs):
            return ["m", object.__getattribute__(value, "_at")[1]]
        if isinstance(value, types.ModuleType):
            return ["M", value.__name__]
        if isinstance(value, type) and is_own(value):
            return ["y", value.__name__]
        number = self.numbers.setdefault(id(value), len(self.numbers))
        self.objects[number] = value
        if isinstance(value, type):
            return ["k", number, value.__name__, self._bases(value), _built_in_error(value)]
        kind = "coroutine" if isinstance(value, types.CoroutineType) else "object"
        kind = "function" if isinstance(value, _ROUTINES) else kind
        name = getattr(value, "__name__", "") if kind == "function" else ""
        return ["h", number, kind, str(name), self.refer(type(value)) if kind == "object" else None]

    def _bases(self, kind: type) -> list[Any]:
        return [self.refer(base) for base in kind.__bases__ if base.__module__ not in ("builtins", "typing", "abc")]

    def resolve(self, data: list[Any]) -> Any:
        """The object behind a reference."""
        if data[0] == "m":
            return self.objects[data[1]]
        if data[0] == "y":
            return getattr(builtins, data[1])
        return self.theirs.setdefault(data[1], Theirs(self, data[1]))

    def encode(self, value: Any) -> Any:
        """As it crosses the pipe."""
        return encode(value, self.refer)

    def decode(self, data: Any) -> Any:
        """As it came over the pipe."""
        return decode(data, self.resolve)

    # --- their requests

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """Do what was asked; an exception is an answer, too."""
        try:
            done = getattr(self, f"do_{message['do']}")(message)
        except Gone:
            raise
        except BaseException as error:
            done = {"error": self._error(error)}
        printed = sys.stdout.getvalue() if isinstance(sys.stdout, io.StringIO) else ""
        if printed:
            done["out"] = printed[:_MOST_PRINTED]
            sys.stdout = io.StringIO()
        return done

    def _error(self, error: BaseException) -> Any:
        kind = type(error)
        reference = None if kind.__module__ == "builtins" else self.refer(kind)
        try:
            args = [self.encode(arg) for arg in error.args]
            words = str(error)
        except BaseException:
            args, words = [], kind.__name__
        return [reference, _built_in_error(kind), args, words[:1000]]

    def do_load(self, _: dict[str, Any]) -> dict[str, Any]:
        """Run the code as a module; what it defines."""
        if self.request["code"] is None:
            return {"ok": ["d", []]}
        module = types.ModuleType(self.request["module"])
        sys.modules[module.__name__] = module
        exec(compile(self.request["code"], f"{module.__name__}.py", "exec"), module.__dict__)
        names = [name for name in module.__dict__ if not (name.startswith("__") and name.endswith("__"))]
        found = []
        for name in names:
            with contextlib.suppress(Exception):  # one value that cannot be shown hides no other
                found.append([name, self.encode(module.__dict__[name])])
        return {"ok": ["d", found]}

    def do_import(self, message: dict[str, Any]) -> dict[str, Any]:
        """A module of the files, by number; is it a package; its names."""
        module = importlib.import_module(message["module"])
        number = self.numbers.setdefault(id(module), len(self.numbers))
        self.objects[number] = module
        names = [name for name in getattr(module, "__all__", None) or vars(module) if isinstance(name, str)]
        return {"ok": [number, hasattr(module, "__path__"), names]}

    def do_get(self, message: dict[str, Any]) -> dict[str, Any]:
        """A field."""
        return {"ok": self.encode(getattr(self.objects[message["at"]], message["name"]))}

    def do_set(self, message: dict[str, Any]) -> dict[str, Any]:
        """A field set."""
        setattr(self.objects[message["at"]], message["name"], self.decode(message["value"]))
        return {"ok": None}

    def do_plain(self, message: dict[str, Any]) -> dict[str, Any]:
        """The plain value that an object holds."""
        return {"ok": self.encode(plain(self.objects[message["at"]]))}

    def do_await(self, message: dict[str, Any]) -> dict[str, Any]:
        """The result of a coroutine, run to its end."""
        import asyncio  # a tenth of a second that few solutions need

        return {"ok": self.encode(asyncio.run(self.objects[message["at"]]))}

    def do_op(self, message: dict[str, Any]) -> dict[str, Any]:
        """One of Python's operators."""
        args = self.decode(message["args"])
        return {"ok": self.encode(OPERATIONS[message["op"]](self.objects[message["at"]], *args))}

    def do_call(self, message: dict[str, Any]) -> dict[str, Any]:
        """Call a function, method or class; in-place changes go back if that is all it does."""
        args, kwargs = self.decode(message["args"]), self.decode(message["kwargs"])
        looked = any(not isinstance(arg, _SCALARS) for arg in (*args, *kwargs.values()))
        before = self.encode([args, kwargs]) if looked else None
        result = self.objects[message["at"]](*args, **kwargs)
        done = {"ok": self.encode(result)}
        if looked and (result is None or self.request["mutates"]):
            after = self.encode([args, kwargs])
            if after != before:
                done["args"] = after
        return done

    # --- ours

    def ask(self, do: str, at: int, **values: Any) -> Any:
        """Ask the tests: to call one of their functions, or for a field of an object."""
        name = values.pop("name", None)
        encoded = {key: self.encode(value) for key, value in values.items()}
        said = self.peer.ask(do=do, at=at, **encoded, **({} if name is None else {"name": name}))
        if "error" in said:
            raise getattr(builtins, str(said["error"][1]), RuntimeError)(said["error"][3])
        return self.decode(said.get("ok"))


def _built_in_error(kind: type) -> str:
    """The nearest exception that both sides know; "" for a class that is none."""
    if not issubclass(kind, BaseException):
        return ""
    return next(base.__name__ for base in kind.__mro__ if base.__module__ == "builtins")


def run_child(request: dict[str, Any], incoming: int, outgoing: int) -> None:
    """In the child: only the two pipes are left, and what is printed is kept."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    for descriptor in (3, 4, nowhere):
        os.close(descriptor)
    sys.stdin, sys.stdout = io.StringIO(), io.StringIO()
    shut()
    with contextlib.suppress(Gone):
        Session(request, incoming, outgoing).peer.serve()


class Child:
    """One test's child, seen from the parent; neither its silence nor a frame cut short can stop the parent."""

    def __init__(self, request: dict[str, Any]) -> None:
        (child_in, self.outgoing), (self.incoming, child_out) = os.pipe(), os.pipe()
        self.received, self.pending = bytearray(), bytearray()
        self.pid = os.fork()
        if self.pid == 0:
            os.setpgid(0, 0)
            os.close(self.outgoing)
            os.close(self.incoming)
            try:
                run_child(request, child_in, child_out)
            finally:
                os._exit(0)
        os.close(child_in)
        os.close(child_out)
        os.set_blocking(self.outgoing, False)

    def write(self) -> None:
        """As much of what is pending as it takes."""
        with contextlib.suppress(BlockingIOError):
            try:
                del self.pending[: os.write(self.outgoing, self.pending[:65536])]
            except BrokenPipeError:
                self.pending.clear()

    def read(self) -> bool:
        """Pass on every frame that is complete; False if there will be no more."""
        block = os.read(self.incoming, 1 << 20)
        self.received += block
        while len(self.received) >= HEAD.size:
            kind, size = HEAD.unpack_from(self.received)
            if kind != DATA or size > MOST:
                return False
            if len(self.received) < HEAD.size + size:
                break
            send_frame(4, DATA, bytes(self.received[HEAD.size : HEAD.size + size]))
            del self.received[: HEAD.size + size]
        return bool(block)

    def end(self) -> None:
        """Kill it and what it started."""
        kill_all(self.pid)
        os.waitpid(self.pid, 0)
        for descriptor in (self.incoming, self.outgoing):
            os.close(descriptor)

    def ended(self) -> str:
        """How it ended by itself. A moment is given: its pipe closes a little earlier."""
        for _ in range(20):
            found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is not None:
                code = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
                return f"the solution ended early (exit code {code})"
            time.sleep(0.005)
        return "the solution closed its pipe"


class Parent:
    """Passes frames between the tests (3, 4) and the child of the moment, until the tests are through."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.child: Child | None = None

    def serve(self) -> None:
        """Until the tests close their end."""
        while True:
            child = self.child
            reads = [3] if child is None else [3, child.incoming]
            writes = [child.outgoing] if child is not None and child.pending else []
            ready, writable, _ = select.select(reads, writes, [])
            if child is not None and writable:
                child.write()
            if child is not None and child.incoming in ready and not child.read():
                send_frame(4, DEAD, child.ended().encode())
                child.end()
                self.child = None
            if 3 in ready:
                self.take(*receive_frame(3))

    def take(self, kind: bytes, payload: bytes) -> None:
        """One frame of the tests'."""
        if kind == DATA:
            if self.child is not None:
                self.child.pending += HEAD.pack(DATA, len(payload)) + payload
            return
        if self.child is not None:
            self.child.end()
        self.child = Child(self.request) if kind == NEW else None
        if kind == END:
            send_frame(4, END)


def main() -> None:
    """Read what is to be run, then serve."""
    request = json.loads(sys.stdin.buffer.read())
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.getcwd())
    with contextlib.suppress(Gone):
        Parent(request).serve()
