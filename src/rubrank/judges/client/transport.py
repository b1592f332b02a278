"""HTTP requests to judge servers with aiohttp: one pool of connections for all endpoints of an event loop.

    transport = Transport()
    response = await transport.request("POST", address, "/chat/completions", content)
    response.status, response.body                     200, b'{"choices": …'

Redirects are not followed: prompt and key are meant for one host. A body that is larger than `MAX_BODY`, or compressed,
is rejected. The number of connections is not limited here; the concurrency of an endpoint limits it.
"""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

from rubrank.judges.client.protocol import shorten
from rubrank.judges.judge import Endpoint

if TYPE_CHECKING:
    import aiohttp  # in the extra `judge`, which is not needed to answer from the cache

MAX_BODY = 8 * 2**20
"""Bytes; the longest replies with log-probabilities have about five million."""

CONNECT_TIMEOUT = 20.0
"""Seconds, including the TLS handshake; the timeout of the judge covers the whole request."""
# Short, because a server may close an idle connection just as a request arrives.
_KEEP_ALIVE_SECONDS = 30.0
_MIN_SECRET_CHARACTERS = 6  # hiding shorter secrets would also hide ordinary words


class RequestFailed(ConnectionError):  # noqa: N818
    """No connection, or it broke, or a body that is too large or cannot be decompressed; the message says which."""


@dataclass(frozen=True, slots=True)
class Response:
    """What a server sent."""

    status: int
    headers: Mapping[str, str]
    """By names in lower case."""
    body: bytes


class Address:
    """The URL of an endpoint, the headers of its requests, and the secrets in both."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        parts = urlsplit(endpoint.base_url)
        self._credentials: tuple[str, ...] = ()
        if parts.username:
            self._credentials = (unquote(parts.username), unquote(parts.password or ""))
        host = parts.netloc.rpartition("@")[2]
        self._parts = parts._replace(netloc=host, fragment="")

    def url(self, path: str) -> str:
        """Return the URL of a path below the base."""
        return urlunsplit(self._parts._replace(path=self._parts.path.rstrip("/") + path))

    @cached_property
    def proxy(self) -> str | None:
        """The proxy that the environment names for this host."""
        proxy = getproxies().get(self._parts.scheme)
        if not proxy or proxy_bypass(self._parts.netloc):
            return None
        return proxy

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every request. The key is read from the environment each time: it may have been renewed."""
        key = os.environ.get(self._endpoint.api_key_env)
        # Local servers need no key, but some refuse a request without the header.
        authorization = f"Bearer {key or 'none'}"
        if self._credentials and not key:
            authorization = (
                "Basic " + base64.b64encode(":".join(self._credentials).encode()).decode()
            )
        headers = {
            "Authorization": authorization,
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": "rubrank",
        }
        # In the same spelling, so that a user's "authorization" replaces the one above.
        for name, value in self._endpoint.headers.items():
            headers[name.title()] = value
        for value in headers.values():
            if "\n" in value or "\r" in value or "\0" in value:
                raise RequestFailed("connection failed: a header or the key has a line break in it")
        return headers

    def hide_secrets(self, text: str) -> str:
        """Return the text with secrets replaced by ***: servers and errors tend to repeat keys and passwords."""
        secrets = [
            os.environ.get(self._endpoint.api_key_env, ""),
            *self._credentials,
            *self._endpoint.headers.values(),
        ]
        for pair in self._parts.query.split("&"):  # some servers take the key as ?key=…
            secrets.append(pair.partition("=")[2])
        # Longest first: one secret may be a part of another.
        for secret in sorted(set(secrets), key=len, reverse=True):
            if len(secret) >= _MIN_SECRET_CHARACTERS:
                text = text.replace(secret, "***")
                # A message that was shortened may end within the secret.
                for size in range(len(secret) - 1, _MIN_SECRET_CHARACTERS - 1, -1):
                    text = text.replace(secret[:size] + "…", "***…")
        return text


def open_session(
    *, read_timeout: float | None = None, decompress: bool = False
) -> aiohttp.ClientSession:
    """Open a session without cookies and without a limit on connections.

    read_timeout: seconds without a byte; None: no limit.
    decompress: let aiohttp decompress bodies, which it does without a limit on their size.
    """
    import aiohttp

    return aiohttp.ClientSession(
        # aiohttp makes its default context at import; making our own here respects an SSL_CERT_FILE that was set later.
        connector=aiohttp.TCPConnector(
            limit=0, keepalive_timeout=_KEEP_ALIVE_SECONDS, ssl=ssl.create_default_context()
        ),
        timeout=aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_TIMEOUT, sock_read=read_timeout
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=decompress,
    )


class Transport:
    """The connections of one event loop; opened by the first request."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None
            await asyncio.sleep(0.01)  # connections close in the next turns of the event loop

    async def request(
        self, method: str, address: Address, path: str, content: bytes | None = None
    ) -> Response:
        """Send one request; raises RequestFailed."""
        import aiohttp

        if self._session is None:
            self._session = open_session()
        try:
            async with self._session.request(
                method,
                address.url(path),
                data=content,
                headers=address.headers,
                allow_redirects=False,
                proxy=address.proxy,
            ) as response:
                # If a header comes twice, the first one counts.
                headers = {
                    name.lower(): value for name, value in reversed(list(response.headers.items()))
                }
                chunks = []
                size = 0
                async for chunk in response.content.iter_any():
                    size += len(chunk)
                    if size > MAX_BODY:
                        response.close()  # without waiting for the rest
                        raise RequestFailed(
                            f"malformed reply: it has more than {MAX_BODY // 2**20} MB"
                        )
                    chunks.append(chunk)
        except RequestFailed:
            raise
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise RequestFailed(f"connection failed: {describe_error(error)}") from error
        encoding = headers.get("content-encoding", "identity")
        if encoding != "identity":
            # It was not requested, and a decompression bomb could fill the memory.
            raise RequestFailed(f"malformed reply: its encoding is {encoding[:20]!r}")
        return Response(response.status, headers, b"".join(chunks))


def describe_error(error: BaseException) -> str:
    """Return what went wrong with a connection, such as "connection refused"."""
    error = getattr(error, "os_error", error)  # of aiohttp's ClientConnectorError
    # Numbers of errors of the operating system are positive; those of SSL and of name resolution are of another kind.
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if (
        isinstance(error, OSError)
        and not isinstance(error, ssl.SSLError)
        and error.errno
        and error.errno > 0
    ):
        return os.strerror(error.errno).lower()
    # Not repr(): the repr of aiohttp's errors contains the headers of the request, and with them the key.
    return shorten(str(error) or type(error).__name__)
