"""Read the body of a chat completion: a text, or why there is none, and what it cost.

    {"choices": [{"message": {"content": "…"}, "finish_reason": "stop"}], "usage": {…}}    Reply("…", usage=…)
    {"choices": [{"message": {"refusal": "I cannot"}}]}                                    refused: I cannot
    {"choices": [{"message": {"content": "It is"}, "finish_reason": "length"}]}            cut off at max_tokens
    {"choices": [{"message": …, "finish_reason": "abort"}]}                                not finished: abort
    {"error": …, "choices": […]}                                                           error beside the reply: …
    {"choi                                                                                 malformed reply: …

Whatever can be read of a reply that cannot be used is kept: its text, and its usage. The thoughts of reasoning models
(`reasoning_content`, `reasoning`) are no part of the text; thoughts within the text (<think>) are the parser's to skip.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from rubrank.judges.client.retrying import RequestOutcome
from rubrank.judges.judge import Price, Reply, Usage

_LONGEST = 300  # characters of what a server says in a reason
_KEPT = 20_000  # bytes of a body that cannot be used
_MILLION = 1e6
_MOST_TOKENS = 10**12  # a larger count is wrong, and no file can hold it


def shorten(text: object) -> str:
    """One line, not too long."""
    line = " ".join(str(text).split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def read_completion(body: bytes, price: Price) -> RequestOutcome:
    """What a reply with status 200 says."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        return _malformed(body, f"not JSON ({shorten(error)})", Usage())
    if not isinstance(data, dict):
        return _malformed(body, "not an object", Usage())
    usage = read_usage(data.get("usage"), price)
    choices = data.get("choices")
    choice = choices[0] if isinstance(choices, list) and len(choices) == 1 else None
    said = data.get("error") or (isinstance(choice, dict) and _inner_error(choice))
    if said:
        return RequestOutcome(
            Reply(None, f"error beside the reply: {shorten(_message(said))}", usage), "again", healthy=False
        )
    if not isinstance(choice, dict) or not isinstance(choice.get("message"), dict):
        number = len(choices) if isinstance(choices, list) else 0
        return _malformed(body, f"{number} choices instead of one" if number > 1 else "no message in it", usage)
    return _read_choice(choice, usage)


def _inner_error(choice: dict[str, Any]) -> Any:
    message = choice.get("message")
    return choice.get("error") or (message.get("error") if isinstance(message, dict) else None)


def _message(error: Any) -> Any:
    return error.get("message") or error if isinstance(error, dict) else error


def _read_choice(choice: dict[str, Any], usage: Usage) -> RequestOutcome:
    message, finish = choice["message"], choice.get("finish_reason")
    text, refusal = _text(message.get("content")), _refusal(message)
    failure = _failure(message, text, refusal, finish)
    if text is None and refusal:
        text = refusal
    reply = Reply(
        text,
        failure,
        usage,
        finish_reason=finish if isinstance(finish, str) else None,
        logprobs=read_logprobs(choice.get("logprobs")),
    )
    # An empty or aborted reply is often a hiccup of the server; a refusal or a cut would come again, at the same cost.
    return RequestOutcome(reply, "again" if failure and failure.startswith(("empty reply", "not finished")) else "done")


_GOOD = (None, "stop")
"""The reasons for which a model ends a reply that is complete; whatever else a server says is a fault."""


def _failure(message: Mapping[str, Any], text: str | None, refusal: str, finish: object) -> str | None:
    if refusal:
        return f"refused: {shorten(refusal)}"
    if finish == "content_filter":
        return "refused: content filter"
    if finish == "length":
        return "cut off at max_tokens"
    if message.get("tool_calls") or message.get("function_call"):
        return "no reply: it calls a tool"
    if message.get("role") not in (None, "assistant"):
        return f"no reply: a message of {shorten(message['role'])!r}"
    if text is None or not text.strip():
        thought = message.get("reasoning_content") or message.get("reasoning")
        return "empty reply: thoughts only" if thought else "empty reply"
    return None if finish in _GOOD else f"not finished: {shorten(finish)}"


def _refusal(message: Mapping[str, Any]) -> str:
    """In a field of its own, or among the parts of the content."""
    content = message.get("content")
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    found = message.get("refusal") or next((part["refusal"] for part in parts if part.get("refusal")), None)
    return str(found) if found else ""


def _text(content: object) -> str | None:
    """Of a string, or of a list of parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else None


def _malformed(body: bytes, what: str, usage: Usage) -> RequestOutcome:
    reply = Reply(body[:_KEPT].decode("utf-8", "replace"), f"malformed reply: {what}", usage)
    return RequestOutcome(reply, "again", healthy=False)


def read_usage(usage: object, price: Price) -> Usage:
    """Tokens and their cost; a server that does not say counts as none."""
    if not isinstance(usage, dict):
        return Usage()
    asked, said = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    details = usage.get("prompt_tokens_details")
    cached = min(_count(details.get("cached_tokens")) if isinstance(details, dict) else 0, asked)
    cached_price = price.input if price.cached_input is None else price.cached_input
    cost = ((asked - cached) * price.input + cached * cached_price + said * price.output) / _MILLION
    return Usage(asked, said, cached, cost)


def _count(number: object) -> int:
    return min(number, _MOST_TOKENS) if isinstance(number, int) and number > 0 else 0


def read_logprobs(logprobs: object) -> tuple[Mapping[str, Any], ...] | None:
    """The tokens of the text with their likeliest alternatives."""
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(content, list):
        return None
    return tuple(
        {
            "token": str(entry.get("token")),
            "logprob": _log(entry.get("logprob")),
            "top": _top(entry.get("top_logprobs")),
        }
        for entry in content
        if isinstance(entry, dict)
    )


def _top(entries: object) -> dict[str, float]:
    found: dict[str, float] = {}
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            # Two entries may print alike (bytes of one character): the likelier comes first and stays.
            found.setdefault(str(entry.get("token")), _log(entry.get("logprob")))
    return found


def _log(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return -math.inf
