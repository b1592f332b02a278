"""The calls of trainers, as they really make them."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import aiohttp


async def openrlhf(url: str, query: str, prompt: str, label: Any, *, timeout: float = 180.0, tries: int = 5) -> Any:
    """One sample a call; another session for every try; only errors of the client are tried again."""
    data = {"query": [query], "prompts": [prompt], "labels": [label]}
    for _ in range(tries):
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=timeout)) as session,
                session.post(f"{url}/openrlhf", json=data) as response,
            ):
                response.raise_for_status()
                return await response.json()
        except (aiohttp.ClientError, TimeoutError):
            await asyncio.sleep(0.2)
    raise RuntimeError("the reward could not be fetched")


async def slime(
    session: aiohttp.ClientSession, url: str, sample: dict[str, Any], *, tries: int = 10, path: str = "/slime"
) -> Any:
    """A shared session; the body is the reward."""
    for attempt in range(tries):
        try:
            async with session.post(url + path, json=sample) as response:
                response.raise_for_status()
                return await response.json()
        except (aiohttp.ClientError, TimeoutError):
            if attempt + 1 >= tries:
                raise
            await asyncio.sleep(min(2**attempt, 30) * 0.05 + 0.05 * random.random())
    return None


def nemo_gym(prompt: str, said: str, **row: Any) -> dict[str, Any]:
    """The body of /verify."""
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": said}]}
    params = {"input": [{"role": "user", "content": prompt}]}
    return {"responses_create_params": params, "response": {"id": "r", "output": [message]}, **row}
