"""Namespaces: a network without interfaces, a process tree of its own, and a separate view of the file system."""

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

_NAMESPACES = NEWNS | NEWUTS | NEWIPC | NEWPID | NEWNET
# Flags of mount(2).
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _BIND, _REC, _PRIVATE = 1, 2, 4, 8, 4096, 16384, 1 << 18
# Flags of mount_setattr(2).
_FDCWD, _RECURSIVE = -100, 0x8000


def become(uid: int) -> None:
    """Give up root for a user id that owns nothing. No capability can come back."""
    drop_bounding()
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    if sys.platform == "linux":
        prctl(PR_SET_DUMPABLE, 1)  # otherwise /proc/self belongs to root, and `enter` could not write uid_map


def enter(header: dict[str, Any]) -> list[str]:
    """Enter new namespaces, as root or else through a user namespace. Returns the walls that this gives, or [].

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
        become(uid)
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
    arguments = (source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode())
    checked(libc.mount(*arguments), f"mount {target}")


def build_view(header: dict[str, Any]) -> list[str]:
    """Hide homes, make everything else read-only, and mount a small file system in memory as the working directory.

    Returns ["files"], and also "proc" if /proc could be replaced by one that shows our processes only. Raises OSError
    if the view cannot be built.
    """
    with contextlib.suppress(OSError):
        _mount("none", "/", "", _REC | _PRIVATE)
    # Open the folders to keep before their homes are hidden: afterwards they can be reached by descriptor only.
    folders_to_keep = [
        (path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in header["keep"] if os.path.isdir(path)
    ]
    homes = [path for path in header["hide"] if os.path.isdir(path)]
    for home in homes:
        _mount("tmpfs", home, "tmpfs", _NOSUID | _NODEV, "size=1m,mode=0755")
    for path, descriptor in folders_to_keep:
        if any(path == home or path.startswith(home + "/") for home in homes):
            os.makedirs(path, exist_ok=True)
            _mount(f"/proc/self/fd/{descriptor}", path, "", _BIND | _REC)
        os.close(descriptor)
    os.makedirs(header["directory"], exist_ok=True)  # it may lie in a home, which is empty now
    _make_read_only()
    options = f"size={header['disk']},nr_inodes=20000,mode=0700,uid={header['owner']},gid={header['group']}"
    for path in (header["directory"], "/dev/shm"):
        if os.path.isdir(path):
            _mount("tmpfs", path, "tmpfs", _NOSUID | _NODEV, options)
    try:
        _mount("proc", "/proc", "proc", _NOSUID | _NODEV | _NOEXEC)
    except OSError:  # the kernel refuses this if parts of the outer /proc are masked, as in many containers
        return ["files"]
    return ["files", "proc"]


def _make_read_only() -> None:
    """Make every mount read-only in one call (Linux 5.12)."""
    attributes = struct.pack("=QQQQ", _RDONLY, 0, 0, 0)
    result = libc.syscall(
        MOUNT_SETATTR, _FDCWD, b"/", ctypes.c_uint(_RECURSIVE), attributes, ctypes.c_size_t(len(attributes))
    )
    checked(result, "mount_setattr")
