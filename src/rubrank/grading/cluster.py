"""Connect to a Ray cluster, and get results from it with clear errors.

    with connect_ray("ray://head:10001", "grade") as ray:
        ray.get(...)

The cluster is the one this process is already connected to, one at an address, or a new one on this machine. `owner`
in these functions is the command or function that an error names.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rubrank.errors import InvalidInput, RubrankError

# HOST:PORT or ray://HOST:PORT; the host may be IPv6 in brackets: ray://[::1]:10001
_ADDRESS = re.compile(r"(?:ray://)?\[?(?P<host>[^/\[\]\s]+)\]?:(?P<port>[0-9]{1,5})")
_SPECIAL_ADDRESSES = ("auto", "local")
_CONNECT_SECONDS = 5.0  # Ray itself tries for minutes


def import_ray(owner: str) -> Any:
    """Import Ray and Ray Data. Raises InvalidInput with how to install them if they are missing."""
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise InvalidInput(
            owner,
            "engine",
            allowed="'ray' only if Ray is installed",
            got=str(error),
            remedy="Run pip install 'rubrank[ray]'.",
        ) from None
    return ray


@contextmanager
def connect_ray(address: str | None, owner: str) -> Iterator[Any]:
    """Connect to Ray; an existing connection is used and stays open. address: if None, a local cluster is started."""
    ray = import_ray(owner)
    if ray.is_initialized():
        yield ray
        return
    start_ray(ray, address, owner)
    try:
        yield ray
    finally:
        ray.shutdown()


def start_ray(ray: Any, address: str | None, owner: str, **options: Any) -> None:
    """Connect to the cluster at an address; None: start one on this machine, with these options."""
    common: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if address is None:
        ray.init(address="local", include_dashboard=False, **common, **options)
        return
    check_reachable(address, owner)
    if "namespace" in options:  # the other options are about a cluster that is started here
        common["namespace"] = options["namespace"]
    try:
        ray.init(address=address, **common)
    except (ConnectionError, ValueError, RuntimeError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        text = lines[0] if lines else type(error).__name__
        if text.endswith(":") and len(lines) > 1:  # a heading: the last line says what happened
            text = f"{text} {lines[-1]}"
        raise _make_address_error(owner, address, text) from None


def check_reachable(address: str, owner: str) -> None:
    """Raise InvalidInput if this is not an address or nothing answers there; Ray itself would try for minutes."""
    if address in _SPECIAL_ADDRESSES:
        return
    match = _ADDRESS.fullmatch(address)
    if match is None or int(match["port"]) > 65535:
        raise _make_address_error(owner, address, "")
    try:
        socket.create_connection((match["host"], int(match["port"])), _CONNECT_SECONDS).close()
    except OSError as error:
        raise _make_address_error(owner, address, f"nothing answers there: {error}") from None


def _make_address_error(owner: str, address: str, why: str) -> InvalidInput:
    allowed = "the address of a Ray cluster: HOST:PORT, ray://HOST:PORT or auto"
    got = f"{address!r} ({why})" if why else repr(address)
    return InvalidInput(owner, "address", allowed=allowed, got=got)


def get_result(ray: Any, reference: Any, owner: str) -> Any:
    """Wait for the result of a task or an actor. Raises RubrankError if its process is lost or cannot start."""
    try:
        return ray.get(reference)
    except Exception as error:
        # Ray raises an error of a task as a class that is derived both from its own error and from the original class.
        if not any(base.__module__ == "ray.exceptions" for base in type(error).__mro__):
            raise
        cause = getattr(error, "cause", None) or error
        first_line = next((line.strip() for line in str(cause).splitlines() if line.strip()), "")
        summary = f"{type(cause).__name__}: {first_line.rstrip('.')}"
        raise RubrankError(
            f"{owner}: a process of the cluster failed ({summary}). See Ray's logs on that machine."
        ) from None


def count_processors(ray: Any) -> int:
    """Return the number of processors of the cluster, at least 1."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))
