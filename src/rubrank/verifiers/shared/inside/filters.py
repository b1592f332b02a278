"""System call filters (seccomp). Each is a small program for the kernel; several can be installed one after the other.

- `build_main_filter`, always installed: no sockets except pairs, no namespaces, mounts, tracing or io_uring, no memory
  that escapes the limits, no watching of files, and none of the calls that a future kernel adds.
- `build_own_user_filter`: nothing that reaches other processes or files of the same user. For machines where neither
  namespaces nor a separate user id separate them.
- `build_signal_filter`: no signals to other processes. For machines where nothing else confines signals.

A program is a sequence of steps of 8 bytes (classic BPF). It loads a word of the system call, its number or an
argument, compares it, jumps forward, and ends with an action: allow, or fail with an error number.

The kernel describes a system call to the program in 64 bytes, `struct seccomp_data`. A load reads 4 of them:

    byte   0        4        8                     16           24         56           64
           | number | arch   | address of the call | argument 0 |    …     | argument 5 |

On both architectures here the low half of an argument comes first, so that a load at its offset reads the low 32 bits.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable

from rubrank.verifiers.shared.inside.kernel import (
    ARCH_X86_64,
    NEW_ANY,
    PR_SET_SECCOMP,
    Machine,
    libc,
)

# Operations of classic BPF.
_LOAD = 0x20  # a word of the system call
_EQUAL = 0x15  # jump if the loaded word is this value
_AT_LEAST = 0x35
_ANY_BIT = 0x45  # jump if any of these bits is set
_MASK = 0x54  # the loaded word
_RETURN = 0x06  # end with an action
# Offsets in seccomp_data, in bytes.
_NUMBER_OFFSET = 0
_ARCH_OFFSET = 4
_ARGUMENTS_OFFSET = 16
_ARGUMENT_BYTES = 8
# Actions with which a program ends (SECCOMP_RET_…).
_KILL_PROCESS = 0x80000000
_FAIL_WITH_ERROR = 0x00050000  # the low 16 bits are the error number
_ALLOW_CALL = 0x7FFF0000
_SECCOMP_MODE_FILTER = 2  # for prctl(2)
_X32_BIT = 0x40000000  # in the numbers of the second set of system calls of x86-64
_SIGNAL_BITS = 0xFF  # of the flags of clone: the signal that the parent gets when the child ends
# Error numbers: not permitted; no such system call, on which C libraries try an older one.
_EPERM = 1
_ENOSYS = 38
_OWN_PID = 0x7FABCDEF
"""Placeholder for the id of the process that installs the program: `install` replaces it."""

# Refused to all untrusted code, by what the calls reach.
_FORBIDDEN = {
    "network": "socket connect",
    "memory and descriptors of other processes": (
        "ptrace process_vm_readv process_vm_writev pidfd_getfd userfaultfd"
    ),
    "namespaces, mounts and files by handle": (
        "unshare setns pivot_root chroot mount umount2 mount_setattr open_tree move_mount fsopen fsconfig fsmount"
        " fspick name_to_handle_at open_by_handle_at"
    ),
    "calls that bypass these filters": "io_uring_setup io_uring_enter io_uring_register",
    "keys, kernel log, counters, quotas and programs for the kernel": (
        "keyctl add_key request_key syslog perf_event_open quotactl quotactl_fd bpf init_module finit_module"
        " kexec_load"
    ),
    # Landlock does not restrict watching: the names of files in foreign folders would be seen when they change.
    "watching files": "inotify_init inotify_init1 inotify_add_watch fanotify_init fanotify_mark",
    "memory that no limit counts, or that outlives its process": (
        "memfd_create memfd_secret shmget shmat shmctl semget semop semctl semtimedop msgget msgsnd msgrcv msgctl"
        " mq_open mq_unlink"
    ),
}
_OTHER_PROCESSES = (
    "rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal ioprio_set migrate_pages move_pages kcmp process_madvise"
    " process_mrelease"
)
"""Calls that reach other processes of the same user."""
_FILE_MARKS = (
    "chmod fchmod fchmodat chown fchown lchown fchownat setxattr lsetxattr fsetxattr removexattr lremovexattr"
    " fremovexattr utime utimes futimesat utimensat"
)
"""Calls that change modes, owners, times or attributes of files, which Landlock allows. They succeed without effect,
because programs such as `cp` and `tar` fail if they fail."""
# Calls from this number on did not exist, or were rare, when these lists were written. Programs can do without them: C
# libraries fall back to older ones. Only those that are known to be harmless are allowed.
_FIRST_NEW_CALL = 451
_HARMLESS_NEW_CALLS = "map_shadow_stack futex_wake futex_wait futex_requeue mseal"
# F_SETOWN, F_SETSIG, F_SETOWN_EX: they make the kernel send any signal to any process.
_FCNTL_REFUSED = (8, 10, 15)
_IOCTL_REFUSED = (
    # FIOSETOWN, SIOCSPGRP: the same by another call
    *(0x8901, 0x8902),
    # TIOCSTI, TIOCLINUX: they type into a terminal
    *(0x5412, 0x541C),
    # FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR: flags of files that can only be read
    *(0x40086602, 0x40046602, 0x401C5820),
    # FS_IOC_SETVERSION, FS_IOC_ENABLE_VERITY
    *(0x40087602, 0x40047602, 0x40806685),
)
# Flags of open(2). Access mode 3 is undocumented: neither reading nor writing, for calls of ioctl alone.
_TRUNCATE = 0o1000
_ACCESS_MODES = 0o3
_READ_ONLY = 0
_NO_ACCESS = 3


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    """Pack one step. A comparison skips `yes` or `no` steps, depending on its result."""
    return struct.pack("=HBBI", code, yes, no, value)


def _fail_call(number: int) -> bytes:
    """Skip the system call and return an error number; with 0 it seems to succeed."""
    return _step(_RETURN, _FAIL_WITH_ERROR | number)


_ALLOW = _step(_RETURN, _ALLOW_CALL)
_REFUSE = _fail_call(_EPERM)


def _load_argument(index: int) -> bytes:
    """Load the low 32 bits of an argument, counted from 0."""
    return _step(_LOAD, _ARGUMENTS_OFFSET + _ARGUMENT_BYTES * index)


def _match_call(number: int, *body: bytes) -> list[bytes]:
    """Return steps for one system call. The body must end with an action; other calls skip it."""
    return [_step(_EQUAL, number, 0, len(body)), *body]


def _match_any(values: Iterable[int], action: bytes) -> list[bytes]:
    """Take the action if the loaded word is one of the values."""
    steps = []
    for value in values:
        steps += [_step(_EQUAL, value, 0, 1), action]
    return steps


def _allow_only(number: int, index: int, *values: int) -> list[bytes]:
    """Allow a call only with these values of an argument."""
    return _match_call(number, _load_argument(index), *_match_any(values, _ALLOW), _REFUSE)


def _refuse_only(number: int, index: int, *values: int) -> list[bytes]:
    """Refuse a call only with these values of an argument."""
    return _match_call(number, _load_argument(index), *_match_any(values, _REFUSE), _ALLOW)


def _start_filter(machine: Machine) -> list[bytes]:
    """Kill the process if it calls in the way of another architecture, then load the number of the system call."""
    steps = [
        _step(_LOAD, _ARCH_OFFSET),
        _step(_EQUAL, machine.arch, 1, 0),
        _step(_RETURN, _KILL_PROCESS),
        _step(_LOAD, _NUMBER_OFFSET),
    ]
    if machine.arch == ARCH_X86_64:
        # x86-64 has a second set of numbers (x32) for the same calls, which would bypass our lists.
        steps += [_step(_AT_LEAST, _X32_BIT, 0, 1), _REFUSE]
    return steps


def build_main_filter(machine: Machine) -> bytes:
    """Build the filter for all untrusted code."""
    calls = machine.calls
    steps = _start_filter(machine)
    harmless = _match_any(machine.find_numbers(_HARMLESS_NEW_CALLS), _ALLOW)
    new_calls = [*harmless, _fail_call(_ENOSYS)]
    steps += [_step(_AT_LEAST, _FIRST_NEW_CALL, 0, len(new_calls)), *new_calls]
    for call in machine.find_numbers(" ".join(_FORBIDDEN.values())):
        steps += _match_call(call, _REFUSE)
    # clone3, whose flags a filter cannot see: the C library falls back to clone.
    steps += _match_call(calls["clone3"], _fail_call(_ENOSYS))
    # NEWTIME lies among the bits that clone takes for the signal, as in 17, SIGCHLD: only clone3 and unshare know it.
    new_namespace = NEW_ANY & ~_SIGNAL_BITS
    steps += _match_call(
        calls["clone"], _load_argument(0), _step(_ANY_BIT, new_namespace, 0, 1), _REFUSE, _ALLOW
    )
    steps += _refuse_only(calls["fcntl"], 1, *_FCNTL_REFUSED)
    steps += _refuse_only(calls["ioctl"], 1, *_IOCTL_REFUSED)
    # Unix socket pairs of kind 1 (streams) and 5 (packets, used by Rust) are allowed: they cannot be connected to
    # anything else.
    kinds = _match_any((1, 5), _ALLOW)
    pair = [
        _load_argument(0),
        _step(_EQUAL, 1, 0, 2 + len(kinds)),
        _load_argument(1),
        _step(_MASK, 0xF),
        *kinds,
    ]
    steps += _match_call(calls["socketpair"], *pair, _REFUSE)
    return b"".join([*steps, _ALLOW])


def build_own_user_filter(machine: Machine, protect_content: bool) -> bytes:
    """Build the filter that protects limits, priorities and memory of other processes, and modes and owners of files.

    protect_content: also refuse to cut files, which Landlock before version 3 allows. Opening a file with O_TRUNC is
    enough for that, so this is refused unless the file is opened for writing, about which Landlock decides. openat2 is
    refused because a filter cannot see its flags.
    """
    calls = machine.calls
    steps = _start_filter(machine)
    for call in machine.find_numbers(_OTHER_PROCESSES):
        steps += _match_call(call, _REFUSE)
    for call in machine.find_numbers(_FILE_MARKS):
        steps += _match_call(call, _fail_call(0))
    schedulers = "sched_setaffinity sched_setscheduler sched_setparam sched_setattr"
    for call in machine.find_numbers(f"prlimit64 {schedulers}"):
        steps += _allow_only(call, 0, 0)  # process 0 means the caller itself
    only_itself = [
        _load_argument(0),
        _step(_EQUAL, 0, 1, 0),
        _REFUSE,
        _load_argument(1),
        _step(_EQUAL, 0, 1, 0),
        _REFUSE,
        _ALLOW,
    ]
    steps += _match_call(calls["setpriority"], *only_itself)
    if protect_content:
        steps += _match_call(calls["truncate"], _REFUSE)
        steps += _match_call(calls["openat2"], _fail_call(_ENOSYS))
        cuts = [
            _step(_MASK, _ACCESS_MODES | _TRUNCATE),
            *_match_any((_READ_ONLY | _TRUNCATE, _NO_ACCESS | _TRUNCATE), _REFUSE),
            _ALLOW,
        ]
        steps += _match_call(calls["openat"], _load_argument(2), *cuts)
        for call in machine.find_numbers("open"):
            steps += _match_call(call, _load_argument(1), *cuts)
    return b"".join([*steps, _ALLOW])


def build_signal_filter(machine: Machine) -> bytes:
    """Build the filter that allows signals only to the process itself and to its process group."""
    calls = machine.calls
    steps = _start_filter(machine)
    steps += _allow_only(calls["kill"], 0, 0, _OWN_PID)
    steps += _allow_only(calls["tgkill"], 0, _OWN_PID)
    steps += _match_call(calls["tkill"], _REFUSE)
    return b"".join([*steps, _ALLOW])


def install(code: bytes) -> bool:
    """Apply the program to this process and all its future children. Returns False if the kernel has no filters."""
    code = code.replace(struct.pack("=I", _OWN_PID), struct.pack("=I", os.getpid()))
    buffer = ctypes.create_string_buffer(code, len(code))
    header = ctypes.create_string_buffer(
        struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
    )
    return libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(_SECCOMP_MODE_FILTER), header, 0, 0) == 0
