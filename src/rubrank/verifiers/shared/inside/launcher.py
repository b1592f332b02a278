"""The sandbox's own process: builds the walls, runs the command, keeps the time, reports.

    launcher ── unshare ──> init (process 1 of a new PID namespace) ──> the command
                            waits, keeps the time, reports; its end kills whatever is left

Standard input begins with one line, the length of a JSON header; the header follows; all after it belongs to the
command. What happened goes, as JSON, to the file descriptor that the header names: the command never sees it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import resource
import signal
import sys
import time
from typing import Any

from rubrank.verifiers.shared.inside import filters, landlock, namespaces
from rubrank.verifiers.shared.inside.kernel import PR_SET_PDEATHSIG, PR_SUBREAPER, drop_everything, machine, prctl

EVERY_WALL = ("network", "signals", "memory", "files")
SHUT = "RUBRANK_SHUT"
"""The variable that hands a trusted command the filter to install before it runs what is not."""


class Open(Exception):  # noqa: N818 - says what is wrong
    """Walls that do not stand, and were not allowed to be open."""


# --- the header ---------------------------------------------------------------------------------------------------


def read_header() -> dict[str, Any]:
    """The header, read byte-exactly: not one byte of the command's own input is taken."""
    digits = b""
    while not digits.endswith(b"\n"):
        digits += os.read(0, 1) or b"\n"
    rest, header = int(digits), b""
    while len(header) < rest:
        block = os.read(0, min(65536, rest - len(header)))
        if not block:
            raise EOFError("the header ended early")
        header += block
    return json.loads(header)


def write_files(directory: str, files: dict[str, str]) -> None:
    """The command's files (names were checked by the caller; contents are Latin-1 for bytes)."""
    os.chdir(directory)
    for name, content in files.items():
        try:
            if os.path.dirname(name):
                os.makedirs(os.path.dirname(name), exist_ok=True)
            with open(name, "xb") as file:
                file.write(content.encode("latin-1"))
        except OSError as error:
            raise FileExistsError(f"{name}: {error.strerror}") from None


def set_limits(limits: dict[str, int]) -> None:
    """The kernel's limits for the command and all its children; each process has them for itself."""
    for name, value in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}", None)
        if kind is None:
            continue
        ceiling = resource.getrlimit(kind)[1]
        wanted = value if ceiling == resource.RLIM_INFINITY else min(value, ceiling)
        # One second between the polite signal and the certain one.
        hard = wanted + 1 if name == "CPU" and ceiling == resource.RLIM_INFINITY else wanted
        resource.setrlimit(kind, (wanted, hard))


# --- the walls around the command ---------------------------------------------------------------------------------


def start(header: dict[str, Any], walls: list[str]) -> int:
    """Fork the command into a session of its own; its process id. What stops it before it runs is raised here."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            become_command(header, walls, writer)
        except Open as error:
            os.write(writer, json.dumps({"open": list(error.args)}).encode() + b"\n")
        except BaseException as error:  # this process must never run on as a second init
            os.write(writer, json.dumps({"error": f"{header['command'][0]}: {error}"}).encode() + b"\n")
        os._exit(126)
    os.close(writer)
    with open(reader, "rb") as file:  # ends at exec: the writer is closed by it
        said: dict[str, Any] = {}
        for line in file:
            said |= json.loads(line)
    if said.get("open"):
        raise Open(*said["open"])
    if "error" in said:
        raise ChildProcessError(said["error"])
    walls += said["walls"]
    return pid


def become_command(header: dict[str, Any], walls: list[str], writer: int) -> None:
    """In the new process: session, signals, limits, channel, walls, exec."""
    os.setsid()
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    set_limits(header["limits"])
    environment = dict(header["environment"])
    found = close_in(header, walls, environment)
    if left := [wall for wall in still_open(header, [*walls, *found]) if wall not in header["allow"]]:
        raise Open(*left)
    os.write(writer, json.dumps({"walls": found}).encode() + b"\n")
    writer = move_away(writer, header["channel"])
    for place, descriptor in enumerate(header["channel"], 3):
        os.dup2(descriptor, place)
    os.execve(header["command"][0], header["command"], environment)


def move_away(writer: int, channel: list[int]) -> int:
    """The descriptor that tells of failures, out of the way of the command's own (3 and 4)."""
    for i, descriptor in enumerate(channel):
        channel[i] = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    return fcntl.fcntl(writer, fcntl.F_DUPFD_CLOEXEC, 10)


def close_in(header: dict[str, Any], walls: list[str], environment: dict[str, str]) -> list[str]:
    """The walls that need no namespace: Landlock and the filters. Which of them stand."""
    here, found = machine(), []
    same_user, scoped = header["uid"] is None, False
    abi = min(landlock.version(), header["landlock"]) if here else 0
    if abi:
        ours = [header["directory"], *(["/dev/shm"] if "files" in walls else [])]
        scoped = landlock.restrict(abi, ours, [*header["read"], *(["/proc"] if "proc" in walls else [])])
        found.append("landlock")
    if here is None or not header["filter"]:
        return found
    if same_user and "pids" not in walls:
        if not scoped and header["trusted"]:
            environment[SHUT] = filters.signals_program(here).hex()
        if scoped or header["trusted"] or filters.install(filters.signals_program(here)):
            found.append("signals")
    if same_user and not {"pids", "files"} <= set(walls):
        filters.install(filters.own_user_program(here))
    if filters.install(filters.program(here)):
        found.append("calls")
    return found


def still_open(header: dict[str, Any], walls: list[str]) -> list[str]:
    """What the command could reach for want of a wall."""
    stranger = header["uid"] is not None
    closed = {
        "network": "network" in walls or "calls" in walls,
        "signals": stranger or "pids" in walls or "signals" in walls,
        "memory": stranger or "proc" in walls or "landlock" in walls,
        "files": stranger or "files" in walls or "landlock" in walls,
    }
    return [wall for wall in EVERY_WALL if not closed[wall]]


# --- running ------------------------------------------------------------------------------------------------------


def other_processes(walls: list[str]) -> int:
    """Processes and threads that the kernel counts with ours: the user's, unless user or namespace are new."""
    kernel = tuple(int(part) for part in platform.release().replace("-", ".").split(".")[:2] if part.isdigit())
    if sys.platform != "linux" or ("user" in walls and kernel >= (5, 14)):
        return 0
    count = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{name}").st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{name}/task"))
    return count


def watch(pid: int, seconds: float) -> dict[str, Any]:
    """Wait for the command, reaping orphans; how it ended."""
    end = time.monotonic() + seconds
    while True:
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            if found[0] == pid:
                code = os.waitstatus_to_exitcode(found[1])
                return {"ended": "exit" if code >= 0 else "signal", "code": code}
        left = end - time.monotonic()
        if left <= 0:
            return {"ended": "timeout", "code": None}
        what = signal.sigtimedwait([signal.SIGCHLD, signal.SIGTERM], left)
        if what is not None and what.si_signo == signal.SIGTERM:
            return {"ended": "stopped", "code": None}


def descendants() -> set[int]:
    """Every process below this one (orphans are ours too: it is a subreaper); the dead are left out."""
    below: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat") as file:
            state, parent = file.read().rpartition(")")[2].split()[:2]
            if state not in "ZX":
                below.setdefault(int(parent), []).append(int(name))
    found: set[int] = set()
    rest = [os.getpid()]
    while rest:
        rest += (young := below.get(rest.pop(), []))
        found.update(young)
    return found


def end_all(walls: list[str]) -> None:
    """Kill whatever is left. In a PID namespace our own end does it; elsewhere all are stopped first, then killed.

    Killed one by one, a fork bomb would fill each gap at once; stopped processes have no children.
    """
    if "pids" in walls:
        return
    for _ in range(50):
        stopped: set[int] = set()
        while young := descendants() - stopped:
            send(young, signal.SIGSTOP)
            stopped |= young
        send(stopped, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:  # neither the living nor the dead are left
            return
        time.sleep(0.005)  # the dead hand their children over to us


def send(pids: set[int], number: int) -> None:
    """A signal to each, as far as they are still there."""
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def init(header: dict[str, Any], walls: list[str]) -> None:
    """Process 1: walls, files, privileges, command, report."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD, signal.SIGTERM])
    if header["uid"] is None:
        header["limits"]["NPROC"] += other_processes(walls) + ("user" in walls)  # the launcher is counted there, too
    if walls and "files" not in walls:
        try:
            walls += namespaces.build_view(header)
        except OSError as error:
            walls.append(f"no view of the files ({error})")
    if "root" in walls and header["uid"] is not None:
        namespaces.become(header["uid"])
    if sys.platform == "linux":
        prctl(PR_SUBREAPER, 1)
        drop_everything()
        end_with_parent("pids" in walls, header)  # after the change of user, which would clear it
    write_files(header["directory"], header["files"])
    pid = start(header, walls)
    for descriptor in header["channel"]:
        os.close(descriptor)
    outcome = watch(pid, header["seconds"])
    end_all(walls)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    report(header, {**outcome, "walls": walls, "cpu": used.ru_utime + used.ru_stime})


def end_with_parent(inner: bool, header: dict[str, Any]) -> None:
    """A run does not outlive who started it, however that one ended."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL if inner else signal.SIGTERM)
    if not inner and os.getppid() != header["caller"]:  # it was faster
        os._exit(0)


def report(header: dict[str, Any], outcome: dict[str, Any]) -> None:
    """One JSON object to the parent."""
    os.write(header["report"], json.dumps(outcome).encode())


def main() -> None:
    """Read the header, enter the namespaces, be or fork init."""
    header = read_header()
    for descriptor in (header["report"], *header["channel"]):
        os.set_inheritable(descriptor, False)
    try:
        walls = namespaces.enter(header)
        if "pids" not in walls or "bubblewrap" in walls:
            init(header, walls)
        elif pid := os.fork():  # told to stop: end init, and be gone only when the kernel has ended all the rest
            signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGKILL))
            end_with_parent(False, header)
            for descriptor in header["channel"]:
                os.close(descriptor)
            os.waitpid(pid, 0)
        else:
            init(header, walls)
    except Open as error:
        report(header, {"open": error.args})
    except BaseException as error:
        known = isinstance(error, (ChildProcessError, FileExistsError))
        words = str(error) if known else f"{type(error).__name__}: {error}"
        report(header, {"error": words, "files": isinstance(error, FileExistsError)})
    os._exit(0)
