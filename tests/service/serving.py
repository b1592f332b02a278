"""A service on a real socket for tests: in a thread, or as the process that `rubrank serve` is."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

RUBRIC = ["EmptyAnswer", {"name": "WordCount", "params": {"low": 3}}, {"name": "SentenceCount", "params": {"low": 2}}]


@dataclass
class Served:
    """A service that listens."""

    url: str
    folder: Path
    process: subprocess.Popen[str] | None = None

    def call(
        self,
        path: str,
        body: Any = None,
        *,
        headers: dict[str, str] | None = None,
        raw: bytes | None = None,
        timeout: float = 60.0,
    ) -> tuple[int, Any, dict[str, str]]:
        """Status, JSON (or text) and headers of one request."""
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers or {})
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                return response.status, _read(response.read()), dict(response.headers)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _read(error.read()), dict(error.headers)

    def end(self, how: int = signal.SIGTERM, timeout: float = 30.0) -> int:
        """End the process; its exit code."""
        assert self.process is not None
        self.process.send_signal(how)
        return self.process.wait(timeout)

    def wait_ready(self, seconds: float = 120.0) -> None:
        end = time.monotonic() + seconds
        while self.call("/readyz")[0] != 200:
            assert time.monotonic() < end, "the service did not become ready"
            time.sleep(0.05)


def _read(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return data.decode("utf-8", "replace")


def config_at(folder: Path, **options: Any) -> Path:
    """A file of a service."""
    path = folder / "service.yaml"
    path.write_text(yaml.safe_dump({"rubric": RUBRIC, "port": 0, "group_size": 4, "deadline": 5.0, **options}))
    return path


@contextmanager
def serving(folder: Path, **options: Any) -> Iterator[Served]:
    """In a thread of this process."""
    from rubrank.service.config import load_service
    from rubrank.service.server import make_server

    config, where = load_service(config_at(folder, **options))
    server, listening, url = make_server(config, where)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])))
    thread.start()
    served = Served(url, folder)
    try:
        served.wait_ready()
        yield served
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()
        assert not thread.is_alive()


@contextmanager
def process(folder: Path, *arguments: str, env: dict[str, str] | None = None, **options: Any) -> Iterator[Served]:
    """As a process of its own, by the command line."""
    path = config_at(folder, **options)
    command = [sys.executable, "-m", "rubrank", "serve", str(path), *arguments]
    made = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})}
    )
    assert made.stderr is not None
    try:
        lines = []
        for line in made.stderr:
            lines.append(line)
            if "serving on" in line:
                break
        else:
            raise AssertionError(f"the service did not start: {''.join(lines)}")
        threading.Thread(target=made.stderr.read).start()
        served = Served(lines[-1].split()[-1], folder, made)
        served.wait_ready()
        yield served
    finally:
        if made.poll() is None:
            made.kill()
        made.wait(10)
        made.stderr.close()
