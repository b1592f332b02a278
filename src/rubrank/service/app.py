"""The routes of the service, as a Starlette app.

    POST /v1/groups      whole groups → rewards, scores, reasons, cost
    POST /v1/score       one rollout → its scores
    POST /openrlhf       OpenRLHF       POST /slime, /miles      slime, miles
    POST /verify         NeMo Gym, with /seed_session, /close_session, /aggregate_metrics, GET /reverify_mode
    GET  /healthz        the process is running; /readyz  it accepts requests; /metrics  for Prometheus

Bodies are JSON in UTF-8. Every answer that is not 2xx is {"error": {…}}.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rubrank.service.access import Token, make_error_response, make_refusal, parse_json, read_body
from rubrank.service.cohorts import SampleAnswer, ServiceSample
from rubrank.service.dialects import (
    NEMO_GYM,
    OPENRLHF,
    REVERIFY_MODE,
    SESSION,
    SLIME,
    Dialect,
    SampleReader,
    aggregate_metrics,
    answer_session,
)
from rubrank.service.metrics import CONTENT_TYPE
from rubrank.service.schemas import GroupsRequest, ScoreRequest, to_json, validate
from rubrank.service.service import Service, make_shutdown_error

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
OpenService: TypeAlias = Callable[[], AbstractAsyncContextManager[tuple[Service, str | None]]]
"""Opens a context with (the service, its token)."""
_JSON = "application/json"
_CALLER_GONE_STATUS = 499
_MOST_COOKIE_CHARACTERS = 200  # characters of a session's name


def make_app(open_service: OpenService) -> Starlette:
    """Return the app; the service is opened when the server starts, and closed when it ends."""
    app = Starlette(exception_handlers={404: _refuse_path, 405: _refuse_method})

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with open_service() as (service, secret):
            app.router.routes.extend(Routes(service, secret).make_routes())
            app.state.service = service
            yield

    app.router.lifespan_context = lifespan
    return app


async def _refuse_path(request: Request, error: Exception) -> Response:
    """Answer a request to a path that does not exist."""
    allowed = "one of " + ", ".join(sorted(route.path for route in request.app.routes))
    return make_error_response(
        make_refusal(404, "path", allowed=allowed, got=request.url.path[:80])
    )


async def _refuse_method(request: Request, error: Exception) -> Response:
    """Answer a request with a method that its path does not have."""
    headers = getattr(error, "headers", None) or {}
    return make_error_response(
        make_refusal(405, "method", allowed=headers.get("Allow", "another"), got=request.method)
    )


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
                if needs_token:
                    self._token.check(request)
                response = await handler(request)
            except Exception as error:
                response = make_error_response(error)
            self._service.metrics.observe_request(
                path, response.status_code, time.perf_counter() - started_at
            )
            return response

        return handle

    async def _read_body(self, request: Request) -> bytes:
        config = self._service.config
        return await read_body(request, config.max_body, config.body_timeout)

    # -------------------------------------------------------------------------------------------------- rewards

    async def _score_groups(self, request: Request) -> Response:
        body = await self._read_body(request)
        groups = validate(GroupsRequest, parse_json(body))
        return Response(await self._service.score_groups(groups, body), media_type=_JSON)

    async def _score_rollout(self, request: Request) -> Response:
        body = validate(ScoreRequest, parse_json(await self._read_body(request))).as_group()
        service = self._service
        group = body.make_group("score", "body", service.config.max_group, service.engine.thinking)
        return Response(await service.score_rollout(group), media_type=_JSON)

    def _make_sample_handler(self, dialect: Dialect) -> Handler:
        """Return the handler for a trainer that sends samples one by one."""

        async def handle(request: Request) -> Response:
            body = parse_json(await self._read_body(request))
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
        tasks = [asyncio.ensure_future(self._service.score_sample(sample)) for sample in samples]
        scoring: asyncio.Future[Any] = asyncio.gather(*tasks)
        disconnecting = asyncio.ensure_future(_wait_for_disconnect(request))
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
        answer = answer_session(parse_json(await self._read_body(request)))
        response = Response(to_json(answer), media_type=_JSON)
        name = quote(str(answer.get(SESSION, "none"))[:_MOST_COOKIE_CHARACTERS], safe="")
        response.set_cookie("rubrank_session", name, httponly=True)
        return response

    async def _aggregate_metrics(self, request: Request) -> Response:
        body = parse_json(await self._read_body(request))
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
            "waiting_rollouts": float(service.pipeline.waiting),
            "ready": float(service.is_ready),
            "resident_bytes": float(_measure_memory()),
        }
        if service.local_cohorts is not None:
            current["waiting_samples"] = float(service.local_cohorts.waiting)
            current["open_groups"] = float(service.local_cohorts.unfinished)
        return Response(service.metrics.render(current), media_type=CONTENT_TYPE)


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


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _measure_memory() -> int:
    """Return the bytes of memory that the process uses."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        # No /proc: use the peak, which macOS reports in bytes and others in kilobytes.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
