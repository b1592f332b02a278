"""Linux system calls and constants that Python's standard library does not have."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from dataclasses import dataclass

NEWNS, NEWUTS, NEWIPC = 0x00020000, 0x04000000, 0x08000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
NEW_ANY = NEWNS | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET | 0x02000000 | 0x00000080  # and cgroup, time
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP = 1, 4, 22, 24
PR_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38
MOUNT_SETATTR = 442

libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Machine:
    """A processor architecture with its system call numbers."""

    arch: int
    """The kernel's name for it (AUDIT_ARCH_…), which filters compare."""
    capset: int
    number: dict[str, int]
    """System calls that filters refuse for some arguments only."""
    forbidden: tuple[int, ...]
    """Sockets, tracing, mounts, keys, BPF and the like: untrusted code never needs them."""
    others: tuple[int, ...]
    """Calls that reach other processes of the same user. Refused if nothing else separates these processes."""
    marks: tuple[int, ...]
    """Calls that change modes, owners or times of files, which Landlock allows. They succeed without any effect."""


_X86_64 = Machine(
    arch=0xC000003E,
    capset=126,
    number={
        "clone": 56,
        "socketpair": 53,
        "kill": 62,
        "tkill": 200,
        "tgkill": 234,
        "fcntl": 72,
        "ioctl": 16,
        "prlimit64": 302,
        "setpriority": 141,
        "sched_setaffinity": 203,
        "sched_setscheduler": 144,
        "sched_setparam": 142,
        "sched_setattr": 314,
    },
    forbidden=(41, 42, 101, 310, 311, 165, 166, 272, 308, 155, 161, 250, 248, 249, 321, 298, 323, 304, 175, 313, 246),
    others=(129, 297, 251, 256, 279, 312, 29, 30, 31, 64, 65, 66, 220, 68, 69, 70, 71, 240, 241, 300),
    marks=(90, 91, 268, 92, 93, 94, 260, 188, 189, 190, 197, 198, 199, 132, 235, 261, 280),
)
_AARCH64 = Machine(
    arch=0xC00000B7,
    capset=91,
    number={
        "clone": 220,
        "socketpair": 199,
        "kill": 129,
        "tkill": 130,
        "tgkill": 131,
        "fcntl": 25,
        "ioctl": 29,
        "prlimit64": 261,
        "setpriority": 140,
        "sched_setaffinity": 122,
        "sched_setscheduler": 119,
        "sched_setparam": 118,
        "sched_setattr": 274,
    },
    forbidden=(198, 203, 117, 270, 271, 40, 39, 97, 268, 41, 51, 219, 217, 218, 280, 241, 282, 265, 105, 273, 104),
    others=(138, 240, 30, 238, 239, 272, 194, 196, 195, 190, 193, 191, 192, 186, 189, 188, 187, 180, 181, 262),
    marks=(52, 53, 54, 55, 5, 6, 7, 14, 15, 16, 88),
)
_MACHINES = {"x86_64": _X86_64, "aarch64": _AARCH64}


def machine() -> Machine | None:
    """The architecture of this machine; None if its system call numbers are not listed here."""
    return _MACHINES.get(platform.machine()) if sys.platform == "linux" else None


def checked(result: int, what: str) -> int:
    """Return the result of a system call; raise OSError if it failed."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def prctl(option: int, value: int) -> None:
    """Change one setting of this process; raise OSError if that fails."""
    checked(libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0), f"prctl {option}")


def drop_bounding() -> None:
    """Empty the capability bounding set. Needs CAP_SETPCAP, so call it before the change of user."""
    for capability in range(64):
        if libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) != 0:
            break


def drop_everything() -> None:
    """Drop all capabilities for good, and forbid other processes of this user to inspect this one."""
    drop_bounding()
    processor = machine()
    if processor is not None:
        libc.syscall(
            processor.capset, struct.pack("=Ii", 0x20080522, 0), bytes(24)
        )  # version 3 of the call; empty sets
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    prctl(PR_SET_DUMPABLE, 0)
