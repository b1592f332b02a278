"""The inner half of `sandbox`: started as a program of its own, it builds the walls and then runs the command.

    launcher (this file) ── unshare ──> init (process 1 of a new PID namespace) ──> the command
                                        waits, keeps the time, reports; its end kills whatever is left

It imports the standard library only and nothing of rubrank, so that it starts in a few hundredths of a second. Standard
input begins with one line, the length of a JSON header; the header follows; all after it belongs to the command. What
happened goes, as JSON, to the file descriptor that the header names: the command never sees that descriptor.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import resource
import signal
import struct
import sys
import time
from typing import Any

NEWNS, NEWUTS, NEWIPC = 0x00020000, 0x04000000, 0x08000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
NEW_ANY = NEWNS | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET | 0x02000000 | 0x00000080  # and cgroup, time
WALLS = NEWNS | NEWUTS | NEWIPC | NEWPID | NEWNET
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 4096, 16384, 1 << 18
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_SUBREAPER = (
    1,
    4,
    22,
    24,
    38,
    36,
)
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
EPERM, ENOSYS = 1, 38
_FILTERED = b"\x01"

# What untrusted code has no business with: system calls by machine. Those after 424 have one number everywhere.
_SHARED = (425, 426, 427, 428, 429, 430, 431, 432, 433, 438, 442)  # io_uring, the new mount calls, pidfd_getfd
_MACHINES: dict[str, dict[str, Any]] = {
    "x86_64": {
        "arch": 0xC000003E, "clone": 56, "socketpair": 53, "mount_setattr": 442, "capset": 126,
        "deny": (41, 42, 101, 310, 311, 165, 166, 272, 308, 155, 161, 250, 248, 249, 321, 298, 323, 304, 175, 313, 246),
    },
    "aarch64": {
        "arch": 0xC00000B7, "clone": 220, "socketpair": 199, "mount_setattr": 442, "capset": 91,
        "deny": (198, 203, 117, 270, 271, 40, 39, 97, 268, 41, 51, 219, 217, 218, 280, 241, 282, 265, 105, 273, 104),
    },
}  # fmt: skip

_libc = ctypes.CDLL(None, use_errno=True)


def _call(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def _prctl(option: int, value: int) -> None:
    _call(_libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0), f"prctl {option}")


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    arguments = (source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode())
    _call(_libc.mount(*arguments), f"mount {target}")


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


# --- namespaces ---------------------------------------------------------------------------------------------------


def become(uid: int) -> None:
    """Give up root for a user that owns nothing."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    if sys.platform == "linux":
        _prctl(PR_SET_DUMPABLE, 1)  # or /proc/self would belong to root, and the user map could not be written


def enter_namespaces(header: dict[str, Any]) -> list[str]:
    """New namespaces by the privilege at hand; what was achieved: nothing, or "root" or "user", "network", "pids"."""
    uid, which = header["uid"], header["namespaces"]
    if uid is not None:
        os.chown(header["directory"], uid, uid)
        if which == "best" and sys.platform == "linux" and _libc.unshare(WALLS) == 0:
            return ["root", "network", "pids"]
        become(uid)
    if which == "none" or sys.platform != "linux":
        return []
    identity = os.getuid(), os.getgid()
    if _libc.unshare(NEWUSER | WALLS) != 0:
        return []
    users, groups = (f"{number} {number} 1" for number in identity)
    for name, text in (("setgroups", "deny"), ("uid_map", users), ("gid_map", groups)):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    return ["user", "network", "pids"]


# --- files --------------------------------------------------------------------------------------------------------


def build_view(header: dict[str, Any]) -> None:
    """Homes hidden, everything else read-only, the working directory a small file system in memory."""
    with contextlib.suppress(OSError):
        _mount("none", "/", "", MS_REC | MS_PRIVATE)
    kept = [(path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in header["keep"] if os.path.isdir(path)]
    covers = [path for path in header["hide"] if os.path.isdir(path)]
    for cover in covers:
        _mount("tmpfs", cover, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=0755")
    for path, descriptor in kept:
        if any(path == cover or path.startswith(cover + "/") for cover in covers):
            os.makedirs(path, exist_ok=True)
            _mount(f"/proc/self/fd/{descriptor}", path, "", MS_BIND | MS_REC)
        os.close(descriptor)
    os.makedirs(header["directory"], exist_ok=True)  # it may lie in a home that is hidden now
    make_read_only()
    options = f"size={header['disk']},nr_inodes=20000,mode=0700,uid={header['owner']},gid={header['group']}"
    for path in (header["directory"], "/dev/shm"):
        if os.path.isdir(path):
            _mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, options)
    with contextlib.suppress(OSError):  # refused where the outer /proc is masked; then the outer one stays, read-only
        _mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)


def make_read_only() -> None:
    """Every mount there is, at one stroke (Linux 5.12)."""
    attributes = struct.pack("=QQQQ", MS_RDONLY, 0, 0, 0)
    number = _MACHINES[platform.machine()]["mount_setattr"]
    result = _libc.syscall(number, AT_FDCWD, b"/", ctypes.c_uint(AT_RECURSIVE), attributes, ctypes.c_size_t(32))
    _call(result, "mount_setattr")


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


# --- privileges, limits, system calls -----------------------------------------------------------------------------


def drop_everything() -> None:
    """No capability is left, none can come back, and nobody may look into this process."""
    for capability in range(64):
        if _libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) != 0:
            break
    machine = _MACHINES.get(platform.machine())
    if machine is not None:
        _libc.syscall(machine["capset"], struct.pack("=Ii", 0x20080522, 0), bytes(24))
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    _prctl(PR_SET_DUMPABLE, 0)


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


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


def seccomp_program(machine: dict[str, Any]) -> bytes:
    """The filter: no sockets but stream pairs, no namespaces, no mounts, no tracing, no io_uring."""
    load, equal, at_least, any_bit, mask, give = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
    allow, refuse = _step(give, 0x7FFF0000), _step(give, 0x00050000 | EPERM)
    steps = [_step(load, 4), _step(equal, machine["arch"], 1, 0), _step(give, 0x80000000), _step(load, 0)]
    if machine["arch"] == 0xC000003E:
        steps += [_step(at_least, 0x40000000, 0, 1), refuse]  # the x32 numbers would go round the list
    for number in (*machine["deny"], *_SHARED):
        steps += [_step(equal, number, 0, 1), refuse]
    steps += [_step(equal, 435, 0, 1), _step(give, 0x00050000 | ENOSYS)]  # clone3: the C library falls back to clone
    steps += [
        _step(equal, machine["clone"], 0, 4),
        _step(load, 16),
        _step(any_bit, NEW_ANY & ~0xFF, 0, 1),
        refuse,
        allow,
    ]
    steps += [_step(equal, machine["socketpair"], 0, 7), _step(load, 16), _step(equal, 1, 0, 4)]
    steps += [_step(load, 24), _step(mask, 0xF), _step(equal, 1, 0, 1), allow, refuse]
    return b"".join([*steps, allow])


def filter_calls() -> bool:
    """Install the filter; False on a machine whose numbers are not listed here, or a kernel without filters."""
    machine = _MACHINES.get(platform.machine()) if sys.platform == "linux" else None
    if machine is None:
        return False
    code = ctypes.create_string_buffer(seccomp_program(machine))
    program = ctypes.create_string_buffer(struct.pack("@HP", (len(code) - 1) // 8, ctypes.addressof(code)))
    return _libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(2), program, 0, 0) == 0


# --- running ------------------------------------------------------------------------------------------------------


def start(header: dict[str, Any], walls: list[str]) -> int:
    """Fork the command into a session of its own; its process id. What stops it before it runs is raised here."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            become_command(header, walls, writer)
        except BaseException as error:  # this process must never run on as a second init
            os.write(writer, f"{header['command'][0]}: {error}".encode())
        os._exit(126)
    os.close(writer)
    with open(reader, "rb") as file:  # ends at exec: the writer is closed by it
        said = file.read()
    if said.startswith(_FILTERED):
        walls.append("calls")
    if trouble := said.removeprefix(_FILTERED):
        raise ChildProcessError(trouble.decode())
    return pid


def become_command(header: dict[str, Any], walls: list[str], writer: int) -> None:
    """In the new process: session, signals, limits, filter, exec."""
    os.setsid()
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    set_limits(header["limits"])
    if filter_calls():
        os.write(writer, _FILTERED)
    elif "network" not in walls and not header["allow_network"]:
        raise PermissionError("no network isolation here")
    os.execve(header["command"][0], header["command"], header["environment"])


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
    if walls:
        try:
            build_view(header)
            walls.append("files")
        except OSError as error:
            walls.append(f"files not isolated ({error})")
    if "root" in walls and header["uid"] is not None:
        become(header["uid"])
    if sys.platform == "linux":
        _prctl(PR_SUBREAPER, 1)
        drop_everything()
    if "pids" in walls:
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # after the change of user, which would clear it
    write_files(header["directory"], header["files"])
    pid = start(header, walls)
    outcome = watch(pid, header["seconds"])
    end_all(walls)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    report(header, {**outcome, "walls": walls, "cpu": used.ru_utime + used.ru_stime})


def report(header: dict[str, Any], outcome: dict[str, Any]) -> None:
    """One JSON object to the parent."""
    os.write(header["report"], json.dumps(outcome).encode())


def main() -> None:
    """Read the header, enter the namespaces, be or fork init."""
    header = read_header()
    os.set_inheritable(header["report"], False)
    try:
        walls = enter_namespaces(header)
        if "pids" not in walls:
            return init(header, walls)
        pid = os.fork()
        if pid:  # told to stop: end init, and be gone only when the kernel has ended all the rest
            signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGKILL))
            os.waitpid(pid, 0)
            return None
        init(header, walls)
    except BaseException as error:
        known = isinstance(error, (ChildProcessError, FileExistsError))
        words = str(error) if known else f"{type(error).__name__}: {error}"
        report(header, {"error": words, "files": isinstance(error, FileExistsError)})
    return None


if __name__ == "__main__":
    main()
    os._exit(0)
