"""One connection over HTTP/1.1, and the pool it comes from.

    pool = Pool()
    connection = await pool.take(origin)                     an idle one, or a new one
    response = await connection.ask(b"POST /v1/… HTTP/1.1…")
    pool.give_back(connection)                               idle, unless it is to be closed

Replies are parsed by `httptools`, the parser of Node.js. What a server may do wrong ends as `ConnectionError` (it went
away, or does not speak HTTP) or `BadBody` (too much); a request that is cancelled takes its connection with it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple, cast

LARGEST = 8 * 2**20
"""Bytes of a body, packed or not; the longest replies with log-probabilities have about five million."""

_LARGEST_HEAD = 256 * 2**10  # bytes of status line and headers
_CONNECT = 10.0  # seconds; the rest of a call has the judge's timeout
_HANDSHAKE = 20.0  # seconds more where there is TLS
_NEXT_ADDRESS = 2.0  # seconds for an address of a host that has others
_KEEP_ALIVE = (
    30.0  # seconds; servers close idle connections after a while, at the moment of the next request if badly timed
)
_RESOLVED = 10.0  # seconds for which the addresses of a host are known


class BadBody(Exception):  # noqa: N818 - says what is wrong
    """A body that is too large, or that cannot be decompressed."""


class NoConnection(ConnectionError):  # noqa: N818 - says what is wrong
    """There was none in time."""


class Origin(NamedTuple):
    """Where a connection leads."""

    scheme: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Response:
    """What a server sent."""

    status: int
    headers: Mapping[str, str]
    """By names in lower case."""
    body: bytes


class Connection(asyncio.Protocol):
    """Asks one thing after another."""

    def __init__(self, origin: Origin, lost: Callable[[Connection], None]) -> None:
        from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

        self.origin, self._lost = origin, lost
        self.idle_since = 0.0
        self.is_open = False
        self._parser = HttpResponseParser(self)
        self._errors = (HttpParserError, HttpParserUpgrade)
        self._waiting: asyncio.Future[Response] | None = None
        self._clear()

    def _clear(self) -> None:
        self._headers: dict[str, str] = {}
        self._pieces: list[bytes] = []
        self._size = self._head = 0
        self._in_body = False

    async def ask(self, request: bytes) -> Response:
        """The reply to a request as it goes over the wire."""
        if not self.is_open:
            raise ConnectionResetError("the server closed the connection")
        self._clear()
        waiting = self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            return await waiting
        except BaseException:
            self.abort()
            raise
        finally:
            self._waiting = None

    def close(self) -> None:
        """Say goodbye."""
        self.is_open = False
        self._transport.close()

    def abort(self) -> None:
        """Without a word: something is still on its way."""
        self.is_open = False
        self._transport.abort()

    # ------------------------------------------------------------------------------------------------ of the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It stands."""
        self._transport, self.is_open = cast(asyncio.Transport, transport), True

    def data_received(self, data: bytes) -> None:
        """A piece of a reply."""
        if self._waiting is None:  # nothing was asked: whatever it means, it is not meant for the next call
            self.abort()
            return
        self._head += 0 if self._in_body else len(data)
        if self._head > 2 * _LARGEST_HEAD:  # the last piece may have brought a part of the body
            self._fail(BadBody("its headers do not end"))
            return
        try:
            self._parser.feed_data(data)
        except self._errors as error:
            self._fail(ConnectionError(f"not HTTP/1.1: {error}"))

    def connection_lost(self, error: Exception | None) -> None:
        """It is closed; a body that is not measured ends here."""
        whole = error is None and self._in_body and not {"content-length", "transfer-encoding"} & self._headers.keys()
        self.is_open = False
        if whole:
            self.on_message_complete()
        self._fail(error or ConnectionResetError("the server closed the connection"))
        self._lost(self)

    def _fail(self, error: Exception) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)
        if self.is_open:
            self.abort()

    # ------------------------------------------------------------------------------------------------- of the parser

    def on_message_begin(self) -> None:
        """Another reply begins; after the one that was asked for, nothing is to come."""
        if self._waiting is None or self._waiting.done():
            self.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header; of those that come twice the first holds."""
        self._headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
        self._size += len(name) + len(value)
        if self._size > _LARGEST_HEAD:
            self._fail(BadBody("its headers are too large"))

    def on_headers_complete(self) -> None:
        """The body begins."""
        self._in_body, self._size = True, 0

    def on_body(self, piece: bytes) -> None:
        """A part of the body."""
        self._size += len(piece)
        if self._size > LARGEST:
            self._fail(BadBody(f"it has more than {LARGEST // 2**20} MB"))
        else:
            self._pieces.append(piece)

    def on_message_complete(self) -> None:
        """The reply is whole; one that only says that there will be one (100 to 199) is not the reply."""
        status = self._parser.get_status_code()
        if status < 200:
            self._clear()
            return
        self.is_open = self.is_open and self._parser.should_keep_alive()
        if self._waiting is not None and not self._waiting.done():
            body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
            self._waiting.set_result(Response(status, self._headers, body))


class Pool:
    """The connections of one event loop; as many as are needed."""

    def __init__(self) -> None:
        self._idle: dict[Origin, list[Connection]] = {}
        self._all: set[Connection] = set()
        self._hosts: dict[tuple[str, int], tuple[float, asyncio.Future[list[str]]]] = {}
        self._sweeping: asyncio.TimerHandle | None = None

    async def take(self, origin: Origin) -> Connection:
        """The one that was used last, or a new one; raises OSError, and NoConnection where it takes too long."""
        idle = self._idle.get(origin)
        while idle:
            connection = idle.pop()
            if connection.is_open:
                return connection
        try:
            async with asyncio.timeout(_CONNECT + (_HANDSHAKE if origin.scheme == "https" else 0.0)):
                return await self._connected(origin)
        except TimeoutError as error:
            raise NoConnection("no connection in time") from error

    def give_back(self, connection: Connection) -> None:
        """It is idle, or closed if the server wants it so."""
        if not connection.is_open:
            connection.close()
            return
        connection.idle_since = time.monotonic()
        self._idle.setdefault(connection.origin, []).append(connection)
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(_KEEP_ALIVE, self._sweep)

    def close(self) -> int:
        """All of them; how many there were."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        self._sweeping, self._idle = None, {}
        for connection in self._all:
            connection.abort()
        return len(self._all)

    def _sweep(self) -> None:
        """Close those that have been idle for long."""
        long_ago = time.monotonic() - _KEEP_ALIVE
        for origin, idle in self._idle.items():
            for connection in idle:
                if connection.idle_since <= long_ago:
                    connection.close()
            self._idle[origin] = [connection for connection in idle if connection.is_open]
        left = any(self._idle.values())
        self._sweeping = asyncio.get_running_loop().call_later(_KEEP_ALIVE / 3, self._sweep) if left else None

    async def _connected(self, origin: Origin) -> Connection:
        addresses = await self._addresses(origin)
        if len(addresses) == 1:
            return await self._open(origin, addresses[0])
        for address in tuple(addresses):
            last = address == addresses[-1]
            try:
                async with asyncio.timeout(None if last else _NEXT_ADDRESS):
                    connection = await self._open(origin, address)
            except (TimeoutError, OSError):
                if last:
                    raise
                continue
            if address != addresses[0]:
                addresses.sort(key=lambda other: other != address)  # the next connections begin with it
            return connection
        raise OSError(f"{origin.host} has no address")

    async def _open(self, origin: Origin, address: str) -> Connection:
        secure = origin.scheme == "https"
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: Connection(origin, self._all.discard),
            address,
            origin.port,
            ssl=self._tls if secure else None,
            server_hostname=origin.host if secure else None,
        )
        self._all.add(connection)
        return connection

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context()

    async def _addresses(self, origin: Origin) -> list[str]:
        """Of a host; looked up once for all who ask at the same time, and known for a while."""
        if _is_address(origin.host):
            return [origin.host]
        key = (origin.host, origin.port)
        until, found = self._hosts.get(key, (0.0, None))
        if found is None or until < time.monotonic():
            found = asyncio.ensure_future(_looked_up(origin))
            self._hosts[key] = (time.monotonic() + _RESOLVED, found)
            found.add_done_callback(lambda done: self._forget_failed(key, done))
        return await asyncio.shield(found)

    def _forget_failed(self, key: tuple[str, int], done: asyncio.Future[list[str]]) -> None:
        if done.cancelled() or done.exception() is not None:
            self._hosts.pop(key, None)


@lru_cache
def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


async def _looked_up(origin: Origin) -> list[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(origin.host, origin.port, type=1, proto=6)  # TCP
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
