"""The HTTP server of one process: address, TLS, limits on connections, signals, graceful shutdown.

    serve(config, folder)        until SIGTERM or SIGINT

A caller may send this much before its token is checked; everything later is limited by the configuration (`max_body`,
`body_timeout`, `max_waiting`):

    512 KB of headers, within 60 seconds       else 431 or 408
    64 pipelined requests per connection       else the connection is closed
    256 connections per address                else the oldest one without a token is closed

At shutdown, new callers and callers that wait for siblings get an error (their samples are on disk, and trainers try
again). Groups that are being scored and calls of judges get `shutdown` seconds to finish.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import resource
import signal
import socket
import sqlite3
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from starlette.requests import Request
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from rubrank.errors import InvalidInput, RubrankError
from rubrank.judges.client.runtime import close_runtime
from rubrank.service.app import OpenService, Token, make_app, make_error_response
from rubrank.service.config import ServiceConfig
from rubrank.service.requests import make_refusal
from rubrank.service.service import Service, open_service

_OWNER = "serve"
_BACKLOG = 2048
_MOST_DESCRIPTORS = 65536
# Seconds. Trainers may pause longer between steps, but proxies would close idle connections anyway.
_KEEP_ALIVE_SECONDS = 75

LARGEST_HEAD_BYTES = 512 * 2**10
"""Bytes until the headers are complete; uvicorn reads pieces of 256 KB, which may hold some of the body."""
SLOWEST_HEAD_SECONDS = 60.0
"""Seconds until the headers are complete."""
MOST_PIPELINED = 64
"""Pipelined requests of one connection: those that wait for the answer to an earlier one."""
MOST_UNTRUSTED = 256
"""Untrusted connections from one address. From all addresses together, a quarter of the file descriptors."""
LEAST_UNTRUSTED_SECONDS = 5.0
"""Age from which a connection may be closed to make room for a new one. Younger ones may be a trainer's burst."""


class ConnectionLimits:
    """The limits of a server, and the list of its untrusted connections.

    A connection is untrusted until it sends the token or, in a service without a token, a complete request. Trainers
    do that within milliseconds. So if there are too many untrusted connections, the oldest one is closed: clients
    without a token cannot take up the connections that clients with a token need.
    """

    def __init__(self, token: Token, slowest_body: float) -> None:
        self.token = token
        self.slowest_body = slowest_body
        """Seconds until the body is complete, whether or not a handler reads it."""
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most_in_total = max(16, descriptors // 4)
        self._untrusted: dict[LimitedProtocol, tuple[str, float]] = {}
        """Connection → its address, and when it was opened; oldest first."""

    def add_untrusted(self, connection: LimitedProtocol, address: str) -> None:
        """Register a new connection, and close an older one if there are too many."""
        now = time.monotonic()
        same_address = [
            (earlier, opened_at)
            for earlier, (earlier_address, opened_at) in self._untrusted.items()
            if earlier_address == address
        ]
        if len(self._untrusted) >= self._most_in_total:
            self._close(next(iter(self._untrusted)))
        elif len(same_address) >= MOST_UNTRUSTED:
            oldest, opened_at = same_address[0]
            if now - opened_at >= LEAST_UNTRUSTED_SECONDS:
                self._close(oldest)
        self._untrusted[connection] = (address, now)

    def _close(self, connection: LimitedProtocol) -> None:
        self.remove_untrusted(connection)
        connection.transport.abort()

    def remove_untrusted(self, connection: LimitedProtocol) -> None:
        """Remove a connection that is trusted now, or closed."""
        self._untrusted.pop(connection, None)


class LimitedProtocol(HttpToolsProtocol):
    """One connection, with limits on what a caller may send before its token is checked.

    uvicorn itself has no timeout for headers and bodies, and accepts any number of connections and pipelined requests.
    """

    def __init__(self, limits: ConnectionLimits, **options: Any) -> None:
        super().__init__(**options)
        self._limits = limits
        self._head_bytes = 0
        self._in_body = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start the timer for the first request of a new connection."""
        super().connection_made(transport)
        self._limits.add_untrusted(self, self.client[0] if self.client else "")
        self._start_timer(SLOWEST_HEAD_SECONDS, "headers")

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection that was closed."""
        self._stop_timer()
        self._limits.remove_untrusted(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count the bytes of a request's head, and pass them on to uvicorn."""
        if not self._in_body:
            self._head_bytes += len(data)
            if self._head_bytes > LARGEST_HEAD_BYTES:
                self._refuse(431, "headers", f"at most {LARGEST_HEAD_BYTES:,} bytes", "more")
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Start the timer for the head of a request."""
        super().on_message_begin()
        self._start_timer(SLOWEST_HEAD_SECONDS, "headers")

    def on_headers_complete(self) -> None:
        """Start the timer for the body, and check the token."""
        self._in_body = True
        self._head_bytes = 0
        self._start_timer(self._limits.slowest_body, "body")
        super().on_headers_complete()
        token = self._limits.token
        scope: Any = self.scope
        if token.is_needed and token.is_right(Request(scope)):
            self._limits.remove_untrusted(self)
        if len(self.pipeline) > MOST_PIPELINED:
            self.transport.abort()

    def on_message_complete(self) -> None:
        """Stop the timer: the request is complete."""
        self._in_body = False
        self._stop_timer()
        if not self._limits.token.is_needed:
            self._limits.remove_untrusted(self)
        super().on_message_complete()

    def _start_timer(self, seconds: float, what: str) -> None:
        """Refuse the request if this part of it is not complete in time."""
        self._stop_timer()
        allowed = f"sent within {seconds:g} s"
        got = "only a part of it"
        self._timer = self.loop.call_later(seconds, self._refuse, 408, what, allowed, got)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: int, what: str, allowed: str, got: str) -> None:
        """Answer with an error, if the client can still read one, and close the connection."""
        is_answering = self.cycle is not None and not self.cycle.response_complete
        is_reading_body = self._in_body and self.cycle is not None
        # In these two cases the client would read the error as the answer to another request, or after an answer.
        if not is_answering and not is_reading_body:
            answer = make_error_response(make_refusal(status, what, allowed=allowed, got=got))
            head = (
                f"HTTP/1.1 {status} Refused\r\nContent-Type: application/json\r\nConnection: close\r\n"
                f"Content-Length: {len(answer.body)}\r\n\r\n"
            )
            self.transport.write(head.encode() + bytes(answer.body))
        self.transport.close()


class _Server(uvicorn.Server):
    """Exits with code 0 after a signal, and tells the service to shut down before it waits for callers."""

    def __init__(self, config: uvicorn.Config, on_listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_listening = on_listening

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Like uvicorn, but without raising the signal again at the end: a graceful shutdown exits with code 0."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        old_handlers = {
            number: signal.signal(number, self.handle_exit)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in old_handlers.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and call `on_listening`."""
        await super().startup(sockets)
        if not self.should_exit:
            self._on_listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer callers that wait for siblings with an error, then wait for the others."""
        service = getattr(self.config.app.state, "service", None)  # type: ignore[union-attr]
        if service is not None:
            service.begin_shutdown()
        await super().shutdown(sockets)


def make_opener(
    config: ServiceConfig, folder: Path, failures: list[Exception] | None = None
) -> OpenService:
    """Return the function with which the app opens the service. failures: gets the error if that fails."""
    secret = config.read_secret(folder)

    @asynccontextmanager
    async def opener() -> AsyncIterator[tuple[Service, str | None]]:
        try:
            service = await open_service(config, folder)
        except (RubrankError, OSError, sqlite3.Error) as error:
            if failures is not None:
                failures.append(error)
                # `serve` prints one line instead of uvicorn's traceback.
                logging.getLogger("uvicorn.error").disabled = True
            raise
        try:
            yield service, secret
        finally:
            await service.close()

    return opener


def serve(
    config: ServiceConfig, folder: Path, *, on_listening: Callable[[str], None] = lambda url: None
) -> None:
    """Serve until a signal ends it. on_listening: called with the URL when it listens."""
    failures: list[Exception] = []
    server, listener, _ = make_server(config, folder, on_listening, failures)
    try:
        server.run(sockets=[listener])
    except SystemExit:  # uvicorn could not start
        if not failures:
            raise
        error = failures[0]
        if isinstance(error, RubrankError):
            raise error from None
        where = getattr(error, "filename", None) or config.state_folder(folder)
        raise InvalidInput(
            _OWNER,
            "folder and records",
            allowed="where files can be written",
            got=f"{where} ({getattr(error, 'strerror', None) or error})",
        ) from None
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
    """Return the server, the socket it is to listen on, and its URL."""
    tls = config.find_tls_files(folder)
    files: dict[str, Any] = {}
    if tls is not None:
        files = {"ssl_certfile": str(tls[0]), "ssl_keyfile": str(tls[1])}
    # Allow as many connections as the system does: the usual 1,024 may not be enough for one training step.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft < most:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    # The limit on bodies is later than that of `read_json`, which has a better error.
    limits = ConnectionLimits(Token(config.read_secret(folder)), config.body_timeout + 5.0)
    settings = uvicorn.Config(
        make_app(make_opener(config, folder, failures)),
        http=partial(LimitedProtocol, limits),  # type: ignore[arg-type]
        ws="none",
        lifespan="on",
        log_level="error",  # a warning is a line for every malformed request, which any caller can send
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=max(1, math.ceil(config.shutdown)),
        **files,
    )
    listener = _listen(config)
    host, port = listener.getsockname()[:2]
    scheme = "http" if tls is None else "https"
    url_host = f"[{host}]" if ":" in host else host
    url = f"{scheme}://{url_host}:{port}"

    def start() -> None:
        gc.freeze()  # all modules are loaded and stay: scanning them again would take a tenth of a request's time
        on_listening(url)

    return _Server(settings, start), listener, url


def _listen(config: ServiceConfig) -> socket.socket:
    """Return a socket that listens on the configured address. Raises InvalidInput if it is in use."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        return socket.create_server((config.host, config.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise InvalidInput(
            _OWNER,
            "host and port",
            allowed="free to listen on",
            got=f"{config.url_host}:{config.port} ({error.strerror or error})",
            remedy="Choose another port, or 0 for any that is free." if config.port else "",
        ) from None
