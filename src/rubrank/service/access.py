"""Access to the service: tokens, limits on bodies, JSON parsing, and error responses.

    {"error": {"where": "request", "what": "groups.0.prompt", "allowed": "a text or messages", "got": "7",
               "remedy": "", "message": "request: groups.0.prompt must be …"}}

A token comes as `Authorization: Bearer …`, as the password of a URL (http://any:TOKEN@host), or as `?token=…` for
trainers that can be configured with a URL only.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import errno
import hashlib
import hmac
import json
import logging
import sqlite3
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from rubrank._plain import check_unique_keys, refuse_constant
from rubrank.errors import GradingFailed, InvalidInput, JudgeOutage, JudgingFailed, RubrankError
from rubrank.service.schemas import to_json

_log = logging.getLogger("rubrank.service")
_SEE_LOG = "Try again later; the log of the service says more."
_RETRY_AFTER_SECONDS = "5"  # seconds
_MOST_JSON_LEVELS = 200  # levels of nesting: recursive code would overflow the stack


class RequestRefused(Exception):  # noqa: N818
    """Raised to answer a request with an error."""

    def __init__(self, status: int, error: InvalidInput) -> None:
        super().__init__(status, error)
        self.status = status
        self.error = error


def make_refusal(
    status: int, what: str, allowed: str, got: str, remedy: str = "", where: str = "request"
) -> RequestRefused:
    """Return the error to raise for a request, with the parts that all errors of rubrank have."""
    return RequestRefused(
        status, InvalidInput(where, what, allowed=allowed, got=got, remedy=remedy)
    )


class Token:
    """The token of the service; None: no token is needed."""

    def __init__(self, secret: str | None) -> None:
        self._digest = None if secret is None else _digest(secret)

    @property
    def is_needed(self) -> bool:
        """Do callers need a token?"""
        return self._digest is not None

    def is_right(self, request: Request) -> bool:
        """Does the request have the token, if one is needed?"""
        if self._digest is None:
            return True
        sent = _find_token(request)
        # Digests are compared in constant time, so that response times reveal nothing about the token.
        return sent is not None and hmac.compare_digest(_digest(sent), self._digest)

    def check(self, request: Request) -> None:
        """Raise RequestRefused if the request does not have the token."""
        if not self.is_right(request):
            raise make_refusal(
                401,
                "token",
                allowed="the token of this service",
                got="none" if _find_token(request) is None else "a different one",
                remedy="Send Authorization: Bearer TOKEN.",
            )


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _find_token(request: Request) -> str | None:
    """Return the token that a request carries; None: it carries none, "": one in an unknown form."""
    header = request.headers.get("authorization")
    if header is None:
        return request.query_params.get("token")
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() == "basic":
        try:
            user_and_password = base64.b64decode(value, validate=True).decode("utf-8", "replace")
        except (binascii.Error, ValueError):
            return ""
        return user_and_password.partition(":")[2]
    return ""


async def read_body(request: Request, most: int, seconds: float) -> bytes:
    """Return the body of a request. Raises RequestRefused if it has more than `most` bytes or takes too long."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > most:
        raise _refuse_size(most, f"{int(length):,}")
    if request.headers.get("content-encoding", "identity") != "identity":
        raise make_refusal(
            415,
            "Content-Encoding",
            allowed="left out",
            got=request.headers["content-encoding"][:40],
        )
    parts = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise _refuse_size(most, "more")
                parts.append(part)
    except TimeoutError:
        raise make_refusal(
            408, "body", allowed=f"sent within {seconds:g} s", got=f"{size:,} bytes by then"
        ) from None
    except ClientDisconnect:
        raise make_refusal(400, "body", allowed="complete", got="a closed connection") from None
    return b"".join(parts)


def _refuse_size(most: int, got: str) -> RequestRefused:
    """Return the error for a body with more than `most` bytes."""
    return make_refusal(
        413,
        "body",
        allowed=f"at most {most:,} bytes",
        got=got,
        remedy="Send fewer groups at a time, or raise max_body.",
    )


def parse_json(body: bytes) -> Any:
    """Return the JSON of a body. Lone surrogates, which come from a sampled half of a character, are preserved."""
    try:
        data = json.loads(
            body.decode("utf-8"),
            parse_constant=refuse_constant,
            object_pairs_hook=check_unique_keys,
        )
    except (ValueError, RecursionError) as error:
        raise _refuse_json(str(error)) from None
    level = [data]
    for _ in range(_MOST_JSON_LEVELS):
        inner: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                inner.extend(value.values())
            elif isinstance(value, list):
                inner.extend(value)
        if not inner:
            return data
        level = inner
    raise _refuse_json("too deep")


def _refuse_json(problem: str) -> RequestRefused:
    """Return the error for a body that cannot be used as JSON. problem: what the parser says."""
    allowed = "JSON without repeated keys and NaN"
    return make_refusal(400, "body", allowed=allowed, got=problem[:120])


def make_error_response(error: BaseException) -> Response:
    """Return the response for an error: a mistake of the caller (4xx), failing judges or disks (503), or a bug (500).

    Callers see nothing of the host: the addresses of judges, paths and tracebacks are in the log only.
    """
    if isinstance(error, RequestRefused):
        return _make_response(error.status, error.error)
    if isinstance(error, JudgingFailed | GradingFailed | JudgeOutage) or _is_about_judge(error):
        _log.error("%s", error)
        got = "a judge that does not answer, or whose server refuses its key or model"
        if isinstance(error, JudgingFailed | GradingFailed):
            got = f"{error.missing:,} of {error.asked:,} missing"
        return _make_response(
            503, InvalidInput("judges", "answers", "enough to continue", got, _SEE_LOG)
        )
    if _is_about_disk(error):
        _log.error("%s", error)
        return _make_response(
            503, InvalidInput("service", "disk", "writable", "full or failing", _SEE_LOG)
        )
    if isinstance(error, InvalidInput):
        return _make_response(422, error)
    if isinstance(error, RubrankError):
        answer = InvalidInput("request", "body", "usable", got=str(error))
        return _make_response(422, answer, message=str(error))
    _log.error("a request failed", exc_info=error)
    return _make_response(
        500, InvalidInput("service", "request", "answered", type(error).__name__, _SEE_LOG)
    )


def _is_about_judge(error: BaseException) -> bool:
    """Does a judge's server refuse its key, model or address? That is not the caller's mistake."""
    if not isinstance(error, InvalidInput) or not error.owner.startswith("judge "):
        return False
    return error.parameter in ("api_key_env", "model", "base_url", "endpoints")


def _is_about_disk(error: BaseException) -> bool:
    """Is the reason that records or answers cannot be written?"""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
    if isinstance(error, sqlite3.OperationalError):
        return any(word in str(error) for word in ("full", "readonly", "disk I/O"))
    return isinstance(error, InvalidInput) and error.owner == "records"


def _make_response(status: int, error: InvalidInput, message: str | None = None) -> Response:
    """Return {"error": …} as a response. message: the whole sentence, if it is not that of the error."""
    data = {
        "where": error.owner,
        "what": error.parameter,
        "allowed": error.allowed,
        "got": error.got,
        "remedy": error.remedy,
        "message": message or str(error),
    }
    headers = {}
    if status in (429, 503):
        headers["Retry-After"] = _RETRY_AFTER_SECONDS
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if status in (401, 408, 413, 415):
        # The body was not read. Without this, the caller could go on sending it indefinitely.
        headers["Connection"] = "close"
    return Response(to_json({"error": data}), status, headers, "application/json")
