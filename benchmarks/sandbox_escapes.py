"""Code that wants out of the sandbox: how much of it gets out, by the walls that a machine offers?

    python benchmarks/sandbox_escapes.py         # two minutes; as root or as an ordinary user

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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SECRET = "s3cret-of-the-witness"
MACHINES = {
    "as it is": "",
    "namespaces by bubblewrap": "namespaces",
    "no namespaces": "namespaces,bubblewrap",
    "no namespaces, kernel before 6.12": "namespaces,bubblewrap,scopes",
    "no namespaces, kernel before 6.2": "namespaces,bubblewrap,truncate",
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
    "asynchronous owner, extended": "import struct; r, w = os.pipe(); fcntl.fcntl(r, 15, struct.pack('ii', 1, PID)); fcntl.fcntl(r, 10, signal.SIGKILL); out()",
    "asynchronous owner from a thread": "import threading\ndef f():\n    r, w = os.pipe(); fcntl.fcntl(r, 10, signal.SIGKILL); fcntl.fcntl(r, fcntl.F_SETOWN, PID); fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK); os.write(w, b'x')\nt = threading.Thread(target=f); t.start(); t.join()",
    "owner of a lease": "open('l', 'w').close(); d = os.open('l', os.O_RDONLY); fcntl.fcntl(d, 10, signal.SIGKILL); fcntl.fcntl(d, 1024, fcntl.F_RDLCK); fcntl.fcntl(d, fcntl.F_SETOWN, PID); out()",
    "owner": "os.chown(FILE, os.getuid(), os.getgid()); b = os.stat(FILE).st_ctime_ns; out() if b != CHANGED else None",
    "owner of a link": "os.lchown(FILE, os.getuid(), os.getgid()); out() if os.stat(FILE).st_ctime_ns != CHANGED else None",
    "mode by another call": _LIBC
    + "c.syscall(452, -100, FILE.encode(), 0o644, 0); out() if os.stat(FILE).st_mode != MODE else None",
    "mode of the folder": "d = os.path.dirname(FILE); b = os.stat(d).st_ctime_ns; os.chmod(d, 0o700); out() if os.stat(d).st_ctime_ns != b else None",
    "times by a descriptor": "d = os.open(FILE, os.O_PATH); os.utime(f'/proc/self/fd/{d}', (1, 1)); out() if os.stat(FILE).st_mtime == 1 else None",
    "attributes": "os.setxattr(FILE, 'user.x', b'x'); out() if os.stat(FILE).st_ctime_ns != CHANGED else None",
    "attributes by another call": _LIBC
    + "import struct; v = ctypes.create_string_buffer(b'x', 1); a = struct.pack('=QII', ctypes.addressof(v), 1, 0); c.syscall(463, -100, FILE.encode(), 0, b'user.y', a, 16); out() if os.stat(FILE).st_ctime_ns != CHANGED else None",
    "flags by file_setattr": _LIBC
    + "r = c.syscall(469, -100, FILE.encode(), bytes(24), 24, 0); out() if r == 0 or os.stat(FILE).st_ctime_ns != CHANGED else None",
    "flags of our own packages": "import glob as g\nfor p in KEPT:\n    try: d = os.open(p, os.O_RDONLY)\n    except OSError: continue\n    b = fcntl.ioctl(d, 0x80086601, bytes(8)); fcntl.ioctl(d, 0x40086602, bytes([b[0] | 0x40]) + b[1:]); out()",
    # Access mode 3 is neither reading nor writing, and still truncates.
    "file truncated by reading": "for access in (os.O_RDONLY, 3):\n    try: os.open(FILE, access | os.O_TRUNC); out()\n    except OSError: pass",
    "file truncated by openat2": _LIBC
    + "import struct; r = c.syscall(437, -100, FILE.encode(), struct.pack('=QQQ', os.O_RDONLY | os.O_TRUNC, 0, 0), 24); out() if r >= 0 else None",
    "our own packages truncated": "for p in KEPT:\n    for access in (os.O_RDONLY, 3):\n        try: os.close(os.open(p, access | os.O_TRUNC))\n        except OSError: pass\n    try: os.truncate(p, 3)\n    except OSError: pass\n    if os.stat(p).st_size != 5: out()",
    "folder watched": _LIBC
    + "i = c.inotify_init(); r = c.inotify_add_watch(i, os.path.dirname(FILE).encode(), 0xfff); out() if i >= 0 and r >= 0 else None",
    "list of Unix sockets": "if SOCKET in open('/proc/net/unix').read(): out()",
    "list of Unix sockets of itself": "if SOCKET in open('/proc/self/net/unix').read(): out()",
    "list of Unix sockets of a thread": "if SOCKET in open('/proc/thread-self/net/unix').read(): out()",
    "list of connections": "if f':{PORT:04X} ' in open('/proc/self/net/tcp').read(): out()",
    "mounts": "if '/dev/pts ' in open('/proc/self/mountinfo').read(): out()",
    "mounts by listmount": _LIBC
    + "import struct; b = ctypes.create_string_buffer(800); r = c.syscall(458, struct.pack('=IIQQ', 24, 0, 0xffffffffffffffff, 0), b, 100, 0); out() if r > 30 else None",
    "kernel log by syslog": _LIBC
    + "b = ctypes.create_string_buffer(4096); r = c.syscall(103, 3, b, 4096); out() if r > 0 else None",
    "secret memory": _LIBC + "r = c.syscall(447, 0); out() if r >= 0 else None",
    "files in memory": _LIBC + "r = c.syscall(319, b'x', 0); out() if r >= 0 else None",
    "shared memory beyond the limit": _LIBC + "r = c.syscall(29, 0, 1 << 30, 0o1600); out() if r >= 0 else None",
    "mount tree with attributes": _LIBC + "r = c.syscall(467, -100, b'/', 1, 0, 0); out() if r >= 0 else None",
    "file handle": _LIBC
    + "import struct; h = ctypes.create_string_buffer(struct.pack('=Ii', 128, 0), 136); m = ctypes.c_int(); r = c.syscall(303, -100, FILE.encode(), h, ctypes.byref(m), 0); out() if r == 0 else None",
    "disk quota": _LIBC
    + "r = c.syscall(443, os.open('/usr', os.O_RDONLY), 0x80000700, os.getuid(), ctypes.create_string_buffer(256)); out() if r == 0 else None",
    "users of the machine": "if 'root:' in open('/etc/passwd').read(): out()",
    "name servers": "if open('/etc/resolv.conf').read(): out()",
    "hosts": "if open('/etc/hosts').read(): out()",
    "machine id": "if open('/etc/machine-id').read(): out()",
    "log files": "if os.listdir('/var/log'): out()",
    "temporary files of others": "if os.listdir('/tmp') != [os.path.basename(os.getcwd())]: out()",
    "boot parameters": "if open('/proc/cmdline').read() and 'proc' not in WALLS: out()",
    "process list": "if [p for p in os.listdir('/proc') if p == str(PID)]: out()",
}
_PRELUDE = """import fcntl, glob, json, os, signal, socket, subprocess, sys, tempfile
globals().update(json.loads(sys.stdin.read()))
def out(): print("OUT", flush=True); os._exit(0)
try:
"""


@dataclass(frozen=True)
class Witness:
    """What stands outside."""

    pid: int
    file: Path
    kept: Path
    """A file in a folder that code may read, as that of our packages."""
    port: int
    socket: str
    """The path of a Unix socket."""


@contextmanager
def witness() -> Iterator[Witness]:
    """A process and a file of our own."""
    import socket

    code = "import sys, time; secret = sys.argv[1]; print(flush=True); time.sleep(3600)"
    with (
        tempfile.TemporaryDirectory(prefix="witness-") as folder,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as unix,
    ):
        path = f"{folder}/socket"
        unix.bind(path)
        unix.listen()
        kept = Path(folder) / "kept" / "package.py"
        kept.parent.mkdir()
        kept.write_text("x = 1")
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
            yield Witness(process.pid, file, kept, server.getsockname()[1], path)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def escapes(name: str, there: Witness, nested: bool = False) -> bool | None:
    """Did the attack reach what it wanted? None: code is refused on this machine.

    nested: the attack is a program that `TestsPass` runs, in a child of our own process in the sandbox.
    """
    from rubrank.verifiers.shared.sandbox import Limits, NoIsolation, SandboxFailed, make_command, run

    status = there.file.stat()
    facts = {
        "PID": there.pid,
        "FILE": str(there.file),
        "SECRET": SECRET,
        "PORT": there.port,
        "SOCKET": there.socket,
        "MODE": status.st_mode,
        "CHANGED": status.st_ctime_ns,
        "KEPT": [str(there.kept)],
        "KEY": 0x5EC2E7,
        "WALLS": [],
    }
    body = "".join(f"    {line}\n" for line in ATTACKS[name].split("\n"))
    code = f"{_PRELUDE}{body}except Exception as error: print(type(error).__name__, error)\n"
    stdin = json.dumps(facts)
    if nested:
        command = make_command("rubrank.verifiers.code.runner")
        request = {"compile": [], "run": [sys.executable, "-E", "-s", "-c", code], "inputs": [stdin], "seconds": 5}
        stdin = json.dumps(request)
    else:
        program = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else "python"
        command = [program, "-I", "-S", "-c", code]
    folders = [str(there.kept.parent)]
    try:
        result = run(command, stdin=stdin.encode(), limits=Limits(seconds=5), keep=folders, trusted=nested)
    except NoIsolation:
        return None
    except SandboxFailed:  # our own interpreter lies in a home, where another user cannot start it
        if nested:
            return None
        raise
    return b"OUT" in result.stdout or not alive(there.pid)


def attack(nested: bool = False, names: Sequence[str] = tuple(ATTACKS)) -> dict[str, bool | None]:
    """The attacks in turn, up to one that is refused; a witness that was reached may be hurt, and another comes."""
    outcomes: dict[str, bool | None] = {}
    left = list(names)
    while left and None not in outcomes.values():
        with witness() as witnessed:
            while left:
                name = left.pop(0)
                outcomes[name] = escapes(name, witnessed, nested)
                if outcomes[name] is not False:
                    break
    return outcomes


def alive(pid: int) -> bool:
    """Is the witness still there, and not stopped?"""
    time.sleep(0.01)
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in ("S", "R", "D")
    return False


def main() -> None:
    """The figures of docs/reliability.md.

    `--sample`: on each machine every second attack, directly or from a child process in turn, not both ways.
    """
    is_sample = "--sample" in sys.argv[1:]
    user = "root" if os.geteuid() == 0 else "an ordinary user"
    for number, (machine, without) in enumerate(MACHINES.items()):
        if user == "root" and without == "namespaces":
            continue  # bubblewrap is used for ordinary users only
        os.environ["RUBRANK_SANDBOX_WITHOUT"] = without
        escaped = []
        tried = 0
        names = list(ATTACKS)[number % 2 :: 2] if is_sample else list(ATTACKS)
        for nested in (number // 2 % 2 == 1,) if is_sample else (False, True):
            outcomes = attack(nested, names)
            if None in outcomes.values():
                break
            tried += len(outcomes)
            escaped += [f"{name} (nested)" if nested else name for name, reached in outcomes.items() if reached]
        if not tried:
            print(f"{user}, {machine}: refused")
            continue
        print(f"{user}, {machine}: {len(escaped)} of {tried} get out{': ' if escaped else ''}{', '.join(escaped)}")


if __name__ == "__main__":
    main()
