"""A Ray cluster to work on: the one that is there, the one at an address, or one on this machine for as long as needed.

with connected("ray://head:10001", "grade") as ray:
    ray.get(...)
"""

from __future__ import annotations

import gc
import logging
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rubrank.errors import InvalidInput, RubrankError

_FORM = re.compile(r"(?:ray://)?\[?(?P<host>[^/\[\]\s]+)\]?:(?P<port>[0-9]{1,5})")
_NAMES = ("auto", "local")
_KNOCK = 5.0  # seconds; Ray itself tries for minutes


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
    start(ray, address, owner)
    try:
        yield ray
    finally:
        ray.shutdown()


def start(ray: Any, address: str | None, owner: str, **options: Any) -> None:
    """Connect to the cluster at an address; None: start one on this machine, with these options."""
    common: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if address is None:
        ray.init(address="local", include_dashboard=False, **common, **options)
        return
    check_reachable(address, owner)
    known = {name: value for name, value in options.items() if name == "namespace"}
    try:
        ray.init(address=address, **common, **known)
    except (ConnectionError, ValueError, RuntimeError) as error:
        first, *more = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        said = f"{first} {more[-1]}" if more and first.endswith(":") else first
        raise _no_cluster(owner, address, said) from None


def check_reachable(address: str, owner: str) -> None:
    """Refuse what is no address, and one at which nothing answers, before Ray tries it for minutes."""
    if address in _NAMES:
        return
    found = _FORM.fullmatch(address)
    if found is None or int(found["port"]) > 65535:
        raise _no_cluster(owner, address, "")
    try:
        socket.create_connection((found["host"], int(found["port"])), _KNOCK).close()
    except OSError as error:
        raise _no_cluster(owner, address, f"nothing answers there: {error}") from None


def _no_cluster(owner: str, address: str, why: str) -> InvalidInput:
    allowed = "that of a Ray cluster: HOST:PORT, ray://HOST:PORT or auto"
    return InvalidInput(owner, "address", allowed, repr(address) + (f" ({why})" if why else ""), "")


def got(ray: Any, reference: Any, owner: str) -> Any:
    """What a task or an actor gave back; one clear error where a process of the cluster is lost, or cannot begin."""
    try:
        return ray.get(reference)
    except Exception as error:
        if not any(one.__module__ == "ray.exceptions" for one in type(error).__mro__):
            raise
        cause = getattr(error, "cause", None) or error
        why = next((line.strip() for line in str(cause).splitlines() if line.strip()), "")
        told = f"{type(cause).__name__}: {why.rstrip('.')}"
        raise RubrankError(f"{owner}: a process of the cluster failed ({told}). Ray's logs there say more.") from None


def processors(ray: Any) -> int:
    """How many the cluster has."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


@contextmanager
def held() -> Iterator[None]:
    """The garbage collector leaves what is there already alone: a million rollouts take it as long as their scores."""
    if gc.get_freeze_count():  # somebody else's doing, and to be undone by them
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


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
