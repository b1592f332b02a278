"""The API of judge servers: what a response means, and what is put into a request.

    read_response        a response with status 200 → RequestOutcome
    classify_status      a response with another status → RequestOutcome
    compute_backoff      how long to wait before the next request
    Capabilities         a call → the body of a request, without what the server does not support

The outcome of a request is the reply that could be read, and whether to send the request again:

    200 {"choices": [{"message": {"content": "…"}, "finish_reason": "stop"}]}      done
    200 {"choices": [{"message": {"refusal": "I cannot"}}]}                        done: refused: I cannot
    200 {"choices": [… "finish_reason": "length"}]}                                done: cut off at max_tokens
    200 {"choices": [… "finish_reason": "abort"}]}, or an empty text               retry: not finished: abort
    200 {"error": …}, or a body that is not a completion                           retry: malformed reply: …
    408, 409, 425, 5xx, no connection, timeout                                     retry after an exponential backoff
    429, 503, 529 with Retry-After: 2                                              retry after 2 s (60 s at most)
    400, 413, 422                                                                  other endpoint: wrong call
    401, 403, 404, redirects                                                       other endpoint: wrong key, model, URL

Text and usage are kept even if a reply cannot be used, because both were paid for. The thoughts of reasoning models
(`reasoning_content`, `reasoning`) are not part of the text; thoughts inside the text (<think>) are left to the parser.
"""

from __future__ import annotations

import json
import logging
import math
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Literal, TypeAlias

from rubrank.judges.judge import (
    SYSTEM_ONE,
    ApiProtocol,
    Call,
    Endpoint,
    Price,
    Reply,
    Retry,
    Sampling,
    Usage,
)
from rubrank.verifiers.verifier import REFUSED

_log = logging.getLogger("rubrank.judges")

MAX_RETRY_AFTER = 60.0
"""Longest wait in seconds that Retry-After can impose, unless the judge's `longest_wait` is longer."""

_MAX_MESSAGE = 300  # characters of a server's message in a failure
_MAX_KEPT_BODY = 20_000  # bytes of a malformed body that are stored
_MAX_TOKENS = 10**12  # a larger count is wrong, and may not fit into a column of the cache
_COMPLETE = (None, "stop")  # finish reasons of a complete reply
_NO_USAGE = Usage()

BAD_GATEWAY = 502
"""The status of an outcome without a usable response: no connection, or a body that cannot be read."""
TIMEOUT = 408
"""The status of an outcome without a response in time."""
_TRANSIENT = frozenset({TIMEOUT, 409, 425, 429})
# With other statuses the header is about the call, not about the server.
_RETRY_AFTER_APPLIES = frozenset({429, 503, 529})
_OVERLOAD = frozenset({TIMEOUT, 429, 503, 504, 529})
_MISCONFIGURED = frozenset({401, 403, 404, *range(300, 400)})
# These say nothing about the health of the endpoint.
_FAULT_OF_CALL = frozenset({400, 409, 413, 422, 429})

NextStep: TypeAlias = Literal["done", "retry", "other_endpoint"]


@dataclass(frozen=True)
class RequestOutcome:
    """The outcome of one request."""

    reply: Reply
    """With the usage of this request alone."""
    next: NextStep = "done"
    status: int = 200
    """Of HTTP; see BAD_GATEWAY and TIMEOUT."""
    retry_after: float | None = None
    """Seconds that the server asked to wait."""

    @property
    def healthy(self) -> bool:
        """False: the request counts as a failure of the endpoint."""
        return self.status == 200 or self.status in _FAULT_OF_CALL

    @property
    def overloaded(self) -> bool:
        """Was the endpoint sent too much at once?"""
        return self.status in _OVERLOAD

    @property
    def misconfigured(self) -> bool:
        """Will the endpoint never answer as it is configured: wrong key, model or URL?"""
        return self.status in _MISCONFIGURED


def shorten(text: object) -> str:
    """Return the text on one line, cut to the length allowed in a failure."""
    line = " ".join(str(text).split())
    if len(line) <= _MAX_MESSAGE:
        return line
    return line[: _MAX_MESSAGE - 1] + "…"


def make_no_response_outcome(
    failure: str, status: int = BAD_GATEWAY, text: str | None = None, usage: Usage = _NO_USAGE
) -> RequestOutcome:
    """Return the outcome of a request without a usable response. text, usage: what could be read of it."""
    return RequestOutcome(Reply(text, failure, usage), "retry", status)


# -------------------------------------------------------------------------------------------------------- completions


def read_response(body: bytes, price: Price, protocol: ApiProtocol = "chat") -> RequestOutcome:
    """Return the outcome of a response with status 200. price: of the endpoint.

    If the body is malformed, its beginning and its usage are kept. The text of a decision model's reply is its answers,
    as JSON.
    """
    usage = Usage()
    try:
        data = json.loads(body)
        if isinstance(data.get("result"), dict):  # as Workers AI wraps it
            data = data["result"]
        usage = read_usage(data.get("usage"), price)
        if protocol != SYSTEM_ONE:
            return _read_choice(data, usage)
        if data.get("error"):
            return _make_error_outcome(data["error"], usage)
        answers = data.get("answers")
        if not isinstance(answers, dict) or not answers:
            raise ValueError("no answers in it")
        text = json.dumps(answers, ensure_ascii=False)
        return RequestOutcome(Reply(text, None, usage, finish_reason="stop"))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as problem:
        text = body[:_MAX_KEPT_BODY].decode("utf-8", "replace")
        failure = f"malformed reply: {shorten(problem)}"
        return make_no_response_outcome(failure, text=text, usage=usage)


def _read_choice(data: Any, usage: Usage) -> RequestOutcome:
    """Return the outcome of a chat completion; raises an error if it is malformed."""
    choices = data.get("choices") or [{}]
    choice = choices[0]
    message = choice.get("message")
    # Gateways report errors of the model behind them with status 200, in one of three places.
    error = data.get("error") or choice.get("error") or (message or {}).get("error")
    if error:
        return _make_error_outcome(error, usage)
    if len(choices) > 1:
        raise ValueError(f"{len(choices)} choices instead of one")
    if message is None:
        raise ValueError("no message in it")

    text = message.get("content")
    refusal = message.get("refusal")
    if isinstance(text, list):  # of parts
        parts = [part for part in text if isinstance(part, dict)]
        text = "".join(str(part.get("text") or "") for part in parts)
        for part in parts:
            refusal = refusal or part.get("refusal")
    elif not isinstance(text, str):
        text = None
    finish_reason = choice.get("finish_reason")
    failure = _find_failure(message, text, refusal, finish_reason)
    reply = Reply(
        text if text is not None or not refusal else str(refusal),
        failure,
        usage,
        finish_reason=finish_reason if isinstance(finish_reason, str) else None,
        logprobs=_read_logprobs(choice.get("logprobs")),
    )
    # An empty or aborted reply is often a transient fault of the server. A refusal or a cut-off reply would come
    # again, at the same cost.
    may_change = failure is not None and failure.startswith(("empty reply", "not finished"))
    return RequestOutcome(reply, "retry" if may_change else "done")


def _make_error_outcome(error: Any, usage: Usage) -> RequestOutcome:
    """Return the outcome of a response with status 200 that reports an error."""
    message = error.get("message") or error if isinstance(error, dict) else error
    return make_no_response_outcome(f"error beside the reply: {shorten(message)}", usage=usage)


def _find_failure(
    message: Mapping[str, Any], text: str | None, refusal: object, finish_reason: object
) -> str | None:
    """Return why the message cannot be used as a reply; None if it can."""
    if refusal:
        return f"{REFUSED}: {shorten(refusal)}"
    if finish_reason == "content_filter":
        return f"{REFUSED}: content filter"
    if finish_reason == "length":
        return "cut off at max_tokens"
    if message.get("tool_calls") or message.get("function_call"):
        return "no reply: it calls a tool"
    if message.get("role") not in (None, "assistant"):
        return f"no reply: a message of {shorten(message['role'])!r}"
    if text is None or not text.strip():
        has_thoughts = message.get("reasoning_content") or message.get("reasoning")
        return "empty reply: thoughts only" if has_thoughts else "empty reply"
    if finish_reason not in _COMPLETE:
        return f"not finished: {shorten(finish_reason)}"
    return None


def read_usage(usage: object, price: Price) -> Usage:
    """Return tokens and their cost; zero if the server does not report them."""
    if not isinstance(usage, dict):
        return Usage()
    input_tokens = _read_count(usage, "prompt_tokens", "input_tokens", "inputTokens")
    output_tokens = _read_count(usage, "completion_tokens", "output_tokens", "outputTokens")
    details = usage.get("prompt_tokens_details")
    cached_tokens = 0
    if isinstance(details, dict):
        cached_tokens = min(_read_count(details, "cached_tokens"), input_tokens)
    cached_price = price.input if price.cached_input is None else price.cached_input
    cost = (
        (input_tokens - cached_tokens) * price.input
        + cached_tokens * cached_price
        + output_tokens * price.output
    ) / 1e6
    return Usage(input_tokens, output_tokens, cached_tokens, cost)


def _read_count(usage: Mapping[str, Any], *names: str) -> int:
    """Return the count under the first of these names that the usage has, else 0: servers differ in them."""
    for name in names:
        number = usage.get(name)
        if number is not None:
            return min(number, _MAX_TOKENS) if isinstance(number, int) and number > 0 else 0
    return 0


def _read_logprobs(logprobs: Any) -> tuple[Mapping[str, Any], ...] | None:
    """Return the tokens of the text with their likeliest alternatives; None if the server sent none."""
    tokens = []
    try:
        for entry in logprobs["content"]:
            top: dict[str, float] = {}
            for alternative in entry.get("top_logprobs") or ():
                # Two tokens may print alike (bytes of one character): the likelier one comes first and is kept.
                top.setdefault(str(alternative["token"]), float(alternative["logprob"]))
            token = {"token": str(entry["token"]), "logprob": float(entry["logprob"]), "top": top}
            tokens.append(token)
    except (TypeError, ValueError, LookupError, AttributeError):
        return None
    return tuple(tokens)


# -------------------------------------------------------------------------------------------------------- HTTP errors


def read_error(body: bytes) -> tuple[str, str, str | None]:
    """Return message, parameter and code of the error in the body of an HTTP error."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return shorten(body[:1000].decode("utf-8", "replace")), "", None
    error = data.get("error", data) if isinstance(data, dict) else data
    if not isinstance(error, dict):
        return shorten(error or ""), "", None
    message = error.get("message") or error.get("detail") or ""
    code = error.get("code")
    return shorten(message), str(error.get("param") or ""), code if isinstance(code, str) else None


def classify_status(
    status: int, message: str, code: str | None, headers: Mapping[str, str], retry: Retry
) -> RequestOutcome:
    """Return the outcome of a response with an HTTP error. headers: by names in lower case."""
    wait = read_retry_after(headers) if status in _RETRY_AFTER_APPLIES else None
    if wait is not None:
        wait = min(wait, max(MAX_RETRY_AFTER, retry.longest_wait))
    is_transient = (status in _TRANSIENT or status >= 500) and code != "insufficient_quota"
    name = "rate limited" if status == 429 else f"HTTP {status}"
    if 300 <= status < 400:
        message = "a redirect, which is not followed"
    reply = Reply(None, f"{name}: {message}" if message else name)
    return RequestOutcome(reply, "retry" if is_transient else "other_endpoint", status, wait)


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the server asks to wait; None if it does not.

    It says so by Retry-After-Ms, or by Retry-After in seconds or as a date.
    """
    milliseconds = _parse_seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000.0
    value = headers.get("retry-after", "")
    seconds = _parse_seconds(value)
    if seconds is not None or not value:
        return seconds
    try:
        date = parsedate_to_datetime(value)
        if date.tzinfo is None:  # the zone "-0000": UTC, from a server with an unknown local zone
            date = date.replace(tzinfo=UTC)
        return max(date.timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None


def _parse_seconds(value: str) -> float | None:
    """Return a number that is finite and not negative; None for any other text."""
    try:
        number = float(value)
    except ValueError:
        return None
    return number if 0.0 <= number < math.inf else None


def compute_backoff(retry: Retry, failures: int, retry_after: float | None) -> float:
    """Return the seconds to wait before the next request, after this many failures.

    Random, so that calls that failed together are not retried together; never shorter than the server asked for.
    """
    if retry_after:
        return retry_after + random.uniform(0.0, min(0.1 * retry_after, 1.0))
    doublings = min(failures - 1, 100)  # 2.0**1024 would overflow
    longest = min(retry.first_wait * 2.0**doublings, retry.longest_wait)
    return random.uniform(0.5, 1.0) * longest


# ------------------------------------------------------------------------------------------------------------ requests

_TOP_LOGPROBS = 20
_FEWER_LOGPROBS = 5  # what servers with a small limit allow
_REJECTING_STATUSES = frozenset({400, 422, 501})  # with which servers reject a parameter
_FORMAT_WORDS = (  # a message with one of these is about the response format
    "response_format",
    "json_schema",
    "json_object",
    "json schema",
    "guided",
    "grammar",
    "structured output",
)
_UNKNOWN_WORDS = (  # a message with one of these rejects the parameter itself, not its value
    "unsupported",
    "not support",
    "unrecognized",
    "unknown",
    "unexpected",
    "not permitted",
    "not allowed",
    "only the default",
    "extra inputs",
    "extra_forbidden",
)
# Parameters that a request can do without. "top_logprobs" comes before "logprobs", which is part of its name.
_OPTIONAL_PARAMETERS = ("temperature", "top_p", "seed", "top_logprobs", "logprobs")
_NEXT_FORMAT = {"json_schema": "json_object", "json_object": "text"}


class Capabilities:
    """What one endpoint supports, learnt from its errors.

        body = capabilities.make_body(call)                {…, "response_format": {"type": "json_schema", …}}
        400 "response_format is not supported"             the server's answer
        capabilities.learn(body, 400, message)             True: send the call again
        capabilities.make_body(call)                       {…, "response_format": {"type": "json_object"}}

    Servers differ. Some can force replies to follow a JSON schema, some only to be JSON, and some neither; reasoning
    models want `max_completion_tokens` instead of `max_tokens`, and no temperature. Users should not have to configure
    that. So the first request has everything, and what the server rejects is left out or replaced in all later requests
    to this endpoint. Each change is logged once, except fewer logprobs.
    """

    def __init__(self, endpoint: Endpoint, sampling: Sampling) -> None:
        self._endpoint = endpoint
        self._sampling = sampling
        # "json_schema", "json_object" or "text"; fixed if the user has configured it.
        self.format: str = "json_schema" if endpoint.structured == "auto" else endpoint.structured
        self._length_parameter = "max_tokens"
        self._top_logprobs = _TOP_LOGPROBS
        self._unsupported: set[str] = set()
        self._marks_shared = endpoint.prompt_cache

    def make_body(self, call: Call, max_tokens: int | None = None) -> dict[str, Any]:
        """Return the body of a request. max_tokens: overrides the judge's sampling."""
        sampling = self._sampling
        if self._marks_shared:
            messages = _mark_shared(call)
        else:
            messages = [dict(message) for message in call.messages]
        body: dict[str, Any] = {"model": self._endpoint.model, "messages": messages}
        body[self._length_parameter] = max_tokens or sampling.max_tokens
        body["temperature"] = sampling.temperature
        if sampling.top_p < 1.0:
            body["top_p"] = sampling.top_p
        if sampling.seed is not None:
            # The same seed would give the same reply to every sample.
            body["seed"] = sampling.seed + call.sample
        if call.logprobs:
            body["logprobs"] = True
            body["top_logprobs"] = self._top_logprobs
        if call.schema is not None and self.format == "json_object":
            body["response_format"] = {"type": "json_object"}
        elif call.schema is not None and self.format == "json_schema":
            schema = {"name": "reply", "strict": True, "schema": dict(call.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        for name in self._unsupported:
            body.pop(name, None)
        return body | dict(self._endpoint.extra_body)

    def learn(self, body: Mapping[str, Any], status: int, message: str) -> bool:
        """Learn from an HTTP error; True if the next request will do without what was rejected, so send it again.

        body: the request that was rejected. What the user put into `extra_body` is never changed. One error changes one
        parameter; if the server rejects another one, too, the next error says so. A concurrent call may have learnt the
        same already: the request is then sent again, but nothing is logged.
        """
        if status not in _REJECTING_STATUSES:
            return False
        message = message.lower()
        users_parameters = self._endpoint.extra_body

        # Marks for caching: send the messages as plain text.
        has_marks = any(isinstance(sent["content"], list) for sent in body.get("messages", ()))
        if has_marks and any(word in message for word in ("cache_control", "content")):
            if self._marks_shared:
                self._marks_shared = False
                self._log("does not support cache_control: left out")
            return True

        # The response format: a schema, then JSON, then text.
        sent_format = body.get("response_format")
        is_ours = self._endpoint.structured == "auto" and "response_format" not in users_parameters
        if sent_format and is_ours and any(word in message for word in _FORMAT_WORDS):
            if sent_format["type"] == self.format:
                self.format = _NEXT_FORMAT[self.format]
                self._log(f"does not support {sent_format['type']}: falls back to {self.format}")
            return True

        # The parameter that limits the length of a reply has another name for reasoning models.
        is_ours = "max_tokens" in body and "max_tokens" not in users_parameters
        if is_ours and "max_completion_tokens" in message:
            if self._length_parameter == "max_tokens":
                self._length_parameter = "max_completion_tokens"
                self._log("requires max_completion_tokens instead of max_tokens")
            return True

        # Parameters that a request can do without. If the message does not reject the parameter itself, it rejects its
        # value. That is an error of the configuration, except for the number of logprobs.
        rejected = [name for name in _OPTIONAL_PARAMETERS if name in body and name in message]
        if not rejected or rejected[0] in users_parameters:
            return False
        name = rejected[0]
        if any(word in message for word in _UNKNOWN_WORDS):
            names = {name}
            if name.endswith("logprobs"):
                names = {"logprobs", "top_logprobs"}  # one is useless without the other
            if not names <= self._unsupported:
                self._unsupported |= names
                self._log(f"does not support {name}: left out")
            return True
        if name == "top_logprobs" and body[name] > _FEWER_LOGPROBS:
            self._top_logprobs = _FEWER_LOGPROBS
            return True
        return False

    def _log(self, message: str) -> None:
        _log.warning("%s (%s) %s", self._endpoint.where, self._endpoint.model, message)


def _mark_shared(call: Call) -> list[dict[str, Any]]:
    """Return the messages of a call, with a mark for the server's prompt cache on what other calls share.

    Shared are the system message and, with `order: data_first`, the data at the beginning of the user's message. A
    message becomes a list of parts, so that a part can be marked (`cache_control`, as Anthropic's models want it).
    """
    messages: list[dict[str, Any]] = []
    for message in call.messages:
        content = message["content"]
        shared_length = len(content) if message["role"] == "system" else 0
        if call.shares_data and call.data and content.startswith(call.data):
            shared_length = len(call.data)
        parts = []
        if shared_length:
            shared_text = content[:shared_length]
            parts.append(
                {"type": "text", "text": shared_text, "cache_control": {"type": "ephemeral"}}
            )
        if shared_length < len(content):
            parts.append({"type": "text", "text": content[shared_length:]})
        messages.append({"role": message["role"], "content": parts})
    return messages
