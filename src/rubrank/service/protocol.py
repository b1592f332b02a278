"""HTTP as uvicorn speaks it, with an end to what a caller may send before anybody knows who it is.

    uvicorn.Config(app, http=LimitedProtocol)

uvicorn reads lines of headers for as long, and as many, as they come, and takes up every request that is sent ahead
of the answers. Here a connection is closed whose headers are too large or take too long, or that sends too far ahead.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from rubrank.service.access import error_response, refused

LARGEST_HEAD = 512 * 2**10
"""Bytes until the headers are complete; a piece of 256 KB, as they come in, may hold some of the body."""
SLOWEST_HEAD = 60.0
"""Seconds for the same, from the connection or the first byte on."""
MOST_AHEAD = 64
"""Requests of one connection that wait for the answer to another."""


class LimitedProtocol(HttpToolsProtocol):
    """One connection."""

    _head = 0
    _in_body = False
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """It stands: the first request is awaited."""
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is closed."""
        self._head_is_there()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """A piece of a request."""
        if not self._in_body:
            self._head += len(data)
            if self._head > LARGEST_HEAD:
                self._refuse(431, "headers", f"at most {LARGEST_HEAD:,} bytes", "more")
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._wait_for_head()

    def on_headers_complete(self) -> None:
        """Its body follows, if it has one."""
        self._in_body, self._head = True, 0
        self._head_is_there()
        super().on_headers_complete()
        if len(self.pipeline) > MOST_AHEAD:
            self.transport.abort()

    def on_message_complete(self) -> None:
        """It is whole."""
        self._in_body = False
        super().on_message_complete()

    def _wait_for_head(self) -> None:
        self._head_is_there()
        self._late = self.loop.call_later(SLOWEST_HEAD, self._is_late)

    def _head_is_there(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _is_late(self) -> None:
        self._refuse(408, "headers", f"sent within {SLOWEST_HEAD:g} s", "less than all of them by then")

    def _refuse(self, status: int, what: str, allowed: str, got: str) -> None:
        answer = error_response(refused(status, what, allowed, got))
        head = f"HTTP/1.1 {status} Refused\r\nContent-Type: application/json\r\nConnection: close\r\n"
        if self.cycle is None or self.cycle.response_complete:  # else it would be taken for the answer to another
            self.transport.write(f"{head}Content-Length: {len(answer.body)}\r\n\r\n".encode() + bytes(answer.body))
        self.transport.close()
