"""Filters of system calls (seccomp): two small programs, stacked.

`program`: no sockets but stream pairs, no namespaces, no mounts, no tracing, no io_uring. Always.
`own_user_program`: nothing that reaches other processes or files of the same user. Where neither a PID namespace nor
a user of its own keeps them apart.
"""

from __future__ import annotations

import ctypes
import os
import struct

from rubrank.verifiers.shared.inside.kernel import NEW_ANY, PR_SET_SECCOMP, Machine, libc

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _MASK, _GIVE = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_EPERM, _ENOSYS = 1, 38
# io_uring, the new mount calls, pidfd_getfd; these have one number on every machine
_SHARED = (425, 426, 427, 428, 429, 430, 431, 432, 433, 438, 442)
_SHARED_OTHERS = (424, 440, 448)  # pidfd_send_signal, process_madvise, process_mrelease
_SHARED_MARKS = (452, 463, 466)  # fchmodat2, setxattrat, removexattrat
_OWN_PID = 0x7FABCDEF
"""Stands in a program for the process that will install it."""
_ASYNC_OWNER = (8, 10, 15)  # F_SETOWN, F_SETSIG, F_SETOWN_EX: the kernel would send signals on one's behalf
_ASYNC_IOCTL = (0x8901, 0x8902)  # FIOSETOWN, SIOCSPGRP


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


_ALLOW = _step(_GIVE, 0x7FFF0000)


def _errno(number: int) -> bytes:
    return _step(_GIVE, 0x00050000 | number)


_REFUSE = _errno(_EPERM)


def _argument(index: int) -> bytes:
    return _step(_LOAD, 16 + 8 * index)


def _when(number: int, *body: bytes) -> list[bytes]:
    """The body, which must end in a verdict, for one system call."""
    return [_step(_EQUAL, number, 0, len(body)), *body]


def _only(number: int, index: int, *values: int) -> list[bytes]:
    """One call, allowed with these values of an argument."""
    tests = [part for value in values for part in (_step(_EQUAL, value, 0, 1), _ALLOW)]
    return _when(number, _argument(index), *tests, _REFUSE)


def _never(number: int, index: int, *values: int) -> list[bytes]:
    """One call, refused with these values of an argument."""
    tests = [part for value in values for part in (_step(_EQUAL, value, 0, 1), _REFUSE)]
    return _when(number, _argument(index), *tests, _ALLOW)


def _begin(machine: Machine) -> list[bytes]:
    steps = [_step(_LOAD, 4), _step(_EQUAL, machine.arch, 1, 0), _step(_GIVE, 0x80000000), _step(_LOAD, 0)]
    if machine.arch == 0xC000003E:
        steps += [_step(_AT_LEAST, 0x40000000, 0, 1), _REFUSE]  # the x32 numbers would go round the list
    return steps


def program(machine: Machine) -> bytes:
    """What no untrusted code may call, whatever else stands around it."""
    steps = _begin(machine)
    for number in (*machine.forbidden, *_SHARED):
        steps += _when(number, _REFUSE)
    steps += _when(435, _errno(_ENOSYS))  # clone3: the C library falls back to clone
    steps += _when(machine.number["clone"], _argument(0), _step(_ANY_BIT, NEW_ANY & ~0xFF, 0, 1), _REFUSE, _ALLOW)
    # Pairs of streams and of packets (Rust passes descriptors that way); neither can be connected to anything else.
    kinds = [part for kind in (1, 5) for part in (_step(_EQUAL, kind, 0, 1), _ALLOW)]
    pair = [_argument(0), _step(_EQUAL, 1, 0, 2 + len(kinds)), _argument(1), _step(_MASK, 0xF), *kinds]
    steps += _when(machine.number["socketpair"], *pair, _REFUSE)
    return b"".join([*steps, _ALLOW])


def own_user_program(machine: Machine) -> bytes:
    """No limits, priorities or shared memory of other processes; modes and owners of files stay as they are."""
    number, steps = machine.number, _begin(machine)
    for call in (*machine.others, *_SHARED_OTHERS):
        steps += _when(call, _REFUSE)
    for call in (*machine.marks, *_SHARED_MARKS):
        steps += _when(call, _errno(0))
    for name in ("prlimit64", "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"):
        steps += _only(number[name], 0, 0)  # 0: oneself
    oneself = [_argument(0), _step(_EQUAL, 0, 1, 0), _REFUSE, _argument(1), _step(_EQUAL, 0, 1, 0), _REFUSE, _ALLOW]
    steps += _when(number["setpriority"], *oneself)
    return b"".join([*steps, _ALLOW])


def signals_program(machine: Machine) -> bytes:
    """No signals but to oneself and to one's own process group (a session of its own)."""
    number, steps = machine.number, _begin(machine)
    steps += _only(number["kill"], 0, 0, _OWN_PID) + _only(number["tgkill"], 0, _OWN_PID)
    steps += _when(number["tkill"], _REFUSE)
    steps += _never(number["fcntl"], 1, *_ASYNC_OWNER) + _never(number["ioctl"], 1, *_ASYNC_IOCTL)
    return b"".join([*steps, _ALLOW])


def install(code: bytes) -> bool:
    """Make this process and all its children subject to the program; False on a kernel without filters."""
    code = code.replace(struct.pack("=I", _OWN_PID), struct.pack("=I", os.getpid()))
    buffer = ctypes.create_string_buffer(code, len(code))
    header = ctypes.create_string_buffer(struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer)))
    return libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(2), header, 0, 0) == 0
