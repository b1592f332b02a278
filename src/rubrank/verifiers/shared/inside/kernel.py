"""Linux system calls and constants that Python's standard library does not have."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from dataclasses import dataclass

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
PR_SUBREAPER = 36
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
        libc.syscall(processor.calls["capset"], version_3, empty_sets)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    prctl(PR_SET_DUMPABLE, 0)
