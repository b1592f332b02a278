"""The HTTP connections to one server: the official client, several times over.

    async with Connections(endpoint) as connections:
        client = connections.take()          an AsyncOpenAI with a free connection
        ...
        connections.give_back(client)

A pool of httpcore looks at all of its connections for every request: with 256 of them that takes longer than the rest
of the request. So the connections are spread over pools of 16, and a list of free places says which pool has one. Who
was given back last is taken first: that connection is open already.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rubrank.judges.judge import Endpoint

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_POOL = 16
_CONNECT = 10.0  # seconds; the rest of a call has the judge's timeout
_NO_KEY = "none"  # local servers want none, and the official client wants one


class Connections:
    """As many as the endpoint's concurrency; opened when first used."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._clients: list[AsyncOpenAI] = []
        self._free: list[AsyncOpenAI] = []

    async def __aenter__(self) -> Self:
        import httpx2
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        left, verify = self._endpoint.concurrency, httpx2.create_ssl_context()  # made once: it takes 20 ms
        timeout = httpx2.Timeout(None, connect=_CONNECT)
        while left > 0:
            places = min(left, _POOL)
            limits = httpx2.Limits(max_connections=places, max_keepalive_connections=places)
            http = DefaultAsyncHttpxClient(limits=limits, timeout=timeout, verify=verify)
            client = AsyncOpenAI(
                base_url=self._endpoint.base_url, api_key=self._key(), max_retries=0, timeout=timeout,
                default_headers=dict(self._endpoint.headers), http_client=http,
            )  # fmt: skip
            self._clients.append(client)
            self._free += [client] * places
            left -= places
        return self

    def _key(self) -> str:
        return os.environ.get(self._endpoint.api_key_env) or _NO_KEY

    def take(self) -> AsyncOpenAI:
        """A client with a free connection; there is one for each that holds a place of the concurrency."""
        return self._free.pop()

    def give_back(self, client: AsyncOpenAI) -> None:
        """When the reply has been read, or the call given up."""
        self._free.append(client)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        for client in self._clients:
            await client.close()
        self._clients, self._free = [], []
