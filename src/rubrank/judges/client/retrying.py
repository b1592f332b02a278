"""What is done about a call that failed: how long to wait, and whether asking the same endpoint again makes sense.

    HTTP 429, Retry-After: 2        ask again, in 2 s or a little more; of a day, a minute is waited
    HTTP 503                        ask again, in 0.5 s, then 1 s, 2 s … each time a random part less
    HTTP 401, 403, 404, 302         never here; another endpoint may do, and without one the run stops
    HTTP 400, Retry-After: 300      never: it is about this call, and holds up no other
    no answer in time               ask again
    "I cannot help with that"       an answer, if not the one that was hoped for: asking again would cost as much

`RequestOutcome` is what one request came to. Waits do not end before the server said, up to `PATIENCE`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Literal, TypeAlias

from rubrank.judges.judge import Reply, Retry

PATIENCE = 60.0
"""Seconds that a server is given at most, whatever it asks for; or `longest_wait`, where that is more."""

_DOUBLINGS = 100  # of a wait; no float holds a thousand
_TRANSIENT = frozenset({408, 409, 425, 429})
_WAITED_FOR = frozenset({429, 503, 529})  # whose Retry-After is about the server, not about the call
_OVERLOAD = frozenset({408, 429, 503, 504, 529})
_FINAL = frozenset({401, 403, 404, *range(300, 400)})
_CALLS_FAULT = frozenset({400, 409, 413, 422, 429})  # says nothing about the endpoint's health

Next: TypeAlias = Literal["done", "again", "elsewhere"]


@dataclass(frozen=True)
class RequestOutcome:
    """Of one request: a reply with the usage of this request alone, and what to do next."""

    reply: Reply
    next: Next = "done"
    wait: float | None = None
    """What the server asked for, in seconds."""
    healthy: bool = True
    """False: counts against the endpoint."""
    overloaded: bool = False
    """The endpoint was given too much at once."""
    final: bool = False
    """Nothing will come of this endpoint as it is configured: wrong key, model or URL."""


def of_status(status: int, said: str, code: str | None, headers: Mapping[str, str], retry: Retry) -> RequestOutcome:
    """What an HTTP error asks for."""
    wait = retry_after(headers) if status in _WAITED_FOR else None
    if wait is not None:
        wait = min(wait, max(PATIENCE, retry.longest_wait))
    again = (status in _TRANSIENT or status >= 500) and code != "insufficient_quota"
    name = "rate limited" if status == 429 else f"HTTP {status}"
    if 300 <= status < 400:
        said = "a redirect, which is not followed"
    reply = Reply(None, f"{name}: {said}" if said else name)
    return RequestOutcome(
        reply, "again" if again else "elsewhere", wait, status in _CALLS_FAULT, status in _OVERLOAD, status in _FINAL
    )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait: retry-after-ms, or Retry-After in seconds or as a date."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000.0
    value = headers.get("retry-after")
    if value is None:
        return None
    seconds = _number(value)
    return _until(value) if seconds is None else seconds


def _number(value: str | None) -> float | None:
    try:
        number = float(value) if value else -1.0
    except ValueError:
        return None
    return number if 0.0 <= number < float("inf") else None


def _until(date: str) -> float | None:
    try:
        found = parsedate_to_datetime(date)
        if found.tzinfo is None:  # "-0000": UTC, of a server that does not say where it is
            found = found.replace(tzinfo=UTC)
        return max(found.timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None


def backoff(retry: Retry, failed: int, asked: float | None) -> float:
    """Seconds before the next request, after `failed` ones."""
    if asked:
        return asked + random.uniform(0.0, min(0.1 * asked, 1.0))  # so that those who were sent away come back apart
    longest = min(retry.first_wait * 2.0 ** min(failed - 1, _DOUBLINGS), retry.longest_wait)
    return random.uniform(0.5, 1.0) * longest
