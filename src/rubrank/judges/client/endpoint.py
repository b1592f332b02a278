"""Endpoints: circuit breaker, limits and health, which all judges share, and the requests of a single judge.

    pool = EndpointPool()                             one for each event loop
    endpoints = pool.open(judge)                      a JudgeEndpoint for each endpoint of the judge
    outcome = await endpoints[0].request(call)        one request
    endpoints[0].state.leave(endpoints[0])            its limits no longer apply; connections and health are kept

A request passes four stages:

    concurrency slot ──► circuit breaker ──► rate limits ──► HTTP ──► RequestOutcome
                             │ opened while the request waited for its slot: None, choose another endpoint

The timeout of a call begins with HTTP. If the server rejects a parameter, the request is sent again without it at once,
as part of the same attempt, since nothing was paid for. If judges set different limits for an endpoint, the strictest
hold.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TypeAlias

from rubrank.errors import InvalidInput, UnknownName
from rubrank.judges.client.limits import Breaker, ConcurrencyLimit, Demand, RateLimits
from rubrank.judges.client.protocol import (
    TIMEOUT,
    Capabilities,
    RequestOutcome,
    classify_status,
    make_no_response_outcome,
    read_error,
    read_response,
)
from rubrank.judges.client.transport import Address, RequestFailed, Response, Transport
from rubrank.judges.judge import SYSTEM_ONE, Call, Endpoint, Judge, Reply
from rubrank.judges.prompting.tokens import estimate_tokens

_log = logging.getLogger("rubrank.judges")

NO_ANSWER = Reply(None, "no endpoint answers")
OPENINGS_UNTIL_DOWN = 3
"""An endpoint is down after its breaker has opened this many times in a row."""
_BYTES_PER_TOKEN = 4.0  # a rough estimate, which the rate limits correct by what calls really use
_MAX_REJECTED_PARAMETERS = 8  # in a row; `Capabilities` has no more parameters to leave out
_MIN_TRIAL_SECONDS = 30.0  # timeout of a trial (if a server is slow, four times its average latency) and of GET /models
_LEARNING_RATE = 0.1  # of the moving average of the latency

# The calls of a health check: for a chat model, and for a decision model.
_CHECK_CALL = Call(({"role": "user", "content": "Say OK."},), purpose="check")
_CHECK_QUESTION = (
    '{"state": "OK", "questions": {"ok": {"type": "noul", "instructions": "Is it OK?"}}}'
)
_CHECK_DECISION = Call(
    ({"role": "user", "content": _CHECK_QUESTION},), purpose="check", protocol=SYSTEM_ONE
)

_KEY_REFUSED = (401, 403)
# Seconds between the attempts of a check, so that a single network error does not stop a run.
_CHECK_PAUSES = (0.3, 1.0)

OnPaid: TypeAlias = Callable[[Call, Reply], Awaitable[None]]
"""Called with each completion that a health check has paid for."""


# ------------------------------------------------------------------------------------------------ shared by all judges


@cache  # so that it is logged once
def _warn_of_few_slots(where: str, concurrency: int, processes: int) -> None:
    message = "%s: concurrency is %d, but %d processes send calls at the same time: raise it, or use fewer processes"
    _log.warning(message, where, concurrency, processes)


class EndpointState:
    """Limits, circuit breaker and health of one endpoint, for all judges of an event loop."""

    def __init__(
        self, endpoint: Endpoint, transport: Transport, on_change: Callable[[], None]
    ) -> None:
        self.address = Address(endpoint)
        self.transport = transport
        self.breaker = Breaker(1, 0.0, on_change)  # `join` configures it
        self.slots = ConcurrencyLimit(endpoint.concurrency)
        self.rates = RateLimits()
        self.capabilities: dict[str, Capabilities] = {}
        """By the judge's settings, as JSON: judges with different settings send different parameters."""
        self.last_failure = ""
        self.last_status = 200
        """Of the last request that failed."""
        self.has_answered = False
        self.consecutive_refusals = 0
        """Of key, model or URL."""
        self.latency = 0.0
        """A moving average of the seconds until a reply."""
        self._rates_per_minute = (math.inf, math.inf)
        self._judges: list[JudgeEndpoint] = []
        self._share: int | None = None

    @property
    def ceiling(self) -> int:
        """The concurrency that all judges allow, before it is shared with other processes."""
        return min((judge.concurrency for judge in self._judges), default=0)

    @property
    def is_down(self) -> bool:
        """Has the breaker opened several times, and every trial failed?"""
        return self.breaker.consecutive_openings >= OPENINGS_UNTIL_DOWN

    def set_share(self, slots: int) -> None:
        """Use at most this many slots, and the same fraction of the rates; other processes use the rest."""
        self._share = slots
        self._apply_limits()

    def join(self, judge: JudgeEndpoint) -> None:
        """Apply the limits of one more judge."""
        self._judges.append(judge)
        self._apply_limits()

    def leave(self, judge: JudgeEndpoint) -> None:
        """Drop the limits of a judge that has ended."""
        self._judges.remove(judge)
        self._apply_limits()

    def _apply_limits(self) -> None:
        """Set slots, rates and breaker to the strictest limits of all judges, or to this process's share of them."""
        judges = self._judges
        if not judges:
            return
        slots = self.ceiling
        fraction = 1.0
        if self._share is not None:
            slots = min(self._share, self.ceiling)
            fraction = max(slots, 1) / self.ceiling
        self.slots.set_ceiling(slots)
        rates = (
            min(judge.requests_per_minute for judge in judges) * fraction,
            min(judge.tokens_per_minute for judge in judges) * fraction,
        )
        # Only if they differ: a new RateLimits forgets what was sent in the last minute.
        if rates != self._rates_per_minute:
            self._rates_per_minute = rates
            self.rates = RateLimits(*rates)
        self.breaker.configure(
            failures=min(judge.retry.breaker_failures for judge in judges),
            pause=max(judge.retry.breaker_pause for judge in judges),
        )

    def record(self, outcome: RequestOutcome, started: float) -> None:
        """Learn from the outcome of a request that was sent at `started` (time.monotonic)."""
        if outcome.healthy:
            self.breaker.record_success()
        else:
            self.last_failure = outcome.reply.failure or ""
            self.last_status = outcome.status
            self.breaker.record_failure()
        if outcome.retry_after:
            self.breaker.hold(outcome.retry_after)
        if outcome.misconfigured:
            self.consecutive_refusals += 1
        else:
            self.consecutive_refusals = 0
        if outcome.overloaded:
            self.slots.note_overload(started)
        elif outcome.healthy:
            self.slots.note_success()
            latency = time.monotonic() - started
            rate = _LEARNING_RATE if self.has_answered else 1.0
            self.latency += rate * (latency - self.latency)
            if outcome.next == "done":
                self.has_answered = True


# --------------------------------------------------------------------------------------------------- of a single judge


class JudgeEndpoint:
    """An endpoint as one judge uses it."""

    def __init__(
        self, state: EndpointState, endpoint: Endpoint, judge: Judge, processes: int = 1
    ) -> None:
        self.state = state
        self.breaker = state.breaker
        self.endpoint = endpoint
        self.where = endpoint.where
        self.credit = 0.0
        """See `choose_endpoint`."""
        self.in_flight_reply = replace(NO_ANSWER, model=endpoint.model, endpoint=self.where)
        """The reply of a call that is given up while its request is in flight."""
        self.retry = judge.retry
        # The limits of this process, which has its share of them.
        self.concurrency = max(1, endpoint.concurrency // processes)
        self.requests_per_minute = (endpoint.requests_per_minute or math.inf) / processes
        self.tokens_per_minute = (endpoint.tokens_per_minute or math.inf) / processes
        if processes > endpoint.concurrency:
            _warn_of_few_slots(endpoint.where, endpoint.concurrency, processes)
        self._judge = judge
        settings = [
            endpoint.structured,
            endpoint.prompt_cache,
            dict(endpoint.extra_body),
            judge.sampling.model_dump(),
        ]
        settings_key = json.dumps(settings, default=repr)
        self._capabilities = state.capabilities.setdefault(
            settings_key, Capabilities(endpoint, judge.sampling)
        )
        state.join(self)

    @property
    def is_misconfigured(self) -> bool:
        """Does the server refuse the key, the model or the URL permanently?

        A server that has answered before may refuse a single call; only a 401 or several refusals in a row are taken
        as permanent.
        """
        refusals = self.state.consecutive_refusals
        if not refusals:
            return False
        if self.state.last_status == 401 or not self.state.has_answered:
            return True
        return refusals >= self.retry.breaker_failures

    async def request(
        self,
        call: Call,
        on_sent: Callable[[JudgeEndpoint], None] = lambda _: None,
        max_tokens: int | None = None,
        may_send: Callable[[], bool] = lambda: True,
    ) -> RequestOutcome | None:
        """Send one request; None if the breaker opened, or `may_send` became false, while it waited for a slot.

        on_sent: called when it is sent.
        """
        state = self.state
        await state.slots.acquire()
        try:
            if not may_send() or not state.breaker.is_ready():
                return None
            is_trial = state.breaker.start_request()
            timeout = self._judge.timeout
            if is_trial:
                # A trial has less time than a call, so that recovery is noticed early.
                timeout = min(timeout, max(_MIN_TRIAL_SECONDS, 4.0 * state.latency))
            started = time.monotonic()
            try:
                outcome = await self._send(call, on_sent, max_tokens, timeout)
            except BaseException:
                if is_trial:
                    state.breaker.cancel_trial()
                raise
        finally:
            state.slots.release()
        state.record(outcome, started)
        failure = outcome.reply.failure
        if failure is not None:
            failure = state.address.hide_secrets(failure)
        reply = replace(
            outcome.reply, failure=failure, model=self.endpoint.model, endpoint=self.where
        )
        return replace(outcome, reply=reply)

    def estimate_cost(self, call: Call) -> float:
        """Return what a request costs if its reply is as long as allowed."""
        price = self.endpoint.price
        input_tokens = sum(
            estimate_tokens(str(message.get("content") or "")) for message in call.messages
        )
        output_tokens = 0 if call.protocol == SYSTEM_ONE else self._judge.sampling.max_tokens
        return (input_tokens * price.input + output_tokens * price.output) / 1e6

    async def _send(
        self,
        call: Call,
        on_sent: Callable[[JudgeEndpoint], None],
        max_tokens: int | None,
        timeout: float,
    ) -> RequestOutcome:
        """Send the call; if the server rejects a parameter, send it again without that parameter."""
        is_chat = call.protocol != SYSTEM_ONE
        outcome = RequestOutcome(NO_ANSWER)
        for rejections in range(_MAX_REJECTED_PARAMETERS):
            if is_chat:
                path = "/chat/completions"
                body = self._capabilities.make_body(call, max_tokens)
            else:
                path = self.endpoint.path
                question = json.loads(call.messages[0]["content"])
                body = {"model": self.endpoint.model, **question, **self.endpoint.extra_body}
            content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(
                "utf-8", "replace"
            )
            input_tokens = len(content) / _BYTES_PER_TOKEN
            output_tokens = max_tokens or self._judge.sampling.max_tokens
            estimate = input_tokens + output_tokens
            await self.state.rates.admit(estimate)
            if rejections == 0:
                on_sent(self)
            response = await self._exchange("POST", path, content, timeout)
            # Did the server reject a parameter that the next request leaves out?
            is_rejected = False
            if isinstance(response, RequestOutcome):
                outcome = response
            elif response.status == 200:
                outcome = read_response(response.body, self.endpoint.price, call.protocol)
            else:
                outcome, message = self._read_error(response)
                is_rejected = is_chat and self._capabilities.learn(body, response.status, message)
            usage = outcome.reply.usage
            used: int | None = usage.input_tokens + usage.output_tokens
            if not used and outcome.reply.text is not None:
                used = None  # the server answered, but does not report tokens
            self.state.rates.settle(estimate, used)
            if not is_rejected:
                break
        return outcome

    async def _exchange(
        self, method: str, path: str, content: bytes | None, timeout: float
    ) -> Response | RequestOutcome:
        """Send an HTTP request and return the response, or the outcome if there is none."""
        try:
            async with asyncio.timeout(timeout):
                return await self.state.transport.request(method, self.state.address, path, content)
        except RequestFailed as error:
            return make_no_response_outcome(str(error))
        except TimeoutError:
            return make_no_response_outcome(f"timeout after {timeout:g} s", TIMEOUT)

    def _read_error(self, response: Response) -> tuple[RequestOutcome, str]:
        """Return the outcome of a response with a status other than 200, and the server's words about parameters."""
        if response.status < 300:
            failure = f"malformed reply: HTTP {response.status} instead of 200"
            return make_no_response_outcome(failure), ""
        message, parameter, code = read_error(response.body)
        outcome = classify_status(
            response.status, message, code, response.headers, self._judge.retry
        )
        return outcome, f"{parameter} {message}"

    # -------------------------------------------------------------------------------------------------- health check

    async def check(self, on_paid: OnPaid) -> None:
        """Check that the server answers, accepts the key and serves the model; InvalidInput if not."""
        for pause in (*_CHECK_PAUSES, None):  # None: the last attempt
            failure = await self._find_failure(on_paid)
            if failure is None:
                return
            # A server that refuses the key, the model or the URL would refuse them again.
            if pause is None or failure.next == "other_endpoint":
                raise self.explain_refusal(failure)
            await asyncio.sleep(pause)

    async def _find_failure(self, on_paid: OnPaid) -> RequestOutcome | None:
        """Return the outcome of a request that shows that the endpoint is not usable; None: it is usable."""
        models = await self._list_models()
        if isinstance(models, RequestOutcome):
            if _shows_failure(models):
                return models
            models = []  # the server has no list of models
        if self.endpoint.model in models:
            return None
        # Some servers answer to names that they do not list: a completion of one token decides.
        check_call = _CHECK_DECISION if self._judge.kind == "decision" else _CHECK_CALL
        outcome = await self.request(check_call, max_tokens=1)
        if outcome is None:
            return make_no_response_outcome("its circuit breaker is open")
        await on_paid(check_call, outcome.reply)
        if outcome.status == 200:  # even if one token is not enough for a text
            return None
        if models and not _shows_failure(outcome):
            raise UnknownName.of(
                f"judge {self._judge.name!r}", "model", self.endpoint.model, models
            )
        return outcome

    async def _list_models(self) -> list[str] | RequestOutcome:
        """Return the models that the server lists, or the outcome if it did not answer with 200."""
        await self.state.slots.acquire()
        try:
            response = await self._exchange(
                "GET", "/models", None, min(self._judge.timeout, _MIN_TRIAL_SECONDS)
            )
        finally:
            self.state.slots.release()
        if isinstance(response, RequestOutcome):
            return response
        if response.status != 200:
            return self._read_error(response)[0]
        try:
            listing = json.loads(response.body)
            if "models" in listing:  # as decision models list them
                return [str(entry["name"]) for entry in listing["models"]]
            return [str(entry["id"]) for entry in listing["data"]]
        except (ValueError, KeyError, TypeError, RecursionError):
            return []  # not a list of models

    def explain_refusal(self, outcome: RequestOutcome) -> InvalidInput:
        """Return the error about the setting that makes this endpoint fail, and what can be done about it.

        The service recognises these errors by owner and parameter (`make_error_response` in service/app.py).
        """
        failure = self.state.address.hide_secrets(outcome.reply.failure or "")
        setting = "base_url"
        allowed = "an endpoint that answers"
        got = f"{self.where} ({failure})"
        remedy = "Start the server, or correct the URL."
        if outcome.status in _KEY_REFUSED:
            setting = "api_key_env"
            allowed = "the name of a variable that holds a valid key"
            got = f"a key that {self.where} refuses ({failure})"
            remedy = f"Set {self.endpoint.api_key_env}."
        elif 300 <= outcome.status < 400:
            allowed = "the endpoint itself"
            remedy = "Give the URL that it redirects to, if you trust it."
        elif outcome.next == "other_endpoint":
            setting = "model"
            allowed = f"one that {self.where} serves"
            got = f"{self.endpoint.model!r} ({failure})"
            remedy = "List the server's models."
        return self._judge.make_error(setting, allowed, got, remedy)


def _shows_failure(outcome: RequestOutcome) -> bool:
    """Does a failed request show that no other request would succeed now?"""
    is_refused = outcome.status in _KEY_REFUSED or 300 <= outcome.status < 400
    return is_refused or outcome.next == "retry"


def choose_endpoint(
    endpoints: Sequence[JudgeEndpoint], failed: Sequence[JudgeEndpoint]
) -> JudgeEndpoint | None:
    """Return the next endpoint that is ready; None if none is ready.

    If possible it is one at which this call has failed least often.

    Smooth weighted round robin: every candidate gains its weight, and the one with the most credit is chosen and pays
    what all gained together. Weights 2 and 1 give a, b, a, a, b, a, …
    """
    candidates = [endpoint for endpoint in endpoints if endpoint.breaker.is_ready()]
    if len(candidates) > 1 and failed:
        fewest = min(failed.count(endpoint) for endpoint in candidates)
        candidates = [endpoint for endpoint in candidates if failed.count(endpoint) == fewest]
    if len(candidates) <= 1:
        return candidates[0] if candidates else None
    for candidate in candidates:
        candidate.credit += candidate.endpoint.weight
    chosen = max(candidates, key=lambda candidate: candidate.credit)
    chosen.credit -= sum(candidate.endpoint.weight for candidate in candidates)
    return chosen


# --------------------------------------------------------------------------------------------------------------- pool


class EndpointPool:
    """All endpoints of an event loop: each exists once, for all judges."""

    def __init__(self) -> None:
        self._transport = Transport()
        self._states: dict[str, EndpointState] = {}
        self._changed = asyncio.Event()
        self._shares_limits = False
        self.in_flight: dict[tuple[int, bytes, tuple[str, ...]], asyncio.Future[Reply | None]] = {}
        """Calls that are being answered, by cache, key and servers."""

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()
        self._states = {}

    def open(self, judge: Judge, processes: int = 1) -> list[JudgeEndpoint]:
        """Return the endpoints of a judge, in its order, and apply its limits to them."""
        endpoints = []
        for endpoint in judge.endpoints:
            settings = [
                endpoint.base_url,
                endpoint.model,
                endpoint.api_key_env,
                dict(endpoint.headers),
            ]
            name = json.dumps(settings)
            if name not in self._states:
                self._states[name] = EndpointState(endpoint, self._transport, self._announce_change)
                if self._shares_limits:
                    # It has no slots until the first report tells how many other processes leave.
                    self._states[name].set_share(0)
            endpoints.append(JudgeEndpoint(self._states[name], endpoint, judge, processes))
        return endpoints

    def demands(self) -> dict[str, Demand]:
        """Return what this process needs of each endpoint in use.

        After the first call of this function, new endpoints start without slots.
        """
        self._shares_limits = True
        demands = {}
        for name, state in self._states.items():
            if state.ceiling:
                demands[name] = Demand(state.ceiling, state.slots.demand, state.slots.in_use)
        return demands

    def set_shares(self, slots: Mapping[str, int]) -> None:
        """Use at most these slots of the endpoints."""
        for name, number in slots.items():
            if name in self._states:
                self._states[name].set_share(number)

    def _announce_change(self) -> None:
        """Wake the calls that wait for a circuit breaker."""
        self._changed.set()
        # Calls that wait from now on wait for the next change.
        self._changed = asyncio.Event()

    async def wait_for_change(self) -> None:
        """Wait until a circuit breaker opens or closes."""
        await self._changed.wait()
