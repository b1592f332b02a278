"""All endpoints that an event loop asks: one of each, for all callers, with its limits, breaker and connections.

async with Endpoints() as endpoints:
    served = endpoints.serve(judge, processes=1)        the endpoints of a judge
    ...
    endpoints.leave(served)                             its limits hold no more; connections and health stay known
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Self
from urllib.parse import urlsplit

from rubrank.judges.client.endpoint import JudgeEndpoint, SharedEndpoint
from rubrank.judges.client.sharing import Use
from rubrank.judges.client.transport import PORTS, Transport
from rubrank.judges.judge import Endpoint, Judge, Reply


class Endpoints:
    """Belongs to one event loop."""

    def __init__(self) -> None:
        self._transport = Transport()
        self._shared: dict[str, SharedEndpoint] = {}
        self._news = asyncio.Event()
        self._sharing = False
        self.running: dict[tuple[int, bytes], asyncio.Future[Reply | None]] = {}
        """Calls that are being asked, by store and key."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *about: object) -> None:
        await self._transport.__aexit__(*about)
        self._shared = {}

    def serve(self, judge: Judge, processes: int = 1) -> list[JudgeEndpoint]:
        """The endpoints of a judge, in its order."""
        return [JudgeEndpoint(self._of(endpoint), endpoint, judge, processes) for endpoint in judge.endpoints]

    def leave(self, served: Iterable[JudgeEndpoint]) -> None:
        """The judge asks no more."""
        for one in served:
            one.close()

    def _of(self, endpoint: Endpoint) -> SharedEndpoint:
        address = _one_spelling(endpoint.base_url)
        name = json.dumps([address, endpoint.model, endpoint.api_key_env, dict(endpoint.headers)])
        if name not in self._shared:
            self._shared[name] = SharedEndpoint(endpoint, self._transport, self._tell)
            if self._sharing:
                self._shared[name].hold(0)  # until it is known what the others have left
        return self._shared[name]

    def uses(self) -> dict[str, Use]:
        """What this process does with each endpoint that is asked, for `sharing.Shares`."""
        self._sharing = True
        asked = {name: shared for name, shared in self._shared.items() if shared.ceiling}
        return {name: Use(shared.ceiling, shared.places.wanted, shared.places.taken) for name, shared in asked.items()}

    def hold(self, places: Mapping[str, int]) -> None:
        """Keep to these parts of the limits."""
        for name, number in places.items():
            if name in self._shared:
                self._shared[name].hold(number)

    def _tell(self) -> None:
        """An endpoint opened or closed: waiting calls look again."""
        self._news.set()
        self._news = asyncio.Event()

    async def news(self) -> None:
        """Until an endpoint opens or closes."""
        await self._news.wait()


def _one_spelling(url: str) -> str:
    """The same for all spellings of an address: "http://LocalHost:80/v1/#x" is "http://localhost/v1"."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:  # asking it will say what is wrong
        return url
    user, sign, _ = parts.netloc.rpartition("@")
    shown = f"[{host}]" if ":" in host else host
    usual = port is None or port == PORTS.get(parts.scheme)
    return parts._replace(
        netloc=f"{user}{sign}{shown}{'' if usual else f':{port}'}", path=parts.path.rstrip("/"), fragment=""
    ).geturl()
