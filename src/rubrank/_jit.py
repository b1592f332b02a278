"""Compiled code: numba's `njit` with a cache on disk that can never make a call fail."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from numba import njit
from numba.core.compiler_lock import global_compiler_lock

_log = logging.getLogger("rubrank")
_has_announced = False


def jit(function: Callable[..., Any]) -> Any:
    """Compile a function with numba's `njit` and its cache on disk; without a cache if no folder can be written.

    Compiled functions hold Python's lock while they run, and use one thread. Two threads that fuse at the same time
    take turns, a forked child inherits no lock that could block it, and the processes of a data-parallel trainer do not
    compete for cores.
    """
    try:
        dispatcher = njit(function, cache=True, error_model="numpy")
    except RuntimeError:  # numba found no folder that it may write to
        return njit(function, error_model="numpy")
    _make_cache_safe(dispatcher._cache)
    return dispatcher


def _make_cache_safe(cache: Any) -> None:
    """Make the cache compile again, instead of raising, if its folder is gone, its disk full or a file damaged."""
    load_overload = cache.load_overload
    save_overload = cache.save_overload

    def load(signature: Any, context: Any) -> Any:
        overload = None
        try:
            overload = load_overload(signature, context)
        except OSError:
            pass
        except Exception as error:  # a damaged pickle can raise anything
            _clear_cache(cache, error)
        if overload is None:
            _announce(cache.cache_path)
        return overload

    def save(signature: Any, data: Any) -> None:
        try:
            save_overload(signature, data)
        except OSError:
            pass
        except Exception as error:
            _clear_cache(cache, error)

    cache.load_overload = load
    cache.save_overload = save


def _announce(path: str) -> None:
    """Print, once per process, why the first step takes so long."""
    global _has_announced
    if not _has_announced:
        _has_announced = True
        text = (
            f"rubrank: compiling numeric kernels, once for this machine; they are cached in {path}"
        )
        print(text, file=sys.stderr, flush=True)


def _clear_cache(cache: Any, error: Exception) -> None:
    """Log the error that a damaged cache caused, and delete its files."""
    _log.warning(
        "the cache of compiled code in %s is damaged (%s) and will be rebuilt",
        cache.cache_path,
        error,
    )
    with suppress(Exception):
        cache.flush()


if hasattr(os, "register_at_fork"):  # not on Windows
    # A child forked while another thread compiles would wait for numba's lock forever: fork when no thread holds it.
    os.register_at_fork(
        before=global_compiler_lock.acquire,
        after_in_parent=global_compiler_lock.release,
        after_in_child=global_compiler_lock.release,
    )
