"""The HTTP server of one process: address, TLS, limits on connections, signals, an orderly end.

    serve(config, folder)        until SIGTERM or SIGINT

At the end new callers are refused and samples that wait for siblings are sent away (they are on disk, and their callers
try again); groups that are being scored and calls of judges get `shutdown` seconds.
"""

from __future__ import annotations

import asyncio
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
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from rubrank.errors import InvalidInput, RubrankError
from rubrank.judges.client.runtime import close_runtime
from rubrank.service.access import make_error_response, refuse
from rubrank.service.app import OpenService, make_app
from rubrank.service.config import ServiceConfig
from rubrank.service.service import Service, open_service

_OWNER = "serve"
_BACKLOG = 2048
_KEEP_ALIVE = 75  # seconds; trainers pause longer between steps, but proxies cut sooner

LARGEST_HEAD = 512 * 2**10
"""Bytes until the headers are complete; uvicorn reads pieces of 256 KB, which may hold some of the body."""
SLOWEST_HEAD = 60.0
"""Seconds until the headers are complete."""
MOST_PIPELINED = 64
"""Requests of one connection that wait for the answer to another."""


class LimitedProtocol(HttpToolsProtocol):
    """One connection, with limits on what a caller may send before anybody knows who it is.

    uvicorn itself reads headers and bodies for as long as they come, and accepts any number of pipelined requests.
    """

    slowest_body = 120.0
    """Seconds until the body is complete, whether or not anybody reads it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._head_bytes = 0
        self._in_body = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """The connection is open, and the first request is awaited."""
        super().connection_made(transport)
        self._limit(SLOWEST_HEAD, "headers")

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """A piece of a request."""
        if not self._in_body:
            self._head_bytes += len(data)
            if self._head_bytes > LARGEST_HEAD:
                self._refuse(431, "headers", f"at most {LARGEST_HEAD:,} bytes", "more")
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._limit(SLOWEST_HEAD, "headers")

    def on_headers_complete(self) -> None:
        """The body follows, if there is one."""
        self._in_body = True
        self._head_bytes = 0
        self._limit(self.slowest_body, "body")
        super().on_headers_complete()
        if len(self.pipeline) > MOST_PIPELINED:
            self.transport.abort()

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._in_body = False
        self._stop_timer()
        super().on_message_complete()

    def _limit(self, seconds: float, what: str) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(
            seconds, self._refuse, 408, what, f"sent within {seconds:g} s", "less than all of it by then"
        )

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: int, what: str, allowed: str, got: str) -> None:
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if not is_answering and not (self._in_body and self.cycle is not None):
            # Otherwise the error would be taken for the answer to another request, or follow an answer already given.
            answer = make_error_response(refuse(status, what, allowed, got))
            head = f"HTTP/1.1 {status} Refused\r\nContent-Type: application/json\r\nConnection: close\r\n"
            self.transport.write(f"{head}Content-Length: {len(answer.body)}\r\n\r\n".encode() + bytes(answer.body))
        self.transport.close()


class _Server(uvicorn.Server):
    """Exits with code 0 when it is asked to end, and tells the service before it waits for callers."""

    def __init__(self, config: uvicorn.Config, on_listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_listening = on_listening

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """uvicorn raises the signal once more at the end; an orderly end is not a failure."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say where."""
        await super().startup(sockets)
        if not self.should_exit:
            self._on_listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Send away callers that wait for siblings, then wait for the others."""
        service = getattr(self.config.app.state, "service", None)  # type: ignore[union-attr]
        if service is not None:
            service.begin_end()
        await super().shutdown(sockets)


def make_opener(config: ServiceConfig, folder: Path, failures: list[Exception] | None = None) -> OpenService:
    """How the app opens the service of a configuration. failures: gets the error if it cannot be opened."""
    secret = config.read_secret(folder)

    @asynccontextmanager
    async def opener() -> AsyncIterator[tuple[Service, str | None]]:
        try:
            service = await open_service(config, folder)
        except (RubrankError, OSError, sqlite3.Error) as error:
            if failures is not None:
                failures.append(error)
                logging.getLogger("uvicorn.error").disabled = True  # one line instead of a traceback, see `serve`
            raise
        try:
            yield service, secret
        finally:
            await service.close()

    return opener


def serve(config: ServiceConfig, folder: Path, *, on_listening: Callable[[str], None] = lambda url: None) -> None:
    """Serve until a signal ends it. on_listening: called with the URL when it listens."""
    failures: list[Exception] = []
    server, listener, _ = make_server(config, folder, on_listening, failures)
    try:
        server.run(sockets=[listener])
    except SystemExit:  # uvicorn could not start
        if failures:
            raise _explain_failure(failures[0], config, folder) from None
        raise
    finally:
        listener.close()
        close_runtime()
    if not server.started:
        sys.exit(1)


def make_server(
    config: ServiceConfig,
    folder: Path,
    on_listening: Callable[[str], None] = lambda url: None,
    failures: list[Exception] | None = None,
) -> tuple[uvicorn.Server, socket.socket, str]:
    """The server, the socket it is to listen on, and its URL."""
    tls = config.find_tls_files(folder)
    files: dict[str, Any] = {} if tls is None else {"ssl_certfile": str(tls[0]), "ssl_keyfile": str(tls[1])}

    class Protocol(LimitedProtocol):
        slowest_body = config.body_timeout + 5.0  # who reads the body gives up first, with a better error

    settings = uvicorn.Config(
        make_app(make_opener(config, folder, failures)),
        http=Protocol,
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
    listener = _listen(config)
    host, port = listener.getsockname()[:2]
    url = f"{'http' if tls is None else 'https'}://{f'[{host}]' if ':' in host else host}:{port}"

    def start() -> None:
        gc.freeze()  # all modules are loaded and stay: looking through them again takes a tenth of a request's time
        on_listening(url)

    return _Server(settings, start), listener, url


def _listen(config: ServiceConfig) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((config.host, config.port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        remedy = "Choose another port, or 0 for any that is free." if config.port else ""
        got = f"{config.host}:{config.port} ({error.strerror or error})"
        raise InvalidInput(_OWNER, "host and port", "free to listen on", got, remedy) from None
    return listener


def _explain_failure(error: Exception, config: ServiceConfig, folder: Path) -> Exception:
    """The error for a user whose service cannot start."""
    if isinstance(error, RubrankError):
        return error
    where = getattr(error, "filename", None) or config.state_folder(folder)
    got = f"{where} ({getattr(error, 'strerror', None) or error})"
    return InvalidInput(_OWNER, "folder and records", "where files can be written", got, "")
