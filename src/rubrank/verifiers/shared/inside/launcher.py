"""The process that builds the walls of the sandbox, starts the command, enforces the time limit, and reports.

    launcher ── unshare ──> init (process 1 of a new PID namespace) ──> the command
                            waits for the command, stops it when the time is up, reports;
                            when init ends, the kernel kills every process left in the namespace

Without a PID namespace, the launcher is init itself.

Standard input is a JSON header, which the command cannot read:

    command, environment    the program with its arguments; its environment variables
    directory               its working directory, an empty folder
    files                   what to write there: contents by name, in which characters 0 to 255 stand for bytes
    stdin                   descriptor of the command's input
    channel                 descriptors that the command gets as 3, 4, …
    report                  descriptor to which the report is written, as JSON; the command does not get it
    caller                  process id of the caller, without whom the run must not go on
    uid                     user id to change to, which owns nothing else; None unless the caller is root
    owner, group            ids that own the working directory if it is in memory
    read                    paths that the command can read
    seconds                 wall-clock time
    disk                    bytes of files in memory
    limits                  limits of the kernel, by their names without RLIMIT_: {"CPU": 10, …}
    namespaces              who makes them: "best", "user", "none" or "given" (see `enter_namespaces`)
    landlock                the highest version of Landlock to use; 0 for none
    filter                  are system call filters installed?
    allow                   walls that may be open
    trusted                 is the command our own program (see `SIGNAL_FILTER`)?

`WALLS` are the four things that must be walled off. Several mechanisms can do it (see `find_open_walls`), and the list
`mechanisms` holds those that are in place. Each step below adds to it: "root", "user" or "bubblewrap" (who made the
namespaces), "network", "pids", "files", "proc", "landlock", "signals", "calls". The report calls this list "walls".
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

from rubrank.verifiers.shared.inside.filters import (
    build_main_filter,
    build_own_user_filter,
    build_signal_filter,
    install,
)
from rubrank.verifiers.shared.inside.kernel import (
    FIRST_WITH_TRUNCATION,
    PR_SET_CHILD_SUBREAPER,
    PR_SET_PDEATHSIG,
    become_user,
    build_view,
    drop_everything,
    enter_namespaces,
    find_machine,
    prctl,
    read_landlock_version,
    restrict_by_landlock,
)

WALLS = ("network", "signals", "memory", "files")
SIGNAL_FILTER = "RUBRANK_SIGNAL_FILTER"
"""Environment variable that gives a trusted command the filter for the untrusted processes that it starts."""


class WallsOpen(Exception):  # noqa: N818 - says what is wrong
    """Walls are open that the caller does not allow to be open; the arguments name them."""


# --- files and limits -----------------------------------------------------------------------------------------------


def write_files(directory: str, files: dict[str, str]) -> None:
    """Write the command's files. The caller has checked their names; characters 0 to 255 stand for bytes."""
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
    """Set the kernel's limits. Every process that the command starts gets the same limits, each for itself."""
    for name, value in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}", None)
        if kind is None:
            continue
        _, ceiling = resource.getrlimit(kind)
        is_unlimited = ceiling == resource.RLIM_INFINITY
        soft = value if is_unlimited else min(value, ceiling)
        hard = soft
        if name == "CPU" and is_unlimited:
            hard += 1  # the kernel sends SIGXCPU at the soft limit and SIGKILL one second later
        resource.setrlimit(kind, (soft, hard))


# --- the walls around the command ---------------------------------------------------------------------------------


def start_command(header: dict[str, Any], mechanisms: list[str]) -> int:
    """Fork the command into a new session. Returns its process id; errors before its start are raised here."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        # From 10 on, because 3, 4, … become the command's descriptors.
        writer = fcntl.fcntl(writer, fcntl.F_DUPFD_CLOEXEC, 10)
        try:
            become_command(header, mechanisms, writer)
        except WallsOpen as error:
            os.write(writer, json.dumps({"open": list(error.args)}).encode() + b"\n")
        except BaseException as error:
            # Whatever happens, this process must not go on as a second init.
            message = {"error": f"{header['command'][0]}: {error}"}
            os.write(writer, json.dumps(message).encode() + b"\n")
        os._exit(126)
    os.close(writer)
    # "mechanisms" once it has built them; "open" or "error" if it cannot go on
    status: dict[str, Any] = {}
    with open(reader, "rb") as file:  # a successful exec closes the writer, which ends this file
        for line in file:
            status |= json.loads(line)
    if status.get("open"):
        raise WallsOpen(*status["open"])
    if "error" in status:
        raise ChildProcessError(status["error"])
    if "mechanisms" not in status:
        raise ChildProcessError(f"{header['command'][0]}: killed before it started")
    mechanisms += status["mechanisms"]
    return pid


def become_command(header: dict[str, Any], mechanisms: list[str], writer: int) -> None:
    """Set session, signals and limits, build the last walls, and execute the command. Called in the new process."""
    os.setsid()
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    set_limits(header["limits"])
    environment = dict(header["environment"])
    new_mechanisms = restrict_itself(header, mechanisms, environment)
    open_walls = find_open_walls(header, [*mechanisms, *new_mechanisms])
    refused = [wall for wall in open_walls if wall not in header["allow"]]
    if refused:
        raise WallsOpen(*refused)
    os.write(writer, json.dumps({"mechanisms": new_mechanisms}).encode() + b"\n")
    # The command's descriptors become 3, 4, …. Copy all of them to numbers from 10 on first, so that dup2 overwrites
    # none that is still needed. The copies close at exec.
    channel = [
        fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10) for descriptor in header["channel"]
    ]
    for place, descriptor in enumerate(channel, 3):
        os.dup2(descriptor, place)
    os.execve(header["command"][0], header["command"], environment)


def restrict_itself(
    header: dict[str, Any], mechanisms: list[str], environment: dict[str, str]
) -> list[str]:
    """Apply the mechanisms that need no namespace, Landlock and system call filters. Returns those that worked.

    For a trusted command, the filter of signals goes to `environment` instead (see SIGNAL_FILTER).
    """
    new_mechanisms: list[str] = []
    processor = find_machine()
    if processor is None:
        return new_mechanisms
    has_own_user = header["uid"] is not None
    confines_signals = False
    landlock_version = min(read_landlock_version(), header["landlock"])
    if landlock_version:
        writable = [header["directory"]]
        if "files" in mechanisms:
            writable.append("/dev/shm")
        readable = list(header["read"])
        if "proc" in mechanisms:
            readable.append("/proc")
        confines_signals = restrict_by_landlock(landlock_version, writable, readable)
        new_mechanisms.append("landlock")
    if not header["filter"]:
        return new_mechanisms
    # No filter is needed for a user id of its own: the kernel does not let it reach processes and files of other users.
    if not has_own_user and "pids" not in mechanisms:
        signal_filter = build_signal_filter(processor)
        if confines_signals:
            new_mechanisms.append("signals")
        elif header["trusted"]:
            environment[SIGNAL_FILTER] = signal_filter.hex()
            new_mechanisms.append("signals")
        elif install(signal_filter):
            new_mechanisms.append("signals")
    if not has_own_user and not {"pids", "files"} <= set(mechanisms):
        content_is_safe = landlock_version >= FIRST_WITH_TRUNCATION
        install(build_own_user_filter(processor, protect_content=not content_is_safe))
    if install(build_main_filter(processor)):
        new_mechanisms.append("calls")
    return new_mechanisms


def find_open_walls(header: dict[str, Any], mechanisms: list[str]) -> list[str]:
    """Return the walls that no mechanism provides."""
    has_own_user = header["uid"] is not None
    closed = {
        "network": "network" in mechanisms or "calls" in mechanisms,
        "signals": has_own_user or "pids" in mechanisms or "signals" in mechanisms,
        "memory": has_own_user or "proc" in mechanisms or "landlock" in mechanisms,
        "files": has_own_user or "files" in mechanisms or "landlock" in mechanisms,
    }
    return [wall for wall in WALLS if not closed[wall]]


# --- the run ------------------------------------------------------------------------------------------------------


def count_other_processes(mechanisms: list[str]) -> int:
    """Count the processes and threads that count towards the same limit on processes as the command.

    The kernel counts all processes of a user. From Linux 5.14 on, it counts each user namespace for itself.
    """
    first_parts = platform.release().replace("-", ".").split(".")[:2]  # "6.1.0-18-amd64" → 6, 1
    kernel = tuple(int(part) for part in first_parts if part.isdigit())
    if sys.platform != "linux" or ("user" in mechanisms and kernel >= (5, 14)):
        return 0
    count = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{name}").st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{name}/task"))
    return count


def wait_for_command(pid: int, seconds: float) -> dict[str, Any]:
    """Wait until the command ends, the time is up, or we are told to stop. Reaps orphans meanwhile."""
    deadline = time.monotonic() + seconds
    while True:
        while True:
            ended_pid, status = os.waitpid(-1, os.WNOHANG)
            if ended_pid == 0:
                break
            if ended_pid == pid:
                code = os.waitstatus_to_exitcode(status)
                return {"ended": "exit" if code >= 0 else "signal", "code": code}
        time_left = deadline - time.monotonic()
        if time_left <= 0:
            return {"ended": "timeout", "code": None}
        event = signal.sigtimedwait([signal.SIGCHLD, signal.SIGTERM], time_left)
        if event is not None and event.si_signo == signal.SIGTERM:
            return {"ended": "stopped", "code": None}


def find_descendants() -> set[int]:
    """Return all living processes below this one. Orphans are among them, because this process is a subreaper."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with (
            contextlib.suppress(OSError, ValueError, IndexError),
            open(f"/proc/{name}/stat") as file,
        ):
            state, parent = file.read().rpartition(")")[2].split()[:2]
            if state not in "ZX":  # zombie, dead
                children.setdefault(int(parent), []).append(int(name))
    descendants: set[int] = set()
    to_visit = [os.getpid()]
    while to_visit:
        pids = children.get(to_visit.pop(), [])
        to_visit += pids
        descendants.update(pids)
    return descendants


def kill_descendants(mechanisms: list[str]) -> None:
    """Kill every process that the command left. In a PID namespace the kernel does that when we end.

    All processes are stopped before any is killed: a fork bomb would replace processes that are killed one by one, but
    stopped processes cannot fork.
    """
    if "pids" in mechanisms:
        return
    for _ in range(50):  # a limit, because a process that hangs in the kernel may never end
        stopped: set[int] = set()
        while running := find_descendants() - stopped:
            send_signal(running, signal.SIGSTOP)
            stopped |= running
        send_signal(stopped, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:  # no child is left, neither running nor waiting to be reaped
            return
        time.sleep(0.005)  # the children of killed processes become ours


def send_signal(pids: set[int], number: int) -> None:
    """Send a signal to each process that still exists."""
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def run_init(header: dict[str, Any], mechanisms: list[str]) -> None:
    """Finish the walls, give up privileges, run the command, and report."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD, signal.SIGTERM])
    if header["uid"] is None:
        header["limits"]["NPROC"] += count_other_processes(mechanisms)
        if "user" in mechanisms:
            header["limits"]["NPROC"] += 1  # the launcher counts, too
    # Mounts need namespaces, which are the only mechanisms so far. Bubblewrap has built the view already.
    has_namespaces = bool(mechanisms)
    if has_namespaces and "files" not in mechanisms:
        try:
            mechanisms += build_view(header)
        except OSError as error:
            # Not a mechanism, but the report has no other place to say why "files" is missing.
            mechanisms.append(f"no view of the files ({error})")
    if "root" in mechanisms and header["uid"] is not None:
        become_user(header["uid"])
    if sys.platform == "linux":
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        drop_everything()
        end_with_parent("pids" in mechanisms, header)  # only now: a change of user resets it
    write_files(header["directory"], header["files"])
    pid = start_command(header, mechanisms)
    for descriptor in header["channel"]:
        os.close(descriptor)
    outcome = wait_for_command(pid, header["seconds"])
    kill_descendants(mechanisms)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    send_report(header, {**outcome, "walls": mechanisms, "cpu": used.ru_utime + used.ru_stime})


def end_with_parent(in_namespace: bool, header: dict[str, Any]) -> None:
    """Ask the kernel to end this process when its parent ends, so that a run never outlives its caller."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL if in_namespace else signal.SIGTERM)
    if not in_namespace and os.getppid() != header["caller"]:  # the caller ended before the request
        os._exit(0)


def send_report(header: dict[str, Any], outcome: dict[str, Any]) -> None:
    """Send one JSON object to the caller."""
    os.write(header["report"], json.dumps(outcome).encode())


def main() -> None:
    """Read the header, enter namespaces, and be init or start it."""
    header = json.loads(sys.stdin.buffer.read())
    os.dup2(header["stdin"], 0)  # from here on, standard input is that of the command
    os.close(header["stdin"])
    for descriptor in (header["report"], *header["channel"]):
        os.set_inheritable(descriptor, False)
    try:
        mechanisms = enter_namespaces(header)
        if "pids" not in mechanisms or "bubblewrap" in mechanisms:
            run_init(header, mechanisms)
            os._exit(0)
        # Only a child is inside the new PID namespace.
        pid = os.fork()
        if pid == 0:
            run_init(header, mechanisms)
            os._exit(0)
        # If we are told to stop, kill init. The kernel then kills the rest of the namespace before waitpid returns.
        signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGKILL))
        end_with_parent(False, header)
        for descriptor in header["channel"]:
            os.close(descriptor)
        os.waitpid(pid, 0)
    except WallsOpen as error:
        send_report(header, {"open": error.args})
    except BaseException as error:
        is_expected = isinstance(error, (ChildProcessError, FileExistsError))
        message = str(error) if is_expected else f"{type(error).__name__}: {error}"
        send_report(header, {"error": message, "files": isinstance(error, FileExistsError)})
    os._exit(0)
