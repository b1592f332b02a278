"""One endpoint at work: its connections, its limits, its health, and what its server understands.

    async with Lane(endpoint, judge, changed) as lane:
        outcome = await lane.attempt(call)      one request, or none if the endpoint was found closed meanwhile

A request waits for a place (`concurrency`), then for the rates; only then does the timeout of the call begin. A server
that refuses a parameter is asked again at once without it, which counts as the same attempt: nothing was paid for it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from rubrank.judges.client.breaker import Breaker
from rubrank.judges.client.completion import read_completion, shorten
from rubrank.judges.client.connections import Connections
from rubrank.judges.client.dialect import Dialect
from rubrank.judges.client.limits import Charge, Limits
from rubrank.judges.client.retrying import Outcome, of_status
from rubrank.judges.judge import Call, Endpoint, Judge, Reply

_BYTES_PER_TOKEN = 4.0
_MOST_LESSONS = 8  # refusals of parameters in a row; there are not more to learn


def _nothing(lane: Lane) -> None:
    pass


class Lane:
    """An endpoint of a judge, for one event loop."""

    def __init__(self, endpoint: Endpoint, judge: Judge, changed: Callable[[], None]) -> None:
        self.endpoint, self._judge = endpoint, judge
        self.last_failure = ""
        self.breaker = Breaker(judge.retry.breaker_failures, judge.retry.breaker_pause, changed)
        self._limits = Limits(endpoint.requests_per_minute, endpoint.tokens_per_minute)
        self._dialect = Dialect(endpoint, judge.sampling)
        self._places = asyncio.Semaphore(endpoint.concurrency)
        self._connections = Connections(endpoint)

    async def __aenter__(self) -> Self:
        await self._connections.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._connections.__aexit__(kind, error, at)

    async def attempt(
        self, call: Call, begun: Callable[[Lane], None] = _nothing, most: int | None = None
    ) -> Outcome | None:
        """Ask once; None if, when its turn came, the endpoint was not to be asked. `begun`: called when it is."""
        async with self._places:
            if not self.breaker.ready():
                return None
            self.breaker.enter()
            try:
                outcome = await self._ask(call, begun, most)
            except BaseException:
                self.breaker.abandoned()
                raise
        self._judge_health(outcome)
        return replace(outcome, reply=self._signed(outcome.reply))

    def _judge_health(self, outcome: Outcome) -> None:
        if outcome.healthy:
            self.breaker.succeeded()
        else:
            self.last_failure = outcome.reply.failure or ""
            self.breaker.failed()
        if outcome.wait:
            self.breaker.hold(outcome.wait)

    def _signed(self, reply: Reply) -> Reply:
        return replace(reply, endpoint=self.endpoint.base_url, model=self.endpoint.model)

    async def _ask(self, call: Call, begun: Callable[[Lane], None], most: int | None) -> Outcome:
        outcome = None
        for lesson in range(_MOST_LESSONS):
            body = self._dialect.body(call, most)
            content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
            charge = await self._limits.admit(self._guess(content, most))
            if not lesson:
                begun(self)
            outcome, refused = await self._request(content, body)
            self._settle(charge, outcome)
            if not refused:
                break
        assert outcome is not None
        return outcome

    def _guess(self, content: bytes, most: int | None) -> float:
        if not self._limits.counts_tokens:
            return 0.0
        return len(content) / _BYTES_PER_TOKEN + (most or self._judge.sampling.max_tokens)

    def _settle(self, charge: Charge, outcome: Outcome) -> None:
        usage = outcome.reply.usage
        used = usage.input_tokens + usage.output_tokens
        unpaid = outcome.reply.text is None  # turned away: costs nothing
        self._limits.settle(charge, used if used or unpaid else None)

    async def _request(self, content: bytes, body: dict[str, Any]) -> tuple[Outcome, bool]:
        """What one request came to, and whether a parameter was refused that can be left out."""
        import httpx2
        import openai

        timeout = self._judge.timeout
        client = self._connections.take()
        try:
            async with asyncio.timeout(timeout):
                response = await client.post("/chat/completions", cast_to=httpx2.Response, content=content)
            return read_completion(response.content, self.endpoint.price), False
        except openai.APIStatusError as error:
            return self._of_status(error, body)
        except (TimeoutError, openai.APITimeoutError):
            return _unreachable(f"timeout after {timeout:g} s"), False
        except (openai.OpenAIError, httpx2.HTTPError, OSError) as error:
            return _unreachable(f"connection failed: {shorten(repr(error.__cause__ or error))}"), False
        finally:
            self._connections.give_back(client)

    def _of_status(self, error: Any, body: dict[str, Any]) -> tuple[Outcome, bool]:
        said, about = _said(error), f"{error.param or ''} {_said(error)}"
        outcome = of_status(error.status_code, said, error.code, error.response.headers, self._judge.retry)
        return outcome, self._dialect.learn(body, error.status_code, about)

    async def models(self) -> list[str] | Outcome:
        """The names that the server lists, or what it said instead."""
        async with self._places:
            return await self._list_models()

    async def _list_models(self) -> list[str] | Outcome:
        import httpx2
        import openai

        client = self._connections.take()
        try:
            async with asyncio.timeout(self._judge.timeout):
                response = await client.get("/models", cast_to=httpx2.Response)
            return [str(entry["id"]) for entry in response.json()["data"]]
        except openai.APIStatusError as error:
            return self._of_status(error, {})[0]
        except (TimeoutError, openai.OpenAIError, httpx2.HTTPError, OSError) as error:
            return _unreachable(f"connection failed: {shorten(repr(error.__cause__ or error))}")
        except (ValueError, KeyError, TypeError):
            return []  # something else lives there; a completion will tell
        finally:
            self._connections.give_back(client)


def _unreachable(failure: str) -> Outcome:
    return Outcome(Reply(None, failure), "again", healthy=False)


def _said(error: Any) -> str:
    """What the server gave as the reason of an HTTP error."""
    body = error.body
    message = body.get("message") or body.get("detail") if isinstance(body, dict) else body
    return shorten(message or "")
