"""One endpoint at work: its limits and its health, which all judges share, and how one judge asks it.

    shared = SharedEndpoint(endpoint, transport, changed)      one for all judges of an event loop
    served = JudgeEndpoint(shared, endpoint, judge)            what one judge needs of it
    outcome = await served.attempt(call)      one request, or none if the endpoint was found closed meanwhile

A request waits for a place (`concurrency`, or what the server bears), then for the rates; only then does the timeout of
the call begin. A server that refuses a parameter is asked again at once without it, which counts as the same attempt:
nothing was paid for it. Where judges give one endpoint different limits, the strictest hold.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from rubrank.judges.client.adaptive import AdaptivePlaces
from rubrank.judges.client.breaker import Breaker
from rubrank.judges.client.capabilities import Capabilities
from rubrank.judges.client.completion import read_completion, shorten
from rubrank.judges.client.limits import Charge, EndpointLimits
from rubrank.judges.client.retrying import RequestOutcome, of_status
from rubrank.judges.client.transport import Address, BadBody, NoConnection, Response, Transport
from rubrank.judges.judge import Call, Endpoint, Judge, Reply

_log = logging.getLogger("rubrank.judges")
_BYTES_PER_TOKEN = 4.0
_MOST_LESSONS = 8  # refusals of parameters in a row; there are not more to learn
_OK = 200
_TRIAL = 30.0  # seconds for a request that finds out whether an endpoint is back, or four times its usual latency
_LEARNING = 0.1
NO_ANSWER = Reply(None, "no endpoint answers")
OUTAGE = 3
"""So often must an endpoint be left alone in a row until it counts as away."""


@dataclass(frozen=True)
class Terms:
    """What one judge allows an endpoint."""

    concurrency: int
    requests_per_minute: float | None
    tokens_per_minute: float | None
    breaker_failures: int
    breaker_pause: float

    @classmethod
    def of(cls, endpoint: Endpoint, judge: Judge, processes: int) -> Terms:
        """Of one process among several of a run."""
        rates = (endpoint.requests_per_minute, endpoint.tokens_per_minute)
        requests, tokens = (None if rate is None else rate / processes for rate in rates)
        places = max(1, endpoint.concurrency // processes)
        if processes > endpoint.concurrency:
            _say_few_places(endpoint.where, endpoint.concurrency, processes)
        return cls(places, requests, tokens, judge.retry.breaker_failures, judge.retry.breaker_pause)


@cache
def _say_few_places(where: str, places: int, processes: int) -> None:
    """Once: a process cannot ask with less than one place."""
    what = "%s: concurrency is %d, and %d processes ask at the same time, with a place each: raise it, or use fewer"
    _log.warning(what, where, places, processes)


def _least(rates: list[float | None]) -> float | None:
    return min((rate for rate in rates if rate is not None), default=None)


class SharedEndpoint:
    """For one event loop."""

    def __init__(self, endpoint: Endpoint, transport: Transport, changed: Callable[[], None]) -> None:
        self.address, self.transport = Address(endpoint), transport
        self.breaker = Breaker(1, 0.0, changed)
        self.places = AdaptivePlaces(endpoint.concurrency)
        self.limits = EndpointLimits(None, None)
        self.capabilities: dict[str, Capabilities] = {}
        self.last_failure = ""
        self.answered = False
        self.refusals = 0
        """In a row, of key, model or URL."""
        self._latency = 0.0
        self._rates: tuple[float | None, float | None] = (None, None)
        self._terms: Counter[Terms] = Counter()  # thousands of judges of a service, all with the same
        self._places: int | None = None

    @property
    def ceiling(self) -> int:
        """The concurrency that all judges allow, before it is shared with other processes."""
        return min((terms.concurrency for terms in self._terms), default=0)

    def hold(self, places: int) -> None:
        """Use no more than so many places, and the same part of the rates: other processes have the rest."""
        self._places = places
        if self._terms:
            self._apply()

    def join(self, terms: Terms) -> None:
        """One more judge; until it leaves, its limits hold."""
        self._terms[terms] += 1
        if self._terms[terms] == 1:
            self._apply()

    def leave(self, terms: Terms) -> None:
        """Its limits are not needed any more."""
        self._terms[terms] -= 1
        if self._terms[terms] == 0:
            del self._terms[terms]
            if self._terms:
                self._apply()

    def _apply(self) -> None:
        every = self._terms
        ceiling = self.ceiling if self._places is None else min(self._places, self.ceiling)
        self.places.set_ceiling(ceiling)
        part = 1.0 if self._places is None else max(ceiling, 1) / self.ceiling
        requests, tokens = (
            _least([t.requests_per_minute for t in every]),
            _least([t.tokens_per_minute for t in every]),
        )
        rates = (None if requests is None else requests * part, None if tokens is None else tokens * part)
        if rates != self._rates:
            self._rates, self.limits = rates, EndpointLimits(*rates)
        self.breaker.allow(min(t.breaker_failures for t in every), max(t.breaker_pause for t in every))

    @property
    def is_away(self) -> bool:
        """Was it left alone several times, and each time found as before?"""
        return self.breaker.openings_in_a_row >= OUTAGE

    def trial_timeout(self, timeout: float) -> float:
        """Of a request that finds out whether it is back."""
        return min(timeout, max(_TRIAL, 4.0 * self._latency))

    def note(self, outcome: RequestOutcome, begun: float) -> None:
        """Learn from what a request came to."""
        if outcome.healthy:
            self.breaker.succeeded()
        else:
            self.last_failure = outcome.reply.failure or ""
            self.breaker.failed()
        if outcome.wait:
            self.breaker.hold(outcome.wait)
        self.refusals = self.refusals + 1 if outcome.final else 0
        if outcome.overloaded:
            self.places.overloaded(begun)
        elif outcome.healthy:
            self.places.succeeded()
            self._latency += (_LEARNING if self.answered else 1.0) * (time.monotonic() - begun - self._latency)
            self.answered = self.answered or outcome.next == "done"


class JudgeEndpoint:
    """An endpoint as one judge asks it."""

    def __init__(self, shared: SharedEndpoint, endpoint: Endpoint, judge: Judge, processes: int = 1) -> None:
        self.shared, self.endpoint, self._judge = shared, endpoint, judge
        self.where = endpoint.where
        self.no_answer = replace(NO_ANSWER, model=endpoint.model, endpoint=self.where)
        """The reply of a request that is under way."""
        self._terms = Terms.of(endpoint, judge, processes)
        form = json.dumps([endpoint.structured, dict(endpoint.extra_body), judge.sampling.model_dump()], default=repr)
        known = shared.capabilities.get(form)
        self._capabilities = known or Capabilities(endpoint, judge.sampling)
        shared.capabilities[form] = self._capabilities
        shared.join(self._terms)

    def close(self) -> None:
        """The judge asks no more."""
        self.shared.leave(self._terms)

    @property
    def breaker(self) -> Breaker:
        """Whether the endpoint may be asked."""
        return self.shared.breaker

    @property
    def is_final(self) -> bool:
        """Has the server refused key, model or URL for good? One that has answered before may have meant one call."""
        refusals, unauthorised = self.shared.refusals, self.shared.last_failure.startswith("HTTP 401")
        return refusals > 0 and (unauthorised or not self.shared.answered or refusals >= self._terms.breaker_failures)

    async def attempt(
        self, call: Call, begun: Callable[[JudgeEndpoint], None] | None = None, most: int | None = None
    ) -> RequestOutcome | None:
        """Ask once; None if, when its turn came, the endpoint was not to be asked. `begun`: called when it is."""
        shared = self.shared
        await shared.places.take()
        try:
            if not shared.breaker.ready():
                return None
            trial = shared.breaker.enter()
            at = time.monotonic()
            try:
                outcome = await self._ask(call, begun, most, trial)
            except BaseException:
                if trial:
                    shared.breaker.abandoned()
                raise
        finally:
            shared.places.give_back()
        shared.note(outcome, at)
        return self._signed(outcome)

    def _signed(self, outcome: RequestOutcome) -> RequestOutcome:
        """With the endpoint's name, and without its secrets. Written out: `replace` takes three times as long."""
        was, failure = outcome.reply, outcome.reply.failure
        reply = Reply(
            was.text,
            None if failure is None else self.shared.address.hide(failure),
            was.usage,
            model=self.endpoint.model,
            endpoint=self.where,
            finish_reason=was.finish_reason,
            logprobs=was.logprobs,
        )
        return RequestOutcome(reply, outcome.next, outcome.wait, outcome.healthy, outcome.overloaded, outcome.final)

    async def _ask(
        self, call: Call, begun: Callable[[JudgeEndpoint], None] | None, most: int | None, trial: bool
    ) -> RequestOutcome:
        timeout = self.shared.trial_timeout(self._judge.timeout) if trial else self._judge.timeout
        outcome = None
        for lesson in range(_MOST_LESSONS):
            body = self._capabilities.body(call, most)
            content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
            charge = await self.shared.limits.admit(self._guess(content, most))
            if not lesson and begun is not None:
                begun(self)
            outcome, refused = await self._request(content, body, timeout)
            self._settle(charge, outcome)
            if not refused:
                break
        assert outcome is not None
        return outcome

    def _guess(self, content: bytes, most: int | None) -> float:
        if not self.shared.limits.counts_tokens:
            return 0.0
        return len(content) / _BYTES_PER_TOKEN + (most or self._judge.sampling.max_tokens)

    def _settle(self, charge: Charge, outcome: RequestOutcome) -> None:
        usage = outcome.reply.usage
        used = usage.input_tokens + usage.output_tokens
        unpaid = outcome.reply.text is None  # turned away: costs nothing
        self.shared.limits.settle(charge, used if used or unpaid else None)

    async def _request(self, content: bytes, body: Mapping[str, Any], timeout: float) -> tuple[RequestOutcome, bool]:
        """What one request came to, and whether a parameter was refused that can be left out."""
        response = await self._response("POST", "/chat/completions", content, timeout)
        if isinstance(response, RequestOutcome):
            return response, False
        if response.status == _OK:
            return read_completion(response.body, self.endpoint.price), False
        return self._of_status(response, body)

    async def _response(
        self, method: str, path: str, content: bytes | None, timeout: float
    ) -> Response | RequestOutcome:
        """What the server sent, or why there is nothing."""
        try:
            async with asyncio.timeout(timeout):
                return await self.shared.transport.request(method, self.shared.address, path, content)
        except BadBody as error:
            return _unreachable(f"malformed reply: {error}")
        except NoConnection as error:
            return _unreachable(f"connection failed: {error}")
        except TimeoutError:
            return _unreachable(f"timeout after {timeout:g} s")
        except (OSError, ValueError) as error:
            return _unreachable(f"connection failed: {_in_words(error.__cause__ or error)}")

    def _of_status(self, response: Response, body: Mapping[str, Any]) -> tuple[RequestOutcome, bool]:
        if response.status < 300:
            return _unreachable(f"malformed reply: HTTP {response.status} instead of 200"), False
        message, param, code = _said(response.body)
        outcome = of_status(response.status, message, code, response.headers, self._judge.retry)
        return outcome, self._capabilities.learn(body, response.status, f"{param} {message}")

    async def models(self) -> list[str] | RequestOutcome:
        """The names that the server lists, or what it said instead."""
        await self.shared.places.take()
        try:
            response = await self._response("GET", "/models", None, min(self._judge.timeout, _TRIAL))
        finally:
            self.shared.places.give_back()
        if isinstance(response, RequestOutcome):
            return response
        if response.status != _OK:
            return self._of_status(response, {})[0]
        try:
            return [str(entry["id"]) for entry in json.loads(response.body)["data"]]
        except (ValueError, KeyError, TypeError, RecursionError):
            return []  # something else lives there; a completion will tell


def _in_words(error: BaseException) -> str:
    """What the system says about a connection, such as "connection refused"; else the error as it is."""
    if isinstance(error, OSError) and error.errno and error.errno > 0:
        return os.strerror(error.errno).lower()
    if isinstance(error, socket.gaierror):
        return str(error.strerror).lower()
    return shorten(repr(error))


def _unreachable(failure: str) -> RequestOutcome:
    return RequestOutcome(Reply(None, failure), "again", healthy=False, overloaded=failure.startswith("timeout"))


def _said(body: bytes) -> tuple[str, str, str | None]:
    """What the server gave as the reason of an HTTP error: a message, the parameter and a code."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return shorten(body[:1000].decode("utf-8", "replace")), "", None
    error = data.get("error", data) if isinstance(data, dict) else data
    if not isinstance(error, dict):
        return shorten(error or ""), "", None
    code = error.get("code")
    message = error.get("message") or error.get("detail") or ""
    return shorten(message), str(error.get("param") or ""), code if isinstance(code, str) else None
