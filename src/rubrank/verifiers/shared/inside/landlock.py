"""Landlock (Linux 5.13): which files a process may touch, and from 6.12 which processes it may send signals to.

Needs no privilege and no namespace, so it holds in containers. What it does not guard (modes, owners, times of files,
their mere existence) is left to a filter of system calls.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import struct
from collections.abc import Iterable

from rubrank.verifiers.shared.inside.kernel import checked, libc

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_EXECUTE, _WRITE, _READ, _LIST = 1, 2, 4, 8
_TRUNCATE, _IOCTL = 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE | _IOCTL
_SIGNALS = 6  # the version from which on signals are kept inside
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
ABOUT = ("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/self", "/sys/devices/system/cpu")


def version() -> int:
    """The kernel's version of Landlock; 0 if it has none, or it is switched off."""
    return max(0, libc.syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint(1)))


def _rights(abi: int) -> int:
    """All rights over files that this version knows: whatever is not granted below is refused."""
    return (1 << (13 + (abi >= 2) + (abi >= 3) + (abi >= 5))) - 1


def restrict(abi: int, ours: Iterable[str], read: Iterable[str]) -> bool:
    """Let this process read `read`, do anything in `ours`, and nothing elsewhere; True if signals stay inside."""
    every, scoped = _rights(abi), 3 if abi >= _SIGNALS else 0
    words = [every, 3 if abi >= 4 else 0, scoped]  # files; binding and connecting; abstract sockets and signals
    data = struct.pack(f"={len(words)}Q", *words)[: 8 if abi < 4 else 16 if abi < _SIGNALS else 24]
    rules = checked(libc.syscall(_CREATE, data, ctypes.c_size_t(len(data)), ctypes.c_uint(0)), "landlock")
    for path in (*read, *ABOUT):
        _grant(rules, path, (_EXECUTE | _READ | _LIST) & every)
    for path in DEVICES:
        _grant(rules, path, (_READ | _WRITE) & every)
    for path in ours:
        _grant(rules, path, every)
    checked(libc.syscall(_RESTRICT, rules, ctypes.c_uint(0)), "landlock")
    os.close(rules)
    return scoped != 0


def _grant(rules: int, path: str, rights: int) -> None:
    with contextlib.suppress(FileNotFoundError, PermissionError, NotADirectoryError):
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not stat.S_ISDIR(os.fstat(place).st_mode):
                rights &= _OF_FILES
            rule = struct.pack("=Qi", rights, place)
            checked(libc.syscall(_ADD, rules, 1, rule, ctypes.c_uint(0)), f"landlock {path}")
        finally:
            os.close(place)
