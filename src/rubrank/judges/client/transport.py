"""Requests over HTTP and bounded replies: one pool of connections for all endpoints of an event loop.

    async with Transport() as transport:
        response = await transport.request("POST", address, "/chat/completions", content)
        response.status, response.body                     200, b'{"choices": …'

Redirects are not followed: prompt and key are for one host. A body is given up beyond `LARGEST` bytes, and unpacked no
further than that, so that a small reply that unpacks to gigabytes costs a few megabytes. There are as many connections
as are needed; how many that is, the places of an endpoint say. Where the environment names a proxy, or `httptools` is
not installed, aiohttp asks.
"""

from __future__ import annotations

import asyncio
import base64
import os
import zlib
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Self
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from rubrank.judges.client.connection import LARGEST, BadBody, NoConnection, Origin, Pool, Response
from rubrank.judges.judge import Endpoint

if TYPE_CHECKING:
    import aiohttp

__all__ = ["PORTS", "Address", "BadBody", "NoConnection", "Response", "Transport"]

_OWN = find_spec("httptools") is not None  # environments of trainers may be without
_CONNECT = 10.0  # seconds, by way of aiohttp
_AGENT = "rubrank"
_NO_KEY = "none"  # local servers want none, and some refuse a request without
PORTS = {"http": 80, "https": 443}
_IN_PATHS = "/%:@!$&'()*+,;=~-._?"


class Address:
    """Where an endpoint is and what is sent along: its key, and whatever secrets its URL holds."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        parts = urlsplit(endpoint.base_url)
        self._user = (unquote(parts.username or ""), unquote(parts.password or "")) if parts.username else None
        host = parts.netloc.rpartition("@")[2]
        self._parts = parts._replace(netloc=host, fragment="")
        self._targets: dict[str, str] = {}

    def url(self, path: str) -> str:
        """Of a path below the base."""
        return urlunsplit(self._parts._replace(path=self._parts.path.rstrip("/") + path))

    @cached_property
    def origin(self) -> Origin:
        """Where its connections lead; ValueError where the URL names no host."""
        parts = self._parts
        host = (parts.hostname or "").encode("idna" if not (parts.hostname or "").isascii() else "ascii").decode()
        if not host:
            raise ValueError("the URL names no host")
        return Origin(parts.scheme, host, parts.port or PORTS[parts.scheme])

    def head(self, method: str, path: str, size: int) -> bytes:
        """Of a request, as it goes over the wire."""
        target = self._targets.get(path)
        if target is None:
            whole = urlsplit(self.url(path))
            target = self._targets[path] = quote(
                whole.path + (f"?{whole.query}" if whole.query else ""), safe=_IN_PATHS
            )
        fields = {"Host": self._host, **self.headers, "Content-Length": str(size)}
        lines = [f"{name}: {value}" for name, value in fields.items()]
        if any("\r" in line or "\n" in line or "\0" in line for line in lines):
            raise ValueError("a header or the key has a line break in it")
        return "\r\n".join([f"{method} {target} HTTP/1.1", *lines, "", ""]).encode()

    @cached_property
    def _host(self) -> str:
        scheme, host, port = self.origin
        host = f"[{host}]" if ":" in host else host
        return host if port == PORTS[scheme] else f"{host}:{port}"

    @cached_property
    def proxy(self) -> str | None:
        """Of the environment, if it names one for this host."""
        from urllib.request import getproxies, proxy_bypass

        found = getproxies().get(self._parts.scheme)
        return None if not found or proxy_bypass(self._parts.netloc) else found

    @property
    def headers(self) -> dict[str, str]:
        """Of every request; the key is read from the environment each time, where it may have been renewed."""
        key = os.environ.get(self._endpoint.api_key_env)
        authorization = f"Bearer {key or _NO_KEY}"
        if self._user is not None and not key:
            authorization = "Basic " + base64.b64encode(":".join(self._user).encode()).decode()
        own = {
            "Authorization": authorization,
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": _AGENT,
        }
        given = {name.title(): value for name, value in self._endpoint.headers.items()}
        return own | given

    def hide(self, text: str) -> str:
        """The text without secrets: servers and errors like to repeat them."""
        secrets = [os.environ.get(self._endpoint.api_key_env), *(self._user or ()), *self._endpoint.headers.values()]
        secrets += [pair.partition("=")[2] for pair in self._parts.query.split("&")]
        for secret in sorted({secret for secret in secrets if secret and len(secret) >= 6}, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text


class Transport:
    """The connections of one event loop; opened when first used."""

    def __init__(self) -> None:
        self._pool = Pool()
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        open_ones = self._pool.close()
        if self._session is not None:
            await self._session.close()
            self._session = None
            open_ones += 1
        if open_ones:
            await asyncio.sleep(0.01)  # connections say goodbye in the turns of the loop that follow

    async def request(self, method: str, address: Address, path: str, content: bytes | None = None) -> Response:
        """One request; raises OSError, ValueError, or BadBody."""
        if address.proxy is not None or not _OWN:
            response = await self._by_aiohttp(method, address, path, content)
        else:
            request = address.head(method, path, len(content or b"")) + (content or b"")
            connection = await self._pool.take(address.origin)
            response = await connection.ask(request)
            self._pool.give_back(connection)
        encoding = response.headers.get("content-encoding", "")
        return Response(response.status, response.headers, _unpacked(response.body, encoding)) if encoding else response

    async def _by_aiohttp(self, method: str, address: Address, path: str, content: bytes | None) -> Response:
        import aiohttp

        session = self._session or self._open()
        try:
            async with session.request(
                method,
                address.url(path),
                data=content,
                headers=address.headers,
                allow_redirects=False,
                proxy=address.proxy,
            ) as response:
                headers = {name.lower(): value for name, value in reversed([*response.headers.items()])}
                return Response(response.status, headers, await _read(response))
        except aiohttp.ServerTimeoutError as error:
            raise NoConnection("no connection in time") from error
        except aiohttp.ClientError as error:
            raise ConnectionError(str(error)) from error

    def _open(self) -> aiohttp.ClientSession:
        import aiohttp

        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )
        return self._session


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """The body, in pieces."""
    pieces, size = [], 0
    async for piece in response.content.iter_any():
        size += len(piece)
        if size > LARGEST:
            response.close()  # what is left of it is not waited for
            raise BadBody(f"it has more than {LARGEST // 2**20} MB")
        pieces.append(piece)
    return b"".join(pieces)


def _unpacked(body: bytes, encoding: str) -> bytes:
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return body
    if name not in ("gzip", "x-gzip", "deflate"):
        raise BadBody(f"it is packed as {name[:20]!r}, which was not asked for")
    unpack = zlib.decompressobj(47)  # gzip or zlib, whichever comes
    try:
        body = unpack.decompress(body, LARGEST + 1)
    except zlib.error as error:
        raise BadBody(f"it cannot be decompressed ({error})") from None
    if len(body) > LARGEST:
        raise BadBody(f"it has more than {LARGEST // 2**20} MB")
    if not unpack.eof:
        raise BadBody("it ends too early")
    return body
