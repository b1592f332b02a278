"""Judges and calls for the tests of the client."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from server import MODEL, Server

from rubrank.judges.client.cache import CallKeys
from rubrank.judges.client.client import Client
from rubrank.judges.judge import Call, Endpoint, Judge, Judges, Reply, Retry

T = TypeVar("T")

SCHEMA = {"type": "object", "properties": {"verdict": {"type": "number"}}, "required": ["verdict"]}
QUICK = {"first_wait": 0.01, "longest_wait": 0.05}


def judge_of(*servers: Server | str, endpoint: dict[str, Any] | None = None, retry: Any = None, **judge: Any) -> Judge:
    """A judge that asks these servers, and does not wait long before it asks again."""
    urls = [server if isinstance(server, str) else server.url for server in servers]
    endpoints = tuple(Endpoint(**{"base_url": url, "model": MODEL, **(endpoint or {})}) for url in urls)
    return Judge(endpoints=endpoints, retry=Retry(**{**QUICK, **(retry or {})}), **judge)


def call_of(text: str = "Is it good?", **call: Any) -> Call:
    return Call(({"role": "user", "content": text},), **call)


def key_for(call: Call, judge: Judge) -> bytes:
    """The key of a call in the cache."""
    return CallKeys(judge).key(call)


def run(main: Coroutine[Any, Any, T], seconds: float = 60.0) -> T:
    """In an event loop of its own; a test that hangs fails."""

    async def limited() -> T:
        async with asyncio.timeout(seconds):
            return await main

    return asyncio.run(limited())


async def ask_all(judge: Judge, calls: Sequence[Call], **client: Any) -> tuple[list[Reply], Client]:
    """All at once; the client is closed, its usage can be looked at. client: also settings of `Judges`."""
    names = {"cache_only", "on_outage", "outage_wait"} & set(client)
    settings = Judges.model_construct(
        judges=(judge,), **{"on_outage": "continue", **{name: client.pop(name) for name in names}}
    )
    async with Client(judge, settings, **client) as asker:
        return list(await asyncio.gather(*(asker.ask(call) for call in calls))), asker


def ask(judge: Judge, call: Call | None = None, **client: Any) -> Reply:
    """One call."""
    return run(ask_all(judge, [call or call_of()], **client))[0][0]
