"""`rubrank view`: serve the page and its data from a local server. Everything is read; only labels are written.

    GET /                    the page                     GET /assets/NAME     its modules and style sheet
    GET /api/state           runs, how far they are read  GET /api/index       rows of the list, from `start` on
    GET /api/scores          scores of one criterion      GET /api/search      groups with some words, from `start` on
    GET /api/group           one group, with changes      GET /api/same        the same prompt elsewhere
    GET /api/curves          means over steps             GET /api/common      prompts that two runs share
    GET /api/summary         figures over all groups      GET /api/compare     differences of two runs, with intervals
    GET /api/evaluation      benchmarks                   GET /api/export      groups as CSV or JSON lines
    POST /api/label          accept or correct a verdict

The headers of every response allow only the page's own scripts, styles and connections. Requests for another host name
are refused, so that no website can point its own name at this server to read from it (DNS rebinding). Labels are
accepted only as JSON, which a page of another origin cannot send. If the server can be reached from other machines,
requests need a token.
"""

from __future__ import annotations

import csv
import hmac
import io
import ipaddress
import json
import math
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import uvicorn
from pydantic import Field
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rubrank._plain import Strict, validate_model
from rubrank.drafting.page import make_page, read_drafts, read_style
from rubrank.errors import InvalidInput, RubrankError
from rubrank.evaluation.table import report_data
from rubrank.fusion.rules import rule_names
from rubrank.records.files import name_runs, parse_record
from rubrank.records.record import GroupRecord
from rubrank.viewer.changes import fuse_changed, read_changes
from rubrank.viewer.figures import GroupArrays, measure_responses, to_plain_numbers
from rubrank.viewer.group_data import find_best, make_group_data
from rubrank.viewer.index import compare_runs, find_common_prompts, make_curves
from rubrank.viewer.labels import LabelFile
from rubrank.viewer.report import read_asset
from rubrank.viewer.run import LiveRun
from rubrank.viewer.sources import SourceOptions, open_source
from rubrank.viewer.summary import RunSummary

# A few viewers may run at the same time; more than twenty busy ports in a row mean that something else is wrong.
_PORTS_TRIED = 20
_LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]", "::1")
# The name of the cookie that holds the token.
_COOKIE = "rubrank-view"
_MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css"}
# Characters of a text: unlike a report, the server cuts none that a model could have written.
_WHOLE_TEXT = 10_000_000
# Groups with the same prompt that are listed. Each comes with its best response, so the size must be bounded.
_MOST_SAME = 60
# Prompts of two runs that are listed, by the size of their difference.
_MOST_COMMON = 200
# A request for "0-999999999999" must not fill the memory.
_MOST_GROUPS = 10_000_000
# Bytes of a request that sets a label.
_LONGEST_LABEL = 10_000
# How long one request may search: the page shows hits as they come, and other requests are not kept waiting.
_SEARCH_SECONDS = 0.2
_SEARCHED_FIELDS = ("group", "reasons", "prompt", "turns", "responses", "reasoning")
# Groups of a long run that the summary reads: about five seconds, at 2 ms for a group of 8 rollouts.
_MOST_SUMMARIZED = 2000
# Sent with every response. The policy keeps a response text that smuggles in markup from running or fetching anything.
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def serve(
    sources: Sequence[Path],
    *,
    host: str,
    port: int,
    on_ready: Callable[[str], None],
    options: SourceOptions | None = None,
    labels: Path | None = None,
) -> None:
    """Serve until Ctrl-C. on_ready is called with the address once it is known.

    options: how to read sources that are not records. labels: the file that labels are written to.
    Raises InvalidInput for a source that cannot be shown, and if no port is free.
    """
    label_file = None if labels is None else LabelFile(labels)
    with ExitStack() as cleanup:
        options = options or SourceOptions()
        opened = [open_source(source, options, cleanup) for source in sources]
        with_records = [source for source in opened if source.records is not None]
        names = name_runs([source.path for source in with_records])
        runs = []
        for source, name in zip(with_records, names, strict=True):
            assert source.records is not None
            run = LiveRun(source.records, name, feed=source.feed)
            cleanup.callback(run.stop)
            run.start()
            runs.append(run)
        scored_runs = [run for source in opened for run in source.evaluation]
        evaluation = report_data(scored_runs) if scored_runs else None
        make_application = partial(make_app, runs, evaluation=evaluation, labels=label_file)
        serve_app(make_application, host=host, port=port, on_ready=on_ready)


def serve_app(
    make_application: Callable[..., Starlette],
    *,
    host: str,
    port: int,
    on_ready: Callable[[str], None],
) -> None:
    """Serve an application until Ctrl-C.

    make_application: called with `hosts`, the names that it may answer to (empty for any), and `token`, which every
        request must have (None: it needs none). Only an address of this machine is served without a token.
    """
    try:
        is_loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # the name of a host
        is_loopback = False
    # Whoever reaches the address can read all texts, so beyond this machine a secret is needed.
    token = None if is_loopback else secrets.token_urlsafe(24)
    listening = _open_socket(host, port)
    app = make_application(hosts=_LOCAL_NAMES if token is None else (), token=token)
    config = uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    on_ready(make_address(host, listening.getsockname()[1], token))
    server.run(sockets=[listening])


def make_address(host: str, port: int, token: str | None) -> str:
    """Return the address to open in a browser."""
    name = f"[{host}]" if ":" in host else host
    query = f"?token={token}" if token else ""
    return f"http://{name}:{port}/{query}"


def _open_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens at the port, or at the next free one; port 0 takes any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    candidates = [port] if port == 0 else range(port, min(65536, port + _PORTS_TRIED))
    problem = ""
    for candidate in candidates:
        listening = socket.socket(family)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, candidate))
            listening.listen(128)  # a browser that comes before the server is up waits
            return listening
        except OSError as error:
            listening.close()
            problem = (error.strerror or str(error)).lower()
    raise InvalidInput("view", "port", "an address that is free", f"{host}:{port}: {problem}")


# ------------------------------------------------------------------------------------- the application


def make_app(
    runs: Sequence[LiveRun],
    *,
    hosts: Sequence[str] = (),
    token: str | None = None,
    evaluation: Any = None,
    labels: LabelFile | None = None,
) -> Starlette:
    """Make the application that shows some runs. hosts: names under which it may be reached; empty for any.

    evaluation: what `rubrank.evaluation.table.report_data` makes of scored runs.
    """
    api = ViewerApi(runs, evaluation, labels)
    handlers = {
        "state": api.get_state,
        "index": api.list_rows,
        "scores": api.list_scores,
        "search": api.search,
        "group": api.get_group,
        "same": api.list_same_prompt,
        "common": api.list_common_prompts,
        "curves": api.make_curves,
        "compare": api.compare,
        "summary": api.summarize,
        "evaluation": api.get_evaluation,
        "export": api.export,
    }
    routes = []
    for name, handler in handlers.items():
        routes.append(Route(f"/api/{name}", _make_json_endpoint(handler)))
    routes.append(Route("/api/label", api.put_label, methods=["POST"]))
    page = Response(read_asset("index.html"), media_type="text/html")
    routes.append(Route("/", lambda request: page))
    routes.append(Route("/assets/{name}", _serve_asset))
    return Starlette(
        routes=routes, middleware=[Middleware(AccessMiddleware, hosts=hosts, token=token)]
    )


class AccessMiddleware:
    """Refuses other host names, asks for the token if there is one, and adds the security headers."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str], token: str | None) -> None:
        self.app = app
        self.hosts = hosts
        self.token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] += [
                    (name.encode(), value.encode()) for name, value in _HEADERS.items()
                ]
            await send(message)

        refusal = self._refuse(Request(scope))
        handler = refusal or self.app
        await handler(scope, receive, send_with_headers)

    def _refuse(self, request: Request) -> Response | None:
        """Return the response to a request that may not pass; None if it may."""
        # Another site may point its own name at this machine; the Host header then has that name.
        host = request.headers.get("host", "").rsplit(":", 1)[0]
        if self.hosts and host not in self.hosts:
            return Response("This address is not served here.", 400)
        if self.token is None:
            return None
        offered = request.query_params.get("token")
        if offered is not None and hmac.compare_digest(offered.encode(), self.token.encode()):
            # The token moves from the address into a cookie, so that it does not end up in links.
            redirect = RedirectResponse(request.url.path, 303)
            redirect.set_cookie(_COOKIE, self.token, httponly=True, samesite="strict")
            return redirect
        if hmac.compare_digest(request.cookies.get(_COOKIE, "").encode(), self.token.encode()):
            return None
        return Response("A token is needed: open the address that `rubrank view` printed.", 401)


def _make_json_endpoint(handler: Callable[[Request], Any]) -> Callable[[Request], Response]:
    """Return an endpoint that answers with the handler's data as JSON, and to a wrong request with one line."""

    def handle(request: Request) -> Response:
        try:
            data = handler(request)
        except LookupError:
            return JSONResponse({"error": "no such run or group"}, 404)
        except (RubrankError, ValueError) as error:
            return JSONResponse({"error": str(error)}, 400)
        if isinstance(data, Response):
            return data
        # Lone surrogates, which texts may hold, stay escaped: JSONResponse would fail on them.
        text = json.dumps(data, allow_nan=False, separators=(",", ":"))
        return Response(text, media_type="application/json")

    return handle


def _serve_asset(request: Request) -> Response:
    name = request.path_params["name"]
    suffix = Path(name).suffix
    known_names = {item.name for item in (files("rubrank.viewer") / "assets").iterdir()}
    if suffix not in _MEDIA_TYPES or name not in known_names:
        return Response("no such file", 404)
    return Response(read_asset(name), media_type=_MEDIA_TYPES[suffix])


class LabelBody(Strict):
    """The body of `POST /api/label`: what a person says the score of a rollout should be."""

    run: int = Field(ge=0)
    g: int
    """Number of the group in the run."""
    rollout: int
    criterion: str
    score: float | None
    """None removes the label."""


class ViewerApi:
    """The data that the page asks for: one method for each address, which takes a request and returns plain data.

    IndexError and KeyError become 404, RubrankError and ValueError 400 (see `_make_json_endpoint`).
    """

    def __init__(
        self, runs: Sequence[LiveRun], evaluation: Any = None, labels: LabelFile | None = None
    ) -> None:
        self._runs = runs
        self._evaluation = to_plain_numbers(evaluation)
        self._labels = labels
        self._cache: dict[tuple[Callable[[LiveRun], Any], LiveRun], tuple[Any, Any]] = {}
        """(function, run) → (state of the run, result of the function)."""

    def get_state(self, request: Request) -> Any:
        """Return the runs, how far they are read, and what can be filtered by."""
        labels = None
        if self._labels is not None:
            labels = {"path": str(self._labels.path), "count": self._labels.count()}
        return {
            "runs": [_describe_run(run) for run in self._runs],
            "rules": [f"{name}+" for name in rule_names()],
            "has_evaluation": self._evaluation is not None,
            "labels": labels,
        }

    def list_rows(self, request: Request) -> Any:
        """Return the rows of the list from `start` on."""
        run = self._find_run(request)
        start = int(request.query_params.get("start", 0))
        return {"epoch": run.epoch, **run.index.list_rows(max(0, start))}

    def list_scores(self, request: Request) -> Any:
        """Return the lowest and highest score of a criterion in every group."""
        run = self._find_run(request)
        return run.index.list_scores(request.query_params["criterion"])

    def search(self, request: Request) -> Any:
        """Return the groups from `start` on whose texts hold the query.

        One request searches for `_SEARCH_SECONDS` and says in `next` where the page may go on.
        """
        run = self._find_run(request)
        words = request.query_params["query"][:500].strip().casefold()
        start = max(0, int(request.query_params.get("start", 0)))
        end = time.monotonic() + _SEARCH_SECONDS
        hits = []
        g = start
        total = len(run.index)
        while g < total and time.monotonic() < end:
            if _has_words(run.read_line(g), words):
                hits.append(g)
            g += 1
        return {"hits": hits, "next": g, "total": total, "epoch": run.epoch}

    def get_group(self, request: Request) -> Any:
        """Return one group, as recorded or with changes: another rule, other weights, gates or λ."""
        run = self._find_run(request)
        g = int(request.query_params["g"])
        record = _parse_record(run.read_line(g))
        changes = read_changes(request.query_params.get("changes", ""))
        shown_record = record
        notes: Sequence[str] = ()
        if changes:
            changed = fuse_changed(record, changes)
            shown_record = changed.record
            notes = changed.notes
        data = make_group_data(shown_record, _WHOLE_TEXT)
        data["recorded"] = {
            "rule": record.rule,
            "reward": list(record.reward),
            "weights": list(record.weights),
            "layers": {criterion.name: criterion.layer for criterion in record.criteria},
        }
        data["is_changed"] = bool(changes)
        data["notes"] = list(notes)
        if self._labels is not None:
            data["labels"] = self._labels.list_group(_name_labelled(run, record), record.size)
        return data

    async def put_label(self, request: Request) -> Response:
        """Accept or correct a verdict: {"run", "g", "rollout", "criterion", "score"}; score null removes the label."""
        if request.headers.get("content-type") != "application/json":
            return JSONResponse({"error": "send labels as application/json"}, 415)
        # A longer body is cut, so that it cannot be parsed and is refused.
        body = (await request.body())[:_LONGEST_LABEL]
        endpoint = _make_json_endpoint(lambda _: self._write_label(json.loads(body)))
        # In a thread, so that writing the file does not block other requests.
        return await run_in_threadpool(endpoint, request)

    def _write_label(self, data: Any) -> Any:
        """Write a label; returns all labels of its group. data: the body of the request."""
        if self._labels is None:
            remedy = "Start it with `rubrank view … --labels FILE`."
            raise InvalidInput("view", "labels", "a file", "none", remedy)
        label = validate_model(LabelBody, data, "view", "viewer")
        run = self._runs[label.run]
        record = _parse_record(run.read_line(label.g))
        group = _name_labelled(run, record)
        self._labels.put(
            record,
            group=group,
            rollout=label.rollout,
            criterion=label.criterion,
            score=label.score,
        )
        return {
            "labels": self._labels.list_group(group, record.size),
            "count": self._labels.count(),
        }

    def compare(self, request: Request) -> Any:
        """Return how two runs differ on the prompts that they share."""
        first = self._find_run(request, "first", 0)
        second = self._find_run(request, "second", 1)
        return to_plain_numbers(compare_runs(first.index, second.index))

    def get_evaluation(self, request: Request) -> Any:
        """Return the benchmarks, as `report_data` makes them; None if there are none."""
        return self._evaluation

    def list_same_prompt(self, request: Request) -> Any:
        """Return the groups of all runs with the same prompt, each with its mean scores and its best response."""
        run = self._find_run(request)
        g = int(request.query_params["g"])
        if not 0 <= g < len(run.index):
            return {"groups": []}
        prompt = run.index.facts["prompt"][g]
        groups: list[dict[str, Any]] = []
        for number, other_run in enumerate(self._runs):
            same = other_run.index.facts.filter(prompt=prompt)["group"]
            for at in same.head(_MOST_SAME - len(groups)):
                record = _parse_record(other_run.read_line(at))
                means = other_run.index.series.filter(kind="criterion", group=at)
                best = min(find_best(record.reward), default=None)
                response = None
                if record.responses and best is not None:
                    response = record.responses[best]
                group = {
                    "run": number,
                    "name": other_run.name,
                    "g": at,
                    "step": record.step,
                    "id": record.group,
                    "rule": record.rule,
                    "means": dict(zip(means["name"], means["mean"], strict=True)),
                    "best": best,
                    "response": response,
                }
                groups.append(group)
        return {"groups": to_plain_numbers(groups)}

    def list_common_prompts(self, request: Request) -> Any:
        """Return the prompts that two runs share, at the last time each was asked; largest differences come first."""
        first = self._find_run(request, "first", 0)
        second = self._find_run(request, "second", 1)
        pairs = find_common_prompts(first.index, second.index)
        rows = []
        for first_g, second_g, first_mean, second_mean in pairs[:_MOST_COMMON]:
            row = {
                "id": first.index.ids[first_g],
                "title": first.index.titles[first_g],
                "groups": [first_g, second_g],
                "steps": [first.index.facts["step"][first_g], second.index.facts["step"][second_g]],
                "means": [round(first_mean, 6), round(second_mean, 6)],
            }
            rows.append(row)
        return {"total": len(pairs), "common": rows}

    def make_curves(self, request: Request) -> Any:
        """Return the curves and the table of steps of every run."""
        return [self._compute_once(_compute_curves, run) for run in self._runs]

    def summarize(self, request: Request) -> Any:
        """Return the figures over all groups of a run, or over a sample of a long one."""
        return self._compute_once(_compute_summary, self._find_run(request))

    def export(self, request: Request) -> Any:
        """Return groups as a file: CSV with a row per rollout, or the unchanged records.

        The parameter `groups` lists them, such as "0-59,61"; without it, all are exported.
        """
        run = self._find_run(request)
        listed = request.query_params.get("groups", "")
        groups = read_ranges(listed) if listed else list(range(run.count_lines()))
        if max(groups, default=-1) >= run.count_lines():
            raise IndexError(max(groups))
        if request.query_params.get("format", "csv") == "csv":
            body: Any = _write_csv(run, groups)
            name = "groups.csv"
            media_type = "text/csv; charset=utf-8"
        else:
            body = (run.read_line(g) + b"\n" for g in groups)
            name = "groups.jsonl"
            media_type = "application/jsonl"
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return StreamingResponse(body, media_type=media_type, headers=headers)

    def _find_run(self, request: Request, name: str = "run", default: int = 0) -> LiveRun:
        """Return the run whose number is a parameter of the request; raises IndexError if there is none."""
        number = int(request.query_params.get(name, default))
        if not 0 <= number < len(self._runs):
            raise IndexError(number)
        return self._runs[number]

    def _compute_once(self, compute: Callable[[LiveRun], Any], run: LiveRun) -> Any:
        """Return what a function computes for a run; it is called again only after new records."""
        run_state = (run.epoch, len(run.index))
        cached_state, result = self._cache.get((compute, run), (None, None))
        if cached_state != run_state:
            result = compute(run)
            self._cache[compute, run] = (run_state, result)
        return result


def read_ranges(text: str) -> list[int]:
    """Return [0, 1, 2, 7] for "0-2,7"; raises ValueError for other texts, and for numbers from `_MOST_GROUPS` on."""
    numbers: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if int(last or first) >= _MOST_GROUPS:
            raise ValueError(f"groups must be below {_MOST_GROUPS:,}")
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


def _describe_run(run: LiveRun) -> dict[str, Any]:
    """Return what the page shows of a run before any group: names, how far it is read, problems."""
    return {
        "name": run.name,
        "path": str(run.source),
        "version": run.version,
        "epoch": run.epoch,
        "problem": run.problem or (run.feed.problem if run.feed else ""),
        "grading": [run.feed.done, run.feed.total] if run.feed else None,
        **run.index.describe(),
        **run.describe(),
    }


def _compute_curves(run: LiveRun) -> Any:
    return to_plain_numbers({"name": run.name, **make_curves(run.index)})


def _compute_summary(run: LiveRun) -> Any:
    """Summarize at most `_MOST_SUMMARIZED` groups, evenly spread over the run."""
    readable = run.index.find_readable()["group"]
    chosen = readable.gather_every(max(1, math.ceil(len(readable) / _MOST_SUMMARIZED)))
    summary = RunSummary()
    for g in chosen:
        record = _parse_record(run.read_line(g))
        summary.add(GroupArrays(record, measure_responses(record)))
    return {**summary.summarize(), "sampled": {"groups": len(chosen), "of": len(readable)}}


def _name_labelled(run: LiveRun, record: GroupRecord) -> str:
    """Return the id of a group in a file of labels; its step is added if the run has the group several times."""
    if run.index.ids.count(record.group) > 1:
        return f"{record.group} (step {record.step})"
    return record.group


def _parse_record(line: bytes) -> GroupRecord:
    return parse_record(line.decode("utf-8", "surrogatepass"), "the record")


def _has_words(line: bytes, words: str) -> bool:
    """Return whether a text of the record holds the words, whatever their case. words: in lower case."""
    try:
        record = json.loads(line)
        names = [criterion["name"] for criterion in record["criteria"]]
        waiting = [names, *(record.get(field) for field in _SEARCHED_FIELDS)]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return False  # not a record
    # Texts are nested in lists and messages. A stack instead of recursion: a line may be nested very deeply.
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            if words in value.casefold():
                return True
        elif isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return False


def _write_csv(run: LiveRun, groups: Sequence[int]) -> Iterator[str]:
    """Yield CSV, group by group, with one row per rollout: reward, ranking, gate, every score."""
    names: dict[str, None] = {}
    for criteria in list(run.index.criteria_sets):  # a copy: another thread may add to it
        names.update(dict.fromkeys(criteria))
    columns = ["run", "number", "group", "step", "rule", "rollout", "reward", "ranking"]
    columns += ["stopped_by", *(f"score: {name}" for name in names)]
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, restval="")
    writer.writerow({name: _escape_formula(name) for name in columns})
    for g in groups:
        try:
            record = _parse_record(run.read_line(g))
        except RubrankError:
            continue  # a line that is not a record has no rollouts
        for i, reward in enumerate(record.reward):
            row: dict[str, Any] = {
                "run": run.name,
                "number": g,
                "group": record.group,
                "step": record.step,
                "rule": record.rule,
                "rollout": i,
                "reward": reward,
                "ranking": record.ranking[i],
                "stopped_by": "; ".join(record.gate.stopped_by[i]) if record.gate else "",
            }
            for k, criterion in enumerate(record.criteria):
                row[f"score: {criterion.name}"] = record.scores[i][k]
            writer.writerow({name: _escape_formula(value) for name, value in row.items()})
        yield buffer.getvalue().encode("utf-8", "replace").decode()
        buffer.seek(0)
        buffer.truncate()


def _escape_formula(value: Any) -> Any:
    """Return the value; a text that a spreadsheet would compute gets an apostrophe in front."""
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return f"'{value}"
    return value


# --------------------------------------------------------------------------------------- drafted rubrics


def serve_drafts(source: Path, *, host: str, port: int, on_ready: Callable[[str], None]) -> None:
    """Serve a file of drafted rubrics until Ctrl-C."""
    read_drafts(source)  # a file that cannot be shown is refused before the address is printed
    serve_app(partial(make_drafts_app, source), host=host, port=port, on_ready=on_ready)


def make_drafts_app(source: Path, hosts: Sequence[str] = (), token: str | None = None) -> Starlette:
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
