"""Compile once, keep on disk, and never fail because the disk says no."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def jit(function: Callable[..., Any]) -> Any:
    """`njit` with the on-disk cache; where no cache folder can be written, the same without a cache.

    Kernels hold Python's lock while they run and use one thread: two threads that fuse at the same time take turns, a
    forked child inherits nothing that could dead-lock, and a data-parallel trainer's processes do not fight for cores.
    """
    try:
        return njit(function, cache=True, error_model="numpy")
    except RuntimeError:  # numba found no folder that it may write to
        return njit(function, error_model="numpy")
