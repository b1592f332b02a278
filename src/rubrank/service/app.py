"""The routes of the service, as a Starlette app.

    POST /v1/groups      whole groups → rewards, scores, reasons, cost
    POST /v1/score       one rollout → its scores
    POST /openrlhf       OpenRLHF       POST /slime, /miles      slime, miles
    POST /verify         NeMo Gym, with /seed_session, /close_session, /aggregate_metrics, GET /reverify_mode
    GET  /healthz        the process is running; /readyz  it accepts requests; /metrics  for Prometheus

Bodies are JSON in UTF-8. Every answer that is not 2xx is an error:

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
import os
import resource
import sqlite3
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from rubrank._plain import check_unique_keys, refuse_constant, validate_model
from rubrank.errors import GradingFailed, InvalidInput, JudgeOutage, JudgingFailed, RubrankError
from rubrank.service.cohorts import SampleAnswer, ServiceSample
from rubrank.service.config import ServiceConfig
from rubrank.service.requests import (
    NEMO_GYM,
    OPENRLHF,
    REQUEST,
    REVERIFY_MODE,
    SESSION,
    SLIME,
    Dialect,
    GroupsRequest,
    RequestRefused,
    SampleReader,
    ScoreRequest,
    aggregate_metrics,
    answer_session,
    make_refusal,
    make_shutdown_error,
    to_json,
)
from rubrank.service.service import METRICS_CONTENT_TYPE, Service

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
OpenService: TypeAlias = Callable[[], AbstractAsyncContextManager[tuple[Service, str | None]]]
"""A function that returns an asynchronous context: it starts the service, yields it with its token, and closes it."""
_log = logging.getLogger("rubrank.service")
_JSON = "application/json"
_SEE_LOG = "Try again later; the log of the service has the details."
_RETRY_AFTER_SECONDS = "5"
_MOST_JSON_LEVELS = 200
_CALLER_GONE_STATUS = 499  # nginx logs this for callers that disconnect; nobody receives it
_MOST_COOKIE_CHARACTERS = 200  # characters of a session's name


def make_app(open_service: OpenService) -> Starlette:
    """Return the app; the service is opened when the server starts, and closed when it ends."""
    app = Starlette(exception_handlers={404: _refuse_route, 405: _refuse_route})

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with open_service() as (service, secret):
            app.router.routes.extend(Routes(service, secret).make_routes())
            app.state.service = service
            yield

    app.router.lifespan_context = lifespan
    return app


async def _refuse_route(request: Request, error: Exception) -> Response:
    """Answer a request whose path does not exist, or does not have its method."""
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        allowed = "one of " + ", ".join(sorted(route.path for route in request.app.routes))
        refusal = make_refusal(404, "path", allowed=allowed, got=request.url.path[:80])
    else:
        methods = (error.headers or {}).get("Allow", "another")
        refusal = make_refusal(405, "method", allowed=methods, got=request.method)
    return make_error_response(refusal)


class Routes:
    """The handlers of all paths. A handler reads a request, calls the service, and writes the response."""

    def __init__(self, service: Service, secret: str | None) -> None:
        self._service = service
        self._token = Token(secret)
        config = service.config
        engine = service.engine
        self._reader = SampleReader(
            group_size=config.group_size,
            rubric_column=config.rubric_column,
            end_tokens=config.end_tokens,
            needs_step=any(control.start > 0 for control in engine.controls),
            max_group=config.max_group,
            thinking=engine.thinking,
        )

    def make_routes(self) -> list[Route]:
        """Return all routes. Only the two health checks need no token."""
        handlers: list[tuple[str, str, Handler]] = [
            ("POST", "/v1/groups", self._score_groups),
            ("POST", "/v1/score", self._score_rollout),
            ("POST", "/openrlhf", self._make_sample_handler(OPENRLHF)),
            ("POST", "/slime", self._make_sample_handler(SLIME)),
            ("POST", "/miles", self._make_sample_handler(SLIME)),
            ("POST", "/verify", self._make_sample_handler(NEMO_GYM)),
            ("POST", "/seed_session", self._answer_session),
            ("POST", "/close_session", self._answer_session),
            ("POST", "/aggregate_metrics", self._aggregate_metrics),
            ("GET", "/reverify_mode", _make_constant_handler(REVERIFY_MODE)),
            ("GET", "/metrics", self._answer_metrics),
            ("GET", "/healthz", _make_constant_handler({"status": "ok", "process": os.getpid()})),
            ("GET", "/readyz", self._answer_readyz),
        ]
        return [
            Route(path, self._guard(path, handler), methods=[method])
            for method, path, handler in handlers
        ]

    def _guard(self, path: str, handler: Handler) -> Handler:
        """Wrap a handler: check the token, turn errors into responses, and record metrics."""
        needs_token = path not in ("/healthz", "/readyz")

        async def handle(request: Request) -> Response:
            started_at = time.perf_counter()
            try:
                if needs_token and not self._token.is_right(request):
                    raise make_refusal(
                        401,
                        "token",
                        allowed="the token of this service",
                        got="none" if _find_token(request) is None else "a different one",
                        remedy="Send Authorization: Bearer TOKEN.",
                    )
                response = await handler(request)
            except Exception as error:
                response = make_error_response(error)
            self._service.metrics.observe_request(
                path, response.status_code, time.perf_counter() - started_at
            )
            return response

        return handle

    # -------------------------------------------------------------------------------------------------- rewards

    async def _score_groups(self, request: Request) -> Response:
        body, data = await read_json(request, self._service.config)
        groups = validate_model(GroupsRequest, data, REQUEST, "service")
        return Response(await self._service.score_groups(groups, body), media_type=_JSON)

    async def _score_rollout(self, request: Request) -> Response:
        service = self._service
        _, data = await read_json(request, service.config)
        body = validate_model(ScoreRequest, data, REQUEST, "service").as_group()
        group = body.make_group("score", "body", service.config.max_group, service.engine.thinking)
        return Response(await service.score_rollout(group), media_type=_JSON)

    def _make_sample_handler(self, dialect: Dialect) -> Handler:
        """Return the handler for a trainer that sends samples one by one."""

        async def handle(request: Request) -> Response:
            _, body = await read_json(request, self._service.config)
            samples = dialect.read_samples(body, self._reader)
            answers = await self._score_while_connected(request, samples)
            if answers is None:
                return Response(status_code=_CALLER_GONE_STATUS)
            write = dialect.write_answer
            if request.query_params.get("form") == "object" and dialect.write_object is not None:
                write = dialect.write_object
            return Response(to_json(write(body, answers)), 200, _describe_group(answers), _JSON)

        return handle

    async def _score_while_connected(
        self, request: Request, samples: list[ServiceSample]
    ) -> list[SampleAnswer] | None:
        """Return the answers; None if the caller has disconnected. If one sample fails, the others are cancelled."""

        async def wait_for_disconnect() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass

        tasks = [asyncio.ensure_future(self._service.score_sample(sample)) for sample in samples]
        scoring: asyncio.Future[Any] = asyncio.gather(*tasks)
        disconnecting = asyncio.ensure_future(wait_for_disconnect())
        try:
            await asyncio.wait([scoring, disconnecting], return_when=asyncio.FIRST_COMPLETED)
            if not scoring.done():
                return None
            return list(await scoring)
        finally:
            # `scoring` cannot be cancelled after a sample has failed, so its tasks are cancelled too.
            for future in (scoring, *tasks, disconnecting):
                future.cancel()
            await asyncio.gather(scoring, *tasks, disconnecting, return_exceptions=True)

    async def _answer_session(self, request: Request) -> Response:
        """NeMo Gym begins and ends a session with each sample; it expects the id of the session back, and a cookie."""
        _, body = await read_json(request, self._service.config)
        answer = answer_session(body)
        response = Response(to_json(answer), media_type=_JSON)
        name = quote(str(answer.get(SESSION, "none"))[:_MOST_COOKIE_CHARACTERS], safe="")
        response.set_cookie("rubrank_session", name, httponly=True)
        return response

    async def _aggregate_metrics(self, request: Request) -> Response:
        _, body = await read_json(request, self._service.config)
        return Response(to_json(aggregate_metrics(body)), media_type=_JSON)

    # --------------------------------------------------------------------------------------------------- health

    async def _answer_readyz(self, request: Request) -> Response:
        """Answer 200 if the service accepts requests, else 503; load balancers ask this."""
        service = self._service
        if service.is_ending:
            raise make_shutdown_error()
        if not service.is_ready:
            raise make_refusal(503, "service", allowed="ready", got="starting", where="service")
        return Response(b'{"status": "ready"}', media_type=_JSON)

    async def _answer_metrics(self, request: Request) -> Response:
        """Answer with all counters, and with how much is waiting now."""
        service = self._service
        current = {
            "waiting_rollouts": float(service.rollouts_in_thread),
            "ready": float(service.is_ready),
            "resident_bytes": float(_measure_memory()),
        }
        if service.local_cohorts is not None:
            current["waiting_samples"] = float(service.local_cohorts.waiting)
            current["open_groups"] = float(service.local_cohorts.unfinished)
        return Response(service.metrics.render(current), media_type=METRICS_CONTENT_TYPE)


def _make_constant_handler(data: Any) -> Handler:
    """Return a handler that always answers with the same JSON."""

    async def handle(request: Request) -> Response:
        return Response(to_json(data), media_type=_JSON)

    return handle


def _describe_group(answers: list[SampleAnswer]) -> dict[str, str]:
    """Return a header that says whether the group was complete, because some trainers read only a bare number."""
    if not answers:
        return {}
    least_complete = min(answers, key=lambda answer: answer.samples / answer.size)
    state = "complete" if least_complete.complete else "incomplete"
    late = " late" if least_complete.late else ""
    return {"X-Rubrank-Group": f"{state} {least_complete.samples}/{least_complete.size}{late}"}


def _measure_memory() -> int:
    """Return the bytes of memory that the process uses."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        # No /proc: use the peak, which macOS reports in bytes and others in kilobytes.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


# ---------------------------------------------------------------------------------------------------- tokens and bodies


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


async def read_json(request: Request, config: ServiceConfig) -> tuple[bytes, Any]:
    """Return the body of a request, as it was sent and as data.

    Lone surrogates, which come from a sampled half of a character, are preserved. Raises RequestRefused if the body
    has more than `max_body` bytes, takes longer than `body_timeout` seconds, or is not JSON.
    """
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > config.max_body:
        raise _refuse_size(config.max_body, f"{int(declared):,}")
    encoding = request.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise make_refusal(415, "Content-Encoding", allowed="left out", got=encoding[:40])
    body = bytearray()
    try:
        async with asyncio.timeout(config.body_timeout):
            async for part in request.stream():
                body += part
                if len(body) > config.max_body:
                    raise _refuse_size(config.max_body, "more")
    except TimeoutError:
        raise make_refusal(
            408,
            "body",
            allowed=f"sent within {config.body_timeout:g} s",
            got=f"{len(body):,} bytes by then",
        ) from None
    except ClientDisconnect:
        raise make_refusal(400, "body", allowed="complete", got="a closed connection") from None
    try:
        data = json.loads(
            body.decode("utf-8"),
            parse_constant=refuse_constant,
            object_pairs_hook=check_unique_keys,
        )
        # Recursive code would overflow the stack if lists and objects were nested deeper than this.
        level = [data]
        for _ in range(_MOST_JSON_LEVELS):
            inner: list[Any] = []
            for value in level:
                if isinstance(value, dict):
                    inner.extend(value.values())
                elif isinstance(value, list):
                    inner.extend(value)
            level = inner
            if not level:
                break
        else:
            raise ValueError("too deep")
    except (ValueError, RecursionError) as error:
        allowed = "JSON without NaN or repeated keys"
        raise make_refusal(400, "body", allowed=allowed, got=str(error)[:120]) from None
    return bytes(body), data


def _refuse_size(most: int, got: str) -> RequestRefused:
    """Return the error for a body with more than `most` bytes."""
    return make_refusal(
        413,
        "body",
        allowed=f"at most {most:,} bytes",
        got=got,
        remedy="Send fewer groups at a time, or raise max_body.",
    )


# --------------------------------------------------------------------------------------------------------------- errors


def make_error_response(error: BaseException) -> Response:
    """Return the response for an error: a mistake of the caller (4xx), failing judges or disks (503), or a bug (500).

    Callers see nothing of the host: the addresses of judges, paths and tracebacks are in the log only.
    """
    if isinstance(error, RequestRefused):
        return _make_response(error.status, error.error)
    # A judge's server may refuse its key, model or address. That is not the caller's mistake. Such errors are made by
    # `Judge.make_error`, which names the owner: in `JudgeEndpoint.explain_refusal`, or when a client is opened.
    is_about_judge = (
        isinstance(error, InvalidInput)
        and error.owner.startswith("judge ")
        and error.parameter in ("api_key_env", "model", "base_url", "endpoints")
    )
    if is_about_judge or isinstance(error, JudgingFailed | GradingFailed | JudgeOutage):
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
    return Response(to_json({"error": data}), status, headers, _JSON)
