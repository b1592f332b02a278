"""Namespaces: a network without interfaces, processes that see only themselves, a view of the files of its own."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import sys
from typing import Any

from rubrank.verifiers.shared.inside.kernel import (
    MOUNT_SETATTR,
    NEWIPC,
    NEWNET,
    NEWNS,
    NEWPID,
    NEWUSER,
    NEWUTS,
    PR_SET_DUMPABLE,
    checked,
    drop_bounding,
    libc,
    prctl,
)

_WALLS = NEWNS | NEWUTS | NEWIPC | NEWPID | NEWNET
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _BIND, _REC, _PRIVATE = 1, 2, 4, 8, 4096, 16384, 1 << 18
_FDCWD, _RECURSIVE = -100, 0x8000


def become(uid: int) -> None:
    """Give up root for a user that owns nothing; no capability can come back."""
    drop_bounding()
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    if sys.platform == "linux":
        prctl(PR_SET_DUMPABLE, 1)  # or /proc/self would belong to root, and the user map could not be written


def enter(header: dict[str, Any]) -> list[str]:
    """New namespaces by the privilege at hand; what was achieved: nothing, or "root" or "user", "network", "pids".

    "given": another tool (bubblewrap) has made them before it started us.
    """
    uid, which = header["uid"], header["namespaces"]
    if which == "given":
        return ["bubblewrap", "network", "pids", "files", "proc"]
    if uid is not None:
        os.chown(header["directory"], uid, uid)
        if which == "best" and sys.platform == "linux" and libc.unshare(_WALLS) == 0:
            return ["root", "network", "pids"]
        become(uid)
    if which == "none" or sys.platform != "linux":
        return []
    identity = os.getuid(), os.getgid()
    if libc.unshare(NEWUSER | _WALLS) != 0:
        return []
    users, groups = (f"{number} {number} 1" for number in identity)
    for name, text in (("setgroups", "deny"), ("uid_map", users), ("gid_map", groups)):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    return ["user", "network", "pids"]


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    arguments = (source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode())
    checked(libc.mount(*arguments), f"mount {target}")


def build_view(header: dict[str, Any]) -> list[str]:
    """Homes hidden, everything else read-only, the working directory a small file system in memory.

    "files" if all of that was possible; "proc" if the list of processes is our own, too.
    """
    with contextlib.suppress(OSError):
        _mount("none", "/", "", _REC | _PRIVATE)
    kept = [(path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in header["keep"] if os.path.isdir(path)]
    covers = [path for path in header["hide"] if os.path.isdir(path)]
    for cover in covers:
        _mount("tmpfs", cover, "tmpfs", _NOSUID | _NODEV, "size=1m,mode=0755")
    for path, descriptor in kept:
        if any(path == cover or path.startswith(cover + "/") for cover in covers):
            os.makedirs(path, exist_ok=True)
            _mount(f"/proc/self/fd/{descriptor}", path, "", _BIND | _REC)
        os.close(descriptor)
    os.makedirs(header["directory"], exist_ok=True)  # it may lie in a home that is hidden now
    _make_read_only()
    options = f"size={header['disk']},nr_inodes=20000,mode=0700,uid={header['owner']},gid={header['group']}"
    for path in (header["directory"], "/dev/shm"):
        if os.path.isdir(path):
            _mount("tmpfs", path, "tmpfs", _NOSUID | _NODEV, options)
    try:
        _mount("proc", "/proc", "proc", _NOSUID | _NODEV | _NOEXEC)
    except OSError:  # refused where the outer /proc is masked; then the outer one stays
        return ["files"]
    return ["files", "proc"]


def _make_read_only() -> None:
    """Every mount there is, at one stroke (Linux 5.12)."""
    attributes = struct.pack("=QQQQ", _RDONLY, 0, 0, 0)
    result = libc.syscall(
        MOUNT_SETATTR, _FDCWD, b"/", ctypes.c_uint(_RECURSIVE), attributes, ctypes.c_size_t(len(attributes))
    )
    checked(result, "mount_setattr")
