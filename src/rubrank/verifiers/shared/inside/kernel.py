"""What Linux offers to confine a process: system calls that Python's standard library lacks, Landlock, namespaces."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import stat
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

# Flags of unshare(2) and clone(2): one per kind of namespace.
NEWNS = 0x00020000
NEWUTS = 0x04000000
NEWIPC = 0x08000000
NEWUSER = 0x10000000
NEWPID = 0x20000000
NEWNET = 0x40000000
_NEWCGROUP = 0x02000000
_NEWTIME = 0x00000080
NEW_ANY = NEWNS | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET | _NEWCGROUP | _NEWTIME
# Options of prctl(2).
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
# The kernel's names of architectures (AUDIT_ARCH_…).
ARCH_X86_64 = 0xC000003E
_ARCH_ARM64 = 0xC00000B7
MOUNT_SETATTR = 442  # a system call with the same number on every architecture

libc = ctypes.CDLL(None, use_errno=True)


# System calls: name, number on x86-64, number on ARM64, which lacks some of the oldest ("-").
_CALLS = """
    socket 41 198, connect 42 203, ptrace 101 117, process_vm_readv 310 270,
    process_vm_writev 311 271, mount 165 40, umount2 166 39, unshare 272 97, setns 308 268,
    pivot_root 155 41, chroot 161 51, keyctl 250 219, add_key 248 217, request_key 249 218,
    bpf 321 280, perf_event_open 298 241, userfaultfd 323 282, name_to_handle_at 303 264,
    open_by_handle_at 304 265, init_module 175 105, finit_module 313 273, kexec_load 246 104,
    syslog 103 116, quotactl 179 60, inotify_init 253 -, inotify_init1 294 26,
    inotify_add_watch 254 27, fanotify_init 300 262, fanotify_mark 301 263, memfd_create 319 279,
    shmget 29 194, shmat 30 196, shmctl 31 195, semget 64 190, semop 65 193, semctl 66 191,
    semtimedop 220 192, msgget 68 186, msgsnd 69 189, msgrcv 70 188, msgctl 71 187, mq_open 240 180,
    mq_unlink 241 181, rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240, ioprio_set 251 30,
    migrate_pages 256 238, move_pages 279 239, kcmp 312 272, chmod 90 -, fchmod 91 52,
    fchmodat 268 53, chown 92 -, fchown 93 55, lchown 94 -, fchownat 260 54, setxattr 188 5,
    lsetxattr 189 6, fsetxattr 190 7, removexattr 197 14, lremovexattr 198 15, fremovexattr 199 16,
    utime 132 -, utimes 235 -, futimesat 261 -, utimensat 280 88, capset 126 91, clone 56 220,
    socketpair 53 199, kill 62 129, tkill 200 130, tgkill 234 131, fcntl 72 25, ioctl 16 29,
    open 2 -, openat 257 56, truncate 76 45, prlimit64 302 261, setpriority 141 140,
    sched_setaffinity 203 122, sched_setscheduler 144 119, sched_setparam 142 118,
    sched_setattr 314 274
"""
# From 424 on, a system call has the same number on every architecture.
_NEW_CALLS = """
    pidfd_send_signal 424, io_uring_setup 425, io_uring_enter 426, io_uring_register 427,
    open_tree 428, move_mount 429, fsopen 430, fsconfig 431, fsmount 432, fspick 433, clone3 435,
    openat2 437, pidfd_getfd 438, process_madvise 440, mount_setattr 442, quotactl_fd 443,
    memfd_secret 447, process_mrelease 448, map_shadow_stack 453, futex_wake 454, futex_wait 455,
    futex_requeue 456, mseal 462
"""


@dataclass(frozen=True)
class Machine:
    """A processor architecture."""

    arch: int
    """The kernel's name for it (AUDIT_ARCH_…), which filters compare."""
    calls: dict[str, int]
    """The numbers of its system calls by name."""

    def find_numbers(self, names: str) -> list[int]:
        """Return the numbers of those system calls, named with spaces between them, that this architecture has."""
        return [self.calls[name] for name in names.split() if name in self.calls]


def _read_calls(column: int) -> dict[str, int]:
    """Return the numbers of system calls in one column of the table."""
    calls = {}
    for row in _CALLS.split(","):
        name, *numbers = row.split()
        if numbers[column] != "-":
            calls[name] = int(numbers[column])
    for row in _NEW_CALLS.split(","):
        name, number = row.split()
        calls[name] = int(number)
    return calls


def find_machine() -> Machine | None:
    """Return the architecture of this machine; None if its system call numbers are not listed here."""
    if sys.platform == "linux" and platform.machine() == "x86_64":
        return Machine(ARCH_X86_64, _read_calls(0))
    if sys.platform == "linux" and platform.machine() == "aarch64":
        return Machine(_ARCH_ARM64, _read_calls(1))
    return None


def check_result(result: int, what: str) -> int:
    """Return the result of a system call; raise OSError if it failed."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def prctl(option: int, value: int) -> None:
    """Change one setting of this process; raise OSError if that fails."""
    check_result(libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0), f"prctl {option}")


def drop_bounding() -> None:
    """Empty the capability bounding set. Needs CAP_SETPCAP, so call it before the change of user."""
    for capability in range(64):
        if libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) != 0:
            break


def drop_everything() -> None:
    """Drop all capabilities for good, and forbid other processes of this user to inspect this one."""
    drop_bounding()
    processor = find_machine()
    if processor is not None:
        version_3 = struct.pack("=Ii", 0x20080522, 0)
        empty_sets = bytes(24)
        # The result does not matter: a system call filter around us may refuse this, but a program that is not started
        # by root gets no capabilities anyway.
        libc.syscall(processor.calls["capset"], version_3, empty_sets)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    prctl(PR_SET_DUMPABLE, 0)


# ---- Landlock --------------------------------------------------------------------------------------------------------
# Landlock (Linux 5.13) restricts which files a process may use and, from Linux 6.12, to whom it may send signals.
#
# It needs no privileges and no namespaces, so it works in containers. It does not protect the modes, owners and times
# of files; a system call filter does that. It does not hide that a file exists.

# Numbers of system calls, the same on all processors
_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_ASK_FOR_VERSION = 1  # a flag of _CREATE_RULESET
_RULE_FOR_PATH = 1  # a type of rule: everything below a path
# Rights to files: bits, of which each version of Landlock knows more
_EXECUTE = 1
_WRITE = 2
_READ = 4
_LIST = 8
_TRUNCATE = 1 << 14
_IOCTL = 1 << 15
_FILE_RIGHTS = _EXECUTE | _WRITE | _READ | _TRUNCATE | _IOCTL  # the others are for folders only
_BIND_AND_CONNECT = 3  # both rights to the network
_SOCKETS_AND_SIGNALS = 3  # both scopes: abstract sockets, and signals to other processes
# The first versions of Landlock that can restrict truncating files, TCP connections, and signals
FIRST_WITH_TRUNCATION = 3
_FIRST_WITH_NETWORK = 4
_FIRST_WITH_SIGNALS = 6
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
# What runtimes read about the machine and about their own process. Not all of /proc/self: its `net`, and that of each
# `task`, lists the sockets of the machine, and `mountinfo` its disks.
_OWN_INFORMATION = "cgroup cmdline comm environ fd limits maps smaps stat statm status"
SYSTEM_INFORMATION = (
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/sys/devices/system/cpu"),
    *(f"/proc/self/{name}" for name in _OWN_INFORMATION.split()),
)


def read_landlock_version() -> int:
    """Return the kernel's version of Landlock; 0 if it has none or it is disabled."""
    return max(
        0, libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(_ASK_FOR_VERSION))
    )


def restrict_by_landlock(version: int, writable: Iterable[str], readable: Iterable[str]) -> bool:
    """Restrict this process to reading `readable` and to full use of `writable`. This cannot be undone.

    `version` is that of the kernel, or a lower one to do without what later versions added. Returns True if signals to
    other processes are refused, too. Raises OSError if the kernel refuses.
    """
    # The ruleset lists rights; what it lists and no rule grants is refused. Version 1 has 13 rights, and versions 2
    # (moving files between folders), 3 (_TRUNCATE) and 5 (_IOCTL) added one each.
    number_of_rights = 13 + (version >= 2) + (version >= 3) + (version >= 5)
    all_rights = (1 << number_of_rights) - 1
    confines_signals = version >= _FIRST_WITH_SIGNALS
    # The kernel accepts only the fields that its version knows: files, network, scopes.
    fields = [all_rights]
    if version >= _FIRST_WITH_NETWORK:
        fields.append(_BIND_AND_CONNECT)
    if confines_signals:
        fields.append(_SOCKETS_AND_SIGNALS)
    data = struct.pack(f"={len(fields)}Q", *fields)
    rules = check_result(
        libc.syscall(_CREATE_RULESET, data, ctypes.c_size_t(len(data)), ctypes.c_uint(0)),
        "landlock",
    )
    for path in (*readable, *SYSTEM_INFORMATION):
        _grant_rights(rules, path, (_EXECUTE | _READ | _LIST) & all_rights)
    for path in DEVICES:
        _grant_rights(rules, path, (_READ | _WRITE) & all_rights)
    for path in writable:
        _grant_rights(rules, path, all_rights)
    check_result(libc.syscall(_RESTRICT_SELF, rules, ctypes.c_uint(0)), "landlock")
    os.close(rules)
    return confines_signals


def _grant_rights(rules: int, path: str, rights: int) -> None:
    """Add a rule that grants the rights to a path and all below it. A path that cannot be opened needs no rule."""
    with contextlib.suppress(FileNotFoundError, PermissionError, NotADirectoryError):
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                rights &= _FILE_RIGHTS
            rule = struct.pack("=Qi", rights, descriptor)
            check_result(
                libc.syscall(_ADD_RULE, rules, _RULE_FOR_PATH, rule, ctypes.c_uint(0)),
                f"landlock {path}",
            )
        finally:
            os.close(descriptor)


# ---- namespaces ------------------------------------------------------------------------------------------------------
# Namespaces: a network without interfaces, a separate process tree, and a file system with a few folders only.

_NAMESPACES = NEWNS | NEWUTS | NEWIPC | NEWPID | NEWNET
# Flags of mount(2).
_RDONLY = 1
_NOSUID = 2
_NODEV = 4
_NOEXEC = 8
_BIND = 4096
_REC = 16384
_PRIVATE = 1 << 18
# For mount_setattr(2): a descriptor that stands for the working directory, and a flag.
_FDCWD = -100
_RECURSIVE = 0x8000
_DETACH = 2  # a flag of umount2(2)
CPUS = "/sys/devices/system/cpu"  # how many processors there are
# Files of /proc in which the kernel tells everybody about the machine, and which no program needs.
_MASKED = "cmdline config.gz diskstats kallsyms key-users keys modules partitions timer_list"
MASKED_NAMES = _MASKED.split()


def become_user(uid: int) -> None:
    """Give up root for a user id that owns nothing. No capability can come back."""
    drop_bounding()
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    if sys.platform == "linux":
        # Otherwise /proc/self belongs to root, and `enter_namespaces` could not write uid_map.
        prctl(PR_SET_DUMPABLE, 1)


def enter_namespaces(header: dict[str, Any]) -> list[str]:
    """Enter new namespaces, as root or else through a user namespace. Returns the mechanisms that this gives, or [].

    header["namespaces"] is "best" (try both ways), "user" (only a user namespace), "none", or "given" (bubblewrap made
    the namespaces before it started us).
    """
    uid = header["uid"]
    which = header["namespaces"]
    if which == "given":
        return ["bubblewrap", "network", "pids", "files", "proc"]
    if uid is not None:
        os.chown(header["directory"], uid, uid)
        if which == "best" and sys.platform == "linux" and libc.unshare(_NAMESPACES) == 0:
            return ["root", "network", "pids"]
        become_user(uid)
    if which == "none" or sys.platform != "linux":
        return []
    user_map = f"{os.getuid()} {os.getuid()} 1"  # before unshare: afterwards we have no valid id until it is written
    group_map = f"{os.getgid()} {os.getgid()} 1"
    if libc.unshare(NEWUSER | _NAMESPACES) != 0:
        return []
    for name, text in (("setgroups", "deny"), ("uid_map", user_map), ("gid_map", group_map)):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    return ["user", "network", "pids"]


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """Mount a file system of this kind, or bind a path; `data` are its options. Raises OSError if that fails."""
    arguments = (
        source.encode(),
        target.encode(),
        kind.encode(),
        ctypes.c_ulong(flags),
        data.encode(),
    )
    check_result(libc.mount(*arguments), f"mount {target}")


def build_view(header: dict[str, Any]) -> list[str]:
    """Move into a file system that has the readable folders only, all read-only, and the working directory in memory.

    Nothing else of the machine can be seen, not even that it exists. Returns ["files"], and also "proc" if there is a
    /proc that shows our processes only. Raises OSError if the view cannot be built.
    """
    processor = find_machine()
    if processor is None:
        raise OSError(f"the system calls of {platform.machine()} are not known")
    with contextlib.suppress(OSError):
        _mount("none", "/", "", _REC | _PRIVATE)
    root = header["directory"]  # an empty folder; the new root is built on it
    _mount("tmpfs", root, "tmpfs", _NOSUID | _NODEV, "size=1m,mode=0755")
    try:
        for path in (*header["read"], *DEVICES, CPUS):
            _show_path(root, path)
        for path in ("/dev/shm", "/proc", header["directory"]):
            os.makedirs(root + path, exist_ok=True)
        os.symlink("/proc/self/fd", f"{root}/dev/fd")
        _make_read_only(root)
        options = f"size={header['disk']},nr_inodes=20000,mode=0700,uid={header['owner']},gid={header['group']}"
        for path in ("/dev/shm", header["directory"]):
            _mount("tmpfs", root + path, "tmpfs", _NOSUID | _NODEV, options)
        has_own_proc = _mount_proc(f"{root}/proc")
        os.chdir(root)
        # The old root is mounted over the new one, and then removed from there: no folder is needed for it.
        check_result(libc.syscall(processor.calls["pivot_root"], b".", b"."), "pivot_root")
        check_result(libc.umount2(b".", _DETACH), "umount2")
    except OSError:
        os.chdir("/")
        libc.umount2(root.encode(), _DETACH)
        raise
    os.chdir("/")
    return ["files", "proc"] if has_own_proc else ["files"]


def _show_path(root: str, path: str) -> None:
    """Make a file or folder of the machine visible in the new root, under its own name."""
    target = root + path
    # It is there already if it lies in another folder that is shown.
    if os.path.lexists(target) or not os.path.exists(path):
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.islink(path):
        os.symlink(os.readlink(path), target)
        return
    if os.path.isdir(path):
        os.mkdir(target)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o444))
    _mount(path, target, "", _BIND | _REC)


def _mount_proc(target: str) -> bool:
    """Mount a /proc that shows our processes only. If the kernel refuses (many containers mask parts of theirs), show
    the outer one and return False: then other walls must protect the processes in it.
    """
    try:
        _mount("proc", target, "proc", _NOSUID | _NODEV | _NOEXEC)
    except OSError:
        _mount("/proc", target, "", _BIND | _REC)
        return False
    for name in MASKED_NAMES:
        if os.path.exists(f"{target}/{name}"):
            _mount("/dev/null", f"{target}/{name}", "", _BIND)
    return True


def _make_read_only(root: str) -> None:
    """Make every mount in the new root read-only in one call (Linux 5.12)."""
    attributes = struct.pack("=QQQQ", _RDONLY, 0, 0, 0)
    result = libc.syscall(
        MOUNT_SETATTR,
        _FDCWD,
        root.encode(),
        ctypes.c_uint(_RECURSIVE),
        attributes,
        ctypes.c_size_t(len(attributes)),
    )
    check_result(result, "mount_setattr")
