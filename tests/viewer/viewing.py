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

from rubrank.records.viewer.app import make_app
from rubrank.records.viewer.run import ViewedRun
from rubrank.records.viewer.serving import _LOCAL


class Viewer:
    """The viewer at an address."""

    def __init__(self, address: str, runs: list[ViewedRun]) -> None:
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

    def found(self, **params: Any) -> list[int]:
        """Numbers of the groups of a list, once a search is through."""
        for _ in range(200):
            answer = self.ask("groups", **params)
            if answer["done"] == 1.0:
                break
        return [row["g"] for row in answer["rows"]]


@contextmanager
def served(*paths: Path, token: str | None = None, live: bool = False) -> Iterator[Viewer]:
    """A viewer over some runs, all read; `live`: it goes on reading."""
    runs = [ViewedRun(path) for path in paths]
    for run in runs:
        run.catch_up()
        if live:
            run.start()
    listening = socket.create_server(("127.0.0.1", 0))
    app = make_app(runs, hosts=() if token else _LOCAL, token=token)
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
