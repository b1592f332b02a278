"""Temporary folders of sandbox runs, including the removal of folders that killed processes left behind.

A process holds a lock on the folder of its run. The kernel releases the lock when the process ends, however it ended.
A folder that is unlocked and older than a minute is therefore abandoned, and the next process removes it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

try:
    import fcntl
except ImportError:  # not Linux; runs are refused there anyway
    fcntl = None  # type: ignore[assignment]

_PREFIX = "rubrank-run-"  # used by nothing else, so that a sweep removes folders of runs only
_LEAST_AGE = 60.0  # seconds: a younger folder may not be locked yet
UNUSED_USER_IDS = range(61184, 65520)
"""User ids that systemd reserves for transient services: no files belong to them."""


@contextlib.contextmanager
def make_folder() -> Iterator[str]:
    """A folder for one run, locked while it is used and removed afterwards."""
    _sweep_once(os.getpid())
    directory = tempfile.mkdtemp(prefix=_PREFIX)
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
    """Sweep once per process: the process id is the cache key, because a fork inherits the cache."""
    sweep()


def sweep(older: float = _LEAST_AGE) -> int:
    """Remove abandoned folders that are at least `older` seconds old. Returns how many were removed."""
    removed = 0
    with contextlib.suppress(OSError):
        for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            if _is_abandoned(path, older) and remove(str(path)):
                removed += 1
    return removed


def _is_abandoned(path: Path, older: float) -> bool:
    """Whether no living process holds the folder. False for links, files and folders of other users."""
    if fcntl is None:
        return False
    try:
        status = path.lstat()
        if not path.is_dir() or path.is_symlink() or time.time() - status.st_mtime < older:
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
        return False
    finally:
        os.close(lock)
    return True


def remove(directory: str) -> bool:
    """Delete the folder, even if the command took away permissions. Links are not followed. True if it is gone."""
    shutil.rmtree(directory, ignore_errors=True)
    if os.path.lexists(directory):
        for root, _, _ in os.walk(directory):
            with contextlib.suppress(OSError):
                os.chmod(root, 0o700)
        shutil.rmtree(directory, ignore_errors=True)
    return not os.path.lexists(directory)
