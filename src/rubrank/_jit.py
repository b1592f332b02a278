"""Compile once, keep on disk, and never fail because the disk says no."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from numba import njit
from numba.core.compiler_lock import global_compiler_lock

_log = logging.getLogger("rubrank")

unsigned = np.uint64
"""The type of indices in inner loops: see `kernels.py`."""


def jit(function: Callable[..., Any]) -> Any:
    """`njit` with the on-disk cache; where no cache folder can be written, the same without a cache.

    Kernels hold Python's lock while they run and use one thread: two threads that fuse at the same time take turns, a
    forked child inherits nothing that could dead-lock, and a data-parallel trainer's processes do not fight for cores.
    """
    try:
        return _forgiving(njit(function, cache=True, error_model="numpy"))
    except RuntimeError:  # numba found no folder that it may write to
        return njit(function, error_model="numpy")


def _forgiving(dispatcher: Any) -> Any:
    """A cache folder that vanished, a full disk or a damaged file costs a compilation and nothing else."""
    cache = dispatcher._cache
    load, save = cache.load_overload, cache.save_overload

    def load_or_not(signature: Any, context: Any) -> Any:
        try:
            found = load(signature, context)
        except OSError:
            found = None
        except Exception as error:  # whatever a damaged pickle raises
            _empty(cache, error)
            found = None
        if found is None:
            _say_once(cache.cache_path)
        return found

    def save_or_not(signature: Any, data: Any) -> None:
        try:
            with suppress(OSError):
                save(signature, data)
        except Exception as error:
            _empty(cache, error)

    cache.load_overload, cache.save_overload = load_or_not, save_or_not
    return dispatcher


_said: list[str] = []


def _say_once(path: str) -> None:
    """People wonder why the first step takes so long."""
    if not _said:
        _said.append(path)
        text = f"rubrank: compiling numeric kernels, once for this machine; kept in {path}"
        print(text, file=sys.stderr, flush=True)


def _empty(cache: Any, error: Exception) -> None:
    """Begin a damaged cache anew; said in one line."""
    _log.warning("the cache of compiled code in %s is damaged (%s), and is rebuilt", cache.cache_path, error)
    with suppress(Exception):
        cache.flush()


if hasattr(os, "register_at_fork"):  # not on Windows
    # A child forked while another thread compiles would wait for numba's lock for ever: fork when no thread holds it.
    os.register_at_fork(
        before=global_compiler_lock.acquire,
        after_in_parent=global_compiler_lock.release,
        after_in_child=global_compiler_lock.release,
    )
