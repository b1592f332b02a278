"""The solution's sandbox: a parent that forks one child per test and relays frames between the child and the tests.

    tests ──READ_END───> Parent ──pipe──> Child, in which `Session` runs the solution
    tests <──WRITE_END── Parent <──pipe──

A request from the tests is a JSON object, and so is the answer. `Session.actions` lists the requests; for example

    {"do": "load"}                                                  runs the solution's code
        {"ok": ["dict", ["double", ["remote", 0, "object"]]]}       it defines `double`, which is object number 0
    {"do": "call", "at": 0, "args": ["list", [4]], "kwargs": …}     double(4)
        {"ok": 8}
    {"do": "call", "at": 0, "args": ["list", []], "kwargs": …}      double()
        {"error": [["type", "TypeError"], "TypeError", ["double() missing …"], "double() missing …"]}

Plain data crosses the pipe (messages.py says in which form); everything else stays in the child, and the tests get a
reference with the object's number (`Session.make_reference`).

The child belongs to the solution. It may answer whatever it likes, but it answers with data, before it can know what
the data will be compared with. The parent owns the pipe to the tests, so a child that is killed in the middle of a
frame leaves nothing in it.
"""

from __future__ import annotations

import builtins
import contextlib
import enum
import importlib
import io
import json
import os
import select
import sys
import time
import types
from typing import Any

from rubrank.verifiers.agentic.messages import (
    DATA,
    DEAD,
    END,
    HEAD,
    MOST_BYTES,
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
from rubrank.verifiers.shared.inside.children import install_signal_filter, kill_group

_MOST_PRINTED = (
    256 * 1024
)  # characters of what one request prints that are sent on; a test reads a few lines
_UNCHANGEABLE = (type(None), bool, int, float, complex, str, bytes)


class Session:
    """One test's child: loads the solution, then answers requests until the pipe closes."""

    def __init__(self, request: dict[str, Any], incoming: int, outgoing: int) -> None:
        # {"code", "module", "mutates"}: the solution, not a request of the tests
        self.request = request
        self.incoming = incoming
        self.outgoing = outgoing
        self.objects: list[Any] = []
        """Objects that the tests have references to; a reference is the place in this list."""
        self.numbers: dict[int, int] = {}
        """id(object) → its place. The list keeps the objects alive, so that no id is used twice."""
        self.actions = {
            "load": self.load_solution,
            "import": self.import_module,
            "get": self.get_attribute,
            "set": self.set_attribute,
            "call": self.call_object,
            "test": self.run_whole_test,
        }

    def serve(self) -> None:
        """Answer one request after the other."""
        while True:
            _, payload = receive(self.incoming)
            send_message(self.outgoing, self.answer_request(json.loads(payload)))

    def answer_request(self, message: dict[str, Any]) -> dict[str, Any]:
        """Do what a request asks for. Returns {"ok": result} or {"error": …}, with "out" if anything was printed."""
        try:
            answer = self.actions[message["do"]](message)
        except PipeClosed:
            raise
        except BaseException as error:
            answer = {"error": self.describe_error(error)}
        printed = sys.stdout.getvalue() if isinstance(sys.stdout, io.StringIO) else ""
        if printed:
            answer["out"] = printed[:_MOST_PRINTED]
            sys.stdout = io.StringIO()
        return answer

    # --- references to objects that stay here

    def encode_value(self, value: Any) -> Any:
        """Return the value as JSON, with references to what is not plain data."""
        return encode(value, self.make_reference)

    def decode_value(self, data: Any) -> Any:
        """Return the value again; the tests only refer to objects that are here."""
        return decode(data, lambda reference: self.objects[reference[1]])

    def number_object(self, value: Any) -> int:
        """Keep an object for the tests, and return its number."""
        number = self.numbers.setdefault(id(value), len(self.objects))
        if number == len(self.objects):
            self.objects.append(value)
        return number

    def make_reference(self, value: Any) -> Any:
        """Return a reference to an object that stays here: [tag, its name or number, …]."""
        if isinstance(value, types.ModuleType):
            return ["module", value.__name__]
        if isinstance(value, type) and issubclass(value, BaseException):
            bases = [
                self.encode_value(base)
                for base in value.__bases__
                if issubclass(base, BaseException)
            ]
            return ["error class", self.number_object(value), value.__name__, bases]
        return [
            "remote",
            self.number_object(value),
            "class" if isinstance(value, type) else "object",
        ]

    def describe_error(self, error: BaseException) -> list[Any]:
        """Return its class, the name of the nearest built-in class, its arguments and its text."""
        kind = type(error)
        # The tests do not have the solution's own classes: they raise the nearest built-in one.
        builtin = next(base.__name__ for base in kind.__mro__ if base.__module__ == "builtins")
        try:
            arguments = [self.encode_value(argument) for argument in error.args]
            text = str(error)
        except BaseException:
            arguments = []
            text = kind.__name__
        return [self.encode_value(kind), builtin, arguments, text[:1000]]

    # --- requests: each takes the message and returns the answer

    def execute_code(self) -> dict[str, Any]:
        """Run the solution's code as a module, and return {name: value} of what it defines."""
        if self.request["code"] is None:  # the tests import the solution from its files
            return {}
        module = types.ModuleType(self.request["module"])
        sys.modules[module.__name__] = module
        exec(compile(self.request["code"], f"{module.__name__}.py", "exec"), module.__dict__)
        return {name: value for name, value in module.__dict__.items() if not name.startswith("__")}

    def load_solution(self, _: dict[str, Any]) -> dict[str, Any]:
        """Load the solution and send its names."""
        names = []
        for name, value in self.execute_code().items():
            with contextlib.suppress(Exception):  # one value that cannot be encoded hides no other
                names += [name, self.encode_value(value)]
        return {"ok": ["dict", names]}

    def import_module(self, message: dict[str, Any]) -> dict[str, Any]:
        """Import a module of the files. The answer is its number, whether it is a package, and its names."""
        module = importlib.import_module(message["module"])
        names = [
            name
            for name in getattr(module, "__all__", None) or vars(module)
            if isinstance(name, str)
        ]
        return {"ok": [self.number_object(module), hasattr(module, "__path__"), names]}

    def get_attribute(self, message: dict[str, Any]) -> dict[str, Any]:
        """Read an attribute of an object."""
        value = getattr(self.objects[message["at"]], message["name"])
        # `Level.LOW` is more than the number it may hold: it has a name.
        if isinstance(value, enum.Enum):
            return {"ok": self.make_reference(value)}
        return {"ok": self.encode_value(value)}

    def set_attribute(self, message: dict[str, Any]) -> dict[str, Any]:
        """Set an attribute of an object."""
        setattr(self.objects[message["at"]], message["name"], self.decode_value(message["value"]))
        return {"ok": None}

    def call_object(self, message: dict[str, Any]) -> dict[str, Any]:
        """Call a function, a method or a class.

        The tests have copies of the arguments. What the call changes in them goes back if it returns None, as `sort`
        does, or always with `mutates`.
        """
        args = self.decode_value(message["args"])
        kwargs = self.decode_value(message["kwargs"])
        all_arguments = (*args, *kwargs.values())
        can_change = not all(isinstance(argument, _UNCHANGEABLE) for argument in all_arguments)
        before = self.encode_value([args, kwargs]) if can_change else None
        result = self.objects[message["at"]](*args, **kwargs)
        answer = {"ok": self.encode_value(result)}
        if can_change and (result is None or self.request["mutates"]):
            after = self.encode_value([args, kwargs])
            if after != before:
                answer["args"] = after
        return answer

    def run_whole_test(self, message: dict[str, Any]) -> dict[str, Any]:
        """Run a whole test in this process, beside the solution's live objects. Its verdict can be faked."""
        names = self.execute_code()
        # A solution must not replace what the test relies on, such as `all` or `isinstance`.
        scope = {name: value for name, value in names.items() if not hasattr(builtins, name)}
        run_test(message["job"], scope, [names[name] for name in message["job"].get("with", [])])
        return {"ok": None}


def run_child(request: dict[str, Any], incoming: int, outgoing: int) -> None:
    """Keep only the two pipes open, collect what is printed, and serve. Called in the child."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    for descriptor in (READ_END, WRITE_END, nowhere):
        os.close(descriptor)
    sys.stdin = io.StringIO()
    sys.stdout = io.StringIO()
    install_signal_filter()
    with contextlib.suppress(PipeClosed):
        Session(request, incoming, outgoing).serve()


class Child:
    """One test's child, seen from the parent. Neither its silence nor a frame cut short can block the parent."""

    def __init__(self, request: dict[str, Any]) -> None:
        child_in, self.outgoing = os.pipe()
        self.incoming, child_out = os.pipe()
        self.received = bytearray()  # from the child, not yet a whole frame
        self.pending = bytearray()  # for the child, not yet written
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
        """Write as much of what is pending as the pipe takes."""
        with contextlib.suppress(BlockingIOError):
            try:
                del self.pending[: os.write(self.outgoing, self.pending[:65536])]
            except BrokenPipeError:
                self.pending.clear()

    def relay(self) -> bool:
        """Pass every complete frame on to the tests.

        Returns False if there will be no more: the child has closed its pipe, or sent something that is no frame.
        """
        block = os.read(self.incoming, 1 << 20)
        self.received += block
        while len(self.received) >= HEAD.size:
            kind, size = HEAD.unpack_from(self.received)
            if kind != DATA or size > MOST_BYTES:
                return False
            end = HEAD.size + size
            if len(self.received) < end:
                break
            send(WRITE_END, DATA, bytes(self.received[HEAD.size : end]))
            del self.received[:end]
        return bool(block)

    def kill(self) -> None:
        """Kill it and everything it started."""
        kill_group(self.pid)
        os.waitpid(self.pid, 0)
        os.close(self.incoming)
        os.close(self.outgoing)

    def describe_end(self) -> str:
        """Say how it ended by itself. Its pipe closes a little before it has ended, so this waits a moment."""
        for _ in range(20):
            status = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if status is not None:
                code = status.si_status if status.si_code == os.CLD_EXITED else -status.si_status
                return f"the solution ended early (exit code {code})"
            time.sleep(0.005)
        return "the solution closed its pipe"


class Parent:
    """Relays frames between the tests (READ_END and WRITE_END) and the current child."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.child: Child | None = None

    def serve(self) -> None:
        """Relay until the tests close their end."""
        while True:
            child = self.child
            reads = [READ_END] if child is None else [READ_END, child.incoming]
            writes = [child.outgoing] if child is not None and child.pending else []
            ready, writable, _ = select.select(reads, writes, [])
            if child is not None and writable:
                child.write()
            if child is not None and child.incoming in ready and not child.relay():
                send(WRITE_END, DEAD, child.describe_end().encode())
                child.kill()
                self.child = None
            if READ_END in ready:
                self.take_frame(*receive(READ_END))

    def take_frame(self, kind: bytes, payload: bytes) -> None:
        """Handle one frame from the tests: a message for the child, or the order to start or end one."""
        if kind == DATA:
            if self.child is not None:
                self.child.pending += HEAD.pack(DATA, len(payload)) + payload
            return
        if self.child is not None:
            self.child.kill()
        self.child = Child(self.request) if kind == NEW else None
        if kind == END:
            send(WRITE_END, END)


def main() -> None:
    """Read the solution from standard input, then serve the tests."""
    request = json.loads(sys.stdin.buffer.read())
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.getcwd())
    with contextlib.suppress(PipeClosed):
        Parent(request).serve()
