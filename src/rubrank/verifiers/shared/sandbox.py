"""Run untrusted code with limits, in a fresh directory, without network or access to other processes.

    >>> result = run(["python", "-c", "print(6 * 7)"])
    >>> result.ended, result.stdout
    ('exit', b'42\\n')

Four walls separate the code from the machine. Each wall can be built by several mechanisms; `Result.walls` lists the
mechanisms that were used. If a wall cannot be built, `run` raises `NoIsolation`, unless the operator has allowed that
wall to be open (`RUBRANK_SANDBOX_ALLOW`):
- "network": an empty network namespace, and a system call filter (seccomp) that refuses sockets of any kind;
- "signals": a PID namespace; or a user id that owns nothing else; or Landlock (Linux 6.12); or a system call filter;
- "memory" (also environment variables and /proc) of other processes: a PID namespace with its own /proc; or a user id
  that owns nothing else; or Landlock;
- "files": a file system that has nothing but the system's programs, read-only, and the working directory in memory; or
  Landlock (Linux 5.13), which allows reading the same programs and writing the working directory only; or, if we run
  as root, the rights of a user id that owns nothing else.
These hold in every case: limits on wall-clock time, processor time, memory, file size, number of processes and output;
no privileges; none of the caller's environment variables; no descriptors except standard input, output and error.

Not contained: reading what lies in /usr; kernel bugs; timing side channels of the processor. Memory and
processor time are limited per process, so a run can use `processes` times as much in total. Without a file system in
memory, the size of the directory is not limited. Only Linux is supported; on other systems `run` raises.

The work is split in two:

    sandbox.py     outside the walls: checks the arguments, describes the run as a JSON header, starts the launcher
    inside/        the launcher, which builds the walls around itself and starts the command; our programs inside

    caller ── JSON header, the command's input ──> launcher ──> command
           <── standard output, standard error, the launcher's report ──

The launcher enforces the time limit. The caller enforces it once more, a little later, in case the launcher hangs.
`sandbox_check.py` attacks a target from inside, to test the walls of this machine.
"""

from __future__ import annotations

import binascii
import contextlib
import glob
import json
import marshal
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal, TypeAlias

from rubrank._folders import UNUSED_USER_IDS, make_folder
from rubrank._plain import word_list
from rubrank.errors import InvalidInput, RubrankError, only_our_errors, refuses_wrong_kinds
from rubrank.verifiers.shared.inside.kernel import CPUS, DEVICES, MASKED_NAMES
from rubrank.verifiers.shared.inside.launcher import WALLS as WALLS

Ended: TypeAlias = Literal["exit", "signal", "timeout", "output", "killed"]
ALLOW_VARIABLE = "RUBRANK_SANDBOX_ALLOW"
"""Environment variable with the walls that may be open, such as "signals,files". A rubric cannot set it."""
WITHOUT_VARIABLE = "RUBRANK_SANDBOX_WITHOUT"
"""Environment variable that disables mechanisms, for tests: "namespaces", "landlock", "scopes", "truncate", "filter",
"bubblewrap"; "root" disables what only root can do."""
# What every run can read, besides the interpreter and `keep`. Of /etc only what programs need to start: it also holds
# the users, hosts and name servers of the machine.
_SYSTEM_FOLDERS = word_list("""
    /usr /bin /sbin /lib /lib32 /lib64 /libx32 /nix/store
    /etc/alternatives /etc/ld.so.cache /etc/ld.so.conf /etc/ld.so.conf.d /etc/localtime /etc/locale.alias
    /etc/locale.conf /etc/mime.types /etc/nsswitch.conf /etc/timezone /etc/java /etc/java-* /etc/ssl/openssl.cnf
    /etc/pki/tls/openssl.cnf /etc/crypto-policies
""")
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
# The last versions of Landlock without what a test disables: Landlock itself, truncating files, signals.
_LANDLOCK_VERSIONS = {"landlock": 0, "truncate": 2, "scopes": 5}
_ANY_LANDLOCK = 99  # whatever version the kernel has
_INSIDE = "rubrank.verifiers.shared.inside"
# A module comes after those that it imports.
_LAUNCHER_MODULES = tuple(f"{_INSIDE}.{name}" for name in ("kernel", "filters", "launcher"))
_GRACE_SECONDS = 5.0  # that the launcher gets beyond the time limit to report; then it is killed
_BLOCK_BYTES = 65536  # read from the pipe of the report at once
_SOURCES = Path(__file__).parents[3]  # the folder that holds the package `rubrank`
_SHARED_PROGRAM = f"{_INSIDE}.children"  # all our programs import it


class NoIsolation(RubrankError, RuntimeError):  # noqa: N818 - says what is wrong
    """Untrusted code was not run, because this machine cannot build all walls; `open` names the missing ones."""

    def __init__(self, *open_: str) -> None:
        super().__init__(*open_)
        self.open = open_

    def __str__(self) -> str:
        return (
            f"no isolation: this machine would leave {', '.join(self.open)} open to code from responses. Allow user"
            " namespaces, run as root, install bubblewrap, or use a kernel with Landlock and seccomp"
            " (`rubrank sandbox check` tells which are there);"
            f" or accept the risk: {ALLOW_VARIABLE}={','.join(self.open)}"
        )


class SandboxFailed(RubrankError, RuntimeError):  # noqa: N818
    """The command could not be started. The fault lies with the sandbox or the machine, never with the code."""


@refuses_wrong_kinds
@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may use. Sizes are in MB."""

    seconds: float = 10.0
    """Wall-clock time."""
    cpu: int = 10
    """Seconds of processor time of each process."""
    memory: int = 512
    """Address space of each process."""
    file_size: int = 16
    """Size of each file; at least `output` + 1, because standard output and error are files, too."""
    disk: int = 64
    """Size of all files, if they are in memory."""
    processes: int = 16
    open_files: int = 128
    """Of each process."""
    output: int = 1
    """MB of standard output, and as much again of standard error."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not value > 0:
                raise InvalidInput(
                    owner="Limits",
                    parameter=name,
                    allowed="more than 0",
                    got=repr(value),
                    remedy="Leave it out for the default.",
                )


@dataclass(frozen=True, slots=True)
class Result:
    """How a run ended and what it wrote."""

    ended: Ended
    code: int | None
    """The exit code; minus the signal number if a signal ended it; None if the sandbox stopped it."""
    stdout: bytes
    stderr: bytes
    seconds: float
    walls: tuple[str, ...] = ()
    """The mechanisms that were used, such as "pids", "landlock"."""

    @property
    def why(self) -> str:
        """Say in words how the run ended, for people."""
        if self.ended == "signal" and self.code is not None:
            number = -self.code
            if number not in set(signal.Signals):  # most real-time signals have no name
                return f"killed by signal {number}"
            # The kernel sends these two when a limit is reached.
            limits = {int(signal.SIGXCPU): " (processor time)", int(signal.SIGXFSZ): " (file size)"}
            return f"killed by {signal.Signals(number).name}{limits.get(number, '')}"
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
    """Run the command in a fresh directory that contains `files`. The module docstring says what is contained.

    Args:
        command: `command[0]` is "python" (this interpreter), an absolute path, or a program in /usr/local/bin, /usr/bin
            or /bin.
        files: Contents by relative name.
        stdin: Bytes for the command's standard input.
        limits: By default `Limits()`.
        allow: Walls that may be open. By default those named by the environment variable RUBRANK_SANDBOX_ALLOW.
        keep: Folders that the command can read, besides the system's programs and the interpreter.
        channel: File descriptors that the command gets as 3, 4, …. They are closed in this process in every case.
        trusted: The command is our own program and will itself install the filter in `RUBRANK_SIGNAL_FILTER` in every
            untrusted process that it starts.

    Raises:
        NoIsolation: Walls are open that may not be.
        SandboxFailed: The command did not start.
    """
    descriptors = list(channel)
    try:
        limits = limits or Limits()
        contents = {}
        for name, content in (files or {}).items():
            data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
            # The header is JSON, which has no bytes: characters 0 to 255 stand for them.
            contents[normalise_file_name(name)] = data.decode("latin-1")
        tool = _choose_namespace_tool(os.environ.get(WITHOUT_VARIABLE, ""), os.geteuid())
        open_walls = read_allowed_walls() if allow is None else allow
        with make_folder("run") as directory:
            header = _build_header(command, directory, limits, open_walls, keep)
            header |= {"files": contents, "channel": list(descriptors), "trusted": trusted}
            return _run_launcher(tool, header, stdin, limits.output << 20, descriptors)
    finally:
        # `_run_launcher` removes those that it has closed.
        for descriptor in descriptors:
            os.close(descriptor)


def read_allowed_walls() -> frozenset[str]:
    """Return the walls that the operator of this machine allows to be open. Raises InvalidInput for unknown words."""
    words = os.environ.get(ALLOW_VARIABLE, "").replace(",", " ").split()
    unknown = sorted(set(words) - set(WALLS))
    if unknown:
        raise InvalidInput(
            owner="sandbox",
            parameter=ALLOW_VARIABLE,
            allowed=f"words of {', '.join(WALLS)}",
            got=", ".join(unknown),
        )
    return frozenset(words)


def normalise_file_name(name: str) -> str:
    """Return the normalised name of a file in the directory of a run. Raises InvalidInput if it leads out of it."""
    path = PurePosixPath(name)
    parts = path.parts
    leads_out = path.is_absolute() or ".." in parts or "\\" in name
    # isprintable comes first: names with lone surrogates cannot be encoded.
    is_writable = (
        name.isprintable()
        and len(name) <= 1000
        and all(len(os.fsencode(part)) <= 255 for part in parts)
    )
    if not parts or leads_out or not is_writable:
        raise InvalidInput(
            owner="sandbox.run",
            parameter="files",
            allowed="relative names without '..'",
            got=repr(name[:200]),
            remedy="Name it 'folder/file.py'.",
        )
    return str(path)


def find_isolation() -> tuple[str, ...]:
    """Run a command that does nothing, and return the mechanisms around it; empty if code would be refused."""
    try:
        return run(["/bin/true"], limits=Limits(seconds=5)).walls
    except RubrankError:
        return ()


@cache
def make_command(*modules: str) -> list[str]:
    """Make the command for `run` that loads our own modules inside, where rubrank cannot be imported, and runs `main`.

    The modules are loaded in their order and under their own names; `main` is that of the last one. A module must come
    after those that it imports. They are compiled here, once: the sandbox runs the same interpreter, so it can load the
    bytecode.
    """
    bytecodes = []
    for name in (_SHARED_PROGRAM, *modules):
        source = _SOURCES.joinpath(*name.split(".")).with_suffix(".py").read_text("utf-8")
        bytecodes.append((name, compile(source, name, "exec")))
    packed = binascii.b2a_base64(zlib.compress(marshal.dumps(bytecodes)), newline=False).decode()
    program = (
        "import binascii, marshal, sys, types, zlib\n"
        f"for name, code in marshal.loads(zlib.decompress(binascii.a2b_base64('{packed}'))):\n"
        "    module = sys.modules[name] = types.ModuleType(name)\n"
        "    exec(code, module.__dict__)\n"
        f"sys.modules['{modules[-1]}'].main()\n"
    )
    return ["python", "-I", "-B", "-c", program]


def _build_header(
    command: Sequence[str],
    directory: str,
    limits: Limits,
    open_walls: Collection[str],
    keep: Sequence[str],
) -> dict[str, Any]:
    """Return everything that the launcher needs to know, except "files", "channel" and "trusted".

    Raises InvalidInput if the program does not exist.
    """
    program: str | None = sys.executable
    if command[0] != "python":
        program = shutil.which(command[0], path=_SYSTEM_PATH)
    if program is None:
        raise InvalidInput(
            owner="sandbox.run",
            parameter="command",
            allowed="a program of this machine",
            got=repr(command[0]),
            remedy="Give its absolute path.",
        )
    uid = None
    if os.geteuid() == 0:
        # A random id: two runs at the same time must not be able to reach each other.
        uid = secrets.choice(UNUSED_USER_IDS)
    interpreter = {sys.base_prefix, sys.prefix}
    interpreter |= {os.path.realpath(prefix) for prefix in interpreter}
    readable = [path for pattern in _SYSTEM_FOLDERS for path in sorted(glob.glob(pattern))]
    readable += [*sorted(interpreter), *keep]

    # Mechanisms that a test has disabled
    without = os.environ.get(WITHOUT_VARIABLE, "").split(",")
    namespaces = "best"
    if "namespaces" in without:
        namespaces = "none"
    elif "root" in without:
        namespaces = "user"
    landlock_versions = [_LANDLOCK_VERSIONS[name] for name in without if name in _LANDLOCK_VERSIONS]
    return {
        "command": [program, *command[1:]],
        "directory": directory,
        "environment": {
            "PATH": _SYSTEM_PATH,
            "HOME": directory,
            "TMPDIR": directory,
            "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
            # With one thread per core, these libraries would reserve more memory than the limit allows.
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
        },
        "caller": os.getpid(),
        "uid": uid,
        "owner": os.getuid() if uid is None else uid,
        "group": os.getgid() if uid is None else uid,
        "read": readable,
        "seconds": limits.seconds,
        "disk": limits.disk << 20,
        "namespaces": namespaces,
        "landlock": min(landlock_versions, default=_ANY_LANDLOCK),
        "filter": "filter" not in without,
        "allow": sorted(open_walls),
        "limits": {
            "CPU": limits.cpu,
            "AS": limits.memory << 20,
            "FSIZE": max(limits.file_size, limits.output + 1) << 20,  # the outputs are files, too
            "CORE": 0,
            "NPROC": limits.processes + 1,  # one more for the launcher, which watches the command
            "NOFILE": limits.open_files,
            "MEMLOCK": 0,
            "MSGQUEUE": 0,
        },
    }


def _run_launcher(
    tool: Literal["own", "bubblewrap"],
    header: dict[str, Any],
    stdin: bytes,
    most_bytes: int,
    descriptors: list[int],
) -> Result:
    """Start the launcher, directly or through bubblewrap, wait for its report, and return the result.

    The streams are files without a name, so that no process can block us, or be blocked, by what it reads and writes.
    Closes the descriptors as soon as the launcher has its copies: one left open here would keep the other end from
    seeing a closed pipe. Raises the error that kept the command from starting, if it did not start.
    """
    prefix = []
    if tool == "bubblewrap":
        header["namespaces"] = "given"
        prefix = _make_bubblewrap_command(header)
    reader, writer = os.pipe()
    header["report"] = writer
    start = time.monotonic()
    with (
        open(reader, "rb", buffering=0) as report_pipe,
        tempfile.TemporaryFile() as header_file,
        tempfile.TemporaryFile() as input_file,
        tempfile.TemporaryFile() as stdout_file,
        tempfile.TemporaryFile() as stderr_file,
    ):
        header["stdin"] = input_file.fileno()
        header_file.write(json.dumps(header).encode())
        input_file.write(stdin)
        header_file.seek(0)
        input_file.seek(0)
        try:
            process = subprocess.Popen(
                [*prefix, sys.executable, "-S", *make_command(*_LAUNCHER_MODULES)[1:]],
                stdin=header_file,
                stdout=stdout_file,
                stderr=stderr_file,
                pass_fds=(writer, input_file.fileno(), *descriptors),
                cwd="/",
                env={},
                start_new_session=True,
            )
        finally:
            os.close(writer)
        while descriptors:
            os.close(descriptors.pop())
        try:
            report = _read_report(report_pipe, start + header["seconds"] + _GRACE_SECONDS)
        finally:
            _stop_launcher(process)
        seconds = time.monotonic() - start
        outputs = []
        for file in (stdout_file, stderr_file):
            file.seek(0)
            outputs.append(file.read(most_bytes + 1))
    if "open" in report:
        raise NoIsolation(*report["open"])
    if report.get("files"):
        raise InvalidInput(
            owner="sandbox.run",
            parameter="files",
            allowed="files that can be written",
            got=report["error"],
            remedy="Give fewer or smaller files, or raise Limits.disk.",
        )
    if not report and (process.returncode or 0) > 0:  # the launcher itself failed
        report["error"] = outputs[1].decode("utf-8", "replace").strip().rpartition("\n")[2][:300]
    if "error" in report:
        raise SandboxFailed(f"the sandbox could not start the command: {report['error']}")
    if any(len(output) > most_bytes for output in outputs):
        report |= {"ended": "output", "code": None}
    stdout, stderr = (output[:most_bytes] for output in outputs)
    walls = tuple(report.get("walls", ()))
    ended = report.get("ended", "killed")
    return Result(ended, report.get("code"), stdout, stderr, seconds, walls)


def _read_report(pipe: IO[bytes], deadline: float) -> dict[str, Any]:
    """Return the launcher's report; {} if it ends without one, and a timeout if it hangs."""
    data = b""
    while select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
        block = pipe.read(_BLOCK_BYTES)
        if not block:
            return json.loads(data) if data else {}
        data += block
    return {"ended": "timeout"}


def _stop_launcher(process: subprocess.Popen[bytes]) -> None:
    """End the launcher if it is still there, and with it every process of the run."""
    # After its report the launcher ends at once. Otherwise it gets SIGTERM, on which it kills the command.
    for seconds in (0.05, 1.0):
        try:
            process.wait(seconds)
            break
        except subprocess.TimeoutExpired:
            process.terminate()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


# --- bubblewrap: makes namespaces on machines where an ordinary user may not ----------------------------------------


@lru_cache(maxsize=8)
def _choose_namespace_tool(without: str, user: int) -> Literal["own", "bubblewrap"]:
    """Choose who makes the namespaces: the launcher itself ("own"), or bubblewrap if the launcher cannot and it can.

    Both are tried with a command that does nothing. The arguments are the cache key: they decide the answer.
    """
    if user == 0 or "bubblewrap" in without or shutil.which("bwrap") is None:
        return "own"
    if {"pids", "files", "proc"} <= set(_try_tool("own")):
        return "own"
    return "bubblewrap" if "bubblewrap" in _try_tool("bubblewrap") else "own"


def _try_tool(tool: Literal["own", "bubblewrap"]) -> tuple[str, ...]:
    """Return the walls around a command that does nothing; empty if it could not be run."""
    limits = Limits(seconds=5)
    with make_folder("run") as directory:
        header = _build_header(["/bin/true"], directory, limits, open_walls=WALLS, keep=())
        header |= {"files": {}, "channel": [], "trusted": False}
        try:
            return _run_launcher(tool, header, b"", limits.output << 20, []).walls
        except (RubrankError, OSError):
            return ()


def _make_bubblewrap_command(header: dict[str, Any]) -> list[str]:
    """Make the command line with which bubblewrap builds the same view of the files as inside/kernel.py."""
    view = []
    for path in header["read"]:
        if os.path.islink(path):
            view += ["--symlink", os.readlink(path), path]
        else:
            view += ["--ro-bind-try", path, path]
    view += [argument for device in DEVICES for argument in ("--dev-bind-try", device, device)]
    masked = [f"/proc/{name}" for name in MASKED_NAMES if os.path.exists(f"/proc/{name}")]
    size = ["--size", str(header["disk"])]
    return [
        shutil.which("bwrap") or "bwrap",
        "--unshare-all",
        "--die-with-parent",
        *view,
        *("--symlink", "/proc/self/fd", "/dev/fd"),
        *("--proc", "/proc"),
        *(argument for path in masked for argument in ("--ro-bind", "/dev/null", path)),
        *("--ro-bind-try", CPUS, CPUS),
        *size,  # of the next option
        *("--tmpfs", "/dev/shm"),
        *size,
        *("--tmpfs", header["directory"]),
        *("--remount-ro", "/"),  # a file system in memory whose size bubblewrap does not limit
        "--",
    ]
