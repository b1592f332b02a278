"""Namespaces: a network without interfaces, a process tree of its own, and a file system with a few folders only."""

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
    check_result,
    drop_bounding,
    find_machine,
    libc,
    prctl,
)
from rubrank.verifiers.shared.inside.landlock import DEVICES

_NAMESPACES = NEWNS | NEWUTS | NEWIPC | NEWPID | NEWNET
# Flags of mount(2).
_RDONLY = 1
_NOSUID = 2
_NODEV = 4
_NOEXEC = 8
_BIND = 4096
_REC = 16384
_PRIVATE = 1 << 18
# Flags of mount_setattr(2) and umount2(2).
_FDCWD = -100
_RECURSIVE = 0x8000
_DETACH = 2
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
        processor = find_machine()
        assert processor is not None
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
    """Mount a /proc of our own. If the kernel refuses (parts of the outer one are masked, as in many containers), show
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
