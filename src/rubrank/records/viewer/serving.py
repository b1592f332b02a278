"""Host, port, token: the viewer as a local server.

serve([Path("records.jsonl")], host="127.0.0.1", port=8642)
"""

from __future__ import annotations

import ipaddress
import secrets
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from rubrank.errors import InvalidInput

PORT = 8642
_TRIED = 20  # ports, where the first is taken
_LOCAL = ("localhost", "127.0.0.1", "[::1]", "::1")


def is_loopback(host: str) -> bool:
    """Can only this machine reach it?"""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def serve(sources: Sequence[Path], *, host: str, port: int, opened: Callable[[str], None]) -> None:
    """Serve until Ctrl-C. opened: called with the address once it is known."""
    from rubrank.records.viewer.sources import check_source  # records need numpy, which the help text does not

    for source in sources:
        check_source(source)
    try:
        import uvicorn

        from rubrank.records.viewer.app import make_app
        from rubrank.records.viewer.run import ViewedRun, check_records
    except ImportError as error:
        needed = "starlette, uvicorn and msgspec"
        raise InvalidInput("view", "installed", needed, f"no {error.name}", "pip install 'rubrank[serve]'") from None
    token = None if is_loopback(host) else secrets.token_urlsafe(24)
    for source in sources:
        check_records(source)
    listening = _listen(host, port)
    runs = [ViewedRun(source) for source in sources]
    for run in runs:
        run.start()
    app = make_app(runs, hosts=_LOCAL if token is None else (), token=token)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=1))
    opened(address(host, listening.getsockname()[1], token))
    try:
        server.run(sockets=[listening])
    finally:
        for run in runs:
            run.stop()


def address(host: str, port: int, token: str | None) -> str:
    """What to open in a browser."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/" + (f"?token={token}" if token else "")


def _listen(host: str, port: int) -> socket.socket:
    """A socket at the port, or at the next that is free; 0 takes any."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    problem = ""
    for at in [port] if port == 0 else range(port, min(65536, port + _TRIED)):
        found = socket.socket(family)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((host, at))
            found.listen(128)  # a browser that comes before the server is up waits
            return found
        except OSError as error:
            found.close()
            problem = (error.strerror or str(error)).lower()
    raise InvalidInput("view", "port", "an address that is free", f"{host}:{port}: {problem}", "")
