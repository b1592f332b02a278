"""Landlock (Linux 5.13) restricts which files a process may use and, from Linux 6.12, to whom it may send signals.

It needs no privileges and no namespaces, so it works in containers. It does not protect the modes, owners and times of
files; a system call filter does that. It does not hide that a file exists.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import struct
from collections.abc import Iterable

from rubrank.verifiers.shared.inside.kernel import check_result, libc

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


def read_version() -> int:
    """Return the kernel's version of Landlock; 0 if it has none or it is disabled."""
    return max(
        0, libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(_ASK_FOR_VERSION))
    )


def restrict(version: int, writable: Iterable[str], readable: Iterable[str]) -> bool:
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
