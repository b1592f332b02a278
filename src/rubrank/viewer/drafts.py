"""`rubrank view rubrics.jsonl`: drafted rubrics beside their prompts, over the same local server as records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rubrank.drafting.page import make_page, read_drafts, read_style
from rubrank.viewer.server import AccessMiddleware, serve_app


def serve_drafts(source: Path, *, host: str, port: int, on_ready: Callable[[str], None]) -> None:
    """Serve a file of drafted rubrics until Ctrl-C."""
    read_drafts(source)  # a file that cannot be shown is refused before the address is printed
    serve_app(partial(make_app, source), host=host, port=port, on_ready=on_ready)


def make_app(source: Path, hosts: Sequence[str] = (), token: str | None = None) -> Starlette:
    """Return the application over one file. It is read for every request, because it may have been written again."""

    def show(request: Request) -> Response:
        drafts = read_drafts(source)
        row = request.query_params.get("row", "1")
        if not row.isdecimal() or not 1 <= int(row) <= len(drafts):
            return Response(f"row must be a number from 1 to {len(drafts)}", 404)
        page = make_page(drafts, int(row) - 1)
        # A lone surrogate, which UTF-8 cannot hold, becomes a question mark.
        return Response(page.encode("utf-8", "replace"), media_type="text/html")

    def show_style(request: Request) -> Response:
        return Response(read_style(), media_type="text/css")

    routes = [Route("/", show), Route("/draft.css", show_style)]
    return Starlette(
        routes=routes, middleware=[Middleware(AccessMiddleware, hosts=hosts, token=token)]
    )
