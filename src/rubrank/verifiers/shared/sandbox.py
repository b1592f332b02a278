"""Running code that nobody has read: limits, a directory of its own, no network.

    >>> result = run(["python", "-c", "print(6 * 7)"])
    >>> result.ended, result.stdout
    ('exit', b'42\\n')

Contained (Linux; `Result.walls` says which of these a run really had):
- time by the clock and by the processor, memory, size of a file, number of processes and open files, no core dumps;
- output: the run is stopped as soon as it has written more than the limit;
- network: a new, empty network namespace ("network"), and a system-call filter ("calls") that refuses sockets,
  also those in the file system (a database, an agent, a container daemon). Where neither can be had, `run` refuses;
- processes: a new PID namespace ("pids"): when the command ends or its time is up, all it started is gone, daemons too;
- files ("files"): home directories are hidden, all else is read-only, and the working directory is a file system in
  memory of limited size that vanishes with the run; there is nothing for a symbolic link to lead the caller to;
- privileges: started by root, the command runs as a user that owns nothing; no capabilities, no set-uid, no tracing;
- environment: none of the caller's variables; of its file descriptors only standard input, output and error.

Not contained: reading files outside the homes that the user may read (for root's runs: that everybody may read);
memory is limited for each process, so `processes × memory` in all; processor time likewise; holes of the kernel
itself; what the machine's processor leaks through timing. Where namespaces are not allowed (many containers),
"network" rests on the filter alone, writing outside is limited by the user's permissions only, and the size of a
directory is not limited. Other systems than Linux are not supported: `run` raises.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeAlias

from rubrank.errors import InvalidInput, RubrankError

Ended: TypeAlias = Literal["exit", "signal", "timeout", "output", "killed"]

_CHILD = Path(__file__).with_name("sandbox_child.py")
_STRANGERS = range(
    61184, 65520
)  # user ids that systemd sets aside for services of the moment: nobody owns files with them
_GRACE = 5.0  # seconds beyond the limit after which a launcher that does not report is killed
_BLOCK = 65536
_NAMESPACES: Literal["best", "user", "none"] = "best"  # the tests ask for the poorer kinds, to see them work


class NoIsolation(RubrankError, RuntimeError):  # noqa: N818 - says what is wrong
    """Untrusted code was not run, because the network could not be shut off."""


class SandboxFailed(RubrankError, RuntimeError):  # noqa: N818
    """The command could not be started: the sandbox's fault or the machine's, never the code's."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may use. Sizes in MB; `memory`, `cpu` and `file_size` hold for each process (or file)."""

    seconds: float = 10.0
    cpu: int = 10
    memory: int = 512
    file_size: int = 16
    disk: int = 64
    processes: int = 16
    open_files: int = 128
    output: int = 1
    """Of standard output, and again of standard error."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not value > 0:
                raise InvalidInput("Limits", name, "more than 0", repr(value), "Leave it out for the default.")


@dataclass(frozen=True, slots=True)
class Result:
    """How a run ended and what it wrote."""

    ended: Ended
    code: int | None
    """The exit code; minus the signal's number; None if it was stopped from outside."""
    stdout: bytes
    stderr: bytes
    seconds: float
    walls: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        """The end in words."""
        if self.ended == "signal" and self.code is not None:
            extra = {int(signal.SIGXCPU): " (processor time)", int(signal.SIGXFSZ): " (file size)"}.get(-self.code, "")
            return f"killed by {signal.Signals(-self.code).name}{extra}"
        words = {"timeout": "out of time", "output": "wrote too much", "killed": "killed"}
        return words.get(self.ended, f"exit code {self.code}")


def run(
    command: Sequence[str],
    *,
    files: Mapping[str, str | bytes] | None = None,
    stdin: bytes = b"",
    limits: Limits | None = None,
    allow_network: bool = False,
) -> Result:
    """Run the command in a fresh directory that holds `files`; see the top of this file for what that contains.

    `command[0]` is "python" (this interpreter) or an absolute path or a name on the plain system path. Raises
    `NoIsolation` where the network cannot be shut off (unless `allow_network`), `SandboxFailed` if it did not start.
    """
    limits = limits or Limits()
    contents = {safe_name(name): _latin(content) for name, content in (files or {}).items()}
    directory = tempfile.mkdtemp(prefix="rubrank-")
    try:
        header = _header(command, directory, contents, limits, allow_network)
        return _Run(header, stdin, limits).result()
    finally:
        _remove(directory)


def safe_name(name: str) -> str:
    """The name of a file inside the directory; one that would lead out of it is refused."""
    path = PurePosixPath(name)
    parts = path.parts
    if not parts or path.is_absolute() or ".." in parts or "\\" in name or not name.isprintable() or len(name) > 1000:
        raise InvalidInput(
            "sandbox.run", "files", "relative names without '..'", repr(name), "Name it 'folder/file.py'."
        )
    return str(path)


def isolation() -> tuple[str, ...]:
    """The walls that this machine offers; empty if code would be refused."""
    try:
        return run(["/bin/true"], limits=Limits(seconds=5)).walls
    except RubrankError:
        return ()


def _latin(content: str | bytes) -> str:
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    return data.decode("latin-1")


def _header(
    command: Sequence[str], directory: str, files: dict[str, str], limits: Limits, allow_network: bool
) -> dict[str, Any]:
    uid = _STRANGERS[secrets.randbelow(len(_STRANGERS))] if os.geteuid() == 0 else None
    keep = sorted({os.path.realpath(p) for p in (sys.base_prefix, sys.prefix)} | {sys.base_prefix, sys.prefix})
    homes = {"/root", "/home", os.path.realpath(os.path.expanduser("~"))} - {"/"}
    return {
        "command": [_program(command[0]), *command[1:]],
        "directory": directory,
        "files": files,
        "environment": _environment(directory),
        "uid": uid,
        "owner": os.getuid() if uid is None else uid,
        "group": os.getgid() if uid is None else uid,
        "keep": keep,
        "hide": sorted(homes),
        "seconds": limits.seconds,
        "disk": limits.disk << 20,
        "namespaces": _NAMESPACES,
        "allow_network": allow_network,
        "limits": _rlimits(limits),
    }


def _program(name: str) -> str:
    if name == "python":
        return sys.executable
    found = shutil.which(name, path="/usr/local/bin:/usr/bin:/bin")
    if found is None:
        raise InvalidInput("sandbox.run", "command", "a program of this machine", repr(name), "Give its absolute path.")
    return found


def _environment(directory: str) -> dict[str, str]:
    single = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}  # or they reserve memory per core
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": directory, "TMPDIR": directory, "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", **single,
    }  # fmt: skip


def _rlimits(limits: Limits) -> dict[str, int]:
    return {
        "CPU": limits.cpu, "AS": limits.memory << 20, "FSIZE": limits.file_size << 20, "CORE": 0,
        "NPROC": limits.processes + 1,  # and the process that watches
        "NOFILE": limits.open_files, "MEMLOCK": 0, "MSGQUEUE": 0,
    }  # fmt: skip


class _Run:
    """One run seen from outside: feeds standard input, collects the two outputs and the report, keeps a second
    clock."""

    def __init__(self, header: dict[str, Any], stdin: bytes, limits: Limits) -> None:
        self.limits, self.most = limits, limits.output << 20
        self.output = {"stdout": bytearray(), "stderr": bytearray(), "report": bytearray()}
        reader, writer = os.pipe()
        header["report"] = writer
        self.start = time.monotonic()
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_CHILD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, pass_fds=(writer,), cwd="/", env={}, start_new_session=True,
            )  # fmt: skip
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        text = json.dumps(header).encode()
        self.pending = memoryview(b"%d\n%b%b" % (len(text), text, stdin))
        self.report = open(reader, "rb", buffering=0)  # noqa: SIM115 - closed with the others

    def result(self) -> Result:
        """Run to the end, whatever it is."""
        try:
            stopped = self._talk()
        finally:
            self._stop()
        return self._judge(stopped, time.monotonic() - self.start)

    def _talk(self) -> Ended | None:
        """Move bytes until the report's end; the reason if it had to be stopped."""
        with selectors.DefaultSelector() as selector:
            self._register(selector)
            deadline = self.start + self.limits.seconds + _GRACE
            while "report" in {key.data for key in selector.get_map().values()}:
                left = deadline - time.monotonic()
                if left <= 0:
                    return "timeout"
                for key, _ in selector.select(left):
                    if not self._move(key, selector):
                        return "output"
            self._drain(selector)
        return None

    def _register(self, selector: selectors.BaseSelector) -> None:
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        for stream, event, name in (
            (process.stdin, selectors.EVENT_WRITE, "stdin"), (process.stdout, selectors.EVENT_READ, "stdout"),
            (process.stderr, selectors.EVENT_READ, "stderr"), (self.report, selectors.EVENT_READ, "report"),
        ):  # fmt: skip
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, event, name)

    def _move(self, key: selectors.SelectorKey, selector: selectors.BaseSelector) -> bool:
        """Some bytes of one stream; False if that was too much."""
        if key.data == "stdin":
            try:
                self.pending = self.pending[os.write(key.fd, self.pending[:_BLOCK]) :]
            except BlockingIOError:
                return True
            except OSError:  # the command does not read its input
                self.pending = self.pending[:0]
            if not self.pending:
                selector.unregister(key.fileobj)
                key.fileobj.close()  # type: ignore[union-attr]
            return True
        try:
            block = os.read(key.fd, _BLOCK)
        except BlockingIOError:
            return True
        if not block:
            selector.unregister(key.fileobj)
        self.output[key.data] += block
        return len(self.output[key.data]) <= self.most

    def _drain(self, selector: selectors.BaseSelector) -> None:
        """What still lies in the pipes; a left-over process that keeps one open is not waited for."""
        while ready := [key for key, _ in selector.select(0) if key.data != "stdin"]:
            if not all(self._move(key, selector) for key in ready):
                return

    def _stop(self) -> None:
        """End the launcher, and with it all the rest, if it has not ended by itself."""
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            self.process.wait(0.05 if self.output["report"] else 0)
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(1.0)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr, self.report):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _judge(self, stopped: Ended | None, seconds: float) -> Result:
        outcome = json.loads(bytes(self.output["report"])) if self.output["report"] else {}
        if "no network isolation here" in outcome.get("error", ""):
            raise NoIsolation(
                "no network isolation here: this kernel allows neither namespaces nor system-call filters"
            )
        if outcome.get("files"):
            remedy = "Give fewer or smaller files, or raise Limits.disk."
            raise InvalidInput("sandbox.run", "files", "such as can be written", outcome["error"], remedy)
        if "error" in outcome:
            raise SandboxFailed(f"the sandbox could not start the command: {outcome['error']}")
        ended = stopped or outcome.get("ended", "killed")
        out, err = (bytes(self.output[name][: self.most]) for name in ("stdout", "stderr"))
        code = None if stopped else outcome.get("code")
        return Result(ended, code, out, err, seconds, tuple(outcome.get("walls", ())))


def _remove(directory: str) -> None:
    """Delete the directory, even if the command took permissions away; links are never followed."""
    shutil.rmtree(directory, ignore_errors=True)
    if os.path.lexists(directory):
        for root, _, _ in os.walk(directory):
            with contextlib.suppress(OSError):
                os.chmod(root, 0o700)
        shutil.rmtree(directory, ignore_errors=True)
