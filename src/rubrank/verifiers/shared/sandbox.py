"""Running untrusted code: limits, a directory of its own, no network, no other process in reach.

    >>> result = run(["python", "-c", "print(6 * 7)"])
    >>> result.ended, result.stdout
    ('exit', b'42\\n')

Four walls must stand, by whatever means this machine has; `Result.walls` says by which. Where one cannot be had, `run`
raises `NoIsolation`, unless the operator has explicitly allowed it to be open (`RUBRANK_SANDBOX_ALLOW`):
- "network": an empty network namespace, and a filter of system calls that refuses sockets of any kind;
- "signals": a PID namespace; or a user that owns nothing else; or Landlock (Linux 6.12) or the filter;
- "memory" (and variables, and /proc) of other processes: as above;
- "files": homes hidden, all else read-only, a working directory in memory; or Landlock (Linux 5.13): nothing but the
  system's own programs can be read, nothing but the directory written; or, started by root, another user's rights.
Always: time by the clock and by the processor, memory, size of files, number of processes, output; no privileges, none
of the caller's variables, of its descriptors only standard input, output and error.

Not contained: reading world-readable system files; memory and processor time are limited for each process,
so `processes` times as much in all; holes of the kernel; what the processor leaks through timing. Without a file
system in memory the size of the directory is not limited. Other systems than Linux are not supported: `run` raises.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any, Literal, TypeAlias

from rubrank.errors import InvalidInput, RubrankError, only_our_errors, refuses_wrong_kinds
from rubrank.verifiers.shared.sandboxes.folders import STRANGERS, folder
from rubrank.verifiers.shared.sandboxes.process import Talk, TalkOutcome

Ended: TypeAlias = Literal["exit", "signal", "timeout", "output", "killed"]
WALLS = ("network", "signals", "memory", "files")
ALLOW = "RUBRANK_SANDBOX_ALLOW"
"""Set by who runs the machine, never by a rubric: walls that may be open, such as "signals,files"."""
WITHOUT = "RUBRANK_SANDBOX_WITHOUT"
"""Means to do without, to see what is left: "namespaces", "landlock", "scopes", "filter", "bubblewrap"."""
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix/store")
_NO_SCOPES = 5  # the last version of Landlock without signals


class NoIsolation(RubrankError, RuntimeError):  # noqa: N818 - says what is wrong
    """Untrusted code was not run, because walls are open on this machine; `open` names them."""

    def __init__(self, *open_: str) -> None:
        super().__init__(*open_)
        self.open = open_

    def __str__(self) -> str:
        return (
            f"no isolation: this machine would leave {', '.join(self.open)} open to code from responses. Allow user"
            " namespaces, run as root, install bubblewrap, or use a kernel with Landlock and seccomp"
            f" (`rubrank sandbox check`); or accept it in words: {ALLOW}={','.join(self.open)}"
        )


class SandboxFailed(RubrankError, RuntimeError):  # noqa: N818
    """The command could not be started: the sandbox's fault or the machine's, never the code's."""


@refuses_wrong_kinds
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


@only_our_errors
def run(
    command: Sequence[str],
    *,
    files: Mapping[str, str | bytes] | None = None,
    stdin: bytes = b"",
    limits: Limits | None = None,
    allow: Collection[str] | None = None,
    keep: Sequence[str] = (),
    channel: Collection[int] = (),
    trusted: bool = False,
) -> Result:
    """Run the command in a fresh directory that holds `files`; see the top of this file for what that contains.

    `command[0]` is "python" (this interpreter), an absolute path, or a name on the plain system path.
    `keep`: folders that stay readable although they are in a home. `channel`: descriptors that the command gets as
    3, 4 …; they are closed here. `allow`: walls that may be open, by default those that RUBRANK_SANDBOX_ALLOW names.
    `trusted`: the command is ours, and installs the filter of RUBRANK_SHUT in whatever it starts that is not.
    Raises `NoIsolation` if walls are open, `SandboxFailed` if the command did not start.
    """
    channel = list(channel)
    try:
        limits = limits or Limits()
        contents = {safe_name(name): _latin(content) for name, content in (files or {}).items()}
        tool = _tool(os.environ.get(WITHOUT, ""), os.geteuid())
        with folder() as directory:
            header = _header(command, directory, contents, limits) | {
                "allow": sorted(allowed() if allow is None else allow),
                "channel": list(channel),
                "trusted": trusted,
            }
            talk = _talk(tool, header, keep, stdin, limits)
            while channel:  # the command has them now; what is left open here would hide its end from the other side
                os.close(channel.pop())
            return _result(talk.to_the_end())
    finally:
        for descriptor in channel:
            os.close(descriptor)


def _talk(tool: str, header: dict[str, Any], keep: Sequence[str], stdin: bytes, limits: Limits) -> Talk:
    """Start the launcher, by itself or through bubblewrap."""
    header["keep"] = [*header["keep"], *keep]
    header["read"] = [*_SYSTEM, *header["keep"]]
    if tool == "bubblewrap":
        header["namespaces"] = "given"
    return Talk(_bubblewrap(header) if tool == "bubblewrap" else [], header, stdin, limits.output << 20)


def allowed() -> frozenset[str]:
    """The walls that this machine's operator allows to be open."""
    words = frozenset(filter(None, os.environ.get(ALLOW, "").replace(" ", ",").split(",")))
    if unknown := sorted(words - set(WALLS)):
        raise InvalidInput("sandbox", ALLOW, f"words of {', '.join(WALLS)}", ", ".join(unknown), "")
    return words


def safe_name(name: str) -> str:
    """The name of a file inside the directory; one that would lead out of it is refused."""
    path = PurePosixPath(name)
    parts = path.parts
    long = len(name) > 1000 or any(len(os.fsencode(part)) > 255 for part in parts) if name.isprintable() else True
    if not parts or path.is_absolute() or ".." in parts or "\\" in name or long:
        raise InvalidInput(
            "sandbox.run", "files", "relative names without '..'", repr(name[:200]), "Name it 'folder/file.py'."
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


def _header(command: Sequence[str], directory: str, files: dict[str, str], limits: Limits) -> dict[str, Any]:
    uid = STRANGERS[secrets.randbelow(len(STRANGERS))] if os.geteuid() == 0 else None
    keep = sorted({os.path.realpath(p) for p in (sys.base_prefix, sys.prefix)} | {sys.base_prefix, sys.prefix})
    homes = {"/root", "/home", os.path.realpath(os.path.expanduser("~"))} - {"/"}
    without = os.environ.get(WITHOUT, "").split(",")
    return {
        "command": [_program(command[0]), *command[1:]],
        "directory": directory,
        "files": files,
        "environment": _environment(directory),
        "caller": os.getpid(),
        "uid": uid,
        "owner": os.getuid() if uid is None else uid,
        "group": os.getgid() if uid is None else uid,
        "keep": keep,
        "hide": sorted(homes),
        "seconds": limits.seconds,
        "disk": limits.disk << 20,
        "namespaces": "none" if "namespaces" in without else "user" if "root" in without else "best",
        "landlock": 0 if "landlock" in without else _NO_SCOPES if "scopes" in without else 99,
        "filter": "filter" not in without,
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
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": directory,
        "TMPDIR": directory,
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        **single,
    }


def _rlimits(limits: Limits) -> dict[str, int]:
    return {
        "CPU": limits.cpu,
        "AS": limits.memory << 20,
        "FSIZE": limits.file_size << 20,
        "CORE": 0,
        "NPROC": limits.processes + 1,  # and the process that watches
        "NOFILE": limits.open_files,
        "MEMLOCK": 0,
        "MSGQUEUE": 0,
    }


def _result(outcome: TalkOutcome) -> Result:
    report = outcome.report
    if report.get("open"):
        raise NoIsolation(*report["open"])
    if report.get("files"):
        remedy = "Give fewer or smaller files, or raise Limits.disk."
        raise InvalidInput("sandbox.run", "files", "such as can be written", report["error"], remedy)
    if "error" in report:
        raise SandboxFailed(f"the sandbox could not start the command: {report['error']}")
    if outcome.crashed:
        words = outcome.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise SandboxFailed(f"the sandbox could not start the command: {words[:300]}")
    ended = outcome.stopped or report.get("ended", "killed")
    code = None if outcome.stopped else report.get("code")
    return Result(ended, code, outcome.stdout, outcome.stderr, outcome.seconds, tuple(report.get("walls", ())))


# --- bubblewrap: where we may not make namespaces ourselves, it may -------------------------------------------------


@lru_cache(maxsize=8)
def _tool(without: str, user: int) -> Literal["own", "bubblewrap"]:
    """Who makes the namespaces. Looked into once: root and most users can do it themselves."""
    if user == 0 or "bubblewrap" in without or shutil.which("bwrap") is None:
        return "own"
    if {"pids", "files", "proc"} <= set(_tried("own")):
        return "own"
    return "bubblewrap" if "bubblewrap" in _tried("bubblewrap") else "own"


def _tried(tool: Literal["own", "bubblewrap"]) -> tuple[str, ...]:
    """The walls of a run that does nothing."""
    limits = Limits(seconds=5)
    with folder() as directory:
        header = _header(["/bin/true"], directory, {}, limits)
        header |= {"allow": list(WALLS), "channel": [], "trusted": False}
        try:
            return _result(_talk(tool, header, (), b"", limits).to_the_end()).walls
        except (RubrankError, OSError):
            return ()


def _bubblewrap(header: dict[str, Any]) -> list[str]:
    """bubblewrap's command line for the same view of the files as ours."""
    hidden = [part for path in header["hide"] if os.path.isdir(path) for part in ("--tmpfs", path)]
    kept = [part for path in header["keep"] if os.path.isdir(path) for part in ("--ro-bind", path, path)]
    inside = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return [
        shutil.which("bwrap") or "bwrap",
        "--unshare-all",
        "--die-with-parent",
        "--ro-bind",
        "/",
        "/",
        *hidden,
        *kept,
        "--ro-bind",
        inside,
        inside,
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--size",
        str(header["disk"]),
        "--tmpfs",
        header["directory"],
        "--",
    ]
