"""The outcome of one request to a judge's model: the reply that could be read, and whether to send it again.

    200 {"choices": [{"message": {"content": "…"}, "finish_reason": "stop"}]}      done
    200 {"choices": [{"message": {"refusal": "I cannot"}}]}                        done: refused: I cannot
    200 {"choices": [… "finish_reason": "length"}]}                                done: cut off at max_tokens
    200 {"choices": [… "finish_reason": "abort"}]}, or an empty text               retry: not finished: abort
    200 {"error": …}, or a body that is not a completion                           retry: malformed reply: …
    408, 409, 425, 5xx, no connection, timeout                                     retry after an exponential backoff
    429, 503, 529 with Retry-After: 2                                              retry after 2 s (60 s at most)
    400, 413, 422                                                                  other endpoint: wrong call
    401, 403, 404, redirects                                                       other endpoint: wrong key, model, URL

A reply that cannot be used still has its text and usage, as far as they could be read: both were paid for. The
thoughts of reasoning models (`reasoning_content`, `reasoning`) are not part of the text; thoughts inside the text
(<think>) are left to the parser.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Literal, TypeAlias

from rubrank.judges.judge import Price, Reply, Retry, Usage
from rubrank.verifiers.verifier import REFUSED

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


def read_completion(body: bytes, price: Price) -> RequestOutcome:
    """Return the outcome of a chat completion with status 200. price: of the endpoint."""
    return _read_body(body, price, _read_choice)


def read_decision(body: bytes, price: Price) -> RequestOutcome:
    """Return the outcome of a response of a decision model with status 200.

    The text of the reply is the answers as JSON. price: of the endpoint.
    """
    return _read_body(body, price, _read_answers)


def _read_body(
    body: bytes, price: Price, read: Callable[[Any, Usage], RequestOutcome]
) -> RequestOutcome:
    """Read the JSON of a response with status 200; if it has another form, its beginning and its usage are kept."""
    usage = Usage()
    try:
        data = json.loads(body)
        if isinstance(data.get("result"), dict):  # as Workers AI wraps it
            data = data["result"]
        usage = read_usage(data.get("usage"), price)
        return read(data, usage)
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


def _read_answers(data: Any, usage: Usage) -> RequestOutcome:
    """Return the outcome of the response of a decision model; raises an error if it is malformed."""
    if data.get("error"):
        return _make_error_outcome(data["error"], usage)
    answers = data.get("answers")
    if not isinstance(answers, dict) or not answers:
        raise ValueError("no answers in it")
    text = json.dumps(answers, ensure_ascii=False)
    return RequestOutcome(Reply(text, None, usage, finish_reason="stop"))


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
    try:
        return tuple(_read_token(entry) for entry in logprobs["content"])
    except (TypeError, ValueError, LookupError, AttributeError):
        return None


def _read_token(entry: Any) -> Mapping[str, Any]:
    """Return a token with its log-probability and those of its alternatives."""
    alternatives: dict[str, float] = {}
    for alternative in entry.get("top_logprobs") or ():
        # Two tokens may print alike (bytes of one character): the likelier one comes first and is kept.
        alternatives.setdefault(str(alternative["token"]), float(alternative["logprob"]))
    return {
        "token": str(entry["token"]),
        "logprob": float(entry["logprob"]),
        "top": alternatives,
    }


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
