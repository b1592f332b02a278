"""What is done about a call that failed: how long to wait, and whether asking the same endpoint again makes sense.

    HTTP 429, Retry-After: 2        ask again, in 2 s or a little more
    HTTP 503                        ask again, in 0.5 s, then 1 s, 2 s … each time a random part less
    HTTP 401                        never here; another endpoint may do
    no answer in time               ask again
    "I cannot help with that"       an answer, if not the one that was hoped for: asking again would cost as much

`Outcome` is what one request came to. Waits never end before the server said.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Literal, TypeAlias

from rubrank.judges.judge import Reply, Retry

PATIENCE = 120.0  # a server that asks for more than this (or longest_wait) is given up for the call at hand
_TRANSIENT = frozenset({408, 409, 425, 429})
_CALLS_FAULT = frozenset({400, 409, 413, 422, 429})  # says nothing about the endpoint's health

Next: TypeAlias = Literal["done", "again", "elsewhere"]


@dataclass(frozen=True)
class Outcome:
    """Of one request: a reply with the usage of this request alone, and what to do next."""

    reply: Reply
    next: Next = "done"
    wait: float | None = None
    """What the server asked for, in seconds."""
    healthy: bool = True
    """False: counts against the endpoint."""


def of_status(status: int, said: str, code: str | None, headers: Mapping[str, str], retry: Retry) -> Outcome:
    """What an HTTP error asks for."""
    wait = retry_after(headers)
    again = (status in _TRANSIENT or status >= 500) and code != "insufficient_quota"
    if wait is not None and wait > max(PATIENCE, retry.longest_wait):
        again = False
    name = "rate limited" if status == 429 else f"HTTP {status}"
    reply = Reply(None, f"{name}: {said}" if said else name)
    return Outcome(reply, "again" if again else "elsewhere", wait, status in _CALLS_FAULT)


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
        return max(parsedate_to_datetime(date).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None


def backoff(retry: Retry, failed: int, asked: float | None) -> float:
    """Seconds before the next request, after `failed` ones."""
    if asked:
        return asked + random.uniform(0.0, min(0.1 * asked, 1.0))  # so that those who were sent away come back apart
    longest = min(retry.first_wait * 2.0 ** (failed - 1), retry.longest_wait)
    return random.uniform(0.5, 1.0) * longest
