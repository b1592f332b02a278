"""Code that wants out of the sandbox: how much of it gets out, by the walls that a machine offers?

    python benchmarks/sandbox_escapes.py         # half a minute; as root or as an ordinary user

A witness stands outside: a process with a secret in its variables and memory, and a file beside it. Each attack runs
inside the sandbox and says what it reached. Walls are taken away one after the other (`RUBRANK_SANDBOX_WITHOUT`), as
containers and old kernels do; where too few are left, running is refused, and nothing gets out either.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SECRET = "s3cret-of-the-witness"
MACHINES = {
    "as it is": "",
    "no namespaces": "namespaces,bubblewrap",
    "no namespaces, kernel before 6.12": "namespaces,bubblewrap,scopes",
    "no namespaces, no Landlock": "namespaces,bubblewrap,landlock",
    "nothing": "namespaces,bubblewrap,landlock,filter",
}
_LIBC = "import ctypes; c = ctypes.CDLL(None, use_errno=True)\n"

ATTACKS: dict[str, str] = {
    "signal 0": "os.kill(PID, 0); out()",
    "signal to the witness": "os.kill(PID, 18); out()",
    "signal to everybody": "os.kill(-1, 0); r = True\ntry: os.kill(PID, 0); out()\nexcept OSError: pass",
    "signal to its group": "os.killpg(os.getpgid(PID), 0); out()",
    "pidfd": "f = os.pidfd_open(PID); signal.pidfd_send_signal(f, 0); out()",
    "rt_sigqueueinfo": _LIBC + "if c.syscall(129, PID, 0, ctypes.create_string_buffer(128)) == 0: out()",
    "tgkill": _LIBC + "if c.syscall(234, PID, PID, 0) == 0: out()",
    "tkill": _LIBC + "if c.syscall(200, PID, 0) == 0: out()",
    "asynchronous owner": "r, w = os.pipe(); fcntl.fcntl(r, fcntl.F_SETOWN, PID); fcntl.fcntl(r, 10, signal.SIGKILL); fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK); os.write(w, b'x')",
    "asynchronous owner by ioctl": "import array; r, w = os.pipe(); fcntl.ioctl(r, 0x8901, array.array('i', [PID])); fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC); os.write(w, b'x')",
    "limits": "import resource; resource.prlimit(PID, resource.RLIMIT_CPU, (9999, 9999)); out()",
    "priority": "os.setpriority(os.PRIO_PROCESS, PID, 19); out()",
    "affinity": "os.sched_setaffinity(PID, {0}); out()",
    "scheduler": "os.sched_setscheduler(PID, os.SCHED_IDLE, os.sched_param(0)); out()",
    "variables": "if SECRET in open(f'/proc/{PID}/environ').read(): out()",
    "variables of anybody": "for p in glob.glob('/proc/[0-9]*/environ'):\n    try:\n        if SECRET in open(p).read(): out()\n    except OSError: pass",
    "command line": "if SECRET in open(f'/proc/{PID}/cmdline').read(): out()",
    "memory": "open(f'/proc/{PID}/mem', 'rb'); out()",
    "memory, writing": "open(f'/proc/{PID}/mem', 'r+b'); out()",
    "maps": "if open(f'/proc/{PID}/maps').read(): out()",
    "descriptors": "if os.listdir(f'/proc/{PID}/fd'): out()",
    "root by /proc": "if SECRET in open(f'/proc/{PID}/root{FILE}').read(): out()",
    "folder by /proc": "if os.listdir(f'/proc/{PID}/cwd'): out()",
    "ptrace": _LIBC + "if c.ptrace(16, PID, 0, 0) == 0: out()",
    "process_vm_readv": _LIBC
    + "b = ctypes.create_string_buffer(16); v = (ctypes.c_size_t * 2)(ctypes.addressof(b), 16)\nif c.process_vm_readv(PID, v, 1, v, 1, 0) > 0 or ctypes.get_errno() == 14: out()",
    "file read": "if SECRET in open(FILE).read(): out()",
    "file written": "open(FILE, 'r+').close(); out()",
    "file added to": "open(FILE, 'a').close(); out()",
    "file truncated": "os.truncate(FILE, 1000); out()",
    "file removed": "os.unlink(FILE + '2'); out()",
    "file renamed": "os.rename(FILE, FILE + '3'); out()",
    "file linked": "os.link(FILE, 'mine'); out() if SECRET in open('mine').read() else None",
    "file through a symbolic link": "os.symlink(FILE, 'l'); out() if SECRET in open('l').read() else None",
    "mode": "os.chmod(FILE, 0o644); os.chmod(FILE, 0o600); out() if MODE != os.stat(FILE).st_mode else None",
    "times": "os.utime(FILE, (1, 1)); out() if os.stat(FILE).st_mtime == 1 else None",
    "file beside it": "open(os.path.dirname(FILE) + '/new', 'w'); out()",
    "folder listed": "if os.listdir(os.path.dirname(FILE)): out()",
    "temporary folder": "n = tempfile.gettempdir(); open('/tmp/rubrank_escape', 'w').close(); out()",
    "shared memory": "open('/dev/shm/rubrank_escape', 'w').close(); out() if 'files' not in WALLS and not os.path.ismount('/dev/shm') else None",
    "system file": "open('/etc/rubrank_escape', 'w'); out()",
    "home": "if os.listdir(os.path.expanduser('~root')) and SECRET in open(os.path.expanduser('~root') + '/.x').read(): out()",
    "TCP": "socket.create_connection(('127.0.0.1', PORT), 1); out()",
    "UDP": "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'x', ('127.0.0.1', PORT)); out()",
    "IPv6": "s = socket.socket(socket.AF_INET6); out()",
    "Unix socket": "s = socket.socket(socket.AF_UNIX); out()",
    "abstract socket": "s = socket.socket(socket.AF_UNIX); s.bind('\\0rubrank'); out()",
    "netlink": "s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW); out()",
    "raw socket": "s = socket.socket(socket.AF_INET, socket.SOCK_RAW, 1); out()",
    "io_uring": _LIBC + "if c.syscall(425, 8, ctypes.create_string_buffer(256)) >= 0: out()",
    "new user namespace": _LIBC + "if c.unshare(0x10000000) == 0: out()",
    "new namespace by clone": _LIBC + "if c.syscall(56, 0x10000000 | 17, 0, 0, 0, 0) > 0: out()",
    "mount": _LIBC + "if c.mount(b'none', b'/', b'tmpfs', 0, b'') == 0: out()",
    "user changed": "os.setuid(0); out()",
    "groups changed": "os.setgroups([0]); out()",
    "set-uid program": "r = subprocess.run(['/bin/su', '-c', 'true'], capture_output=True, stdin=subprocess.DEVNULL); out() if r.returncode == 0 else None",
    "capabilities": "s = open('/proc/self/status').read(); out() if int(s.split('CapEff:')[1].split()[0], 16) else None",
    "BPF": _LIBC + "if c.syscall(321, 0, ctypes.create_string_buffer(128), 128) >= 0: out()",
    "performance counters": _LIBC + "if c.syscall(298, ctypes.create_string_buffer(128), 0, -1, -1, 0) >= 0: out()",
    "keys": _LIBC + "if c.syscall(250, 0, -3, 1) >= 0: out()",
    "System V memory": _LIBC + "i = c.shmget(KEY, 0, 0)\nif i >= 0: out()",
    "message queue": _LIBC
    + "m = ctypes.CDLL('librt.so.1'); q = m.mq_open(b'/rubrank', 0o102, 0o600, None)\nif q >= 0 and 'pids' not in WALLS: out()",
    "core dump": "import resource; out() if resource.getrlimit(resource.RLIMIT_CORE)[0] else None",
    "kernel log": "open('/dev/kmsg').read(1); out()",
    "disk": "open('/dev/vda', 'rb').read(1); out()",
    "terminal": "open('/dev/tty', 'w'); out()",
    "parent's descriptors": "for d in os.listdir(f'/proc/{os.getppid()}/fd'): out()",
    "variables of the caller": "if any(SECRET in v for v in os.environ.values()): out()",
}
_PRELUDE = """import fcntl, glob, json, os, signal, socket, subprocess, sys, tempfile
asked = json.loads(sys.stdin.read())
PID, FILE, SECRET, PORT, MODE, KEY, WALLS = (asked[n] for n in ("pid", "file", "secret", "port", "mode", "key", "walls"))
def out(): print("OUT", flush=True); os._exit(0)
try:
"""


@dataclass(frozen=True)
class Witness:
    """What stands outside."""

    pid: int
    file: Path
    port: int


@contextmanager
def witness() -> Iterator[Witness]:
    """A process and a file of our own."""
    import socket

    code = "import sys, time; secret = sys.argv[1]; print(flush=True); time.sleep(3600)"
    with tempfile.TemporaryDirectory(prefix="witness-") as folder, socket.create_server(("127.0.0.1", 0)) as server:
        file = Path(folder) / "file"
        file.write_text(SECRET)
        file.chmod(0o600)
        Path(f"{file}2").write_text(SECRET)
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", code, SECRET],
            env={"SECRET": SECRET},
            cwd=folder,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdout is not None
        try:
            process.stdout.readline()
            yield Witness(process.pid, file, server.getsockname()[1])
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def escapes(name: str, there: Witness) -> bool | None:
    """Did the attack reach what it wanted? None: code is refused on this machine."""
    from rubrank.verifiers.shared.sandbox import Limits, NoIsolation, run

    asked = {
        "pid": there.pid,
        "file": str(there.file),
        "secret": SECRET,
        "port": there.port,
        "mode": there.file.stat().st_mode,
        "key": 0x5EC2E7,
        "walls": [],
    }
    body = "".join(f"    {line}\n" for line in ATTACKS[name].split("\n"))
    code = f"{_PRELUDE}{body}except Exception as error: print(type(error).__name__, error)\n"
    program = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else "python"
    try:
        result = run([program, "-I", "-S", "-c", code], stdin=json.dumps(asked).encode(), limits=Limits(seconds=5))
    except NoIsolation:
        return None
    return b"OUT" in result.stdout or not alive(there.pid)


def attacked() -> dict[str, bool | None]:
    """Every attack in turn, up to one that is refused; a witness that was reached may be hurt, and another comes."""
    found: dict[str, bool | None] = {}
    left = list(ATTACKS)
    while left and None not in found.values():
        with witness() as there:
            while left:
                name = left.pop(0)
                found[name] = escapes(name, there)
                if found[name] is not False:
                    break
    return found


def alive(pid: int) -> bool:
    """Is the witness still there, and not stopped?"""
    time.sleep(0.01)
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in ("S", "R", "D")
    return False


def main() -> None:
    """The figures of docs/reliability.md."""
    user = "root" if os.geteuid() == 0 else "an ordinary user"
    for machine, without in MACHINES.items():
        os.environ["RUBRANK_SANDBOX_WITHOUT"] = without
        found = attacked()
        if None in found.values():
            print(f"{user}, {machine}: refused")
            continue
        out = [name for name, escaped in found.items() if escaped]
        print(f"{user}, {machine}: {len(out)} of {len(ATTACKS)} get out{': ' if out else ''}{', '.join(out)}")


if __name__ == "__main__":
    main()
