"""Who may come in, how much they may bring, and how they are told what is wrong.

    {"error": {"where": "request", "what": "groups.0.prompt", "allowed": "a text or messages", "got": "int",
               "remedy": "", "message": "request: groups.0.prompt must be …"}}

A token comes as `Authorization: Bearer …`, as the password of a URL (http://any:TOKEN@host), or as `?token=…` for
trainers that can do nothing but take a URL.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import logging
from collections.abc import Iterable
from typing import Any

from pydantic_core import from_json
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from rubrank._plain import no_constant
from rubrank.errors import GradingFailed, InvalidInput, JudgeOutage, JudgingFailed, RubrankError
from rubrank.service.wire import to_json

_log = logging.getLogger("rubrank.service")
_AGAIN = "5"  # seconds, in Retry-After
_DEEPEST = 200  # lists and objects within each other, as pydantic reads them; what works on them calls itself


class Refused(Exception):  # noqa: N818
    """A request that is answered with an error."""

    def __init__(self, status: int, error: InvalidInput) -> None:
        super().__init__(status, error)
        self.status, self.error = status, error


def refused(status: int, what: str, allowed: str, got: str, remedy: str = "", where: str = "request") -> Refused:
    """The error of a request, in the parts that all of rubrank's errors have."""
    return Refused(status, InvalidInput(where, what, allowed, got, remedy))


class Token:
    """Compared in the same time whatever is wrong with it."""

    def __init__(self, secret: str | None) -> None:
        self._digest = None if secret is None else _digest(secret)

    def check(self, request: Request) -> None:
        """Raise where the request does not show it."""
        if self._digest is None:
            return
        shown = _shown(request)
        if shown is None or not hmac.compare_digest(_digest(shown), self._digest):
            got = "none" if shown is None else "another"
            raise refused(401, "token", "the one of the service", got, "Send Authorization: Bearer TOKEN.")


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _shown(request: Request) -> str | None:
    header = request.headers.get("authorization")
    if header is None:
        return request.query_params.get("token")
    kind, _, value = header.partition(" ")
    if kind.lower() == "bearer":
        return value.strip()
    if kind.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).decode("utf-8", "replace").partition(":")[2]
        except (binascii.Error, ValueError):
            return ""
    return ""


async def read_body(request: Request, most: int, seconds: float) -> bytes:
    """All of the body, if it is not too much and does not take too long."""
    said = request.headers.get("content-length", "")
    if said.isdecimal() and int(said) > most:
        raise _too_large(most, f"{int(said):,}")
    if request.headers.get("content-encoding", "identity") != "identity":
        raise refused(415, "Content-Encoding", "left out", request.headers["content-encoding"][:40])
    parts, size = [], 0
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise _too_large(most, "more")
                parts.append(part)
    except TimeoutError:
        raise refused(408, "body", f"sent within {seconds:g} s", f"{size:,} bytes by then") from None
    except ClientDisconnect:
        raise refused(400, "body", "complete", "a connection that closed") from None
    return b"".join(parts)


def _too_large(most: int, got: str) -> Refused:
    return refused(413, "body", f"at most {most:,} bytes", got, "Send fewer groups at a time, or raise max_body.")


def parse(body: bytes) -> Any:
    """The JSON of a body. Lone surrogates, which half a sampled character leaves, are read as they are."""
    try:
        return from_json(body, allow_inf_nan=False, cache_strings="keys")
    except ValueError as error:
        if b"\\u" not in body:
            raise _no_json(error) from None
    try:
        found = json.loads(body, parse_constant=no_constant)
    except (ValueError, RecursionError) as error:
        raise _no_json(error) from None
    if _is_deep(found):
        raise _no_json(RecursionError())
    return found


def _is_deep(data: Any) -> bool:
    level = [data]
    for _ in range(_DEEPEST):
        level = [inner for one in level for inner in _inside(one)]
        if not level:
            return False
    return True


def _inside(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _no_json(error: Exception) -> Refused:
    got = "too deep" if isinstance(error, RecursionError) else str(error)[:120]
    remedy = "NaN and Infinity are no JSON: send null." if b"NaN" in got.encode() or "expected value" in got else ""
    return refused(400, "body", "JSON", got, remedy)


def error_response(error: BaseException) -> Response:
    """What went wrong, for the caller: their mistake (4xx), judges that fail (503), or ours (500)."""
    if isinstance(error, Refused):
        return _response(error.status, error.error)
    if isinstance(error, InvalidInput):
        return _response(503 if _is_of_a_judge(error) else 422, error)
    if isinstance(error, JudgingFailed | JudgeOutage | GradingFailed):
        found = InvalidInput("judges", "answers", "enough to continue", str(error), "Try again when judges answer.")
        return _response(503, found, message=str(error))
    if isinstance(error, RubrankError):
        return _response(422, InvalidInput("request", "body", "usable", str(error), ""), message=str(error))
    _log.error("a request failed", exc_info=error)
    found = InvalidInput("service", "request", "answered", type(error).__name__, "The log of the service says more.")
    return _response(500, found)


def _is_of_a_judge(error: InvalidInput) -> bool:
    """Does a judge's server refuse its key, model or address? That is no mistake of the caller's."""
    return error.owner.startswith("judge ") and error.parameter in ("api_key_env", "model", "base_url", "endpoints")


def _response(status: int, error: InvalidInput, message: str | None = None) -> Response:
    data = {
        "where": error.owner,
        "what": error.parameter,
        "allowed": error.allowed,
        "got": error.got,
        "remedy": error.remedy,
        "message": message or str(error),
    }
    headers = {"Retry-After": _AGAIN} if status in (429, 503) else {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(to_json({"error": data}), status, headers, "application/json")
