"""The server of one process: address, TLS, signals, an orderly end.

    serve(config, folder)        until SIGTERM or SIGINT; then what is under way is finished, and everything written

At the end no caller is let in, samples that wait for siblings are sent away (they are on disk, and their callers try
again), groups that are being scored and calls of judges under way get `shutdown` seconds.
"""

from __future__ import annotations

import gc
import logging
import math
import signal
import socket
import sqlite3
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from rubrank.errors import InvalidInput, RubrankError
from rubrank.judges.client.runtime import close_runtime
from rubrank.service.app import Opened, make_app
from rubrank.service.config import ServiceConfig
from rubrank.service.protocol import LimitedProtocol
from rubrank.service.service import Service

_OWNER = "serve"
_BACKLOG = 2048
_KEEP_ALIVE = 75  # seconds: longer than trainers pause between steps would be better, but proxies cut sooner


class _Server(uvicorn.Server):
    """Ends with code 0 when it is asked to end, and tells the service before it waits for callers."""

    def __init__(self, config: uvicorn.Config, stated: Callable[[], None]) -> None:
        super().__init__(config)
        self._stated = stated

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Without raising the signal once more at the end: what has ended in order has not failed."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {one: signal.signal(one, self.handle_exit) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say where."""
        await super().startup(sockets)
        if not self.should_exit:
            self._stated()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Send away who waits for siblings, then wait for the others."""
        service = getattr(self.config.app.state, "service", None)  # type: ignore[union-attr]
        if service is not None:
            service.leave()
        await super().shutdown(sockets)


def opened(config: ServiceConfig, folder: Path, failed: list[Exception] | None = None) -> Opened:
    """The service of a configuration, as the app opens it. failed: is told why it could not be."""
    secret = config.secret(folder)

    @asynccontextmanager
    async def found() -> AsyncIterator[tuple[Service, str | None]]:
        try:
            service = await Service.opened(config, folder)
        except (RubrankError, OSError, sqlite3.Error) as error:
            if failed is not None:
                failed.append(error)
                logging.getLogger("uvicorn.error").disabled = True  # said in one line instead of a traceback
            raise
        try:
            yield service, secret
        finally:
            await service.close()

    return found


def serve(config: ServiceConfig, folder: Path, *, stated: Callable[[str], None] = lambda url: None) -> None:
    """Serve until it is ended. stated: called with the address when it listens."""
    tls = config.files_of_tls(folder)
    failed: list[Exception] = []
    app = make_app(opened(config, folder, failed))
    listening = _listening(config)
    made = _settings(app, config, tls)

    def up() -> None:
        gc.freeze()  # what is loaded stays: looking through it again and again is a tenth of a request's time
        stated(_url(listening, tls is not None))

    server = _Server(made, up)
    try:
        server.run(sockets=[listening])
    except SystemExit:  # so uvicorn ends where it could not start
        if failed:
            raise _in_words(failed[0], config, folder) from None
        raise
    finally:
        listening.close()
        close_runtime()
    if not server.started:
        sys.exit(1)


def _in_words(error: Exception, config: ServiceConfig, folder: Path) -> Exception:
    """What a user is told who asked for a service that cannot start."""
    if isinstance(error, RubrankError):
        return error
    where = getattr(error, "filename", None) or config.state_folder(folder)
    got = f"{where} ({getattr(error, 'strerror', None) or error})"
    return InvalidInput(_OWNER, "folder and records", "where files can be written", got, "")


def _settings(app: Any, config: ServiceConfig, tls: tuple[Path, Path] | None) -> uvicorn.Config:
    """Of uvicorn."""
    files: dict[str, Any] = {} if tls is None else {"ssl_certfile": str(tls[0]), "ssl_keyfile": str(tls[1])}
    return uvicorn.Config(
        app,
        http=LimitedProtocol,
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=max(1, math.ceil(config.shutdown)),
        **files,
    )


def _url(listening: socket.socket, tls: bool) -> str:
    host, port = listening.getsockname()[:2]
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def _listening(config: ServiceConfig) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((config.host, config.port))
        found.listen(_BACKLOG)
    except OSError as error:
        found.close()
        remedy = "Choose another port, or 0 for any that is free." if config.port else ""
        got = f"{config.host}:{config.port} ({error.strerror or error})"
        raise InvalidInput(_OWNER, "host and port", "free to listen on", got, remedy) from None
    return found
