"""Requests over HTTP and bounded replies: one pool of connections for all endpoints of an event loop.

    async with Transport() as transport:
        response = await transport.request("POST", address.completions, content, address.headers)
        response.status, response.body                     200, b'{"choices": …'

Redirects are not followed: prompt and key are for one host. A body is read in pieces and given up beyond `LARGEST`
bytes after decompression, so that a small reply that unpacks to gigabytes costs a few megabytes. There are as many
connections as are needed; how many that is, the places of an endpoint say.
"""

from __future__ import annotations

import asyncio
import base64
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote, urlsplit, urlunsplit

from rubrank.judges.judge import Endpoint

if TYPE_CHECKING:
    import aiohttp

LARGEST = 8 * 2**20
"""Bytes of a body after decompression; the longest replies with log-probabilities have about five million."""

_CONNECT = 10.0  # seconds; the rest of a call has the judge's timeout
_KEEP_ALIVE = (
    30.0  # seconds; servers close idle connections after a while, at the moment of the next request if badly timed
)
_AGENT = "rubrank"
_NO_KEY = "none"  # local servers want none, and some refuse a request without


class BadBody(Exception):  # noqa: N818 - says what is wrong
    """A body that is too large, or that cannot be decompressed."""


@dataclass(frozen=True)
class Response:
    """What a server sent."""

    status: int
    headers: Mapping[str, str]
    """By names of any case."""
    body: bytes


class Address:
    """Where an endpoint is and what is sent along: its key, and whatever secrets its URL holds."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        parts = urlsplit(endpoint.base_url)
        self._user = (unquote(parts.username or ""), unquote(parts.password or "")) if parts.username else None
        host = parts.netloc.rpartition("@")[2]
        self._parts = parts._replace(netloc=host, fragment="")

    def url(self, path: str) -> str:
        """Of a path below the base."""
        return urlunsplit(self._parts._replace(path=self._parts.path.rstrip("/") + path))

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
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
            await asyncio.sleep(0.01)  # its connections say goodbye in the turns of the loop that follow

    async def request(
        self, method: str, url: str, content: bytes | None, headers: Mapping[str, str], proxy: str | None = None
    ) -> Response:
        """One request; raises what aiohttp raises, OSError, or BadBody."""
        session = self._session or self._open()
        async with session.request(
            method, url, data=content, headers=headers, allow_redirects=False, proxy=proxy
        ) as response:
            return Response(response.status, response.headers, await _read(response))

    def _open(self) -> aiohttp.ClientSession:
        import aiohttp

        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )
        return self._session


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """The body, in pieces."""
    unpack = _unpacker(response.headers.get("Content-Encoding", ""))
    pieces, size = [], 0
    async for piece in response.content.iter_any():
        if unpack is not None:
            try:
                piece = unpack.decompress(piece, LARGEST - size + 1)
            except zlib.error as error:
                raise BadBody(f"it cannot be decompressed ({error})") from None
        size += len(piece)
        if size > LARGEST:
            response.close()  # what is left of it is not waited for
            raise BadBody(f"it has more than {LARGEST // 2**20} MB")
        pieces.append(piece)
    if unpack is not None and not unpack.eof:
        raise BadBody("it ends too early")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _unpacker(encoding: str) -> zlib._Decompress | None:
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return None
    if name in ("gzip", "x-gzip", "deflate"):
        return zlib.decompressobj(47)  # gzip or zlib, whichever comes
    raise BadBody(f"it is packed as {name[:20]!r}, which was not asked for")
