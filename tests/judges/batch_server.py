"""A loopback server with the batch API: /files, /batches and their contents, as bad as it is told to be.

with BatchServer(answer) as server:         answer(body of a request) → (status, body), None = left unanswered
    server.url                              base_url of an endpoint
    server.paid                             bodies of all requests that were answered, in order
    server.states = ["validating", "in_progress", "completed"]      what a batch says at one look after another

python tests/judges/batch_server.py FOLDER      prints its address; what it is asked and pays goes to FOLDER/log
"""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Answering = Callable[[dict[str, Any]], "tuple[int, Any] | None"]


def completion(text: str, asked: int = 100, said: int = 20) -> tuple[int, Any]:
    """A chat completion."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return 200, {"choices": [choice], "usage": {"prompt_tokens": asked, "completion_tokens": said}}


def usual(body: dict[str, Any]) -> tuple[int, Any]:
    return completion(json.dumps({"reasoning": "so", "verdict": int("near" in body["messages"][-1]["content"])}))


class BatchServer:
    """The server, its files and batches, and what goes wrong."""

    def __init__(self, answer: Answering = usual) -> None:
        self.answer, self.states = answer, ["validating", "in_progress", "completed"]
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.paid: list[dict[str, Any]] = []
        self.asked: list[tuple[str, str]] = []
        self.faults: list[tuple[str, str, Any]] = []
        """(method, part of the path, what happens instead): a status, "cut", "drop after" …; each once, in order."""
        self.error: dict[str, Any] = {"code": "invalid", "message": "no"}
        self.backwards = self.twice = False
        self.log: Callable[[str], None] = lambda line: None
        self._lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                server.handle(self, "GET")

            def do_POST(self) -> None:
                server.handle(self, "POST")

            def log_message(self, *_: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    # ------------------------------------------------------------------------------------------------------- requests

    def handle(self, http: BaseHTTPRequestHandler, method: str) -> None:
        raw = http.rfile.read(int(http.headers.get("Content-Length") or 0)) if method == "POST" else b""
        if method == "POST" and http.headers.get("Transfer-Encoding") == "chunked":
            raw = _chunks(http.rfile)
        with self._lock:
            self.asked.append((method, http.path))
            fault = next((f for f in self.faults if f[0] == method and f[1] in http.path), None)
            if fault is not None:
                self.faults.remove(fault)
            what = None if fault is None else fault[2]
            if isinstance(what, int):
                _send(http, what, {"error": {"message": f"told to say {what}"}}, {"Retry-After": "0"})
                return
            status, body = self._answered(method, http.path, raw)
            self.log(f"{method} {http.path} {status}")
        if what == "drop":  # done, but the client does not hear of it
            http.close_connection = True
            return
        _send(http, status, body, cut=what == "cut", silent=what == "silent cut")

    def _answered(self, method: str, path: str, raw: bytes) -> tuple[int, Any]:
        path = path.partition("?")[0].removeprefix("/v1")
        if method == "POST" and path == "/files":
            id = f"file-{len(self.files)}"
            self.files[id] = _uploaded(raw)
            return 200, {"id": id, "object": "file", "purpose": "batch"}
        if method == "POST" and path == "/batches":
            return 200, self._made(json.loads(raw))
        if path == "/batches":
            return 200, {"data": list(self.batches.values()), "has_more": False}
        if path.startswith("/batches/") and path[9:] in self.batches:
            return 200, self._looked_at(self.batches[path[9:]])
        found = re.fullmatch(r"/files/([\w-]+)/content", path)
        if found and found[1] in self.files:
            return 200, self.files[found[1]]
        return 404, {"error": {"message": "no such thing"}}

    def _made(self, body: dict[str, Any]) -> dict[str, Any]:
        id = f"batch-{len(self.batches)}"
        self.batches[id] = {"id": id, "status": "validating", "looks": 0, **body}
        return self.batches[id]

    def _looked_at(self, batch: dict[str, Any]) -> dict[str, Any]:
        batch["status"] = self.states[min(batch["looks"], len(self.states) - 1)]
        batch["looks"] += 1
        if batch["status"] in ("completed", "expired", "cancelled") and "output_file_id" not in batch:
            self._work(batch)
        if batch["status"] == "failed":
            batch["errors"] = {"data": [self.error]}
        return batch

    def _work(self, batch: dict[str, Any]) -> None:
        good, bad = [], []
        for line in self.files[batch["input_file_id"]].splitlines():
            request = json.loads(line)
            assert request["url"] == "/v1/chat/completions"
            found = self.answer(request["body"])
            id = {"custom_id": request["custom_id"]}
            if found is None:
                if batch["status"] == "expired":
                    bad.append({**id, "response": None, "error": {"code": "batch_expired", "message": "expired"}})
                continue
            status, body = found
            (good if status == 200 else bad).append({**id, "response": {"status_code": status, "body": body}})
            if status == 200:
                self.paid.append(request["body"])
                self.log(f"paid {request['custom_id']}")
        good = (good[::-1] if self.backwards else good) + (good[:1] if self.twice else [])
        name = batch["id"]
        self.files[f"out-{name}"], self.files[f"bad-{name}"] = _lines(good), _lines(bad)
        batch["output_file_id"] = f"out-{name}" if good else None
        batch["error_file_id"] = f"bad-{name}" if bad else None
        batch["request_counts"] = {"completed": len(good), "total": len(good) + len(bad), "failed": len(bad)}


def _lines(objects: list[Any]) -> bytes:
    return "".join(json.dumps(one) + "\n" for one in objects).encode()


def _uploaded(raw: bytes) -> bytes:
    """The file of a form."""
    boundary = raw.partition(b"\r\n")[0]
    parts = raw.split(boundary)
    file = next(part for part in parts if b'name="file"' in part)
    assert any(b'name="purpose"' in part and b"batch" in part for part in parts)
    return file.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")


def _chunks(stream: Any) -> bytes:
    pieces = []
    while size := int(stream.readline(), 16):
        pieces.append(stream.read(size))
        stream.readline()
    stream.readline()
    return b"".join(pieces)


def _send(http: Any, status: int, body: Any, headers: Any = None, cut: bool = False, silent: bool = False) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    http.send_response(status)
    for name, value in (headers or {}).items():
        http.send_header(name, value)
    if silent:  # ends when the connection does, and nobody can know that it is too early
        http.send_header("Connection", "close")
    else:
        http.send_header("Content-Length", str(len(raw)))
    http.end_headers()
    http.wfile.write(raw[: len(raw) // 2] if cut or silent else raw)
    if cut or silent:
        http.close_connection = True


if __name__ == "__main__":
    with open(f"{sys.argv[1]}/log", "a", buffering=1, encoding="utf-8") as out, BatchServer() as running:
        running.log = lambda line: print(line, file=out)
        running.states = ["validating", *["in_progress"] * int(sys.argv[2]), "completed"]
        print(running.url, flush=True)
        sys.stdin.read()
