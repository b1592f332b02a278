"""System call filters (seccomp). Each is a small program for the kernel; several can be installed one after the other.

- `program` is always installed: no sockets except pairs, no namespaces, mounts, tracing or io_uring.
- `own_user_program`: nothing that reaches other processes or files of the same user. For machines where neither
  namespaces nor a separate user id separate them.
- `signals_program`: no signals to other processes. For machines where nothing else confines signals.

A program is a sequence of steps of 8 bytes (classic BPF). It loads a word of the system call, its number or an
argument, compares it, jumps forward, and ends with an action: allow, or fail with an error number.
"""

from __future__ import annotations

import ctypes
import os
import struct

from rubrank.verifiers.shared.inside.kernel import NEW_ANY, PR_SET_SECCOMP, Machine, libc

# Operations: load a word; jump if equal, at least, or any bit set; apply a mask; end with an action.
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _MASK, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_EPERM, _ENOSYS = 1, 38
# System calls that have the same number on every architecture: io_uring, the new mount calls, pidfd_getfd.
_SHARED = (425, 426, 427, 428, 429, 430, 431, 432, 433, 438, 442)
_SHARED_OTHERS = (424, 440, 448)  # pidfd_send_signal, process_madvise, process_mrelease
_SHARED_MARKS = (452, 463, 466)  # fchmodat2, setxattrat, removexattrat
_OWN_PID = 0x7FABCDEF
"""Placeholder for the id of the process that installs the program: `install` replaces it."""
_ASYNC_OWNER = (8, 10, 15)  # F_SETOWN, F_SETSIG, F_SETOWN_EX: they make the kernel send signals to any process
_ASYNC_IOCTL = (0x8901, 0x8902)  # FIOSETOWN, SIOCSPGRP


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    """One step. A comparison skips `yes` or `no` steps, depending on its result."""
    return struct.pack("=HBBI", code, yes, no, value)


def _fail_with(number: int) -> bytes:
    """Skip the system call and return an error number; with 0 it seems to succeed."""
    return _step(_RETURN, 0x00050000 | number)


_ALLOW = _step(_RETURN, 0x7FFF0000)
_REFUSE = _fail_with(_EPERM)


def _load_argument(index: int) -> bytes:
    return _step(_LOAD, 16 + 8 * index)


def _when(number: int, *body: bytes) -> list[bytes]:
    """Steps for one system call. The body must end with an action; other calls skip it."""
    return [_step(_EQUAL, number, 0, len(body)), *body]


def _allow_only(number: int, index: int, *values: int) -> list[bytes]:
    """Allow a call only with these values of an argument."""
    tests = [part for value in values for part in (_step(_EQUAL, value, 0, 1), _ALLOW)]
    return _when(number, _load_argument(index), *tests, _REFUSE)


def _refuse_only(number: int, index: int, *values: int) -> list[bytes]:
    """Refuse a call only with these values of an argument."""
    tests = [part for value in values for part in (_step(_EQUAL, value, 0, 1), _REFUSE)]
    return _when(number, _load_argument(index), *tests, _ALLOW)


def _begin(machine: Machine) -> list[bytes]:
    """Kill the process if it calls in the way of another architecture, then load the number of the system call."""
    steps = [_step(_LOAD, 4), _step(_EQUAL, machine.arch, 1, 0), _step(_RETURN, 0x80000000), _step(_LOAD, 0)]
    if machine.arch == 0xC000003E:
        # x86-64 has a second set of numbers (x32) for the same calls, which would bypass our lists.
        steps += [_step(_AT_LEAST, 0x40000000, 0, 1), _REFUSE]
    return steps


def program(machine: Machine) -> bytes:
    """The filter for all untrusted code."""
    steps = _begin(machine)
    for number in (*machine.forbidden, *_SHARED):
        steps += _when(number, _REFUSE)
    # clone3, whose flags a filter cannot see: the C library falls back to clone.
    steps += _when(435, _fail_with(_ENOSYS))
    steps += _when(machine.number["clone"], _load_argument(0), _step(_ANY_BIT, NEW_ANY & ~0xFF, 0, 1), _REFUSE, _ALLOW)
    # Unix socket pairs of kind 1 (streams) and 5 (packets, used by Rust) are allowed: they cannot be connected to
    # anything else.
    kinds = [part for kind in (1, 5) for part in (_step(_EQUAL, kind, 0, 1), _ALLOW)]
    pair = [_load_argument(0), _step(_EQUAL, 1, 0, 2 + len(kinds)), _load_argument(1), _step(_MASK, 0xF), *kinds]
    steps += _when(machine.number["socketpair"], *pair, _REFUSE)
    return b"".join([*steps, _ALLOW])


def own_user_program(machine: Machine) -> bytes:
    """The filter that protects limits, priorities and memory of other processes, and modes and owners of files."""
    number = machine.number
    steps = _begin(machine)
    for call in (*machine.others, *_SHARED_OTHERS):
        steps += _when(call, _REFUSE)
    for call in (*machine.marks, *_SHARED_MARKS):
        steps += _when(call, _fail_with(0))
    for name in ("prlimit64", "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"):
        steps += _allow_only(number[name], 0, 0)  # process 0 means the caller itself
    only_itself = [
        _load_argument(0),
        _step(_EQUAL, 0, 1, 0),
        _REFUSE,
        _load_argument(1),
        _step(_EQUAL, 0, 1, 0),
        _REFUSE,
        _ALLOW,
    ]
    steps += _when(number["setpriority"], *only_itself)
    return b"".join([*steps, _ALLOW])


def signals_program(machine: Machine) -> bytes:
    """The filter that allows signals only to the process itself and to its process group."""
    number = machine.number
    steps = _begin(machine)
    steps += _allow_only(number["kill"], 0, 0, _OWN_PID)
    steps += _allow_only(number["tgkill"], 0, _OWN_PID)
    steps += _when(number["tkill"], _REFUSE)
    steps += _refuse_only(number["fcntl"], 1, *_ASYNC_OWNER)
    steps += _refuse_only(number["ioctl"], 1, *_ASYNC_IOCTL)
    return b"".join([*steps, _ALLOW])


def install(code: bytes) -> bool:
    """Apply the program to this process and all its future children. False if the kernel has no filters."""
    code = code.replace(struct.pack("=I", _OWN_PID), struct.pack("=I", os.getpid()))
    buffer = ctypes.create_string_buffer(code, len(code))
    header = ctypes.create_string_buffer(struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer)))
    return libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(2), header, 0, 0) == 0
