"""A Ray cluster to work on: the one that is there, the one at an address, or one on this machine for as long as needed.

with connected("ray://head:10001", "grade") as ray:
    ray.get(...)
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rubrank.errors import InvalidInput


def found_ray(owner: str) -> Any:
    """The packages of Ray and Ray Data; one clear error where they are not installed."""
    try:
        import ray
        import ray.data
    except ImportError as error:
        remedy = "pip install 'rubrank[ray]'."
        raise InvalidInput(owner, "engine", "'ray' only where Ray is installed", str(error), remedy) from None
    return ray


@contextmanager
def connected(address: str | None, owner: str) -> Iterator[Any]:
    """Ray, ready to work; what is connected already is used and stays. address: None: a cluster on this machine."""
    ray = found_ray(owner)
    if ray.is_initialized():
        yield ray
        return
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "warning"}
    if address is None:
        options |= {"include_dashboard": False}
    try:
        ray.init(address=address or "local", **options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        said = str(error).strip().partition("\n")[0]
        raise InvalidInput(owner, "address", "that of a Ray cluster", f"{address!r} ({said})", "") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def processors(ray: Any) -> int:
    """How many the cluster has."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


@contextmanager
def quiet(ray: Any) -> Iterator[None]:
    """No bars and reports of Ray Data meanwhile: the command line has its own."""
    context, log = ray.data.DataContext.get_current(), logging.getLogger("ray.data")
    bars, level = context.enable_progress_bars, log.level
    context.enable_progress_bars = False
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        context.enable_progress_bars = bars
        log.setLevel(level)
