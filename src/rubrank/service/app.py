"""The routes of the service, as a Starlette app.

    POST /v1/groups      whole groups → rewards, scores, reasons, cost
    POST /v1/score       one rollout → its scores
    POST /openrlhf       OpenRLHF       POST /slime, /miles      slime, miles
    POST /verify         NeMo Gym, with /seed_session, /close_session, /aggregate_metrics, GET /reverify_mode
    GET  /healthz        the process is there; /readyz  it takes requests; /metrics  for Prometheus

Bodies are JSON in UTF-8. Every answer that is no 2xx is {"error": {…}}.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import ModuleType
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rubrank.service.access import Token, error_response, parse, read_body, refused
from rubrank.service.dialects import nemo_gym, openrlhf, slime
from rubrank.service.dialects.reading import SampleReading
from rubrank.service.samples import SampleAnswer, ServiceSample
from rubrank.service.service import Here, Service
from rubrank.service.wire import groups_request, one_rollout, to_json

Handler = Callable[[Request], Awaitable[Response]]
_JSON = "application/json"
_GONE = 499  # the caller is gone
_MOST_COOKIE = 200  # characters of a session's name


class Routes:
    """The service behind HTTP."""

    def __init__(self, service: Service, secret: str | None) -> None:
        self.service, self._token = service, Token(secret)
        config = service.config
        late = any(control.start > 0 for control in service.engine.controls)
        self._reading = SampleReading(
            config.group_size,
            config.rubric_column,
            config.end_tokens,
            late,
            config.max_group,
            service.engine.thinking,
        )

    def routes(self) -> list[Route]:
        """All of them."""
        posts: dict[str, Handler] = {
            "/v1/groups": self.groups,
            "/v1/score": self.score,
            "/openrlhf": self._dialect(openrlhf),
            "/slime": self._dialect(slime),
            "/miles": self._dialect(slime),
            "/verify": self._dialect(nemo_gym),
            "/seed_session": self.session,
            "/close_session": self.session,
            "/aggregate_metrics": self.aggregate_metrics,
        }
        gets: dict[str, Handler] = {
            "/healthz": self.healthz,
            "/readyz": self.readyz,
            "/metrics": self.metrics,
            "/reverify_mode": self.reverify_mode,
        }
        open_ones = ("/healthz", "/readyz")
        made = [Route(path, self._guarded(path, run), methods=["POST"]) for path, run in posts.items()]
        return made + [
            Route(path, self._guarded(path, run, asks=path not in open_ones), methods=["GET"])
            for path, run in gets.items()
        ]

    def _guarded(self, path: str, handler: Handler, asks: bool = True) -> Handler:
        """Token, errors and times of a route."""

        async def run(request: Request) -> Response:
            begun = time.perf_counter()
            try:
                if asks:
                    self._token.check(request)
                response = await handler(request)
            except Exception as error:
                response = error_response(error)
            self.service.metrics.answered(path, response.status_code, time.perf_counter() - begun)
            return response

        return run

    async def _body(self, request: Request) -> Any:
        config = self.service.config
        return parse(await read_body(request, config.max_body, config.body_timeout))

    # --------------------------------------------------------------------------------------------------------- rewards

    async def groups(self, request: Request) -> Response:
        """Whole groups."""
        service = self.service
        body = await read_body(request, service.config.max_body, service.config.body_timeout)
        engine = service.engine
        asked = groups_request(parse(body), service.config.max_group, engine.label, engine.thinking)
        return Response(await service.groups(asked, body), media_type=_JSON)

    async def score(self, request: Request) -> Response:
        """One rollout."""
        service = self.service
        group = one_rollout(await self._body(request), service.config.max_group, service.engine.thinking)
        return Response(await service.score(group), media_type=_JSON)

    def _dialect(self, dialect: ModuleType) -> Handler:
        async def run(request: Request) -> Response:
            body = await self._body(request)
            samples: list[ServiceSample] = dialect.samples(body, self._reading)
            answers = await self._while_there(request, samples)
            if answers is None:
                return Response(status_code=_GONE)
            write = dialect.answer
            if request.query_params.get("form") == "object":
                write = getattr(dialect, "whole_answer", write)
            return Response(to_json(write(body, answers)), 200, _headers(answers), _JSON)

        return run

    async def _while_there(self, request: Request, samples: list[ServiceSample]) -> list[SampleAnswer] | None:
        """The answers; None: the caller has gone, and may come back."""
        work = asyncio.ensure_future(_together([self.service.sample(sample) for sample in samples]))
        gone = asyncio.ensure_future(_disconnected(request))
        try:
            both: set[asyncio.Future[Any]] = {work, gone}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return await work
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            return None
        except BaseException:
            work.cancel()
            raise
        finally:
            gone.cancel()

    async def session(self, request: Request) -> Response:
        """NeMo Gym begins and ends a session with each sample; it wants its id back, and a cookie."""
        told = nemo_gym.session(await self._body(request))
        response = Response(to_json(told), media_type=_JSON)
        name = quote(str(told.get(nemo_gym.SESSION, "none"))[:_MOST_COOKIE], safe="")
        response.set_cookie("rubrank_session", name, httponly=True)
        return response

    async def aggregate_metrics(self, request: Request) -> Response:
        """Of the samples that NeMo Gym had verified."""
        return Response(to_json(nemo_gym.aggregated(await self._body(request))), media_type=_JSON)

    async def reverify_mode(self, request: Request) -> Response:
        """Can one sample be verified again by itself?"""
        return Response(to_json(nemo_gym.REVERIFY), media_type=_JSON)

    # ---------------------------------------------------------------------------------------------------------- health

    async def healthz(self, request: Request) -> Response:
        """The process is there."""
        return Response(to_json({"status": "ok", "process": os.getpid()}), media_type=_JSON)

    async def readyz(self, request: Request) -> Response:
        """It takes requests."""
        service = self.service
        if service.ending or not service.ready:
            got = "shutting down" if service.ending else "starting"
            raise refused(503, "service", "ready", got, where="service")
        return Response(b'{"status": "ready"}', media_type=_JSON)

    async def metrics(self, request: Request) -> Response:
        """For Prometheus."""
        service = self.service
        now = {"waiting_rollouts": float(service.pipeline.waiting), "ready": float(service.ready)}
        more = dict(service.pipeline.counts)
        if isinstance(service.siblings, Here):
            cohorts = service.siblings.cohorts
            now |= {"waiting_samples": float(cohorts.waiting), "open_groups": float(cohorts.unfinished)}
            counts = service.metrics.counts
            more |= {name: number + counts[name] for name, number in cohorts.counts.items()}
        now["resident_bytes"] = float(_resident())
        return Response(service.metrics.text(now, more), media_type="text/plain; version=0.0.4; charset=utf-8")


def _headers(answers: list[SampleAnswer]) -> dict[str, str]:
    """What a bare number cannot say."""
    if not answers:
        return {}
    least = min(answers, key=lambda one: one.samples / one.size)
    state = "complete" if least.complete else "incomplete"
    return {"X-Rubrank-Group": f"{state} {least.samples}/{least.size}{' late' if least.late else ''}"}


async def _together(calls: list[Coroutine[Any, Any, SampleAnswer]]) -> list[SampleAnswer]:
    """All of them, or the first error: then nobody waits for the others, which leave their places."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _resident() -> int:
    """Bytes of memory."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024


Opened = Callable[[], AbstractAsyncContextManager[tuple[Service, str | None]]]


def make_app(opened: Opened) -> Starlette:
    """The app. opened: a context in which there are a service and its token."""
    app = Starlette(exception_handlers={404: _not_found, 405: _not_allowed})

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with opened() as (service, secret):
            app.router.routes.extend(Routes(service, secret).routes())
            app.state.service = service
            yield

    app.router.lifespan_context = lifespan
    return app


async def _not_found(request: Request, error: Exception) -> Response:
    allowed = "one of " + ", ".join(sorted(route.path for route in request.app.routes))
    return error_response(refused(404, "path", allowed, request.url.path[:80]))


async def _not_allowed(request: Request, error: Exception) -> Response:
    allowed = getattr(error, "headers", None) or {}
    return error_response(refused(405, "method", allowed.get("Allow", "another"), request.method))
