"""Folders of runs: made, locked while the caller lives, removed; those of callers that were killed are removed, too.

A caller holds a lock on the folder of its run. The kernel gives it up when the caller is gone, however it ended: what
lies there unlocked for a minute is abandoned.
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

_PREFIX = "rubrank-run-"  # of runs alone: others make folders of their own there
_YOUNG = 60.0  # seconds between making a folder and locking it, and more than enough of them


@contextlib.contextmanager
def folder() -> Iterator[str]:
    """A folder for one run; gone afterwards."""
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
    sweep()


def sweep(older: float = _YOUNG) -> int:
    """Remove what killed callers left behind; how many folders."""
    found = 0
    with contextlib.suppress(OSError):
        for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            found += _left_behind(path, older) and remove(str(path))
    return found


def _left_behind(path: Path, older: float) -> bool:
    """A folder that no living caller holds? Links, files and other people's folders are left alone."""
    try:
        about = path.lstat()
        if not path.is_dir() or path.is_symlink() or time.time() - about.st_mtime < older or fcntl is None:
            return False
        if about.st_uid != os.geteuid() and not (os.geteuid() == 0 and about.st_uid in STRANGERS):
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


STRANGERS = range(61184, 65520)
"""User ids that systemd sets aside for transient services: no files belong to them."""


def remove(directory: str) -> bool:
    """Delete the folder, even if the command took permissions away; links are never followed."""
    shutil.rmtree(directory, ignore_errors=True)
    if os.path.lexists(directory):
        for root, _, _ in os.walk(directory):
            with contextlib.suppress(OSError):
                os.chmod(root, 0o700)
        shutil.rmtree(directory, ignore_errors=True)
    return not os.path.lexists(directory)
