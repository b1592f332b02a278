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
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Any, Literal, TypeAlias

from rubrank.judges.judge import Price, Reply, Retry, Usage
from rubrank.verifiers.verifier import REFUSED

MAX_RETRY_AFTER = 60.0
"""Longest wait in seconds that Retry-After can impose, unless the judge's `longest_wait` is longer."""

_MAX_MESSAGE = 300  # characters of a server's message in a failure
_MAX_KEPT_BODY = 20_000  # bytes of a malformed body that are stored
_MAX_TOKENS = 10**12  # a larger count is wrong, and may not fit into a column of the cache
_COMPLETE = (None, "stop")  # finish reasons of a complete reply

_TRANSIENT = frozenset({408, 409, 425, 429})
# With other statuses the header is about the call, not about the server.
_RETRY_AFTER_APPLIES = frozenset({429, 503, 529})
_OVERLOAD = frozenset({408, 429, 503, 504, 529})
_MISCONFIGURED = frozenset({401, 403, 404, *range(300, 400)})
# These say nothing about the health of the endpoint.
_FAULT_OF_CALL = frozenset({400, 409, 413, 422, 429})

NextStep: TypeAlias = Literal["done", "retry", "other_endpoint"]


class FailureKind(Enum):
    """Why a request failed, as far as the client treats failures differently; `Reply.failure` has the words."""

    UNAUTHORIZED = "unauthorized"
    """401: the key is wrong."""
    FORBIDDEN = "forbidden"
    """403: the key is not allowed to do this."""
    REDIRECTED = "redirected"
    """3xx: redirects are not followed."""
    REJECTED = "rejected"
    """Another 4xx: something about the call, the model or the URL is wrong."""
    UNAVAILABLE = "unavailable"
    """No response, an error of the server, or a body that cannot be read."""
    EMPTY = "empty"
    """A reply without a text."""
    UNFINISHED = "unfinished"
    """A reply that the server broke off."""
    REFUSED = "refused"
    """The model, or a filter, refuses."""
    UNUSABLE = "unusable"
    """A reply cut off at max_tokens, a tool call: it would come again."""


_KIND_OF_STATUS = {401: FailureKind.UNAUTHORIZED, 403: FailureKind.FORBIDDEN}


@dataclass(frozen=True)
class RequestOutcome:
    """The outcome of one request."""

    reply: Reply
    """With the usage of this request alone."""
    next: NextStep = "done"
    kind: FailureKind | None = None
    """Why it failed; None: it did not."""
    retry_after: float | None = None
    """Seconds that the server asked to wait."""
    healthy: bool = True
    """False: the request counts as a failure of the endpoint."""
    overloaded: bool = False
    """The endpoint was sent too much at once."""
    misconfigured: bool = False
    """The endpoint will never answer as it is configured: wrong key, model or URL."""


def shorten(text: object) -> str:
    """Return the text on one line, cut to the length allowed in a failure."""
    line = " ".join(str(text).split())
    if len(line) <= _MAX_MESSAGE:
        return line
    return line[: _MAX_MESSAGE - 1] + "…"


# -------------------------------------------------------------------------------------------------------- completions


def _parse_object(body: bytes) -> dict[str, Any] | RequestOutcome:
    """Return the object in the body of a response, or the outcome if there is none."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as problem:
        return _make_malformed_outcome(body, f"not JSON ({shorten(problem)})", Usage())
    return (
        data if isinstance(data, dict) else _make_malformed_outcome(body, "not an object", Usage())
    )


def read_completion(body: bytes, price: Price) -> RequestOutcome:
    """Return the outcome of a chat completion with status 200. price: of the endpoint."""
    data = _parse_object(body)
    if isinstance(data, RequestOutcome):
        return data
    usage = read_usage(data.get("usage"), price)
    choices = data.get("choices")
    if not isinstance(choices, list):
        choices = []
    choice = choices[0] if len(choices) == 1 and isinstance(choices[0], dict) else {}
    message = choice.get("message")

    # Gateways report errors of the model behind them with status 200, in one of three places.
    error = data.get("error") or choice.get("error")
    if not error and isinstance(message, dict):
        error = message.get("error")
    if error:
        return _make_error_outcome(error, usage)
    if len(choices) > 1:
        return _make_malformed_outcome(body, f"{len(choices)} choices instead of one", usage)
    if not isinstance(message, dict):
        return _make_malformed_outcome(body, "no message in it", usage)

    finish_reason = choice.get("finish_reason")
    text, refusal = _read_content(message)
    kind, failure = _find_failure(message, text, refusal, finish_reason)
    reply = Reply(
        text if text is not None else refusal or None,
        failure,
        usage,
        finish_reason=finish_reason if isinstance(finish_reason, str) else None,
        logprobs=read_logprobs(choice.get("logprobs")),
    )
    # An empty or aborted reply is often a transient fault of the server. A refusal or a cut-off reply would come
    # again, at the same cost.
    may_change = kind in (FailureKind.EMPTY, FailureKind.UNFINISHED)
    return RequestOutcome(reply, "retry" if may_change else "done", kind)


def read_decision(body: bytes, price: Price) -> RequestOutcome:
    """Return the outcome of a response of a decision model with status 200.

    The text of the reply is the answers as JSON. price: of the endpoint.
    """
    data = _parse_object(body)
    if isinstance(data, RequestOutcome):
        return data
    if isinstance(data.get("result"), dict):  # as Workers AI wraps it
        data = data["result"]
    usage = read_usage(data.get("usage"), price)
    if data.get("error"):
        return _make_error_outcome(data["error"], usage)
    answers = data.get("answers")
    if not isinstance(answers, dict) or not answers:
        return _make_malformed_outcome(body, "no answers in it", usage)
    return RequestOutcome(
        Reply(json.dumps(answers, ensure_ascii=False), None, usage, finish_reason="stop")
    )


def _make_error_outcome(error: Any, usage: Usage) -> RequestOutcome:
    """Return the outcome of a response with status 200 that reports an error."""
    failure = f"error beside the reply: {shorten(read_error_message(error))}"
    reply = Reply(None, failure, usage)
    return RequestOutcome(reply, "retry", FailureKind.UNAVAILABLE, healthy=False)


def read_error_message(error: Any) -> Any:
    """Return the message of an error as servers send it: an object with "message", or the message itself."""
    if isinstance(error, dict):
        return error.get("message") or error
    return error


def _read_content(message: Mapping[str, Any]) -> tuple[str | None, str]:
    """Return text and refusal of a message, whose content is a string or a list of parts."""
    content = message.get("content")
    refusal = message.get("refusal")
    if not isinstance(content, list):
        text = content if isinstance(content, str) else None
        return text, str(refusal or "")
    parts = [part for part in content if isinstance(part, dict)]
    for part in parts:
        refusal = refusal or part.get("refusal")
    return "".join(str(part.get("text") or "") for part in parts), str(refusal or "")


def _find_failure(
    message: Mapping[str, Any], text: str | None, refusal: str, finish_reason: object
) -> tuple[FailureKind | None, str | None]:
    """Return why the message cannot be used as a reply, in kind and in words; (None, None) if it can."""
    if refusal:
        return FailureKind.REFUSED, f"{REFUSED}: {shorten(refusal)}"
    if finish_reason == "content_filter":
        return FailureKind.REFUSED, f"{REFUSED}: content filter"
    if finish_reason == "length":
        return FailureKind.UNUSABLE, "cut off at max_tokens"
    if message.get("tool_calls") or message.get("function_call"):
        return FailureKind.UNUSABLE, "no reply: it calls a tool"
    if message.get("role") not in (None, "assistant"):
        return FailureKind.UNUSABLE, f"no reply: a message of {shorten(message['role'])!r}"
    if text is None or not text.strip():
        has_thoughts = message.get("reasoning_content") or message.get("reasoning")
        return FailureKind.EMPTY, "empty reply: thoughts only" if has_thoughts else "empty reply"
    if finish_reason not in _COMPLETE:
        return FailureKind.UNFINISHED, f"not finished: {shorten(finish_reason)}"
    return None, None


def _make_malformed_outcome(body: bytes, problem: str, usage: Usage) -> RequestOutcome:
    """Return the outcome of a body that is not a reply; the beginning of the body is kept."""
    text = body[:_MAX_KEPT_BODY].decode("utf-8", "replace")
    reply = Reply(text, f"malformed reply: {problem}", usage)
    return RequestOutcome(reply, "retry", FailureKind.UNAVAILABLE, healthy=False)


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


def read_logprobs(logprobs: object) -> tuple[Mapping[str, Any], ...] | None:
    """Return the tokens of the text with their likeliest alternatives; None if the server sent none."""
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(content, list):
        return None
    tokens = []
    for entry in content:
        if not isinstance(entry, dict):
            continue
        alternatives: dict[str, float] = {}
        top = entry.get("top_logprobs")
        for alternative in top if isinstance(top, list) else ():
            if isinstance(alternative, dict):
                # Two tokens may print alike (bytes of one character): the likelier one comes first and is kept.
                alternatives.setdefault(
                    str(alternative.get("token")), _read_logprob(alternative.get("logprob"))
                )
        tokens.append(
            {
                "token": str(entry.get("token")),
                "logprob": _read_logprob(entry.get("logprob")),
                "top": alternatives,
            }
        )
    return tuple(tokens)


def _read_logprob(value: object) -> float:
    """Return a log-probability as a float; minus infinity if it is not a number."""
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return -math.inf


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
        kind = FailureKind.REDIRECTED
    elif status >= 500:
        kind = FailureKind.UNAVAILABLE
    else:
        kind = _KIND_OF_STATUS.get(status, FailureKind.REJECTED)
    return RequestOutcome(
        Reply(None, f"{name}: {message}" if message else name),
        "retry" if is_transient else "other_endpoint",
        kind,
        retry_after=wait,
        healthy=status in _FAULT_OF_CALL,
        overloaded=status in _OVERLOAD,
        misconfigured=status in _MISCONFIGURED,
    )


def make_no_response_outcome(failure: str, *, overloaded: bool = False) -> RequestOutcome:
    """Return the outcome of a request without a usable HTTP response."""
    return RequestOutcome(
        Reply(None, failure), "retry", FailureKind.UNAVAILABLE, healthy=False, overloaded=overloaded
    )


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
