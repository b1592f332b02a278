"""Temporary folders, including the removal of folders that killed processes left behind.

    with make_folder("run") as directory: …          /tmp/rubrank-run-x1y2z3

A process holds a lock on its folder. The kernel releases the lock when the process ends, even if it is killed. A folder
that is unlocked and older than a minute is therefore abandoned, and the next process removes it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias, get_args

try:
    import fcntl
except ImportError:  # not Linux; runs are refused there anyway
    fcntl = None  # type: ignore[assignment]

Kind: TypeAlias = Literal["run", "stdin", "batches", "view"]
"""What a folder is for: a run in the sandbox, a copy of standard input, batches of judge requests, unpacked files."""
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MINIMUM_AGE = 60.0  # seconds: a younger folder may not be locked yet
UNUSED_USER_IDS = range(61184, 65520)
"""User ids that systemd reserves for transient services: no files belong to them."""


@contextlib.contextmanager
def make_folder(kind: Kind) -> Iterator[str]:
    """Yield the path of a new folder, which is locked while it is used and removed afterwards."""
    _sweep_once(os.getpid())
    directory = tempfile.mkdtemp(prefix=f"rubrank-{kind}-")
    lock = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield directory
    finally:
        remove(directory)
        os.close(lock)


@lru_cache(maxsize=1)
def _sweep_once(process: int) -> None:
    """Sweep once per process. The id is the cache key: a forked process inherits the cache, and must sweep, too."""
    sweep()


def sweep(minimum_age: float = _MINIMUM_AGE) -> int:
    """Remove abandoned folders that are at least `minimum_age` seconds old; returns how many were removed."""
    removed = 0
    with contextlib.suppress(OSError):
        for kind in get_args(Kind):
            for path in Path(tempfile.gettempdir()).glob(f"rubrank-{kind}-*"):
                if _is_abandoned(path, minimum_age) and remove(str(path)):
                    removed += 1
    return removed


def _is_abandoned(path: Path, minimum_age: float) -> bool:
    """Return whether no living process holds the folder. False for links, files and folders of other users."""
    if fcntl is None:
        return False
    try:
        status = path.lstat()
        age = time.time() - status.st_mtime
        if not path.is_dir() or path.is_symlink() or age < minimum_age:
            return False
        is_ours = status.st_uid == os.geteuid()
        is_from_our_sandbox = os.geteuid() == 0 and status.st_uid in UNUSED_USER_IDS
        if not is_ours and not is_from_our_sandbox:
            return False
        lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False  # its process is alive and holds the lock
    finally:
        os.close(lock)
    return True


def remove(directory: str) -> bool:
    """Delete the folder, even if it lacks permissions or is nested deeper than a path can name.

    Links are not followed. Returns True if the folder no longer exists.
    """
    with contextlib.suppress(OSError):
        if not os.path.islink(directory):
            os.chmod(directory, 0o700)
        top = os.open(directory, _OPEN_FOLDER)
        try:
            _empty_folder(top)
        finally:
            os.close(top)
        os.rmdir(directory)
    return not os.path.lexists(directory)


def _empty_folder(top: int) -> None:
    """Delete everything in an open folder.

    Folders within its folders are moved to the top before their parent is deleted. So the depth does not matter: there
    is no recursion, no long path and no more than one other open folder.
    """
    prefix = secrets.token_hex(8)
    moved = 0
    while names := os.listdir(top):
        for name in names:
            if _delete_file(name, top):
                continue
            folder = os.open(name, _OPEN_FOLDER, dir_fd=top)
            try:
                for inner_name in os.listdir(folder):
                    if not _delete_file(inner_name, folder):
                        os.rename(
                            inner_name, f"{prefix}-{moved}", src_dir_fd=folder, dst_dir_fd=top
                        )
                        moved += 1
            finally:
                os.close(folder)
            os.rmdir(name, dir_fd=top)


def _delete_file(name: str, folder: int) -> bool:
    """Delete a file or link. False if it is a folder, which is then given the permissions to be read and moved."""
    try:
        os.unlink(name, dir_fd=folder)
    except IsADirectoryError:
        os.chmod(name, 0o700, dir_fd=folder)
        return False
    return True
