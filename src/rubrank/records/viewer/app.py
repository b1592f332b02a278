"""The pages' addresses: everything is read, nothing is written.

    GET /                      the page                 GET /assets/NAME         its modules and style sheets
    GET /api/state             runs, how far read       GET /api/groups          a part of a list
    GET /api/place             where a group stands     GET /api/group           one group, under any rule
    GET /api/same              the same prompt elsewhere       GET /api/common   prompts that two runs share
    GET /api/curves            means over steps         GET /api/export          a list as CSV or JSON lines

Every answer forbids scripts, styles and connections but its own; a host name that was not asked for is refused, so that
no other page can reach in through a name of its own. Beyond this machine a token is asked for.
"""

from __future__ import annotations

import csv
import hmac
import io
import json
import math
from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from rubrank.errors import RubrankError
from rubrank.fusion.rules import rule_names
from rubrank.records import pages
from rubrank.records.facts import title_of
from rubrank.records.report.making import shortened_numbers
from rubrank.records.viewer.curves import common_prompts, curves_of, steps_of
from rubrank.records.viewer.finding import GroupFinder, Wanted
from rubrank.records.viewer.index import NO_STEP, UNREADABLE, group_facts
from rubrank.records.viewer.light import decoded, head_of
from rubrank.records.viewer.run import ViewedRun
from rubrank.records.viewer.showing import csv_rows, means, record_of, shown

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_COOKIE = "rubrank-view"
_PAGE = 60  # rows of a list in one answer
_MOST_SAME = 60
_MOST_COMMON = 200
_MOST_CRITERIA = 1000
_KINDS = {".js": "text/javascript", ".css": "text/css"}


class Guard:
    """Refuses other host names, asks for the token where one is set, and adds the headers to every answer."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str], token: str | None) -> None:
        self.app, self.hosts, self.token = app, hosts, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] += [(k.encode(), v.encode()) for k, v in _HEADERS.items()]
            await send(message)

        refused = self._refused(Request(scope))
        await (refused or self.app)(scope, receive, with_headers)
        return None

    def _refused(self, request: Request) -> Response | None:
        name = request.headers.get("host", "").rsplit(":", 1)[0]
        if self.hosts and name not in self.hosts:
            return Response("This address is not served here.", 400)
        if self.token is None:
            return None
        given = request.query_params.get("token")
        if given is not None and hmac.compare_digest(given.encode(), self.token.encode()):
            answer = RedirectResponse(request.url.path, 303)
            answer.set_cookie(_COOKIE, self.token, httponly=True, samesite="strict")
            return answer
        if hmac.compare_digest(request.cookies.get(_COOKIE, "").encode(), self.token.encode()):
            return None
        return Response("A token is needed: open the address that `rubrank view` printed.", 401)


def make_app(runs: Sequence[ViewedRun], *, hosts: Sequence[str] = (), token: str | None = None) -> Starlette:
    """The application over some runs."""
    api = Api(runs)
    names = ("state", "groups", "place", "group", "same", "common", "curves", "export")
    routes = [Route(f"/api/{name}", _answering(getattr(api, name))) for name in names]
    routes += [Route("/", _page), Route("/assets/{name}", _asset)]
    return Starlette(routes=routes, middleware=[Middleware(Guard, hosts=hosts, token=token)])


def _answering(method: Callable[[Request], Any]) -> Callable[[Request], Response]:
    """Data as JSON; what was asked for and is not there as one clear line."""

    def answer(request: Request) -> Response:
        try:
            found = method(request)
        except (RubrankError, KeyError, IndexError, ValueError) as error:
            why = str(error) if isinstance(error, RubrankError | ValueError) else "no such run or group"
            return JSONResponse({"error": why}, 404 if isinstance(error, LookupError) else 400)
        return found if isinstance(found, Response) else _json(found)

    return answer


def _json(data: Any) -> Response:
    """Lone surrogates, which texts may hold, stay escaped."""
    return Response(json.dumps(data, allow_nan=False, separators=(",", ":")), media_type="application/json")


def _page(request: Request) -> Response:
    return Response(pages.asset("index.html", "rubrank.records.viewer"), media_type="text/html")


def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    for package in ("rubrank.records.viewer", "rubrank.records.pages"):
        folder = files(package) / "assets"
        if name.endswith(tuple(_KINDS)) and name in {item.name for item in folder.iterdir()}:
            return Response(pages.asset(name, package), media_type=_KINDS[name[name.rindex(".") :]])
    return Response("no such file", 404)


class Api:
    """What the page asks for."""

    def __init__(self, runs: Sequence[ViewedRun]) -> None:
        self.runs = runs
        self.finders = [GroupFinder(run) for run in runs]
        self.drawn: dict[int, tuple[Any, Any]] = {}

    def state(self, request: Request) -> Any:
        """The runs, how far they are read, and what can be filtered by."""
        for run in self.runs:
            run.make_way()
        return {"runs": [_run_state(run) for run in self.runs], "rules": [f"{name}+" for name in rule_names()]}

    def groups(self, request: Request) -> Any:
        """Rows of a list from `offset` on."""
        number, run = self._run(request)
        found = self.finders[number].find(_wanted(request))
        start = int(request.query_params.get("offset", 0))
        rows = [row_of(run, int(g)) for g in found.groups[max(0, start) : max(0, start) + _PAGE]]
        total = {"total": len(found.groups), "all": len(run.index), "ready": run.index.ready, "done": found.done}
        return {**total, "offset": start, "rows": rows, "epoch": run.epoch}

    def place(self, request: Request) -> Any:
        """Where a group stands in a list; −1: it is not in it."""
        number, _ = self._run(request)
        at = np.flatnonzero(self.finders[number].find(_wanted(request)).groups == int(request.query_params["g"]))
        return {"place": int(at[0]) if len(at) else -1}

    def group(self, request: Request) -> Any:
        """One group."""
        _, run = self._run(request)
        return shown(run.line(int(request.query_params["g"])), request.query_params.get("rule", ""))

    def same(self, request: Request) -> Any:
        """Groups of all runs that were asked the same, with what each made of it."""
        _, run = self._run(request)
        g = int(request.query_params["g"])
        if not 0 <= g < run.index.ready:
            return {"found": []}
        wanted = run.index.facts["same"][g]
        found: list[dict[str, Any]] = []
        for number, other in enumerate(self.runs):
            for at in np.flatnonzero(other.index.facts["same"] == wanted)[: _MOST_SAME - len(found)].tolist():
                record = record_of(other.line(at))
                best = max(range(record.size), key=record.reward.__getitem__, default=None)
                answer = record.responses[best] if record.responses and best is not None else None
                known = {"run": number, "name": other.name, "g": at, "step": record.step, "id": record.group}
                found.append({**known, "rule": record.rule, "means": means(record), "best": best, "answer": answer})
        return {"found": found}

    def common(self, request: Request) -> Any:
        """Prompts that two runs share, at the last time that each was asked; what differs most comes first."""
        pair = [self.runs[int(request.query_params.get(name, at))] for at, name in enumerate(("first", "second"))]
        found = common_prompts(pair[0].index, pair[1].index)
        return {"total": len(found), "common": [_shared(pair, *row) for row in found[:_MOST_COMMON]]}

    def curves(self, request: Request) -> Any:
        """Curves and steps of every run."""
        return [self._drawn(number) for number in range(len(self.runs))]

    def _drawn(self, number: int) -> Any:
        """Kept until there is something new."""
        run = self.runs[number]
        run.make_way()
        key = run.epoch, run.index.ready
        if self.drawn.get(number, (None,))[0] != key:
            found = {"name": run.name, **curves_of(run.index), "table": steps_of(run.index)}
            self.drawn[number] = key, shortened_numbers(found)
        return self.drawn[number][1]

    def export(self, request: Request) -> Any:
        """The groups of a list as a file: rollouts as CSV, or records as they are."""
        number, run = self._run(request)
        found = self.finders[number].find(_wanted(request))
        while found.done < 1.0:
            found = self.finders[number].find(_wanted(request))
        groups = found.groups.tolist()
        kind = request.query_params.get("format", "csv")
        made = _csv(run, groups) if kind == "csv" else (run.line(g) + b"\n" for g in groups)
        name = "groups.csv" if kind == "csv" else "groups.jsonl"
        media = "text/csv; charset=utf-8" if kind == "csv" else "application/jsonl"
        return StreamingResponse(
            made, media_type=media, headers={"content-disposition": f'attachment; filename="{name}"'}
        )

    def _run(self, request: Request) -> tuple[int, ViewedRun]:
        number = int(request.query_params.get("run", 0))
        if not 0 <= number < len(self.runs):
            raise IndexError(number)
        self.runs[number].make_way()
        return number, self.runs[number]


def _shared(pair: Sequence[ViewedRun], one: int, other: int, first: float, second: float) -> dict[str, Any]:
    rows = [row_of(run, g) for run, g in zip(pair, (one, other), strict=True)]
    known = {"id": rows[0]["id"], "title": rows[0]["title"], "groups": [one, other]}
    return {**known, "steps": [row["step"] for row in rows], "means": [round(first, 6), round(second, 6)]}


def _wanted(request: Request) -> Wanted:
    given = request.query_params
    step, value = given.get("step", ""), float(given.get("value") or 0.0)
    return Wanted(
        query=given.get("query", "")[:500],
        state=given.get("state", ""),
        criterion=given.get("criterion", ""),
        score=given.get("score") or "any",
        value=value if math.isfinite(value) else 0.0,
        step=int(step) if step else None,
        rule=given.get("rule_filter", ""),
        sort=given.get("sort") or "file",
    )


def row_of(run: ViewedRun, g: int) -> dict[str, Any]:
    """What a list shows of a group. Its prompt is read now; so are its facts, if the run is not read as far yet."""
    line = run.line(g)
    if g < run.index.ready:
        known = {name: run.index.facts[name][g].item() for name in ("step", "size", "spread", "bits", "stopped")}
    else:
        known = _facts_now(line)
    head = {"id": "", "title": "this line is no record"} if known["bits"] & UNREADABLE else _head(line)
    step = None if known["step"] == NO_STEP else known["step"]
    return {"g": g, **head, **known, "step": step, "spread": round(known["spread"], 4)}


def _facts_now(line: bytes) -> dict[str, Any]:
    try:
        found = group_facts(decoded(line))
    except (ValueError, RecursionError, TypeError):
        return {"step": NO_STEP, "size": 0, "spread": 0.0, "bits": UNREADABLE, "stopped": 0}
    return {name: found[name] for name in ("step", "size", "spread", "bits", "stopped")}


def _head(line: bytes) -> dict[str, str]:
    head = head_of(line)
    return {"id": head.group, "title": title_of(head.prompt)}


def _run_state(run: ViewedRun) -> dict[str, Any]:
    index = run.index
    steps = np.unique(index.facts["step"][: index.ready])
    known = {"name": run.name, "path": str(run.source), "version": run.version, "epoch": run.epoch}
    return {
        **known,
        **run.progress(),
        "problem": run.problem,
        "steps": steps[steps != NO_STEP].tolist(),
        "rollouts": int(index.facts["size"].sum()),
        "rules": list(index.rules),
        "criteria": sorted(_criteria(run)),
    }


def _criteria(run: ViewedRun) -> list[str]:
    """Names to filter by; where every query brings criteria of its own, those that most groups have."""
    counts = np.bincount(run.index.series["series"])
    names = [
        (name, at) for (kind, name), at in list(run.index.names.items()) if kind == "criterion" and at < len(counts)
    ]
    return [name for name, at in sorted(names, key=lambda item: -counts[item[1]])[:_MOST_CRITERIA]]


def _csv(run: ViewedRun, groups: Sequence[int]) -> Iterator[str]:
    """Columns are those of all criteria of the run; texts that a spreadsheet would compute are quoted."""
    names = [f"score: {name}" for kind, name in list(run.index.names) if kind == "criterion"]
    head = ["run", "number", "group", "step", "rule", "rollout", "reward", "ranking", "stopped_by", *names]
    out = io.StringIO()
    writer = csv.DictWriter(out, head, extrasaction="ignore")
    writer.writerow({name: _harmless(name) for name in head})
    for g in groups:
        for row in csv_rows(record_of(run.line(g)), run.name, g):
            writer.writerow({name: _harmless(value) for name, value in row.items()})
        yield out.getvalue().encode("utf-8", "replace").decode()
        out.seek(0)
        out.truncate()


def _harmless(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
