"""A viewer that is served, and questions to it."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from rubrank.viewer.labels import LabelFile
from rubrank.viewer.run import LiveRun
from rubrank.viewer.server import make_app

_LOCAL = ("localhost", "127.0.0.1")


class Viewer:
    """The viewer at an address."""

    def __init__(self, address: str, runs: list[LiveRun]) -> None:
        self.address, self.runs = address, runs

    def open(self, path: str, **headers: str) -> tuple[int, bytes, Any]:
        request = urllib.request.Request(self.address + path, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read(), answer.headers
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read(), error.headers

    def ask(self, name: str, **params: Any) -> Any:
        return json.loads(self.open(f"api/{name}?{urllib.parse.urlencode(params)}")[1])

    def search(self, query: str, run: int = 0) -> list[int]:
        """Numbers of the groups that hold the words, once the search is through."""
        hits: list[int] = []
        start = 0
        while True:
            answer = self.ask("search", run=run, query=query, start=start)
            hits += answer["hits"]
            start = answer["next"]
            if start >= answer["total"]:
                return hits


@contextmanager
def served(
    *paths: Path, token: str | None = None, live: bool = False, labels: Path | None = None, evaluation: Any = None
) -> Iterator[Viewer]:
    """A viewer over some runs, all read; `live`: it goes on reading."""
    runs = [LiveRun(path) for path in paths]
    for run in runs:
        run.read_everything()
        if live:
            run.start()
    listening = socket.create_server(("127.0.0.1", 0))
    label_file = None if labels is None else LabelFile(labels)
    hosts = () if token else _LOCAL
    app = make_app(runs, hosts=hosts, token=token, labels=label_file, evaluation=evaluation)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield Viewer(f"http://127.0.0.1:{listening.getsockname()[1]}/", runs)
    finally:
        server.should_exit = True
        thread.join(timeout=20)
        for run in runs:
            run.stop()


def wait_for(condition: Any, seconds: float = 30.0) -> Any:
    end = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.02)
    return found
